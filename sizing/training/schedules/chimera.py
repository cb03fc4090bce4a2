"""Chimera: two pipelines in opposite directions over the same devices, each with half of the microbatches."""

from __future__ import annotations

from sizing.training.schedules import checks
from sizing.training.schedules.base import Pipeline
from sizing.training.schedules.passes import Pass, PassTimes, Slot, Work, alone
from sizing.training.schedules.two_way import WRITTEN_ONCE, TwoWay


class Chimera(TwoWay):
    """Units of p microbatches, p/2 each way, one unit after the other (the paper's direct concatenation)."""

    def check(self, pipeline: Pipeline) -> None:
        """Stages in pairs, whole units."""
        p = pipeline.num_stages
        checks.chunks_per_stage(self, pipeline)
        checks.even_stages(self, pipeline)
        checks.whole_groups(self, pipeline, p, rule=f"a multiple of pipeline {p}")

    def order(self, pipeline: Pipeline, stage: int) -> list[Slot]:
        """By the time at which each pass would begin if all took as long as each other: no two are at the same time."""
        p, m = pipeline.num_stages, pipeline.num_microbatches or 0
        begun = [
            each
            for first in range(0, m, p)
            for chunk, half in ((stage, 0), (p - 1 - stage, p // 2))
            for number in range(p // 2)
            for each in self._passes(chunk, first + half + number, begin=2 * (first + number), num_stages=p)
        ]
        return alone(each for _, each in sorted(begun, key=lambda timed: timed[0]))

    def idle(self, pipeline: Pipeline, times: PassTimes) -> float:
        """(p - 2) (max(F, B) + (m/p - 1) |B - F|).

        With F = B this is the published (p - 2) F. Where a backward pass takes longer, every unit but the first adds
        a gap, so that more microbatches do not make the bubble vanish: there the paper doubles forward passes or
        halves backward ones. A walk over the passes finds both.
        Source: Li and Hoefler 2021, arXiv 2107.06925, sections 3.1 to 3.3, and simulation.simulated.
        """
        p = pipeline.num_stages
        units = (pipeline.num_microbatches or p) // p
        return (p - 2) * (max(times.forward, times.backward) + (units - 1) * abs(times.backward - times.forward))

    def held_one_way(self, num_stages: int, chunk: int) -> int:
        """min(p/2, p - i): with the other stage p/2 + 1 on both ends to p in the middle."""
        return min(num_stages // 2, num_stages - chunk)

    @staticmethod
    def _passes(chunk: int, number: int, *, begin: int, num_stages: int) -> list[tuple[int, Pass]]:
        forward, backward = begin + chunk, begin + 2 * num_stages - 1 - chunk
        return [
            (forward, Pass(Work.FORWARD, chunk, number)),
            (backward, Pass(Work.BACKWARD, chunk, number)),
        ]


CHIMERA = Chimera(
    name="chimera",
    title="Chimera",
    flushes=True,
    splits_backward=False,
    is_two_way=True,
    published_times=PassTimes(input_gradient=0.5, weight_gradient=0.5),
    consistency="one version: every step ends with a flush, after which both replicas of a stage are equal",
    source="Li and Hoefler 2021, arXiv 2107.06925, section 3 and table 2",
    simplified=WRITTEN_ONCE,
)
