"""`torch-save`: one buffered `torch.save` file per rank, the classic way."""

from __future__ import annotations

import functools
import os
from pathlib import Path

import torch

from io_bench.engines import EngineOptions, EnginePlan, IoReport, Restored
from io_bench.engines.phases import Phases, write_durably
from io_bench.engines.torch_files import loading, save
from io_bench.payload.device import Device
from io_bench.payload.inventory import Inventory
from io_bench.payload.payload import Payload
from io_bench.ranks.process_group import Writers
from io_bench.target.target import RunFiles

_MAX_BYTES_PER_RECORD = 1024
"""Bytes of the zip container per tensor: two headers, the name, alignment to 64 bytes, a line in the pickle; about 320
as measured."""
MAX_FIXED_BYTES = 16 * 1024
"""Bytes of a file beside its tensors: its other records, and the pickle's beginning and end; 1,350 as measured."""


class TorchSave:
    """The engine of plain `torch.save`, then flush and fsync of the file and fsync of the directory."""

    name = "torch-save"

    def __init__(self, options: EngineOptions) -> None:
        """Has nothing to tune: `torch.save` chooses its requests itself, in one thread."""

    def plan(self, inventory: Inventory, *, rank: int, device: Device) -> EnginePlan:
        """Plan a file. `torch.save` writes in place; `torch.load` builds a second copy.

        A GPU's tensors pass through host memory one by one, the last one not yet freed.
        """
        on_host = 2 * inventory.largest_tensor_bytes if device.is_gpu else inventory.num_bytes
        return EnginePlan(
            files=(f"rank-{rank:05d}.pt",),
            max_disk_bytes=inventory.num_bytes + inventory.num_tensors * _MAX_BYTES_PER_RECORD + MAX_FIXED_BYTES,
            host_bytes=on_host,
            gpu_bytes=inventory.num_bytes if device.is_gpu else 0,
        )

    def prepare(self, payload: Payload, plan: EnginePlan, *, device: Device, writers: Writers) -> None:
        """Do nothing: each save begins anew."""

    def write(self, payload: Payload, files: RunFiles, plan: EnginePlan) -> IoReport:
        """Create, write, flush and fsync the file; fsync the directory."""
        phases = Phases()
        write_durably(files, plan.files[0], functools.partial(save, payload.state), phases)
        with phases.phase("commit"):
            files.sync()
        return IoReport(phase_seconds=phases.seconds)

    def write_to_null_sink(self, payload: Payload) -> None:
        with Path(os.devnull).open("wb") as sink:
            save(payload.state, sink)

    def restore(self, files: RunFiles, plan: EnginePlan, device: Device) -> Restored:
        """Read the whole file into memory: no mmap, and no pickled code."""
        phases, name = Phases(), plan.files[0]
        with files.open(name) as opened, phases.phase("read"), loading(opened, files.location(name)) as file:
            loaded = torch.load(file, map_location=device.name, weights_only=True, mmap=False)
        return Restored(dict(loaded), IoReport(phase_seconds=phases.seconds))

    def bytes_on_disk(self, files: RunFiles, plan: EnginePlan) -> int:
        return sum(map(files.num_bytes, plan.files))

    def close(self) -> None:
        pass
