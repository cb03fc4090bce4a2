"""The `training` block of a Scenario: what the framework keeps, and so what a checkpoint holds."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from sizing.errors import broken_rule
from sizing.state.optimizers import OPTIMIZERS, Dtype, Optimizer

Framework = Literal["megatron", "fsdp2", "deepspeed"]
Precision = Literal["bf16-mixed", "fp16-mixed", "bf16", "fp32"]


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
    """How the model is trained, as far as it decides what is saved."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    framework: Framework = "megatron"
    precision: Precision = "bf16-mixed"
    optimizer: Optimizer = "adam"
    saved_state: SavedState | None = None
    adapters: Adapters | None = None
    frozen: tuple[Annotated[str, Field(max_length=60)], ...] | None = Field(
        None, max_length=50, description="tensors that are not trained: weights saved, no optimizer state"
    )
    vocabulary_padding_multiple: Annotated[int, Field(ge=1, le=1_000_000)] | None = Field(
        None, description="pads the vocabulary to a multiple of this x tensor; Megatron's is 128"
    )

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
