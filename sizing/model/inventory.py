"""The tensor inventory of a model, from which all its other figures derive.

A model is a handful of groups of equal tensors. Each group knows its shape, which layers or pipeline stages hold it,
and into how many indivisible pieces tensor parallelism may cut it: a vocabulary row, a feed-forward column, an
attention head. With one piece, every tensor rank holds the whole. `layer_tensors` lists the tensors of a layer; this
module assigns them to layers and stages.
"""

from __future__ import annotations

import functools
import math
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from sizing.model.architecture import Architecture
from sizing.model.families import FusedPart
from sizing.model.layer_tensors import Tensor, attention, dense_ffn, expert_ffn, norms

COPY = ".modules_to_save"
"""End of the name of a copy that is trained whole beside adapters. Source: PEFT 0.21, utils/other.py,
ModulesToSaveWrapper."""
TensorRole = Literal["hidden-matrix", "embedding", "other"]
Placement = Literal["layers", "first-stage", "last-stage", "first-and-last-stage", "spread"]
"""`layers`: with each layer in `layers`. `first-and-last-stage`: one tensor, of which both stages keep a
copy (tied embeddings). `spread`: cut evenly over all stages (a bare parameter count)."""


@dataclass(frozen=True)
class TensorGroup:
    """Equal tensors: `count` for each layer that holds them, or in all outside the layers, times `experts` if any.

    `shape` is that of the whole, uncut tensor. `pieces` is the number of equal indivisible parts into which tensor
    parallelism may cut it along dimension `cut`. `experts` is the number of routed experts that have such a tensor, 0
    if it does not belong to an expert. `layers` are sorted. Tensors that are not trained have no optimizer state.
    `is_of_other_layers`: the tensor belongs to layers that pipeline stages do not divide, such as those of a vision
    tower; optimizers treat it as one of the layers. `fused` names the matrix in which the modules of transformers keep
    it with others; it is empty if it stands alone. `is_shared`: a rank has one such tensor for all its experts, while
    files have it once for each. `is_adapted`: PEFT adapts it by default in models of this type, although it has neither
    queries nor values. `is_never_quantised`: a frozen tensor that stays in 16 bits where the others of layers do not.
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
    is_of_other_layers: bool = False
    fused: str = ""
    is_shared: bool = False
    is_adapted: bool = False
    is_never_quantised: bool = False

    @functools.cached_property
    def is_hidden_matrix(self) -> bool:
        """Whether the tensor is a matrix of a layer, in contrast to embeddings, head, norms and biases."""
        return (self.placement == "layers" or self.is_of_other_layers) and len(self.shape) == 2

    @functools.cached_property
    def role(self) -> TensorRole:
        """Role of the tensor for an optimizer or a dtype: a matrix of a layer, a table of tokens, or neither."""
        if self.is_never_quantised:
            return "other"
        if self.is_hidden_matrix:
            return "hidden-matrix"
        is_first = self.placement in ("first-stage", "first-and-last-stage")
        return "embedding" if is_first and len(self.shape) == 2 else "other"

    @functools.cached_property
    def tensor_parameters(self) -> int:
        """Number of parameters of one tensor."""
        return math.prod(self.shape)

    @functools.cached_property
    def num_tensors(self) -> int:
        """Number of tensors of the whole group, each logical tensor once."""
        repeats = len(self.layers) if self.placement == "layers" else 1
        return repeats * self.count * max(1, self.experts)

    @functools.cached_property
    def num_parameters(self) -> int:
        """Number of parameters of the whole group, each logical tensor once."""
        return self.num_tensors * self.tensor_parameters


Inventory = tuple[TensorGroup, ...]

_FUSED: dict[FusedPart, dict[str, str]] = {
    "attention": {f"attention.{name}": "attention.query_key_value" for name in ("query", "key_value", "key", "value")},
    "ffn": {"ffn.up": "ffn.gate_up"},
    "experts": {"expert.up": "expert.gate_up", "shared_expert.up": "shared_expert.gate_up"},
}
_KEYS_AND_VALUES = ("key_value", "key", "value")
"""Names of the projections beside `query`, as one matrix or as two."""


def layers_between(layers: Sequence[int], first: int, past: int) -> Sequence[int]:
    """Take the part of sorted layers from `first` to before `past`.

    >>> layers_between(range(3, 48, 4), 8, 16)
    range(11, 19, 4)
    """
    return layers[bisect_left(layers, first) : bisect_left(layers, past)]


def progression(numbers: Sequence[int]) -> Sequence[int]:
    """Return sorted numbers as a range if they are equally spaced, otherwise as a tuple.

    >>> progression([3, 7, 11]), progression([0, 1, 5])
    (range(3, 12, 4), (0, 1, 5))
    """
    if not numbers:
        return ()
    step = numbers[1] - numbers[0] if len(numbers) > 1 else 1
    even = range(numbers[0], numbers[-1] + 1, step)
    return even if list(even) == list(numbers) else tuple(numbers)


def num_parameters(inventory: Inventory) -> int:
    """Count the parameters of a model: P = sum over groups of tensors x product of the shape.

    Source: definition; equals the counts of `published/model_parameters.json`.

    >>> embedding = TensorGroup("embedding", (5, 3), 5, "first-stage")
    >>> num_parameters((TensorGroup("w", (4, 3), 4, layers=range(2)), embedding))
    39
    """
    return sum(group.num_parameters for group in inventory)


def num_routed_expert_parameters(inventory: Inventory) -> int:
    """Count the parameters of all routed experts, without shared experts and routers.

    Source: definition; `published/model_parameters.json`.

    >>> num_routed_expert_parameters((TensorGroup("expert", (4, 3), 4, layers=range(2), experts=8),))
    192
    """
    return sum(group.num_parameters for group in inventory if group.experts)


def num_active_parameters(inventory: Inventory, *, num_experts_per_token: int) -> int:
    """Count the parameters that one token passes through: P - P_routed (1 - k / E), k of E experts.

    Source: Jiang et al. 2024, arXiv 2401.04088, section 2.1; `published/model_parameters.json`.

    >>> expert = TensorGroup("expert", (4, 3), 4, layers=range(2), experts=8)
    >>> num_active_parameters((expert,), num_experts_per_token=2)
    48
    """
    return sum(
        group.num_parameters * num_experts_per_token // group.experts if group.experts else group.num_parameters
        for group in inventory
    )


INVENTORIES_KEPT = 32
"""Inventories with their heads cut that are kept: one answer asks for that of its model at several steps."""


@functools.lru_cache(maxsize=256)
def inventory_of(architecture: Architecture) -> Inventory:
    """List the tensors of an architecture, as Megatron cuts them (Shoeybi et al. 2019, section 3)."""
    return tuple(_list_groups(architecture))


def group_of(
    tensor: Tensor,
    *,
    prefix: str = "",
    placement: Placement = "layers",
    layers: Sequence[int] = range(0),
    repeats: int = 1,
) -> TensorGroup:
    """Place a tensor of a layer, `repeats` times where it stands outside the layers.

    >>> group_of(Tensor("ffn.up", (8, 4), pieces=8), layers=range(3)).num_parameters
    96
    """
    return TensorGroup(
        f"{prefix}{tensor.name}",
        tensor.shape,
        tensor.pieces,
        placement,
        layers=layers,
        count=tensor.count * repeats,
        experts=tensor.experts,
        cut=tensor.cut,
    )


def inventory_of_count(count: int, *, expert: int = 0, num_experts: int = 0) -> Inventory:
    """Make the inventory of a model of which only counts are known.

    Its tensors are cut evenly over all ranks; each expert has `expert` parameters.
    """
    dense = count - expert * num_experts
    parameters = TensorGroup("parameters", (dense,), pieces=dense, placement="spread")
    if not num_experts:
        return (parameters,)
    return (parameters, TensorGroup("expert", (expert,), pieces=expert, placement="spread", experts=num_experts))


def with_ends_on_one_stage(inventory: Inventory) -> Inventory:
    """Change the inventory to a stage that has the first and the last layer: it keeps one copy of tied tensors.

    >>> tied = TensorGroup("embedding", (9, 2), 9, "first-and-last-stage")
    >>> [group.placement for group in with_ends_on_one_stage((tied,))]
    ['first-stage']
    """
    is_at_both = "first-and-last-stage"
    return tuple(replace(g, placement="first-stage") if g.placement == is_at_both else g for g in inventory)


def with_counts(inventory: Inventory, counts: Iterable[tuple[str, int, bool]]) -> Inventory:
    """Add models of which only counts are known: name, parameters, and whether they are trained.

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


def with_fused(inventory: Inventory, parts: Collection[FusedPart]) -> Inventory:
    """Mark queries, keys and values, or gate and up projection, as parts of one matrix.

    >>> [g.fused for g in with_fused((TensorGroup("attention.query", (8, 4), 8, layers=range(3)),), ["attention"])]
    ['attention.query_key_value']
    """
    fused = {name: whole for part in parts for name, whole in _FUSED[part].items()}
    return tuple(replace(group, fused=fused[group.name]) if group.name in fused else group for group in inventory)


@functools.lru_cache(maxsize=INVENTORIES_KEPT)
def with_heads_cut(inventory: Inventory) -> Inventory:
    """Let tensor ranks cut by rows what is cut by its outputs, so that several ranks share a head.

    Without this, ranks beyond the heads of keys and values hold a whole head each. Experts have no heads.

    >>> query = TensorGroup("attention.query", (8, 4), pieces=4, layers=range(2))
    >>> key = replace(query, name="attention.key", shape=(2, 4), pieces=1)
    >>> [group.pieces for group in with_heads_cut((query, key))]
    [8, 2]
    """
    with_heads = {group.name for group in inventory if group.pieces > 1}
    return tuple(replace(g, pieces=g.shape[0]) if _has_heads(g, with_heads) else g for g in inventory)


def _has_heads(group: TensorGroup, with_heads: Collection[str]) -> bool:
    """Return whether a group is cut by outputs, or is the only head of keys and values for several query heads."""
    if group.experts or group.cut or group.placement == "spread":
        return False
    query = ".".join("query" if part in _KEYS_AND_VALUES else part for part in group.name.split("."))
    return group.pieces > 1 or (query != group.name and query in with_heads)


def _list_groups(a: Architecture) -> Iterator[TensorGroup]:
    """List the tensors from the embedding over the layers to the head, and the modules behind it."""
    embedding = TensorGroup("embedding", (a.vocab_size, a.hidden_size), a.vocab_size, "first-stage")
    yield replace(embedding, placement="first-and-last-stage") if a.ties_embeddings else embedding
    if a.position_rows:
        yield TensorGroup("positions", (a.position_rows, a.hidden_size), 1, "first-stage")
    if a.traits.embedding_norm:
        yield TensorGroup("embedding_norm", (a.hidden_size,), 1, "first-stage", count=a.traits.norm_tensors)
    every, dense, sparse = range(a.num_layers), range(a.dense_layers), range(a.dense_layers, a.num_layers)
    yield from (group_of(tensor, layers=every) for tensor in (*attention(a), *norms(a)))
    if dense:
        yield from (group_of(tensor, layers=dense) for tensor in dense_ffn(a))
    if sparse:
        yield from (group_of(tensor, layers=sparse) for tensor in expert_ffn(a))
    yield TensorGroup("final_norm", (a.hidden_size,), 1, "last-stage", count=a.traits.norm_tensors)
    if not a.ties_embeddings:
        yield TensorGroup("output_head", (a.vocab_size, a.hidden_size), a.vocab_size, "last-stage")
    if a.traits.head_bias:
        yield TensorGroup("output_head.bias", (a.vocab_size,), a.vocab_size, "last-stage")
    if a.num_mtp_layers:
        yield from _list_prediction_modules(a, a.num_mtp_layers)


def _list_prediction_modules(a: Architecture, num_modules: int) -> Iterator[TensorGroup]:
    """List each module's projection of [hidden; embedding], three norms and layer; embedding and head are shared.

    Source: DeepSeek-AI 2024, arXiv 2412.19437, section 2.2.
    """
    own = (
        Tensor("projection", (a.hidden_size, 2 * a.hidden_size), pieces=a.hidden_size),
        Tensor("module_norm", (a.hidden_size,), pieces=1, count=3),
    )
    ffn = dense_ffn(a) if a.num_experts is None else expert_ffn(a)
    for tensor in (*own, *attention(a), *norms(a), *ffn):
        yield group_of(tensor, prefix="mtp.", placement="last-stage", repeats=num_modules)
