"""Tensors of a safetensors file, from its header alone.

The layout: 8 bytes little-endian length N, N bytes of JSON, then the data without a gap. Source: the format
section of the safetensors README (version 0.8), whose rules on offsets are checked here.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sizing.checkpoint_files.container import Container, StoredTensor
from sizing.checkpoint_files.dtypes import SAFETENSORS_DTYPES, num_elements
from sizing.checkpoint_files.json_object import json_object
from sizing.checkpoint_files.refusals import (
    DAMAGED_REMEDY,
    leading_bytes,
    printable,
    refusal,
    regular_file_bytes,
    too_large,
)

LENGTH_BYTES = 8
"""The format begins with the header's length as a 64-bit number."""
MAX_HEADER_BYTES = 32 * 1024**2
"""The format allows 100 MB, and a tensor takes about 100 bytes, so this holds 300,000. Parsed JSON takes some ten times
its text in memory, which whoever sends the file decides."""
_ENTRY_FIELDS = {"dtype", "shape", "data_offsets"}


def safetensors_container(path: Path) -> Container:
    """The tensors of one safetensors file.

    Raises UnreadableFile where it is damaged, cut short or not a safetensors file.
    """
    return Container(format="safetensors", paths=(path,), tensors=safetensors_tensors(path), is_state_dict=True)


def safetensors_tensors(path: Path) -> tuple[StoredTensor, ...]:
    """Every tensor in the header of a safetensors file, in the order of its data."""
    size = regular_file_bytes(path)
    header_bytes = _header_bytes(path)
    data_bytes = size - LENGTH_BYTES - header_bytes
    if size < LENGTH_BYTES or data_bytes < 0:
        wrong = f"is no whole safetensors file: its header claims {header_bytes} bytes, the file has {size}"
        raise refusal(path, wrong, DAMAGED_REMEDY)
    return _tensors(path, header_bytes, data_bytes=data_bytes)


def header_tensors(path: Path) -> tuple[StoredTensor, ...]:
    """The same of a file of which only the beginning need be there: its first bytes, up to the header's end."""
    size, header_bytes = regular_file_bytes(path), _header_bytes(path)
    if size < LENGTH_BYTES + header_bytes:
        wrong = f"ends within its header of {header_bytes} bytes"
        raise refusal(path, wrong, f"give at least its first {LENGTH_BYTES + header_bytes} bytes")
    return _tensors(path, header_bytes, data_bytes=None)


def _header_bytes(path: Path) -> int:
    return int.from_bytes(leading_bytes(path, LENGTH_BYTES), "little")


def _tensors(path: Path, header_bytes: int, *, data_bytes: int | None) -> tuple[StoredTensor, ...]:
    """Those of a header; `data_bytes` is what the file has of data, None where that does not matter."""
    if header_bytes > MAX_HEADER_BYTES:
        raise too_large(path, "a header", size=header_bytes, max_bytes=MAX_HEADER_BYTES)
    try:
        header = json_object(leading_bytes(path, header_bytes, at=LENGTH_BYTES))
        header.pop("__metadata__", None)
        placed = sorted(_placed(header), key=lambda entry: entry[:2])
        end = placed[-1][1] if placed else 0
        _check_coverage([entry[:2] for entry in placed], data_bytes=end if data_bytes is None else data_bytes)
    except ValueError as error:
        raise refusal(path, f"has a header that breaks the safetensors format ({error})", DAMAGED_REMEDY) from None
    return tuple(tensor for _, _, tensor in placed)


def _placed(header: dict[str, Any]) -> Iterator[tuple[int, int, StoredTensor]]:
    for name, entry in header.items():
        try:
            yield _placed_tensor(name, entry)
        except ValueError as error:
            raise ValueError(f"tensor {printable(name)!r}: {error}") from None


def _placed_tensor(name: str, entry: object) -> tuple[int, int, StoredTensor]:
    if not isinstance(entry, dict) or set(entry) != _ENTRY_FIELDS:
        raise ValueError("it must have dtype, shape and data_offsets")
    shape, offsets = entry["shape"], entry["data_offsets"]
    if not isinstance(shape, list) or not _is_range(offsets):
        raise ValueError("its shape or its data_offsets are not lists of whole numbers in order")
    known = SAFETENSORS_DTYPES.get(entry["dtype"]) if isinstance(entry["dtype"], str) else None
    if known is None:
        raise ValueError(f"its dtype {printable(str(entry['dtype']))!r} is not known")
    dtype, bits = known
    count = num_elements(tuple(shape))
    if count * bits != 8 * (offsets[1] - offsets[0]):
        raise ValueError(f"its data has {offsets[1] - offsets[0]} bytes, its shape needs {count * bits / 8:g}")
    tensor = StoredTensor(name, dtype, tuple(shape), count, offsets[1] - offsets[0])
    return offsets[0], offsets[1], tensor


def _is_range(offsets: object) -> bool:
    return (
        isinstance(offsets, list)
        and len(offsets) == 2
        and all(type(offset) is int for offset in offsets)
        and 0 <= offsets[0] <= offsets[1] < 2**63
    )


def _check_coverage(ranges: list[tuple[int, int]], *, data_bytes: int) -> None:
    """That ranges in order follow one another without overlap or gap and fill the data."""
    reached = 0
    for begin, end in ranges:
        if begin != reached:
            raise ValueError(f"data_offsets {'overlap' if begin < reached else 'leave a gap'} at byte {begin}")
        reached = end
    if reached != data_bytes:
        raise ValueError(f"its tensors take {reached} bytes, the file holds {data_bytes}")
