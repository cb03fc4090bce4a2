"""Checkpoints that another number of ranks restores than has saved them."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import torch

from io_bench.measure.evidence import differences
from io_bench.options import RunOptions
from io_bench.payload.inventory import Inventory, TensorSpec, inventory_of
from io_bench.payload.payload import ResidentPayload, tensors_of
from io_bench.workloads.resharded_dcp import ReshardedPayload
from io_bench.workloads.restores import RowAssignment
from sizing.errors import InvalidInput
from sizing.storage.measurement import BenchmarkResult, Measurement

if TYPE_CHECKING:
    from tests.io_bench.conftest import Bench

UNEVEN = Inventory((TensorSpec("model", "w", (5, 3), "bfloat16"), TensorSpec("master", "b", (7,), "float32")))


def resharded(
    inventory: Inventory, shape: RowAssignment, *, seed: int, repetition: int
) -> list[dict[str, torch.Tensor]]:
    """What each rank must restore, by torch: the saved shards joined, and dealt by torch.chunk."""
    saved = [ResidentPayload(inventory, seed=seed, rank=rank, device="cpu") for rank in range(shape.num_saving)]
    for payload in saved:
        payload.refill(repetition)
    found: list[dict[str, torch.Tensor]] = [{} for _ in range(shape.num_restoring)]
    for name, first in tensors_of(saved[0].state):
        whole = torch.cat([dict(tensors_of(payload.state))[name] for payload in saved])
        parts = list(torch.chunk(whole, shape.num_restoring))
        parts += [first[:0]] * (shape.num_restoring - len(parts))
        for rank, part in enumerate(parts):
            found[rank][name] = part.clone()
    return found


@pytest.mark.parametrize("inventory", [UNEVEN, inventory_of(1 << 20)], ids=["uneven", "model"])
@pytest.mark.parametrize(("saving", "restoring"), [(4, 2), (2, 4), (2, 3), (3, 2), (1, 5), (5, 1)])
def test_every_byte_of_the_dealt_rows_is_known_and_one_wrong_bit_is_found(
    inventory: Inventory, saving: int, restoring: int
) -> None:
    shape = RowAssignment(saving, restoring)
    for rank, state in enumerate(resharded(inventory, shape, seed=7, repetition=3)):
        expected = ReshardedPayload(inventory, resharding=shape, rank=rank, seed=7)
        expected.refill(3)
        assert list(differences(state, expected)) == []
        name, tensor = next(item for item in reversed(state.items()) if item[1].numel() or rank)
        if tensor.numel():
            tensor.view(-1).view(torch.uint8)[-1] ^= 1
            (wrong,) = differences(state, expected)
            assert (wrong.tensor, wrong.first_byte, wrong.num_wrong_bytes) == (name, tensor.nbytes - 1, 1)


def measured(bench: Bench, target: Path, saving: int, restoring: int) -> tuple[Measurement, Measurement, str]:
    flags = ["--engine", "dcp", "--saved-by", str(saving), "--restored-by", str(restoring), "--repetitions", "2"]
    ranks = ["--ranks", str(max(saving, restoring)), "--tensors-per-rank", "2", "--bytes-per-rank", "4MiB"]
    done: subprocess.CompletedProcess[str] = bench.run(
        "run", "--target", str(target), *flags, *ranks, "--output", "r.json"
    )
    assert done.returncode == 0, done.stderr
    write, restore = BenchmarkResult.model_validate_json((bench.directory / "r.json").read_text()).measurements
    assert {path.name for path in target.iterdir()} == {"not-ours.bin"}
    return write, restore, done.stdout


@pytest.mark.long
@pytest.mark.parametrize(
    ("saving", "restoring", "times"), [(4, 2, 1), pytest.param(2, 4, 2, marks=pytest.mark.exhaustive)]
)
def test_other_ranks_restore_the_rows_of_those_that_saved_and_dcp_reads_whole_shards_for_that(
    saving: int, restoring: int, times: int, bench: Bench, target: Path
) -> None:
    """Of four ranks over two shards of 4 MiB each reads the whole shard of which it needs half."""
    write, restore, said = measured(bench, target, saving, restoring)
    assert write.shape is None
    assert (write.num_ranks, restore.num_ranks) == (saving, restoring)
    assert write.verified
    assert restore.verified
    assert restore.shape is not None
    shape = restore.shape.resharding
    assert shape is not None
    assert (shape.num_saving_ranks, shape.num_restoring_ranks) == (saving, restoring)
    assert shape.read_ratio == pytest.approx(times, rel=0.02)
    assert restore.total_bytes == pytest.approx(times * (saving << 22), rel=0.02)
    assert len(shape.as_saved_seconds) == len(restore.seconds) == 2
    losses = [1 - alone / both for alone, both in zip(shape.as_saved_seconds, restore.seconds, strict=True)]
    assert shape.loss_fraction == pytest.approx(sum(losses) / 2)
    assert (restore.cache_policy == "cached") == (restoring > saving)
    assert f"restored what {saving} had saved" in said


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        ({"--restored-by": "2", "--engine": "direct"}, "--restored-by works with --engine dcp"),
        ({"--saved-by": "2", "--engine": "dcp", "--restore": "every-replica"}, "--restore works with --engine direct"),
        ({"--saved-by": "0", "--engine": "dcp"}, "--saved-by must be"),
    ],
)
def test_flags_of_resharding_that_do_not_go_together_are_refused(flags: dict[str, object], sentence: str) -> None:
    with pytest.raises(InvalidInput, match=sentence):
        RunOptions.of({"--target": "/mnt"} | flags)


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (("--saved-by", "3"), "--saved-by must be at most the 1 ranks that take part, got 3"),
        (("--saved-by", "1"), "--restored-by must not be the number of ranks that save, got 1"),
    ],
)
def test_as_many_ranks_as_there_are_can_save_and_another_number_must_restore(
    bench: Bench, target: Path, flags: tuple[str, ...], sentence: str
) -> None:
    done = bench.run_here("run", "--target", str(target), "--engine", "dcp", "--bytes-per-rank", "1MiB", *flags)
    assert done.returncode == 2
    assert sentence in done.stderr
