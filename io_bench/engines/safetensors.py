"""`safetensors`: one safetensors file per rank, written in order and fsynced."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import torch

from io_bench.engines import EngineOptions, EnginePlan, IoReport, Restored
from io_bench.engines.phases import Phases
from io_bench.engines.plain_files import write_durably
from io_bench.engines.restore_buffers import buffers_like
from io_bench.engines.safetensors_format import read_into, write
from io_bench.errors import RunFailed
from io_bench.payload import State
from io_bench.payload.device import Device
from io_bench.payload.inventory import Inventory
from io_bench.payload.payload import Payload
from io_bench.ranks.writers import Writers
from io_bench.target.run_files import RunFiles

_MAX_BYTES_PER_TENSOR = 512
"""A line of the header: name, dtype, shape, offsets; 114 as measured, with names of 45 characters."""
_MAX_FIXED_BYTES = 4 * 1024
"""Of a file: the header's length and padding, and the plain values."""


class Safetensors:
    """Tensors under their dotted names, in the file's order; plain values as JSON in the file's metadata.

    It restores by reading into tensors that are there: an error of the storage is then an error, and not the end of
    the process, as it is for whoever reads through a memory map.
    """

    name = "safetensors"

    def __init__(self, options: EngineOptions) -> None:
        """Has nothing to tune: one thread writes one tensor after another."""

    def plan(self, inventory: Inventory, *, rank: int, device: Device) -> EnginePlan:
        """One file per rank. A GPU's tensors pass through host memory one by one, the last one not yet freed."""
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
        """The size of the file."""
        return sum(map(files.num_bytes, plan.files))

    def close(self) -> None:
        """Let go of what was restored."""
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
