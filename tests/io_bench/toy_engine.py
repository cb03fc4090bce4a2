"""`torch-save-renamed`: `torch.save` under a passing name, so that a file of the final name is always whole."""

from __future__ import annotations

import dataclasses
import errno

from io_bench.engines import EnginePlan, IoReport
from io_bench.engines.phases import Phases
from io_bench.engines.torch_save import TorchSave
from io_bench.payload.device import Device
from io_bench.payload.inventory import Inventory
from io_bench.payload.payload import Payload
from io_bench.target.target import RunFiles


class TorchSaveRenamed(TorchSave):
    """Saves and restores as `torch-save`; the file takes its name once its bytes are durable."""

    name = "torch-save-renamed"

    def plan(self, inventory: Inventory, *, rank: int, device: Device) -> EnginePlan:
        """The same, with the passing name: a rank that is lost may leave a file of either."""
        plan = super().plan(inventory, rank=rank, device=device)
        return dataclasses.replace(plan, passing_files=tuple(f"{name}.part" for name in plan.files))

    def write(self, payload: Payload, files: RunFiles, plan: EnginePlan) -> IoReport:
        """Save as `torch-save` does, then rename. A rename would replace a file that is there: it is refused before."""
        (name,), (passing,) = plan.files, plan.passing_files
        if files.exists(name):
            raise FileExistsError(errno.EEXIST, "there is a file already", files.location(name))
        report = super().write(payload, files, dataclasses.replace(plan, files=plan.passing_files))
        phases = Phases()
        with phases.phase("rename"):
            files.rename(passing, name)
            files.sync()
        return dataclasses.replace(report, phase_seconds={**report.phase_seconds, **phases.seconds})
