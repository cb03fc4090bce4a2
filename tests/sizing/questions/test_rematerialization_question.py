"""Which layers to compute again: a scenario's own layers, its own memory."""

import math
from typing import Any

import pytest

from sizing.errors import InvalidInput
from sizing.frameworks import FRAMEWORKS
from sizing.questions.registry import REMATERIALIZE
from sizing.questions.rematerialize.report import RematerializationReport
from sizing.questions.rematerialize.request import REFERENCE_REMATERIALIZATION
from sizing.report import answer
from sizing.scenario import scenario_from

GPT3 = REFERENCE_REMATERIALIZATION["scenario"]


def asked(scenario: dict[str, Any] = GPT3, **options: Any) -> RematerializationReport:
    return REMATERIALIZE.answer({"scenario": scenario} | options)


BATCH = {"micro_batch_size": 1, "global_batch_size": 64, "recomputation": "none"}


@pytest.mark.parametrize("sequence_length", [2_048, 32_768])
@pytest.mark.parametrize("preset", ["gpt2", "llama-3.1-8b", "mixtral-8x7b"])
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_nothing_and_every_layer_need_what_the_answer_says(framework: str, preset: str, sequence_length: int) -> None:
    """Every layer to the byte. With nothing, a plan also counts the gradient of a layer's input as that is made.

    It counts where the backward pass of a layer is the fullest time, 2 h bytes a token; at the loss it is not there.
    """
    training = BATCH | {"framework": framework, "sequence_length": sequence_length}
    scenario = {"model": {"preset": preset}, "parallelism": {"data": 8}, "cluster": {"node": "dgx-h100"}}
    given = scenario_from(scenario | {"training": training})
    full = scenario_from(scenario | {"training": training | {"recomputation": "full"}})
    [stage] = asked(scenario | {"training": training}).stages
    assert stage.plans[2].gpu_bytes == pytest.approx(answer(full).training.total_bytes, abs=2)
    over = stage.plans[0].gpu_bytes - (answer(given).training.total_bytes or 0)
    assert -2 <= over <= 2 * sequence_length * (768 if preset == "gpt2" else 4096) + 2


def test_every_layer_of_each_stage_needs_what_the_answer_says() -> None:
    """GPT-3 on 8 stages: the fullest holds 8 microbatches. With nothing again, one input's gradient comes on top."""
    full = answer(scenario_from(GPT3 | {"training": GPT3["training"] | {"recomputation": "full"}})).training
    first = asked().stages[0]
    assert first.plans[2].gpu_bytes == pytest.approx(full.total_bytes, abs=2)
    passing = 2 * 2048 * 2 * 12_288 / 8
    none = answer(scenario_from(GPT3)).training
    assert first.plans[0].gpu_bytes == pytest.approx((none.total_bytes or 0) + passing, abs=2)


def test_the_loss_is_freed_before_a_layer_is_computed_again() -> None:
    """Logits of 32,768 tokens take more than a layer: both at once would not fit 79.2 GB, one after the other do."""
    training = {"framework": "fsdp2", "sequence_length": 32_768, "micro_batch_size": 1}
    scenario = {"model": {"preset": "llama-3.1-8b"}, "parallelism": {"data": 8}, "training": training}
    report = asked(scenario | {"cluster": {"node": "dgx-h100"}}, gpu_memory_bytes="88 GB")
    assert report.num_recomputed_layers == 32
    assert not report.warnings


def test_optimizer_state_in_host_memory_leaves_room() -> None:
    on_gpu = GPT3 | {"training": GPT3["training"] | {"distributed_optimizer": True}}
    off_gpu = GPT3 | {"training": on_gpu["training"] | {"offload": {"optimizer": "host"}}}
    state = [answer(scenario_from(each)).training.gpu_state_bytes for each in (on_gpu, off_gpu)]
    other = [asked(each).stages[0].other_bytes for each in (on_gpu, off_gpu)]
    assert other[0] - other[1] == pytest.approx(state[0] - state[1], abs=2)
    assert other[0] > other[1]


def test_the_fewest_layers_fit_and_one_fewer_does_not() -> None:
    """Of 34 s b h on 8 ranks a layer that is computed again leaves 2, of each microbatch in flight."""
    report = asked(gpu_memory_bytes="70 GB")
    assert report.room_bytes == 63e9
    layer = 32 * 2048 * 2 * 12_288 / 8
    for stage, in_flight in zip(report.stages, (8, 7, 1), strict=True):
        too_much = stage.plans[0].gpu_bytes - 63e9
        expected = max(0, math.ceil(too_much / (in_flight * layer)))
        first_layer = 12 * stage.first_stage
        assert stage.fewest.recomputed_layers == list(range(first_layer, first_layer + expected))
        assert stage.fewest.fits
        assert stage.fewest.gpu_bytes == pytest.approx(stage.plans[0].gpu_bytes - expected * in_flight * layer, abs=2)
    first = report.stages[0]
    assert report.num_recomputed_layers == len(first.fewest.recomputed_layers) > 0
    assert report.extra_compute_fraction == pytest.approx(report.num_recomputed_layers / 12 / 3)
    rotor = next(plan for plan in first.plans if plan.technique == "rotor")
    assert rotor.fits
    assert rotor.extra_compute_fraction <= first.fewest.extra_compute_fraction


def test_a_scenario_that_leaves_degrees_open_is_planned_in_the_layout_of_its_answer() -> None:
    left_open: dict[str, Any] = GPT3 | {
        "parallelism": {"tensor": 8, "pipeline": 8},
        "cluster": {"node": "dgx-a100", "num_gpus": 1024},
    }
    report, sized = asked(left_open), answer(left_open)
    gradient_of_input = 2 * 2048 * 2 * 12_288 / 8
    assert report.stages[0].plans[0].gpu_bytes == (sized.training.total_bytes or 0) + gradient_of_input
    assert report.warnings[0] == f"Assumed: {sized.assumptions[0].sentence}"


def test_where_nothing_fits_the_least_is_said() -> None:
    report = asked(gpu_memory_bytes="40 GB")
    assert (report.num_recomputed_layers, report.extra_compute_fraction) == (None, None)
    [warning] = report.warnings
    assert warning.startswith("No technique fits 36.00 GB: the least is 53.04 GB. Give more memory")
    assert not asked(gpu_memory_bytes=int(report.min_gpu_bytes / 0.9 * 1.0001)).warnings


def test_experts_and_their_dense_layers_take_time_by_the_parameters_that_a_token_passes() -> None:
    scenario = {
        "model": {"preset": "deepseek-v3"},
        "parallelism": {"expert": 64, "pipeline": 16, "data": 128},
        "training": {"sequence_length": 4096, "micro_batch_size": 1, "global_batch_size": 15360},
        "cluster": {"node": "dgx-h100"},
    }
    first = asked(scenario).stages[0]
    assert first.num_layers == 4
    sizes = {plan.technique: plan.extra_compute_fraction for plan in first.plans}
    assert sizes["every layer"] == pytest.approx(1 / 3)


@pytest.mark.parametrize(
    ("scenario", "options", "sentence"),
    [
        ({"model": {"preset": "gpt2"}}, {}, "training.micro_batch_size is required to say what activations take"),
        (
            GPT3 | {"model": {"num_parameters": 10**9}},
            {},
            "model must be one whose activations are counted",
        ),
        (GPT3, {"headroom_fraction": 0.95}, "headroom_fraction must be"),
        (
            GPT3 | {"cluster": {"node_spec": {"gpus_per_node": 8}}},
            {},
            "gpu_memory_bytes is required where the node does not say it",
        ),
    ],
)
def test_what_cannot_be_answered_is_refused(scenario: dict[str, Any], options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        asked(scenario, **options)
    assert sentence in str(caught.value)
