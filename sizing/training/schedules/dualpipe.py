"""DualPipe: two directions at once, a forward pass of one overlapped with a backward pass of the other."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from sizing.training.schedules import checks
from sizing.training.schedules.base import Pipeline
from sizing.training.schedules.passes import Pass, PassTimes, Slot, Work
from sizing.training.schedules.two_way import WRITTEN_ONCE, TwoWay


class DualPipe(TwoWay):
    """Half of the microbatches each way; backward passes are parted where that fills a gap."""

    def check(self, pipeline: Pipeline) -> None:
        """Stages in pairs, microbatches in pairs, two for each stage."""
        checks.chunks_per_stage(self, pipeline)
        checks.even_stages(self, pipeline)
        checks.enough_microbatches(self, pipeline, 2 * pipeline.num_stages)
        checks.whole_groups(self, pipeline, 2, rule="an even number of")

    def order(self, pipeline: Pipeline, stage: int) -> list[Slot]:
        """Eight phases.

        Source: github.com/deepseek-ai/DualPipe, dualpipe/dualpipe.py, DualPipe.step.
        """
        return list(_Device(pipeline, stage).slots())

    def idle(self, pipeline: Pipeline, times: PassTimes) -> float:
        """(p/2 - 1)(F + 2B - 3W) with F = I = W, where overlap saves nothing; else as simulated.

        The published formula has X, a forward and a backward pass that overlap, for F + B, and is for any times. It
        holds for equal passes with X too where microbatches are many. Where F and I differ, a walk over the passes
        finds between a seventh less and an eighth more, as a pass may also wait for the other direction.
        Source: DeepSeek-AI 2024, arXiv 2412.19437, table 2; simulation.simulated.
        """
        if times.are_equal:
            return published_idle(pipeline, times)
        return self.simulated_idle(pipeline.filled, times)

    def held_one_way(self, num_stages: int, chunk: int) -> int:
        """As 1F1B: p - i, and with the other stage p + 1."""
        return num_stages - chunk


def published_idle(pipeline: Pipeline, times: PassTimes) -> float:
    """(p/2 - 1)(X + B - 3W).

    Source: DeepSeek-AI 2024, arXiv 2412.19437, table 2.

    >>> published_idle(Pipeline(8, 16), PassTimes())
    6.0
    """
    overlapped = times.total if times.overlapped is None else times.overlapped
    return (pipeline.num_stages / 2 - 1) * (overlapped + times.backward - 3 * times.weight_gradient)


class _Device:
    """Direction 0 begins at the end of the pipeline that is nearer to the device, direction 1 at the other."""

    def __init__(self, pipeline: Pipeline, stage: int) -> None:
        p, self._m = pipeline.num_stages, pipeline.num_microbatches or 0
        self._p = p
        self._rank = min(stage, p - 1 - stage)
        self._is_upper = stage >= p // 2
        self._chunks = (self._rank, p - 1 - self._rank)
        self._next = {(work, way): 0 for work in Work for way in (0, 1)}
        self._late: deque[Pass] = deque()

    def slots(self) -> Iterator[Slot]:
        half, rank = self._p // 2, self._rank
        yield from self._warm_up(half - rank - 1, rank + 1)
        yield from self._main(self._m // 2 - self._p + rank + 1)
        for _ in range(half - rank - 1):
            yield (self._backward(1),)
            yield self._forward(1), self._backward(0)
        yield from self._run_down(half - rank - 1, rank + 1)

    def _warm_up(self, num_outer: int, num_inner: int) -> Iterator[Slot]:
        yield from ((self._forward(0),) for _ in range(2 * num_outer))
        for _ in range(num_inner):
            yield (self._forward(0),)
            yield (self._forward(1),)
        for _ in range(num_outer):
            yield (self._input_gradient(1),)
            yield (self._late.popleft(),)
            yield (self._forward(1),)

    def _main(self, number: int) -> Iterator[Slot]:
        for each in range(number):
            slot = self._forward(0), self._backward(1)
            yield from [(one,) for one in slot] if each == 0 and self._rank == self._p // 2 - 1 else [slot]
            yield self._forward(1), self._backward(0)

    def _run_down(self, num_outer: int, num_inner: int) -> Iterator[Slot]:
        for each in range(2 * num_inner):
            is_parted = each >= num_inner
            yield (self._input_gradient(1 - each % 2) if is_parted else self._backward(1 - each % 2),)
        for _ in range(num_outer):
            yield (self._late.popleft(),)
            yield (self._input_gradient(0),)
        yield from ((each,) for each in self._late)

    def _forward(self, way: int) -> Pass:
        return self._pass(Work.FORWARD, way)

    def _backward(self, way: int) -> Pass:
        return self._pass(Work.BACKWARD, way)

    def _input_gradient(self, way: int) -> Pass:
        found = self._pass(Work.INPUT_GRADIENT, way)
        self._late.append(found._replace(work=Work.WEIGHT_GRADIENT))
        return found

    def _pass(self, work: Work, way: int) -> Pass:
        """The next of a direction; backward passes of both kinds are counted together."""
        key = (Work.FORWARD if work is Work.FORWARD else Work.BACKWARD, way)
        number = self._next[key]
        self._next[key] += 1
        return Pass(work, self._chunks[way], number + self._m // 2 * (way ^ self._is_upper))


DUALPIPE = DualPipe(
    name="dualpipe",
    title="DualPipe",
    flushes=True,
    splits_backward=True,
    is_two_way=True,
    published_times=PassTimes(),
    consistency="one version: every step ends with a flush, after which both copies of a stage are equal",
    source="DeepSeek-AI 2024, arXiv 2412.19437, section 3.2.1 and table 2",
    simplified=WRITTEN_ONCE,
)
