"""`kvikio`: the file of `direct`, moved between GPU and storage by NVIDIA's kvikio, with GPUDirect Storage or without.

Where GPUDirect Storage is not set up, kvikio copies through host memory of its own: its compatibility mode.
Source: https://docs.rapids.ai/api/kvikio/stable/, CuFile and defaults.
"""

from __future__ import annotations

import errno
import importlib
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, BinaryIO

import torch

from io_bench import interruption
from io_bench.engines import DEFAULT_BLOCK_BYTES, EngineOptions, EnginePlan, IoReport, Restored
from io_bench.engines.direct import DEFAULT_NUM_THREADS
from io_bench.engines.direct_blocks import FileLayout, with_data, without_data
from io_bench.engines.direct_files import preallocate
from io_bench.engines.phases import Phases
from io_bench.engines.torch_files import loading
from io_bench.errors import RunFailed
from io_bench.payload.device import Device
from io_bench.payload.inventory import Inventory
from io_bench.payload.payload import Payload, storage_bytes, tensors_of
from io_bench.ranks.process_group import Writers
from io_bench.target.direct_io import max_aligned_bytes
from io_bench.target.directory import RunDirectory
from io_bench.target.request_log import RequestLog
from io_bench.target.target import RunFiles
from sizing.errors import InvalidInput, NotInstalled

_Blocks = Iterable[tuple[int, torch.Tensor]]
"""Where in the file, and the bytes: uint8 in one dimension, on the GPU or in host memory."""


def library() -> Any:
    """Import kvikio, where torch sees a GPU. Raises InvalidInput without a GPU, NotInstalled without kvikio."""
    if not torch.cuda.is_available():
        remedy = "use --engine direct, or run where torch.cuda.is_available()"
        raise InvalidInput.of("--engine", "needs a GPU that torch sees", value=Kvikio.name, remedy=remedy)
    try:
        kvikio = importlib.import_module("kvikio")
        importlib.import_module("kvikio.defaults")
    except ImportError:
        remedy = "install it: pip install 'checkpoint-sizing[gpu]'"
        raise NotInstalled.of("--engine", "needs kvikio", value=Kvikio.name, remedy=remedy) from None
    return kvikio


class Kvikio:
    """The engine of kvikio: the file of `direct`; each request is one block of one tensor, of any alignment."""

    name = "kvikio"

    _kvikio: Any
    _layout: FileLayout
    _image: torch.Tensor

    def __init__(self, options: EngineOptions) -> None:
        self._block_bytes = options.block_bytes or DEFAULT_BLOCK_BYTES
        self._num_threads = options.num_threads or DEFAULT_NUM_THREADS

    def plan(self, inventory: Inventory, *, rank: int, device: Device) -> EnginePlan:
        """Plan a file, restored into memory that is there; kvikio has a bounce buffer for each thread."""
        max_disk_bytes = max_aligned_bytes(inventory.num_bytes, num_tensors=inventory.num_tensors)
        bounce_bytes = self._num_threads * self._block_bytes
        return EnginePlan(
            files=(f"rank-{rank:05d}.pt",),
            max_disk_bytes=max_disk_bytes,
            host_bytes=bounce_bytes + (0 if device.is_gpu else max_disk_bytes),
            gpu_bytes=max_disk_bytes if device.is_gpu else 0,
            block_bytes=self._block_bytes,
            num_threads=self._num_threads,
        )

    def prepare(self, payload: Payload, plan: EnginePlan, *, device: Device, writers: Writers) -> None:
        """Lay out the file and take the memory to restore into; tell kvikio its threads and the size of its buffers.

        Raises InvalidInput where kvikio or a GPU is missing.
        """
        self._kvikio = library()
        self._kvikio.defaults.set(
            {
                "num_threads": self._num_threads,
                "bounce_buffer_size": self._block_bytes,
                "auto_direct_io_read": True,
                "auto_direct_io_write": True,
            }
        )
        self._layout = FileLayout(payload.state)
        self._image = torch.empty(self._layout.num_bytes, dtype=torch.uint8, device=device.name)

    def write(self, payload: Payload, files: RunFiles, plan: EnginePlan) -> IoReport:
        """Create the file and take its space, write it block by block from where it is, make it durable."""
        phases, name = Phases(), plan.files[0]
        with phases.phase("create"):
            file = _local(files).create(name)
            preallocate(file.fileno(), self._layout.num_bytes)
        with file:
            with phases.phase("write"), self._open(file, name, files.log, "r+") as kvikio_file:
                self._move(kvikio_file.write, self._blocks(payload))
            with phases.phase("fsync"):
                files.persist(file)
            with phases.phase("close"):
                file.close()
        with phases.phase("commit"):
            files.sync()
        return IoReport(phase_seconds=phases.seconds, notices=self._notices())

    def write_to_null_sink(self, payload: Payload) -> None:
        """Hand out every block to threads that do nothing: what else is done is kvikio's, and part of the I/O."""
        self._move(lambda _offset, _block: None, self._blocks(payload))

    def restore(self, files: RunFiles, plan: EnginePlan, device: Device) -> Restored:
        """Ask torch for the tensors and their places, then read the whole file into memory on the device."""
        phases, name = Phases(), plan.files[0]
        with phases.phase("open"):
            with files.log.silent(), files.open(name) as plain, loading(plain, files.location(name)) as skeleton:
                described = without_data(skeleton)
            file = _local(files).open(name)
        with file:
            with phases.phase("read"), self._open(file, name, files.log, "r") as kvikio_file:
                image = self._image_for(files.num_bytes(name), device)
                self._move(kvikio_file.read, _cut(0, image, self._block_bytes))
            with phases.phase("close"):
                file.close()
        if kvikio_file.is_short:
            raise RunFailed(f"{files.location(name)} cannot be read back: the file is shorter than expected.")
        return Restored(with_data(described, image), IoReport(phase_seconds=phases.seconds, notices=self._notices()))

    def bytes_on_disk(self, files: RunFiles, plan: EnginePlan) -> int:
        return sum(map(files.num_bytes, plan.files))

    def close(self) -> None:
        pass

    def _blocks(self, payload: Payload) -> Iterator[tuple[int, torch.Tensor]]:
        """List every byte of the file: torch's own from host memory, storages from where they live."""
        end, tensors = 0, dict(tensors_of(payload.state))
        for extent in self._layout.extents:
            yield from _cut(end, self._layout.skeleton[end : extent.offset], self._block_bytes)
            yield from _cut(extent.offset, storage_bytes(tensors[extent.tensor]), self._block_bytes)
            end = extent.offset + extent.num_bytes
        yield from _cut(end, self._layout.skeleton[end:], self._block_bytes)

    def _move(self, move: Callable[[int, torch.Tensor], None], blocks: _Blocks) -> None:
        """Move each block by whichever thread is free. The first error ends all, and is raised."""
        offsets, tensors = zip(*blocks, strict=True)
        with ThreadPoolExecutor(self._num_threads) as pool:
            for _ in pool.map(move, offsets, tensors):
                pass

    def _image_for(self, num_bytes: int, device: Device) -> torch.Tensor:
        """Memory for a whole file: what was taken before, unless this file is of a rank that has more."""
        if len(self._image) < num_bytes:
            self._image = torch.empty(num_bytes, dtype=torch.uint8, device=device.name)
        return self._image[:num_bytes]

    @contextmanager
    def _open(self, file: BinaryIO, name: str, log: RequestLog, flags: str) -> Iterator[_KvikioFile]:
        """Have kvikio open an open file again, by its descriptor, so that it is the same for sure."""
        with _explained(), self._kvikio.CuFile(f"/proc/self/fd/{file.fileno()}", flags) as cufile:
            yield _KvikioFile(cufile, name, log)

    def _notices(self) -> tuple[str, ...]:
        if not self._kvikio.defaults.is_compat_mode_preferred():
            return ()
        return ("kvikio ran in its compatibility mode, through host memory: GPUDirect Storage is not set up here.",)


@dataclass(slots=True)
class _KvikioFile:
    """A file that kvikio has open, and the log of its requests; `is_short` once a read met the end of the file."""

    cufile: Any
    name: str
    log: RequestLog
    is_short: bool = False

    def write(self, offset: int, block: torch.Tensor) -> None:
        """Write one block. Raises OSError."""
        interruption.fail_requests()
        begun = time.perf_counter()
        with _explained():
            moved = self.cufile.pwrite(_buffer(block), len(block), offset, len(block)).get()
        if moved != len(block):
            raise OSError(errno.EIO, f"kvikio wrote {moved:,} of {len(block):,} bytes")
        self.log.moved("write", self.name, offset, moved, begun=begun)

    def read(self, offset: int, block: torch.Tensor) -> None:
        """Fill one block. Raises OSError."""
        interruption.fail_requests()
        begun = time.perf_counter()
        with _explained():
            moved = self.cufile.pread(_buffer(block), len(block), offset, len(block)).get()
        self.is_short = self.is_short or moved != len(block)
        self.log.moved("read", self.name, offset, moved, begun=begun)


def _cut(offset: int, content: torch.Tensor, block_bytes: int) -> Iterator[tuple[int, torch.Tensor]]:
    """Cut bytes into blocks of at most `block_bytes`, each with its offset in the file; none of nothing."""
    for start in range(0, len(content), block_bytes):
        yield offset + start, content[start : start + block_bytes]


def _buffer(block: torch.Tensor) -> Any:
    """Choose what kvikio takes: a GPU's tensor for its __cuda_array_interface__, else its host memory."""
    return block if block.is_cuda else block.numpy()


@contextmanager
def _explained() -> Iterator[None]:
    """Turn kvikio's errors of the system into OSError."""
    try:
        yield
    except RuntimeError as error:
        raise OSError(errno.EIO, str(error)) from error


def _local(files: RunFiles) -> RunDirectory:
    if not isinstance(files, RunDirectory):
        rule, remedy = "writes to directories only", "use --engine direct, or a mounted file system"
        raise InvalidInput.of("--engine", rule, value=Kvikio.name, remedy=remedy)
    return files
