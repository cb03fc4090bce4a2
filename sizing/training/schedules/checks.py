"""What schedules demand of degrees and microbatches, each told in one sentence."""

from __future__ import annotations

from sizing.errors import InvalidInput
from sizing.training.schedules.base import Pipeline, PipelineSchedule


def chunks_per_stage(schedule: PipelineSchedule, pipeline: Pipeline) -> None:
    """Raises InvalidInput where stages are cut into more or fewer chunks than it runs."""
    if not schedule.runs_chunks(pipeline.num_chunks):
        raise InvalidInput.of(
            "training.schedule",
            "must be interleaved with virtual_pipeline > 1, and only then",
            value=schedule.name,
            remedy="change it or parallelism.virtual_pipeline",
        )


def even_stages(schedule: PipelineSchedule, pipeline: Pipeline) -> None:
    """Raises InvalidInput where two directions cannot share the stages in pairs."""
    if pipeline.num_stages % 2:
        raise InvalidInput.of(
            "parallelism.pipeline",
            f"must be even with schedule {schedule.name}, which runs microbatches in both directions",
            value=pipeline.num_stages,
            remedy="change it or training.schedule",
        )


def given_microbatches(schedule: PipelineSchedule, pipeline: Pipeline, why: str) -> None:
    """Raises InvalidInput where the number of microbatches is not known."""
    if pipeline.num_microbatches is None:
        raise InvalidInput.of(
            "training.global_batch_size",
            f"is required with schedule {schedule.name}, {why}",
            value=None,
            remedy="give it",
        )


def whole_groups(schedule: PipelineSchedule, pipeline: Pipeline, group: int, *, rule: str) -> None:
    """Raises InvalidInput where the microbatches, if known, are no multiple of a group."""
    found = pipeline.num_microbatches
    if found is not None and found % group:
        raise InvalidInput.of(
            "training.global_batch_size",
            f"must give {rule} microbatches with schedule {schedule.name}",
            value=f"{found:,} microbatches",
            remedy="change it, micro_batch_size or a degree",
        )


def enough_microbatches(schedule: PipelineSchedule, pipeline: Pipeline, least: int) -> None:
    """Raises InvalidInput where there are fewer microbatches, if known, than the schedule is made of."""
    found = pipeline.num_microbatches
    if found is not None and found < least:
        raise InvalidInput.of(
            "training.global_batch_size",
            f"must give at least {least:,} microbatches with schedule {schedule.name}",
            value=f"{found:,} microbatches",
            remedy="change it, micro_batch_size or a degree",
        )
