"""One module and its row in FRAMEWORKS are all that a new framework needs: a toy is sized, saved, timed, offloaded."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from sizing.errors import InvalidInput
from sizing.frameworks import FRAMEWORKS
from sizing.layout.formats import formats_of
from sizing.report import SizingReport, answer
from sizing.scenario import Scenario, scenario_from
from sizing.training.gpu_rates import COMMUNICATION_SHARE
from sizing.training.kernels import COMPILED, kernels_of
from tests.sizing.frameworks.toy_framework import TOY


@pytest.fixture(autouse=True)
def _a_framework_of_somebody_else() -> Iterator[None]:
    FRAMEWORKS[TOY.name] = TOY
    yield
    del FRAMEWORKS[TOY.name]


def toy_scenario(**training: Any) -> Scenario:
    """A scenario of eight GPUs trained by the toy, whose name `FrameworkName` lacks: it is set after validation."""
    step = {"sequence_length": 2048, "micro_batch_size": 1, "global_batch_size": 16}
    document = {
        "model": {"preset": "llama-3.1-8b"},
        "training": {"framework": "fsdp2"} | step | training,
        "parallelism": {"data": 8},
        "cluster": {"node": "dgx-h100"},
    }
    scenario = scenario_from(document)
    changed = scenario.training.model_copy(update={"framework": TOY.name})
    return scenario.model_copy(update={"training": changed})


def toy_report(**training: Any) -> SizingReport:
    return answer(toy_scenario(**training))


def test_it_saves_what_its_module_keeps_in_the_format_that_is_its_default() -> None:
    report = toy_report()
    assert report.checkpoint.format == "fsdp-sharded"
    assert report.checkpoint.logical_bytes == (2 + 4 + 8) * report.model.num_parameters
    assert [each.name for each in formats_of(TOY.name)] == ["fsdp-sharded"]


def test_its_memory_and_time_follow_its_rules() -> None:
    ours, fsdp2 = toy_report().training, answer(toy_scenario().model_copy(update={"training": _fsdp2()})).training
    shown = answer(toy_scenario().model_copy(update={"training": _fsdp2(achieved={"overlap": 0})})).training.step
    per_parameter = ours.gpu_state_bytes / fsdp2.gpu_state_bytes
    assert per_parameter == pytest.approx((2 + 2 + 12) / (4 + 4 + 8))
    assert ours.activation_bytes is not None
    assert fsdp2.activation_bytes is not None
    assert ours.activation_bytes < fsdp2.activation_bytes
    assert ours.step is not None
    assert fsdp2.step is not None
    assert shown is not None
    assert fsdp2.step.exchange_seconds == pytest.approx(COMMUNICATION_SHARE * shown.exchange_seconds)
    assert ours.step.exchange_seconds > fsdp2.step.exchange_seconds
    assert kernels_of(toy_scenario().training) is COMPILED


def test_it_offloads_what_it_can_and_refuses_the_rest() -> None:
    held = toy_report(offload={"optimizer": "host", "optimizer_fraction": 0.5}).offload
    assert held is not None
    assert held.host_bytes > 0
    with pytest.raises(InvalidInput, match="must be one of none with framework toy"):
        toy_report(offload={"weights": "host"})


def _fsdp2(**training: Any) -> Any:
    return toy_scenario(**training).training.model_copy(update={"framework": "fsdp2"})
