"""`dcp`: torch.distributed.checkpoint over all ranks, the way that FSDP and Megatron's `torch_dist` save."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from torch.distributed import ProcessGroup
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save

from io_bench.engines import EngineOptions, EnginePlan, IoReport, Restored
from io_bench.engines.collectives import Collectives
from io_bench.engines.dcp_storage import METADATA, Reader, Writer
from io_bench.engines.dcp_streams import FileStreams, Streams
from io_bench.engines.phases import Phases
from io_bench.engines.restore_buffers import buffers_like
from io_bench.errors import RunFailed
from io_bench.payload import State
from io_bench.payload.device import Device
from io_bench.payload.inventory import Inventory
from io_bench.payload.payload import Payload
from io_bench.ranks.writers import Writers
from io_bench.target.run_files import RunFiles

_MAX_BYTES_PER_TENSOR = 4 * 1024
"""Its zip container in the .distcp file, 1,577 as measured, and its lines in .metadata, which grow with its name."""
_MAX_FIXED_BYTES = 64 * 1024
"""Of a rank: pickled values that are no tensors, and the beginning of .metadata."""
_DEFAULT_THREADS = 1
"""FileSystemWriter's own default."""


class Dcp:
    """DCP with its own writer, reader and planner, in a gloo group of all ranks.

    Each rank saves its state dict under a key of its own, as ranks that hold different tensors do, so that nothing
    is taken for a replica. With several threads, DCP writes a file for each.
    """

    name = "dcp"

    def __init__(self, options: EngineOptions) -> None:
        """Takes the number of threads; the size of requests is DCP's."""
        self._num_threads = options.num_threads or _DEFAULT_THREADS
        self._held = contextlib.ExitStack()

    def plan(self, inventory: Inventory, *, rank: int, device: Device) -> EnginePlan:
        """One file per thread, and `.metadata` from rank 0.

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
            passing_files=(f"{METADATA}.tmp",) if rank == 0 else (),
        )

    def prepare(self, payload: Payload, plan: EnginePlan, *, device: Device, writers: Writers) -> None:
        """Connect the ranks, and make room for what is restored."""
        self._index, self._plan = writers.index, plan
        self._collectives = Collectives(writers)
        self._held.callback(self._collectives.close)
        self._restored = buffers_like(payload.state)

    def write(self, payload: Payload, files: RunFiles, plan: EnginePlan) -> IoReport:
        """Plan over all ranks, write and fsync the files, commit `.metadata`; fsync the directory."""
        streams = FileStreams(files)
        writer = Writer(streams, num_threads=self._num_threads)
        self._together(lambda: self._save(self._keyed(payload.state, plan), writer), streams, doing="writing")
        return IoReport(phase_seconds=_phase_seconds(writer, files))

    def write_to_null_sink(self, payload: Payload) -> None:
        """The same over all ranks, planning and commit too, into files that take everything."""
        streams = Streams()
        writer = Writer(streams, num_threads=self._num_threads)
        state = self._keyed(payload.state, self._plan)
        self._together(lambda: self._save(state, writer), streams, doing="discarding")

    def restore(self, files: RunFiles, plan: EnginePlan, device: Device) -> Restored:
        """Read every tensor into the one made for it."""
        return self._read(files, self._restored, self._keyed(self._restored, plan), self._group)

    def bytes_on_disk(self, files: RunFiles, plan: EnginePlan) -> int:
        """The sizes of this rank's files, on rank 0 with `.metadata`."""
        return sum(map(files.num_bytes, plan.files))

    def close(self) -> None:
        """Let go of the connections."""
        self._held.close()

    @property
    def _group(self) -> ProcessGroup | None:
        """Who saves together; None for all."""
        return None

    def _keyed(self, state: State, plan: EnginePlan) -> State:
        """The state dict under the key that belongs to a plan: that of the rank whose files it names."""
        return {plan.files[0].removesuffix("_0.distcp").replace("__", "rank-"): state}

    def _save(self, state: State, writer: Writer) -> None:
        save(state, storage_writer=writer, process_group=self._group)

    def _read(self, files: RunFiles, restored: State, keyed: State, group: ProcessGroup | None) -> Restored:
        """Fill what `keyed` holds of `restored`, all ranks of a group together."""
        phases, streams = Phases(), FileStreams(files)

        def read() -> None:
            load(keyed, storage_reader=Reader(streams), process_group=group)

        with phases.phase("read"):
            self._together(read, streams, doing="restoring")
        return Restored(restored, IoReport(phase_seconds=phases.seconds))

    def _together(self, work: Callable[[], None], streams: Streams, *, doing: str) -> None:
        """Do what all ranks do. Raises OSError and RunFailed of this rank, PeerFailed and RanksLost of others."""
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
        finally:
            streams.stop()


def _phase_seconds(writer: Writer, files: RunFiles) -> dict[str, float]:
    """Seconds by phase: of the plan of all ranks, of the slowest thread in each of its own, of the commit."""
    threads = [phases.seconds for phases in writer.streams.phases]
    slowest = {name: max(seconds.get(name, 0.0) for seconds in threads) for name in threads[0]}
    commit = Phases()
    with commit.phase("commit"):
        files.sync()
    return {"plan": writer.plan_seconds} | slowest | {"commit": writer.commit_seconds + commit.seconds["commit"]}
