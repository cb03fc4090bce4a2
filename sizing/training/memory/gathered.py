"""Parameters that FSDP and ZeRO 3 gather for a moment, in addition to the shard that a GPU keeps."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sizing.layout.parallelism import Parallelism
from sizing.model.inventory import Inventory, TensorGroup

NUM_GATHERED = 3
"""Weights of a layer, weights of the next one, which is fetched meanwhile, and gradients of one.

Source: Zhao et al. 2023, arXiv 2304.11277, sections 3.3 and 3.4: at most two AllGathers are in flight.
"""


class Gathered(NamedTuple):
    """What is whole at a time, on each GPU, and the sentence that says so."""

    num_bytes: int
    text: str


def gathered_by_fsdp(inventory: Inventory, parallelism: Parallelism, *, value_bytes: int) -> Gathered:
    """What FSDP gathers at a time: 3 w P, with P the parameters that a rank has of the largest layer, w bytes a value.

    A rank has its part of what tensor and expert ranks cut. Every layer is taken to be a unit of FSDP.
    Source: NUM_GATHERED.

    >>> from sizing.model.inventory import TensorGroup
    >>> layers = (TensorGroup("w", (4, 3), 4, layers=range(2)),)
    >>> [gathered_by_fsdp(layers, Parallelism(tensor=t), value_bytes=2).num_bytes for t in (1, 2)]
    [72, 36]
    """
    text = "FSDP gathers the weights of two layers and the gradients of one at a time"
    return Gathered(NUM_GATHERED * value_bytes * largest_layer(inventory, parallelism), text)


def largest_layer(inventory: Inventory, parallelism: Parallelism) -> int:
    """Parameters that a rank has of the largest layer, FSDP's ranks apart.

    Source: definition.

    >>> from sizing.model.inventory import TensorGroup
    >>> largest_layer((TensorGroup("w", (4, 3), 4, layers=range(2)),), Parallelism(tensor=2))
    6
    """
    in_layers = [group for group in inventory if group.placement == "layers" and group.layers]
    layers = np.zeros(max((group.layers[-1] + 1 for group in in_layers), default=1))
    for group in in_layers:
        each = group.num_parameters // len(group.layers)
        layers[np.asarray(group.layers)] += each / _num_cuts(group, parallelism)
    return int(layers.max())


def outside_layers(inventory: Inventory, parallelism: Parallelism) -> int:
    """Parameters that a rank has of embeddings, last norm and head: FSDP's root, its ranks apart.

    Source: torchtitan, parallelize.py, apply_fsdp, which shards the layers one by one and then the model.

    >>> from sizing.model.inventory import TensorGroup
    >>> outside_layers((TensorGroup("head", (4, 3), 4, "last-stage"),), Parallelism(tensor=2))
    6
    """
    outside = (group for group in inventory if group.placement not in ("layers", "spread"))
    return int(sum(group.num_parameters / _num_cuts(group, parallelism) for group in outside))


def _num_cuts(group: TensorGroup, parallelism: Parallelism) -> int:
    """Over how many tensor and expert ranks a group is cut."""
    if group.experts:
        return parallelism.expert * min(group.pieces, parallelism.expert_tensor_degree)
    return min(group.pieces, parallelism.tensor)


def gathered_by_zero3(inventory: Inventory, *, value_bytes: int, tensor: int) -> Gathered:
    """What ZeRO 3 gathers at a time: 2 w P, weights and gradients of the largest tensor, as a tensor rank holds it.

    Source: DeepSpeed documentation, Memory Requirements, `estimate_zero3_model_states_mem_needs`: 4 bytes for each of
    the largest layer's parameters, where a layer is a module with parameters of its own.

    >>> from sizing.model.inventory import TensorGroup
    >>> gathered_by_zero3((TensorGroup("w", (4, 3), 4, layers=range(2)),), value_bytes=2, tensor=2).num_bytes
    24
    """
    largest = max(-(-group.tensor_parameters // min(tensor, group.pieces)) for group in inventory)
    return Gathered(2 * value_bytes * largest, "ZeRO 3 gathers the weights and gradients of one module at a time")
