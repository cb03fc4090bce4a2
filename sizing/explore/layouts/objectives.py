"""What makes a layout good: the figure of each objective, and the order that follows."""

from __future__ import annotations

from collections.abc import Callable

from sizing.errors import InvalidInput
from sizing.explore.layouts.layouts_report import FoundLayout
from sizing.explore.layouts.layouts_request import Objective
from sizing.layout import Parallelism
from sizing.scenario import Scenario

Figure = Callable[[FoundLayout], float | None]

OBJECTIVES: dict[Objective, Figure] = {
    "model-parallel-gpus": lambda layout: layout.model_parallel_gpus,
    "save-time": lambda layout: layout.stall_seconds,
    "write-bandwidth": lambda layout: layout.required_write_bytes_per_second,
    "bubble": lambda layout: layout.bubble_fraction,
    "memory": lambda layout: layout.gpu_bytes,
}
"""The min is the best. `model-parallel-gpus` leaves the max of replicas, `save-time` is the stall of one save."""


def model_parallel_gpus(parallelism: Parallelism, *, shard_group: int) -> int:
    """GPUs over which the tensors are cut: pipeline x max(tensor, expert x expert tensor) x FSDP's shard group.

    Source: definition; experts are carved out of the ranks of a stage.

    >>> model_parallel_gpus(Parallelism(tensor=8, pipeline=64, data=6), shard_group=1)
    512
    """
    experts = parallelism.expert * parallelism.expert_tensor_degree if parallelism.expert > 1 else 1
    return parallelism.pipeline * max(parallelism.tensor, experts) * shard_group


def ranking(objective: Objective) -> Callable[[FoundLayout], tuple[float, ...]]:
    """The key by which layouts are sorted: the objective; then model-parallel GPUs, stages, ZeRO stage, memory."""
    figure = OBJECTIVES[objective]

    def key(layout: FoundLayout) -> tuple[float, ...]:
        value, degrees = figure(layout), layout.parallelism
        unknown = float("inf") if value is None else value
        return (unknown, layout.model_parallel_gpus, degrees.pipeline, degrees.zero_stage or 0, layout.gpu_bytes)

    return key


def require_inputs(objective: Objective, scenario: Scenario) -> None:
    """Refuse an objective whose figure the scenario leaves unknown.

    Raises InvalidInput naming the field that it needs.
    """
    if objective == "save-time" and scenario.run_inputs.profile is None:
        raise InvalidInput.of("storage", "is required for the objective save-time", value=None, remedy="give it")
    if objective == "bubble" and scenario.training.global_batch_size is None:
        raise InvalidInput.of(
            "training.global_batch_size",
            "is required for the objective bubble",
            value=None,
            remedy="give it with micro_batch_size and sequence_length",
        )
