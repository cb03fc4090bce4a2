"""What a GPU keeps of each parameter, as the documentation of Megatron-LM says, and on which GPU it is most."""

import re
from typing import Any

import pytest

from sizing.layout import Parallelism
from sizing.layout.holders import Content
from sizing.layout.sharding import sharding_of
from sizing.model import catalog
from sizing.published import published
from sizing.questions.registry import LAYOUTS
from sizing.report import answer
from sizing.scenario import scenario_from
from sizing.state import Training
from sizing.state.training import FrameworkName
from sizing.training.in_flight import gathered_by_fsdp
from sizing.training.state_memory import StateRule

OF_MEGATRON = published("zero_model_state_memory")["megatron_bytes_per_parameter"]
MIXTRAL_ON_64_RANKS: dict[str, Any] = {
    "model": {"preset": "mixtral-8x7b"},
    "training": {"framework": "torchtitan"},
    "parallelism": {"data": 64},
}
PARAMETER, NOTHING = Content(1, 1, {}, {}), Content(0, 0, {}, {})


@pytest.mark.parametrize("num_ranks", [1, 4, 64])
@pytest.mark.parametrize("row", OF_MEGATRON, ids=lambda row: row["parameters"])
def test_a_parameter_takes_what_the_documentation_of_megatron_says(row: dict[str, Any], num_ranks: int) -> None:
    precision: Any = "fp32" if row["parameters"] == "fp32" else f"{row['parameters']}-mixed"
    training, parallelism = Training(precision=precision), Parallelism(data=num_ranks)
    whole, shared = (float(number) for number in re.findall(r"\b\d+", row["distributed"]))
    plain, distributed = (
        StateRule.of(training, sharding_of(training.model_copy(update={"distributed_optimizer": is_so}), parallelism))
        for is_so in (False, True)
    )
    assert plain.rank_bytes(PARAMETER, NOTHING) == row["plain"]
    assert distributed.rank_bytes(PARAMETER, NOTHING) == whole + shared / num_ranks


@pytest.mark.parametrize(("zero_stage", "row"), [(0, "dp"), (1, "stage1"), (2, "stage2"), (3, "stage3")])
def test_a_stage_of_zero_leaves_on_a_gpu_what_its_paper_says(zero_stage: int, row: str) -> None:
    """7.5 billion parameters on 64 GPUs: 120 GB, of which the last stage leaves a 64th."""
    training, parallelism = Training(framework="deepspeed"), Parallelism(data=64, zero_stage=zero_stage)
    sharding = sharding_of(training, parallelism)
    model = Content(7_500_000_000, 7_500_000_000, {}, {})
    assert (
        StateRule.of(training, sharding).rank_bytes(model, NOTHING) == published("zero_model_state_memory")[row] * 1e9
    )


@pytest.mark.parametrize(
    ("zero_stage", "whole", "shared"), [(0, 16, 0), (1, 4 + 4, 4 + 8), (2, 4, 4 + 4 + 8), (3, 0, 16)]
)
def test_zero_1_and_2_keep_a_copy_of_fp32_weights(zero_stage: int, whole: int, shared: int) -> None:
    """Weights, gradients, two moments; between no sharding and that of the weights, the optimizer's copy of its share."""
    training = Training(framework="deepspeed", precision="fp32")
    sharding = sharding_of(training, Parallelism(data=64, zero_stage=zero_stage))
    assert StateRule.of(training, sharding).rank_bytes(PARAMETER, NOTHING) == whole + shared / 64


@pytest.mark.parametrize(("shard_group", "num_shards"), [(None, 64), (8, 8), (1, 1)])
def test_a_rank_of_fsdp_keeps_its_part_of_everything_in_its_shard_group(
    shard_group: int | None, num_shards: int
) -> None:
    training, parallelism = Training(framework="fsdp2"), Parallelism(data=64, shard_group=shard_group)
    sharding = sharding_of(training, parallelism)
    fp32_weights_gradients_and_two_moments = 16
    expected = fp32_weights_gradients_and_two_moments / num_shards
    assert StateRule.of(training, sharding).rank_bytes(PARAMETER, NOTHING) == expected
    assert StateRule.of(training, sharding).rank_bytes(NOTHING, PARAMETER) == expected


def test_whole_experts_stand_on_few_of_the_ranks_of_fsdp() -> None:
    """Mixtral's 8 experts over 64 ranks: torch.chunk leaves 8 ranks one each, 45.1 of 46.7 billion parameters."""
    experts = 32 * 8 * 3 * 4_096 * 14_336
    report = answer(MIXTRAL_ON_64_RANKS)
    others = report.model.num_parameters - experts
    assert report.training.gpu_state_bytes == pytest.approx((experts / 8 + others / 64) * 16, rel=1e-4)
    assert not report.training.state_fits


@pytest.mark.parametrize(
    ("preset", "num_ranks"), [("mixtral-8x7b", 64), ("gpt-oss-20b", 96), ("jamba-v0.1", 64), ("gemma-3-1b", 7)]
)
def test_the_fullest_gpu_holds_what_the_largest_file_has_and_its_gradients(preset: str, num_ranks: int) -> None:
    """FSDP2 keeps and saves fp32 weights and two moments, 12 bytes of a parameter, and keeps 4 of gradients."""
    report = answer(
        {"model": {"preset": preset}, "training": {"framework": "fsdp2"}, "parallelism": {"data": num_ranks}}
    )
    assert report.training.gpu_state_bytes == pytest.approx(report.layout.max_rank_bytes * 16 / 12, rel=1e-3)


@pytest.mark.parametrize(
    ("preset", "framework", "optimizer", "num_ranks"),
    [
        ("gemma-3-1b", "ddp", "muon", 1),
        ("gemma-3-1b", "ddp", "adam-8bit", 1),
        ("gemma-3-1b", "fsdp2", "adam-8bit", 8),
        ("qwen3-30b-a3b", "fsdp2", "muon", 96),
        ("llama-3-8b", "fsdp2", "adafactor", 64),
        ("llama-3-8b", "fsdp2", "shampoo", 64),
        ("llama-3-8b", "ddp", "soap", 1),
    ],
)
def test_a_gpu_holds_the_moments_that_its_file_has(preset: str, framework: str, optimizer: str, num_ranks: int) -> None:
    """What a file lacks of a rank's state are fp32 gradients: as many bytes as of fp32 weights."""
    training = {"framework": framework, "optimizer": optimizer}
    document = {"model": {"preset": preset}, "parallelism": {"data": num_ranks}}
    report, weights = (
        answer(document | {"training": training | saved})
        for saved in ({}, {"saved_state": {"master": None, "moments": None}})
    )
    in_files = report.layout.max_rank_bytes + weights.layout.max_rank_bytes
    assert report.training.gpu_state_bytes == pytest.approx(in_files, rel=1e-3)


def test_what_is_saved_of_moments_does_not_change_what_a_gpu_holds() -> None:
    training = {"framework": "ddp", "optimizer": "muon"}
    document = {"model": {"preset": "gemma-3-1b"}}
    whole, weights_alone = (
        answer(document | {"training": training | saved}).training.gpu_state_bytes
        for saved in ({}, {"saved_state": {"moments": None}})
    )
    assert whole == weights_alone


def test_fsdp_is_no_way_out_for_an_optimizer_of_whole_matrices() -> None:
    cluster = {"cluster": {"node": "dgx-h100"}}
    training = {"framework": "ddp"}
    ways = [
        warning
        for optimizer in ("adamw", "soap")
        for warning in answer(
            cluster
            | {"model": {"preset": "llama-3-8b"}, "parallelism": {"data": 8}}
            | {"training": training | {"optimizer": optimizer}}
        ).warnings
        if "cannot run" in warning
    ]
    assert ["fsdp2" in way for way in ways] == [True, False]


@pytest.mark.parametrize("optimizer", ["adamw", "adam-8bit"])
def test_an_optimizer_off_the_gpu_takes_its_moments_along(optimizer: str) -> None:
    """FSDP2 keeps 4 bytes of weights and 4 of gradients; both leave with the moments."""
    training = {"framework": "fsdp2", "optimizer": optimizer}
    document = {"model": {"preset": "gemma-3-1b"}, "parallelism": {"data": 8}}
    offload = {"offload": {"optimizer": "host", "weights": "host"}}
    on_gpu, off_gpu = (answer(document | {"training": training | place}) for place in ({}, offload))
    assert off_gpu.offload is not None
    assert off_gpu.training.gpu_state_bytes == 0
    assert off_gpu.offload.host_bytes == pytest.approx(8 * on_gpu.training.gpu_state_bytes, rel=1e-6)


def test_the_layout_search_leaves_out_more_ranks_of_fsdp_than_experts_that_one_of_them_cannot_hold() -> None:
    question = {"scenario": MIXTRAL_ON_64_RANKS | {"parallelism": {}, "cluster": {"num_gpus": 64, "node": "dgx-h100"}}}
    found = [each.parallelism for each in LAYOUTS.answer(question | {"max_layouts": 100}).layouts]
    assert found
    assert not [each for each in found if each.expert == each.tensor == each.pipeline == 1]


def test_experts_are_shared_by_fewer_ranks_than_dense_tensors() -> None:
    """8 data ranks hold the same dense tensors, 2 the same experts: 6 bytes stay, 12 are shared, as Megatron documents."""
    parallelism = Parallelism(data=8, expert=4)
    rule = StateRule.of(Training(), sharding_of(Training(distributed_optimizer=True), parallelism))
    assert rule.rank_bytes(PARAMETER, NOTHING) == 6 + 12 / 8
    assert rule.rank_bytes(NOTHING, PARAMETER) == 6 + 12 / 2


def test_the_state_is_that_of_one_gpu() -> None:
    """Of DeepSeek-V3's stages the first holds most beside the experts, others hold most experts: no GPU holds both."""
    blocks = {
        "training": {
            "sequence_length": 1,
            "micro_batch_size": 1,
            "recomputation": "full",
            "distributed_optimizer": True,
        },
        "parallelism": {"pipeline": 16, "data": 128, "expert": 64},
        "checkpoint": {"format": "torch-dist"},
    }
    memory = answer(scenario_from({"model": {"preset": "deepseek-v3"}} | blocks)).training
    assert memory.total_bytes is not None
    assert memory.working_bytes is not None
    resident = memory.total_bytes - memory.working_bytes
    assert memory.gpu_state_bytes <= resident < 1.01 * memory.gpu_state_bytes


FSDP: dict[str, Any] = {
    "model": {"preset": "llama-3.1-405b"},
    "training": {"framework": "fsdp2", "sequence_length": 8192, "micro_batch_size": 1, "recomputation": "full"},
}
ROOT_OF_LLAMA_405B = 16_384 * (2 * 128_256 + 1)
LAYER_OF_LLAMA_405B = 16_384 * (2 * 16_384 + 2 * 1_024 + 3 * 53_248 + 2)


def test_a_stage_of_fsdp_keeps_weights_and_gradients_whole_between_its_microbatches() -> None:
    """Per parameter of a tensor rank: weights and moments (4 + 8) / 8 ranks, gradients 4, and 2 of weights gathered."""
    both = {"embedding_counts_as_layer": True, "loss_counts_as_layer": True}
    degrees = {"tensor": 8, "pipeline": 8, "data": 8} | both
    memory = answer(scenario_from(FSDP | {"parallelism": degrees})).training
    parameters = 16 * (LAYER_OF_LLAMA_405B + 7 * 2 * 16_384) // 8
    assert memory.gpu_state_bytes == pytest.approx(parameters * (12 / 8 + 4 + 2), rel=1e-6)


FSDP_WITHOUT_BATCH = FSDP | {"training": {"framework": "fsdp2"}}


def test_what_fsdp_gathers_is_said_where_it_is_too_much_and_no_batch_tells_when() -> None:
    """As in a layer's backward pass with a batch: what it holds of weights and gradients needs no batch to be known."""
    gathered = (4 * ROOT_OF_LLAMA_405B + 10 * LAYER_OF_LLAMA_405B) / 1e9
    tight, roomy = (answer(scenario_from(FSDP_WITHOUT_BATCH | {"parallelism": {"data": data}})) for data in (92, 2048))
    assert tight.training.state_fits
    [warning] = [warning for warning in tight.warnings if "FSDP gathers" in warning]
    assert f"{gathered:.2f} GB that are not counted" in warning
    assert not any("FSDP gathers" in warning for warning in roomy.warnings)


def test_a_headroom_too_small_for_what_fsdp_gathers_is_said() -> None:
    question = {"scenario": FSDP_WITHOUT_BATCH | {"cluster": {"num_gpus": 512}}}
    [_, warning] = LAYOUTS.answer(question).warnings
    assert warning.endswith("exceeds the headroom of 8.000 GB. Give a headroom_fraction of 0.61")
    [left_out] = LAYOUTS.answer(question | {"headroom_fraction": 0.61}).warnings
    assert left_out.startswith("Activations not counted")


def test_with_a_batch_what_fsdp_gathers_and_reduces_counts_at_the_moment_that_it_is_there() -> None:
    """One token: when the backward pass ends, weights and gradients of embedding and head are whole, and in fp32 too."""
    training = FSDP["training"] | {"sequence_length": 1, "recomputation": "none"}
    memory = answer(scenario_from(FSDP | {"training": training, "parallelism": {"data": 2048}})).training
    in_layer = 2 * (ROOT_OF_LLAMA_405B + 2 * LAYER_OF_LLAMA_405B) + 2 * ROOT_OF_LLAMA_405B + 6 * LAYER_OF_LLAMA_405B
    assert in_layer > 8 * ROOT_OF_LLAMA_405B
    assert memory.working_bytes == pytest.approx(in_layer, rel=1e-3)
    assert memory.total_bytes is not None
    assert memory.reserved_bytes is not None
    assert memory.reserved_bytes[0] == memory.total_bytes
    assert memory.total_bytes / memory.reserved_bytes[1] == pytest.approx(1 - 0.33)


def test_experts_are_gathered_with_their_layer() -> None:
    """DeepSeek-V3 has 256 experts of 3 x 7,168 x 2,048 in a layer."""
    inventory, of_a_layer = catalog()["deepseek-v3"].inventory, 10 * 256 * 3 * 7_168 * 2_048
    training, root = Training(framework="fsdp2"), 4 * 2 * 129_280 * 7_168
    gathered = gathered_by_fsdp(inventory, training, Parallelism()).layer
    over_experts = gathered_by_fsdp(inventory, training, Parallelism(data=2, expert=2)).layer
    assert gathered == pytest.approx(of_a_layer + root, rel=0.03)
    assert gathered - over_experts == pytest.approx(of_a_layer / 2, rel=1e-9)


def test_fsdp_gathers_as_much_without_a_batch_as_with_one_token() -> None:
    training = FSDP["training"] | {"sequence_length": 1, "recomputation": "none"}
    with_token, without = (
        answer(scenario_from(document | {"parallelism": {"data": 2048}})).training
        for document in (FSDP | {"training": training}, FSDP_WITHOUT_BATCH)
    )
    assert without.gathered_bytes == pytest.approx(with_token.working_bytes, rel=1e-3)


EMBEDDING_OF_LLAMA_405B = 128_256 * 16_384


@pytest.mark.parametrize(("num_gpus", "is_tight"), [(88, True), (128, False)])
def test_what_zero_3_gathers_is_said_where_it_is_too_much(num_gpus: int, is_tight: bool) -> None:
    training = {"framework": "deepspeed"}
    blocks = {"training": training, "parallelism": {"data": num_gpus, "zero_stage": 3}}
    report = answer(scenario_from({"model": {"preset": "llama-3.1-405b"}} | blocks))
    assert report.training.state_fits
    found = [warning for warning in report.warnings if "ZeRO 3 gathers" in warning]
    assert len(found) == is_tight
    for warning in found:
        assert f"{4 * EMBEDDING_OF_LLAMA_405B / 1e9:.3f} GB that are not counted" in warning


def test_the_layout_search_says_what_zero_3_gathers_in_a_layout_that_fits() -> None:
    scenario = {"model": {"preset": "llama-3.1-405b"}, "training": {"framework": "deepspeed"}}
    question = {"scenario": scenario | {"cluster": {"num_gpus": 128}}}
    told, untold = (
        [w for w in LAYOUTS.answer(question | {"headroom_fraction": headroom}).warnings if "ZeRO 3 gathers" in w]
        for headroom in (0.1, 0.11)
    )
    assert told[0].endswith("exceeds the headroom of 8.000 GB. Give a headroom_fraction of 0.11")
    assert untold == []


@pytest.mark.parametrize(
    ("name", "saved"),
    [
        ("torch-dist", ""),
        ("megatron", "checkpoint.format megatron-distributed-optimizer or torch-dist or fsdp-dtensor"),
    ],
)
def test_a_distributed_optimizer_is_named_where_it_would_do(name: str, saved: str) -> None:
    blocks = {"model": {"preset": "llama-3.1-70b"}, "parallelism": {"tensor": 8, "data": 16}}
    refused = answer(blocks | {"checkpoint": {"format": name}})
    named = f"training.distributed_optimizer true{saved and ' and '}{saved} it needs"
    [warning] = [warning for warning in refused.warnings if "cannot run" in warning]
    sharded = answer(blocks | {"training": {"distributed_optimizer": True}}).training
    assert sharded.state_fits
    assert f"cannot run. With {named} {sharded.gpu_state_bytes / 1e9:.2f} GB. The nearest" in warning
    alone = answer(blocks | {"parallelism": {"tensor": 8}})
    assert not any("distributed_optimizer" in warning for warning in alone.warnings)


@pytest.mark.parametrize(
    ("framework", "parallelism", "gathers"),
    [
        ("fsdp2", Parallelism(data=8), "layers"),
        ("fsdp2", Parallelism(data=8, shard_group=1), "nothing"),
        ("deepspeed", Parallelism(data=8, zero_stage=3), "modules"),
        ("deepspeed", Parallelism(data=8, zero_stage=2), "nothing"),
        ("deepspeed", Parallelism(data=1, zero_stage=3), "nothing"),
        ("megatron", Parallelism(data=8), "nothing"),
    ],
)
def test_what_is_gathered_to_compute_follows_from_who_shards_the_weights(
    framework: FrameworkName, parallelism: Parallelism, gathers: str
) -> None:
    assert sharding_of(Training(framework=framework), parallelism).gathers == gathers
