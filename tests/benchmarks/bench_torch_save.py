"""What the harness costs: our torch-save engine against plain `torch.save` and fsync, pair by pair."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
import torch

from io_bench.engines import EngineOptions
from io_bench.engines.torch_save import TorchSave
from io_bench.payload.inventory import inventory_of
from tests.benchmarks.pairs import Rates, engine_run, payload_of, ratios, shown

NUM_PAIRS = 9
INVENTORY = inventory_of(512 << 20)


@pytest.mark.benchmark
def test_writing_costs_what_plain_torch_save_costs(tmp_path: Path) -> None:
    plain_file = tmp_path / "plain.pt"
    with engine_run(TorchSave(EngineOptions()), payload_of(INVENTORY), tmp_path) as run:

        def plainly() -> Rates:
            started = time.perf_counter()
            torch.save(run.payload.tensors.state, plain_file)
            with plain_file.open("rb") as file:
                os.fsync(file.fileno())
            seconds = time.perf_counter() - started
            num_bytes = plain_file.stat().st_size
            plain_file.unlink()
            return {"write": num_bytes / seconds}

        shown(
            "io_bench torch-save / plain torch.save + fsync",
            ratios(lambda: {"write": run.rates()["write"]}, plainly, num_pairs=NUM_PAIRS),
        )
