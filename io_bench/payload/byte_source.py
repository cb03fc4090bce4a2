"""Bytes by range, wherever they come from: host memory, a GPU, or made on the spot."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

Bytes = npt.NDArray[np.uint8]
"""Host memory to be filled or read: one dimension, without gaps."""


@dataclass(frozen=True, slots=True)
class ByteSource:
    """The bytes of something.

    `copy` copies them, from a start on, into host memory: as many as that holds. `memory` is where they are, if
    host memory holds them already.
    """

    copy: Callable[[int, Bytes], None]
    memory: Bytes | None = None


def source_of(data: torch.Tensor) -> ByteSource:
    """The bytes of a uint8 tensor. Copies release the interpreter, and take one thread each."""
    if data.is_cuda:
        return _copied_from_gpu(data)
    host = data.numpy()

    def copy(start: int, out: Bytes) -> None:
        out[:] = host[start : start + len(out)]

    return ByteSource(copy, host)


def _zeros(_start: int, out: Bytes) -> None:
    out[:] = 0


ZEROS = ByteSource(_zeros)
"""As many zeros as asked for."""


def _copied_from_gpu(data: torch.Tensor) -> ByteSource:
    def copy(start: int, out: Bytes) -> None:
        torch.from_numpy(out).copy_(data[start : start + len(out)])

    return ByteSource(copy)
