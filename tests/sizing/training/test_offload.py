"""What lies off the GPU: DeepSpeed's own estimates, laws, and what a save then copies."""

import itertools
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sizing.errors import InvalidInput
from sizing.model import catalog
from sizing.report import SizingReport, answer
from sizing.training.in_flight import gathered_by_zero3
from sizing.training.links import HostRates, HostTraffic, waited_seconds
from sizing.training.offload import (
    area_of_absence,
    chain_of,
    choose_to_swap_out,
    duration_of_absence,
    peak_bytes,
)
from tests.examples import examples

ESTIMATES = json.loads((Path(__file__).parent / "deepspeed_estimates.json").read_text())
BUFFER_FACTOR = 1.5
"""Of DeepSpeed's estimates of host memory, by default."""


def asked(offload: dict[str, Any] | None, **blocks: Any) -> SizingReport:
    """A model of 8 billion parameters with DeepSpeed on 16 GPUs."""
    training = {"framework": "deepspeed", **blocks.pop("training", {})} | ({"offload": offload} if offload else {})
    scenario: dict[str, Any] = {
        "model": {"preset": "llama-3.1-8b"},
        "training": training,
        "parallelism": {"data": 16, "zero_stage": 3},
        "cluster": {"node": "dgx-h100"},
        "checkpoint": {"mode": "async"},
        "storage": {"profile": {"write_bytes_per_second": "100 GB/s"}},
    }
    return answer(scenario | blocks)


def estimated(row: dict[str, Any]) -> tuple[float, float]:
    """Host and GPU bytes of a row of the estimates, by this project."""
    offload = {"optimizer": "host"} | ({"weights": "host"} if row["offload_param"] else {})
    report = answer(
        {
            "model": {"preset": "gpt2-xl"},
            "training": {"framework": "deepspeed", "offload": offload},
            "parallelism": {"data": row["gpus_per_node"] * row["num_nodes"], "zero_stage": row["zero_stage"]},
            "cluster": {"node_spec": {"gpus_per_node": row["gpus_per_node"]}},
        }
    )
    assert report.offload is not None
    has_gathered = row["zero_stage"] == 3
    gathered = gathered_by_zero3(catalog()["gpt2-xl"].inventory, value_bytes=2, tensor=1).num_bytes
    return report.offload.host_bytes, report.training.gpu_state_bytes + gathered * has_gathered


@pytest.mark.parametrize("row", ESTIMATES["rows"], ids=lambda row: "-".join(map(str, list(row.values())[:5])))
def test_state_lies_where_the_estimates_of_deepspeed_say(row: dict[str, Any]) -> None:
    """Each node its share. The estimate of ZeRO 2 counts the host memory of all nodes as one, and of more than 4 GPUs
    the copies of the model with which they begin."""
    host, gpu = estimated(row)
    assert gpu == pytest.approx(row["gpu_bytes"], rel=1e-9)
    num_gpus = row["gpus_per_node"] * row["num_nodes"]
    if row["zero_stage"] == 3 or num_gpus <= 4:
        assert host * BUFFER_FACTOR == pytest.approx(row["host_bytes"], rel=1e-6)
    else:
        assert host * BUFFER_FACTOR * row["num_nodes"] * 4 * num_gpus / 16 == pytest.approx(row["host_bytes"], rel=1e-6)


_CALLS = """
import json, sys
from deepspeed.runtime.zero.stage3 import estimate_zero3_model_states_mem_needs as three
from deepspeed.runtime.zero.stage_1_and_2 import estimate_zero2_model_states_mem_needs as two
facts, found = json.load(open(sys.argv[1])), []
for row in facts["rows"]:
    gpus = {"num_gpus_per_node": row["gpus_per_node"], "num_nodes": row["num_nodes"], "cpu_offload": True}
    if row["zero_stage"] == 3:
        largest = facts["largest_layer_params"]
        found.append(three(facts["total_params"], largest, cpu_offload_params=row["offload_param"], **gpus)[:2])
    else:
        found.append(two(facts["total_params"], **gpus))
print(json.dumps(found))
"""


@pytest.mark.long
def test_the_recorded_estimates_are_those_that_deepspeed_gives() -> None:
    path = Path(__file__).parent / "deepspeed_estimates.json"
    done = subprocess.run([sys.executable, "-c", _CALLS, str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"deepspeed is missing or failed, run scripts/test long: {done.stderr[-2000:]}"
    found = json.loads(done.stdout.splitlines()[-1])
    assert found == [[row["host_bytes"], row["gpu_bytes"]] for row in ESTIMATES["rows"]]


def test_zero_offload_leaves_two_bytes_of_sixteen_on_the_gpu() -> None:
    """Ren et al. 2021: fp16 weights stay, gradients and optimizer go; DeepSpeed keeps gradients in fp32 there, and sends
    them in fp32: 0.19.8, stage_1_and_2.py, async_inplace_copy_grad_to_fp32_buffer_from_gpu."""
    report = asked({"optimizer": "host"}, parallelism={"data": 8, "zero_stage": 2})
    num_parameters = report.model.num_parameters
    assert report.training.gpu_state_bytes == 2 * num_parameters
    assert report.offload is not None
    assert report.offload.host_bytes == (12 + 4) * num_parameters
    assert report.offload.state_step_bytes == pytest.approx((4 + 2) * num_parameters / 8, abs=1)


@pytest.mark.parametrize("num_microbatches", [1, 2, 8])
def test_gradients_of_each_microbatch_pass_the_link(num_microbatches: int) -> None:
    """Bytes per parameter: fp32 sums and 16-bit weights once; 16-bit sums out, and in to be added to. ZeRO 2 skips them
    with one microbatch, ZeRO 3 brings them back in the first one too. FSDP2 has fp32 weights in twice, gradients out."""
    m, share = num_microbatches, 8_030_261_248 / 8

    def passed(framework: str, offload: dict[str, Any], degrees: dict[str, Any], **training: Any) -> float:
        batch = {"framework": framework} | STEP | {"global_batch_size": 8 * m} | training
        found = asked(offload, training=batch, parallelism={"data": 8} | degrees, checkpoint={}).offload
        assert found is not None
        return found.state_step_bytes / share

    optimizer, both = {"optimizer": "host"}, {"optimizer": "host", "weights": "host"}
    zero_2 = 4 + 2 + (2 * m + 2 * (m - 1) if m > 1 else 0)
    assert passed("deepspeed", optimizer, {"zero_stage": 2}) == pytest.approx(zero_2, rel=1e-6)
    assert passed("deepspeed", optimizer, {"zero_stage": 3}) == pytest.approx(4 + 2 + 4 * m, rel=1e-6)
    for recomputation in ("none", "full"):
        found = passed("fsdp2", both, {}, recomputation=recomputation)
        assert found == pytest.approx(2 * 4 * m + 4 * m, rel=1e-6)
    assert passed("accelerate", both, {"shard_group": 8}) == pytest.approx(2 * 4 * m + 4, rel=1e-6)


def test_a_stage_that_keeps_its_weights_gathered_loads_them_once() -> None:
    """torch/distributed/pipelining/stage.py reshards and reduces behind the last backward pass alone."""
    training = {"framework": "fsdp2"} | STEP
    degrees = {"data": 8, "pipeline": 2}
    found = asked(ALL_ON_THE_HOST, training=training, parallelism=degrees, checkpoint={})
    few = asked(ALL_ON_THE_HOST, training=training | {"global_batch_size": 16}, parallelism=degrees, checkpoint={})
    assert found.offload is not None
    assert few.offload is not None
    assert found.offload.state_step_bytes == few.offload.state_step_bytes


def test_the_backward_pass_of_fsdp2_waits_for_the_gradients_of_each_further_microbatch() -> None:
    """foreach_reduce: a copy that is added to gradients on the host is no asynchronous one."""
    slow, fast = (waited(ALL_ON_THE_HOST | {"link_bytes_per_second": rate}, "fsdp2") for rate in ("1 TB/s", "2 TB/s"))
    saved = slow - fast
    assert saved == pytest.approx(3 * 4 * 8_030_261_248 / 8 / 2e12, rel=1e-6)


def test_zero_infinity_keeps_the_optimizer_on_the_drives_and_weights_on_the_host() -> None:
    found = asked({"optimizer": "nvme", "weights": "host"}).offload
    assert found is not None
    num_parameters = 8_030_261_248
    assert (found.nvme_bytes, found.host_bytes) == (16 * num_parameters / 2, 2 * num_parameters / 2)
    assert found.nvme_fits is True


@pytest.mark.parametrize(
    ("framework", "offload", "left", "on_host"),
    [
        ("megatron", {"optimizer": "host"}, 2 + 4, 12 + 4),
        ("megatron", {"optimizer": "host", "optimizer_fraction": 0.5}, 2 + 4 + 6 / 8, 6 + 2),
        ("fsdp2", {"optimizer": "host", "weights": "host"}, 0, 16),
        ("maxtext", {"optimizer": "host"}, 8 / 8, 8),
        ("maxtext", {"weights": "host"}, 12 / 8, 4),
    ],
)
def test_each_framework_offloads_what_it_can(
    framework: str, offload: dict[str, Any], left: float, on_host: float
) -> None:
    """Bytes per parameter on one of 8 GPUs, and of all of them on the host; gradients stay in Megatron and MaxText."""
    training: dict[str, Any] = {"framework": framework}
    if framework == "megatron":
        training["distributed_optimizer"] = True
    checkpoint = {"format": "torch-dist"} if framework == "megatron" else {}
    shard = {"shard_group": 8} if framework == "maxtext" else {}
    report = asked(offload, training=training, parallelism={"data": 8} | shard, checkpoint=checkpoint)
    num_parameters = report.model.num_parameters
    assert report.offload is not None
    assert report.training.gpu_state_bytes == pytest.approx(left * num_parameters, rel=1e-6)
    assert report.offload.host_bytes == pytest.approx(on_host * num_parameters, rel=1e-6)


STEP: dict[str, Any] = {"sequence_length": 2048, "micro_batch_size": 1, "global_batch_size": 32}
PLACES = st.sampled_from(["none", "host", "nvme"])


@examples(25)
@given(
    optimizer=PLACES,
    weights=PLACES,
    activations=st.none() | st.floats(0.01, 1.0),
    fraction=st.floats(0.01, 1.0),
    zero_stage=st.integers(0, 3),
)
def test_offload_never_adds_to_a_gpu_and_loses_no_byte(
    optimizer: str, weights: str, activations: float | None, fraction: float, zero_stage: int
) -> None:
    offload: dict[str, Any] = {"optimizer": optimizer, "weights": weights, "activations_fraction": activations}
    if optimizer != "none":
        offload["optimizer_fraction"] = fraction
    degrees = {"data": 16, "zero_stage": zero_stage}
    if zero_stage < 3 and (optimizer != "none" or weights != "none"):
        zero_stage = degrees["zero_stage"] = 3
    report = asked(offload, training=STEP, parallelism=degrees)
    whole = asked(None, training=STEP, parallelism=degrees)
    found = report.offload
    assert found is not None
    assert found.freed_bytes == whole.training.needed_bytes - report.training.needed_bytes
    assert found.freed_bytes >= 0
    assert 8 * found.freed_bytes <= found.host_bytes + found.nvme_bytes + 8
    assert report.checkpoint == whole.checkpoint


def test_what_lies_on_the_host_is_not_copied_from_the_gpu_in_a_save() -> None:
    """ZeRO 2 with the optimizer on the host: rank 0 copies all weights, others nothing; without it also its share."""
    degrees = {"data": 16, "zero_stage": 2}
    whole, off = (asked(offload, parallelism=degrees) for offload in (None, {"optimizer": "host"}))
    num_parameters, rate = whole.model.num_parameters, 0.47 * 63e9
    assert whole.write is not None
    assert off.write is not None
    assert off.write.stalled_by_copy_seconds == pytest.approx(2 * num_parameters / rate)
    assert whole.write.stalled_by_copy_seconds == pytest.approx((2 + 12 / 16) * num_parameters / rate)
    assert off.offload is not None
    assert off.offload.uncopied_fraction == pytest.approx(12 / 14)
    assert any("85.7 % of the checkpoint lies off the GPU already" in warning for warning in off.warnings)


def test_nothing_is_copied_where_all_state_lies_on_the_host() -> None:
    offload = {"optimizer": "host", "weights": "host"}
    off = asked(offload, training={"framework": "fsdp2"}, parallelism={"data": 16})
    assert off.write is not None
    assert (off.write.stalled_by_copy_seconds, off.write.stall_seconds) == (0, off.write.stalled_by_planning_seconds)
    assert off.host_memory.staged_bytes == pytest.approx(off.checkpoint.total_bytes / 2, rel=1e-6)
    assert off.host_memory.offloaded_bytes == pytest.approx(8 * off.model.num_parameters, rel=1e-6)


ALL_ON_THE_HOST: dict[str, Any] = {"optimizer": "host", "weights": "host"}
FAILS = {"mtbf_seconds": "9h"}


def test_saves_that_stall_nothing_are_best_made_one_after_the_other() -> None:
    report = asked(ALL_ON_THE_HOST, reliability=FAILS)
    assert report.write is not None
    assert report.write.stall_seconds == 0
    assert report.interval.optimal_period_seconds == pytest.approx(report.write.drain_seconds)


def test_a_tier_in_host_memory_copies_what_lies_there_too() -> None:
    tier = {"kind": "host-memory", "interval_seconds": "10min", "recovered_fraction": 0.5}
    with_tier = {"checkpoint": {"mode": "async", "tiers": [tier]}, "reliability": FAILS}
    whole, off = (asked(offload, **with_tier) for offload in (None, ALL_ON_THE_HOST))
    assert off.tiers[0].stall_seconds == whole.tiers[0].stall_seconds > 0
    assert off.required.device_to_host_bytes_per_second == whole.required.device_to_host_bytes_per_second


def test_copies_of_activations_hide_behind_the_layer_as_far_as_the_link_goes() -> None:
    """A layer of Llama 3.1 8B keeps (2 (6 + 2) h + 2 x 2.5 h + 2 x 4 f) s bytes; at 29.61 GB/s half of it takes 6.9 ms.

    Eager norms keep an fp32 input and two results, gated activations four tensors. Beside the layers the inputs of the
    last norm and of the head leave the GPU, 2 x 2 h s bytes, but no logits, which wait for nothing but the loss.
    """
    kept = 2048 * (16 * 4096 + 5 * 4096 + 8 * 14_336)
    offload = {"activations_fraction": 0.5, "layer_seconds": 0.002}
    found = asked(offload, training=STEP).offload
    assert found is not None
    assert found.layer_activation_bytes == kept
    assert found.hidden_fraction == pytest.approx(0.002 * 0.47 * 63e9 / kept)
    assert found.exposed_seconds == pytest.approx(0.5 * kept / (0.47 * 63e9) - 0.002)
    logits = 2048 * 4 * 128_256
    leaving = (asked(None, training=STEP).training.activation_bytes or 0) - logits
    assert leaving == 32 * kept + 2048 * 4 * 4096
    assert found.freed_bytes == pytest.approx(leaving / 2, abs=1)
    assert found.host_bytes == pytest.approx(8 * leaving / 2, abs=8)


@pytest.mark.parametrize(
    ("training", "degrees", "offload", "said"),
    [
        (
            {"framework": "megatron"},
            {},
            {"weights": "host"},
            "training.offload.weights must be one of none with framework",
        ),
        ({"framework": "megatron"}, {}, {"optimizer": "host"}, "needs training.distributed_optimizer"),
        ({"framework": "megatron"}, {}, {"optimizer": "nvme"}, "must be one of none, host with framework megatron"),
        ({"framework": "fsdp2"}, {}, {"optimizer": "host"}, "must have optimizer and weights in one place"),
        ({}, {"zero_stage": 2}, {"weights": "host"}, "parallelism.zero_stage must be 3 or more"),
        ({}, {"zero_stage": 0}, {"optimizer": "host"}, "parallelism.zero_stage must be 1 or more"),
        ({}, {"zero_stage": 2}, {"optimizer": "nvme"}, "parallelism.zero_stage must be 3 or more"),
        ({}, {}, {"optimizer_fraction": 0.5}, "has optimizer_fraction without optimizer"),
        ({}, {}, {"activations_fraction": 0.5}, "has offload.activations_fraction without micro_batch_size"),
    ],
)
def test_what_a_framework_cannot_offload_is_refused(
    training: dict[str, Any], degrees: dict[str, int], offload: dict[str, Any], said: str
) -> None:
    with pytest.raises(InvalidInput, match=said.replace(".", r"\.")):
        asked(offload, training=training, parallelism={"data": 16, **degrees}, checkpoint={})


def test_without_offload_there_is_no_block() -> None:
    assert asked(None).offload is None


SIZES = st.lists(st.integers(1, 9), min_size=1, max_size=7)


@pytest.mark.parametrize("score", [duration_of_absence, area_of_absence])
@examples(60)
@given(sizes=SIZES, room=st.integers(1, 40))
def test_the_swapped_tensors_leave_the_room_wherever_any_choice_does(score: Any, sizes: list[int], room: int) -> None:
    """Against every choice of tensors: one that fits exists just where all swapped fit, and no choice moves less."""
    tensors = chain_of([float(size) for size in sizes])
    numbers = range(len(tensors))
    choices = itertools.chain.from_iterable(itertools.combinations(numbers, n) for n in range(len(tensors) + 1))
    fitting = [sum(sizes[i] for i in some) for some in choices if peak_bytes(tensors, some) <= room]
    found = choose_to_swap_out(tensors, room_bytes=room, score=score)
    assert (found is not None) == bool(fitting)
    if found is not None:
        assert peak_bytes(tensors, found) <= room
        assert sum(sizes[i] for i in found) >= min(fitting)


@pytest.mark.parametrize("score", [duration_of_absence, area_of_absence])
def test_of_equal_layers_the_first_are_swapped_and_no_choice_moves_less(score: Any) -> None:
    assert choose_to_swap_out(chain_of([4.0] * 6), room_bytes=16, score=score) == (0, 1)


def test_the_area_of_absence_prefers_a_large_tensor_to_a_long_wait() -> None:
    chain = chain_of([1.0, 8.0, 1.0])
    assert choose_to_swap_out(chain, room_bytes=9, score=area_of_absence) == (1,)
    assert choose_to_swap_out(chain, room_bytes=9, score=duration_of_absence) == (0,)


LINK = 0.47 * 63e9


def waited(offload: dict[str, Any], framework: str = "deepspeed", **blocks: Any) -> float:
    """Seconds of a step of 4 microbatches on 8 GPUs that the host makes it wait."""
    more: dict[str, Any] = {"distributed_optimizer": True} if framework == "megatron" else {}
    checkpoint = {"format": "torch-dist"} if framework == "megatron" else {}
    degrees = {"deepspeed": {"zero_stage": 3}, "maxtext": {"shard_group": 8}}.get(framework, {})
    training = {"framework": framework} | STEP | more
    found = asked(offload, training=training, parallelism={"data": 8} | degrees, checkpoint=checkpoint, **blocks)
    assert found.training.step is not None
    step = found.training.step
    parts = (step.compute_seconds, step.waiting_seconds, step.bubble_seconds, step.exchange_seconds)
    assert step.seconds == pytest.approx(sum(parts) + step.optimizer_seconds + step.offload_seconds)
    return step.offload_seconds


def test_a_step_waits_for_what_each_framework_leaves_to_the_host() -> None:
    """Of P parameters on 8 GPUs: DeepSpeed updates them while weights go back; Megatron copies fp32 gradients, updates
    and copies weights, one after the other; MaxText has moments and weights in and out, and updates on the GPU. Over
    1 TB/s the gradients of DeepSpeed's microbatches hide behind the backward passes."""
    parameters = 8_030_261_248
    update, share = parameters / 3.9e9, parameters / 8
    hidden = {"optimizer": "host", "link_bytes_per_second": "1 TB/s"}
    assert waited(hidden) == pytest.approx(update, rel=1e-6)
    assert waited({"optimizer": "host"}, "megatron") == pytest.approx(update + share * (4 + 2) / LINK, rel=1e-6)
    assert waited({"optimizer": "host"}, "maxtext") == pytest.approx(share * 2 * 8 / LINK, rel=1e-6)
    slow = hidden | {"optimizer_parameters_per_second": 0.5e9}
    assert waited(slow) == pytest.approx(parameters / 0.5e9, rel=1e-6)
    drives = hidden | {"optimizer": "nvme", "nvme_bytes_per_second": "20 GB/s"}
    assert waited(drives) == pytest.approx(2 * 16 * parameters / 20e9, rel=1e-6)


def test_what_the_link_carries_beside_the_passes_is_hidden_as_far_as_they_last() -> None:
    """All activations of 4 microbatches go out beside the forward passes and come back beside the backward passes."""
    plain = asked(None, training=STEP, parallelism={"data": 8, "zero_stage": 3})
    everything = {"activations_fraction": 1.0, "link_bytes_per_second": "1 GB/s"}
    kept = asked(everything, training=STEP, parallelism={"data": 8, "zero_stage": 3})
    assert kept.offload is not None
    assert plain.training.step is not None
    moved = 4 * kept.offload.host_bytes / 8
    assert waited(everything) == pytest.approx(2 * moved / 1e9 - plain.training.step.compute_seconds, rel=0.01)
    assert waited(everything | {"link_bytes_per_second": "10 TB/s"}) == 0.0


def test_without_a_rate_of_what_it_passes_a_step_has_no_time() -> None:
    """Nobody publishes what the drives of a node reach, and a node without a PCIe generation has no link."""
    assert asked({"optimizer": "nvme"}, training=STEP).training.step is None
    spec = {"gpus_per_node": 8, "gpu": "h100"}
    for rate, is_known in (({}, False), ({"link_bytes_per_second": "25 GB/s"}, True)):
        found = asked({"optimizer": "host"} | rate, training=STEP, cluster={"node_spec": spec}, checkpoint={})
        assert (found.training.step is not None) == is_known


@examples(25)
@given(
    bytes_of=st.lists(st.floats(0, 1e12), min_size=9, max_size=9),
    rates=st.lists(st.floats(1e9, 1e12), min_size=3, max_size=3),
    passes=st.tuples(st.floats(0, 10), st.floats(0, 10)),
)
def test_faster_links_drives_and_processors_never_make_a_step_wait_longer(
    bytes_of: list[float], rates: list[float], passes: tuple[float, float]
) -> None:
    loaded, gradients, activations, out, back, parameters, drives, *later = bytes_of
    traffic = HostTraffic(loaded, 1, gradients, activations, out, back, parameters, loaded, drives, *later)
    for overlaps in (True, False):
        given_: dict[str, Any] = {
            "forward_seconds": passes[0],
            "backward_seconds": passes[1],
            "overlaps_update": overlaps,
        }
        slow, fast = (HostRates(*(k * rate for rate in rates)) for k in (1, 2))
        longer = {**given_, "forward_seconds": passes[0] + 1}
        assert waited_seconds(traffic, fast, **given_) <= waited_seconds(traffic, slow, **given_)
        assert waited_seconds(traffic, slow, **longer) <= waited_seconds(traffic, slow, **given_)
