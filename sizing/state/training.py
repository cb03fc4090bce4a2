"""The `training` block of a Scenario: what the framework keeps, and so what a checkpoint holds."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, model_validator

from sizing.errors import broken_rule

Framework = Literal["megatron"]
Precision = Literal["bf16-mixed", "fp16-mixed", "fp32"]
Optimizer = Literal["adam", "sgd-momentum", "sgd"]
Dtype = Literal["fp32", "bf16", "fp16", "fp8"]

BYTES_PER_VALUE: dict[Dtype, int] = {"fp32": 4, "bf16": 2, "fp16": 2, "fp8": 1}

MOMENTS: dict[Optimizer, int] = {"adam": 2, "sgd-momentum": 1, "sgd": 0}
"""Values that an optimizer keeps per parameter; `published/optimizer_state_bytes.json` has them measured."""


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
    def _something_is_saved(self) -> Self:
        override = self.saved_state
        if override is not None and override.moments is not None and not MOMENTS[self.optimizer]:
            raise broken_rule(
                f"has saved_state.moments {override.moments}, but optimizer {self.optimizer} keeps none",
                "remove saved_state.moments",
            )
        return self
