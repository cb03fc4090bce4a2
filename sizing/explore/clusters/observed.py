"""What a simulation saw of the jobs and of the storage that they share."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field

from sizing.explore.clusters.bandwidth import SharedBandwidth


@dataclass(slots=True)
class Observed:
    """What the jobs of a group went through. `at_seconds` is when each stall ended."""

    stall_seconds: array[float] = field(default_factory=lambda: array("d"))
    at_seconds: array[float] = field(default_factory=lambda: array("d"))
    restore_seconds: array[float] = field(default_factory=lambda: array("d"))
    num_written: int = 0
    num_met_another: int = 0
    num_failures: int = 0
    useful_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Simulated:
    """Everything that was observed; `read` is None where no read rate is known."""

    groups: list[Observed]
    write: SharedBandwidth
    read: SharedBandwidth | None
