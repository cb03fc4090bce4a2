"""The engine: what one rank plans, writes and restores."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import numpy as np
import torch

from io_bench.engines import DEFAULT_BLOCK_BYTES, EngineOptions, EnginePlan, IoReport, Restored
from io_bench.engines.direct_blocks import FileBytes, FileLayout, with_data, without_data
from io_bench.engines.direct_files import BlockFile, LocalFile, Threads, TimeSpent, create_file, open_file
from io_bench.engines.phases import Phases
from io_bench.engines.torch_files import loading
from io_bench.errors import RunFailed
from io_bench.payload.byte_source import Bytes, aligned_memory, pad_bytes, touch
from io_bench.payload.device import Device
from io_bench.payload.inventory import Inventory
from io_bench.payload.payload import Payload
from io_bench.ranks.process_group import Writers
from io_bench.target.direct_io import max_aligned_bytes
from io_bench.target.request_log import RequestLog
from io_bench.target.target import RunFiles

DEFAULT_NUM_THREADS = 8
"""4 to 8 requests in flight saturate a drive: on the one tried, one thread reached 1.8 GB/s and eight 2.3."""


class Direct:
    """The engine of one torch file per rank, moved in aligned blocks with O_DIRECT by several threads.

    A restore puts the file as it is into memory, or onto the GPU, and lays tensors over it. A streamed
    payload is made in the buffers of the threads and read back into them: it is never held as a whole.
    """

    name = "direct"

    _layout: FileLayout
    _threads: Threads
    _image: torch.Tensor | None

    def __init__(self, options: EngineOptions) -> None:
        self._block_bytes = options.block_bytes or DEFAULT_BLOCK_BYTES
        self._num_threads = options.num_threads or DEFAULT_NUM_THREADS
        self._is_streamed = options.is_streamed

    def plan(self, inventory: Inventory, *, rank: int, device: Device) -> EnginePlan:
        """Plan a file, a buffer per thread, and a restored file where the payload lives."""
        max_disk_bytes = max_aligned_bytes(inventory.num_bytes, num_tensors=inventory.num_tensors)
        image_bytes = 0 if self._is_streamed else max_disk_bytes
        num_threads = min(self._num_threads, -(-max_disk_bytes // self._block_bytes))
        return EnginePlan(
            files=(f"rank-{rank:05d}.pt",),
            max_disk_bytes=max_disk_bytes,
            host_bytes=2 * num_threads * self._block_bytes + (0 if device.is_gpu else image_bytes),
            gpu_bytes=image_bytes if device.is_gpu else 0,
            block_bytes=self._block_bytes,
            num_threads=num_threads,
            is_streamed=self._is_streamed,
        )

    def prepare(self, payload: Payload, plan: EnginePlan, *, device: Device, writers: Writers) -> None:
        """Lay out the file, which is the same in every repetition; take and touch all memory."""
        self._layout = FileLayout(payload.state)
        self._threads = Threads(plan.num_threads, block_bytes=self._block_bytes, is_pinned=device.is_gpu)
        self._image = None if self._is_streamed else _image(pad_bytes(self._layout.num_bytes), device)

    def write(self, payload: Payload, files: RunFiles, plan: EnginePlan) -> IoReport:
        """Create the file and take its space, write it in blocks, make it durable."""
        phases, waiting = Phases(), TimeSpent()
        with phases.phase("create"):
            file = create_file(files, plan.files[0], self._layout.num_bytes)
        with file:
            with phases.phase("write"):
                self._threads.write(file, FileBytes(self._layout, payload).pieces, waiting)
            with phases.phase("fsync"):
                file.persist()
            with phases.phase("close"):
                file.close()
        with phases.phase("commit"):
            files.sync()
        num_waiting = plan.num_threads if file.takes_any_order else 1
        waited = waiting.seconds / (num_waiting * phases.seconds["write"])
        return IoReport(
            is_direct=file.is_direct,
            phase_seconds=phases.seconds,
            generator_wait_fraction=waited if self._is_streamed else None,
            notices=file.notices,
        )

    def write_to_null_sink(self, payload: Payload) -> None:
        with LocalFile(Path(os.devnull).open("wb"), self._layout.num_bytes, log=RequestLog()) as sink:
            self._threads.write(sink, FileBytes(self._layout, payload).pieces, TimeSpent())

    def restore(self, files: RunFiles, plan: EnginePlan, device: Device) -> Restored:
        """Ask torch for the tensors and their places, then read the whole file."""
        phases, name = Phases(), plan.files[0]
        with phases.phase("open"):
            with files.log.silent(), files.open(name) as plain, loading(plain, files.location(name)) as skeleton:
                described = without_data(skeleton)
            file = open_file(files, name)
        with file:
            with phases.phase("read"):
                image = self._image_for(file.num_bytes, device)
                if not self._read(file, image):
                    raise RunFailed(f"{files.location(name)} cannot be read back: the file is shorter than expected.")
            with phases.phase("close"):
                file.close()
        state = None if image is None else with_data(described, image)
        return Restored(state, IoReport(file.is_direct, phases.seconds, notices=file.notices))

    def holds(self, payload: Payload, files: RunFiles, plan: EnginePlan) -> bool:
        """Whether the file is, byte by byte, what `write` makes of the payload."""
        content, num_bytes = FileBytes(self._layout, payload), self._layout.num_bytes
        differing: list[int] = []

        def compare(offset: int, block: Bytes) -> None:
            expected = np.concatenate(content.pieces(offset, np.empty_like(block)))
            in_file = min(len(block), num_bytes - offset)
            if file.read(block, offset) != in_file or (block != expected)[:in_file].any():
                differing.append(offset)

        with open_file(files, plan.files[0]) as file:
            self._threads.read(file, compare)
        return file.num_bytes == num_bytes and not differing

    def bytes_on_disk(self, files: RunFiles, plan: EnginePlan) -> int:
        return sum(map(files.num_bytes, plan.files))

    def close(self) -> None:
        pass

    def _read(self, file: BlockFile, image: torch.Tensor | None) -> bool:
        """Read a file into the image, or over and over into the buffers; False where it ends too early."""
        host_image = None if image is None or image.is_cuda else image.numpy()
        ended = threading.Event()

        def read(offset: int, block: Bytes) -> None:
            into = block if host_image is None else host_image[offset : offset + len(block)]
            if file.read(into, offset) < min(len(into), file.num_bytes - offset):
                ended.set()
            if image is not None and image.is_cuda:
                image[offset : offset + len(block)].copy_(torch.from_numpy(block))

        self._threads.read(file, read)
        return not ended.is_set()

    def _image_for(self, num_bytes: int, device: Device) -> torch.Tensor | None:
        """Memory for a whole file: what was taken before, unless this file is of a rank that has more."""
        if self._image is not None and self._image.numel() < pad_bytes(num_bytes):
            self._image = _image(pad_bytes(num_bytes), device)
        return self._image


def _image(num_bytes: int, device: Device) -> torch.Tensor:
    if device.is_gpu:
        return torch.empty(num_bytes, dtype=torch.uint8, device=device.name)
    (memory,) = touch(aligned_memory([num_bytes]))
    return torch.from_numpy(memory)
