"""What a refusal of degrees says to do, done: the refusal is gone. Random degrees over models of each kind."""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Iterator
from typing import Any

import pytest

from sizing.errors import InvalidInput, Problem
from sizing.layout.fit import check_fit
from sizing.layout.trained_model import resolved_model
from sizing.scenario import scenario_from
from sizing.sized_layout import size_layout

MODELS = ("llama-3.1-8b", "llama-3.1-405b", "deepseek-v3", "qwen3-30b-a3b", "gpt2-xl", "mixtral-8x7b")
FRAMEWORKS = ("megatron", "fsdp2", "deepspeed", "torchtitan")
NUM_DRAWN = 400
NEAREST = re.compile(r"the nearest valid degrees? (?:are|is) (\d+)(?: and (\d+))?(?:, or set (\w+) to (\d+))?$")
PER_CHUNK = re.compile(r"give the layers of each chunk: layers_per_stage ([0-9x,]+)$")
COUNTED = re.compile(
    r"set (embedding_counts_as_layer) and (loss_counts_as_layer)( to false)?(?:, or give layers_per_stage [0-9x,]+)?$"
)
WITH_BOTH = re.compile(r"with (embedding\w+) and (loss\w+) the nearest valid degrees? (?:are|is) (\d+)(?: and (\d+))?$")
SET = re.compile(r"set (?:\w+ to \d+(?:, | or )?)+$")
EACH_SET = re.compile(r"(\w+) to (\d+)")
REMOVED = re.compile(r"remove it|.*leave it out$")


def drawn(dice: random.Random) -> dict[str, Any]:
    parallelism = {
        "tensor": dice.choice((1, 2, 3, 5, 6, 8, 16)),
        "pipeline": dice.choice((1, 2, 3, 4, 7, 8, 16)),
        "virtual_pipeline": dice.choice((1, 1, 2, 3, 4)),
        "data": dice.choice((1, 2, 8, 64)),
        "expert": dice.choice((1, 1, 2, 3, 8)),
    }
    framework = dice.choice(FRAMEWORKS)
    if framework in ("fsdp2", "torchtitan") and dice.random() < 0.5:
        parallelism["shard_group"] = dice.choice((1, 2, 3, 8))
    elif dice.random() < 0.2:
        parallelism["expert_tensor"] = dice.choice((1, 2, 3, 4))
    return {
        "model": {"preset": dice.choice(MODELS)},
        "training": {"framework": framework},
        "parallelism": parallelism,
    }


def refusal(document: dict[str, Any]) -> Problem | None:
    try:
        size_layout(scenario_from(document))
    except InvalidInput as error:
        return error.problems[0]
    return None


def remedied(problem: Problem) -> Iterator[dict[str, Any]]:
    """The degrees that a remedy with values names, each in place of what was refused; none for other remedies."""
    if nearest := NEAREST.match(problem.remedy):
        field = re.sub(r"parallelism(\.|$)", "", problem.field) or problem.rule.split()[1]  # "has shard_group 3, ..."
        yield from ({field: int(each)} for each in nearest.groups()[:2] if each)
        yield from [{nearest[3]: int(nearest[4])}] if nearest[3] else []
    elif SET.match(problem.remedy):
        yield from ({name: int(degree)} for name, degree in EACH_SET.findall(problem.remedy))
    elif chunks := PER_CHUNK.match(problem.remedy):
        yield {"layers_per_stage": chunks[1]}
    elif counted := COUNTED.match(problem.remedy):
        yield dict.fromkeys(counted.groups()[:2], counted[3] is None)
    elif both := WITH_BOTH.match(problem.remedy):
        yield from ({both[1]: True, both[2]: True, "virtual_pipeline": int(each)} for each in both.groups()[2:] if each)
    elif REMOVED.match(problem.remedy):
        degree = problem.field.removeprefix("parallelism.")
        yield {degree: None if degree == "expert_tensor" else 1}  # as the default of each degree


def test_degrees_that_a_refusal_names_are_not_refused_for_the_same_reason() -> None:
    dice, num_tried = random.Random(39), 0  # noqa: S311 - draws scenarios, no secrets
    for _ in range(NUM_DRAWN):
        document = drawn(dice)
        problem = refusal(document)
        if problem is None:
            continue
        for changes in remedied(problem):
            num_tried += 1
            again = refusal(document | {"parallelism": document["parallelism"] | changes})
            assert again is None or (again.field, again.rule) != (problem.field, problem.rule), (document, changes)
    assert num_tried > NUM_DRAWN // 10


def test_each_degree_named_for_experts_that_divide_no_ranks_works_alone() -> None:
    num_tried = 0
    for tensor, data, expert, cut, group in itertools.product((1, 2, 4), (1, 2, 3, 6), (2, 4, 8), (1, 2, 4), (0, 2, 6)):
        degrees = {"tensor": tensor, "data": data, "expert": expert, "expert_tensor": cut}
        degrees |= {"shard_group": group} if group else {}
        error = _refusal_of_degrees(degrees)
        if error is None:
            continue
        ways = list(remedied(error))
        assert ways, error
        for way in ways:
            num_tried += 1
            again = _refusal_of_degrees(degrees | way)
            assert again is None or again.rule != error.rule, (degrees, way)
            assert again is None or group, (degrees, way)  # a group may break a rule of its own
    assert num_tried > 100


def _refusal_of_degrees(degrees: dict[str, Any]) -> Problem | None:
    try:
        scenario = scenario_from({"model": {"preset": "mixtral-8x7b"}, "parallelism": degrees})
        model = resolved_model(scenario.model, scenario.training, scenario.parallelism)
        check_fit(model, scenario.parallelism, scenario.cluster, scenario.training.framework)
    except InvalidInput as error:
        return error.problems[0]
    return None


@pytest.mark.parametrize("num_layers", [61, 62, 126])
def test_virtual_stages_always_have_a_remedy_with_values(num_layers: int) -> None:
    presets = {61: "deepseek-v3", 62: "gemma-3-27b", 126: "llama-3.1-405b"}
    for pipeline in (2, 4, 8):
        for virtual in (2, 3, 4):
            degrees = {"pipeline": pipeline, "virtual_pipeline": virtual}
            document = {
                "model": {"preset": presets[num_layers]},
                "training": {"framework": "megatron"},
                "parallelism": degrees,
            }
            problem = refusal(document)
            if problem is not None:
                tried = [refusal(document | {"parallelism": degrees | changes}) for changes in remedied(problem)]
                assert None in tried, problem
