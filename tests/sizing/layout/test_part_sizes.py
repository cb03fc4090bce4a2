"""The parts of a checkpoint add up, per parameter too; DeepSpeed's files have the names that it gives them."""

from __future__ import annotations

from typing import Any

import pytest

from sizing.report import answer
from sizing.scenario import scenario_from
from sizing.sized_layout import manifest_of


@pytest.mark.parametrize(
    ("training", "bytes_of"),
    [
        ({"framework": "megatron"}, {"weights": 2, "master": 4, "moments": 8}),
        ({"framework": "fsdp2", "precision": "fp32"}, {"weights": 4, "moments": 8}),
    ],
)
def test_parts_have_the_bytes_per_parameter_of_their_dtypes(training: dict[str, Any], bytes_of: dict[str, int]) -> None:
    size = answer(scenario_from({"model": {"preset": "gpt2"}, "training": training})).checkpoint
    assert {name: part.bytes_per_parameter for name, part in size.parts.items()} == pytest.approx(bytes_of)
    assert size.bytes_per_parameter == pytest.approx(sum(bytes_of.values()))


@pytest.mark.parametrize(
    ("precision", "begins"),
    [("bf16-mixed", "bf16_zero_pp_rank_"), ("fp16-mixed", "zero_pp_rank_"), ("fp32", "zero_pp_rank_")],
)
def test_optimizer_files_of_zero_are_named_for_bf16_alone(precision: str, begins: str) -> None:
    """Source: DeepSpeed, runtime/engine.py, _get_zero_ckpt_prefix."""
    scenario = {
        "model": {"preset": "gpt2"},
        "training": {"framework": "deepspeed", "precision": precision},
        "parallelism": {"data": 2, "zero_stage": 1},
    }
    names = {row.file.rpartition("/")[2] for row in manifest_of(scenario_from(scenario))}
    optimizer = {name for name in names if name.endswith("_optim_states.pt")}
    assert len(optimizer) == 2
    assert {name[: len(begins)] for name in optimizer} == {begins}


def test_a_manifest_of_observed_bytes_has_them_by_class_and_by_file() -> None:
    """Eight GPUs whose checkpoint was seen to have 50 GB; each file and each class is rounded to a byte."""
    scenario = scenario_from(
        {
            "model": {"preset": "llama-3.1-8b"},
            "parallelism": {"tensor": 4, "data": 2},
            "checkpoint": {"observed_bytes": 50_000_000_000},
        }
    )
    classes = answer(scenario).layout.rank_classes
    files = list(manifest_of(scenario))
    assert sum(each.num_ranks * each.bytes_per_rank for each in classes) == pytest.approx(50e9, abs=8)
    assert sum(row.tensor_bytes for row in files) == pytest.approx(50e9, abs=8)


NORMS = 65 * 4096
STATISTICS = (32 * 7 + 2) * 4096
"""Of Llama 3.1 8B cut over tensor ranks: the side of each matrix that is not cut has 4,096 rows or columns."""


@pytest.mark.parametrize(
    ("optimizer", "copied_once"),
    [("adam-8bit", NORMS * (2 + 4 + 2 + 2 * 4 / 256)), ("adafactor", NORMS * (2 + 4 + 4) + STATISTICS * 4)],
)
def test_what_is_replicated_is_named_whatever_the_optimizer_keeps(optimizer: str, copied_once: float) -> None:
    """Four tensor ranks hold whole norms; 8-bit moments have a scale for 256 of them, Adafactor factors of shards."""
    scenario = {
        "model": {"preset": "llama-3.1-8b"},
        "parallelism": {"tensor": 4, "data": 2},
        "training": {"framework": "megatron", "optimizer": optimizer},
        "checkpoint": {"format": "megatron"},
    }
    size = answer(scenario_from(scenario)).checkpoint
    assert size.replicated_bytes == 3 * copied_once
    assert sum(row.replicated_bytes for row in size.replicated) == size.replicated_bytes
