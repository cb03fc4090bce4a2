"""The `training` block of a Scenario: what the framework keeps, and so what a checkpoint holds."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, model_validator

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


class Training(BaseModel):
    """How the model is trained, as far as it decides what is saved."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    framework: Framework = "megatron"
    precision: Precision = "bf16-mixed"
    optimizer: Optimizer = "adam"
    saved_state: SavedState | None = None

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
