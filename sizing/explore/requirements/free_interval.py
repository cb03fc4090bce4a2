"""The min rates with which some interval meets all targets, where the interval may be chosen too."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from sizing.run.requirements.asked import INTERVAL, WRITE_RATE, Asked
from sizing.run.requirements.joint import GOODPUT, TARGETS_OF, free_interval_solution


class AtFreeInterval(BaseModel):
    """The min write rate that meets every target on stall, overhead and goodput, and the interval to take with it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    write_bytes_per_second: float = Field(
        description="Min write rate with which some interval meets all targets, in bytes per second."
    )
    interval_seconds: float = Field(description="Interval to take with it, in seconds from start to start.")
    together_with: dict[str, float] = Field(
        default_factory=dict, description="Other min rates that go with it, by dotted path in the scenario."
    )
    stall_seconds: float = Field(description="Seconds for which training then waits in each save.")
    overhead_fraction: float = Field(description="Fraction of the time for which saves then stall training.")
    goodput_fraction: float = Field(description="Fraction of the time that is then useful work (goodput, ETTR).")


def at_free_interval(asked: Asked) -> AtFreeInterval | None:
    """The min write rate when the interval is free, or None without a goodput target or where none is enough.

    Goodput has its max at the optimal interval, and overhead needs an interval of stall / overhead or more. So for each
    rate the longer of the two is the interval to try. Both fall with the rate.
    """
    if not asked.asks(GOODPUT):
        return None
    targets = tuple(target for target in (*TARGETS_OF["write"], GOODPUT) if asked.asks(target))
    solution = free_interval_solution(asked, targets)
    if solution is None:
        return None
    found = asked.at(solution.values)
    assert found.write is not None  # noqa: S101  the goodput was found
    return AtFreeInterval(
        write_bytes_per_second=solution.values[WRITE_RATE],
        interval_seconds=solution.values[INTERVAL],
        together_with={field: value for field, value in solution.values.items() if field not in (WRITE_RATE, INTERVAL)},
        stall_seconds=found.write.stall_seconds,
        overhead_fraction=found.overhead.fraction or 0.0,
        goodput_fraction=found.interval.goodput_at_interval_fraction or 0.0,
    )
