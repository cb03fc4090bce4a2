"""The least rates that meet the targets."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence

import numpy as np
from pydantic import Field

from sizing.layout import Checkpoint
from sizing.run.demands import Demands
from sizing.run.figures import Figures
from sizing.run.targets import Targets
from sizing.storage.limits import Demand, Direction, longest, serial_steps
from sizing.storage.profile import StorageProfile
from sizing.storage.transfer import Numbers


class Required(Figures):
    """The `required` block of the report: rates over all nodes, None where no rate is enough.

    `restore_bytes_per_second` is also None where no recovery target is set.
    """

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
    targets: Targets, *, demands: Demands, profile: StorageProfile | None, checkpoint: Checkpoint
) -> Required:
    """The least write rate for the overhead and stall targets, and read rate for the recovery target."""
    allowed: dict[str, Numbers] = {"max_overhead_fraction": targets.max_overhead_fraction * checkpoint.interval_seconds}
    if targets.max_stall_seconds is not None:
        allowed["max_stall_seconds"] = targets.max_stall_seconds
    seconds = functools.reduce(np.minimum, allowed.values())
    write = _rate(profile, [demands.write], seconds, direction="write")
    return Required.of(
        write_bytes_per_second=write,
        write_per_node_bytes_per_second=write / demands.num_writing_nodes,
        write_target=longest({name: -limit for name, limit in allowed.items()}),
        write_seconds=seconds,
        restore_bytes_per_second=(
            _rate(profile, demands.restore, targets.recovery_seconds, direction="read")
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
    profile: StorageProfile | None, demands: Sequence[Demand], seconds: Numbers, *, direction: Direction
) -> Numbers:
    """The least rate, NaN where none is enough."""
    serial = sum(serial_steps(profile, demands, direction=direction).values(), start=0.0) if profile else 0.0
    total_bytes = sum(demand.total_bytes for demand in demands)
    rate = least_bytes_per_second(total_bytes, seconds=seconds, serial_seconds=serial)
    return np.where(np.isfinite(rate), rate, np.nan)
