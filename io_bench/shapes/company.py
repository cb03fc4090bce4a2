"""What a rank knows of something that runs beside its saves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from io_bench.engines import IoReport


@dataclass(frozen=True, slots=True)
class Beside:
    """A save that something ran beside: what the engine said, and what ran meanwhile, in its units per second."""

    report: IoReport
    rate: float


class Company(Protocol):
    """What runs beside the saves of one rank. Methods raise OSError and RunFailed."""

    def alone(self, seconds: float) -> float:
        """Its rate in so much time, with nothing beside it."""

    def beside(self, save: Callable[[], IoReport]) -> Beside:
        """Run while a save does, and count what was done while training would have gone on."""

    def close(self) -> None:
        """End it, and remove what it had on the target. Raises OSError."""
