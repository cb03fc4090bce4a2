"""The tensor inventory: everything else about a model derives from it.

A model is a handful of groups of equal tensors. Each group knows its shape, which layers or pipeline stages
hold it, and into how many indivisible pieces tensor parallelism may cut it: a vocabulary row, a feed-forward
column, an attention head; one piece means that every tensor rank holds the whole. `layer_tensors` lists the
tensors of a layer; this module puts them where they stand.
"""

from __future__ import annotations

import functools
import math
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from sizing.model.architecture import Architecture
from sizing.model.layer_tensors import Tensor, attention, dense_ffn, expert_ffn, norms

Placement = Literal["layers", "first-stage", "last-stage", "first-and-last-stage", "spread"]
"""`layers`: with each layer in `layers`. `first-and-last-stage`: one tensor, of which both stages keep a
copy (tied embeddings). `spread`: cut evenly over all stages (a bare parameter count)."""


@dataclass(frozen=True)
class TensorGroup:
    """Equal tensors: `count` per layer that holds them, or in all outside the layers, times `experts` if any.

    `shape` is that of the whole, uncut tensor; `pieces` the number of equal indivisible parts that tensor
    parallelism may deal out along dimension `cut`. `experts` is the number of routed experts that have such a
    tensor, 0 where it is none of an expert's. `layers` are sorted. Tensors that are not trained have no optimizer
    state.
    """

    name: str
    shape: tuple[int, ...]
    pieces: int
    placement: Placement = "layers"
    layers: Sequence[int] = range(0)
    count: int = 1
    experts: int = 0
    cut: int = 0
    is_trained: bool = True

    @functools.cached_property
    def is_hidden_matrix(self) -> bool:
        """Whether it is a matrix inside the layers, as against embeddings, head, norms and biases."""
        return self.placement == "layers" and len(self.shape) == 2

    @functools.cached_property
    def tensor_parameters(self) -> int:
        """Parameters of one tensor."""
        return math.prod(self.shape)

    @functools.cached_property
    def num_tensors(self) -> int:
        """Tensors of the whole group, each logical tensor once."""
        repeats = len(self.layers) if self.placement == "layers" else 1
        return repeats * self.count * max(1, self.experts)

    @functools.cached_property
    def num_parameters(self) -> int:
        """Parameters of the whole group, each logical tensor once."""
        return self.num_tensors * self.tensor_parameters


Inventory = tuple[TensorGroup, ...]


def layers_between(layers: Sequence[int], first: int, past: int) -> Sequence[int]:
    """Those of some sorted layers from `first` to before `past`.

    >>> layers_between(range(3, 48, 4), 8, 16)
    range(11, 19, 4)
    """
    return layers[bisect_left(layers, first) : bisect_left(layers, past)]


def progression(numbers: Sequence[int]) -> Sequence[int]:
    """Sorted layers, or other numbers, as a range where they are equally far apart.

    >>> progression([3, 7, 11]), progression([0, 1, 5])
    (range(3, 12, 4), (0, 1, 5))
    """
    if not numbers:
        return ()
    step = numbers[1] - numbers[0] if len(numbers) > 1 else 1
    even = range(numbers[0], numbers[-1] + 1, step)
    return even if list(even) == list(numbers) else tuple(numbers)


def num_parameters(inventory: Inventory) -> int:
    """Parameters of a model: P = sum over groups of tensors x product of the shape.

    Source: definition; equals the counts of `published/model_parameters.json`.

    >>> embedding = TensorGroup("embedding", (5, 3), 5, "first-stage")
    >>> num_parameters((TensorGroup("w", (4, 3), 4, layers=range(2)), embedding))
    39
    """
    return sum(group.num_parameters for group in inventory)


def num_routed_expert_parameters(inventory: Inventory) -> int:
    """Parameters of all routed experts; shared experts and routers are not among them.

    Source: definition; `published/model_parameters.json`.

    >>> num_routed_expert_parameters((TensorGroup("expert", (4, 3), 4, layers=range(2), experts=8),))
    192
    """
    return sum(group.num_parameters for group in inventory if group.experts)


def num_active_parameters(inventory: Inventory, *, num_experts_per_token: int) -> int:
    """Parameters that one token passes through: P - P_routed (1 - k / E), k of E experts.

    Source: Jiang et al. 2024, arXiv 2401.04088, section 2.1; `published/model_parameters.json`.

    >>> expert = TensorGroup("expert", (4, 3), 4, layers=range(2), experts=8)
    >>> num_active_parameters((expert,), num_experts_per_token=2)
    48
    """
    return sum(
        group.num_parameters * num_experts_per_token // group.experts if group.experts else group.num_parameters
        for group in inventory
    )


@functools.lru_cache(maxsize=256)
def inventory_of(architecture: Architecture) -> Inventory:
    """The tensors of an architecture, as Megatron cuts them (Shoeybi et al. 2019, section 3)."""
    return (*_before_layers(architecture), *_layers(architecture), *_after_layers(architecture))


def inventory_of_count(count: int, *, expert: int = 0, num_experts: int = 0) -> Inventory:
    """A model of which only numbers of parameters are known: tensors evenly cut everywhere, `expert` of each expert."""
    dense = count - expert * num_experts
    parameters = TensorGroup("parameters", (dense,), pieces=dense, placement="spread")
    if not num_experts:
        return (parameters,)
    return (parameters, TensorGroup("expert", (expert,), pieces=expert, placement="spread", experts=num_experts))


def with_ends_on_one_stage(inventory: Inventory) -> Inventory:
    """The inventory where one stage has the first and the last layer: it keeps one copy of what both ends need.

    >>> tied = TensorGroup("embedding", (9, 2), 9, "first-and-last-stage")
    >>> [group.placement for group in with_ends_on_one_stage((tied,))]
    ['first-stage']
    """
    is_at_both = "first-and-last-stage"
    return tuple(replace(g, placement="first-stage") if g.placement == is_at_both else g for g in inventory)


def with_counts(inventory: Inventory, counts: Iterable[tuple[str, int, bool]]) -> Inventory:
    """The inventory with models of which only the count is known: name, parameters, and whether they are trained.

    >>> [group.name for group in with_counts((), [("critic", 8_000_000_000, True)])]
    ['critic']
    """
    return (
        *inventory,
        *(
            TensorGroup(name, (count,), pieces=count, placement="spread", is_trained=is_trained)
            for name, count, is_trained in counts
        ),
    )


def _before_layers(a: Architecture) -> Iterator[TensorGroup]:
    embedding = TensorGroup("embedding", (a.vocab_size, a.hidden_size), a.vocab_size, "first-stage")
    yield replace(embedding, placement="first-and-last-stage") if a.ties_embeddings else embedding
    if a.position_rows:
        yield TensorGroup("positions", (a.position_rows, a.hidden_size), 1, "first-stage")
    if a.traits.embedding_norm:
        yield TensorGroup("embedding_norm", (a.hidden_size,), 1, "first-stage", count=a.traits.norm_tensors)


def _layers(a: Architecture) -> Iterator[TensorGroup]:
    every, dense, sparse = range(a.num_layers), range(a.dense_layers), range(a.dense_layers, a.num_layers)
    yield from _in_layers((*attention(a), *norms(a)), every)
    if dense:
        yield from _in_layers(dense_ffn(a), dense)
    if sparse:
        yield from _in_layers(expert_ffn(a), sparse)


def _after_layers(a: Architecture) -> Iterator[TensorGroup]:
    yield TensorGroup("final_norm", (a.hidden_size,), 1, "last-stage", count=a.traits.norm_tensors)
    if not a.ties_embeddings:
        yield TensorGroup("output_head", (a.vocab_size, a.hidden_size), a.vocab_size, "last-stage")
    if a.traits.head_bias:
        yield TensorGroup("output_head.bias", (a.vocab_size,), a.vocab_size, "last-stage")
    if a.num_mtp_layers:
        yield from _multi_token_prediction(a, a.num_mtp_layers)


def _multi_token_prediction(a: Architecture, num_modules: int) -> Iterator[TensorGroup]:
    """Per module a projection of [hidden; embedding], three norms and a layer; embedding and head are shared.

    Source: DeepSeek-AI 2024, arXiv 2412.19437, section 2.2.
    """
    own = (
        Tensor("projection", (a.hidden_size, 2 * a.hidden_size), pieces=a.hidden_size),
        Tensor("module_norm", (a.hidden_size,), pieces=1, count=3),
    )
    ffn = dense_ffn(a) if a.num_experts is None else expert_ffn(a)
    for tensor in (*own, *attention(a), *norms(a), *ffn):
        yield TensorGroup(
            f"mtp.{tensor.name}",
            tensor.shape,
            tensor.pieces,
            "last-stage",
            count=tensor.count * num_modules,
            experts=tensor.experts,
            cut=tensor.cut,
        )


def _in_layers(tensors: Iterable[Tensor], layers: range) -> Iterator[TensorGroup]:
    for tensor in tensors:
        yield TensorGroup(
            tensor.name,
            tensor.shape,
            tensor.pieces,
            layers=layers,
            count=tensor.count,
            experts=tensor.experts,
            cut=tensor.cut,
        )
