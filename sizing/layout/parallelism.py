"""The `parallelism` block of a Scenario: how many ranks share the work, and along which axes."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from sizing.errors import InvalidInput, broken_rule
from sizing.model.architecture import Architecture

Degree = Annotated[int, Field(ge=1, le=1_000_000)]
TensorDegree = Annotated[int, Field(ge=1, le=4096)]
_MOST_GPUS = 100_000_000


class Parallelism(BaseModel):
    """Degrees of parallelism; 1 means that the axis is not used.

    `tensor` ranks share every layer, `pipeline` stages share the layers, `context` ranks share a sequence
    and `data` ranks the batch; along the last two the whole state is replicated.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    tensor: TensorDegree = 1
    pipeline: Degree = 1
    context: Degree = 1
    data: Degree = 1
    layers_per_stage: tuple[Annotated[int, Field(ge=0, le=10_000)], ...] | None = Field(
        None, max_length=10_000, description="layers of each pipeline stage, first stage first"
    )

    @model_validator(mode="after")
    def _degrees_agree(self) -> Self:
        if self.num_gpus > _MOST_GPUS:
            raise broken_rule(
                f"has degrees that multiply to {self.num_gpus:,} GPUs, more than {_MOST_GPUS:,}",
                "lower a degree",
            )
        if self.layers_per_stage is not None and len(self.layers_per_stage) != self.pipeline:
            raise broken_rule(
                f"has layers_per_stage for {len(self.layers_per_stage)} stages and pipeline {self.pipeline}",
                "give one number of layers per stage",
            )
        return self

    @property
    def model_parallel_size(self) -> int:
        """Ranks that together hold one replica of the model."""
        return self.tensor * self.pipeline

    @property
    def num_replicas(self) -> int:
        """Ranks that hold the same part of the model: data x context."""
        return self.data * self.context

    @property
    def num_gpus(self) -> int:
        """GPUs = tensor x pipeline x context x data."""
        return self.model_parallel_size * self.num_replicas


def check_fits_count(parallelism: Parallelism, num_parameters: int) -> None:
    """Refuse more model-parallel ranks than there are parameters.

    Raises InvalidInput.
    """
    if parallelism.model_parallel_size > num_parameters:
        raise InvalidInput.of(
            "parallelism",
            f"must have tensor x pipeline of at most model.num_parameters {num_parameters}",
            value=parallelism.model_parallel_size,
            remedy="lower a degree",
        )


def check_fits_architecture(parallelism: Parallelism, architecture: Architecture) -> None:
    """Refuse degrees by which the architecture cannot be cut.

    Raises InvalidInput naming both fields and the nearest degrees that work.
    """
    _check_tensor(parallelism.tensor, architecture)
    _check_pipeline(parallelism, architecture.num_layers)


def _check_tensor(tensor: int, architecture: Architecture) -> None:
    divided = {
        "num_attention_heads": architecture.num_attention_heads,
        "the feed-forward width": architecture.ffn_width,
    }
    for name, size in divided.items():
        if size % tensor:
            raise InvalidInput.of(
                "parallelism.tensor",
                f"must divide {name} {size}",
                value=tensor,
                remedy=f"the nearest that work are {_nearest_divisors(size, tensor)}",
            )
    if tensor > architecture.vocab_size:
        raise InvalidInput.of(
            "parallelism.tensor",
            f"must be at most vocab_size {architecture.vocab_size}",
            value=tensor,
            remedy="lower the tensor degree",
        )
    kv_heads = architecture.kv_heads
    if kv_heads % tensor and tensor % kv_heads:
        raise InvalidInput.of(
            "parallelism.tensor",
            f"must divide num_kv_heads {kv_heads} or be a multiple of it",
            value=tensor,
            remedy=f"the nearest that work are {_nearest_divisors(kv_heads, tensor)}",
        )


def _check_pipeline(parallelism: Parallelism, num_layers: int) -> None:
    if parallelism.pipeline > num_layers:
        raise InvalidInput.of(
            "parallelism.pipeline",
            f"must be at most num_layers {num_layers}",
            value=parallelism.pipeline,
            remedy=f"the nearest that works is {num_layers}",
        )
    given = parallelism.layers_per_stage
    if given is not None and sum(given) != num_layers:
        raise InvalidInput.of(
            "parallelism.layers_per_stage",
            f"must add up to num_layers {num_layers}",
            value=sum(given),
            remedy="correct the layers of a stage",
        )


def _nearest_divisors(size: int, wanted: int) -> str:
    divisors = [n for n in range(1, min(size, 2 * wanted) + 1) if size % n == 0]
    nearest = sorted(divisors, key=lambda n: abs(n - wanted))[:2]
    return " and ".join(str(n) for n in sorted(nearest))
