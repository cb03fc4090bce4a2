"""Schedules whose microbatches run through the stages in both directions: device i has stages i and p - 1 - i."""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import Iterator

from sizing.training.schedules.passes import Pass, PassKind, PassTimes, Slot, alone
from sizing.training.schedules.schedule import PipelineSchedule, PipelineShape

WRITTEN_ONCE = "of the two equal copies of a stage the one on its own device is written: device i writes stage i"
"""Source: `consistency` of these schedules: after the flush both copies are equal, so either tells all."""


class TwoWay(PipelineSchedule):
    """Two-way schedule: a device holds both of its stages, which reach their max at the same time."""

    is_two_way = True

    @abstractmethod
    def held_one_way(self, num_stages: int, chunk: int) -> int:
        """Count the microbatches of one direction that stage `chunk` of it holds at once."""

    def chunks_on(self, pipeline: PipelineShape, stage: int) -> tuple[int, ...]:
        return stage, pipeline.num_stages - 1 - stage

    def held_passes(self, pipeline: PipelineShape, stage: int) -> float:
        return float(sum(self.held_one_way(pipeline.num_stages, chunk) for chunk in self.chunks_on(pipeline, stage)))

    def held_of_stage(self, pipeline: PipelineShape, stage: int) -> float:
        return float(self.held_one_way(pipeline.num_stages, stage))


class Chimera(TwoWay):
    """Chimera: units of p microbatches, p/2 each way, one unit after the other (the paper's direct concatenation)."""

    def check(self, pipeline: PipelineShape) -> None:
        p = pipeline.num_stages
        super().check(pipeline)
        self._require_even_stages(pipeline)
        self._require_whole_groups(pipeline, p, rule=f"a multiple of pipeline {p}")

    def order(self, pipeline: PipelineShape, stage: int) -> list[Slot]:
        """Sort passes by the time at which each would begin if all took equally long. No two begin at once."""
        p, m = pipeline.num_stages, pipeline.num_microbatches or 0
        begins: dict[int, Pass] = {}
        for first in range(0, m, p):
            for chunk, half in ((stage, 0), (p - 1 - stage, p // 2)):
                for number in range(p // 2):
                    microbatch, start = first + half + number, 2 * (first + number)
                    begins[start + chunk] = Pass(PassKind.FORWARD, chunk, microbatch)
                    begins[start + 2 * p - 1 - chunk] = Pass(PassKind.BACKWARD, chunk, microbatch)
        return alone(begins[time] for time in sorted(begins))

    def idle(self, pipeline: PipelineShape, times: PassTimes) -> float:
        """Return (p - 2) (max(F, B) + (m/p - 1) |B - F|).

        With F = B this is the published (p - 2) F. Where a backward pass takes longer, every unit but the first adds
        a gap, so that more microbatches do not make the bubble vanish: there the paper doubles forward passes or
        halves backward ones. A walk over the passes finds both.
        Source: Li and Hoefler 2021, arXiv 2107.06925, sections 3.1 to 3.3, and passes.StepProgram.walk.
        """
        p = pipeline.num_stages
        units = (pipeline.num_microbatches or p) // p
        return (p - 2) * (max(times.forward, times.backward) + (units - 1) * abs(times.backward - times.forward))

    def held_one_way(self, num_stages: int, chunk: int) -> int:
        """Return min(p/2, p - i). With the device's other stage it is p/2 + 1 at both ends and p in the middle."""
        return min(num_stages // 2, num_stages - chunk)


CHIMERA = Chimera(
    name="chimera",
    title="Chimera",
    consistency="one version: every step ends with a flush, after which both replicas of a stage are equal",
    source="Li and Hoefler 2021, arXiv 2107.06925, section 3 and table 2",
    simplified=WRITTEN_ONCE,
)


class DualPipe(TwoWay):
    """DualPipe: half of the microbatches each way. Backward passes are split where that fills a gap."""

    splits_backward = True
    pairs_passes = True

    def check(self, pipeline: PipelineShape) -> None:
        super().check(pipeline)
        self._require_even_stages(pipeline)
        self._require_at_least(pipeline, 2 * pipeline.num_stages)
        self._require_whole_groups(pipeline, 2, rule="an even number of")

    def order(self, pipeline: PipelineShape, stage: int) -> list[Slot]:
        """List the slots of the eight phases.

        Source: github.com/deepseek-ai/DualPipe, dualpipe/dualpipe.py, DualPipe.step.
        """
        return list(_DualPipeDevice(pipeline, stage).run())

    def idle(self, pipeline: PipelineShape, times: PassTimes) -> float:
        """Return (p/2 - 1)(F + 2B - 3W) with F = I = W, where overlap saves nothing; else the simulated idle time.

        The published formula has X, a forward and a backward pass that overlap, for F + B, and is for any times. It
        holds for equal passes with X too where microbatches are many. Where F and I differ, a walk over the passes
        finds between a seventh less and an eighth more, as a pass may also wait for the other direction.
        Source: DeepSeek-AI 2024, arXiv 2412.19437, table 2; passes.StepProgram.walk.
        """
        if times.are_equal:
            return published_idle(pipeline, times)
        return self.simulated_idle(pipeline.filled, times)

    def held_one_way(self, num_stages: int, chunk: int) -> int:
        """Return p - i, as with 1F1B. Both stages of a device hold p + 1."""
        return num_stages - chunk


def published_idle(pipeline: PipelineShape, times: PassTimes) -> float:
    """Return (p/2 - 1)(X + B - 3W).

    Source: DeepSeek-AI 2024, arXiv 2412.19437, table 2.

    >>> published_idle(PipelineShape(8, 16), PassTimes())
    6.0
    """
    overlapped = times.total if times.overlapped is None else times.overlapped
    return (pipeline.num_stages / 2 - 1) * (overlapped + times.backward - 3 * times.weight_gradient)


class _DualPipeDevice:
    """Device of DualPipe. Direction 0 begins at the pipeline's end that is nearer to it, direction 1 at the other."""

    def __init__(self, pipeline: PipelineShape, stage: int) -> None:
        p, self._m = pipeline.num_stages, pipeline.num_microbatches or 0
        self._p = p
        self._rank = min(stage, p - 1 - stage)
        self._is_upper = stage >= p // 2
        self._chunks = (self._rank, p - 1 - self._rank)
        self._num_begun = {(is_forward, way): 0 for is_forward in (True, False) for way in (0, 1)}
        self._late: deque[Pass] = deque()

    def run(self) -> Iterator[Slot]:
        """Yield the slots phase by phase; `num_inner` and `num_outer` count ranks between this one and both ends."""
        num_outer, num_inner = self._p // 2 - self._rank - 1, self._rank + 1
        # Warm up: forward passes of direction 0, of both directions, then of direction 1 with backward passes.
        yield from ((self._forward(0),) for _ in range(2 * num_outer))
        for _ in range(num_inner):
            yield (self._forward(0),)
            yield (self._forward(1),)
        for _ in range(num_outer):
            yield (self._input_gradient(1),)
            yield (self._late.popleft(),)
            yield (self._forward(1),)
        # Run full: forward and backward passes overlap. The first pair in the middle has nothing to overlap with.
        for number in range(self._m // 2 - self._p + num_inner):
            pair = self._forward(0), self._backward(1)
            yield from [(each,) for each in pair] if number == 0 and num_outer == 0 else [pair]
            yield self._forward(1), self._backward(0)
        for _ in range(num_outer):
            yield (self._backward(1),)
            yield self._forward(1), self._backward(0)
        # Run down: backward passes, the second half of them split, and the weight gradients that are left.
        for number in range(2 * num_inner):
            way = 1 - number % 2
            yield (self._backward(way) if number < num_inner else self._input_gradient(way),)
        for _ in range(num_outer):
            yield (self._late.popleft(),)
            yield (self._input_gradient(0),)
        yield from ((each,) for each in self._late)

    def _forward(self, way: int) -> Pass:
        return self._next_pass(PassKind.FORWARD, way)

    def _backward(self, way: int) -> Pass:
        return self._next_pass(PassKind.BACKWARD, way)

    def _input_gradient(self, way: int) -> Pass:
        gradient = self._next_pass(PassKind.INPUT_GRADIENT, way)
        self._late.append(gradient._replace(kind=PassKind.WEIGHT_GRADIENT))
        return gradient

    def _next_pass(self, kind: PassKind, way: int) -> Pass:
        """Return the next pass of a direction. Backward passes of both kinds are counted together."""
        key = (kind is PassKind.FORWARD, way)
        number = self._num_begun[key]
        self._num_begun[key] += 1
        return Pass(kind, self._chunks[way], number + self._m // 2 * (way ^ self._is_upper))


DUALPIPE = DualPipe(
    name="dualpipe",
    title="DualPipe",
    consistency="one version: every step ends with a flush, after which both copies of a stage are equal",
    source="DeepSeek-AI 2024, arXiv 2412.19437, section 3.2.1 and table 2",
    simplified=WRITTEN_ONCE,
)
