"""Time of a step: laws that any such estimate keeps, and what it is held against."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sizing.cluster.node import gpu_catalog, node_catalog
from sizing.errors import InvalidInput
from sizing.questions.layouts.answer import answer_layouts
from sizing.questions.layouts.request import LayoutsRequest
from sizing.report import answer
from sizing.training.gpu_rates import COMMUNICATION_SHARE, LINKS_FRACTION, NETWORK_FRACTION, published_fractions
from sizing.training.links import Links
from sizing.training.step_errors import ErrorGroup, StepErrors, step_errors
from sizing.training.step_time import StepTime
from sizing.validation.step_errors import compared_runs, held_out
from sizing.validation.step_times import TimedRun, ranked_pairs, step_times
from tests.examples import examples

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


@examples(20)
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
    assert twice.bubble_seconds == pytest.approx(once.bubble_seconds)
    assert twice.optimizer_seconds == once.optimizer_seconds


def test_what_is_computed_again_takes_a_third_more_of_the_layers() -> None:
    none, full = (step("llama-3.1-70b", training={"recomputation": kind}) for kind in ("none", "full"))
    assert 1.25 < full.compute_seconds / none.compute_seconds < 1.33


def test_a_fraction_that_is_given_counts() -> None:
    half, whole = (step(training={"achieved": {"matrices": share}}) for share in (0.4, 0.8))
    assert half.compute_seconds > 1.5 * whole.compute_seconds
    with pytest.raises(InvalidInput, match=r"training\.achieved\.matrices"):
        step(training={"achieved": {"matrices": 1.2}})


def test_gradients_hide_behind_the_last_backward_pass_and_weights_behind_the_first_forward_pass() -> None:
    degrees = {"tensor": 8, "data": 8}
    shown, hidden = (step(parallelism=degrees, training={"achieved": {"overlap": share}}) for share in (0, 1))
    of_a_microbatch = shown.compute_seconds / 8
    beside = (shown.exchange_seconds - hidden.exchange_seconds) / (1 - COMMUNICATION_SHARE)
    assert 0.9 * of_a_microbatch < beside <= of_a_microbatch


@pytest.mark.parametrize(
    ("node", "share"), [("dgx-h100", COMMUNICATION_SHARE), ("tpu-v5p", 0.0)], ids=["multiprocessors", "own-engines"]
)
@pytest.mark.parametrize("name", ["layers", "chunks", "context"])
def test_what_an_exchange_takes_from_computing_beside_it_is_counted(name: str, node: str, share: float) -> None:
    setups: dict[str, tuple[dict[str, int], dict[str, Any]]] = {
        "layers": ({"data": 8}, {"framework": "fsdp2", "distributed_optimizer": None}),
        "chunks": ({"tensor": 2, "pipeline": 4, "virtual_pipeline": 4, "data": 2}, {}),
        "context": ({"context": 8}, {"sequence_length": 65_536, "global_batch_size": 8}),
    }
    degrees, of_training = setups[name]
    exchange = "context" if name == "context" else "gradients"
    shown, hidden = (
        step(node=node, parallelism=degrees, training=of_training | {"achieved": {"overlap": {exchange: each}}})
        for each in (0, 1)
    )
    part = "waiting_seconds" if name == "context" else "exchange_seconds"
    assert getattr(hidden, part) == pytest.approx(share * getattr(shown, part))
    assert shown.seconds - hidden.seconds == pytest.approx(getattr(shown, part) - getattr(hidden, part))


def test_tensor_ranks_that_do_not_share_a_sequence_move_the_norms_of_all_tokens_and_gather_nothing_again() -> None:
    """8 of 10 collectives a layer; norms and sums of all tokens on each of t ranks. Korthikanti et al. 2022, 4.2.2."""
    shared, whole = (
        step("llama-3.1-70b", parallelism={"tensor": 8}, training={"sequence_parallel": each}) for each in (True, False)
    )
    assert whole.waiting_seconds == pytest.approx(0.8 * shared.waiting_seconds)
    num_bytes = 2 * (1 - 1 / 8) * 80 * 2 * 5 * 8192  # of a token, in both norms and sums of each layer
    rate = gpu_catalog()["h100"].memory_bytes_per_second * published_fractions()["h100"]["memory"]
    longer = 3 * 64 * 4096 * num_bytes / rate  # forward once, backward twice, in 64 microbatches
    assert whole.compute_seconds - shared.compute_seconds == pytest.approx(longer)
    of_norms = [
        step(
            "llama-3.1-70b",
            parallelism={"tensor": 8},
            training={"sequence_parallel": each, "recompute_modules": ["layernorm"]},
        ).compute_seconds
        - before.compute_seconds
        for each, before in ((True, shared), (False, whole))
    ]
    assert of_norms[1] == pytest.approx(8 * of_norms[0])
    assert of_norms[0] == pytest.approx(longer * (2 / 5) / 3 / 7)  # read and written again once, by an eighth each


def exchanged(framework: str, *, num_microbatches: int = 1, overlap: float = 0, **degrees: int) -> float:
    """Seconds in which 16 GPUs of two nodes exchange gradients and weights of 8 billion parameters, one by one."""
    training = {"framework": framework, "distributed_optimizer": None, "global_batch_size": 16 * num_microbatches}
    found = step(training=training | {"achieved": {"overlap": overlap}}, parallelism={"data": 16} | degrees)
    return found.exchange_seconds


PARAMETERS = 8_030_261_248
LINK, ADAPTERS = LINKS_FRACTION * 450e9, NETWORK_FRACTION * 8 * 50e9
"""Bytes per second of an H100's link, and of the adapters of a DGX H100."""


def test_what_ranks_shard_is_reduced_in_each_microbatch() -> None:
    """DeepSpeed 0.19.8, engine.py, allreduce_gradients: from ZeRO 2 on; ZeRO 1 and accelerate's no_sync wait."""
    for stage, num_reductions in ((1, 1), (2, 8)):
        once, eight = (exchanged("deepspeed", num_microbatches=m, zero_stage=stage) for m in (1, 8))
        assert eight == pytest.approx(once * (num_reductions + 1) / 2, rel=1e-3)  # as many bytes as weights
    fsdp, deferred = (exchanged(each, num_microbatches=8, shard_group=16) for each in ("fsdp2", "accelerate"))
    assert (fsdp - deferred) / fsdp == pytest.approx(7 * 4 / (8 * (4 + 2 * 2)), rel=1e-3)


def test_gradients_of_each_microbatch_hide_behind_its_backward_pass() -> None:
    shown, hidden = (exchanged("deepspeed", num_microbatches=8, zero_stage=2, overlap=share) for share in (0, 1))
    assert (shown - hidden) / (1 - COMMUNICATION_SHARE) > 7 / 8 * shown


def test_a_shard_group_exchanges_over_its_own_links_and_shares_with_other_groups() -> None:
    """Of P parameters in groups of g, 4 bytes are reduced and twice 2 gathered over the links that a group spans; 1/g of
    the gradients is then all-reduced, twice, over the adapter of each GPU."""
    eight = 8 * PARAMETERS * 7 / 8 / LINK + 2 * 4 * PARAMETERS / 8 * 1 / 2 / (ADAPTERS / 8)
    assert exchanged("fsdp2", shard_group=8) == pytest.approx(eight, rel=5e-3)
    of_four = 8 * PARAMETERS * 3 / 4 / LINK + 2 * 4 * PARAMETERS / 4 * 3 / 4 / (ADAPTERS / 4)
    assert exchanged("fsdp2", shard_group=4) == pytest.approx(of_four, rel=5e-3)
    assert exchanged("fsdp2", shard_group=16) == exchanged("fsdp2")
    assert exchanged("fsdp2", shard_group=1) == pytest.approx(exchanged("ddp"), rel=1e-3)
    one, four = (exchanged("fsdp2", num_microbatches=m, shard_group=8) for m in (1, 4))
    assert four == pytest.approx(4 * one, rel=5e-3)


EXCHANGES = {
    "tensor": {"tensor": 8},
    "expert": {"expert": 8, "data": 8},
    "pipeline": {"pipeline": 4, "data": 2},
    "context": {"context": 8},
}


@pytest.mark.parametrize("name", EXCHANGES)
def test_each_exchange_is_hidden_by_its_own_fraction_and_never_more_than_there_is_computing(name: str) -> None:
    model = "qwen3-30b-a3b" if name == "expert" else "llama-3.1-8b"

    def timed(share: float, **of_step: Any) -> StepTime:
        achieved = {"achieved": {"overlap": {name: share}, "links": 0.05, "network": 0.05}}
        return step(model, training=achieved | of_step, parallelism=EXCHANGES[name])

    shown, half, hidden = (timed(share) for share in (0, 0.5, 1))
    assert shown.waiting_seconds - hidden.waiting_seconds == pytest.approx(
        2 * (shown.waiting_seconds - half.waiting_seconds), rel=1e-6
    )
    assert 0 <= hidden.waiting_seconds < shown.waiting_seconds
    assert shown.waiting_seconds - hidden.waiting_seconds <= shown.compute_seconds
    assert hidden.seconds < shown.seconds


def test_a_number_alone_is_the_overlap_of_gradients() -> None:
    degrees = {"tensor": 8, "data": 8}
    by_name, alone = (
        step(parallelism=degrees, training={"achieved": {"overlap": each}}) for each in ({"gradients": 0.3}, 0.3)
    )
    assert by_name == alone


def test_what_is_assumed_to_be_hidden_is_stated_with_its_source() -> None:
    training = TRAINING | {"global_batch_size": 128, "schedule": "dualpipe"}
    document = {"model": {"preset": "deepseek-v3"}, "training": training, "cluster": {"node": "dgx-h100"}}
    degrees = {"tensor": 2, "pipeline": 4, "data": 8, "expert": 8}
    stated = {each.field: each for each in answer(document | {"parallelism": degrees}).assumptions}
    path = "training.achieved.overlap."
    values = {name.removeprefix(path): each.value for name, each in stated.items() if name.startswith(path)}
    assert values == {"gradients": 0.0, "tensor": 0.0, "pipeline": 1.0, "expert": 1.0}
    assert "2412.19437" in stated[path + "expert"].reason
    assert "--tp-comm-overlap" in stated[path + "tensor"].reason


def test_two_microbatches_at_once_hide_the_exchanges_of_each_other() -> None:
    degrees, training = {"pipeline": 4, "data": 8, "expert": 8}, {"global_batch_size": 512}
    waited = {
        name: step("deepseek-v2-lite", parallelism=degrees, training=training | {"schedule": name}).waiting_seconds
        for name in ("1f1b", "dualpipe")
    }
    assert 0 < waited["dualpipe"] < 0.5 * waited["1f1b"]


def test_fp8_is_faster_in_layers_alone() -> None:
    bf16, fp8 = (step(training={"precision": precision}) for precision in ("bf16-mixed", "fp8-mixed"))
    assert 0.5 < fp8.compute_seconds / bf16.compute_seconds < 0.8


def test_products_with_a_scale_for_each_block_are_faster_by_the_midpoints_of_their_ranges() -> None:
    """The layers' products alone: what else a step does is the same."""
    kinds = ("bf16-mixed", "mxfp8-mixed", "nvfp4-mixed")
    bf16, mxfp8, nvfp4 = (step(node="dgx-b200", training={"precision": kind}).compute_seconds for kind in kinds)
    midpoints = (1.44 + 2) / 2, (2.03 + 4) / 2
    assert (bf16 - mxfp8) / (bf16 - nvfp4) == pytest.approx((1 - 1 / midpoints[0]) / (1 - 1 / midpoints[1]))
    assert 0.4 < nvfp4 / bf16 < 0.6


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


def test_exchanges_pass_a_guessed_network_where_none_is_published() -> None:
    blocks: dict[str, Any] = {"parallelism": {"data": 64, "expert": 64}}
    times = {node: step("qwen3-30b-a3b", node=node, **blocks) for node in ("hgx-h100", "dgx-h100", "gcp-a3-high")}
    guessed = times["hgx-h100"]
    assert guessed.seconds == times["dgx-h100"].seconds  # the median of H100 nodes: 8 x 400 Gb/s
    assert guessed.seconds_low == times["dgx-h100"].seconds_low
    assert guessed.seconds_high == pytest.approx(times["gcp-a3-high"].seconds_high)  # the slowest of them
    document = {"model": {"preset": "qwen3-30b-a3b"}, "training": TRAINING, "cluster": {"node": "hgx-h100"}}
    report = answer(document | blocks)
    assert any("network between nodes of hgx-h100" in warning for warning in report.warnings)
    field = "cluster.node_spec.compute_network_bytes_per_second"
    assert [each.value for each in report.assumptions if each.field == field] == [400e9]
    alone = answer(document | {"parallelism": {"data": 8, "expert": 8}})
    assert field not in {each.field for each in alone.assumptions}
    assert not any("network between nodes" in warning for warning in alone.warnings)


def test_each_gpu_has_fractions_with_a_source_and_each_node_a_gpu() -> None:
    assert set(published_fractions()) == set(gpu_catalog())
    for row in published_fractions().values():
        assert row["source"]
        assert not row.get("guess") or row["matrices"] == pytest.approx((row["low"] + row["high"]) / 2)
    assert {entry.spec.gpu for entry in node_catalog().values()} <= set(gpu_catalog())


def test_where_what_a_gpu_achieves_is_a_guess_its_range_is_stated_and_widens_that_of_the_step() -> None:
    """Of TPU v5p nobody published products by shape: 0.319 of MI300X to 0.901 of TPU v6e."""
    batch = {"sequence_length": 8192, "micro_batch_size": 1, "global_batch_size": 512, "framework": "maxtext"}
    document = {"model": {"preset": "llama-3.1-70b"}, "parallelism": {"data": 512}, "cluster": {"node": "tpu-v5p"}}
    guessed, given = (answer(document | {"training": batch | more}) for more in ({}, {"achieved": {"matrices": 0.61}}))
    wide, narrow = guessed.training.step, given.training.step
    assert wide is not None
    assert narrow is not None
    assert wide.seconds_low / narrow.seconds_low == pytest.approx(0.61 / 0.901)
    assert wide.seconds_high / narrow.seconds_high == pytest.approx(0.61 / 0.319)
    [stated] = (each for each in guessed.assumptions if each.field == "training.achieved.matrices")
    assert (stated.value, "from 0.319 to 0.901" in stated.reason) == (0.61, True)
    assert not any(each.field == "training.achieved.matrices" for each in given.assumptions)


def test_mi355x_computes_in_blocks_of_8_bits_and_not_in_nvfp4() -> None:
    fast, plain = (
        step(parallelism={"data": 8}, training={"precision": each}, node="mi355x-x8")
        for each in ("mxfp8-mixed", "bf16-mixed")
    )
    assert fast.compute_seconds < 0.8 * plain.compute_seconds
    with pytest.raises(
        InvalidInput, match=r"training\.precision must be one in which mi355x computes.* need b200, gb200"
    ):
        step(parallelism={"data": 8}, training={"precision": "nvfp4-mixed"}, node="mi355x-x8")


def test_measured_runs_are_met_in_the_median_and_ranked_as_measured() -> None:
    *of_sources, median, ranked = (row for row in step_times() if row.part == "arithmetic")
    assert median.verdict == ranked.verdict == "agrees"
    assert 1 < (median.predicted or 0) < 1.2
    assert (ranked.predicted or 0) >= 0.9 * ranked.published
    assert ranked.published >= 7
    assert {row.verdict for row in of_sources} == {"agrees"}


def test_runs_that_a_scenario_does_not_tell_apart_are_no_pair() -> None:
    same, scenario = ("one",), {"model": "one"}
    runs = [
        TimedRun(scenario, same, 1.0, 2.0),
        TimedRun(scenario, same, 1.0, 1.0),
        TimedRun({"model": "two"}, same, 1.0, 3.0),
    ]
    assert ranked_pairs(runs) == (0, 2)


def test_a_pair_in_the_wrong_order_is_counted() -> None:
    same = ("one",)
    runs = [TimedRun({}, same, 1.0, 2.0), TimedRun({"tensor": 2}, same, 3.0, 1.0), TimedRun({}, ("other",), 9.0, 1.0)]
    assert ranked_pairs(runs) == (0, 1)


def test_deepep_sends_a_token_once_to_each_node_and_in_8_bits_on_its_way_there() -> None:
    degrees, kinds = {"data": 64, "expert": 64}, ("all-to-all", "deepep")
    training = {"precision": "fp8-mixed", "achieved": {"network": 0.1}}
    waited = [
        step("deepseek-v3", parallelism=degrees, training=training | {"expert_dispatch": kind}).waiting_seconds
        for kind in kinds
    ]
    once = 7 * (1 - (7 / 8) ** 8) / (8 * 7 / 8)
    assert waited[1] / waited[0] == pytest.approx(once * (1 + 0.5) / 2, rel=2e-3)


def test_selective_recomputation_takes_the_time_of_what_it_computes_again() -> None:
    """Korthikanti et al. 2022, section 5: 2.7 % of the operations of GPT-3 with eager attention."""
    degrees = {"tensor": 8, "pipeline": 8, "data": 8}
    training = {"attention": "eager", "sequence_length": 2048, "global_batch_size": 512}
    compute = {
        (kind, how): step(
            "gpt3-175b", parallelism=degrees, training=training | {"recomputation": kind, "attention": how}
        )
        for how in ("eager", "flash")
        for kind in ("none", "selective")
    }
    none, selective, *flash = (each.compute_seconds for each in compute.values())
    assert 1.01 < selective / none < 1.05
    assert flash[0] == flash[1] < none
    latent, of_deepseek = {"tensor": 1, "pipeline": 4, "data": 8, "expert": 8}, []
    modules = {"recompute_modules": ["layernorm", "mla-up-proj", "moe-act"]}
    for how in ({"recomputation": "none"}, modules, {"recomputation": "full"}):
        found = step("deepseek-v3", parallelism=latent, training=how | {"global_batch_size": 64})
        of_deepseek.append(found.compute_seconds)
    assert of_deepseek[0] < of_deepseek[1] < 0.6 * of_deepseek[0] + 0.4 * of_deepseek[2]


def test_a_step_has_the_range_of_measured_runs_like_it_and_of_all_where_nothing_like_it_was_measured() -> None:
    inside, outside = step(), step(training={"precision": "fp16-mixed"})
    assert inside.not_compared == ()
    assert inside.seconds_low < inside.seconds < inside.seconds_high
    assert outside.not_compared == ("precision fp16-mixed on h100",)
    errors = step_errors()
    assert outside.seconds_high / outside.seconds == pytest.approx(errors.extremes[False].high)
    assert inside.seconds_high / inside.seconds == pytest.approx(errors.by_gpu[False, "h100"].high)
    [long] = step(training={"sequence_length": 524_288, "global_batch_size": 8}).not_compared
    assert long == "sequences of 524,288 tokens"


def _rounded(group: ErrorGroup) -> ErrorGroup:
    return group._replace(low=round(group.low, 3), high=round(group.high, 3))


def test_the_stored_errors_are_those_of_the_runs_and_most_held_out_runs_lie_in_them() -> None:
    """`scripts/step-errors` writes them anew."""
    stored, found = step_errors(), StepErrors.of(compared_runs())
    assert stored.compared == found.compared
    assert stored.by_gpu == {key: _rounded(group) for key, group in found.by_gpu.items()}
    assert stored.by_kind == {key: _rounded(group) for key, group in found.by_kind.items()}
    assert stored.extremes == {key: _rounded(group) for key, group in found.extremes.items()}
    publishers = [each for each in held_out() if each.num_runs >= 8]
    assert len(publishers) == 6
    assert sum(each.num_inside for each in publishers) >= 0.85 * sum(each.num_runs for each in publishers)
    assert all(each.num_inside >= 0.75 * each.num_runs and each.median_error < 0.18 for each in publishers)


def test_frozen_weights_have_no_gradients_to_compute_or_to_exchange() -> None:
    """Of three products of each matrix in a step one is left out; adapters of rank 16 are 0.1 % of the matrices."""
    of_fsdp = {"framework": "fsdp2", "distributed_optimizer": None, "recomputation": "none"}
    whole, adapted = (
        step(training=of_fsdp | more, parallelism={"data": 8}) for more in ({}, {"adapters": {"rank": 16}})
    )
    assert 2 / 3 < adapted.compute_seconds / whole.compute_seconds < 0.8  # attention and norms are as long as before
    assert 0.85 < adapted.mfu_fraction / whole.mfu_fraction < 1
    by_ddp = {"framework": "ddp", "distributed_optimizer": None, "sequence_length": 1024}
    copies: dict[str, Any] = {"parallelism": {"data": 64}, "training": by_ddp}
    frozen = copies | {"training": by_ddp | {"adapters": {"rank": 16}}}
    assert step("gpt2", **frozen).exchange_seconds < 0.1 * step("gpt2", **copies).exchange_seconds


@pytest.mark.parametrize("name", ["attention", "ffn", "output_head"])
def test_what_is_frozen_takes_its_part_of_the_time_alone(name: str) -> None:
    frozen, whole = (step(training={"frozen": names}, parallelism={"data": 2}) for names in ([name], []))
    every = step(training={"frozen": ["attention", "ffn", "output_head"]}, parallelism={"data": 2})
    assert every.compute_seconds < frozen.compute_seconds < whole.compute_seconds


def test_the_step_of_a_policy_is_told_alone_beside_its_critic() -> None:
    degrees = {"tensor": 8, "data": 2}
    alone, beside = (
        step(parallelism=degrees, training=models)
        for models in ({}, {"reinforcement": {"critic_parameters": 8_000_000_000}})
    )
    assert beside == alone
    training: dict[str, Any] = TRAINING | {"framework": "fsdp2", "distributed_optimizer": None}
    training |= {"reinforcement": {"critic_parameters": 8_000_000_000}}
    searched = {"model": {"preset": "llama-3.1-8b"}, "training": training, "cluster": {"num_gpus": 16}}
    found = answer_layouts(LayoutsRequest.model_validate({"scenario": searched})).layouts[0]
    assert found.step_seconds == step(training=training, parallelism=found.parallelism.model_dump()).seconds
