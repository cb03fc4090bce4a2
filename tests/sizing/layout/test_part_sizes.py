"""The parts of a checkpoint add up, per parameter too; DeepSpeed's files have the names that it gives them."""

from __future__ import annotations

from typing import Any

import pytest

from sizing.report import answer
from sizing.scenario import scenario_from
from sizing.sized import manifest_of


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
