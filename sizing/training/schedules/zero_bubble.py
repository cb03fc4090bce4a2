"""Zero bubble schedules: gradients of weights wait, and fill time that would be idle."""

from __future__ import annotations

from abc import abstractmethod
from itertools import count

from sizing.errors import InvalidInput
from sizing.training.schedules.passes import Pass, PassKind, PassTimes, Slot, alone
from sizing.training.schedules.schedule import PipelineSchedule, PipelineShape


class ZeroBubble(PipelineSchedule):
    """Zero bubble: `depth(stage)` forward passes, then a gradient of inputs, one of weights and a forward pass in turn.

    Weight gradients begin so much later that each stage holds as many microbatches as the first one.
    """

    splits_backward = True

    @abstractmethod
    def depth(self, num_stages: int, stage: int) -> int:
        """Count the forward passes of a stage before its first backward pass."""

    def order(self, pipeline: PipelineShape, stage: int) -> list[Slot]:
        """List F to the depth, then I, W of an earlier microbatch and F in turn, then the other weight gradients."""
        m = pipeline.num_microbatches or 0
        depth, held = self.depth(pipeline.num_stages, stage), self.depth(pipeline.num_stages, 0)
        forward, input_gradient, weight_gradient = (
            [Pass(kind, stage, number) for number in range(m)]
            for kind in (PassKind.FORWARD, PassKind.INPUT_GRADIENT, PassKind.WEIGHT_GRADIENT)
        )
        passes, late = forward[:depth], held - depth
        for number in range(m):
            passes.append(input_gradient[number])
            passes += weight_gradient[number - late : number - late + 1] if number >= late else []
            passes += forward[depth + number : depth + number + 1]
        return alone([*passes, *weight_gradient[max(0, m - late) :]])

    def idle(self, pipeline: PipelineShape, times: PassTimes) -> float:
        """Return (p - 1)(F + I) - (min(m, d) - 1) W where F = I = W, else the simulated idle time; d: the first depth.

        With m >= d these are the published (p - 1)(F + I - W) of H1, whose d is p, and (p - 1)(F + I - 2W) of H2, whose
        d is 2 p - 1. H2's optimizer steps begin on each stage when it is done there.
        Source: Qi et al. 2023, arXiv 2401.10241, section 2.3 and table 2; other times by passes.StepProgram.walk.
        """
        if not times.are_equal:
            return self.simulated_idle(pipeline.filled, times)
        p = pipeline.num_stages
        filled = min(pipeline.limit, self.depth(p, 0)) - 1
        return (p - 1) * (times.forward + times.input_gradient) - filled * times.weight_gradient

    def held_passes(self, pipeline: PipelineShape, stage: int) -> float:
        """Return min(d, m). A microbatch that waits for weight gradients counts whole: it holds 32 of 34 s b h."""
        return min(float(self.depth(pipeline.num_stages, 0)), pipeline.limit)


class ZeroBubbleH1(ZeroBubble):
    """The zero bubble schedule of depth p - i, that of 1F1B, which needs no more memory."""

    def depth(self, num_stages: int, stage: int) -> int:
        return num_stages - stage


ZERO_BUBBLE_H1 = ZeroBubbleH1(
    name="zb-h1",
    title="zero bubble H1",
    source="Qi et al. 2023, arXiv 2401.10241, section 2.1",
)


class ZeroBubbleH2(ZeroBubble):
    """The zero bubble schedule of depth 2 (p - i) - 1: what comes back late finds more to do."""

    def depth(self, num_stages: int, stage: int) -> int:
        return 2 * (num_stages - stage) - 1


ZERO_BUBBLE_H2 = ZeroBubbleH2(
    name="zb-h2",
    title="zero bubble H2",
    consistency="one version, once an update that its later validation rolls back is out of the way",
    source="Qi et al. 2023, arXiv 2401.10241, sections 2.2 and 4",
)


class ZeroBubbleV(PipelineSchedule):
    """ZB-V: device i has chunks i and 2 p - 1 - i, so that a microbatch goes down all devices and up again."""

    splits_backward = True

    def check(self, pipeline: PipelineShape) -> None:
        if not self.runs_chunks(pipeline.num_chunks):
            raise InvalidInput.of(
                "parallelism.virtual_pipeline",
                f"must be 2 with schedule {self.name}",
                value=pipeline.num_chunks,
                remedy="change it or training.schedule",
            )

    def runs_chunks(self, num_chunks: int) -> bool:
        return num_chunks == 2

    def chunks_on(self, pipeline: PipelineShape, stage: int) -> tuple[int, ...]:
        return stage, 2 * pipeline.num_stages - 1 - stage

    def order(self, pipeline: PipelineShape, stage: int) -> list[Slot]:
        """List the passes of at least 2 p - 1 microbatches, and leave out microbatches that do not exist.

        Source: torch 2.13, distributed/pipelining/schedules.py, ScheduleZBVZeroBubble.
        """
        p, num_microbatches = pipeline.num_stages, pipeline.num_microbatches or 0
        m = max(num_microbatches, 2 * p - 1)
        down, up = _ChunkPasses(stage), _ChunkPasses(2 * p - 1 - stage)
        passes = [down.forward() for _ in range(2 * (p - stage) - 1)]
        for _ in range(stage):
            passes += (up.forward(), down.forward())
        for _ in range(p - stage):
            passes += (up.forward(), *up.backward())
        for number in range(m - p):
            if number < m - (2 * p - 1 - stage):
                passes.append(down.forward())
            passes += (*down.backward(), up.forward(), *up.backward())
        for _ in range(stage):
            passes += (down.input_gradient(), up.input_gradient())
        for _ in range(p - stage):
            passes += down.backward()
        passes += [up.weight_gradient() for _ in range(stage)]
        passes += [down.weight_gradient() for _ in range(stage)]
        return alone(each for each in passes if each.microbatch < num_microbatches)

    def idle(self, pipeline: PipelineShape, times: PassTimes) -> float:
        """Return F max(0, 2 p - 1 - m) where F = I = W, else the simulated idle time: the paper has no other formula.

        Source: Qi et al. 2023, arXiv 2401.10241, section 6; fewer microbatches by passes.StepProgram.walk.
        """
        p = pipeline.num_stages
        if times.are_equal:
            return times.forward * max(0.0, 2 * p - 1 - pipeline.limit)
        return self.simulated_idle(pipeline.filled, times)

    def held_passes(self, pipeline: PipelineShape, stage: int) -> float:
        """Return min(2 p, 2 m, m + i + 1) passes of chunks, each half a stage."""
        m = pipeline.limit
        return min(2.0 * pipeline.num_stages, 2 * m, m + stage + 1)


class _ChunkPasses:
    """Passes through one chunk: each method returns the pass of the next microbatch."""

    def __init__(self, chunk: int) -> None:
        self._chunk = chunk
        self._next = {kind: count() for kind in PassKind}

    def forward(self) -> Pass:
        return self._next_pass(PassKind.FORWARD)

    def input_gradient(self) -> Pass:
        return self._next_pass(PassKind.INPUT_GRADIENT)

    def weight_gradient(self) -> Pass:
        return self._next_pass(PassKind.WEIGHT_GRADIENT)

    def backward(self) -> tuple[Pass, Pass]:
        return self.input_gradient(), self.weight_gradient()

    def _next_pass(self, kind: PassKind) -> Pass:
        return Pass(kind, self._chunk, next(self._next[kind]))


ZERO_BUBBLE_V = ZeroBubbleV(
    name="zb-v",
    title="zero bubble V",
    consistency="one version, once an update that its later validation rolls back is out of the way",
    source="Qi et al. 2023, arXiv 2401.10241, section 6",
)
