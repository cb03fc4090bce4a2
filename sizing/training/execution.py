"""How a step runs, as far as it decides what a GPU holds of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sizing.errors import InvalidInput
from sizing.layout import Parallelism
from sizing.provenance import Assumption
from sizing.state import Training
from sizing.state.training import Attention, Loss, Recomputation, Schedule
from sizing.training.schedules.base import Pipeline, PipelineSchedule
from sizing.training.schedules.registry import SCHEDULES, default_schedule

DEFAULT_RECOMPUTATION: Recomputation = "selective"
DEFAULT_ATTENTION: Attention = "flash"
"""Megatron-LM with Transformer Engine, torch's scaled_dot_product_attention and MaxText choose such a kernel."""


@dataclass(frozen=True, slots=True)
class Execution:
    """The batch and how it runs through the stages.

    `num_microbatches` is None without a global batch; `num_sharing` tensor ranks share what each would keep whole, 1
    without sequence parallelism. `recomputed_layers`: the first of each chunk, which full recomputation computes
    again; all where None.
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
    attention: Attention = DEFAULT_ATTENTION
    recomputed_layers: int | None = None

    @property
    def num_tokens(self) -> float:
        """Tokens of a microbatch on one context rank."""
        return self.micro_batch_size * self.sequence_length / self.num_context

    @property
    def rules(self) -> PipelineSchedule:
        """What the schedule says of bubbles, microbatches in flight and versions of weights."""
        return SCHEDULES[self.schedule]

    @property
    def pipeline(self) -> Pipeline:
        """The stages, and what goes through them in a step."""
        return Pipeline(self.num_stages, self.num_microbatches, self.num_chunks)

    def again(self, chunk: range) -> range:
        """The layers of a chunk whose whole forward pass is computed again.

        Source: Megatron-LM, core/transformer/transformer_block.py, _checkpointed_forward, method block.

        >>> Execution(2048, 1, 16, 8, 1, "1f1b", "full", recomputed_layers=3).again(range(10, 20))
        range(10, 13)
        """
        if self.recomputation != "full":
            return chunk[:0]
        return chunk if self.recomputed_layers is None else chunk[: self.recomputed_layers]

    def in_flight_microbatches(self, stage: int) -> float:
        """Microbatches that the GPUs of a stage hold at once.

        Source: PipelineSchedule.held_passes.

        >>> Execution(2048, 1, 16, 8, 1, "1f1b", "selective").in_flight_microbatches(7)
        1.0
        """
        return self.rules.in_flight_microbatches(self.pipeline, stage)

    def held_of_stage(self, stage: int) -> float:
        """Microbatches that the layers of a stage hold at once: all in flight, unless its GPUs hold another stage too.

        Source: PipelineSchedule.held_of_stage.

        >>> Execution(2048, 1, 16, 8, 1, "dualpipe", "selective").held_of_stage(0)
        8.0
        """
        return self.rules.held_of_stage(self.pipeline, stage)

    def held_bytes(self, stage: int, chunk_bytes: Sequence[float]) -> float:
        """Max of what is held of the chunks of a stage, each of which keeps so many bytes of one microbatch.

        Source: PipelineSchedule.held_bytes.

        >>> Execution(2048, 1, 16, 8, 2, "interleaved", "selective").held_bytes(0, [4, 4])
        92.0
        """
        if self.rules.is_two_way:
            return self.held_of_stage(stage) * sum(chunk_bytes)
        return self.rules.held_bytes(self.pipeline, stage, chunk_bytes)

    @property
    def bubble_fraction(self) -> float | None:
        """Share of a step's time for which a stage idles; None without a global batch."""
        if self.num_microbatches is None:
            return None
        return self.rules.bubble_fraction(self.pipeline)


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
    microbatches = _num_microbatches(training, parallelism, training.micro_batch_size)
    execution = Execution(
        sequence_length=training.sequence_length,
        micro_batch_size=training.micro_batch_size,
        num_microbatches=microbatches,
        num_stages=parallelism.pipeline,
        num_chunks=parallelism.virtual_pipeline,
        schedule=_schedule(training, parallelism),
        recomputation=training.recomputation or DEFAULT_RECOMPUTATION,
        num_context=parallelism.context,
        num_sharing=1 if training.sequence_parallel is False else parallelism.tensor,
        attention=training.attention or DEFAULT_ATTENTION,
        recomputed_layers=training.recomputed_layers,
    )
    SCHEDULES[training.schedule or execution.schedule].check(execution.pipeline)
    return execution


def _schedule(training: Training, parallelism: Parallelism) -> Schedule:
    """The scenario's; with a flush, the microbatches of one stage pass forward and backward one after the other."""
    if training.schedule is None or _is_idle(training.schedule, parallelism):
        return default_schedule(num_chunks=parallelism.virtual_pipeline)
    return training.schedule


def _is_idle(schedule: Schedule, parallelism: Parallelism) -> bool:
    """Whether there is nothing to schedule: without a flush, one stage keeps versions of its weights too."""
    return parallelism.pipeline == 1 and SCHEDULES[schedule].flushes


def loss_of(training: Training) -> Loss:
    """How cross-entropy is computed where the scenario does not say.

    Source: Megatron-LM, core/models/common/language_module, compute_language_model_loss, without
    --cross-entropy-loss-fusion; torchtitan, components/loss.py, which compiles it with the model; MaxText,
    max_utils.cross_entropy_with_logits under jit; Hugging Face transformers, loss/loss_utils.py, for other loops.

    >>> loss_of(Training()), loss_of(Training(framework="torchtitan"))
    ('vocab-parallel', 'eager')
    """
    if training.loss is not None:
        return training.loss
    if training.framework == "megatron":
        return "vocab-parallel"
    return "compiled" if training.framework == "maxtext" or training.compile else "eager"


def execution_assumptions(training: Training, parallelism: Parallelism) -> Iterator[Assumption]:
    """How a step is taken to run where the scenario does not say."""
    if training.micro_batch_size is None:
        return
    if training.recomputation is None:
        reason = "default: what is cheap to compute again is not kept"
        yield Assumption(field="training.recomputation", value=DEFAULT_RECOMPUTATION, reason=reason)
    if training.attention is None:
        reason = "default: FlashAttention keeps no scores"
        yield Assumption(field="training.attention", value=DEFAULT_ATTENTION, reason=reason)
    if training.loss is None:
        reason = f"default of {training.framework}" + (" with compile" if training.compile else "")
        yield Assumption(field="training.loss", value=loss_of(training), reason=reason)
    yield from _schedule_assumptions(training, parallelism)
    if training.sequence_parallel is None and parallelism.tensor > 1:
        reason = "default: it costs no memory or communication"
        yield Assumption(field="training.sequence_parallel", value=True, reason=reason)


def _schedule_assumptions(training: Training, parallelism: Parallelism) -> Iterator[Assumption]:
    if training.schedule is None and parallelism.pipeline > 1:
        schedule = default_schedule(num_chunks=parallelism.virtual_pipeline)
        yield Assumption(field="training.schedule", value=schedule, reason="default")
    if training.schedule is not None and _is_idle(training.schedule, parallelism):
        reason = "has no effect with pipeline 1: microbatches pass one after the other"
        yield Assumption(field="training.schedule", value=training.schedule, reason=reason)
        return
    simplified = SCHEDULES[training.schedule].simplified if training.schedule else None
    if simplified is not None:
        yield Assumption(field="training.schedule", value=training.schedule, reason=simplified)


def _check_context(sequence_length: int, context: int) -> None:
    if sequence_length % context:
        raise InvalidInput.of(
            "training.sequence_length",
            f"must be a multiple of parallelism.context {context}, whose ranks share each sequence",
            value=sequence_length,
            remedy="change it or parallelism.context",
        )


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
