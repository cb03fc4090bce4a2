"""Evidence that data came back other than it was written: which bytes differ, compared outside the measured time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch

from io_bench.payload import State
from io_bench.payload.byte_source import POOL_BYTES, Bytes, ByteSource
from io_bench.payload.payload import Payload, tensors_of

SHOWN_BYTES = 16
"""Bytes that are shown of what was expected and found: enough to tell a flipped bit, zeros, or another block of the
same data."""


@dataclass(slots=True)
class Difference:
    """Wrong bytes of one tensor; offsets count from its begin."""

    tensor: str
    tensor_bytes: int
    first_byte: int
    last_byte: int
    num_wrong_bytes: int
    expected: str
    found: str


@dataclass(frozen=True, slots=True)
class Evidence:
    """The result of comparing restored data: sound, or what is wrong where; `problem` is why reading failed."""

    files: tuple[str, ...] = ()
    problem: str | None = None
    differences: tuple[Difference, ...] = ()
    is_sound: bool = True


def differences(restored: State, written: Payload) -> Iterator[Difference]:
    """Compare restored tensors with the payload that was written, which is made again chunk by chunk."""
    shapes = {name: tensor.nbytes for name, tensor in tensors_of(written.state)}
    for name, tensor in tensors_of(restored):
        if shapes.get(name) != tensor.nbytes:
            yield Difference(name, tensor.nbytes, 0, max(0, tensor.nbytes - 1), tensor.nbytes, "", "")
            continue
        content = tensor.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy()
        difference = difference_of(name, content, written.bytes_of(name))
        if difference is not None:
            yield difference


def difference_of(tensor: str, content: Bytes, written: ByteSource) -> Difference | None:
    """Describe how the bytes of a tensor differ from those that were written; None where they do not."""
    total: Difference | None = None
    for start in range(0, len(content), POOL_BYTES):
        chunk = content[start : start + POOL_BYTES]
        expected = np.empty_like(chunk)
        written.copy(start, expected)
        (wrong,) = np.nonzero(chunk != expected)
        if not len(wrong):
            continue
        first, last = int(wrong[0]), int(wrong[-1])
        if total is None:
            shown = slice(first, first + SHOWN_BYTES)
            total = Difference(tensor, len(content), start + first, 0, 0, _hex(expected[shown]), _hex(chunk[shown]))
        total.last_byte, total.num_wrong_bytes = start + last, total.num_wrong_bytes + len(wrong)
    return total


def _hex(content: Bytes) -> str:
    return content.tobytes().hex()
