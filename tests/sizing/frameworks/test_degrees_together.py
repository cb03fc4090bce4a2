"""Degrees that a framework refuses together are refused here too, and those that it takes on a condition say it."""

from __future__ import annotations

from typing import Any

import pytest

from sizing.errors import InvalidInput
from sizing.frameworks import FRAMEWORKS
from sizing.layout import Parallelism
from sizing.questions.layouts.answer import answer_layouts
from sizing.questions.layouts.request import LayoutsRequest
from sizing.report import answer
from sizing.scenario import scenario_from


def question(**parallelism: int) -> dict[str, Any]:
    model, training = {"preset": "mixtral-8x7b"}, {"framework": "deepspeed"}
    return {"model": model, "training": training, "parallelism": parallelism, "cluster": {"node": "dgx-h100"}}


@pytest.mark.parametrize(
    ("degrees", "rule", "remedy"),
    [
        ({"pipeline": 4, "zero_stage": 3}, "at most 1 with pipeline 4", "set zero_stage to 1 or pipeline to 1"),
        ({"pipeline": 2, "zero_stage": 2}, "at most 1 with pipeline 2", "set zero_stage to 1 or pipeline to 1"),
        (
            {"expert": 8, "context": 2, "zero_stage": 3},
            "at most 2 with expert 8 and context 2",
            "set zero_stage to 2 or expert to 1 or context to 1",
        ),
        (
            {"expert": 4, "tensor": 2, "zero_stage": 3},
            "at most 2 with expert 4 and tensor 2",
            "set zero_stage to 2 or expert to 1 or tensor to 1",
        ),
    ],
)
def test_zero_is_refused_where_deepspeed_does(degrees: dict[str, int], rule: str, remedy: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        answer(question(data=16, **degrees))
    (problem,) = refused.value.problems
    assert problem.field == "parallelism.zero_stage"
    assert problem.rule == f"must be {rule} in DeepSpeed"
    assert problem.remedy == remedy


@pytest.mark.parametrize("degrees", [{"pipeline": 4, "zero_stage": 1}, {"pipeline": 4}, {"expert": 8, "zero_stage": 2}])
def test_zero_is_answered_where_deepspeed_takes_it(degrees: dict[str, int]) -> None:
    assert not any("AutoEP" in each for each in answer(question(data=16, **degrees)).warnings)


def test_zero_3_with_expert_ranks_says_what_it_needs() -> None:
    (warning,) = [each for each in answer(question(data=64, expert=8, zero_stage=3)).warnings if "AutoEP" in each]
    assert "give parallelism.zero_stage 2" in warning


def test_a_search_proposes_no_degrees_that_the_framework_refuses() -> None:
    document = question() | {"cluster": {"node": "dgx-h100", "num_gpus": 64}}
    del document["parallelism"]
    found = answer_layouts(LayoutsRequest(scenario=scenario_from(document), contexts=[1, 2]))
    stages = {(each.parallelism.zero_stage or 0, each.parallelism.pipeline > 1) for each in found.layouts}
    assert stages
    assert not {(2, True), (3, True)} & stages
    refused = [each for each in FRAMEWORKS["deepspeed"].degrees_together if not each.warning]
    assert not any(each.count(layout.parallelism) for each in refused for layout in found.layouts)


def test_degrees_together_are_fields_of_a_layout() -> None:
    for framework in FRAMEWORKS.values():
        for together in framework.degrees_together:
            assert together.least.keys() <= Parallelism.model_fields.keys()
            assert min(together.least.values()) > 1
            assert together.source
