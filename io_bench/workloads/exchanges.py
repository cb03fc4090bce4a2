"""Restores whose ranks pass on to each other what they have read, in a gloo group of those that hold the same shard."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, Self

import torch
from torch import distributed

from io_bench.engines import Engine, EngineOptions, EnginePlan, IoReport, Restored
from io_bench.engines.collectives import Collectives
from io_bench.engines.direct import Direct
from io_bench.engines.direct_blocks import with_data, without_data
from io_bench.engines.direct_files import BlockFile, open_file
from io_bench.engines.phases import Phases
from io_bench.engines.torch_files import loading
from io_bench.errors import RunFailed
from io_bench.payload import State
from io_bench.payload.byte_source import Bytes
from io_bench.payload.device import Device
from io_bench.payload.inventory import Inventory
from io_bench.payload.payload import Payload, tensors_of
from io_bench.ranks.process_group import Writers
from io_bench.target.direct_io import share_bytes
from io_bench.target.target import RunFiles
from sizing.errors import InvalidInput

_CHUNK_BYTES = 64 << 20
"""Max bytes that are exchanged at once: gloo copies what it gathers, so that this and as much from each peer is in
memory twice."""


class ReplicaPeers:
    """The ranks that hold the same shard, one in each replica, in the order of the replicas.

    Methods raise as Collectives.
    """

    def __init__(self, ranks: Writers, num_replicas: int) -> None:
        """Connect, on all ranks; replica k stands after k - 1, each with its shards in the same order."""
        self._collectives = Collectives(ranks)
        num_shards, index = len(ranks.ranks) // num_replicas, ranks.index or 0
        self.replica, self._shard = divmod(index, num_shards)
        timeout = timedelta(seconds=ranks.group.collective_seconds)

        def connected() -> list[Any]:
            of_shards = (range(shard, len(ranks.ranks), num_shards) for shard in range(num_shards))
            return [distributed.new_group(list(members), timeout=timeout) for members in of_shards]

        self._group = self._collectives.run(connected, doing="connecting the replicas")[self._shard]

    def all_ready(self, problem: RunFailed | None) -> None:
        """Raise this rank's problem, or say that a peer has one: nobody then waits for what it has not read."""
        failed = torch.tensor(problem is not None, dtype=torch.uint8)
        self._run(lambda: distributed.all_reduce(failed, distributed.ReduceOp.MAX))
        if problem is not None:
            raise problem
        if failed.item():
            raise RunFailed("Another rank could not read its part, so nothing was passed on.")

    def broadcast(self, tensors: Sequence[torch.Tensor]) -> None:
        """Fill flat tensors with what the first replica has in its own."""

        def send() -> None:
            for tensor in tensors:
                distributed.broadcast(tensor, src=self._shard, group=self._group)

        self._run(send)

    def gather(self, shares: Sequence[torch.Tensor]) -> None:
        """Fill the share of each replica, all of one size, with what it has in its own."""

        def gather() -> None:
            for start in range(0, len(shares[0]), _CHUNK_BYTES):
                chunks = [share[start : start + _CHUNK_BYTES] for share in shares]
                distributed.all_gather(chunks, chunks[self.replica], group=self._group)

        self._run(gather)

    def close(self) -> None:
        """Let go of the connections."""
        self._collectives.close()

    def _run(self, work: Callable[[], object]) -> None:
        self._collectives.run(work, doing="passing on what was read")


class Broadcasting:
    """An engine of which one replica restores; the others receive into the payload's own tensors. Fulfils Engine."""

    def __init__(self, engine: Engine, num_replicas: int) -> None:
        self.name = engine.name
        self._engine = engine
        self._num_replicas = num_replicas
        self._stack = contextlib.ExitStack()
        self.write = engine.write
        self.write_to_null_sink = engine.write_to_null_sink
        self.bytes_on_disk = engine.bytes_on_disk

    def plan(self, inventory: Inventory, *, rank: int, device: Device) -> EnginePlan:
        """Plan as the engine does. Raises InvalidInput for a GPU."""
        _check_in_host_memory(self._num_replicas, device)
        return self._engine.plan(inventory, rank=rank, device=device)

    def prepare(self, payload: Payload, plan: EnginePlan, *, device: Device, writers: Writers) -> None:
        """Prepare as the engine does, and connect the replicas: `writers` are all ranks that restore."""
        self._engine.prepare(payload, plan, device=device, writers=writers)
        self._room = payload.state
        self._peers = ReplicaPeers(writers, self._num_replicas)
        self._stack.callback(self._peers.close)

    def restore(self, files: RunFiles, plan: EnginePlan, device: Device) -> Restored:
        """Read, or wait for the readers; then pass on tensor by tensor. Raises RunFailed where one cannot read."""
        restored, problem = Restored(self._room, IoReport()), None
        if self._peers.replica == 0:
            try:
                restored = self._engine.restore(files, plan, device)
            except RunFailed as error:
                problem = error
        self._peers.all_ready(problem)
        phases = Phases()
        with phases.phase("exchange"):
            tensors = (tensor for _, tensor in tensors_of(restored.state or {}) if tensor.numel())
            self._peers.broadcast([tensor.view(-1).view(torch.uint8) for tensor in tensors])
        report = restored.report
        seconds = {**report.phase_seconds, **phases.seconds}
        return Restored(restored.state, dataclasses.replace(report, phase_seconds=seconds))

    def close(self) -> None:
        """Let go of the connections, and of what the engine made."""
        self._stack.close()
        self._engine.close()


class Exchanging(Direct):
    """`direct` with a share of each file for every replica; the shares are gathered into memory, then tensors laid on.

    Every rank also reads the file's directory and pickle, which say where tensors are.
    """

    def __init__(self, options: EngineOptions, num_replicas: int) -> None:
        super().__init__(options)
        self._num_replicas = num_replicas
        self._stack = contextlib.ExitStack()

    def plan(self, inventory: Inventory, *, rank: int, device: Device) -> EnginePlan:
        """Plan as `direct` does, with what an exchange has in memory twice. Raises InvalidInput for a GPU."""
        _check_in_host_memory(self._num_replicas, device)
        plan = super().plan(inventory, rank=rank, device=device)
        share = share_bytes(plan.max_disk_bytes, self._num_replicas)
        return dataclasses.replace(plan, host_bytes=plan.host_bytes + self._num_replicas * min(share, _CHUNK_BYTES))

    def prepare(self, payload: Payload, plan: EnginePlan, *, device: Device, writers: Writers) -> None:
        """Prepare as `direct` does, and connect the replicas: `writers` are all ranks that restore."""
        super().prepare(payload, plan, device=device, writers=writers)
        self._peers = ReplicaPeers(writers, self._num_replicas)
        self._stack.callback(self._peers.close)

    def restore(self, files: RunFiles, plan: EnginePlan, device: Device) -> Restored:
        """Read this rank's share, gather the others. Raises RunFailed where a rank cannot read."""
        phases, problem = Phases(), None
        try:
            described, image, is_direct, notices = self._read_share(files, plan.files[0], phases, device)
        except RunFailed as error:
            problem = error
        self._peers.all_ready(problem)
        with phases.phase("exchange"):
            self._peers.gather(image.chunk(self._num_replicas))
        return Restored(with_data(described, image), IoReport(is_direct, phases.seconds, notices=notices))

    def close(self) -> None:
        """Let go of the connections."""
        self._stack.close()
        super().close()

    def _read_share(
        self, files: RunFiles, name: str, phases: Phases, device: Device
    ) -> tuple[State, torch.Tensor, bool, tuple[str, ...]]:
        """Read this rank's share of a file; return tensors without data, memory with the share, and how it was read."""
        with phases.phase("open"):
            with files.log.silent(), files.open(name) as plain, loading(plain, files.location(name)) as skeleton:
                described = without_data(skeleton)
            file = open_file(files, name)
        with file:
            share = share_bytes(file.num_bytes, self._num_replicas)
            with phases.phase("read"):
                whole = self._image_for(self._num_replicas * share, device)
                assert whole is not None  # noqa: S101 - it is never streamed
                image = whole[: self._num_replicas * share]
                part = _Share(file, self._peers.replica * share, share)
                own = image[part.start : part.start + share].numpy()
                if not self._fill_share(part, own):
                    raise RunFailed(f"{files.location(name)} cannot be read back: the file is shorter than expected.")
            with phases.phase("close"):
                file.close()
        return described, image, file.is_direct, file.notices

    def _fill_share(self, part: _Share, own: Bytes) -> bool:
        """Read a share into its place; False where the file ends too early."""
        read: list[int] = []

        def fill(offset: int, block: Bytes) -> None:
            read.append(part.read(own[offset : offset + len(block)], offset))

        self._threads.read(part, fill)
        return sum(read) >= part.num_bytes


class _Share:
    """A part of a file that begins at a page, as a file of its own to read from. Fulfils BlockFile."""

    def __init__(self, file: BlockFile, start: int, num_bytes: int) -> None:
        self.start = start
        self.num_bytes = min(num_bytes, max(0, file.num_bytes - start))
        self.is_direct, self.notices, self.takes_any_order = file.is_direct, file.notices, file.takes_any_order
        self._file = file

    def read(self, block: Bytes, offset: int) -> int:
        """Read a block at the place of the share in the whole file."""
        return self._file.read(block, self.start + offset)

    def write(self, pieces: Sequence[Bytes], offset: int) -> None:
        """Write a block at the place of the share in the whole file."""
        self._file.write(pieces, self.start + offset)

    def persist(self) -> None:
        """Make the whole file durable."""
        self._file.persist()

    def close(self) -> None:
        """Close the whole file."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def _check_in_host_memory(num_replicas: int, device: Device) -> None:
    if device.is_gpu:
        rule = "passes on what is in host memory, and the payload is on a GPU"
        remedy = "set CUDA_VISIBLE_DEVICES= (empty)"
        raise InvalidInput.of("--replicas", rule, value=num_replicas, remedy=remedy)
