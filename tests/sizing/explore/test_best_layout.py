"""A number of GPUs is enough: the best layout that fits is taken, what was given is kept, and the report says so."""

from typing import Any

import pytest

from sizing.errors import InvalidInput
from sizing.explore.layouts.best import laid_out_scenario
from sizing.explore.layouts.ranking import find_layouts
from sizing.report import answer
from sizing.scenario import scenario_from


def on_gpus(model: str, num_gpus: Any, **blocks: Any) -> dict[str, Any]:
    return {"model": {"preset": model}, "cluster": {"num_gpus": num_gpus}} | blocks


def sentences(document: dict[str, Any]) -> list[str]:
    return [assumption.sentence for assumption in laid_out_scenario(document)[1]]


def test_it_is_the_first_of_the_layout_search_for_the_batch_that_it_assumes() -> None:
    document = on_gpus("llama-3.1-405b", "2048")
    scenario, _ = laid_out_scenario(document)
    batch = {"micro_batch_size": 1, "sequence_length": 8192}
    best = find_layouts({"scenario": document | {"training": batch}, "max_layouts": 1}).layouts[0]
    assert scenario.parallelism == best.parallelism
    assert scenario.parallelism.num_gpus == 2048
    assert scenario.training.micro_batch_size is None


def test_what_was_assumed_to_find_it_stands_first_among_the_assumptions_of_the_report() -> None:
    scenario, assumed = laid_out_scenario(on_gpus("llama-3.1-405b", 2048))
    report = answer(scenario, assumed=assumed)
    assert [assumption.field for assumption in report.assumptions[:4]] == [
        "parallelism",
        "training.micro_batch_size",
        "training.sequence_length",
        "training.recomputation",
    ]
    assert report.assumptions[0].value == "tensor 8, pipeline 16, data 16"
    assert "layouts found to fit 2,048 GPUs" in report.assumptions[0].reason


def test_a_batch_that_is_given_is_the_one_that_is_judged_by() -> None:
    batch = {"micro_batch_size": 1, "sequence_length": 4096}
    scenario, assumed = laid_out_scenario(on_gpus("llama-3.1-405b", 2048, training=batch))
    assert [assumption.field for assumption in assumed] == ["parallelism", "training.recomputation"]
    assert scenario.training.recomputation == assumed[1].value
    assert answer(scenario).training.runs


def test_sequences_are_no_longer_than_the_positions_that_the_model_has() -> None:
    assert "training.sequence_length = 1024 (not given: to judge which layouts fit)" in sentences(on_gpus("gpt2", 8))


def test_of_a_number_of_parameters_only_the_state_is_judged() -> None:
    document = {"model": {"num_parameters": "70B"}, "cluster": {"num_gpus": 64}}
    assert len(sentences(document)) == 1


@pytest.mark.parametrize(
    ("model", "blocks"),
    [
        ("llama-3.1-405b", {"parallelism": {"tensor": "4"}}),
        ("llama-3.1-405b", {"parallelism": {"tensor": 8, "pipeline": 32}}),
        ("deepseek-v3", {"parallelism": {"expert": 16}}),
        ("gpt2", {"parallelism": {"shard_group": 8}, "training": {"framework": "fsdp2"}}),
        ("gpt2", {"parallelism": {"context": 4}}),
        ("gpt2", {"parallelism": {"zero_stage": 2}, "training": {"framework": "deepspeed"}}),
    ],
)
def test_degrees_that_are_given_stay(model: str, blocks: dict[str, Any]) -> None:
    scenario, _ = laid_out_scenario(on_gpus(model, 2048, **blocks))
    for name, degree in blocks["parallelism"].items():
        assert getattr(scenario.parallelism, name) == int(degree)
    assert scenario.parallelism.num_gpus == 2048


@pytest.mark.parametrize(
    "document",
    [
        {"model": {"preset": "gpt2"}},
        on_gpus("gpt2", 1),
        on_gpus("gpt2", 8, parallelism={"data": 8}),
        on_gpus("gpt2", 8, parallelism={"tensor": 4, "pipeline": 2}),
    ],
)
def test_a_scenario_that_leaves_nothing_open_stays_as_it_is(document: dict[str, Any]) -> None:
    assert laid_out_scenario(document) == (scenario_from(document), [])


def test_where_nothing_fits_the_nearest_is_taken_and_called_so() -> None:
    document = on_gpus("megatron-1t", 64)
    scenario, assumed = laid_out_scenario(document)
    assert "NOTHING FITS 64 GPUs: this comes nearest and needs " in assumed[0].reason
    assert not answer(scenario, assumed=assumed).training.runs


@pytest.mark.parametrize(
    ("document", "sentence"),
    [
        (on_gpus("gpt2", 12, parallelism={"tensor": 8}), "cluster.num_gpus must be a multiple of tensor 8, got 12"),
        (on_gpus("gpt2", 64, parallelism={"tensor": 16}), "tensor must divide num_attention_heads 12, got 16"),
        (on_gpus("gpt2", 8, parallelism={"data": 4}), "cluster.num_gpus must equal"),
        (on_gpus("gpt2", 0), "cluster.num_gpus must be at least 1, got 0: give 1 or more."),
        (on_gpus("gpt2", "many"), "cluster.num_gpus must be a whole number, got 'many'"),
        (on_gpus("gpt2", 8, parallelism={"tensor": 0}), "parallelism.tensor must be at least 1, got 0"),
        (on_gpus("gpt2", 8, parallelism=[]), "parallelism must be an object"),
        ({"model": {"preset": "gpt2"}, "cluster": 8}, "cluster must be an object"),
        (on_gpus("gpt9", 8), "model.preset must be a name of the catalog"),
    ],
)
def test_what_cannot_be_laid_out_is_refused_in_the_words_of_the_scenario(
    document: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(InvalidInput) as refused:
        answer(laid_out_scenario(document)[0])
    assert sentence in str(refused.value)
    assert "scenario." not in str(refused.value)


def test_the_search_keeps_the_degrees_that_it_is_told_to() -> None:
    document = on_gpus("llama-3.1-8b", 64, parallelism={"tensor": 2})
    kept = find_layouts({"scenario": document, "kept_degrees": ["tensor"], "max_layouts": 100})
    every = find_layouts({"scenario": document, "max_layouts": 100})
    assert {layout.parallelism.tensor for layout in kept.layouts} == {2}
    assert kept.layouts == [layout for layout in every.layouts if layout.parallelism.tensor == 2]
    assert not any("are ignored" in warning for warning in kept.warnings)
    assert any("tensor 2 are ignored" in warning for warning in every.warnings)
