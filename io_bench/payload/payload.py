"""The state dict that a rank saves, of seeded bytes that nothing can compress, and its copy in host memory.

Each repetition and rank has bytes of its own, so none is written twice and deduplicating storage gains
nothing. They can be held in memory, or made while they are written: they are the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Protocol

import torch
import xxhash

from io_bench import interruption
from io_bench.payload import State
from io_bench.payload.byte_source import POOL_BYTES, Bytes, ByteSource, SeededBytes, aligned_memory, source_of
from io_bench.payload.device import Device
from io_bench.payload.inventory import Inventory, TensorSpec


class Payload(Protocol):
    """The state dict that one rank saves, and its bytes."""

    @property
    def state(self) -> State:
        """The state dict to save."""

    def refill(self, repetition: int) -> None:
        """Take the bytes that belong to this repetition."""

    def bytes_of(self, tensor: str) -> ByteSource:
        """The bytes of the storage under the tensor of this dotted name. Starts are multiples of 8."""


class GivenPayload:
    """A payload of tensors as they are, in host memory or on a GPU."""

    def __init__(self, state: State) -> None:
        self.state = state
        self._tensors = dict(tensors_of(state))

    def refill(self, repetition: int) -> None:
        """Keep the tensors as they are."""

    def bytes_of(self, tensor: str) -> ByteSource:
        """The bytes of a tensor, read from where it lives."""
        return source_of(storage_bytes(self._tensors[tensor]))


class ResidentPayload(GivenPayload):
    """A payload in memory: allocated once, and refilled for every repetition.

    In host memory each tensor begins at a page, so that it can be written from where it is.
    """

    def __init__(self, inventory: Inventory, *, seed: int, rank: int, device: str) -> None:
        super().__init__(_state_of(inventory, _allocate(inventory, device)))
        self._seeded = SeededBytes(f"{seed}/{rank}")
        self._pool = torch.from_numpy(self._seeded.pool.view("uint8")).to(device)

    def refill(self, repetition: int) -> None:
        """Make the bytes where the tensors live."""
        for name, tensor in self._tensors.items():
            interruption.heed()
            for number, chunk in enumerate(torch.split(tensor.view(-1).view(torch.uint8), POOL_BYTES)):
                self._fill(chunk, self._seeded.key(repetition, name, number))

    def _fill(self, chunk: torch.Tensor, key: int) -> None:
        """Fill a chunk as SeededBytes.fill does, on any device."""
        in_words = chunk.numel() // 8 * 8
        torch.bitwise_xor(self._pool[:in_words].view(torch.int64), key, out=chunk[:in_words].view(torch.int64))
        if in_words < len(chunk):
            last_word = torch.bitwise_xor(self._pool[in_words : in_words + 8].view(torch.int64), key)
            chunk[in_words:] = last_word.view(torch.uint8)[: len(chunk) - in_words]


class StreamedPayload:
    """A payload that is never held: tensors without data, and their bytes made as they are asked for."""

    def __init__(self, inventory: Inventory, *, seed: int, rank: int) -> None:
        from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: PLC0415 - takes a second to import

        with FakeTensorMode():
            self.state = _state_of(inventory, _allocate_unaligned(inventory, "cpu"))
        self._seeded = SeededBytes(f"{seed}/{rank}")
        self._repetition = 0

    def refill(self, repetition: int) -> None:
        """Give the bytes of this repetition from here on."""
        self._repetition = repetition

    def bytes_of(self, tensor: str) -> ByteSource:
        """The bytes of a tensor, made chunk by chunk as they are read."""
        seeded, repetition = self._seeded, self._repetition

        def make(start: int, out: Bytes) -> None:
            done = 0
            while done < len(out):
                number, at = divmod(start + done, POOL_BYTES)
                part = out[done : done + POOL_BYTES - at]
                seeded.fill(part, key=seeded.key(repetition, tensor, number), at=at)
                done += len(part)

        return ByteSource(make)


def storage_bytes(tensor: torch.Tensor) -> torch.Tensor:
    """The bytes of the storage under a tensor, where it lives."""
    storage = tensor.untyped_storage()
    return torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)


def tensors_of(state: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, torch.Tensor]]:
    """The tensors of a nested state dict with their dotted names, in its order."""
    for name, value in state.items():
        if isinstance(value, torch.Tensor):
            yield f"{prefix}{name}", value
        elif isinstance(value, Mapping):
            yield from tensors_of(value, f"{prefix}{name}.")


def checksum(state: Mapping[str, Any]) -> str:
    """xxh3_128 over names, dtypes, shapes and bytes of all tensors, wherever they live."""
    digest = xxhash.xxh3_128()
    for name, tensor in tensors_of(state):
        interruption.heed()
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.cpu().contiguous().view(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _state_of(inventory: Inventory, tensors: Iterable[torch.Tensor]) -> State:
    """Build the state dict of an inventory from tensors."""
    state: State = {}
    for spec, tensor in zip(inventory.tensors, tensors, strict=True):
        state.setdefault(spec.part, {})[spec.name] = tensor
    return state | {"iteration": 0}


def _allocate(inventory: Inventory, device: str) -> list[torch.Tensor]:
    """Allocate the tensors of an inventory; in host memory each begins at a page."""
    if device != "cpu":
        return _allocate_unaligned(inventory, device)
    memory = aligned_memory([spec.num_bytes for spec in inventory.tensors])
    return [
        torch.from_numpy(each).view(_dtype(spec)).view(spec.shape)
        for spec, each in zip(inventory.tensors, memory, strict=True)
    ]


def _allocate_unaligned(inventory: Inventory, device: str) -> list[torch.Tensor]:
    return [torch.empty(spec.shape, dtype=_dtype(spec), device=device) for spec in inventory.tensors]


def _dtype(spec: TensorSpec) -> torch.dtype:
    dtype: torch.dtype = getattr(torch, spec.dtype)
    return dtype


SNAPSHOT_BYTES = 256 << 20
"""Large enough that a copy over PCIe is at full speed, small beside a node's memory for each of its GPUs."""


class Snapshot:
    """A state dict and the pinned buffer that it is copied to, over and over."""

    def __init__(self, state: Mapping[str, Any], device: Device) -> None:
        self._tensors = [tensor.reshape(-1).view(torch.uint8) for _, tensor in tensors_of(state)]
        self._device = device
        self._buffer = torch.empty(SNAPSHOT_BYTES, dtype=torch.uint8, pin_memory=device.is_gpu)

    def copy(self) -> None:
        """Copy every byte; returns once all have arrived."""
        for tensor in self._tensors:
            for part in torch.split(tensor, SNAPSHOT_BYTES):
                self._buffer[: len(part)].copy_(part, non_blocking=True)
        self._device.synchronize()


def buffers_like(state: Mapping[str, Any]) -> State:
    """Allocate a state dict of the same names, shapes, dtypes and devices."""
    buffers: State = {}
    for name, value in state.items():
        if isinstance(value, torch.Tensor):
            buffers[name] = torch.empty_like(value, memory_format=torch.contiguous_format)
        else:
            buffers[name] = buffers_like(value) if isinstance(value, Mapping) else value
    return buffers
