"""The safetensors format: the length of a header in JSON, the header, and one tensor's bytes after the other.

Source: https://github.com/huggingface/safetensors, README, "Format". The library writes into a file of another
name, which nobody finds after a crash, or into memory; so the format is written here, to any stream.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from typing import BinaryIO

import torch

MAX_HEADER_BYTES = 100_000_000
"""The format's own limit: safetensors, `MAX_HEADER_SIZE`."""
_ALIGNMENT = 8
"""Data begins at a multiple of 8, as safetensors writes it."""
_DTYPES = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.float8_e4m3fn: "F8_E4M3",
    torch.float8_e5m2: "F8_E5M2",
    torch.complex64: "C64",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint64: "U64",
    torch.uint32: "U32",
    torch.uint16: "U16",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}


def write(file: BinaryIO, tensors: Mapping[str, torch.Tensor], metadata: Mapping[str, str]) -> None:
    """Write tensors of any device, one after another. Raises OSError."""
    ordered = dict(sorted(tensors.items(), key=lambda item: (-item[1].itemsize, item[0])))
    file.write(_header(ordered, metadata))
    for tensor in ordered.values():
        if tensor.numel():
            file.write(bytes_of(tensor.detach().cpu().contiguous()))


def read_into(file: BinaryIO, tensors: Mapping[str, torch.Tensor]) -> dict[str, str]:
    """Fill contiguous tensors, and return the metadata.

    Raises OSError, and ValueError or KeyError where the file does not have them.
    """
    (length,) = struct.unpack("<Q", _exactly(file, 8))
    if length > MAX_HEADER_BYTES:
        raise ValueError(f"a header of {length} bytes")
    header = json.loads(_exactly(file, length))
    for name, tensor in sorted(tensors.items(), key=lambda item: header[item[0]]["data_offsets"]):
        found = (header[name]["dtype"], header[name]["shape"])
        if found != (_DTYPES[tensor.dtype], list(tensor.shape)):
            raise ValueError(f"{name} is of {found}")
        if tensor.numel():
            file.seek(8 + length + header[name]["data_offsets"][0])
            on_host = tensor if tensor.is_cpu else torch.empty_like(tensor, device="cpu")
            if file.readinto(bytes_of(on_host)) != tensor.nbytes:  # type: ignore[attr-defined]  # BinaryIO has it, its stub does not
                raise ValueError(f"the file ends within {name}")
            if on_host is not tensor:
                tensor.copy_(on_host)
    return dict(header.get("__metadata__", {}))


def bytes_of(tensor: torch.Tensor) -> memoryview:
    """The memory of a contiguous tensor that is not empty."""
    return tensor.view(-1).view(torch.uint8).numpy().data


def _header(tensors: Mapping[str, torch.Tensor], metadata: Mapping[str, str]) -> bytes:
    entries: dict[str, object] = {"__metadata__": dict(metadata)} if metadata else {}
    offset = 0
    for name, tensor in tensors.items():
        end = offset + tensor.nbytes
        entries[name] = {"dtype": _DTYPES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(entries, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % _ALIGNMENT)
    return struct.pack("<Q", len(text)) + text


def _exactly(file: BinaryIO, count: int) -> bytes:
    data = file.read(count)
    if len(data) != count:
        raise ValueError("the file ends within its header")
    return data
