"""Nodes that lack after a failure: spares and repairs one by one, and the wait for capacity after a preemption."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sizing.run.goodput.course import Course

Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]


class Outages:
    """Of every run when each node in repair is back. Repairs and waits for capacity are drawn as exponential."""

    def __init__(self, course: Course, *, num_runs: int) -> None:
        pool = course.pool
        self.preempted_levels, self.capacity_wait_seconds = course.preempted_levels, float(course.capacity_wait_seconds)
        self.repair_seconds = float(pool.repair_seconds) if pool else 0.0
        self.lost_fraction = float(pool.lost_fraction) if pool else 0.0
        self.back_at = np.zeros((int(pool.num_spares) + 1 if pool else 1, num_runs))

    def wait_seconds(self, struck: Indices, needed: Indices, now: Floats, random: np.random.Generator) -> Floats:
        """How long each run that was struck `now`, and needs that level, has too few nodes."""
        is_preempted = np.isin(needed, self.preempted_levels)
        waits = np.where(is_preempted, random.exponential(self.capacity_wait_seconds, len(struck)), 0.0)
        lost = np.flatnonzero(~is_preempted & (random.random(len(struck)) < self.lost_fraction))
        waits[lost] = self._wait_for_node(struck[lost], now[lost], random)
        return waits

    def _wait_for_node(self, struck: Indices, now: Floats, random: np.random.Generator) -> Floats:
        """A node goes into repair; one that was back, or else the first that comes back, takes its place."""
        longest_back = self.back_at[:, struck].argmin(axis=0)
        self.back_at[longest_back, struck] = now + random.exponential(self.repair_seconds, len(struck))
        waits: Floats = np.maximum(0.0, self.back_at[:, struck].min(axis=0) - now)
        return waits
