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

    weights: Dtype | None = Field(
        None, description="Dtype of saved weights; null leaves them out of the checkpoint. Default: the framework's."
    )
    master: Dtype | None = Field(
        None, description="Dtype of the saved master copy of the weights; null leaves it out. Default: the framework's."
    )
    moments: Dtype | None = Field(
        None, description="Dtype of the optimizer's saved moments; null leaves them out. Default: the framework's."
    )
    ema: Dtype | None = Field(
        None, description="Dtype of a saved moving average of the weights (EMA). Default: none is saved."
    )


class Adapters(BaseModel):
    """Low-rank adapters (LoRA): beside each matrix A in x rank and rank x out, the matrix itself frozen."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    rank: Annotated[int, Field(ge=1, le=10_000)] = Field(
        description="Inner dimension of the two matrices of an adapter, r in Hu et al. 2021."
    )
    tensors: tuple[Annotated[str, Field(max_length=60)], ...] = Field(
        ("attention.query", "attention.key_value", "attention.output"),
        max_length=50,
        description="Matrices that get an adapter, by name or by the beginning of the name. Default: all of attention.",
    )
    save_base: bool = Field(
        False,
        description="Whether the frozen weights are saved too. "
        "Default: no, a LoRA checkpoint holds the adapters alone.",
    )


class Training(BaseModel):
    """How the model is trained: what is saved, and with `micro_batch_size` also what a GPU holds of a step."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    framework: AnySpelling[Framework] = Field(
        "megatron", description="Training framework. It decides what is saved, and the default format."
    )
    precision: AnySpelling[Precision] = Field(
        "bf16-mixed",
        description="Precision of training. Mixed means 16-bit weights beside an fp32 master copy; ZeRO 1 and 2 keep "
        "such a copy of fp32 weights too.",
    )
    optimizer: AnySpelling[Optimizer] = Field(
        "adam", description="Optimizer. It decides which moments are saved with each tensor."
    )
    distributed_optimizer: bool | None = Field(
        None,
        description="Whether data-parallel ranks divide the optimizer state, as Megatron-LM's "
        "--use-distributed-optimizer does. Default: no, as Megatron-LM ships. FSDP2 and DeepSpeed divide it by "
        "parallelism.shard_group and zero_stage.",
    )
    saved_state: SavedState | None = Field(
        None,
        description="Dtypes to save instead of the framework's. "
        "Default: as the framework saves, measured with torch 2.13.",
    )
    adapters: Adapters | None = Field(
        None,
        description="Low-rank adapters (LoRA) that are trained while the model is frozen. "
        "Default: the model itself is trained.",
    )
    frozen: tuple[Annotated[str, Field(max_length=60)], ...] | None = Field(
        None,
        max_length=50,
        description="Tensors that are not trained, by name or by the beginning of the name: weights saved, no "
        "optimizer state. Default: none.",
    )
    vocabulary_padding_multiple: Annotated[int, Field(ge=1, le=1_000_000)] | None = Field(
        None,
        description="The vocabulary is padded to a multiple of this x tensor; Megatron takes 128. Default: not padded.",
    )

    sequence_length: Annotated[int, Field(ge=1, le=100_000_000)] | None = Field(
        None, description="Tokens of one sequence, s in the papers. Required with micro_batch_size."
    )
    micro_batch_size: Annotated[int, Field(ge=1, le=1_000_000)] | None = Field(
        None, description="Sequences of one forward pass, b in the papers. Default: activations are not counted."
    )
    global_batch_size: Annotated[int, Field(ge=1, le=1_000_000_000)] | None = Field(
        None,
        description="Sequences of one optimizer step over all replicas. "
        "Default: unknown, so the pipeline bubble is not computed.",
    )
    recomputation: AnySpelling[Recomputation] | None = Field(
        None,
        description="What the backward pass computes again. With selective attention scores, with full whole layers. "
        "Default: selective, as FlashAttention does.",
    )
    schedule: AnySpelling[Schedule] | None = Field(
        None, description="Order of microbatches in the pipeline. Default: 1f1b, or interleaved with virtual_pipeline."
    )
    sequence_parallel: bool | None = Field(
        None,
        description="Whether tensor ranks share the norms' and dropouts' activations instead of each keeping all "
        "(Korthikanti et al. 2022). Default: yes when tensor is above 1.",
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
