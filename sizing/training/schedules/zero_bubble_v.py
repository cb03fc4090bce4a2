"""ZB-V: two chunks per device in the form of a V, no bubble in the memory of 1F1B where passes are equal."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

from sizing.errors import InvalidInput
from sizing.training.schedules.base import Pipeline, PipelineSchedule
from sizing.training.schedules.passes import Pass, PassTimes, Slot, Work, alone


class ZeroBubbleV(PipelineSchedule):
    """Device i has chunks i and 2 p - 1 - i: a microbatch goes down all devices and up again."""

    def check(self, pipeline: Pipeline) -> None:
        """Two chunks on each stage."""
        if not self.runs_chunks(pipeline.num_chunks):
            raise InvalidInput.of(
                "parallelism.virtual_pipeline",
                f"must be 2 with schedule {self.name}",
                value=pipeline.num_chunks,
                remedy="change it or training.schedule",
            )

    def runs_chunks(self, num_chunks: int) -> bool:
        """Two, the way down and the way up."""
        return num_chunks == 2

    def chunks_on(self, pipeline: Pipeline, stage: int) -> tuple[int, ...]:
        """One on the way down, one on the way up."""
        return stage, 2 * pipeline.num_stages - 1 - stage

    def order(self, pipeline: Pipeline, stage: int) -> list[Slot]:
        """As with at least 2 p - 1 microbatches, without those that are not there.

        Source: torch 2.13, distributed/pipelining/schedules.py, ScheduleZBVZeroBubble.
        """
        m = pipeline.num_microbatches or 0
        passes = _passes(pipeline.num_stages, stage, max(m, 2 * pipeline.num_stages - 1))
        return alone(each for each in passes if each.microbatch < m)

    def idle(self, pipeline: Pipeline, times: PassTimes) -> float:
        """F max(0, 2 p - 1 - m) where F = I = W, else as simulated: the paper has no formula for other times.

        Source: Qi et al. 2023, arXiv 2401.10241, section 6; fewer microbatches by simulation.simulated.
        """
        p = pipeline.num_stages
        if times.are_equal:
            return times.forward * max(0.0, 2 * p - 1 - pipeline.limit)
        return self.simulated_idle(pipeline.filled, times)

    def held_passes(self, pipeline: Pipeline, stage: int) -> float:
        """min(2 p, 2 m, m + i + 1) of chunks, which are half a stage."""
        m = pipeline.limit
        return min(2.0 * pipeline.num_stages, 2 * m, m + stage + 1)


def _passes(p: int, stage: int, m: int) -> Iterator[Pass]:
    """All passes of a device for m >= 2 p - 1 microbatches."""
    down, up = _Chunk(stage), _Chunk(2 * p - 1 - stage)
    yield from (down.forward() for _ in range(2 * (p - stage) - 1))
    for _ in range(stage):
        yield from (up.forward(), down.forward())
    for _ in range(p - stage):
        yield from (up.forward(), *up.backward())
    for number in range(m - p):
        if number < m - (2 * p - 1 - stage):
            yield down.forward()
        yield from (*down.backward(), up.forward(), *up.backward())
    for _ in range(stage):
        yield from (down.input_gradient(), up.input_gradient())
    for _ in range(p - stage):
        yield from (down.input_gradient(), down.weight_gradient())
    yield from (up.weight_gradient() for _ in range(stage))
    yield from (down.weight_gradient() for _ in range(stage))


class _Chunk:
    """Passes through one chunk, each kind in the order of the microbatches."""

    def __init__(self, chunk: int) -> None:
        self._chunk = chunk
        self._next = {work: count() for work in Work}

    def forward(self) -> Pass:
        return self._pass(Work.FORWARD)

    def input_gradient(self) -> Pass:
        return self._pass(Work.INPUT_GRADIENT)

    def weight_gradient(self) -> Pass:
        return self._pass(Work.WEIGHT_GRADIENT)

    def backward(self) -> tuple[Pass, Pass]:
        return self.input_gradient(), self.weight_gradient()

    def _pass(self, work: Work) -> Pass:
        return Pass(work, self._chunk, next(self._next[work]))


ZERO_BUBBLE_V = ZeroBubbleV(
    name="zb-v",
    title="zero bubble V",
    flushes=True,
    splits_backward=True,
    is_two_way=False,
    published_times=PassTimes(),
    consistency="one version, once an update that its later validation rolls back is out of the way",
    source="Qi et al. 2023, arXiv 2401.10241, section 6",
)
