"""Fields of documents and of their models by dotted path, in which numbers count the items of a list."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar, overload

from pydantic import BaseModel, TypeAdapter, ValidationError

_Model = TypeVar("_Model", bound=BaseModel)
_WHOLE_NUMBER = TypeAdapter(int)


def value_at(block: object, path: str, *, missing: Any = None) -> Any:
    """Read the value at a path; `missing` where a block on the path, or the value itself, is not there.

    >>> value_at({"checkpoint": {"tiers": [{"keep": 2}]}}, "checkpoint.tiers.0.keep")
    2
    """
    value: Any = block
    for name in path.split("."):
        if isinstance(value, Mapping):
            value = value.get(name, missing)
        elif isinstance(value, BaseModel) or dataclasses.is_dataclass(value):
            value = getattr(value, name, missing)
        elif isinstance(value, list | tuple) and name.isdecimal():
            value = next(iter(value[int(name) :]), missing)
        else:
            return missing
    return value


def whole_number_at(document: object, path: str) -> int | None:
    """Return the whole number at a dotted path, also where it was typed as text; None where there is none.

    >>> typed = {"parallelism": {"pipeline": "8", "tensor": "eight"}}
    >>> whole_number_at(typed, "parallelism.pipeline"), whole_number_at(typed, "parallelism.tensor")
    (8, None)
    """
    try:
        return _WHOLE_NUMBER.validate_python(value_at(document, path))
    except ValidationError:
        return None


@overload
def with_field(block: _Model, path: str, value: Any) -> _Model: ...
@overload
def with_field(block: Mapping[str, Any], path: str, value: Any) -> dict[str, Any]: ...
def with_field(block: Any, path: str, value: Any) -> Any:
    """Copy a document or a model with the value at a path set; a document's missing blocks are made.

    What is not on the path is shared with the original. The value is not validated.

    >>> with_field({"model": {"preset": "gpt2"}}, "checkpoint.mode", "async")
    {'model': {'preset': 'gpt2'}, 'checkpoint': {'mode': 'async'}}
    """
    name, _, rest = path.partition(".")
    if isinstance(block, BaseModel):
        return block.model_copy(update={name: with_field(getattr(block, name), rest, value) if rest else value})
    if isinstance(block, list | tuple) and name.isdecimal():
        items = list(block)
        items[int(name)] = with_field(items[int(name)], rest, value) if rest else value
        return type(block)(items)
    fields = block if isinstance(block, Mapping) else {}
    return {**fields, name: with_field(fields.get(name, {}), rest, value) if rest else value}


def with_fields(document: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Copy a document with the value at each path set.

    >>> with_fields({"checkpoint": {"mode": "sync"}}, {"checkpoint.format": "megatron"})
    {'checkpoint': {'mode': 'sync', 'format': 'megatron'}}
    """
    changed = dict(document)
    for path, value in values.items():
        changed = with_field(changed, path, value)
    return changed


def holds_blocks(_: str, items: Any) -> bool:
    """Whether a block is among the items of a list, at whatever path that stands."""
    return any(isinstance(item, Mapping) for item in items)


def flattened(
    block: Any, *, opens: Callable[[str, Any], bool] = holds_blocks, within: str = ""
) -> Iterator[tuple[str, Any]]:
    """Yield each value of a document with its dotted path; a block without fields has none.

    `opens` says by path of which lists the items are counted; any other list is one value. Default: those with blocks.

    >>> dict(flattened({"model": {"preset": "gpt2"}, "tiers": [{"keep": 2}], "num_nodes": [1, 8]}))
    {'model.preset': 'gpt2', 'tiers.0.keep': 2, 'num_nodes': [1, 8]}
    >>> dict(flattened({"num_nodes": [1, 8]}, opens=lambda *_: True))
    {'num_nodes.0': 1, 'num_nodes.1': 8}
    """
    for name, value in block.items() if isinstance(block, Mapping) else enumerate(block):
        path = f"{within}{name}"
        if isinstance(value, Mapping) or (isinstance(value, list | tuple) and opens(path, value)):
            yield from flattened(value, opens=opens, within=f"{path}.")
        else:
            yield path, value
