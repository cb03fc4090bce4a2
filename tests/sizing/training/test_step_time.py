"""Time of a step: laws that any such estimate keeps, and what it is held against."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sizing.cluster.gpu import gpu_catalog
from sizing.cluster.node import node_catalog
from sizing.errors import InvalidInput
from sizing.report import answer
from sizing.training.time.achieved import published_fractions
from sizing.training.time.links import Links
from sizing.training.time.step import StepTime
from sizing.validation.step_times import Timed, ranked_pairs, step_times

TRAINING = {"distributed_optimizer": True, "sequence_length": 4096, "micro_batch_size": 1, "global_batch_size": 64}


def step(model: str = "llama-3.1-8b", *, node: str = "dgx-h100", **blocks: Any) -> StepTime:
    training = TRAINING | blocks.pop("training", {})
    document = {"model": {"preset": model}, "training": training, "cluster": {"node": node}} | blocks
    found = answer(document).training.step
    assert found is not None
    return found


def parts(found: StepTime) -> float:
    return (
        found.compute_seconds
        + found.waiting_seconds
        + found.bubble_seconds
        + found.exchange_seconds
        + found.optimizer_seconds
    )


@settings(max_examples=20)
@given(
    tensor=st.sampled_from([1, 2, 8]),
    pipeline=st.sampled_from([1, 4]),
    data=st.sampled_from([1, 4]),
    framework=st.sampled_from(["megatron", "torchtitan"]),
)
def test_a_step_is_the_sum_of_its_parts_and_never_beats_the_peak(
    tensor: int, pipeline: int, data: int, framework: str
) -> None:
    training = {"framework": framework, "distributed_optimizer": framework == "megatron" or None}
    found = step(training=training, parallelism={"tensor": tensor, "pipeline": pipeline, "data": data})
    assert found.seconds == pytest.approx(parts(found))
    assert 0 < found.mfu_fraction < 0.72
    assert found.tokens_per_second * found.seconds == pytest.approx(64 * 4096)
    assert (found.bubble_seconds > 0) == (pipeline > 1)


def test_twice_the_batch_takes_twice_the_computation_and_one_bubble() -> None:
    degrees = {"tensor": 2, "pipeline": 4, "data": 2}
    once, twice = (step(parallelism=degrees, training={"global_batch_size": batch}) for batch in (64, 128))
    assert twice.compute_seconds == pytest.approx(2 * once.compute_seconds)
    assert twice.bubble_seconds == once.bubble_seconds
    assert twice.optimizer_seconds == once.optimizer_seconds


def test_what_is_computed_again_takes_a_third_more_of_the_layers() -> None:
    none, full = (step("llama-3.1-70b", training={"recomputation": kind}) for kind in ("none", "full"))
    assert 1.25 < full.compute_seconds / none.compute_seconds < 1.33


def test_a_fraction_that_is_given_counts() -> None:
    half, whole = (step(training={"achieved": {"matrices": share}}) for share in (0.4, 0.8))
    assert half.compute_seconds > 1.5 * whole.compute_seconds
    with pytest.raises(InvalidInput, match=r"training\.achieved\.matrices"):
        step(training={"achieved": {"matrices": 1.2}})


def test_overlap_hides_what_computation_covers() -> None:
    degrees = {"tensor": 8, "data": 8}
    shown, hidden = (step(parallelism=degrees, training={"achieved": {"overlap": share}}) for share in (0, 1))
    assert hidden.exchange_seconds == 0 < shown.exchange_seconds


def test_fp8_is_faster_in_layers_alone() -> None:
    bf16, fp8 = (step(training={"precision": precision}) for precision in ("bf16-mixed", "fp8-mixed"))
    assert 0.5 < fp8.compute_seconds / bf16.compute_seconds < 0.8


def test_products_with_a_scale_for_each_block_are_as_much_faster_as_published() -> None:
    """The layers' products alone: what else a step does is the same."""
    kinds = ("bf16-mixed", "mxfp8-mixed", "nvfp4-mixed")
    bf16, mxfp8, nvfp4 = (step(node="dgx-b200", training={"precision": kind}).compute_seconds for kind in kinds)
    assert (bf16 - mxfp8) / (bf16 - nvfp4) == pytest.approx((1 - 1 / 1.44) / (1 - 1 / 2.03))
    assert 0.55 < nvfp4 / bf16 < 0.75


def test_a_gpu_without_block_scales_is_named_with_those_that_have_them() -> None:
    with pytest.raises(
        InvalidInput, match=r"training\.precision must be one in which h100 computes.* need b200, gb200"
    ):
        step(training={"precision": "nvfp4-mixed"})


def test_a_group_over_nodes_shares_their_adapters() -> None:
    """Eight of each node use all adapters, one of each its eighth."""
    links = Links(8, 8, 400e9, 400e9)
    together, apart = (links.collective_seconds(1e12, num_ranks=16, stride=stride) for stride in (1, 8))
    assert apart / together == pytest.approx(8, rel=1e-3)
    assert links.collective_seconds(1e12, num_ranks=8, stride=1) < together


def test_links_may_join_the_gpus_of_several_nodes() -> None:
    """A rack of 18 nodes: their adapters carry nothing until a group leaves it."""
    node, rack = (Links(4, joined, 400e9, 200e9) for joined in (4, 72))
    assert rack.collective_seconds(1e12, num_ranks=64, stride=1) < node.collective_seconds(1e12, num_ranks=64, stride=1)
    assert rack.send_seconds(1e9, stride=71) == 1e9 / 400e9
    assert rack.send_seconds(1e9, stride=72) == 1e9 / 50e9
    assert rack.exchange_seconds(1e9, num_ranks=144, stride=1) > rack.exchange_seconds(1e9, num_ranks=72, stride=1)


def test_a_rack_of_gb200_is_one_domain() -> None:
    spec = node_catalog()["dgx-gb200"].spec
    assert (spec.gpus_per_node, spec.num_linked_gpus) == (4, 72)
    assert node_catalog()["dgx-h100"].spec.num_linked_gpus == 8


def test_without_a_gpu_or_a_batch_no_time_is_told() -> None:
    document: dict[str, Any] = {"model": {"preset": "llama-3.1-8b"}, "training": TRAINING}
    node = {"gpus_per_node": 8, "gpu_memory_bytes": "80 GB"}
    assert answer(document | {"cluster": {"node_spec": node}}).training.step is None
    assert answer(document | {"cluster": {"node_spec": node | {"gpu": "H100"}}}).training.step is not None
    document["training"] = TRAINING | {"global_batch_size": None}
    assert answer(document).training.step is None


def test_each_gpu_has_fractions_with_a_source_and_each_node_a_gpu() -> None:
    assert set(published_fractions()) == set(gpu_catalog())
    for row in published_fractions().values():
        assert row["source"]
        assert not row.get("guess") or row["matrices"] == pytest.approx((row["low"] + row["high"]) / 2)
    assert {entry.spec.gpu for entry in node_catalog().values()} <= set(gpu_catalog())


def test_measured_runs_are_met_in_the_median_and_ranked_as_measured() -> None:
    *of_sources, median, ranked = (row for row in step_times() if row.part == "arithmetic")
    assert median.verdict == ranked.verdict == "agrees"
    assert 1 < (median.predicted or 0) < 1.2
    assert (ranked.predicted or 0) >= 0.9 * ranked.published
    assert ranked.published >= 7
    assert {row.verdict for row in of_sources} == {"agrees"}


def test_runs_that_a_scenario_does_not_tell_apart_are_no_pair() -> None:
    same, scenario = ("one",), {"model": "one"}
    runs = [Timed(scenario, same, 1.0, 2.0), Timed(scenario, same, 1.0, 1.0), Timed({"model": "two"}, same, 1.0, 3.0)]
    assert ranked_pairs(runs) == (0, 2)


def test_a_pair_in_the_wrong_order_is_counted() -> None:
    same = ("one",)
    runs = [Timed({}, same, 1.0, 2.0), Timed({"tensor": 2}, same, 3.0, 1.0), Timed({}, ("other",), 9.0, 1.0)]
    assert ranked_pairs(runs) == (0, 1)
