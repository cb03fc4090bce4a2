"""Stages of given sizes hold the layers that they are given, wherever their number changes."""

from __future__ import annotations

import pytest

from sizing.report import answer
from sizing.scenario import scenario_from


@pytest.mark.parametrize("split", [(3, 3, 3, 3), (1, 3, 5, 3), (2, 2, 4, 4), (4, 4, 2, 2), (0, 6, 6, 0), (3, 4, 4, 1)])
def test_each_stage_writes_its_own_layers(split: tuple[int, ...]) -> None:
    parallelism = {"pipeline": 4, "layers_per_stage": split}
    report = answer(scenario_from({"model": {"preset": "gpt2"}, "parallelism": parallelism}))
    found: dict[int, int] = {}
    for ranks in report.layout.rank_classes:
        first, _, last = ranks.stages.partition("-")
        found |= dict.fromkeys(range(int(first), int(last or first) + 1), ranks.num_layers)
    assert tuple(found[stage] for stage in range(4)) == split


def warnings_of(parallelism: dict[str, object], framework: str = "megatron") -> list[str]:
    training = {"framework": framework}
    document = {"model": {"preset": "deepseek-v3"}, "training": training, "parallelism": {"data": 64} | parallelism}
    return [each for each in answer(scenario_from(document)).warnings if "layers evenly alone" in each]


@pytest.mark.parametrize(
    ("parallelism", "text"),
    [
        ({"pipeline": 16}, "61 do not divide by 16 stages"),
        ({"pipeline": 7}, "61 do not divide by 7 stages"),
        ({"pipeline": 16, "first_stage_layers": 3}, "58 do not divide by 15 stages"),
    ],
)
def test_layers_that_megatron_does_not_spread_are_warned_of(parallelism: dict[str, object], text: str) -> None:
    """Megatron-Core 0.16.1 asserts an even split in get_num_layers_to_build, but of the layers that are given."""
    (warning,) = warnings_of(parallelism)
    assert text in warning
    assert "--pipeline-model-parallel-layout" in warning


@pytest.mark.parametrize(
    ("parallelism", "framework"),
    [
        ({"pipeline": 1}, "megatron"),
        ({"pipeline": 16, "first_stage_layers": 3, "last_stage_layers": 2}, "megatron"),
        ({"pipeline": 16, "layers_per_stage": "3,14x4,2"}, "megatron"),
        ({"pipeline": 16, "virtual_pipeline": 2, "layers_per_stage": "29x2,3x1"}, "megatron"),
        ({"pipeline": 16}, "torchtitan"),
    ],
)
def test_layers_that_are_given_or_spread_by_others_are_not_warned_of(
    parallelism: dict[str, object], framework: str
) -> None:
    assert warnings_of(parallelism, framework) == []
