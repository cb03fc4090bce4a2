"""Orbax's slices and files by hand, and beside what Orbax really writes on several processes."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from sizing.checkpoint_files import contents_of
from sizing.report import SizingReport, answer
from sizing.scenario import scenario_from
from tests.testbed.ports import free_port
from tests.testbed.processes import SECONDS_UNTIL_STUCK

JAX = Path(__file__).parents[3] / ".venv-jax" / "bin" / "python"
"""Made by `scripts/test long`: JAX and Orbax share no environment with torch."""
SAVE = Path(__file__).parents[2] / "testbed" / "orbax_save.py"

LLAMA = {
    "family": "llama",
    "hidden_size": 512,
    "num_layers": 4,
    "num_attention_heads": 8,
    "num_kv_heads": 4,
    "head_dim": 64,
    "ffn_hidden_size": 1024,
    "vocab_size": 2048,
    "tied_embeddings": False,
}
"""The model of orbax_save.py."""


def sized(**degrees: int) -> SizingReport:
    return answer(_scenario(degrees))


def _scenario(degrees: dict[str, int], **blocks: Any) -> Any:
    return scenario_from(
        {
            "model": {"architecture": LLAMA},
            "training": {"framework": "maxtext"},
            "parallelism": degrees,
            "checkpoint": {"stored_fraction": 1},  # values that no codec compresses
        }
        | blocks
    )


def bytes_of_ranks(report: SizingReport) -> list[int]:
    """Tensors of each rank, with what the container adds."""
    return [
        c.bytes_per_rank + sum(file.container_bytes for file in c.files)
        for c in report.layout.rank_classes
        for _ in range(c.num_ranks)
    ]


def test_maxtext_on_gb200_stalls_for_a_copy_at_the_middle_of_its_range() -> None:
    """12 bytes of 8,030,261,248 parameters over 64 GPUs, at 47 % of the 225 GB/s of NVLink-C2C that each has."""
    asked = {
        "model": {"preset": "llama-3.1-8b"},
        "training": {"framework": "maxtext"},
        "parallelism": {"data": 64},
        "cluster": {"node": "dgx-gb200"},
        "storage": {"profile": {"write_bytes_per_second": "100 GB/s"}},
    }
    found = answer(asked).write
    assert found is not None
    assert found.stall_seconds == pytest.approx(12 * 8_030_261_248 / 64 / (0.47 * 225e9), rel=0.005)


def test_maxtext_saves_fp32_weights_and_moments_asynchronously() -> None:
    report = sized(data=4)
    assert report.checkpoint.bytes_per_parameter == 12
    assert report.checkpoint.format == "orbax"
    assert {a.field: a.value for a in report.assumptions}["checkpoint.mode"] == "async"
    said = answer(_scenario({"data": 4}, checkpoint={"mode": "sync"})).assumptions
    assert "checkpoint.mode" not in {a.field for a in said}


@pytest.mark.parametrize("degrees", [{"data": 4}, {"data": 4, "shard_group": 2}, {"data": 4, "tensor": 2}, {"data": 1}])
def test_every_rank_writes_the_same_where_copies_divide_a_dimension(degrees: dict[str, int]) -> None:
    layout = sized(**degrees).layout
    assert layout.num_writers == layout.num_gpus
    assert layout.largest_over_mean == pytest.approx(1, rel=1e-3)


def test_copies_that_divide_no_dimension_leave_the_first_with_the_whole_shard() -> None:
    """Three copies of dimensions that are powers of two."""
    report = sized(data=6, shard_group=2)
    ranks = bytes_of_ranks(report)
    assert ranks[0] == pytest.approx(report.checkpoint.total_bytes / 2, rel=0.01)
    assert max(ranks[2:]) < 0.01 * ranks[0]


def test_a_data_file_is_closed_at_two_gib() -> None:
    document = {"model": {"preset": "llama-3-8b"}, "training": {"framework": "maxtext"}, "parallelism": {"data": 8}}
    (ranks,) = {(c.bytes_per_rank, c.files[0].count, len(c.files)) for c in answer(document).layout.rank_classes[:1]}
    assert ranks[0] // 2**31 + 1 == ranks[1]
    assert ranks[2] == 3


def test_experts_cost_a_rank_the_same_however_they_are_divided() -> None:
    document = {"model": {"preset": "mixtral-8x7b"}, "training": {"framework": "maxtext"}}
    alone, divided = (answer(document | {"parallelism": {"data": 16, "expert": expert}}) for expert in (1, 8))
    assert alone.layout.max_rank_bytes == pytest.approx(divided.layout.max_rank_bytes, rel=1e-3)
    assert alone.training.gpu_state_bytes == pytest.approx(divided.training.gpu_state_bytes, rel=1e-3)


def saved(folder: Path, *, world: int, fsdp: int, tensor: int, values: str) -> Path:
    """What as many processes have written."""
    assert JAX.exists(), "JAX is missing: run scripts/test long"
    arguments = [str(world), str(free_port()), str(folder / "checkpoint"), str(fsdp), str(tensor), values]
    running = [
        subprocess.Popen(
            [JAX, SAVE, str(rank), *arguments],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
        )
        for rank in range(world)
    ]
    said = [process.communicate(timeout=SECONDS_UNTIL_STUCK)[1] for process in running]
    assert not any(process.returncode for process in running), said
    return folder / "checkpoint"


def written(folder: Path, num_ranks: int) -> list[int]:
    """Bytes of each process."""
    return [
        sum(path.stat().st_size for path in (folder / f"ocdbt.process_{rank}").rglob("*") if path.is_file())
        + (folder / "array_metadatas" / f"process_{rank}").stat().st_size
        for rank in range(num_ranks)
    ]


MESHES = [
    pytest.param(4, 4, 1, {"data": 4}, id="fsdp 4"),
    pytest.param(4, 2, 2, {"data": 2, "tensor": 2}, id="fsdp 2, tensor 2"),
    pytest.param(4, 2, 1, {"data": 4, "shard_group": 2}, id="2 copies of fsdp 2"),
    pytest.param(6, 2, 1, {"data": 6, "shard_group": 2}, id="3 copies of fsdp 2"),
]


@pytest.mark.long(minutes=2)
@pytest.mark.parametrize(("world", "fsdp", "tensor", "degrees"), MESHES)
def test_each_process_of_orbax_writes_what_is_predicted(
    tmp_path: Path, world: int, fsdp: int, tensor: int, degrees: dict[str, int]
) -> None:
    """Values that no codec compresses: random bits.

    A process writes its index with each commit, and how many writes one commit takes in is a matter of their moments: up
    to 29 kB were seen. What varies has no weight in a model of 138 MB, and 12 kB in a rank with vectors alone.
    """
    folder = saved(tmp_path, world=world, fsdp=fsdp, tensor=tensor, values="bits")
    predicted, real = bytes_of_ranks(sized(**degrees)), written(folder, world)
    assert sum(predicted) == pytest.approx(sum(real), rel=0.002)
    assert predicted == pytest.approx(real, rel=0.002, abs=12_000)
    contents = contents_of(folder)
    report = sized(**degrees)
    assert contents.layout == "Orbax"
    assert contents.num_parameters == report.model.num_parameters
    assert contents.is_whole


@pytest.mark.long(minutes=1)
def test_compression_takes_what_the_assumption_says(tmp_path: Path) -> None:
    folder = saved(tmp_path, world=2, fsdp=2, tensor=1, values="normal")
    report = answer(_scenario({"data": 2}, checkpoint={}))
    assert report.checkpoint.written_bytes == pytest.approx(sum(written(folder, 2)), rel=0.015)


def test_a_checkpoint_of_175b_is_stored_as_it_was_reported() -> None:
    """1.75 TiB in the files of MaxText, fp32 weights and moments: the lower end of the range. 1.91 without zstd."""
    document = {"model": {"num_parameters": "175B"}, "training": {"framework": "maxtext"}, "parallelism": {"data": 64}}
    report = answer(document)
    assert report.checkpoint.written_bytes / 2**40 == pytest.approx(1.75, rel=0.02)
    assert report.checkpoint.total_bytes == 12 * 175_000_000_000
    (guess,) = (each for each in report.guesses if each.field == "checkpoint.stored_fraction")
    assert (guess.headline_low, guess.headline_high) == pytest.approx((0.918 * 2.1e12, 0.943 * 2.1e12), rel=2e-3)
    assert sum(c.num_ranks * c.bytes_per_rank for c in report.layout.rank_classes) == pytest.approx(
        report.checkpoint.written_bytes, abs=1000
    )


def test_of_16_bit_values_zstd_leaves_less_and_another_compression_takes_its_place() -> None:
    def written_over_total(**blocks: Any) -> float:
        document = {"model": {"preset": "gpt2"}, "training": {"framework": "maxtext"}}
        size = answer(document | blocks).checkpoint
        return size.written_bytes / size.total_bytes

    assert written_over_total(training={"framework": "maxtext", "precision": "bf16"}) == pytest.approx(0.788, rel=1e-3)
    assert written_over_total(checkpoint={"stored_fraction": 0.9}) == pytest.approx(0.9)
    assert written_over_total(checkpoint={"reduction": {"compression": {}}}) == 1
    assert written_over_total(schema_version=3) == 1


def test_what_is_compressed_in_the_files_is_whole_where_ranks_copy_and_hold_it() -> None:
    document = {"model": {"preset": "llama-3.1-8b"}, "training": {"framework": "maxtext"}, "parallelism": {"data": 8}}
    compressed, whole = (answer(document | {"checkpoint": fraction}) for fraction in ({}, {"stored_fraction": 1}))
    assert compressed.checkpoint.written_bytes < 0.94 * whole.checkpoint.written_bytes
    for name in ("staged_bytes", "restore_bytes"):
        held = [getattr(each.host_memory, name) for each in (compressed, whole)]
        assert held[0] == pytest.approx(held[1], rel=1e-6)
