"""From the tensors of a model one by one to the entries of a list: equal ones together."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from pydantic import ValidationError

from sizing.errors import InvalidInput, explain
from sizing.model.listed.name_patterns import NamePattern, name_pattern, products
from sizing.model.listed.roles import Role
from sizing.model.listed.tensor_entry import MAX_ENTRIES, TensorEntry

_STACKED = re.compile(r"(?:^|[./])layers[./](?!\d)")
"""Megatron saves equal layers as one tensor, whose first dimension counts them."""


@dataclass(frozen=True, slots=True)
class FlatTensor:
    """One tensor; `role` is what its source knows of it: a buffer, or another name of data that was named before."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    role: Role | None = None


def entries_of(tensors: Iterable[FlatTensor]) -> tuple[TensorEntry, ...]:
    """Entries in the order of the tensors, those that differ only in their numbers together.

    Raises InvalidInput where more than 5,000 remain, or where one cannot be, such as one of an unknown dtype.

    >>> flat = [FlatTensor(f"h.{layer}.fc.weight", (4, 8), "float32") for layer in range(3)]
    >>> [(entry.name, entry.num_tensors) for entry in entries_of(flat)]
    [('h.{0..2}.fc.weight', 3)]
    """
    places: dict[tuple[tuple[str, ...], FlatTensor], dict[tuple[int, ...], None]] = {}
    for tensor in _unstacked(list(tensors)):
        pattern = name_pattern(tensor.name)
        found = places.setdefault((pattern.texts, replace(tensor, name="")), {})
        found.update(dict.fromkeys(itertools.product(*pattern.numbers)))
    if len(places) > MAX_ENTRIES:
        raise _too_many(len(places))
    entries = tuple(
        _entry(NamePattern(texts, numbers), like)
        for (texts, like), some in places.items()
        for numbers in (products(some) if len(texts) > 1 else [()])
    )
    if len(entries) > MAX_ENTRIES:
        raise _too_many(len(entries))
    return entries


def _entry(pattern: NamePattern, like: FlatTensor) -> TensorEntry:
    try:
        return TensorEntry(
            name=str(pattern),
            shape=like.shape,
            dtype=like.dtype,
            **({"roles": (like.role,)} if like.role else {}),
        )
    except ValidationError as error:
        raise explain(error, TensorEntry).within(f"model.tensors.{pattern}") from None


def _unstacked(tensors: list[FlatTensor]) -> list[FlatTensor]:
    """The same with a number for each layer of a tensor that holds them all."""
    stacked = {tensor.name: found.end() for tensor in tensors if (found := _STACKED.search(tensor.name))}
    counts = {tensor.shape[:1] for tensor in tensors if tensor.name in stacked}
    if len(counts) != 1 or counts == {()}:
        return tensors
    return [_with_layers(t, stacked[t.name]) if t.name in stacked else t for t in tensors]


def _with_layers(tensor: FlatTensor, place: int) -> FlatTensor:
    layers = f"{{0..{tensor.shape[0] - 1}}}." if tensor.shape[0] > 1 else "0."
    name = tensor.name[:place] + layers + tensor.name[place:]
    return replace(tensor, name=name, shape=tensor.shape[1:])


def _too_many(number: int) -> InvalidInput:
    rule = f"must have at most {MAX_ENTRIES:,} entries of equal tensors"
    return InvalidInput.of("model.tensors", rule, value=number, remedy="leave out what belongs to no model")
