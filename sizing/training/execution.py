"""How a step runs, as far as it decides what a GPU holds of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sizing.errors import InvalidInput
from sizing.layout import Parallelism
from sizing.provenance import Assumption
from sizing.state import Training
from sizing.state.training import Recomputation, Schedule
from sizing.training.schedules import bubble_fraction, in_flight_microbatches, max_held_chunks

DEFAULT_RECOMPUTATION: Recomputation = "selective"


@dataclass(frozen=True, slots=True)
class Execution:
    """The batch and how it runs through the stages.

    `num_microbatches` is None without a global batch; `num_sharing` tensor ranks share what each would keep whole, 1
    without sequence parallelism.
    """

    sequence_length: int
    micro_batch_size: int
    num_microbatches: int | None
    num_stages: int
    num_chunks: int
    schedule: Schedule
    recomputation: Recomputation
    num_context: int = 1
    num_sharing: int = 1

    @property
    def num_tokens(self) -> float:
        """Tokens of a microbatch on one context rank."""
        return self.micro_batch_size * self.sequence_length / self.num_context

    def in_flight_microbatches(self, stage: int) -> float:
        """Microbatches that a stage holds at once.

        Source: schedules.in_flight_microbatches.

        >>> Execution(2048, 1, 16, 8, 1, "1f1b", "selective").in_flight_microbatches(7)
        1.0
        """
        return in_flight_microbatches(
            self.schedule,
            stage=stage,
            num_stages=self.num_stages,
            num_chunks=self.num_chunks,
            num_microbatches=self.num_microbatches,
        )

    def held_bytes(self, stage: int, chunk_bytes: Sequence[float]) -> float:
        """Max of what a stage holds of its chunks, of which each keeps so many bytes of one microbatch.

        Source: schedules.in_flight_microbatches for equal chunks, schedules.max_held_chunks for others.

        >>> Execution(2048, 1, 16, 8, 2, "interleaved", "selective").held_bytes(0, [4, 4])
        92.0
        """
        if all(each == chunk_bytes[0] for each in chunk_bytes):
            return self.in_flight_microbatches(stage) * sum(chunk_bytes)
        return max_held_chunks(
            chunk_bytes, stage=stage, num_stages=self.num_stages, num_microbatches=self.num_microbatches
        )

    @property
    def bubble_fraction(self) -> float | None:
        """Share of a step's time for which a stage idles; None without a global batch."""
        if self.num_microbatches is None:
            return None
        return bubble_fraction(
            num_stages=self.num_stages, num_chunks=self.num_chunks, num_microbatches=self.num_microbatches
        )


def value_bytes(training: Training) -> int:
    """Bytes of a value in the forward and the backward pass.

    Source: mixed precision computes in 2 bytes (Micikevicius et al. 2018, section 3.1), full precision in 4.

    >>> value_bytes(Training(precision="bf16"))
    2
    """
    return 4 if training.precision == "fp32" else 2


def execution_of(training: Training, parallelism: Parallelism) -> Execution | None:
    """How a step of the scenario runs, or None where no batch is given.

    Raises InvalidInput where batch and degrees, or schedule and degrees, do not go together.
    """
    if training.sequence_length is None or training.micro_batch_size is None:
        return None
    _check_context(training.sequence_length, parallelism.context)
    schedule = training.schedule or _default_schedule(parallelism)
    microbatches = _num_microbatches(training, parallelism, training.micro_batch_size)
    _check_schedule(schedule, parallelism, microbatches)
    return Execution(
        sequence_length=training.sequence_length,
        micro_batch_size=training.micro_batch_size,
        num_microbatches=microbatches,
        num_stages=parallelism.pipeline,
        num_chunks=parallelism.virtual_pipeline if schedule == "interleaved" else 1,
        schedule=schedule,
        recomputation=training.recomputation or DEFAULT_RECOMPUTATION,
        num_context=parallelism.context,
        num_sharing=1 if training.sequence_parallel is False else parallelism.tensor,
    )


def execution_assumptions(training: Training, parallelism: Parallelism) -> Iterator[Assumption]:
    """How a step is taken to run where the scenario does not say."""
    if training.micro_batch_size is None:
        return
    if training.recomputation is None:
        reason = "default: scores of attention are not kept, as with FlashAttention"
        yield Assumption(field="training.recomputation", value=DEFAULT_RECOMPUTATION, reason=reason)
    if training.schedule is None and parallelism.pipeline > 1:
        yield Assumption(field="training.schedule", value=_default_schedule(parallelism), reason="default")
    if training.sequence_parallel is None and parallelism.tensor > 1:
        reason = "default: it costs no memory or communication"
        yield Assumption(field="training.sequence_parallel", value=True, reason=reason)


def _check_context(sequence_length: int, context: int) -> None:
    if sequence_length % context:
        raise InvalidInput.of(
            "training.sequence_length",
            f"must be a multiple of parallelism.context {context}, whose ranks share each sequence",
            value=sequence_length,
            remedy="change it or parallelism.context",
        )


def _default_schedule(parallelism: Parallelism) -> Schedule:
    return "interleaved" if parallelism.virtual_pipeline > 1 else "1f1b"


def _num_microbatches(training: Training, parallelism: Parallelism, micro_batch_size: int) -> int | None:
    if training.global_batch_size is None:
        return None
    at_once = micro_batch_size * parallelism.data
    if training.global_batch_size % at_once:
        raise InvalidInput.of(
            "training.global_batch_size",
            f"must be a multiple of micro_batch_size x data = {at_once:,}",
            value=training.global_batch_size,
            remedy="change it, micro_batch_size or parallelism.data",
        )
    return training.global_batch_size // at_once


def _check_schedule(schedule: Schedule, parallelism: Parallelism, num_microbatches: int | None) -> None:
    if (schedule == "interleaved") != (parallelism.virtual_pipeline > 1):
        raise InvalidInput.of(
            "training.schedule",
            "must be interleaved with virtual_pipeline > 1, and only then",
            value=schedule,
            remedy="change it or parallelism.virtual_pipeline",
        )
    if schedule == "gpipe" and num_microbatches is None:
        raise InvalidInput.of(
            "training.global_batch_size",
            "is required with schedule gpipe, which keeps every microbatch of a step",
            value=None,
            remedy="give it",
        )
    if schedule == "interleaved" and num_microbatches is not None and num_microbatches % parallelism.pipeline:
        raise InvalidInput.of(
            "training.global_batch_size",
            f"must give a multiple of pipeline {parallelism.pipeline} microbatches with schedule interleaved",
            value=f"{num_microbatches:,} microbatches",
            remedy="change it, micro_batch_size or a degree",
        )
