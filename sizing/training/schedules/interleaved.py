"""Interleaved 1F1B: each device has several chunks of the model, chunk c on device c mod p."""

from __future__ import annotations

from collections.abc import Sequence

from sizing.training.schedules import checks
from sizing.training.schedules.base import Pipeline, PipelineSchedule
from sizing.training.schedules.closed_forms import flush_idle, max_held_chunks
from sizing.training.schedules.passes import Pass, PassTimes, Slot, Work, alone


class Interleaved(PipelineSchedule):
    """Microbatches go through the chunks in groups of p, backwards through the last chunk first."""

    def check(self, pipeline: Pipeline) -> None:
        """Several chunks, and groups of p microbatches."""
        checks.chunks_per_stage(self, pipeline)
        checks.whole_groups(self, pipeline, pipeline.num_stages, rule=f"a multiple of pipeline {pipeline.num_stages}")

    def runs_chunks(self, num_chunks: int) -> bool:
        """Several."""
        return num_chunks > 1

    def order(self, pipeline: Pipeline, stage: int) -> list[Slot]:
        """2 (p - i - 1) + (v - 1) p forward passes, then one of each in turn.

        Source: Megatron-LM, core/pipeline_parallel/schedules.py.
        """
        p, v = pipeline.num_stages, pipeline.num_chunks
        m = pipeline.num_microbatches or 0
        places = [(c, g + k) for g in range(0, m, p) for c in range(v) for k in range(min(p, m - g))]
        forward = [Pass(Work.FORWARD, stage + c * p, number) for c, number in places]
        backward = [Pass(Work.BACKWARD, stage + (v - 1 - c) * p, number) for c, number in places]
        warm = 2 * (p - stage - 1) + (v - 1) * p
        rest = forward[warm:]
        steady = [each for number, back in enumerate(backward) for each in (*rest[number : number + 1], back)]
        return alone([*forward[:warm], *steady])

    def idle(self, pipeline: Pipeline, times: PassTimes) -> float:
        """(p - 1)(F + B)/v."""
        return flush_idle(pipeline, times) / pipeline.num_chunks

    def held_passes(self, pipeline: Pipeline, stage: int) -> float:
        """min(2 (p - i - 1) + (v - 1) p + 1, v m)."""
        p, v = pipeline.num_stages, pipeline.num_chunks
        return min(float(2 * (p - stage - 1) + (v - 1) * p + 1), v * pipeline.limit)

    def held_bytes(self, pipeline: Pipeline, stage: int, chunk_bytes: Sequence[float]) -> float:
        """By a formula for chunks of different sizes too, `closed_forms.max_held_chunks`."""
        if all(each == chunk_bytes[0] for each in chunk_bytes):
            return super().held_bytes(pipeline, stage, chunk_bytes)
        return max_held_chunks(
            chunk_bytes, stage=stage, num_stages=pipeline.num_stages, num_microbatches=pipeline.num_microbatches
        )


INTERLEAVED = Interleaved(
    name="interleaved",
    title="interleaved 1F1B",
    flushes=True,
    splits_backward=False,
    is_two_way=False,
    published_times=PassTimes(),
    consistency="one version of the weights: every step ends with a flush",
    source="Narayanan et al. 2021, arXiv 2104.04473, section 2.2.2; Korthikanti et al. 2022, arXiv 2205.05198, "
    "section 4.2.3",
)
