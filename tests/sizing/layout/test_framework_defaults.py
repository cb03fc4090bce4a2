"""What is taken where a scenario leaves it open is what the frameworks ship."""

from typing import Any

import pytest

from sizing.layout.framework_defaults import FORMAT_OF_FRAMEWORK, MEGATRON_DISTRIBUTED_OPTIMIZER
from sizing.published import published
from sizing.report import SizingReport, answer
from sizing.state.saved_state import PartName

LAYOUT = {"tensor": 2, "pipeline": 2, "data": 4}


def shipped(framework: str, setting: str) -> Any:
    rows = published("framework_defaults")["rows"]
    (found,) = [row for row in rows if (row["framework"], row["setting"]) == (framework, setting)]
    return found["default"]


def default_report(framework: str = "megatron", **blocks: Any) -> SizingReport:
    document = {"model": {"preset": "llama-3.1-8b"}, "training": {"framework": framework}, "parallelism": LAYOUT}
    return answer(document | blocks)


def test_megatron_saves_in_the_format_that_it_ships_with() -> None:
    assert FORMAT_OF_FRAMEWORK["megatron"].replace("-", "_") == shipped("Megatron-LM", "ckpt_format")
    assert default_report().checkpoint.format == "torch-dist"


def test_megatron_saves_fully_in_parallel_over_the_data_parallel_ranks() -> None:
    assert shipped("Megatron-LM", "ckpt_fully_parallel_save") is True
    assert shipped("Megatron-LM", "ckpt_fully_parallel_save_process_group") == "dp"
    assert default_report().layout.num_writers == 2 * 2 * 4


def test_each_rank_of_torch_dist_writes_as_many_files_as_the_strategy_has_threads() -> None:
    threads = shipped("Megatron-LM", "thread_count of the torch_dist save strategy")
    assert default_report().checkpoint.num_files == 16 * threads
    assert default_report(checkpoint={"files_per_rank": threads}).checkpoint.num_files == 16 * threads


def test_each_replica_of_torch_dist_reads_all_weights_that_it_holds() -> None:
    assert shipped("Megatron-LM", "ckpt_fully_parallel_load") is False
    parts = default_report().restore.parts
    assert parts["weights"].num_readings == 4


def test_megatrons_optimizer_is_whole_on_every_replica_where_nobody_says() -> None:
    assert shipped("Megatron-LM", "use_distributed_optimizer") is MEGATRON_DISTRIBUTED_OPTIMIZER
    report = default_report()
    said = {row.field: row.value for row in report.assumptions}
    assert said["training.distributed_optimizer"] is False
    assert report.training.gpu_state_bytes == default_report(checkpoint={"format": "megatron"}).training.gpu_state_bytes


def test_saving_waits_where_nobody_asks_for_asynchronous_saves() -> None:
    assert shipped("Megatron-LM", "async_save") is False
    assert shipped("NeMo AutoModel", "is_async") is False
    assert shipped("torchtitan", "checkpoint.async_mode") == "disabled"
    assert shipped("DeepSpeed", "checkpoint.writer") is None
    modes = {row.value for row in default_report().assumptions if row.field == "checkpoint.mode"}
    assert modes == {"sync"}


def test_deepspeed_and_fsdp2_save_in_formats_of_their_own() -> None:
    assert shipped("DeepSpeed", "checkpoint engine") == "TorchCheckpointEngine"
    assert FORMAT_OF_FRAMEWORK["deepspeed"] == "deepspeed"
    assert shipped("accelerate", "fsdp_state_dict_type").endswith("SHARDED_STATE_DICT for FSDP 2")
    assert FORMAT_OF_FRAMEWORK["fsdp2"] == "fsdp-sharded"


@pytest.mark.parametrize(
    ("zero_stage", "framework", "holds", "part"),
    [
        (1, "DeepSpeed ZeRO-1/2", "fp32 partition of the weights (padding removed) + base optimizer state", "master"),
        (2, "DeepSpeed ZeRO-1/2", "fp32 partition of the weights (padding removed) + base optimizer state", "master"),
        (3, "DeepSpeed ZeRO-3", "fp32 flat partitions + optimizer state", "weights"),
    ],
)
def test_an_optimizer_shard_of_zero_holds_fp32_weights_and_moments(
    zero_stage: int, framework: str, holds: str, part: PartName
) -> None:
    assert shipped(framework, "optimizer shard holds") == holds
    training = {"framework": "deepspeed", "precision": "fp32"}
    report = default_report(training=training, parallelism={"data": 4, "zero_stage": zero_stage})
    shards = [
        f for c in report.layout.rank_classes for f in c.files * c.num_ranks if f.name.endswith("optim_states.pt")
    ]
    assert sum(file.num_bytes for file in shards) == 12 * report.model.num_parameters
    assert report.checkpoint.parts[part].bytes_per_parameter == 4
