"""The least rates that meet the targets."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

import numpy as np
from pydantic import Field

from sizing.run.checkpoint import Checkpoint
from sizing.run.demands import Demands
from sizing.run.failures import Reliability, seconds_before_reading
from sizing.run.figures import Figures
from sizing.run.restore import exchange_of
from sizing.run.targets import Targets
from sizing.storage.limits import Demand, Direction, longest, serial_steps
from sizing.storage.profile import StorageProfile
from sizing.storage.transfer import Numbers

WriteTarget = Literal["max_overhead_fraction", "max_stall_seconds", "interval_seconds"]


class Required(Figures):
    """The `required` block of the report: rates over all nodes, None where no rate is enough.

    `restore_bytes_per_second` is also None where no recovery target is set. Asynchronous saving must drain within the
    interval, which decides its write rate; what stalls it is the copy from GPU to host.
    """

    write_bytes_per_second: float | None
    write_per_node_bytes_per_second: float | None
    write_target: WriteTarget
    write_seconds: float = Field(description="that the target allows")
    device_to_host_bytes_per_second: float | None = Field(None, description="of one GPU, with mode async")
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
    demands: Demands,
    profile: StorageProfile | None,
    checkpoint: Checkpoint,
    reliability: Reliability | None,
) -> Required:
    """The least write rate for the overhead and stall targets, and read rate for the recovery target."""
    stall: dict[WriteTarget, Numbers] = {
        "max_overhead_fraction": targets.max_overhead_fraction * checkpoint.interval_seconds
    }
    if targets.max_stall_seconds is not None:
        stall["max_stall_seconds"] = targets.max_stall_seconds
    is_async = checkpoint.mode == "async"
    allowed: dict[WriteTarget, Numbers] = {"interval_seconds": checkpoint.interval_seconds} if is_async else stall
    seconds, allowed_stall = _least(allowed), _least(stall)
    write = _rate(profile, [demands.write], seconds, direction="write")
    copy = demands.written_bytes / (demands.write.num_streams * allowed_stall) if is_async else None
    return Required.of(
        write_bytes_per_second=write,
        write_per_node_bytes_per_second=write / demands.num_writing_nodes,
        write_target=longest({name: -limit for name, limit in allowed.items()}),
        write_seconds=seconds,
        device_to_host_bytes_per_second=copy,
        restore_bytes_per_second=_restore_rate(targets, demands, profile, checkpoint, reliability),
    )


def required_warnings(required: Required, targets: Targets) -> Iterator[str]:
    """Which targets no rate can meet."""
    no_rate = "no rate meets it: what comes before or beside the transfer alone takes longer"
    if required.write_bytes_per_second is None:
        block = "checkpoint" if required.write_target == "interval_seconds" else "targets"
        yield f"{block}.{required.write_target}: {no_rate}"
    if targets.recovery_seconds is not None and required.restore_bytes_per_second is None:
        yield f"targets.recovery_seconds: {no_rate}"


def _restore_rate(
    targets: Targets,
    demands: Demands,
    profile: StorageProfile | None,
    checkpoint: Checkpoint,
    reliability: Reliability | None,
) -> Numbers | None:
    """The least read rate for the recovery target, if there is one."""
    if targets.recovery_seconds is None:
        return None
    plan = demands.restores[checkpoint.restore]
    reading = targets.recovery_seconds - seconds_before_reading(reliability) - exchange_of(plan, demands)
    return _rate(profile, plan.demands, reading, direction="read")


def _least(limits: Mapping[WriteTarget, Numbers]) -> Numbers:
    return functools.reduce(np.minimum, limits.values())


def _rate(
    profile: StorageProfile | None, demands: Sequence[Demand], seconds: Numbers, *, direction: Direction
) -> Numbers:
    """The least rate, NaN where none is enough."""
    serial = sum(serial_steps(profile, demands, direction=direction).values(), start=0.0) if profile else 0.0
    total_bytes = sum(demand.total_bytes for demand in demands)
    rate = least_bytes_per_second(total_bytes, seconds=seconds, serial_seconds=serial)
    return np.where(np.isfinite(rate), rate, np.nan)
