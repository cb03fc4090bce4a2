"""`safetensors`: one safetensors file per rank, written in order and fsynced.

The format: the length of a header in JSON, the header, and one tensor's bytes after the other.
Source: https://github.com/huggingface/safetensors, README, "Format". The library writes into a file of another
name, which nobody finds after a crash, or into memory; so the format is written here, to any stream.
"""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import BinaryIO

import torch

from io_bench.engines import EngineOptions, EnginePlan, IoReport, Restored
from io_bench.engines.phases import Phases, write_durably
from io_bench.errors import RunFailed
from io_bench.payload import State
from io_bench.payload.device import Device
from io_bench.payload.inventory import Inventory
from io_bench.payload.payload import Payload, buffers_like
from io_bench.ranks.process_group import Writers
from io_bench.target.target import RunFiles

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
    file.write(_make_header(ordered, metadata))
    for tensor in ordered.values():
        if tensor.numel():
            file.write(bytes_of(tensor.detach().cpu().contiguous()))


def read_into(file: BinaryIO, tensors: Mapping[str, torch.Tensor]) -> dict[str, str]:
    """Fill contiguous tensors, and return the metadata.

    Raises OSError, and ValueError or KeyError where the file does not have them.
    """
    (length,) = struct.unpack("<Q", _read_exactly(file, 8))
    if length > MAX_HEADER_BYTES:
        raise ValueError(f"a header of {length} bytes")
    header = json.loads(_read_exactly(file, length))
    for name, tensor in sorted(tensors.items(), key=lambda item: header[item[0]]["data_offsets"]):
        kind = (header[name]["dtype"], header[name]["shape"])
        if kind != (_DTYPES[tensor.dtype], list(tensor.shape)):
            raise ValueError(f"{name} is of {kind}")
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


def _make_header(tensors: Mapping[str, torch.Tensor], metadata: Mapping[str, str]) -> bytes:
    entries: dict[str, object] = {"__metadata__": dict(metadata)} if metadata else {}
    offset = 0
    for name, tensor in tensors.items():
        end = offset + tensor.nbytes
        entries[name] = {"dtype": _DTYPES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(entries, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % _ALIGNMENT)
    return struct.pack("<Q", len(text)) + text


def _read_exactly(file: BinaryIO, count: int) -> bytes:
    data = file.read(count)
    if len(data) != count:
        raise ValueError("the file ends within its header")
    return data


_MAX_BYTES_PER_TENSOR = 512
"""A line of the header: name, dtype, shape, offsets; 114 as measured, with names of 45 characters."""
_MAX_FIXED_BYTES = 4 * 1024
"""Bytes of a file beside its tensors: the header's length and padding, and the plain values."""


class Safetensors:
    """The engine of safetensors: tensors under dotted names, in order; plain values as JSON in the metadata.

    It restores by reading into tensors that are there: an error of the storage is then an error, and not the end of
    the process, as it is for whoever reads through a memory map.
    """

    name = "safetensors"

    def __init__(self, options: EngineOptions) -> None:
        """Has nothing to tune: one thread writes one tensor after another."""

    def plan(self, inventory: Inventory, *, rank: int, device: Device) -> EnginePlan:
        """Plan a file. A GPU's tensors pass through host memory one by one, the last one not yet freed."""
        return EnginePlan(
            files=(f"rank-{rank:05d}.safetensors",),
            max_disk_bytes=inventory.num_bytes + inventory.num_tensors * _MAX_BYTES_PER_TENSOR + _MAX_FIXED_BYTES,
            host_bytes=2 * inventory.largest_tensor_bytes if device.is_gpu else inventory.num_bytes,
            gpu_bytes=inventory.num_bytes if device.is_gpu else 0,
        )

    def prepare(self, payload: Payload, plan: EnginePlan, *, device: Device, writers: Writers) -> None:
        """Make room for what is restored."""
        self._restored = buffers_like(payload.state)

    def write(self, payload: Payload, files: RunFiles, plan: EnginePlan) -> IoReport:
        """Create, write, flush and fsync the file; fsync the directory."""
        phases = Phases()

        def write_state(file: BinaryIO) -> None:
            write(file, _tensors(payload.state), _plain_values(payload.state))

        write_durably(files, plan.files[0], write_state, phases)
        with phases.phase("commit"):
            files.sync()
        return IoReport(phase_seconds=phases.seconds)

    def write_to_null_sink(self, payload: Payload) -> None:
        """Write to a device that takes everything."""
        with Path(os.devnull).open("wb") as sink:
            write(sink, _tensors(payload.state), _plain_values(payload.state))

    def restore(self, files: RunFiles, plan: EnginePlan, device: Device) -> Restored:
        """Read every tensor into the one made for it."""
        phases = Phases()
        try:
            with phases.phase("read"), files.open(plan.files[0]) as file:
                values = read_into(file, _tensors(self._restored))
            for holder, key, name in _leaves(self._restored):
                if not isinstance(holder[key], torch.Tensor):
                    holder[key] = json.loads(values[name])
        except (ValueError, KeyError) as error:
            raise RunFailed(f"{files.location(plan.files[0])} cannot be read back: {error}.") from error
        return Restored(self._restored, IoReport(phase_seconds=phases.seconds))

    def bytes_on_disk(self, files: RunFiles, plan: EnginePlan) -> int:
        return sum(map(files.num_bytes, plan.files))

    def close(self) -> None:
        self._restored = {}


def _tensors(state: State) -> dict[str, torch.Tensor]:
    return {name: holder[key] for holder, key, name in _leaves(state) if isinstance(holder[key], torch.Tensor)}


def _plain_values(state: State) -> dict[str, str]:
    leaves = ((name, holder[key]) for holder, key, name in _leaves(state))
    return {name: json.dumps(value) for name, value in leaves if not isinstance(value, torch.Tensor)}


def _leaves(state: State, prefix: str = "") -> Iterator[tuple[State, str, str]]:
    """Every value that is no dict: the dict that holds it, its key there, its dotted name."""
    for key, value in state.items():
        if isinstance(value, dict):
            yield from _leaves(value, f"{prefix}{key}.")
        else:
            yield state, key, f"{prefix}{key}"
