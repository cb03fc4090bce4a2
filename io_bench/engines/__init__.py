"""Engines: the ways to write a checkpoint and to read it back.

An engine says in its plan, before the clock, which files a rank writes, how many bytes they will have and
what host memory it needs. It is prepared once, then writes and restores as often as asked, and reports where
the time went. Each is entered once in `ENGINES` and passes the contract class in
`tests/io_bench/test_engines.py`.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from io_bench.payload import State
from io_bench.target.request_log import Requests

if TYPE_CHECKING:
    from io_bench.payload.device import Device
    from io_bench.payload.inventory import Inventory
    from io_bench.payload.payload import Payload
    from io_bench.ranks.process_group import Writers
    from io_bench.target.target import RunFiles


DEFAULT_BLOCK_BYTES = 8 << 20
"""Size of one request, where no flag sets it. On the disks tried 4 MiB were as fast; every thread holds two in
memory."""


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """Settings of an engine; None leaves a setting to the engine.

    `block_bytes` is the size of one request to the storage, `num_threads` of one rank move data at once,
    `is_streamed` says that the payload is generated while it is written and never held as a whole.
    """

    block_bytes: int | None = None
    num_threads: int | None = None
    is_streamed: bool = False


@dataclass(frozen=True, slots=True)
class EnginePlan:
    """Files, bytes and memory of one rank's part of a checkpoint, fixed before the clock.

    `max_disk_bytes` is an upper bound, container included. `host_bytes` is host memory beyond the
    payload, at the worst moment of write or restore; `gpu_bytes` likewise on the GPU. `block_bytes` is
    None for an engine that leaves the size of requests to a library. Any rank that saves tensors of the same shapes can
    restore from this plan and its files. `index_files` among these tell of the others and hold no tensor.
    `passing_files` get another name before the write returns.
    """

    files: tuple[str, ...]
    max_disk_bytes: int
    host_bytes: int
    gpu_bytes: int
    block_bytes: int | None = None
    num_threads: int = 1
    is_streamed: bool = False
    index_files: tuple[str, ...] = ()
    passing_files: tuple[str, ...] = ()

    @property
    def all_files(self) -> tuple[str, ...]:
        """All files that a rank may leave behind when it dies, those with a passing name included."""
        return self.files + self.passing_files


@dataclass(frozen=True, slots=True)
class IoReport:
    """Report of an engine on one rank's write or restore, beside the time that it took.

    `is_direct`: the page cache was bypassed. `phase_seconds` is where the time went: plan, create, write,
    fsync, close, commit; open, read, close. `generator_wait_fraction` is the part of the writing threads' time that
    went into making the bytes. An asynchronous engine stalls training and then drains. `notices` are for
    the result's warnings. `requests` is what the files saw of it. `background_rate` is what ran beside the save, in its
    units per second; None where nothing did.
    """

    is_direct: bool = False
    phase_seconds: Mapping[str, float] = field(default_factory=dict)
    generator_wait_fraction: float | None = None
    stall_seconds: float | None = None
    drain_seconds: float | None = None
    notices: tuple[str, ...] = ()
    requests: Requests = field(default_factory=Requests)
    background_rate: float | None = None


@dataclass(frozen=True, slots=True)
class Restored:
    """The state dict that a restore has read, valid until the next restore; None for a streamed payload."""

    state: State | None
    report: IoReport


class Engine(Protocol):
    """A way to write a checkpoint and to restore it. Errors of the operating system leave it as OSError."""

    name: str

    def plan(self, inventory: Inventory, *, rank: int, device: Device) -> EnginePlan:
        """Plan the files, bytes and memory of one rank's state dict."""

    def prepare(self, payload: Payload, plan: EnginePlan, *, device: Device, writers: Writers) -> None:
        """Prepare once, on all writers and before any clock: layouts, buffers, process groups."""

    def write(self, payload: Payload, files: RunFiles, plan: EnginePlan) -> IoReport:
        """Create the files and write the payload; returns once it is durable."""

    def write_to_null_sink(self, payload: Payload) -> None:
        """Do all that `write` does but the I/O: how fast this client could go."""

    def restore(self, files: RunFiles, plan: EnginePlan, device: Device) -> Restored:
        """Read every byte of the state dict into memory. Raises RunFailed where it is unreadable."""

    def bytes_on_disk(self, files: RunFiles, plan: EnginePlan) -> int:
        """Count the bytes of the files as they were written."""

    def close(self) -> None:
        """Release what `prepare` made. Never raises."""


@runtime_checkable
class StreamingEngine(Engine, Protocol):
    """An engine that also takes a payload which is generated while it is written."""

    def holds(self, payload: Payload, files: RunFiles, plan: EnginePlan) -> bool:
        """Read the files again; whether they hold every byte of the payload, which is generated again."""


@dataclass(frozen=True, slots=True)
class EngineEntry:
    """A row of the table of engines: the class of a module here, and a summary for users. Called, it makes the engine.

    `is_streaming` says that it is a StreamingEngine, which the command line asks before torch is loaded; `needs_gpu`
    that it refuses to be prepared where torch sees none.
    """

    module: str
    class_name: str
    summary: str
    is_streaming: bool = False
    needs_gpu: bool = False

    def __call__(self, options: EngineOptions) -> Engine:
        """Make the engine. Imports torch, which takes a second."""
        module = importlib.import_module(f"{__name__}.{self.module}")
        engine: Engine = getattr(module, self.class_name)(options)
        return engine


ENGINES: Mapping[str, EngineEntry] = {
    "torch-save": EngineEntry(
        "torch_save", "TorchSave", "one torch.save file per rank, through the page cache, in one thread"
    ),
    "direct": EngineEntry(
        "direct",
        "Direct",
        "the same file with O_DIRECT and several threads: the bandwidth of the storage",
        is_streaming=True,
    ),
    "dcp": EngineEntry("dcp", "Dcp", "torch.distributed.checkpoint: what FSDP2 and Megatron's torch_dist write"),
    "async-dcp": EngineEntry(
        "dcp", "AsyncDcp", "asynchronous DCP: training stalls for the copy only; stall and drain are separate"
    ),
    "tensor-files": EngineEntry(
        "tensor_files", "TensorFiles", "a torch.save file per tensor, each durable before the next: many small files"
    ),
    "safetensors": EngineEntry(
        "safetensors", "Safetensors", "one safetensors file per rank, in one thread: what inference loads"
    ),
    "kvikio": EngineEntry(
        "kvikio",
        "Kvikio",
        "the file of direct, between GPU and storage by kvikio: what GPUDirect Storage gives",
        needs_gpu=True,
    ),
}
"""Every engine by its name on the command line, and how to make it."""

HOST_ENGINES = tuple(name for name, entry in ENGINES.items() if not entry.needs_gpu)
"""The names of those that run on any node."""

STREAMING_ENGINES = frozenset(name for name, entry in ENGINES.items() if entry.is_streaming)
"""The names of those that are a StreamingEngine."""
