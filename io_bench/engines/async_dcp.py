"""`async-dcp`: DCP that stalls training for a copy of the state alone, and writes while it goes on."""

from __future__ import annotations

import dataclasses
import time

from torch.distributed.checkpoint.staging import DefaultStager, StagingOptions
from torch.distributed.checkpoint.state_dict_saver import AsyncSaveResponse, async_save

from io_bench.engines import EnginePlan, IoReport
from io_bench.engines.dcp import Dcp
from io_bench.engines.dcp_storage import Writer
from io_bench.payload import State
from io_bench.payload.device import Device
from io_bench.payload.inventory import Inventory
from io_bench.payload.payload import Payload
from io_bench.ranks.writers import Writers
from io_bench.target.run_files import RunFiles


class AsyncDcp(Dcp):
    """`async_save` with a stager that keeps its buffers, pinned where there is a GPU.

    The stall lasts until the state is copied to host memory; the drain from there until all is durable.
    """

    name = "async-dcp"

    def plan(self, inventory: Inventory, *, rank: int, device: Device) -> EnginePlan:
        """As `dcp`, and a copy of the state in host memory."""
        plan = super().plan(inventory, rank=rank, device=device)
        return dataclasses.replace(plan, host_bytes=plan.host_bytes + inventory.num_bytes)

    def prepare(self, payload: Payload, plan: EnginePlan, *, device: Device, writers: Writers) -> None:
        """As `dcp`; the first save, which warms up, makes the copy's buffers."""
        super().prepare(payload, plan, device=device, writers=writers)
        self._stager = DefaultStager(
            StagingOptions(
                use_pinned_memory=device.is_gpu,
                use_shared_memory=False,
                use_async_staging=False,
                use_non_blocking_copy=device.is_gpu,
            )
        )
        self._held.callback(self._stager.close)

    def write(self, payload: Payload, files: RunFiles, plan: EnginePlan) -> IoReport:
        """Stage, and write what was staged; returns once it is durable."""
        started = time.perf_counter()
        report = super().write(payload, files, plan)
        drain_seconds = time.perf_counter() - started - self._stall_seconds
        return dataclasses.replace(report, stall_seconds=self._stall_seconds, drain_seconds=drain_seconds)

    def _save(self, state: State, writer: Writer) -> None:
        started = time.perf_counter()
        response = async_save(state, storage_writer=writer, async_stager=self._stager)
        self._stall_seconds = time.perf_counter() - started
        (response.upload_completion if isinstance(response, AsyncSaveResponse) else response).result()
