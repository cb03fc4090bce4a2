"""The least rates that meet the targets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from sizing.layout import LaidOut, Parallelism
from sizing.run.demands import restore_demands, write_demand
from sizing.run.targets import Targets
from sizing.storage.limits import Demand, Direction, serial_steps
from sizing.storage.storage import ResolvedStorage
from sizing.storage.transfer import Numbers


class Required(BaseModel):
    """The `required` block of the report: rates over all nodes, None where no rate is enough.

    `restore_bytes_per_second` is also None where no recovery target is set.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    write_bytes_per_second: float | None
    write_per_node_bytes_per_second: float | None
    write_target: str
    write_seconds: float = Field(description="that the target allows")
    restore_bytes_per_second: float | None


def least_bytes_per_second(total_bytes: Numbers, *, seconds: Numbers, serial_seconds: Numbers = 0.0) -> Numbers:
    """Rate at which B bytes pass in t seconds of which s are serial: B / (t - s); inf where t <= s.

    Source: `storage.transfer.transfer_seconds`, solved for the rate.

    >>> round(float(least_bytes_per_second(13.8e12, seconds=0.05 * 14400)) / 1e9, 2)
    19.17
    """
    left = np.subtract(seconds, serial_seconds)
    return np.where(left > 0, np.divide(total_bytes, np.where(left > 0, left, 1.0)), np.inf)


def required_of(
    targets: Targets,
    *,
    interval_seconds: float,
    laid_out: LaidOut,
    storage: ResolvedStorage | None,
    parallelism: Parallelism,
) -> Required:
    """The least write rate for the overhead and stall targets, and read rate for the recovery target."""
    allowed = {"max_overhead_fraction": targets.max_overhead_fraction * interval_seconds}
    if targets.max_stall_seconds is not None:
        allowed["max_stall_seconds"] = targets.max_stall_seconds
    target = min(allowed, key=lambda name: allowed[name])
    write = _rate(storage, [write_demand(laid_out)], allowed[target], direction="write")
    return Required(
        write_bytes_per_second=write,
        write_per_node_bytes_per_second=write / laid_out.layout.num_writing_nodes if write else None,
        write_target=target,
        write_seconds=allowed[target],
        restore_bytes_per_second=(
            _rate(storage, restore_demands(laid_out, parallelism), targets.recovery_seconds, direction="read")
            if targets.recovery_seconds is not None
            else None
        ),
    )


def required_warnings(required: Required, targets: Targets) -> Iterator[str]:
    """Which targets no rate can meet."""
    no_rate = "no rate meets it: the serial steps alone take longer"
    if required.write_bytes_per_second is None:
        yield f"targets.{required.write_target}: {no_rate}"
    if targets.recovery_seconds is not None and required.restore_bytes_per_second is None:
        yield f"targets.recovery_seconds: {no_rate}"


def _rate(
    storage: ResolvedStorage | None, demands: Sequence[Demand], seconds: float, *, direction: Direction
) -> float | None:
    serial = sum(serial_steps(storage.profile, demands, direction=direction).values(), 0.0) if storage else 0.0
    total_bytes = sum(demand.total_bytes for demand in demands)
    rate = float(least_bytes_per_second(total_bytes, seconds=seconds, serial_seconds=serial))
    return rate if np.isfinite(rate) else None
