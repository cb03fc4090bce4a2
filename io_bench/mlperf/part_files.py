"""The files of MLPerf Storage's checkpoint: a torch.save file for each part of a process's state, each with fsync."""

from __future__ import annotations

import functools
import os
from dataclasses import replace
from pathlib import Path

import torch

from io_bench.engines import EnginePlan, IoReport, Restored
from io_bench.engines.phases import Phases
from io_bench.engines.plain_files import write_durably
from io_bench.engines.torch_files import loading, save
from io_bench.engines.torch_save import MAX_FIXED_BYTES, TorchSave
from io_bench.payload.device import Device
from io_bench.payload.inventory import Inventory
from io_bench.payload.payload import Payload
from io_bench.target.run_files import RunFiles


class PartFiles(TorchSave):
    """As `torch-save`, one file after another: `PART.pt` for each part of the state dict."""

    name = "mlperf"

    def plan(self, inventory: Inventory, *, rank: int, device: Device) -> EnginePlan:
        """As that of one file; `torch.load` builds a second copy of all of them."""
        whole = super().plan(inventory, rank=rank, device=device)
        parts = list(dict.fromkeys(tensor.part for tensor in inventory.tensors))
        max_disk_bytes = whole.max_disk_bytes + len(parts) * MAX_FIXED_BYTES
        return replace(whole, files=tuple(f"{part}.pt" for part in parts), max_disk_bytes=max_disk_bytes)

    @staticmethod
    def numbered(plan: EnginePlan, number: int) -> EnginePlan:
        """The plan of one of several saves that are kept beside each other."""
        return replace(plan, files=tuple(f"{number}.{name}" for name in plan.files))

    def write(self, payload: Payload, files: RunFiles, plan: EnginePlan) -> IoReport:
        """Each file is durable before the next begins, as in the benchmark."""
        phases = Phases()
        for name in plan.files:
            write_durably(files, name, functools.partial(save, payload.state[_part_of(name)]), phases)
        with phases.phase("commit"):
            files.sync()
        return IoReport(phase_seconds=phases.seconds)

    def write_to_null_sink(self, payload: Payload) -> None:
        """File by file to a device that takes everything."""
        for state in filter(None, payload.state.values()):
            with Path(os.devnull).open("wb") as sink:
                save(state, sink)

    def restore(self, files: RunFiles, plan: EnginePlan, device: Device) -> Restored:
        """Read the files into memory, one after another."""
        phases, state = Phases(), {}
        for name in plan.files:
            with files.open(name) as file, phases.phase("read"), loading(files.location(name)):
                loaded = torch.load(file, map_location=device.name, weights_only=True, mmap=False)
            state[_part_of(name)] = loaded
        return Restored(state, IoReport(phase_seconds=phases.seconds))


def _part_of(name: str) -> str:
    """The part of the state that a file holds, by its name with or without the number of a save."""
    return name.removesuffix(".pt").rpartition(".")[2]
