"""The saves of a run in the order of time: how often they came, which were written twice, and where the run stopped."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from io_bench.checks.observed_saves import Save
from io_bench.measure.spread import LATE_DEVIATIONS, LATE_FRACTION


@dataclass(frozen=True, slots=True)
class SaveStart:
    """When the run began to save a step, in seconds since 1970."""

    at: float
    step: int


@dataclass(frozen=True, slots=True)
class Stop:
    """Time between two saves that did not bring the run forward.

    `redone_steps`: steps that the run had taken before and took again, at least.
    """

    after_step: int
    before_step: int
    lost_seconds: float
    redone_steps: int


@dataclass(frozen=True)
class SaveTimeline:
    """The saves of a run, by step."""

    saves: tuple[Save, ...]

    @cached_property
    def cadence_steps(self) -> int | None:
        """Steps from one save to the next; None where saves come by the clock.

        The smallest difference that occurs twice: what is removed or saved out of turn makes others.
        """
        differences = Counter(b.step - a.step for a, b in pairwise(self.saves))
        repeated = [steps for steps, count in differences.items() if count > 1]
        return min(repeated) if repeated else next(iter(differences)) if len(differences) == 1 else None

    @cached_property
    def rewritten(self) -> tuple[Save, ...]:
        """Saves whose files were created at a first attempt and changed at a later one.

        Their time holds the begin or the end of another save, or is longer than from one save to the next.
        """
        overlapping = [
            save
            for save in self.saves
            if any(
                save.started_at < timestamp < save.ended_at
                for other in self.saves
                if other is not save
                for timestamp in (other.started_at, other.ended_at)
            )
        ]
        usual = self._period([save for save in self.saves if save not in overlapping])
        return tuple(save for save in self.saves if save in overlapping or (usual is not None and save.seconds > usual))

    @cached_property
    def clean(self) -> tuple[Save, ...]:
        """Saves that were finished and written once: those whose times say how long a save takes."""
        return tuple(save for save in self.saves if save.is_finished and save not in self.rewritten)

    @cached_property
    def interval_seconds(self) -> float | None:
        """Median seconds from the start of one save to the start of the next; None of a single save."""
        return self._period([save for save in self.saves if save not in self.rewritten])

    @cached_property
    def write_seconds(self) -> float | None:
        """Median seconds of one save; None where none was finished and written once."""
        return statistics.median(save.seconds for save in self.clean) if self.clean else None

    @cached_property
    def run_seconds(self) -> float:
        """Seconds from the start of the first known save to that of the last."""
        return self.starts[-1].at - self.starts[0].at

    @cached_property
    def lost_seconds(self) -> float | None:
        """Seconds that stops cost; None where that is all that passed, as of files copied in another order."""
        lost = sum(stop.lost_seconds for stop in self.stops)
        return lost if lost < self.run_seconds or not self.stops else None

    @cached_property
    def starts(self) -> tuple[SaveStart, ...]:
        """When saves began, in order: of a save that was written twice the first and the last attempt."""
        usual = self.write_seconds or 0.0
        first = [SaveStart(save.started_at, save.step) for save in self.saves]
        last = [SaveStart(max(save.started_at, save.ended_at - usual), save.step) for save in self.rewritten]
        return tuple(sorted([*first, *last], key=lambda start: (start.at, start.step)))

    @cached_property
    def stops(self) -> tuple[Stop, ...]:
        """Stops of the run: places where a step was saved that an earlier save had reached, or where a save came late.

        Late is later than usual by more than 3 MAD of the periods and by more than 10 % of an interval.
        """
        if self.interval_seconds is None:
            return ()
        periods = self._periods([save for save in self.saves if save not in self.rewritten])
        middle = statistics.median(periods)
        deviation = statistics.median(abs(period - middle) for period in periods)
        limit = max(LATE_DEVIATIONS * deviation, LATE_FRACTION * self.interval_seconds)
        stops = (self._stop_between(a, b, self.interval_seconds) for a, b in pairwise(self.starts))
        # Over saves that were removed, small errors of the interval add up: the limit is one for each.
        return tuple(
            stop
            for stop in stops
            if stop.redone_steps
            or stop.lost_seconds
            > limit * max(1.0, (stop.before_step - stop.after_step) / (self.cadence_steps or math.inf))
        )

    def _stop_between(self, before: SaveStart, after: SaveStart, interval_seconds: float) -> Stop:
        """Compute the time lost between two starts of saves: what passed, less what the steps between them take."""
        steps = after.step - before.step
        if self.cadence_steps is None:
            expected_seconds = interval_seconds if steps > 0 else 0.0
        else:
            expected_seconds = steps / self.cadence_steps * interval_seconds
        lost = after.at - before.at - expected_seconds
        redone = (self.cadence_steps or 0) - steps if steps <= 0 else 0
        return Stop(before.step, after.step, max(0.0, lost), redone)

    def _period(self, saves: Sequence[Save]) -> float | None:
        """The median of the periods; None where there is none, or all times are equal."""
        periods = self._periods(saves)
        return (statistics.median(periods) or None) if periods else None

    def _periods(self, saves: Sequence[Save]) -> list[float]:
        """Seconds from save to save, in the order of time and where the run went forward.

        Of saves by steps those one cadence apart count; without any, all in proportion to their steps.
        """
        in_order = sorted(saves, key=lambda save: save.started_at)
        forward = [(a, b) for a, b in pairwise(in_order) if b.step > a.step]
        cadence = self.cadence_steps
        if cadence is None:
            return [b.started_at - a.started_at for a, b in forward]
        adjacent = [b.started_at - a.started_at for a, b in forward if b.step - a.step == cadence]
        return adjacent or [(b.started_at - a.started_at) * cadence / (b.step - a.step) for a, b in forward]
