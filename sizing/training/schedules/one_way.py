"""Schedules whose microbatches run one way and whose backward passes are whole: GPipe, 1F1B, interleaved, PipeDream."""

from __future__ import annotations

from collections.abc import Sequence

from sizing.errors import InvalidInput
from sizing.training.schedules.passes import Pass, PassKind, PassTimes, Slot, alone
from sizing.training.schedules.schedule import PipelineSchedule, PipelineShape


def max_held_chunks(chunks: Sequence[float], *, stage: int, num_stages: int, num_microbatches: int | None) -> float:
    """Return the max over a step of the bytes that a stage holds of unequal chunks, with schedule interleaved.

    max over k of sum_c s_c (F(c, w + k) - F(v - 1 - c, k)): w = 2 (p - i - 1) + (v - 1) p + 1 forwards come before the
    first backward, then one each; of n forwards F(c, n) = p floor(n / (p v)) + min(max(n mod (p v) - c p, 0), p) are of
    chunk c, as microbatches go through the chunks in groups of p, and backwards begin with the last chunk. s_c is what
    one microbatch leaves in chunk c of stage i; the sum is linear in k between the ends of groups.
    Source: Narayanan et al. 2021, arXiv 2104.04473, section 2.2; Megatron-LM, core/pipeline_parallel/schedules.py.

    >>> max_held_chunks([1, 1], stage=0, num_stages=8, num_microbatches=16) == 11.5 * 2
    True
    >>> max_held_chunks([0, 1], stage=0, num_stages=8, num_microbatches=16)
    8
    """
    p, last, period = num_stages, len(chunks) - 1, num_stages * len(chunks)
    before = 2 * (p - stage - 1) + period - p + 1
    past = before + period if num_microbatches is None else num_microbatches * len(chunks)
    steady = max(0, min(period, past - before))

    def num_of_chunk(chunk: int, num_passes: int) -> int:
        rounds, left = divmod(num_passes, period)
        return p * rounds + min(max(left - chunk * p, 0), p)

    def held_bytes(k: int) -> float:
        num_forwards = min(before + k, past)
        return sum(
            size * (num_of_chunk(chunk, num_forwards) - num_of_chunk(last - chunk, k))
            for chunk, size in enumerate(chunks)
        )

    return max(map(held_bytes, {0, steady, *range(0, steady, p), *range(-before % p, steady, p)}))


def bubble_fraction(*, num_stages: int, num_chunks: int = 1, num_microbatches: int) -> float:
    """Return the share of a step's time for which a stage idles: (p - 1)/(v m + p - 1).

    p stages, v chunks per stage, m microbatches; gpipe and 1f1b have v = 1. Of ideal time it is (p - 1)/(v m).
    Source: Narayanan et al. 2021, arXiv 2104.04473, section 2.2; `published/training_techniques.json`.

    >>> round(bubble_fraction(num_stages=8, num_microbatches=16), 4)
    0.3043
    """
    return (num_stages - 1) / (num_chunks * num_microbatches + num_stages - 1)


def flush_idle(pipeline: PipelineShape, times: PassTimes) -> float:
    """Return the time that a flush costs each step: (p - 1)(F + B), forward and backward pass of a stage.

    Source: Huang et al. 2019, arXiv 1811.06965, section 2.3; Narayanan et al. 2021, arXiv 2104.04473, section 2.2.1.

    >>> flush_idle(PipelineShape(8, 16), PassTimes(forward=1, input_gradient=1, weight_gradient=1))
    21
    """
    return (pipeline.num_stages - 1) * times.total


class GPipe(PipelineSchedule):
    """All forward passes of a step, then all backward passes, so that a stage keeps every microbatch."""

    def check(self, pipeline: PipelineShape) -> None:
        super().check(pipeline)
        if pipeline.num_microbatches is None:
            raise InvalidInput.of(
                "training.global_batch_size",
                f"is required with schedule {self.name}, which keeps every microbatch of a step",
                value=None,
                remedy="give it",
            )

    def order(self, pipeline: PipelineShape, stage: int) -> list[Slot]:
        numbers, kinds = range(pipeline.num_microbatches or 0), (PassKind.FORWARD, PassKind.BACKWARD)
        return alone(Pass(kind, stage, number) for kind in kinds for number in numbers)

    def idle(self, pipeline: PipelineShape, times: PassTimes) -> float:
        return flush_idle(pipeline, times)

    def held_passes(self, pipeline: PipelineShape, stage: int) -> float:
        return pipeline.limit


GPIPE = GPipe(
    name="gpipe",
    title="GPipe",
    source="Huang et al. 2019, arXiv 1811.06965, section 2.3",
)


class OneForwardOneBackward(PipelineSchedule):
    """1F1B: p - i - 1 forward passes to warm up, then one forward and one backward pass in turn."""

    def order(self, pipeline: PipelineShape, stage: int) -> list[Slot]:
        """Warm up with forward passes, alternate forward and backward passes, and run empty."""
        numbers = range(pipeline.num_microbatches or 0)
        forward = [Pass(PassKind.FORWARD, stage, number) for number in numbers]
        warm, rest = forward[: pipeline.num_stages - stage - 1], forward[pipeline.num_stages - stage - 1 :]
        steady = [
            each for number in numbers for each in (*rest[number : number + 1], Pass(PassKind.BACKWARD, stage, number))
        ]
        return alone([*warm, *steady])

    def idle(self, pipeline: PipelineShape, times: PassTimes) -> float:
        return flush_idle(pipeline, times)

    def held_passes(self, pipeline: PipelineShape, stage: int) -> float:
        return min(float(pipeline.num_stages - stage), pipeline.limit)


ONE_FORWARD_ONE_BACKWARD = OneForwardOneBackward(
    name="1f1b",
    title="1F1B, DAPPLE, PipeDream-Flush",
    source="Fan et al. 2021, DAPPLE, arXiv 2007.01045; Narayanan et al. 2021, arXiv 2104.04473, section 2.2.1",
)


class Interleaved(PipelineSchedule):
    """Interleaved 1F1B: microbatches go through the chunks in groups of p, backward through the last chunk first."""

    def check(self, pipeline: PipelineShape) -> None:
        super().check(pipeline)
        self._require_whole_groups(pipeline, pipeline.num_stages, rule=f"a multiple of pipeline {pipeline.num_stages}")

    def runs_chunks(self, num_chunks: int) -> bool:
        return num_chunks > 1

    def order(self, pipeline: PipelineShape, stage: int) -> list[Slot]:
        """List 2 (p - i - 1) + (v - 1) p forward passes, then one backward and one forward pass in turn.

        Source: Megatron-LM, core/pipeline_parallel/schedules.py.
        """
        p, v = pipeline.num_stages, pipeline.num_chunks
        m = pipeline.num_microbatches or 0
        places = [(c, g + k) for g in range(0, m, p) for c in range(v) for k in range(min(p, m - g))]
        forward = [Pass(PassKind.FORWARD, stage + c * p, number) for c, number in places]
        backward = [Pass(PassKind.BACKWARD, stage + (v - 1 - c) * p, number) for c, number in places]
        warm = 2 * (p - stage - 1) + (v - 1) * p
        rest = forward[warm:]
        steady = [each for number, back in enumerate(backward) for each in (*rest[number : number + 1], back)]
        return alone([*forward[:warm], *steady])

    def idle(self, pipeline: PipelineShape, times: PassTimes) -> float:
        return flush_idle(pipeline, times) / pipeline.num_chunks

    def held_passes(self, pipeline: PipelineShape, stage: int) -> float:
        """Return min(2 (p - i - 1) + (v - 1) p + 1, v m)."""
        p, v = pipeline.num_stages, pipeline.num_chunks
        return min(float(2 * (p - stage - 1) + (v - 1) * p + 1), v * pipeline.limit)

    def held_bytes(self, pipeline: PipelineShape, stage: int, chunk_bytes: Sequence[float]) -> float:
        """Return the max bytes over a step; for chunks of different sizes by `max_held_chunks`."""
        if all(each == chunk_bytes[0] for each in chunk_bytes):
            return super().held_bytes(pipeline, stage, chunk_bytes)
        return max_held_chunks(
            chunk_bytes, stage=stage, num_stages=pipeline.num_stages, num_microbatches=pipeline.num_microbatches
        )


INTERLEAVED = Interleaved(
    name="interleaved",
    title="interleaved 1F1B",
    source="Narayanan et al. 2021, arXiv 2104.04473, section 2.2.2; Korthikanti et al. 2022, arXiv 2205.05198, "
    "section 4.2.3",
)


class WithoutFlush(OneForwardOneBackward):
    """1F1B without a flush: steps follow each other without a gap. A stage holds as much as with a flush."""

    flushes = False

    def idle(self, pipeline: PipelineShape, times: PassTimes) -> float:
        """Return 0: once the pipeline is full no device idles."""
        return 0.0


class PipeDream(WithoutFlush):
    """1F1B without a flush, which updates the weights after each microbatch."""

    def weight_versions(self, pipeline: PipelineShape, stage: int) -> int:
        """Return p - i: a stage keeps the weights that each microbatch in flight began with."""
        return pipeline.num_stages - stage


PIPEDREAM = PipeDream(
    name="pipedream",
    title="PipeDream",
    consistency="drained, one version; else stage i saves all p - i that it keeps",
    source="Narayanan et al. 2019, PipeDream, SOSP, sections 3.2 and 3.3; arXiv 1806.03377",
)


class PipeDream2BW(WithoutFlush):
    """PipeDream-2BW, with two buffers of weights: those of the microbatches in flight, and the newest."""

    def check(self, pipeline: PipelineShape) -> None:
        """Raise InvalidInput for fewer microbatches than stages, which would need a third version."""
        super().check(pipeline)
        self._require_at_least(pipeline, pipeline.num_stages)

    def weight_versions(self, pipeline: PipelineShape, stage: int) -> int:
        return 2


PIPEDREAM_2BW = PipeDream2BW(
    name="pipedream-2bw",
    title="PipeDream-2BW",
    consistency="drained, one version; else both",
    source="Narayanan et al. 2021, arXiv 2006.09503, section 3.1",
)


PIPEMARE = WithoutFlush(
    name="pipemare",
    title="PipeMare",
    consistency="one version and the correction buffer",
    source="Yang et al. 2021, arXiv 1910.05124, section 3.2",
)
"""Backward passes extrapolate the weights of their forward pass, from what `moments` keep."""
