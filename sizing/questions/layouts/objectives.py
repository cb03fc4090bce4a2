"""Objectives of a layout search: the figure of each objective, and the order that follows."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from typing import Any

from sizing.cluster.cluster import resolve_node
from sizing.cluster.node import gpu_catalog
from sizing.errors import InvalidInput
from sizing.layout import Parallelism
from sizing.layout.sharding import ranks_of_a_copy
from sizing.questions.layouts.request import OBJECTIVES_OF_TIME, Objective
from sizing.scenario import Scenario

Figure = Callable[[Any], float | None]
"""Figure of a FoundLayout, or of a SizedCandidate where OF_MEMORY_AND_TIME names the objective."""

OF_MEMORY_AND_TIME: frozenset[Objective] = frozenset({"model-parallel-gpus", "step-time", "bubble", "memory"})
"""Objectives whose figures are known before anything is asked of the storage."""


OBJECTIVES: dict[Objective, Figure] = {
    "model-parallel-gpus": lambda layout: layout.model_parallel_gpus,
    "step-time": lambda layout: layout.step_seconds,
    "goodput": lambda layout: (
        None if layout.effective_tokens_per_second is None else -layout.effective_tokens_per_second
    ),
    "save-time": lambda layout: layout.stall_seconds,
    "write-bandwidth": lambda layout: layout.required_write_bytes_per_second,
    "bubble": lambda layout: layout.bubble_fraction,
    "memory": lambda layout: layout.gpu_bytes,
}
"""Figure of each objective; the min is the best. `model-parallel-gpus` leaves the max of replicas, `save-time` is the
stall of one save."""


def model_parallel_gpus(parallelism: Parallelism, *, shard_group: int) -> int:
    """GPUs over which the tensors are cut: pipeline x ranks of a stage that hold one copy, as FSDP shards them too.

    Source: definition.

    >>> model_parallel_gpus(Parallelism(tensor=8, pipeline=64, data=6), shard_group=1)
    512
    """
    return parallelism.pipeline * ranks_of_a_copy(parallelism, shard_group=shard_group)


def make_sort_key(objective: Objective, *, shards_over_data: bool = False) -> Callable[[Any], tuple[float, ...]]:
    """Make the key by which layouts are sorted: the objective; then model-parallel GPUs, stages, ZeRO stage, memory.

    Where data ranks share the tensors anyway, fewer tensor and expert ranks come before less memory. Layouts whose
    figure is not known come last, the shortest step first.
    """
    figure = OBJECTIVES[objective]

    def key(layout: Any) -> tuple[float, ...]:
        value, degrees = figure(layout), layout.parallelism
        known = (math.inf, layout.step_seconds or math.inf) if value is None else (value, 0.0)
        further = (degrees.tensor, degrees.expert) if shards_over_data else ()
        cuts = (layout.model_parallel_gpus, degrees.pipeline, degrees.zero_stage or 0, *further)
        return (*known, *cuts, layout.gpu_bytes)

    return key


def default_objective(scenario: Scenario) -> Objective:
    """Choose the objective that an engineer ranks by, as far as the scenario tells it.

    Source: definition; what each objective needs is as `require_inputs` has it.
    """
    for objective in ("goodput", "step-time"):
        with contextlib.suppress(InvalidInput):
            require_inputs(objective, scenario)
            return objective
    return "model-parallel-gpus"


def require_inputs(objective: Objective, scenario: Scenario) -> None:
    """Refuse an objective whose figure the scenario leaves unknown.

    Raises InvalidInput naming the field that it needs.
    """
    if objective == "save-time" and scenario.run_inputs.profile is None:
        raise InvalidInput.of("storage", "is required for the objective save-time", value=None, remedy="give it")
    if objective in OBJECTIVES_OF_TIME and scenario.training.global_batch_size is None:
        raise InvalidInput.of(
            "training.global_batch_size",
            f"is required for the objective {objective}",
            value=None,
            remedy="give it with micro_batch_size and sequence_length",
        )
    if objective in OBJECTIVES_OF_TIME and resolve_node(scenario.cluster).spec.gpu is None:
        raise InvalidInput.of(
            "cluster.node_spec.gpu",
            f"is required for the objective {objective}",
            value=None,
            remedy="name the GPU: " + ", ".join(gpu_catalog()),
        )
    if objective == "goodput" and (scenario.run_inputs.profile is None or scenario.reliability is None):
        raise InvalidInput.of(
            "storage and reliability",
            "are required for the objective goodput",
            value=None,
            remedy="give both, or take the objective step-time",
        )
    if objective == "bubble" and scenario.training.global_batch_size is None:
        raise InvalidInput.of(
            "training.global_batch_size",
            "is required for the objective bubble",
            value=None,
            remedy="give it with micro_batch_size and sequence_length",
        )
