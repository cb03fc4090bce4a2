"""The state dict that a rank saves: real tensors of seeded bytes that nothing can compress.

A pool of random words is XORed with a key per block, about ten times as fast as drawing every word. Each
repetition and rank has keys of its own, so no block is written twice and deduplicating storage gains nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Protocol

import torch
import xxhash

from io_bench.engines import State
from io_bench.inventory import Inventory

POOL_BYTES = 4 << 20
_BYTES_PER_WORD = 8
_INT64 = torch.iinfo(torch.int64)


class Payload(Protocol):
    """What one rank saves."""

    @property
    def state(self) -> State:
        """The state dict to save."""


class ResidentPayload:
    """A payload in memory: allocated once and refilled for every repetition."""

    def __init__(self, inventory: Inventory, *, seed: int, rank: int, device: str) -> None:
        self._label = f"{seed}/{rank}"
        self._pool = _words(POOL_BYTES // _BYTES_PER_WORD, label=f"{self._label}/pool", device=device)
        self.state: State = {}
        for tensor in inventory.tensors:
            empty = torch.empty(tensor.shape, dtype=getattr(torch, tensor.dtype), device=device)
            self.state.setdefault(tensor.part, {})[tensor.name] = empty
        self.state["iteration"] = 0

    def refill(self, repetition: int) -> None:
        """Give every tensor the bytes that belong to this repetition."""
        blocks = [block for _, tensor in tensors_of(self.state) for block in self._blocks(tensor)]
        keys = _words(len(blocks), label=f"{self._label}/{repetition}", device="cpu").tolist()
        for block, key in zip(blocks, keys, strict=True):
            self._fill(block, key)

    def _blocks(self, tensor: torch.Tensor) -> Iterable[torch.Tensor]:
        return torch.split(tensor.view(-1).view(torch.uint8), POOL_BYTES)

    def _fill(self, block: torch.Tensor, key: int) -> None:
        """The pool XORed with the key; what is left of a word at the end is cut from the next word of it."""
        num_words, rest = divmod(len(block), _BYTES_PER_WORD)
        words = block[: len(block) - rest].view(torch.int64)
        torch.bitwise_xor(self._pool[:num_words], key, out=words)
        if rest:
            block[-rest:] = torch.bitwise_xor(self._pool[num_words : num_words + 1], key).view(torch.uint8)[:rest]


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
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.cpu().contiguous().view(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _words(count: int, *, label: str, device: str) -> torch.Tensor:
    generator = torch.Generator().manual_seed(xxhash.xxh3_64_intdigest(label.encode()) >> 1)
    return torch.randint(_INT64.min, _INT64.max, (count,), generator=generator).to(device)
