"""Tensors in the pickle of a torch.save file: where they stand, and what of their storage they cover."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from sizing.checkpoint_files.allowed_names import REBUILD_FROM_TYPE, REBUILD_TENSOR
from sizing.checkpoint_files.dtypes import STORAGE_DTYPES, TORCH_DTYPE_BITS, num_elements
from sizing.checkpoint_files.pickle_values import MAX_NAME_CHARACTERS, PERSISTENT, Inert, Name, RefusedPickle, is_count

MAX_LEVELS = 64
"""Checkpoints nest about ten. Names join the keys on the way, so depth without end is memory without end."""

Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PickledTensor:
    """A tensor as the pickle describes it: `begin` and `end` are the bytes of its storage that it spans.

    `num_bytes` are those of its elements: fewer than it spans where it is a view with gaps.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    storage: str
    storage_bytes: int
    begin: int
    end: int
    num_elements: int
    num_bytes: int


def pickled_tensors(root: object) -> Iterator[PickledTensor]:
    """Every tensor in the pickle, named by the keys and places that lead to it, in the pickle's order.

    An object that is reached a second time is passed over: a pickle of a few bytes can lead to the same list
    in 2^60 ways.

    Raises RefusedPickle for a tensor that cannot be, or for levels without end.
    """
    waiting: list[tuple[Path, object]] = [((), root)]
    seen: set[int] = set()
    while waiting:
        path, value = waiting.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        rebuilt = _rebuilt(value)
        if rebuilt is not None:
            yield _tensor(".".join(path), rebuilt)
        elif len(path) > MAX_LEVELS:
            raise RefusedPickle(f"it nests deeper than {MAX_LEVELS} levels")
        else:
            waiting.extend(reversed(list(_children(path, value))))


def is_flat_mapping_of_tensors(root: object) -> bool:
    """Whether the pickle is one dict of tensors by name, as `torch.save(model.state_dict())` leaves it."""
    return isinstance(root, dict) and bool(root) and all(_holds_one_tensor(value) for value in root.values())


def _children(path: Path, value: object) -> Iterator[tuple[Path, object]]:
    """The containers and objects directly below a value; what holds nothing is left out."""
    if isinstance(value, Inert):
        below = (*value.arguments, value.state, *(value.items or ()))
        yield from ((path, item) for item in below if _may_hold_tensors(item))
    else:
        yield from (((*path, _key(key)), item) for key, item in _entries(value) if _may_hold_tensors(item))


def _entries(value: object) -> Iterable[tuple[object, object]]:
    """What a container holds, by key or by place."""
    if isinstance(value, dict):
        return value.items()
    return enumerate(value) if isinstance(value, (list, tuple)) else ()


def _may_hold_tensors(value: object) -> bool:
    return isinstance(value, (dict, list, tuple, Inert))


def _key(key: object) -> str:
    text = key.text if isinstance(key, Name) else str(key) if isinstance(key, (str, int)) else type(key).__name__
    if len(text) > MAX_NAME_CHARACTERS:
        raise RefusedPickle(f"a key is longer than {MAX_NAME_CHARACTERS} characters")
    return text


def _holds_one_tensor(value: object) -> bool:
    while isinstance(value, Inert) and value.name.startswith("torch._utils._rebuild_parameter"):
        value = value.arguments[0] if value.arguments else None
    return _rebuilt(value) is not None


def _rebuilt(value: object) -> Inert | None:
    """The call that rebuilds a dense tensor from its storage, if the value is one."""
    if not isinstance(value, Inert):
        return None
    if value.name in REBUILD_TENSOR:
        return value
    if value.name == REBUILD_FROM_TYPE and len(value.arguments) >= 3:
        function, _, arguments = value.arguments[:3]
        if isinstance(function, Name) and function.text in REBUILD_TENSOR and isinstance(arguments, tuple):
            return Inert(function.text, arguments)
    return None


def _tensor(name: str, rebuilt: Inert) -> PickledTensor:
    """The tensor of a call with storage, offset, shape, strides, ...; version 3 has its dtype as seventh."""
    arguments = rebuilt.arguments
    if len(arguments) < 4:
        raise RefusedPickle("a tensor is rebuilt from too little")
    key, storage_dtype, storage_elements = _storage(arguments[0])
    offset, shape, strides = arguments[1:4]
    dtype = _dtype(arguments[6]) if rebuilt.name.endswith("_v3") and len(arguments) > 6 else storage_dtype
    sizes, steps = _whole_shape(shape, strides)
    count, span = _count_and_span(sizes, steps)
    if type(offset) is not int or offset < 0:
        raise RefusedPickle("a tensor has no offset")
    size = TORCH_DTYPE_BITS[dtype] // 8
    storage_bytes = storage_elements * TORCH_DTYPE_BITS[storage_dtype] // 8
    begin, end = offset * size, (offset + span) * size
    if end > storage_bytes and span:
        raise RefusedPickle(f"tensor {name[:80]!r} reaches beyond its storage")
    return PickledTensor(name, dtype, sizes, key, storage_bytes, begin, end, count, count * size)


def _whole_shape(shape: object, strides: object) -> tuple[tuple[int, ...], tuple[int, ...]]:
    if not isinstance(shape, tuple) or not isinstance(strides, tuple) or len(shape) != len(strides):
        raise RefusedPickle("a tensor has no shape and strides")
    sizes = tuple(size for size in shape if type(size) is int)
    steps = tuple(filter(is_count, strides))
    if len(sizes) != len(shape) or len(steps) != len(strides):
        raise RefusedPickle("a shape or stride is not a whole number")
    return sizes, steps


def _count_and_span(sizes: tuple[int, ...], steps: tuple[int, ...]) -> tuple[int, int]:
    """Elements of a tensor, and from the first to the last it touches: 1 + sum of (size - 1) x stride."""
    try:
        count = num_elements(sizes)
    except ValueError as error:
        raise RefusedPickle(f"a tensor is impossible: {error}") from None
    if not count:
        return 0, 0
    return count, 1 + sum((size - 1) * step for size, step in zip(sizes, steps, strict=True))


def _storage(value: object) -> tuple[str, str, int]:
    """Key, dtype and elements of a storage, saved as ("storage", class, key, location, elements)."""
    arguments = value.arguments if isinstance(value, Inert) and value.name == PERSISTENT else ()
    saved = arguments[0] if arguments else None
    if not isinstance(saved, tuple) or len(saved) != 5 or saved[0] != "storage":
        raise RefusedPickle("a tensor has no storage in the file")
    _, kind, key, _, count = saved
    dtype = _storage_dtype(kind)
    if dtype is None or not isinstance(key, str) or not is_count(count):
        raise RefusedPickle("a storage has no key, dtype or size")
    return key, dtype, count


def _storage_dtype(kind: object) -> str | None:
    """The dtype of a storage's class, None where torch has no such class."""
    name = kind.text.rpartition(".")[2] if isinstance(kind, Name) else ""
    return "uint8" if name == "UntypedStorage" else STORAGE_DTYPES.get(name)


def _dtype(value: object) -> str:
    name = value.text.removeprefix("torch.") if isinstance(value, Name) else ""
    if name not in TORCH_DTYPE_BITS:
        raise RefusedPickle("a tensor has no dtype")
    return name
