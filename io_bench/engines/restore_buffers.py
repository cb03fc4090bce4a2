"""Tensors made before the clock, to restore into."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from io_bench.payload import State


def buffers_like(state: Mapping[str, Any]) -> State:
    """A state dict of the same names, shapes, dtypes and devices, whose tensors hold nothing yet."""
    return {name: buffers_like(value) if isinstance(value, Mapping) else _room(value) for name, value in state.items()}


def _room(value: Any) -> Any:
    return torch.empty_like(value, memory_format=torch.contiguous_format) if isinstance(value, torch.Tensor) else value
