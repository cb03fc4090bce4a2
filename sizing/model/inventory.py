"""The tensor inventory: everything else about a model derives from it.

A model is a handful of groups of equal tensors. Each group knows its shape, which layers or pipeline
stages hold it, and into how many indivisible pieces tensor parallelism may cut it: a vocabulary row, a
feed-forward column, an attention head; one piece means that every tensor rank holds the whole.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from sizing.model.architecture import Architecture

Placement = Literal["layers", "first-stage", "last-stage", "first-and-last-stage", "spread"]
"""`layers`: with each layer in `layers`. `first-and-last-stage`: one tensor, of which both stages keep a
copy (tied embeddings). `spread`: cut evenly over all stages (a bare parameter count)."""


@dataclass(frozen=True, slots=True)
class TensorGroup:
    """Equal tensors: `count` of them per layer that holds them, or `count` in all outside the layers.

    `shape` is that of the whole, uncut tensor; `pieces` the number of equal indivisible parts that tensor
    parallelism may deal out.
    """

    name: str
    shape: tuple[int, ...]
    pieces: int
    placement: Placement = "layers"
    layers: range = range(0)
    count: int = 1

    @property
    def tensor_parameters(self) -> int:
        """Parameters of one tensor."""
        return math.prod(self.shape)

    @property
    def num_parameters(self) -> int:
        """Parameters of the whole group, each logical tensor once."""
        repeats = len(self.layers) if self.placement == "layers" else 1
        return repeats * self.count * self.tensor_parameters


Inventory = tuple[TensorGroup, ...]


def num_parameters(inventory: Inventory) -> int:
    """Parameters of a model: P = sum over groups of tensors x product of the shape.

    Source: definition; equals the counts of `published/model_parameters.json`.

    >>> embedding = TensorGroup("embedding", (5, 3), 5, "first-stage")
    >>> num_parameters((TensorGroup("w", (4, 3), 4, layers=range(2)), embedding))
    39
    """
    return sum(group.num_parameters for group in inventory)


def inventory_of(architecture: Architecture) -> Inventory:
    """The tensors of an architecture, as Megatron cuts them (Shoeybi et al. 2019, section 3)."""
    return (
        *_embeddings(architecture),
        *_attention(architecture),
        *_feed_forward(architecture),
        *_norms(architecture),
    )


def inventory_of_count(count: int) -> Inventory:
    """A model of which only the number of parameters is known: one tensor, evenly cut everywhere."""
    return (TensorGroup("parameters", (count,), pieces=count, placement="spread"),)


def _embeddings(a: Architecture) -> Inventory:
    table = (a.vocab_size, a.hidden_size)
    if a.tied_embeddings:
        groups = [TensorGroup("embedding", table, a.vocab_size, "first-and-last-stage")]
    else:
        groups = [
            TensorGroup("embedding", table, a.vocab_size, "first-stage"),
            TensorGroup("output_head", table, a.vocab_size, "last-stage"),
        ]
    if a.position_rows:
        groups.append(TensorGroup("positions", (a.position_rows, a.hidden_size), 1, "first-stage"))
    return tuple(groups)


def _attention(a: Architecture) -> Inventory:
    layers, width = range(a.num_layers), a.head_width
    query_width, kv_width = a.num_attention_heads * width, a.kv_heads * width
    groups = [
        TensorGroup("attention.query", (query_width, a.hidden_size), a.num_attention_heads, layers=layers),
        TensorGroup("attention.key_value", (kv_width, a.hidden_size), a.kv_heads, layers=layers, count=2),
        TensorGroup("attention.output", (a.hidden_size, query_width), a.num_attention_heads, layers=layers),
    ]
    if a.traits.qkv_bias:
        groups += [
            TensorGroup("attention.query.bias", (query_width,), a.num_attention_heads, layers=layers),
            TensorGroup("attention.key_value.bias", (kv_width,), a.kv_heads, layers=layers, count=2),
        ]
    if a.traits.projection_bias:
        groups.append(TensorGroup("attention.output.bias", (a.hidden_size,), 1, layers=layers))
    if a.traits.query_key_norms:
        groups.append(TensorGroup("attention.query_key_norm", (width,), 1, layers=layers, count=2))
    return tuple(groups)


def _feed_forward(a: Architecture) -> Inventory:
    layers, width = range(a.num_layers), a.ffn_width
    ups = 2 if a.traits.gated_ffn else 1
    groups = [
        TensorGroup("ffn.up", (width, a.hidden_size), width, layers=layers, count=ups),
        TensorGroup("ffn.down", (a.hidden_size, width), width, layers=layers),
    ]
    if a.traits.projection_bias:
        groups += [
            TensorGroup("ffn.up.bias", (width,), width, layers=layers, count=ups),
            TensorGroup("ffn.down.bias", (a.hidden_size,), 1, layers=layers),
        ]
    return tuple(groups)


def _norms(a: Architecture) -> Inventory:
    tensors, shape = a.traits.norm_tensors, (a.hidden_size,)
    in_layers = tensors * a.traits.norms_per_layer
    groups = [
        TensorGroup("norm", shape, 1, layers=range(a.num_layers), count=in_layers),
        TensorGroup("final_norm", shape, 1, "last-stage", count=tensors),
    ]
    if a.traits.embedding_norm:
        groups.append(TensorGroup("embedding_norm", shape, 1, "first-stage", count=tensors))
    return tuple(groups)
