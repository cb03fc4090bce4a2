"""What each technique of the catalog changes in a scenario: the difference of two answers, and nothing else."""

import functools
from typing import Any

import pytest

from sizing.errors import InvalidInput
from sizing.field_paths import with_fields
from sizing.questions.registry import REMATERIALIZE, STAGES, TECHNIQUES
from sizing.questions.techniques.registry import PLANNED, SCENARIO_TECHNIQUES, ScenarioChange, ScenarioTechnique
from sizing.questions.techniques.report import TechniqueEffect, TechniquesReport
from sizing.questions.techniques.request import REFERENCE_TECHNIQUES
from sizing.report import answer
from sizing.scenario import scenario_from
from sizing.training.techniques import techniques

DEEPSPEED: dict[str, Any] = {
    "model": {"preset": "llama-3.1-8b"},
    "training": {"framework": "deepspeed", "sequence_length": 8192, "micro_batch_size": 1, "global_batch_size": 64},
    "parallelism": {"data": 16, "zero_stage": 0},
    "checkpoint": {"mode": "async"},
    "cluster": {"node": "dgx-h100"},
    "storage": {"profile": {"write_bytes_per_second": "100 GB/s", "read_bytes_per_second": "100 GB/s"}},
}


def tried(scenario: dict[str, Any], *kinds: str) -> dict[str, TechniqueEffect]:
    report = TECHNIQUES.answer({"scenario": scenario, "kinds": list(kinds)})
    return {effect.name: effect for effect in report.techniques}


def figures(effect: TechniqueEffect) -> dict[str, tuple[float | None, float | None]]:
    return {change.figure: (change.before, change.after) for change in effect.effects}


def at(document: Any, figure: str) -> Any:
    return functools.reduce(lambda block, name: None if block is None else block.get(name), figure.split("."), document)


@pytest.mark.parametrize("name", [row.name for row in techniques()])
def test_every_row_of_the_catalog_is_an_object(name: str) -> None:
    assert SCENARIO_TECHNIQUES[name].name == name


@pytest.mark.parametrize("scenario", [REFERENCE_TECHNIQUES["scenario"], DEEPSPEED, {"model": {"num_parameters": "7B"}}])
def test_every_technique_applies_or_says_why_not(scenario: dict[str, Any]) -> None:
    for effect in tried(scenario).values():
        assert bool(effect.change or effect.plan) == (effect.reason is None), effect
        assert effect.reason is None or len(effect.reason.split()) > 4, effect
        assert not effect.effects or effect.change or effect.plan


@pytest.mark.parametrize("scenario", [REFERENCE_TECHNIQUES["scenario"], DEEPSPEED])
def test_an_effect_is_the_difference_of_two_answers(scenario: dict[str, Any]) -> None:
    before = answer(scenario).model_dump()
    for effect in tried(scenario).values():
        if effect.reason is not None or effect.plan is not None:
            continue
        after = answer(with_fields(scenario_from(scenario).model_dump(mode="json", exclude_unset=True), effect.change))
        of_answers = (change for change in effect.effects if change.figure != "learning_rate.factor")  # a ratio of both
        for change in of_answers:
            assert (change.before, change.after) == (at(before, change.figure), at(after.model_dump(), change.figure))


def test_a_scenario_that_leaves_degrees_open_is_tried_in_the_layout_of_its_answer() -> None:
    scenario: dict[str, Any] = REFERENCE_TECHNIQUES["scenario"]
    left_open = TECHNIQUES.answer(scenario | {"parallelism": {"tensor": 8, "pipeline": 4}})
    given = TECHNIQUES.answer(
        scenario
        | {
            "parallelism": {"tensor": 8, "pipeline": 4, "virtual_pipeline": 4, "data": 16},
            "training": scenario["training"] | {"recomputation": "none"},
        }
    )
    assert left_open.techniques == given.techniques
    assert left_open.warnings[0].startswith("Assumed: parallelism = virtual pipeline 4, data 16")
    assert not given.warnings


def test_a_plan_by_layers_needs_and_adds_what_rematerialize_says() -> None:
    scenario = REFERENCE_TECHNIQUES["scenario"]
    stages = REMATERIALIZE.answer({"scenario": scenario}).stages
    found = tried(scenario, "rematerialization")
    for name, plan in PLANNED.items():
        effect = figures(found[name])
        plans = [each for stage in stages for each in stage.plans if each.technique == plan]
        assert effect["training.total_bytes"][1] == max(each.gpu_bytes for each in plans)
        assert effect["rematerialization.extra_compute_fraction"] == (
            0.0,
            max(each.extra_compute_fraction for each in plans),
        )
    assert "Rotor" in (found["Checkmate"].reason or "")


def test_training_in_four_bits_shortens_the_step_and_leaves_the_checkpoint() -> None:
    scenario = REFERENCE_TECHNIQUES["scenario"]
    on_blackwell = scenario | {"cluster": scenario["cluster"] | {"node": "dgx-b200"}}
    effect = tried(on_blackwell, "low-precision-optimizer")["4-bit training"]
    assert effect.change == {"training.precision": "nvfp4-mixed"}
    before, after = figures(effect)["training.step.seconds"]
    assert 0 < (after or 0) < (before or 0)
    assert "checkpoint.written_bytes" not in figures(effect)
    assert "h100" in (tried(scenario, "low-precision-optimizer")["4-bit training"].reason or "")


def test_a_technique_applies_once() -> None:
    scenario = scenario_from(DEEPSPEED)
    technique = SCENARIO_TECHNIQUES["8-bit Adam"]
    assert isinstance(technique, ScenarioTechnique)
    found = technique.apply(scenario)
    assert isinstance(found, ScenarioChange)
    assert technique.apply(found.scenario) == "The scenario has it already"


def test_zero_offload_frees_the_gpu_and_shortens_the_stall() -> None:
    found = figures(tried(DEEPSPEED, "weight-offload")["ZeRO-Offload"])
    before, after = found["training.gpu_state_bytes"]
    assert (before, after) == (16 * 8_030_261_248, 2 * 8_030_261_248)
    stall_before, stall_after = found["write.stall_seconds"]
    assert (stall_after or 0) < (stall_before or 0)
    assert "checkpoint.written_bytes" not in found


def test_zero_bubble_v_takes_two_chunks_and_leaves_no_bubble() -> None:
    effect = tried(REFERENCE_TECHNIQUES["scenario"], "pipeline-schedule")["zb-v"]
    assert effect.reason is None
    assert effect.change == {"training.schedule": "zb-v", "parallelism.virtual_pipeline": 2}
    before, after = figures(effect)["training.bubble_fraction"]
    assert before is not None
    assert before > 0
    assert after == 0


def test_what_overflows_the_host_is_told() -> None:
    large = DEEPSPEED | {"model": {"preset": "llama-3.1-70b"}, "parallelism": {"data": 16, "zero_stage": 3}}
    told = [figures(effect).get("host_memory.fits") for effect in tried(large, "activation-offload").values()]
    assert (True, False) in told


def test_a_larger_batch_says_by_how_much_the_learning_rate_grows() -> None:
    """In proportion (Goyal et al. 2017); near the critical batch by less (McCandlish et al. 2018)."""
    step = {"sequence_length": 4096, "micro_batch_size": 1, "global_batch_size": 64}
    scenario = {"model": {"preset": "llama-3.1-8b"}, "parallelism": {"data": 8}, "training": step}
    critical = {"num_tokens": "1T", "critical_batch_tokens": 64 * 4096}
    for further, expected in (({}, 2.0), (critical, 2 / 1.5)):
        effect = tried(scenario | {"training": step | further}, "large-batch")["linear learning-rate scaling"]
        before, after = figures(effect)["learning_rate.factor"]
        assert before == 1.0
        assert after == pytest.approx(expected)


def test_gradient_compression_grows_the_checkpoint() -> None:
    effects = tried(DEEPSPEED, "gradient-compression")
    for name in ("top-k sparsification", "PowerSGD", "1-bit Adam"):
        before, after = figures(effects[name])["checkpoint.written_bytes"]
        assert (after or 0) > (before or 0)
    assert "checkpoint.written_bytes" not in figures(effects["QSGD"])


@pytest.mark.parametrize("name", ["TFLMS", "AutoSwap"])
def test_swapping_takes_as_many_layers_as_have_no_room_and_no_more(name: str) -> None:
    """128 GB of state leave nothing; with ZeRO 3 the activations of some of 32 layers have no room."""
    refused = tried(DEEPSPEED, "activation-offload")[name]
    assert refused.reason == "The state leaves the GPU no room for the activations of one layer"
    training = DEEPSPEED["training"] | {"micro_batch_size": 4}
    tight = DEEPSPEED | {"parallelism": {"data": 16, "zero_stage": 3}, "training": training}
    effect = tried(tight, "activation-offload")[name]
    fraction = effect.change["training.offload.activations_fraction"]
    assert isinstance(fraction, float)
    assert fraction * 32 == int(fraction * 32)
    before, after = figures(effect)["training.total_bytes"]
    assert (before or 0) > 0.9 * 80e9 >= (after or 0)
    one_layer = (answer(tight).training.activation_bytes or 0) / 32
    assert (after or 0) + one_layer > 0.9 * 80e9


def test_a_larger_batch_takes_fewer_steps() -> None:
    training = DEEPSPEED["training"] | {"num_tokens": "1T", "critical_batch_tokens": "1M", "step_seconds": 2}
    effect = tried(DEEPSPEED | {"training": training}, "large-batch")["linear learning-rate scaling"]
    before, after = figures(effect)["run_length.num_steps"]
    batch, critical = 64 * 8192, 1_000_000
    assert (after or 0) / (before or 1) == pytest.approx(
        (1 + critical / (2 * batch)) / (1 + critical / batch), rel=1e-5
    )


def test_a_scenario_alone_is_a_question_and_a_bad_one_is_refused() -> None:
    assert isinstance(TECHNIQUES.answer(DEEPSPEED), TechniquesReport)
    with pytest.raises(InvalidInput, match="kinds"):
        TECHNIQUES.answer({"scenario": DEEPSPEED, "kinds": ["magic"]})


def test_unlike_nodes_are_balanced_by_what_stages_says() -> None:
    asked: dict[str, Any] = {
        "model": {"preset": "gpt2"},
        "training": {"sequence_length": 1024, "micro_batch_size": 1, "global_batch_size": 64},
        "parallelism": {"pipeline": 2, "data": 8},
        "cluster": {"nodes": "1 x dgx-a100, 1 x dgx-b200"},
    }
    found = TECHNIQUES.answer({"scenario": asked, "kinds": ["heterogeneous-pipeline"]})
    pipe_torch, hetpipe = found.techniques
    report = STAGES.answer({"scenario": asked})
    assert pipe_torch.change == report.change
    assert "parallelism.layers_per_stage" in pipe_torch.change
    moved = {each.figure: (each.before, each.after) for each in pipe_torch.effects}
    assert moved["stages.step_seconds"] == (report.as_given.step_seconds, report.balanced.step_seconds)
    assert hetpipe.change["training.schedule"] == "pipedream"
    best = max(each.tokens_per_second or 0.0 for each in report.virtual_workers)
    assert best in [each.after for each in hetpipe.effects]
    alike = TECHNIQUES.answer({"scenario": asked | {"cluster": {}}, "kinds": ["heterogeneous-pipeline"]})
    assert all("give them as cluster.nodes" in (each.reason or "") for each in alike.techniques)


def test_techniques_are_asked_by_name_in_the_order_of_the_catalog() -> None:
    found = TECHNIQUES.answer({"scenario": DEEPSPEED, "names": ["4-bit Adam", "8-bit Adam"]})
    assert [each.name for each in found.techniques] == ["8-bit Adam", "4-bit Adam"]
    with pytest.raises(InvalidInput, match=r"names\.1 must be a name of the catalog, got '9-bit Adam': the nearest"):
        TECHNIQUES.answer({"scenario": DEEPSPEED, "names": ["8-bit Adam", "9-bit Adam"]})
