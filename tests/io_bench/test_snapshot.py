"""The copy to host memory, here from host memory: where there is a GPU, a run times the same one."""

from __future__ import annotations

import pytest
import torch

from io_bench.payload import snapshot
from io_bench.payload.device import Device


def test_every_byte_passes_through_the_buffer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot, "BUFFER_BYTES", 1000)
    weights = torch.arange(1_100, dtype=torch.float32)
    copied = snapshot.Snapshot({"model": {"w": weights, "empty": torch.empty(0)}, "step": 1}, Device("cpu"))
    copied.copy()
    last = weights.view(torch.uint8)[4000:]
    assert torch.equal(copied._buffer[: len(last)], last)
    assert torch.equal(copied._buffer[len(last) :], weights.view(torch.uint8)[3400:4000])
