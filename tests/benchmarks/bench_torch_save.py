"""What the harness costs: our torch-save engine against plain `torch.save` and fsync, pair by pair."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from io_bench import run_files
from io_bench.device import Device
from io_bench.engines import EngineOptions
from io_bench.engines.torch_save import TorchSave
from io_bench.inventory import inventory_of
from io_bench.payload import ResidentPayload
from io_bench.process_group import joined
from io_bench.run_directory import DirectoryTarget

NUM_PAIRS = 9
INVENTORY = inventory_of(512 << 20)


def seconds_of(action: Callable[[], object]) -> float:
    started = time.perf_counter()
    action()
    return time.perf_counter() - started


@pytest.mark.benchmark
def test_writing_costs_what_plain_torch_save_costs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    payload, engine, device = (
        ResidentPayload(INVENTORY, seed=1, rank=0, device="cpu"),
        TorchSave(EngineOptions()),
        Device("cpu"),
    )
    plan = engine.plan(INVENTORY, rank=0, device=device)
    plain_file = tmp_path / "plain.pt"

    def write_plainly() -> None:
        torch.save(payload.state, plain_file)
        with plain_file.open("rb") as file:
            os.fsync(file.fileno())

    ratios = []
    with (
        joined(60.0) as group,
        run_files.opened(
            DirectoryTarget.checked(str(tmp_path)), group, run_id="run", files_of_rank=[plan.files], keep=False
        ) as directory,
    ):
        for pair in range(NUM_PAIRS + 1):
            payload.refill(pair)
            # Whoever writes second finds the disk busy with the first one's blocks: take turns.
            plain_first = pair % 2 == 0
            plain_seconds = seconds_of(write_plainly) if plain_first else 0.0
            engine_seconds = seconds_of(lambda: engine.write(payload, directory, plan))
            plain_seconds = plain_seconds or seconds_of(write_plainly)
            ratios.append(engine_seconds / plain_seconds)
            plain_file.unlink()
            directory.remove_created()
    kept = sorted(ratios[1:])
    with capsys.disabled():
        print(
            "\nio_bench torch-save / plain torch.save + fsync, seconds: "
            f"median {statistics.median(kept):.3f}, {kept[0]:.3f} to {kept[-1]:.3f} in {len(kept)} pairs"
        )
