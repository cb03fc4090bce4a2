"""DCP whose checkpoint is restored by another number of ranks than saved it, as DTensors of FSDP2 are."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import numpy as np
import torch
from torch import distributed
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Shard

from io_bench.engines import EngineOptions, EnginePlan, IoReport, Restored
from io_bench.engines.dcp import Dcp
from io_bench.payload import State
from io_bench.payload.byte_source import Bytes, ByteSource
from io_bench.payload.device import Device
from io_bench.payload.inventory import Inventory
from io_bench.payload.payload import Payload, StreamedPayload, tensors_of
from io_bench.ranks.process_group import Writers
from io_bench.target.target import RunFiles
from io_bench.workloads.restores import RowAssignment, num_rows
from sizing.errors import InvalidInput

_WORD_BYTES = 8
"""Payloads are made of such: they give bytes from a multiple of it on."""


class ReshardedDcp(Dcp):
    """`dcp` whose first `num_saving` ranks save and first `num_restoring` restore, each its rows of every tensor."""

    def __init__(self, options: EngineOptions, resharding: RowAssignment) -> None:
        super().__init__(options)
        self._resharding = resharding

    def plan(self, inventory: Inventory, *, rank: int, device: Device) -> EnginePlan:
        """Plan as `dcp` does, with the shards that it restores. Raises InvalidInput for a GPU."""
        if device.is_gpu:
            rule = "restores into host memory, and the payload is on a GPU"
            remedy = "set CUDA_VISIBLE_DEVICES= (empty)"
            raise InvalidInput.of("--restored-by", rule, value=self._resharding.num_restoring, remedy=remedy)
        plan = super().plan(inventory, rank=rank, device=device)
        restored = self._resharding.max_shards * inventory.num_bytes
        return dataclasses.replace(plan, host_bytes=plan.host_bytes + restored)

    def prepare(self, payload: Payload, plan: EnginePlan, *, device: Device, writers: Writers) -> None:
        """Prepare `dcp` with a group of those that save and one of those that restore; `writers` are both."""
        super().prepare(payload, plan, device=device, writers=writers)
        timeout = timedelta(seconds=writers.group.collective_seconds)
        counts = (self._resharding.num_saving, self._resharding.num_restoring)

        def connect() -> list[Any]:
            return [distributed.new_group(list(range(count)), timeout=timeout) for count in counts]

        self._saving, self._restoring = self._collectives.run(connect, doing="connecting who saves and who restores")
        self._room = make_room(payload.state, self._resharding, self._place)

    def restore(self, files: RunFiles, plan: EnginePlan, device: Device) -> Restored:  # noqa: ARG002 - host memory
        """Read the rows of this rank, under dotted names; nothing where it does not restore."""
        if self._place >= self._resharding.num_restoring:
            return Restored(None, IoReport())
        saved_rows = {name: num_rows(tuple(tensor.shape)) for name, tensor in tensors_of(self._restored)}
        sharded = _make_shards(self._room, saved_rows, self._resharding.num_saving, self._restoring)
        return self._read(files, self._room, sharded, self._restoring)

    def restore_as_saved(self, files: RunFiles, plan: EnginePlan) -> Restored:
        """Read again what this rank has saved."""
        return self._read(files, self._restored, self._key_state(self._restored, plan), self._saving)

    @property
    def _place(self) -> int:
        assert self._index is not None  # noqa: S101 - who only waits has no engine that is prepared
        return self._index

    def _key_state(self, state: State, plan: EnginePlan) -> State:  # noqa: ARG002 - rows say whose they are
        saved_rows = {name: num_rows(tuple(tensor.shape)) for name, tensor in tensors_of(state)}
        return _make_shards(dict(tensors_of(state)), saved_rows, self._resharding.num_saving, self._saving)

    @property
    def _group(self) -> Any:
        return self._saving


class ReshardedPayload:
    """The rows that a rank must have restored, made again from those of the ranks that saved. Fulfils Payload."""

    def __init__(self, inventory: Inventory, *, resharding: RowAssignment, rank: int, seed: int) -> None:
        shapes = {f"{spec.part}.{spec.name}": spec for spec in inventory.tensors}
        sources = resharding.sources((num_rows(spec.shape) for spec in inventory.tensors), rank)
        self._saved = {source: StreamedPayload(inventory, seed=seed, rank=source) for source in sources}
        self._pieces = {name: _list_byte_pieces(spec, resharding, rank) for name, spec in shapes.items()}
        described = {
            name: torch.empty(spec.shape, dtype=getattr(torch, spec.dtype), device="meta")
            for name, spec in shapes.items()
        }
        self.state: State = make_room(described, resharding, rank)

    def refill(self, repetition: int) -> None:
        """Give the bytes of this repetition from here on."""
        for saved in self._saved.values():
            saved.refill(repetition)

    def bytes_of(self, tensor: str) -> ByteSource:
        """The bytes of a tensor: those of the saved shards, one after another."""

        def copy(start: int, out: Bytes) -> None:
            at, end = 0, start + len(out)
            for source, begin, num_bytes in self._pieces[tensor]:
                first, last = max(start, at), min(end, at + num_bytes)
                if first < last:
                    _copy_unaligned(
                        self._saved[source].bytes_of(tensor), begin + first - at, out[first - start : last - start]
                    )
                at += num_bytes

        return ByteSource(copy)


def make_room(state: Mapping[str, Any], resharding: RowAssignment, rank: int) -> State:
    """Make tensors for the rows that a rank restores, by dotted names; without a row where it does not restore."""
    return {
        name: torch.empty(
            (len(resharding.rows(num_rows(tuple(tensor.shape)), rank)), *tensor.shape[1:]),
            dtype=tensor.dtype,
            device=tensor.device,
        )
        for name, tensor in tensors_of(state)
    }


def _make_shards(
    tensors: Mapping[str, torch.Tensor], saved_rows: Mapping[str, int], num_saving: int, group: Any
) -> State:
    """Make shards of tensors that the ranks of a group hold together, as FSDP2 has them."""
    mesh = DeviceMesh.from_group(group, "cpu")
    shards = {}
    for name, tensor in tensors.items():
        whole = torch.Size((num_saving * saved_rows[name], *tensor.shape[1:]))
        stride = torch.empty(whole, device="meta").stride()
        local = tensor.view(1) if tensor.dim() == 0 else tensor
        shards[name] = DTensor.from_local(local, mesh, [Shard(0)], run_check=False, shape=whole, stride=stride)
    return shards


def _list_byte_pieces(spec: Any, resharding: RowAssignment, rank: int) -> list[tuple[int, int, int]]:
    """List the pieces of a tensor that a rank restores: the rank that saved it, its first byte, its bytes."""
    rows = num_rows(spec.shape)
    row_bytes = spec.num_bytes // rows
    return [
        (source, piece.start * row_bytes, len(piece) * row_bytes)
        for source, piece in (resharding.pieces(rows, rank) if rank < resharding.num_restoring else ())
    ]


def _copy_unaligned(source: ByteSource, start: int, out: Bytes) -> None:
    """Copy bytes from any place on; the source gives them from a multiple of a word."""
    skipped = start % _WORD_BYTES
    whole = np.empty(skipped + len(out), dtype=np.uint8)
    source.copy(start - skipped, whole)
    out[:] = whole[skipped:]
