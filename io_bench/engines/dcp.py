"""`dcp`: torch.distributed.checkpoint over all ranks, the way that FSDP and Megatron's `torch_dist` save."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import time
from collections.abc import Callable

from torch.distributed import ProcessGroup
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.staging import DefaultStager, StagingOptions
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import AsyncSaveResponse, async_save, save

from io_bench.engines import EngineOptions, EnginePlan, IoReport, Restored
from io_bench.engines.collectives import Collectives
from io_bench.engines.dcp_streams import METADATA, FileStreams, Reader, Streams, Writer
from io_bench.engines.phases import Phases
from io_bench.errors import RunFailed
from io_bench.payload import State
from io_bench.payload.device import Device
from io_bench.payload.inventory import Inventory
from io_bench.payload.payload import Payload, buffers_like
from io_bench.ranks.process_group import Writers
from io_bench.target.target import RunFiles

_MAX_BYTES_PER_TENSOR = 4 * 1024
"""Its zip container in the .distcp file, 1,577 as measured, and its lines in .metadata, which grow with its name."""
_MAX_FIXED_BYTES = 64 * 1024
"""Bytes of a rank beside its tensors: pickled values, and the beginning of .metadata."""
_DEFAULT_THREADS = 1
"""Threads per rank by default, as FileSystemWriter has it."""


class Dcp:
    """The engine of DCP, with a writer, reader and planner of its own, in a gloo group of all ranks.

    Each rank saves its state dict under a key of its own, as ranks that hold different tensors do, so that nothing
    is taken for a replica. With several threads, DCP writes a file for each.
    """

    name = "dcp"

    def __init__(self, options: EngineOptions) -> None:
        """Takes the number of threads; the size of requests is DCP's."""
        self._num_threads = options.num_threads or _DEFAULT_THREADS
        self._stack = contextlib.ExitStack()
        logging.getLogger().addFilter(_is_not_of_dcp)  # DCP logs by the root logger

    def plan(self, inventory: Inventory, *, rank: int, device: Device) -> EnginePlan:
        """Plan a file for each thread, and `.metadata` on rank 0.

        It restores into tensors that are there, through a copy of one tensor at a time.
        """
        files = [f"__{rank}_{thread}.distcp" for thread in range(self._num_threads)]
        restored = 0 if device.is_gpu else inventory.num_bytes
        return EnginePlan(
            files=(*files, METADATA) if rank == 0 else tuple(files),
            max_disk_bytes=inventory.num_bytes + inventory.num_tensors * _MAX_BYTES_PER_TENSOR + _MAX_FIXED_BYTES,
            host_bytes=restored + (self._num_threads + 1) * inventory.largest_tensor_bytes,
            gpu_bytes=inventory.num_bytes if device.is_gpu else 0,
            num_threads=self._num_threads,
            index_files=(METADATA,) if rank == 0 else (),
            passing_files=(f"{METADATA}.tmp",) if rank == 0 else (),
        )

    def prepare(self, payload: Payload, plan: EnginePlan, *, device: Device, writers: Writers) -> None:
        """Connect the ranks, and make room for what is restored."""
        self._index, self._plan = writers.index, plan
        self._collectives = Collectives(writers)
        self._stack.callback(self._collectives.close)
        self._restored = buffers_like(payload.state)

    def write(self, payload: Payload, files: RunFiles, plan: EnginePlan) -> IoReport:
        """Plan over all ranks, write and fsync the files, commit `.metadata`; fsync the directory."""
        streams = FileStreams(files)
        writer = Writer(streams, num_threads=self._num_threads)
        self._run_together(lambda: self._save(self._key_state(payload.state, plan), writer), streams, doing="writing")
        return IoReport(phase_seconds=_phase_seconds(writer, files))

    def write_to_null_sink(self, payload: Payload) -> None:
        """Save into files that take everything, over all ranks, with planning and commit."""
        streams = Streams()
        writer = Writer(streams, num_threads=self._num_threads)
        state = self._key_state(payload.state, self._plan)
        self._run_together(lambda: self._save(state, writer), streams, doing="discarding")

    def restore(self, files: RunFiles, plan: EnginePlan, device: Device) -> Restored:
        """Read every tensor into the one made for it."""
        return self._read(files, self._restored, self._key_state(self._restored, plan), self._group)

    def bytes_on_disk(self, files: RunFiles, plan: EnginePlan) -> int:
        return sum(map(files.num_bytes, plan.files))

    def close(self) -> None:
        self._stack.close()

    @property
    def _group(self) -> ProcessGroup | None:
        """The ranks that save together; None for all."""
        return None

    def _key_state(self, state: State, plan: EnginePlan) -> State:
        """Put the state dict under the key that belongs to a plan: that of the rank whose files it names."""
        return {plan.files[0].removesuffix("_0.distcp").replace("__", "rank-"): state}

    def _save(self, state: State, writer: Writer) -> None:
        save(state, storage_writer=writer, process_group=self._group)

    def _read(self, files: RunFiles, restored: State, keyed: State, group: ProcessGroup | None) -> Restored:
        """Fill what `keyed` holds of `restored`, all ranks of a group together."""
        phases, streams = Phases(), FileStreams(files)

        def read() -> None:
            load(keyed, storage_reader=Reader(streams), process_group=group)

        with phases.phase("read"):
            self._run_together(read, streams, doing="restoring")
        return Restored(restored, IoReport(phase_seconds=phases.seconds))

    def _run_together(self, work: Callable[[], None], streams: Streams, *, doing: str) -> None:
        """Run what all ranks do together. Raises OSError and RunFailed of this rank, or what peers are at fault for."""
        try:
            self._collectives.run(work, doing=doing)
        except CheckpointException as error:
            streams.raise_failure()
            if self._index not in error.failures:
                self._collectives.blame(doing=doing)
            cause, _ = error.failures[min(error.failures)]
            if isinstance(cause, (OSError, RunFailed)):
                raise cause from error
            message = f"DCP failed while {doing} {streams.title}: {type(cause).__name__}: {cause}."
            raise RunFailed(message) from error
        else:
            streams.raise_failure()
        finally:
            streams.stop()


def _is_not_of_dcp(record: logging.LogRecord) -> bool:
    """Whether a line of the log is for the user: what DCP logs of a failure, with its stack, the run says itself."""
    return "torch/distributed/checkpoint" not in record.pathname


def _phase_seconds(writer: Writer, files: RunFiles) -> dict[str, float]:
    """Commit the files, and list seconds by phase: planning of all ranks, phases of the slowest thread, commit."""
    threads = [phases.seconds for phases in writer.streams.phases]
    slowest = {name: max(seconds.get(name, 0.0) for seconds in threads) for name in threads[0]}
    commit = Phases()
    with commit.phase("commit"):
        files.sync()
    return {"plan": writer.plan_seconds} | slowest | {"commit": writer.commit_seconds + commit.seconds["commit"]}


class AsyncDcp(Dcp):
    """The engine of `async_save`, with a stager that keeps its buffers, pinned where there is a GPU.

    The stall lasts until the state is copied to host memory; the drain from there until all is durable.
    """

    name = "async-dcp"

    def plan(self, inventory: Inventory, *, rank: int, device: Device) -> EnginePlan:
        """Plan as `dcp` does, with a copy of the state in host memory."""
        plan = super().plan(inventory, rank=rank, device=device)
        return dataclasses.replace(plan, host_bytes=plan.host_bytes + inventory.num_bytes)

    def prepare(self, payload: Payload, plan: EnginePlan, *, device: Device, writers: Writers) -> None:
        """Prepare as `dcp` does; the first save, which warms up, makes the copy's buffers."""
        super().prepare(payload, plan, device=device, writers=writers)
        self._stager = DefaultStager(
            StagingOptions(
                use_pinned_memory=device.is_gpu,
                use_shared_memory=False,
                use_async_staging=False,
                use_non_blocking_copy=device.is_gpu,
            )
        )
        self._stack.callback(self._stager.close)

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
