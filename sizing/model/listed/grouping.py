"""Group the tensors of a model into the entries of a list, one for each set of equal tensors."""

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
"""Path of a tensor that stacks equal layers, as Megatron saves them: its first dimension counts the layers."""


@dataclass(frozen=True, slots=True)
class FlatTensor:
    """One tensor. `role` is set if its source knows it: a buffer, or a further name of data listed before."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    role: Role | None = None


def entries_of(tensors: Iterable[FlatTensor]) -> tuple[TensorEntry, ...]:
    """Group tensors that differ only in their numbers into entries, in the order of the tensors.

    Raises InvalidInput for more than 5,000 entries, or for an impossible one, such as one of an unknown dtype.

    >>> flat = [FlatTensor(f"h.{layer}.fc.weight", (4, 8), "float32") for layer in range(3)]
    >>> [(entry.name, entry.num_tensors) for entry in entries_of(flat)]
    [('h.{0..2}.fc.weight', 3)]
    """
    places: dict[tuple[tuple[str, ...], FlatTensor], dict[tuple[int, ...], None]] = {}
    for tensor in _unstack(list(tensors)):
        pattern = name_pattern(tensor.name)
        equal = places.setdefault((pattern.texts, replace(tensor, name="")), {})
        equal.update(dict.fromkeys(itertools.product(*pattern.numbers)))
    if len(places) > MAX_ENTRIES:
        raise _refuse_number(len(places))
    entries = tuple(
        _make_entry(NamePattern(texts, numbers), like)
        for (texts, like), some in places.items()
        for numbers in (products(some) if len(texts) > 1 else [()])
    )
    if len(entries) > MAX_ENTRIES:
        raise _refuse_number(len(entries))
    return entries


def _make_entry(pattern: NamePattern, like: FlatTensor) -> TensorEntry:
    try:
        return TensorEntry(
            name=str(pattern),
            shape=like.shape,
            dtype=like.dtype,
            **({"roles": (like.role,)} if like.role else {}),
        )
    except ValidationError as error:
        raise explain(error, TensorEntry).within(f"model.tensors.{pattern}") from None


def _unstack(tensors: list[FlatTensor]) -> list[FlatTensor]:
    """Give a tensor that holds all layers a pattern with a number for each of them."""
    places = {tensor.name: match.end() for tensor in tensors if (match := _STACKED.search(tensor.name))}
    counts = {tensor.shape[:1] for tensor in tensors if tensor.name in places}
    if len(counts) != 1 or counts == {()}:
        return tensors
    unstacked: list[FlatTensor] = []
    for tensor in tensors:
        place = places.get(tensor.name)
        if place is None:
            unstacked.append(tensor)
        else:
            layers = f"{{0..{tensor.shape[0] - 1}}}." if tensor.shape[0] > 1 else "0."
            name = tensor.name[:place] + layers + tensor.name[place:]
            unstacked.append(replace(tensor, name=name, shape=tensor.shape[1:]))
    return unstacked


def _refuse_number(number: int) -> InvalidInput:
    rule = f"must have at most {MAX_ENTRIES:,} entries of equal tensors"
    return InvalidInput.of("model.tensors", rule, value=number, remedy="leave out what belongs to no model")
