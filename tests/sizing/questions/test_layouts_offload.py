"""The layout search with offload: what it finds fits GPU and host, is what `answer` says, and nothing is moved in vain."""

from typing import Any

import pytest

from sizing.questions.layouts.report import LayoutsReport
from sizing.questions.layouts.search import scenario_with
from sizing.questions.registry import LAYOUTS
from sizing.report import answer
from sizing.scenario import scenario_from

STEP = {"sequence_length": 4096, "micro_batch_size": 1, "global_batch_size": 64}


def asked(framework: str, *, num_gpus: int = 8, training: dict[str, Any] | None = None, **node: Any) -> dict[str, Any]:
    """70 billion parameters: their state is 1.27 TB, and 8 GPUs have 0.64."""
    document: dict[str, Any] = {
        "model": {"preset": "llama-3.1-70b"},
        "training": {"framework": framework} | STEP | (training or {}),
        "cluster": {"node": "dgx-h100", "num_gpus": num_gpus},
    }
    if framework == "megatron":
        document["training"]["distributed_optimizer"] = True
        document["checkpoint"] = {"format": "torch-dist"}
    if node:
        document["cluster"]["node_spec"] = node
        del document["cluster"]["node"]
    return document


def search(document: dict[str, Any], **options: Any) -> LayoutsReport:
    return LAYOUTS.answer({"scenario": document, "max_layouts": 1000} | options)


@pytest.mark.parametrize("framework", ["deepspeed", "fsdp2", "megatron"])
def test_where_nothing_fits_the_search_finds_what_to_move_and_answer_agrees(framework: str) -> None:
    document = asked(framework)
    assert not search(document, offload=False).layouts
    report = search(document)
    assert report.layouts
    assert report.num_candidates == report.num_refused + report.num_too_large + report.num_fitting
    for layout in report.layouts[:4]:
        scenario = scenario_with(scenario_from(document), layout.parallelism, layout.recomputation)
        chosen = {"micro_batch_size": layout.micro_batch_size, "offload": layout.offload}
        found = answer(scenario.model_copy(update={"training": scenario.training.model_copy(update=chosen)}))
        assert found.training.total_bytes == layout.gpu_bytes <= report.room_bytes
        assert found.training.step is not None
        assert found.training.step.seconds == pytest.approx(layout.step_seconds)
        assert found.training.step.offload_seconds > 0
        assert found.offload is not None
        assert found.offload.host_bytes <= 2e12


CHOSEN = ("micro_batch_size", "recomputation", "recomputed_layers", "schedule", "offload", "distributed_optimizer")


@pytest.mark.parametrize("framework", ["deepspeed", "fsdp2", "megatron"])
@pytest.mark.parametrize("preset", ["llama-3.1-8b", "llama-3.1-70b"])
def test_a_found_layout_is_a_scenario_as_it_is(framework: str, preset: str) -> None:
    """Also where activations alone are moved: the block then states the fraction of an optimizer that stays."""
    keeps = {"sequence_length": 8192, "recomputation": "none"} if preset == "llama-3.1-8b" else {}
    document = asked(framework, training=keeps) | {"model": {"preset": preset}, "parallelism": {"context": 1}}
    report = search(document, max_layouts=20).model_dump(mode="json")
    assert any(layout["offload"] for layout in report["layouts"])
    for layout in report["layouts"]:
        blocks = {"training": document["training"] | {name: layout[name] for name in CHOSEN}}
        if layout["distributed_optimizer"] is None:  # the scenario's own, which the search left
            blocks["training"]["distributed_optimizer"] = document["training"].get("distributed_optimizer")
        found = answer(scenario_from(document | blocks | {"parallelism": layout["parallelism"]})).training
        assert found.total_bytes == layout["gpu_bytes"]
        assert found.step is not None
        assert found.step.seconds == pytest.approx(layout["step_seconds"])


def test_nothing_is_moved_to_a_host_that_cannot_hold_it() -> None:
    """16 bytes a parameter in half a terabyte are too much; the same node with two has room."""
    spec: dict[str, Any] = {"gpus_per_node": 8, "gpu": "h100", "gpu_memory_bytes": "80 GB", "pcie_generation": 5}
    assert not search(asked("fsdp2", **spec, host_memory_bytes="500 GB")).layouts
    assert search(asked("fsdp2", **spec, host_memory_bytes="2 TB")).layouts


def test_the_smallest_change_with_which_a_layout_fits_can_be_offload() -> None:
    report = search(asked("megatron", num_gpus=16))
    assert any("offload" in near.change for near in report.nearly_fitting)


def test_what_the_scenario_says_of_offload_stays() -> None:
    report = search(asked("deepspeed", training={"offload": {"optimizer": "host"}}))
    assert {layout.offload.optimizer for layout in report.layouts if layout.offload} == {"host"}
    assert all(layout.offload and layout.offload.weights == "none" for layout in report.layouts)


RATES = {"link_bytes_per_second": "10 GB/s", "optimizer_parameters_per_second": 2e9}


def test_rates_alone_move_nothing_and_hold_for_what_the_search_moves() -> None:
    """A slower link than the default makes the same layouts slower."""
    usual, slow = search(asked("deepspeed")), search(asked("deepspeed", training={"offload": RATES}))
    assert slow.layouts
    assert all(layout.offload and layout.offload.link_bytes_per_second == 10e9 for layout in slow.layouts)
    assert (slow.layouts[0].step_seconds or 0) > (usual.layouts[0].step_seconds or 0)
    assert any("optimizer_parameters_per_second" in warning for warning in usual.warnings)
    assert not any("rest on defaults" in warning for warning in slow.warnings)
    kept_on_gpu = search(asked("deepspeed", num_gpus=64, training={"offload": RATES}), offload=False)
    assert all(layout.offload is None for layout in kept_on_gpu.layouts)


def test_the_measured_rate_of_copies_is_that_of_the_link() -> None:
    """Of a scenario that says what to move, and of the search that finds it."""
    document = asked("deepspeed", training={"offload": {"optimizer": "host"}})
    document["parallelism"] = {"data": 8, "zero_stage": 3}

    def step_seconds(rate: str | None, **offload: Any) -> float:
        profile = {"write_bytes_per_second": "10 GB/s", "device_to_host_bytes_per_second": rate}
        training = document["training"] | {"offload": {"optimizer": "host"} | offload}
        report = answer(scenario_from(document | {"storage": {"profile": profile}, "training": training}))
        assert report.training.step is not None
        return report.training.step.seconds

    slow = step_seconds("100 MB/s")
    assert slow > step_seconds(None)
    assert slow == step_seconds(None, link_bytes_per_second="100 MB/s")
    assert step_seconds("100 MB/s", link_bytes_per_second="20 GB/s") == step_seconds(
        None, link_bytes_per_second="20 GB/s"
    )
    profile = {"write_bytes_per_second": "10 GB/s", "device_to_host_bytes_per_second": "100 MB/s"}
    found = search(asked("deepspeed") | {"storage": {"profile": profile}})
    assert {layout.offload and layout.offload.link_bytes_per_second for layout in found.layouts} == {1e8}


def test_drives_take_what_the_host_cannot_hold() -> None:
    spec: dict[str, Any] = {"gpus_per_node": 8, "gpu": "h100", "gpu_memory_bytes": "80 GB", "pcie_generation": 5}
    small = spec | {"host_memory_bytes": "500 GB"}
    rate = {"offload": {"nvme_bytes_per_second": "25 GB/s"}}
    found = search(asked("deepspeed", training=rate, **small, local_nvme_bytes="4 TB"))
    assert {layout.offload and layout.offload.optimizer for layout in found.layouts} == {"nvme"}
    assert not search(asked("deepspeed", training=rate, **small, local_nvme_bytes="500 GB")).layouts
    assert not search(asked("deepspeed", training=rate, **small)).layouts


def test_where_nothing_fits_the_need_with_all_off_the_gpu_is_said() -> None:
    report = search(asked("megatron", num_gpus=4))
    assert not report.layouts
    assert "; with optimizer, 100 % of activations off the GPU" in report.warnings[-1]
    spec: dict[str, Any] = {"gpus_per_node": 8, "gpu": "h100", "gpu_memory_bytes": "80 GB", "pcie_generation": 5}
    held_back = search(asked("fsdp2", **spec, host_memory_bytes="500 GB"))
    assert "but the host does not hold that" in held_back.warnings[-1]


def test_a_step_over_drives_of_unknown_rate_says_what_is_missing() -> None:
    document = asked("deepspeed", training={"offload": {"optimizer": "nvme"}})
    document["parallelism"] = {"data": 8, "zero_stage": 3}
    report = answer(scenario_from(document))
    assert report.training.step is None
    assert any("Give training.offload.nvme_bytes_per_second" in warning for warning in report.warnings)


def test_what_fits_is_not_slowed_by_offload() -> None:
    """With offload the best is never slower; where all is held with nothing computed again, nothing is moved."""
    document = asked("megatron", num_gpus=64)
    with_it, without = search(document, max_layouts=1), search(document, max_layouts=1, offload=False)
    assert (with_it.layouts[0].step_seconds or 0) <= (without.layouts[0].step_seconds or 0)
    roomy = asked("megatron", num_gpus=512, training={"global_batch_size": 512})
    assert search(roomy, max_layouts=1).layouts[0].offload is None
