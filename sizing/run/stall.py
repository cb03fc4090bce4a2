"""What training waits for in an asynchronous save: plans, the copy to host memory, and room there."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from sizing.provenance import Assumption
from sizing.ranges import plausible_range
from sizing.run.checkpoint import Checkpoint
from sizing.run.demands.demands import Demands
from sizing.storage.limits import Transfer
from sizing.storage.profile import StorageProfile
from sizing.storage.terms import Terms
from sizing.storage.transfer import Numbers
from sizing.units import decimal_bytes_text, percent_text, seconds_text

_COPY = "storage.profile.device_to_host_bytes_per_second"
_STAGING = "checkpoint.staging_bytes"
PLANNING = "storage.profile.planning_seconds_per_rank"


@dataclass(frozen=True, slots=True)
class AsyncStall:
    """What training waits for in an asynchronous save: numbers, or arrays that broadcast."""

    planning_seconds: Numbers
    copy_seconds: Numbers
    staging_seconds: Numbers

    @property
    def seconds(self) -> Numbers:
        """All of it."""
        return self.planning_seconds + self.copy_seconds + self.staging_seconds


NO_STALL = AsyncStall(0.0, 0.0, 0.0)
"""With mode sync, whose stall is the whole save."""


def async_stall(moved: Transfer, *, demands: Demands, checkpoint: Checkpoint) -> AsyncStall:
    """The stall of an asynchronous save: planning where the format plans first, the copy, and the wait for room."""
    return AsyncStall(
        stalling_planning_seconds(moved.serial, demands),
        moved.serial["device-to-host"],
        staging_wait_seconds(
            moved.shared_seconds + demands.write.compression_seconds,
            staging_bytes=checkpoint.staging_bytes,
            demands=demands,
        ),
    )


def stalling_planning_seconds(serial: Terms, demands: Demands) -> Numbers:
    """The part of planning for which training waits in an asynchronous save, of the serial steps of the save.

    Source: `layout.formats.planning`.

    >>> from sizing.sized import sized
    >>> from sizing.scenario import REFERENCE_SCENARIO, scenario_from
    >>> stalling_planning_seconds({"planning": 1.5}, sized(scenario_from(REFERENCE_SCENARIO)).demands)
    1.5
    """
    return serial.get("planning", 0.0) * demands.write.stalling_planning_fraction


def staging_wait_seconds(drained_seconds: Numbers, *, staging_bytes: Numbers | None, demands: Demands) -> Numbers:
    """How long the rest of a share waits for room in host memory: (S - b) / r, 0 where it fits.

    Args: `drained_seconds` S / r, in which all ranks drain their shares S at rate r each; `staging_bytes` b per rank,
    None where all of S fits. The largest of the shares counts: training goes on when no rank waits any more.
    Source: marin-community/marin pull request 8514: stall = (share - budget) / upload rate, beside the copy.

    >>> from sizing.sized import sized
    >>> from sizing.scenario import REFERENCE_SCENARIO, scenario_from
    >>> demands = sized(scenario_from(REFERENCE_SCENARIO)).demands
    >>> share = demands.write.largest_copied_bytes
    >>> float(staging_wait_seconds(50.0, staging_bytes=share / 4, demands=demands))
    37.5
    """
    if staging_bytes is None:
        return 0.0
    share = demands.write.largest_copied_bytes
    return drained_seconds * np.maximum(0.0, 1.0 - np.divide(staging_bytes, share))


def stall_assumptions(
    profile: StorageProfile | None, *, demands: Demands, checkpoint: Checkpoint
) -> Iterator[Assumption]:
    """The rates of a copy and of planning that nobody stated, and the room that a share has."""
    copies = checkpoint.mode == "async" or checkpoint.front_tiers
    rate = demands.copy_bytes_per_second
    if copies and rate is not None and profile is not None and profile.device_to_host_bytes_per_second is None:
        yield Assumption(field=_COPY, value=rate, reason=demands.defaults.copied_source)
    planning = demands.write.planning_seconds_per_rank
    is_stated = profile is not None and profile.planning_seconds_per_rank is not None
    if planning and demands.write.num_planned_ranks and not is_stated:
        share = percent_text(plausible_range(PLANNING).midpoint)
        reason = f"{share} of planning without cached plans: {plausible_range(PLANNING).source}"
        yield Assumption(field=PLANNING, value=float(planning), reason=reason)
    yield from _staging_assumptions(profile, demands=demands, checkpoint=checkpoint)


def _staging_assumptions(
    profile: StorageProfile | None, *, demands: Demands, checkpoint: Checkpoint
) -> Iterator[Assumption]:
    """That the whole share fits host memory, where a save stages it there and drains from it."""
    if profile is not None and checkpoint.staging_bytes is None and _stages(checkpoint):
        share = math.ceil(demands.write.largest_copied_bytes)
        yield Assumption(field=_STAGING, value=share, reason=f"the whole share: {plausible_range(_STAGING).source}")


def _stages(checkpoint: Checkpoint) -> bool:
    """Whether what is saved first is drained from host memory, and is no tier there."""
    first = next(iter(checkpoint.front_tiers), None)
    if first is None:
        return checkpoint.mode == "async"
    return first.kind != "host-memory" and (first.mode or checkpoint.mode) == "async"


def staging_warnings(stall_seconds: float, *, demands: Demands, checkpoint: Checkpoint) -> Iterator[str]:
    """That a budget of host memory has no use, or that a share does not fit it and what training waits for it."""
    budget = checkpoint.staging_bytes
    if budget is not None and checkpoint.mode == "sync":
        yield "checkpoint.staging_bytes has no effect with mode sync. Remove it, or give mode async"
    share = float(demands.write.largest_copied_bytes)
    if budget is not None and stall_seconds > 0:
        yield (
            f"The largest rank has {decimal_bytes_text(share)} to save and checkpoint.staging_bytes "
            f"{decimal_bytes_text(budget)} of host memory for it: each save waits {seconds_text(stall_seconds)} longer "
            f"for the drain. Raise checkpoint.staging_bytes or the write bandwidth"
        )
