"""Report of a layout search, as a document: layouts that fit, and those that nearly do."""

from __future__ import annotations

from pydantic import Field, computed_field, model_validator

from sizing.former_names import with_new_names
from sizing.layout import Parallelism
from sizing.questions.layouts.request import Objective
from sizing.state.offload import Offload
from sizing.state.training import Recomputation, Schedule
from sizing.strict_model import StrictModel


class FoundLayout(StrictModel):
    """Degrees whose state and activations fit, with the figures of `answer` for them. What is None is not known."""

    parallelism: Parallelism = Field(description="Degrees of this layout, as a scenario takes them.")
    recomputation: Recomputation | None = Field(
        description="What the backward pass computes again: the min that fits, unless the scenario says. "
        "Null when activations are not counted."
    )
    recomputed_layers: int | None = Field(
        None,
        description="Layers of each model chunk that are computed again where the others need not be: the min that "
        "fits. Null where all are, or none.",
    )
    schedule: Schedule | None = Field(
        None, description="Pipeline schedule: the scenario's, else the default of its virtual stages. Null without one."
    )
    offload: Offload | None = Field(
        None,
        description="What of the state and the activations lies off the GPU, as a scenario takes it. Null where "
        "nothing does.",
    )
    distributed_optimizer: bool | None = Field(
        None,
        description="Whether replicas divide the optimizer, where the scenario leaves that open and the search chose "
        "it. Null elsewhere.",
    )
    micro_batch_size: int | None = Field(
        None, description="Sequences of one forward pass. Null when activations are not counted."
    )
    step_seconds: float | None = Field(
        None, description="Seconds of a step. Null without global_batch_size or where the node does not name its GPU."
    )
    tokens_per_second: float | None = Field(
        None, description="Tokens per second of all GPUs while they train. Null where the time of a step is unknown."
    )
    mfu_fraction: float | None = Field(
        None, description="Fraction of peak that the model's operations take. Null where the time of a step is unknown."
    )
    effective_tokens_per_second: float | None = Field(
        None,
        description="Tokens per second that saves, failures and recovery leave of it. Null without a step time, or "
        "without the shares of the run's time.",
    )
    headroom_bytes: int = Field(description="Bytes of a GPU's memory that remain free.")
    model_parallel_gpus: int = Field(
        description="GPUs over which the tensors are cut: pipeline x max(tensor, expert x expert tensor); with FSDP "
        "the shard group."
    )
    gpu_bytes: int = Field(description="Bytes needed on the fullest GPU: state and, with a batch, activations.")
    gpu_state_bytes: int = Field(
        description="Bytes of weights, gradients and optimizer state on the GPU that holds the max."
    )
    activation_bytes: int | None = Field(
        description="Bytes of activations on the fullest GPU. Null when activations are not counted."
    )
    bubble_fraction: float | None = Field(
        description="Fraction of a step for which a pipeline stage idles. Null without global_batch_size."
    )
    num_writers: int = Field(description="Ranks that write at least one file.")
    num_writing_nodes: int = Field(description="Nodes that hold at least one writer.")
    total_bytes: int = Field(description="Bytes of tensors in all files of one checkpoint.")
    stored_bytes: int | None = Field(
        None,
        description="Bytes of one checkpoint as it is stored: measured, or after the format's own compression and "
        "checkpoint.reduction. Null in reports made before it was counted.",
    )
    max_rank_bytes: int = Field(description="Bytes that the busiest writer writes per save.")
    write_seconds: float | None = Field(
        description="Seconds from the start of a save until it is complete. Null without a write rate."
    )
    stall_seconds: float | None = Field(
        description="Seconds for which training waits in each save. Null without a write rate."
    )
    restore_seconds: float | None = Field(
        description="Seconds to read the checkpoint, exchange included. Null without a read rate."
    )
    required_write_bytes_per_second: float | None = Field(
        description="Min write rate that meets the targets, in bytes per second; a goodput target may need more. "
        "Null when no rate does."
    )


class MinMemory(StrictModel):
    """The degrees that need the min memory of a GPU."""

    parallelism: Parallelism = Field(description="Degrees with the lowest memory on the fullest GPU.")
    recomputation: Recomputation | None = Field(
        description="What the backward pass then computes again. Null when activations are not counted."
    )
    gpu_bytes: int = Field(description="Bytes that they need on the fullest GPU.")


class NearlyFitting(StrictModel):
    """A candidate that would be better than the best that fits, and the smallest change with which it fits."""

    parallelism: Parallelism = Field(description="Degrees that do not fit.")
    micro_batch_size: int | None = Field(description="Sequences of one forward pass.")
    recomputation: Recomputation | None = Field(description="What the backward pass computes again.")
    gpu_bytes: int = Field(description="Bytes that they need on the fullest GPU.")
    missing_bytes: int = Field(description="Bytes by which that exceeds the memory without the headroom.")
    step_seconds: float | None = Field(description="Seconds of a step if it fitted. Null where unknown.")
    change: str = Field(description="Smallest change among the candidates with which it fits.")


class LayoutsReport(StrictModel):
    """The layouts that fit, the best by the objective first."""

    objective: Objective = Field(description="What the layouts are sorted by, the lowest first.")
    num_gpus: int = Field(description="World size that the degrees multiply to.")
    num_nodes: int = Field(description="Nodes that hold these GPUs, the last one perhaps in part.")
    node: str = Field(description="Name of the node type; node_spec when the scenario describes it itself.")
    gpu_memory_bytes: int = Field(description="Bytes of memory of one GPU, headroom included.")
    room_bytes: int = Field(description="Bytes of a GPU's memory without the headroom, which a layout must fit.")
    num_candidates: int = Field(
        description="Combinations of degrees that multiply to the GPUs, and again each way in which one fits with "
        "something off the GPU."
    )
    num_refused: int = Field(description="Candidates that the model, the format or the batch refuses.")
    num_too_large: int = Field(description="Candidates that need more memory than a GPU has.")
    num_fitting: int = Field(description="Candidates that fit, reported or not.")
    layouts: list[FoundLayout] = Field(description="Layouts that fit, the best first.")
    min_memory: MinMemory | None = Field(
        description="Candidate with the lowest memory on the fullest GPU. Null when all are refused."
    )
    nearly_fitting: list[NearlyFitting] = Field(
        default_factory=list,
        description="Up to three candidates that lack at most a quarter of the memory and would take less time for a "
        "step than any that fits, the fastest first. Empty with other objectives than step-time and goodput.",
    )
    warnings: list[str] = Field(description="What a reader must know before believing the layouts.")

    @model_validator(mode="before")
    @classmethod
    def _of_former_names(cls, document: object) -> object:
        return with_new_names(document, {"least_memory": "min_memory"})

    @computed_field(  # type: ignore[prop-decorator]  # of a property, which mypy does not know
        description="Former name of `min_memory`; read that instead.", json_schema_extra={"deprecated": True}
    )
    @property
    def least_memory(self) -> MinMemory | None:
        """The same as `min_memory`."""
        return self.min_memory
