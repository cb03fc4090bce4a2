"""The work between two saves to the shared storage, and how much of it the tiers in front hold."""

from __future__ import annotations

import math
from collections.abc import Sequence

from sizing.run.goodput.levels import Level

_ROUNDING = 1e-9
"""Of a position that lies on a step of a tier and was added up from floats."""


class Segment:
    """Work of `seconds` between two saves, `interval_seconds` apart, of which a first one may skip the beginning.

    Positions in it are fractions. A tier is saved to at even steps and holds a copy once that has drained; what has
    been recovered from a tier is held by it and by those before it. All tiers hold the beginning.
    """

    def __init__(
        self, seconds: float, *, begins_fraction: float, interval_seconds: float, tiers: Sequence[Level]
    ) -> None:
        self._seconds = seconds
        self._begins = self._at = begins_fraction
        self._held = [begins_fraction] * len(tiers)
        self._steps = [float(tier.interval_seconds) / interval_seconds for tier in tiers]
        self._drains = [float(tier.drain_seconds) for tier in tiers]

    @property
    def worked_seconds(self) -> float:
        """Time worked so far that has not been undone."""
        return (self._at - self._begins) * self._seconds

    @property
    def left_seconds(self) -> float:
        """Time to work until the next save."""
        return (1 - self._at) * self._seconds

    def work(self, seconds: float) -> None:
        """Go on by that time."""
        self._at = min(1.0, self._at + seconds / self._seconds) if self._seconds else 1.0

    def go_back(self, tier: int, *, since_work_seconds: float) -> None:
        """Go back to what a tier holds, so long after the work stopped."""
        for index, (step, drain) in enumerate(zip(self._steps, self._drains, strict=True)):
            drained = self._at + (since_work_seconds - drain) / self._seconds if self._seconds else self._at
            newest = math.floor(min(self._at, drained) / step + _ROUNDING) * step
            self._held[index] = max(self._held[index], newest)
        self._at = self._held[tier]
        self._held[: tier + 1] = [self._at] * (tier + 1)
