"""The rates with which some interval meets all targets, where the interval may be chosen too."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from sizing.run.requirements.asked import INTERVAL, WRITE_RATE, Asked, Solution
from sizing.run.requirements.joint import GOODPUT, free_interval_solution


class AtFreeInterval(BaseModel):
    """Rates that meet every target that storage can meet, none above those needed, and the interval to take."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    write_bytes_per_second: float = Field(
        description="Write rate of the file system, in bytes per second. With it, together_with and interval_seconds "
        "all targets are met but those of targets_beyond_storage. No rate is above that of needed; all are equal where "
        "another interval saves nothing."
    )
    interval_seconds: float = Field(description="Interval to take with it, in seconds from start to start.")
    together_with: dict[str, float] = Field(
        default_factory=dict,
        description="Other rates that go with it, in bytes per second, by dotted path in the scenario.",
    )
    stall_seconds: float = Field(description="Seconds for which training then waits in each save.")
    overhead_fraction: float = Field(description="Fraction of the time for which saves then stall training.")
    goodput_fraction: float = Field(description="Fraction of the time that is then useful work (goodput, ETTR).")


def at_free_interval(asked: Asked, targets: tuple[str, ...], fixed: Solution | None) -> AtFreeInterval | None:
    """The rates when the interval is free, at or below those of the solution that keeps it where it can.

    None where the targets that can be met have none on goodput, where they have no solution, or with no write rate.
    """
    if fixed is None or GOODPUT not in targets:
        return None
    values = free_interval_solution(asked, targets, fixed).values
    found = asked.at(values)
    rate = values.get(WRITE_RATE, asked.given(WRITE_RATE))
    if rate is None or found.write is None:
        return None
    return AtFreeInterval(
        write_bytes_per_second=rate,
        interval_seconds=found.interval.interval_seconds,
        together_with={field: value for field, value in values.items() if field not in (WRITE_RATE, INTERVAL)},
        stall_seconds=found.write.stall_seconds,
        overhead_fraction=found.overhead.fraction or 0.0,
        goodput_fraction=found.interval.goodput_at_interval_fraction or 0.0,
    )
