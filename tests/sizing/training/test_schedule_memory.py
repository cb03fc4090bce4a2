"""Pipeline schedules in a scenario: GPU memory, bubbles, and what is refused."""

from typing import Any, get_args

import pytest

from sizing.errors import InvalidInput
from sizing.report import answer
from sizing.scenario import scenario_from
from sizing.state.training import Schedule
from sizing.training import GpuMemory
from sizing.training.schedules import SCHEDULES
from sizing.training.schedules.schedule import PipelineShape

STEP = {"sequence_length": 2048, "micro_batch_size": 1, "global_batch_size": 512}
DEGREES = {"tensor": 8, "pipeline": 8, "data": 16}


def memory(schedule: str, *, step: dict[str, Any] = STEP, **degrees: Any) -> GpuMemory:
    document = {
        "model": {"preset": "gpt3-175b"},
        "parallelism": DEGREES | degrees,
        "training": step | {"schedule": schedule},
    }
    return answer(scenario_from(document)).training


WEIGHTS = 2 * memory("1f1b").gpu_state_bytes / 18
"""Of the fullest stage, which is the first: 2 of 18 bytes per parameter."""


@pytest.mark.parametrize(
    ("schedule", "more"), [("pipedream", 7), ("pipedream-2bw", 1), ("pipemare", 2), ("zb-h1", 0), ("gpipe", 0)]
)
def test_state_grows_by_the_versions_of_the_weights(schedule: str, more: int) -> None:
    """PipeMare's buffer is fp32 beside weights of 2 bytes."""
    extra = memory(schedule).gpu_state_bytes - memory("1f1b").gpu_state_bytes
    assert extra == pytest.approx(more * WEIGHTS, abs=1)


def test_which_copy_of_a_stage_is_written_is_said() -> None:
    document = {"model": {"preset": "gpt3-175b"}, "parallelism": DEGREES, "training": STEP | {"schedule": "dualpipe"}}
    [said] = [each for each in answer(scenario_from(document)).assumptions if each.field == "training.schedule"]
    assert "device i writes stage i" in said.reason


def test_a_checkpoint_holds_pipemare_s_buffer_and_one_version_of_what_is_drained() -> None:
    """Weights 2 bytes, master copy 4, moments 8; the buffer is one value more, of the moments' dtype."""
    found = {}
    for schedule in ("1f1b", "pipedream", "pipedream-2bw", "pipemare"):
        document = {"model": {"preset": "gpt2"}, "training": STEP | {"schedule": schedule}}
        found[schedule] = answer(scenario_from(document)).checkpoint
    assert found["1f1b"] == found["pipedream"] == found["pipedream-2bw"]
    assert (found["1f1b"].bytes_per_parameter, found["pipemare"].bytes_per_parameter) == (14, 18)


def test_versions_are_divided_as_the_weights_are() -> None:
    document: dict[str, Any] = {
        "model": {"preset": "gpt3-175b"},
        "parallelism": DEGREES | {"zero_stage": 3, "pipeline": 1, "tensor": 1},
        "training": STEP | {"framework": "deepspeed", "schedule": "pipedream-2bw"},
    }
    found, flush = (
        answer(scenario_from(document | {"training": document["training"] | {"schedule": name}})).training
        for name in ("pipedream-2bw", "1f1b")
    )
    assert found.gpu_state_bytes == pytest.approx(flush.gpu_state_bytes * 18 / 16)


def stage_states(stages: int) -> list[int]:
    """State of each stage of GPT-3, of 16 bytes and more: 12 layers each, the embedding first, the last norm last."""
    h, layers, vocabulary = 12_288, 96 // stages, 51_200
    layer = 18 * (12 * h * h / 8 + (7 * h) / 8 + 6 * h)
    first = 18 * (vocabulary / 8 * h + 2048 * h)
    last = 18 * (vocabulary / 8 * h + 2 * h)
    return [round(layers * layer + (first if i == 0 else last if i == stages - 1 else 0)) for i in range(stages)]


@pytest.mark.parametrize("schedule", ["chimera", "dualpipe"])
def test_with_two_directions_a_gpu_holds_two_stages(schedule: str) -> None:
    """The first and the last stage have an embedding each: together they hold the max."""
    assert memory("1f1b").gpu_state_bytes == pytest.approx(stage_states(8)[0], rel=1e-5)
    expected = max(a + b for a, b in zip(stage_states(8), reversed(stage_states(8)), strict=True))
    assert memory(schedule).gpu_state_bytes == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("schedule", get_args(Schedule))
def test_activations_are_those_of_the_microbatches_in_flight(schedule: Schedule) -> None:
    """All layers are alike, so what is held is layers x microbatches; embedding and head come on top."""
    degrees: dict[str, Any] = {"virtual_pipeline": 2} if schedule in {"interleaved", "zb-v"} else {}
    found = memory(schedule, **degrees)
    pipeline = PipelineShape(8, 32, degrees.get("virtual_pipeline", 1))
    held = SCHEDULES[schedule].in_flight_microbatches(pipeline, found.fullest_stage or 0)
    of_layers = held * 12 * 34 * 2048 * 12_288 / 8
    assert found.in_flight_microbatches == held
    of_logits = held if schedule == "gpipe" else 1
    outside = held * 2048 * 12_288 / 8 + of_logits * 2048 * (4 * 12_288 + 4 * 51_200) / 8
    assert of_layers <= (found.activation_bytes or 0) <= of_layers + outside


@pytest.mark.parametrize(
    ("schedule", "degrees", "sentence"),
    [
        ("chimera", {"pipeline": 3}, "parallelism.pipeline must be even with schedule chimera"),
        ("chimera", {"pipeline": 12}, "training.global_batch_size must give a multiple of pipeline 12 microbatches"),
        ("dualpipe", {"pipeline": 32}, "training.global_batch_size must give at least 64 microbatches"),
        ("pipedream-2bw", {"pipeline": 48}, "training.global_batch_size must give at least 48 microbatches"),
        ("zb-v", {}, "parallelism.virtual_pipeline must be 2 with schedule zb-v, got 1"),
        ("zb-h1", {"virtual_pipeline": 2}, "training.schedule must be interleaved with virtual_pipeline > 1"),
    ],
)
def test_what_does_not_go_with_a_schedule_is_refused(schedule: str, degrees: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        memory(schedule, **degrees)
    assert sentence in str(caught.value)


def test_an_odd_number_of_microbatches_is_refused_where_they_run_in_pairs() -> None:
    with pytest.raises(InvalidInput, match="must give an even number of microbatches with schedule dualpipe"):
        memory("dualpipe", step=STEP | {"global_batch_size": 16 * 33})
