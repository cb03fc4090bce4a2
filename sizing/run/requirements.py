"""The least rates that meet the targets."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from pydantic import BaseModel, ConfigDict

from sizing.layout import CheckpointSize, Layout
from sizing.run.restore import Restore
from sizing.run.targets import Targets
from sizing.storage.limits import Limit
from sizing.storage.transfer import Numbers


class Required(BaseModel):
    """The `required` block of the report: rates over all nodes, None where no rate is enough.

    `restore_bytes_per_second` is also None where no recovery target is set.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    write_bytes_per_second: float | None
    write_per_node_bytes_per_second: float | None
    write_target: str
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
    size: CheckpointSize,
    layout: Layout,
    write_limits: list[Limit],
    restore: Restore,
) -> Required:
    """The least write rate for the overhead and stall targets, and read rate for the recovery target."""
    allowed = {"max_overhead_fraction": targets.max_overhead_fraction * interval_seconds}
    if targets.max_stall_seconds is not None:
        allowed["max_stall_seconds"] = targets.max_stall_seconds
    target = min(allowed, key=lambda name: allowed[name])
    write = _rate(size.written_bytes, allowed[target], write_limits)
    return Required(
        write_bytes_per_second=write,
        write_per_node_bytes_per_second=write / layout.num_writing_nodes if write else None,
        write_target=target,
        restore_bytes_per_second=(
            _rate(restore.read_bytes, targets.recovery_seconds, restore.limits)
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


def _rate(total_bytes: int, seconds: float, limits: list[Limit]) -> float | None:
    serial = sum(limit.seconds for limit in limits if limit.slack_fraction is None)
    rate = float(least_bytes_per_second(total_bytes, seconds=seconds, serial_seconds=serial))
    return rate if np.isfinite(rate) else None
