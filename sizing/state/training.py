"""The `training` block of a Scenario: what the framework keeps, and so what a checkpoint holds."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from sizing.errors import broken_rule
from sizing.spelling import AnySpelling
from sizing.state.optimizers import OPTIMIZERS, Dtype, Optimizer

Framework = Literal["megatron", "fsdp2", "deepspeed"]
Precision = Literal["bf16-mixed", "fp16-mixed", "bf16", "fp32"]
Recomputation = Literal["none", "selective", "full"]
"""What the backward pass computes again: nothing, attention's scores (FlashAttention keeps none either), or layers."""
Schedule = Literal["gpipe", "1f1b", "interleaved"]

_OF_A_STEP = ("global_batch_size", "recomputation", "schedule", "sequence_parallel")


class SavedState(BaseModel):
    """Dtypes to save instead of the framework's habit; null means that the part is not saved."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    weights: Dtype | None = None
    master: Dtype | None = None
    moments: Dtype | None = None
    ema: Dtype | None = None


class Adapters(BaseModel):
    """Low-rank adapters (LoRA): beside each matrix A in x rank and rank x out, the matrix itself frozen."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    rank: Annotated[int, Field(ge=1, le=10_000)]
    tensors: tuple[Annotated[str, Field(max_length=60)], ...] = Field(
        ("attention.query", "attention.key_value", "attention.output"), max_length=50
    )
    save_base: bool = Field(False, description="save the frozen weights too")


class Training(BaseModel):
    """How the model is trained: what is saved, and with `micro_batch_size` also what a GPU holds of a step."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    framework: AnySpelling[Framework] = "megatron"
    precision: AnySpelling[Precision] = "bf16-mixed"
    optimizer: AnySpelling[Optimizer] = "adam"
    saved_state: SavedState | None = None
    adapters: Adapters | None = None
    frozen: tuple[Annotated[str, Field(max_length=60)], ...] | None = Field(
        None, max_length=50, description="tensors that are not trained: weights saved, no optimizer state"
    )
    vocabulary_padding_multiple: Annotated[int, Field(ge=1, le=1_000_000)] | None = Field(
        None, description="pads the vocabulary to a multiple of this x tensor; Megatron's is 128"
    )

    sequence_length: Annotated[int, Field(ge=1, le=100_000_000)] | None = Field(
        None, description="tokens of a sequence"
    )
    micro_batch_size: Annotated[int, Field(ge=1, le=1_000_000)] | None = Field(
        None, description="sequences of one forward pass; asks whether activations fit beside the state"
    )
    global_batch_size: Annotated[int, Field(ge=1, le=1_000_000_000)] | None = Field(
        None, description="sequences of one step, over all replicas"
    )
    recomputation: AnySpelling[Recomputation] | None = Field(
        None, description="what the backward pass computes again; selective (also FlashAttention) where not given"
    )
    schedule: AnySpelling[Schedule] | None = Field(
        None, description="of the pipeline; 1f1b where not given, interleaved with virtual_pipeline"
    )
    sequence_parallel: bool | None = Field(
        None, description="tensor ranks share what they would each keep whole; with tensor > 1 where not given"
    )

    @model_validator(mode="after")
    def _a_batch_is_given_whole(self) -> Self:
        if (self.sequence_length is None) != (self.micro_batch_size is None):
            given, missing = ("sequence_length", "micro_batch_size")[:: 1 if self.sequence_length else -1]
            raise broken_rule(f"has {given} without {missing}", f"give {missing} too")
        for name in _OF_A_STEP:
            if self.micro_batch_size is None and getattr(self, name) is not None:
                raise broken_rule(f"has {name} without micro_batch_size", "give micro_batch_size and sequence_length")
        return self

    @model_validator(mode="after")
    def _an_override_has_something_to_change(self) -> Self:
        moments = self.saved_state.moments if self.saved_state else None
        if moments is None:
            return self
        rules = {moment.rule for moment in OPTIMIZERS[self.optimizer]}
        if not rules:
            raise broken_rule(
                f"has saved_state.moments {moments}, but optimizer {self.optimizer} keeps none",
                "remove saved_state.moments",
            )
        if rules != {"value"}:
            raise broken_rule(
                f"has saved_state.moments {moments}, but optimizer {self.optimizer} has a format of its own",
                "remove saved_state.moments",
            )
        return self
