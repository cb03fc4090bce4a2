"""Execution of a training step, as far as it decides what a GPU holds: batch, stages, schedule, recomputation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sizing.errors import InvalidInput
from sizing.frameworks import FRAMEWORKS
from sizing.layout import Parallelism
from sizing.provenance import Assumption
from sizing.state import Training
from sizing.state.training import Attention, ExpertDispatch, Loss, Recomputation, RecomputeModule, Schedule
from sizing.training.schedules import SCHEDULES, default_schedule
from sizing.training.schedules.schedule import PipelineSchedule, PipelineShape

DEFAULT_RECOMPUTATION: Recomputation = "selective"
DEFAULT_RECOMPUTE_MODULES: tuple[RecomputeModule, ...] = ("core-attn",)
"""Source: Megatron-LM, --recompute-modules, whose default is core_attn."""
DEFAULT_ATTENTION: Attention = "flash"
"""Megatron-LM with Transformer Engine, torch's scaled_dot_product_attention and MaxText choose such a kernel."""


@dataclass(frozen=True, slots=True)
class Execution:
    """Batch, pipeline stages, schedule and recomputation of a training step.

    `num_microbatches` is None without a global batch. `num_sharing` is the number of tensor ranks that share what each
    would keep whole: 1 without sequence parallelism. Full recomputation computes the first `recomputed_layers` of each
    chunk again; all of them where it is None.
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
    expert_dispatch: ExpertDispatch = "all-to-all"

    @property
    def num_tokens(self) -> float:
        """Tokens of a microbatch on one context rank."""
        return self.micro_batch_size * self.sequence_length / self.num_context

    @property
    def rules(self) -> PipelineSchedule:
        """Rules of the schedule: bubble, microbatches in flight and versions of the weights."""
        return SCHEDULES[self.schedule]

    @property
    def pipeline(self) -> PipelineShape:
        """Stages, microbatches and chunks of the pipeline."""
        return PipelineShape(self.num_stages, self.num_microbatches, self.num_chunks)

    def again(self, chunk: range) -> range:
        """Return the layers of a chunk whose whole forward pass is recomputed.

        Source: Megatron-LM, core/transformer/transformer_block.py, _checkpointed_forward, method block.

        >>> Execution(2048, 1, 16, 8, 1, "1f1b", "full", recomputed_layers=3).again(range(10, 20))
        range(10, 13)
        """
        if self.recomputation != "full":
            return chunk[:0]
        return chunk if self.recomputed_layers is None else chunk[: self.recomputed_layers]

    def in_flight_microbatches(self, stage: int) -> float:
        """Count the microbatches that the GPUs of a stage hold at once.

        Source: PipelineSchedule.held_passes.

        >>> Execution(2048, 1, 16, 8, 1, "1f1b", "selective").in_flight_microbatches(7)
        1.0
        """
        return self.rules.in_flight_microbatches(self.pipeline, stage)

    def held_of_stage(self, stage: int) -> float:
        """Count the microbatches of which the layers of a stage keep activations.

        With a two-way schedule the GPU holds those of another stage as well.

        Source: PipelineSchedule.held_of_stage.

        >>> Execution(2048, 1, 16, 8, 1, "dualpipe", "selective").held_of_stage(0)
        8.0
        """
        return self.rules.held_of_stage(self.pipeline, stage)

    def held_bytes(self, stage: int, chunk_bytes: Sequence[float]) -> float:
        """Return the max bytes that a stage holds, with `chunk_bytes` that each chunk keeps of one microbatch.

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
    """Return the bytes of one value in the forward and the backward pass.

    Source: mixed precision computes in 2 bytes (Micikevicius et al. 2018, section 3.1), full precision in 4.

    >>> value_bytes(Training(precision="bf16"))
    2
    """
    return 4 if training.precision == "fp32" else 2


def execution_of(training: Training, parallelism: Parallelism) -> Execution | None:
    """Return how the scenario runs a step, or None where no batch is given.

    Raises InvalidInput where batch and degrees, or schedule and degrees, do not go together.
    """
    if training.sequence_length is None or training.micro_batch_size is None:
        return None
    if training.sequence_length % parallelism.context:
        raise InvalidInput.of(
            "training.sequence_length",
            f"must be a multiple of parallelism.context {parallelism.context}, whose ranks share each sequence",
            value=training.sequence_length,
            remedy="change it or parallelism.context",
        )
    batch, at_once = training.global_batch_size, training.micro_batch_size * parallelism.data
    if batch is not None and batch % at_once:
        raise InvalidInput.of(
            "training.global_batch_size",
            f"must be a multiple of micro_batch_size x data = {at_once:,}",
            value=batch,
            remedy="change it, micro_batch_size or parallelism.data",
        )
    schedule = training.schedule
    if schedule is None or _is_idle(schedule, parallelism):
        schedule = default_schedule(num_chunks=parallelism.virtual_pipeline)
    execution = Execution(
        sequence_length=training.sequence_length,
        micro_batch_size=training.micro_batch_size,
        num_microbatches=None if batch is None else batch // at_once,
        num_stages=parallelism.pipeline,
        num_chunks=parallelism.virtual_pipeline,
        schedule=schedule,
        recomputation=training.recomputation or DEFAULT_RECOMPUTATION,
        num_context=parallelism.context,
        num_sharing=1 if training.sequence_parallel is False else parallelism.tensor,
        attention=training.attention or DEFAULT_ATTENTION,
        recomputed_layers=training.recomputed_layers,
        expert_dispatch=training.expert_dispatch or default_dispatcher(schedule),
    )
    SCHEDULES[training.schedule or schedule].check(execution.pipeline)
    return execution


def default_dispatcher(schedule: Schedule) -> ExpertDispatch:
    """Return the dispatcher of DeepSeek's own schedule, which DeepEP was written for, or an all-to-all.

    >>> default_dispatcher("dualpipe"), default_dispatcher("1f1b")
    ('deepep', 'all-to-all')
    """
    return "deepep" if SCHEDULES[schedule].pairs_passes else "all-to-all"


def _is_idle(schedule: Schedule, parallelism: Parallelism) -> bool:
    """Tell whether the schedule has no effect: one stage, and a flush after each step.

    Without a flush even one stage keeps several versions of its weights.
    """
    return parallelism.pipeline == 1 and SCHEDULES[schedule].flushes


def loss_of(training: Training) -> Loss:
    """Return how cross-entropy is computed: as given, else as the framework does it.

    Source: Megatron-LM, core/models/common/language_module, compute_language_model_loss, without
    --cross-entropy-loss-fusion; torchtitan, components/loss.py, which compiles it with the model; MaxText,
    max_utils.cross_entropy_with_logits under jit; Hugging Face transformers, loss/loss_utils.py, for other loops.

    >>> loss_of(Training()), loss_of(Training(framework="torchtitan"))
    ('vocab-parallel', 'eager')
    """
    if training.loss is not None:
        return training.loss
    framework = FRAMEWORKS[training.framework]
    return "compiled" if training.compile and framework.compiles else framework.loss


def recompute_modules_of(training: Training) -> tuple[RecomputeModule, ...]:
    """Return the modules that selective recomputation computes again, in a fixed order.

    >>> recompute_modules_of(Training()), recompute_modules_of(Training(recompute_modules=["moe_act", "layernorm"]))
    (('core-attn',), ('layernorm', 'moe-act'))
    """
    return tuple(sorted(set(training.recompute_modules or DEFAULT_RECOMPUTE_MODULES)))


def execution_assumptions(training: Training, parallelism: Parallelism) -> Iterator[Assumption]:
    """List how a step is assumed to run where the scenario does not say."""
    if training.micro_batch_size is None:
        return
    if training.recomputation is None:
        reason = "default: scores of attention are not kept"
        yield Assumption(field="training.recomputation", value=DEFAULT_RECOMPUTATION, reason=reason)
    if training.attention is None:
        reason = "default: FlashAttention keeps no scores"
        yield Assumption(field="training.attention", value=DEFAULT_ATTENTION, reason=reason)
    if training.loss is None:
        reason = f"default of {training.framework}" + (" with compile" if training.compile else "")
        yield Assumption(field="training.loss", value=loss_of(training), reason=reason)
    if training.schedule is None and parallelism.pipeline > 1:
        schedule = default_schedule(num_chunks=parallelism.virtual_pipeline)
        yield Assumption(field="training.schedule", value=schedule, reason="default")
    elif training.schedule is not None and _is_idle(training.schedule, parallelism):
        reason = "has no effect with pipeline 1: microbatches pass one after the other"
        yield Assumption(field="training.schedule", value=training.schedule, reason=reason)
    elif training.schedule is not None and (simplified := SCHEDULES[training.schedule].simplified) is not None:
        yield Assumption(field="training.schedule", value=training.schedule, reason=simplified)
    if training.sequence_parallel is None and parallelism.tensor > 1:
        reason = "default: it costs no memory or communication"
        yield Assumption(field="training.sequence_parallel", value=True, reason=reason)
