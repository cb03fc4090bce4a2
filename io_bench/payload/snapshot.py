"""The copy of a state dict from its device to host memory, the min stall of training."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from io_bench.payload.device import Device
from io_bench.payload.payload import tensors_of

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
