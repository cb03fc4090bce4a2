"""A number of GPUs is enough: the best layout that fits is taken, what was given is kept, and the report says so."""

from typing import Any

import pytest

from sizing.errors import InvalidInput
from sizing.questions.answer.state_rows import memory_rows
from sizing.questions.layouts.best import lay_out_document
from sizing.questions.registry import LAYOUTS, REQUIRE, SENSITIVITY, QuestionEntry
from sizing.report import answer
from sizing.scenario import scenario_from


def on_gpus(model: str, num_gpus: Any, **blocks: Any) -> dict[str, Any]:
    return {"model": {"preset": model}, "cluster": {"num_gpus": num_gpus}} | blocks


def sentences(document: dict[str, Any]) -> list[str]:
    return [assumption.sentence for assumption in lay_out_document(document).assumed]


def test_it_is_the_first_of_the_layout_search_for_the_batch_that_it_assumes() -> None:
    document = on_gpus("llama-3.1-405b", "2048")
    scenario, *_ = lay_out_document(document)
    batch = {"micro_batch_size": 1, "sequence_length": 8192}
    best = LAYOUTS.answer({"scenario": document | {"training": batch}, "max_layouts": 1}).layouts[0]
    assert scenario.parallelism == best.parallelism
    assert scenario.parallelism.num_gpus == 2048
    assert scenario.training.micro_batch_size is None


def test_what_was_assumed_to_find_it_stands_first_among_the_assumptions_of_the_report() -> None:
    scenario, assumed, _ = lay_out_document(on_gpus("llama-3.1-405b", 2048))
    report = answer(scenario, assumed=assumed)
    assert [assumption.field for assumption in report.assumptions[:4]] == [
        "parallelism",
        "training.micro_batch_size",
        "training.sequence_length",
        "training.recomputation",
    ]
    assert report.assumptions[0].value == "tensor 8, pipeline 16, data 16"
    assert "layouts that fit 2,048 GPUs" in report.assumptions[0].reason


def test_a_batch_that_is_given_is_the_one_that_is_judged_by() -> None:
    batch = {"micro_batch_size": 1, "sequence_length": 4096}
    scenario, assumed, _ = lay_out_document(on_gpus("llama-3.1-405b", 2048, training=batch))
    assert [assumption.field for assumption in assumed] == ["parallelism", "training.recomputation"]
    assert scenario.training.recomputation == assumed[1].value
    assert answer(scenario).training.runs


def test_sequences_are_no_longer_than_the_positions_that_the_model_has() -> None:
    assert "training.sequence_length = 1,024 (not given: to judge which layouts fit)" in sentences(on_gpus("gpt2", 8))


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
    scenario, *_ = lay_out_document(on_gpus(model, 2048, **blocks))
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
    assert lay_out_document(document) == (scenario_from(document), [], None)


def test_where_nothing_fits_the_nearest_is_taken_and_called_so() -> None:
    report = answer(on_gpus("megatron-1t", 64))
    assert "nothing fits 64 GPUs, and this comes nearest" in report.assumptions[0].reason
    assert str(report.training.cannot_run).startswith(
        "Does not fit on 64 GPUs: the nearest layout, tensor 8, pipeline 8 and "
    )
    assert report.training.remedy == "Use more GPUs: tensor 8, pipeline 64 fits on 512; or use other nodes"
    assert answer(on_gpus("megatron-1t", 512)).training.cannot_run is None
    assert sum("nearest" in warning for warning in report.warnings) == 1


def test_where_nothing_fits_with_the_batch_that_it_was_judged_by_the_report_never_says_that_it_fits() -> None:
    """The state of 405B fits 104 GPUs; with the activations of one sequence it does not."""
    report = answer(on_gpus("llama-3.1-405b", 104))
    assert report.training.state_fits
    assert str(report.training.cannot_run).startswith("Does not fit on 104 GPUs: ")
    assert "DOES NOT FIT" in "".join(row.meaning for row in memory_rows(report))


def test_where_only_the_headroom_is_missing_the_layout_may_not_run() -> None:
    """112 GPUs have 80 GB each, of which 405B needs 74.04 GB."""
    report = answer(on_gpus("llama-3.1-405b", 112))
    assert report.training.cannot_run is None
    assert report.warnings[0].startswith("Does not fit on 112 GPUs with 10.0 % headroom: ")
    assert "which has 80.00 GB; this layout may not run. Use more GPUs: " in report.warnings[0]


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
        answer(lay_out_document(document).scenario)
    assert sentence in str(refused.value)
    assert "scenario." not in str(refused.value)


def test_the_search_keeps_the_degrees_that_it_is_told_to() -> None:
    document = on_gpus("llama-3.1-8b", 64, parallelism={"tensor": 2})
    kept = LAYOUTS.answer({"scenario": document, "kept_degrees": ["tensor"], "max_layouts": 100})
    every = LAYOUTS.answer({"scenario": document, "max_layouts": 100})
    assert {layout.parallelism.tensor for layout in kept.layouts} == {2}
    assert kept.layouts == [layout for layout in every.layouts if layout.parallelism.tensor == 2]
    assert not any("are ignored" in warning for warning in kept.warnings)
    assert any("tensor 2 are ignored" in warning for warning in every.warnings)


@pytest.mark.parametrize("framework", ["fsdp2", "torchtitan", "maxtext"])
def test_frameworks_that_shard_do_so_over_all_data_ranks_and_cut_no_more_than_must_be(framework: str) -> None:
    """As they ship it; each rank then reads its own share of a checkpoint, and not every group of ranks all of it."""
    document = on_gpus("llama-3.1-8b", 64, training={"framework": framework})
    scenario, (assumed, *_), _ = lay_out_document(document)
    found = scenario.parallelism
    assert (found.tensor, found.pipeline, found.data, found.shard_group) == (1, 1, 64, None)
    assert "has the fewest pipeline, tensor and expert ranks of" in assumed.sentence
    report = answer(scenario)
    assert report.restore.read_bytes == pytest.approx(report.checkpoint.written_bytes, rel=0.01)
    before = lay_out_document(document | {"schema_version": 2}).scenario
    assert before.parallelism.shard_group is not None


def test_experts_are_shared_as_other_tensors_are_where_that_fits() -> None:
    found = lay_out_document(on_gpus("qwen3-235b-a22b", 256, training={"framework": "torchtitan"})).scenario
    assert (found.parallelism.expert, found.parallelism.tensor, found.parallelism.data) == (1, 1, 256)


def test_a_shard_group_that_is_given_stays() -> None:
    document = on_gpus("llama-3.1-8b", 64, training={"framework": "fsdp2"}, parallelism={"shard_group": 8})
    assert lay_out_document(document).scenario.parallelism.shard_group == 8
    asked = document | {"parallelism": {"shard_group": 8, "data": 64}}
    found = LAYOUTS.answer({"scenario": asked, "kept_degrees": ["shard_group"], "max_layouts": 100}).layouts
    assert {layout.parallelism.shard_group for layout in found} == {8}


def test_python_answers_a_number_of_gpus_as_the_command_line_does() -> None:
    document = on_gpus("llama-3.1-405b", 2048, reliability={"mtbf_seconds": "3h"})
    scenario, assumed, nothing_fits = lay_out_document(document)
    assert (
        answer(document)
        == answer(scenario_from(document))
        == answer(scenario, assumed=assumed, nothing_fits=nothing_fits)
    )


@pytest.mark.parametrize("question", [REQUIRE, SENSITIVITY])
def test_other_questions_take_the_same_layout_and_warn_which(question: QuestionEntry[Any, Any]) -> None:
    storage = {"profile": {"write_bytes_per_second": "500 GB/s", "read_bytes_per_second": "500 GB/s"}}
    document = on_gpus("llama-3.1-8b", 64, storage=storage, reliability={"mtbf_seconds": "3h"})
    layout, batch, *_ = lay_out_document(document).assumed
    assert question.answer(document).warnings[:2] == [f"Assumed: {layout.sentence}", f"Assumed: {batch.sentence}"]


def test_with_a_global_batch_it_is_the_one_with_the_shortest_step() -> None:
    batch = {"micro_batch_size": 1, "sequence_length": 4096, "global_batch_size": 256}
    document = on_gpus("llama-3.1-70b", 64, training=batch | {"distributed_optimizer": True})
    scenario, (assumed, *_), _ = lay_out_document(document)
    assert "has the shortest step of" in assumed.reason
    assert scenario.training.micro_batch_size == 1
    options = {"objective": "step-time", "micro_batches": [1], "max_layouts": 1}
    [best] = LAYOUTS.answer({"scenario": document} | options).layouts
    assert scenario.parallelism == best.parallelism


def test_a_scenario_of_before_keeps_the_layout_with_the_fewest_model_parallel_gpus() -> None:
    batch = {"micro_batch_size": 1, "sequence_length": 4096, "global_batch_size": 256}
    document = on_gpus("llama-3.1-70b", 64, training=batch | {"distributed_optimizer": True})
    _, (assumed, *_), _ = lay_out_document(document | {"schema_version": 2})
    assert "has the fewest model-parallel GPUs of" in assumed.reason
