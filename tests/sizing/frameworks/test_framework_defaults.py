"""What is taken where a scenario leaves it open is what the frameworks ship."""

from typing import Any

import pytest

from sizing.errors import InvalidInput
from sizing.frameworks import FRAMEWORKS
from sizing.frameworks.framework import mean_detection_seconds
from sizing.frameworks.registry import catalog_frameworks
from sizing.frameworks.trainers import TRAINERS, trainer_named
from sizing.published import published
from sizing.report import SizingReport, answer
from sizing.scenario import scenario_from
from sizing.state.saved_state import PartName
from sizing.state.training import FrameworkName, TrainerName
from tests.sizing.layout.worlds import HYBRID

LAYOUT = {"tensor": 2, "pipeline": 2, "data": 4}


def shipped(framework: str, setting: str) -> Any:
    rows = published("framework_defaults")["rows"]
    (found,) = [row for row in rows if (row["framework"], row["setting"]) == (framework, setting)]
    return found["default"]


def default_report(framework: str = "megatron", **blocks: Any) -> SizingReport:
    document = {"model": {"preset": "llama-3.1-8b"}, "training": {"framework": framework}, "parallelism": LAYOUT}
    return answer(document | blocks)


def test_megatron_saves_in_the_format_that_it_ships_with() -> None:
    assert FRAMEWORKS["megatron"].format.replace("-", "_") == shipped("Megatron-LM", "ckpt_format")
    assert default_report().checkpoint.format == "torch-dist"


def test_megatron_saves_fully_in_parallel_over_the_data_parallel_ranks() -> None:
    assert shipped("Megatron-LM", "ckpt_fully_parallel_save") is True
    assert shipped("Megatron-LM", "ckpt_fully_parallel_save_process_group") == "dp"
    assert default_report().layout.num_writers == 2 * 2 * 4


def test_each_rank_of_torch_dist_writes_as_many_files_as_the_strategy_has_threads() -> None:
    threads = shipped("Megatron-LM", "thread_count of the torch_dist save strategy")
    assert default_report().checkpoint.num_rank_files == 16 * threads
    assert default_report(checkpoint={"files_per_rank": threads}).checkpoint.num_rank_files == 16 * threads


def test_each_replica_of_torch_dist_reads_all_weights_that_it_holds() -> None:
    assert shipped("Megatron-LM", "ckpt_fully_parallel_load") is False
    parts = default_report().restore.parts
    assert parts["weights"].num_readings == 4


def test_megatrons_optimizer_is_whole_on_every_replica_where_nobody_says() -> None:
    assert shipped("Megatron-LM", "use_distributed_optimizer") is FRAMEWORKS["megatron"].distributed_optimizer
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


def test_maxtext_saves_asynchronously_as_it_ships() -> None:
    assert shipped("MaxText", "async_checkpointing") is True
    assert assumed("maxtext", parallelism={"data": 8})["checkpoint.mode"] == "async"


def test_deepspeed_and_fsdp2_save_in_formats_of_their_own() -> None:
    assert shipped("DeepSpeed", "checkpoint engine") == "TorchCheckpointEngine"
    assert FRAMEWORKS["deepspeed"].format == "deepspeed"
    assert shipped("accelerate", "fsdp_state_dict_type").endswith("SHARDED_STATE_DICT for FSDP 2")
    assert FRAMEWORKS["fsdp2"].format == "fsdp-sharded"


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


def assumed(framework: str, **blocks: Any) -> dict[str, Any]:
    report = default_report(framework, **blocks)
    return {row.field: row.value for row in report.assumptions if f"default of {framework}" in row.reason}


def test_torchtitan_is_fsdp2_with_the_defaults_that_it_ships() -> None:
    """Each is named among the assumptions, and none where the scenario says something else."""
    taken = assumed("torchtitan")
    assert taken["retention.keep_last"] == shipped("torchtitan", "checkpoint.keep_latest_k")
    assert taken["checkpoint.mode"] == "sync"
    assert (taken["training.precision"], taken["training.optimizer"]) == ("bf16-mixed", "adamw")
    assert taken["parallelism.embedding_counts_as_layer"] is taken["parallelism.loss_counts_as_layer"] is True
    assert default_report("torchtitan").checkpoint.format == "fsdp-sharded"
    stated = {"parallelism": LAYOUT | {"layers_per_stage": [17, 15]}, "retention": {"keep_last": 2}}
    assert not {field for field in assumed("torchtitan", **stated) if field.startswith(("parallelism", "retention"))}


def test_what_torchtitan_saves_is_what_fsdp2_saves() -> None:
    ends = {"embedding_counts_as_layer": True, "loss_counts_as_layer": True}
    ours, plain = default_report("torchtitan"), default_report("fsdp2", parallelism=LAYOUT | ends)
    assert ours.checkpoint == plain.checkpoint
    assert ours.layout == plain.layout
    assert ours.training == plain.training
    assert ours.capacity.num_checkpoints == 11


@pytest.mark.parametrize("framework", ["fsdp2", "torchtitan"])
def test_dtensor_does_not_repeat_heads_of_keys_and_values(framework: str) -> None:
    """Llama 3.1 8B has 8 of them: of 16 ranks each would have half a head, which attention cannot read."""
    with pytest.raises(InvalidInput, match=r"parallelism\.tensor must be at most the 8 heads of keys and values with"):
        default_report(framework, parallelism={"tensor": 16})
    assert default_report(framework, parallelism={"tensor": 8}).layout.num_gpus == 8
    assert default_report("megatron", parallelism={"tensor": 16}).layout.num_gpus == 16
    with pytest.raises(InvalidInput, match="must be at most the 2 heads of keys and values"):
        default_report(framework, model={"huggingface_config": HYBRID}, parallelism={"tensor": 4})


def test_what_torchtitan_ships_and_no_field_can_take_is_said_while_that_field_is_open() -> None:
    said = {row.field: row.value for row in default_report("torchtitan").assumptions}
    assert said["torchtitan checkpoint.export_dtype"] == shipped("torchtitan", "checkpoint.export_dtype")
    assert shipped("torchtitan", "checkpoint.last_save_model_only") is True
    exported = default_report("torchtitan", checkpoint={"export": {"every": 2}}).assumptions
    assert "torchtitan checkpoint.export_dtype" not in {row.field for row in exported}
    assert not any(row.field.startswith("torchtitan") for row in default_report("fsdp2").assumptions)


@pytest.mark.parametrize(
    ("framework", "title", "setting"),
    [("torchtitan", "torchtitan", "checkpoint.interval"), ("maxtext", "MaxText", "checkpoint_period")],
)
def test_an_interval_that_a_framework_ships_in_steps_is_said_while_nobody_gives_one(
    framework: str, title: str, setting: str
) -> None:
    def said(checkpoint: dict[str, Any]) -> dict[str, Any]:
        report = default_report(framework, parallelism={"data": 8}, checkpoint=checkpoint)
        return {row.field: row for row in report.assumptions}

    interval = said({})[f"{title} {setting}"]
    steps = shipped(title, setting)
    assert interval.value == f"{steps:,} steps"
    assert f"checkpoint.interval_steps {steps}," in interval.reason
    for given in ({"interval_seconds": 600}, {"interval_steps": steps}):
        assert interval.field not in said(given)
    (entry,) = (each for each in catalog_frameworks() if each.name == framework)
    assert entry.not_taken[interval.field] == interval.value


FAILING = {"reliability": {"mtbf_seconds": "9h"}}


@pytest.mark.parametrize(
    ("framework", "timeout_seconds"),
    [
        ("megatron", 60 * shipped("Megatron-LM", "distributed_timeout_minutes")),
        ("fsdp2", shipped("PyTorch", "timeout of a collective with NCCL, seconds")),
        ("deepspeed", 60 * shipped("DeepSpeed", "DEEPSPEED_TIMEOUT, minutes")),
        ("torchtitan", shipped("torchtitan", "comm.train_timeout_seconds")),
    ],
)
def test_a_failure_that_hangs_is_noticed_after_the_timeout_of_the_framework(
    framework: FrameworkName, timeout_seconds: float
) -> None:
    said = {row.field: row.value for row in default_report(framework, **FAILING).assumptions}
    assert said["reliability.detection_seconds"] == mean_detection_seconds(timeout_seconds)
    assert FRAMEWORKS[framework].collective_timeout.seconds == timeout_seconds


def test_a_framework_decides_a_detection_only_where_failures_are_given_without_one() -> None:
    assert default_report("torchtitan").interval.recovery_seconds is None
    assert assumed("torchtitan", **FAILING)["reliability.detection_seconds"] == 12.1
    stated = {"reliability": {"mtbf_seconds": "9h", "detection_seconds": 30}}
    assert "reliability.detection_seconds" not in assumed("torchtitan", **stated)


@pytest.mark.parametrize("framework", ["megatron", "deepspeed", "torchtitan"])
def test_a_scenario_of_before_keeps_the_detection_of_then(framework: str) -> None:
    rows = {row.field: row for row in default_report(framework, **FAILING, schema_version=3).assumptions}
    detection = rows["reliability.detection_seconds"]
    assert (detection.value, detection.reason) == (300, "default of schema version 3")


@pytest.mark.parametrize("name", [*TRAINERS, "LLaMA-Factory", "Prime RL"])
def test_a_trainer_is_answered_by_what_it_runs_on_and_says_so(name: str) -> None:
    scenario = scenario_from({"model": {"preset": "gpt2"}, "training": {"framework": name}})
    named = trainer_named(name)
    assert named is not None
    trainer = TRAINERS[named]
    assert scenario.training.framework == trainer.framework
    (said,) = (each for each in answer(scenario).warnings if each.startswith(f"{trainer.title} is answered as"))
    assert trainer.check in said


@pytest.mark.parametrize(
    ("framework", "stated", "bytes_per_parameter"),
    [
        ("torchtune", {}, 6),
        ("axolotl", {}, 6),
        ("torchtune", {"precision": "bf16-mixed"}, 12),
        ("verl", {}, 12),
        ("verl", {"precision": "bf16"}, 6),
        ("areal", {}, 6),
        ("litgpt", {}, 12),
        ("slime", {}, 14),
    ],
)
def test_a_trainer_of_pure_bf16_keeps_half(framework: str, stated: dict[str, str], bytes_per_parameter: int) -> None:
    """Weights and two moments of Adam: 3 values of 2 or 4 bytes."""
    report = answer({"model": {"num_parameters": 10**9}, "training": {"framework": framework, **stated}})
    assert report.checkpoint.logical_bytes == bytes_per_parameter * 10**9


@pytest.mark.parametrize(
    ("trainer", "setting"),
    [
        ("verl", "enable_gradient_checkpointing True"),
        ("trl", "gradient_checkpointing True"),
        ("llamafactory", "disable_gradient_checkpointing False"),
        ("ms-swift", "gradient_checkpointing True"),
        ("skyrl", "trainer.gradient_checkpointing true"),
    ],
)
def test_a_trainer_that_recomputes_layers_by_default_does_so(trainer: TrainerName, setting: str) -> None:
    def report_of(framework: str, **training: str) -> SizingReport:
        step = {"sequence_length": 8192, "micro_batch_size": 4, "framework": framework}
        scenario = {"model": {"preset": "llama-3.1-8b"}, "parallelism": {"data": 8}}
        return answer(scenario | {"training": step | training})

    own, on_it = report_of(trainer), report_of(TRAINERS[trainer].framework, recomputation="full")
    assert own.training == on_it.training
    reasons = {each.field: each.reason for each in own.assumptions}
    assert reasons["training.recomputation"] == f"default of {trainer}, {setting}"
    kept, none = (report_of(each, recomputation="none").training for each in (trainer, TRAINERS[trainer].framework))
    assert kept == none != own.training
    without_step = answer({"model": {"preset": "gpt2"}, "training": {"framework": trainer}})
    assert "training.recomputation" not in {each.field for each in without_step.assumptions}


@pytest.mark.parametrize(
    ("library", "meant"),
    [
        ("HF", "transformers"),
        ("Trainer", "transformers"),
        ("Hugging Face Trainer", "transformers"),
        ("PyTorch", "fsdp2 or ddp"),
        ("fsdp", "fsdp2"),
        ("llm-foundry", "composer"),
    ],
)
def test_the_name_of_a_library_is_refused_with_what_may_be_meant(library: str, meant: str) -> None:
    with pytest.raises(InvalidInput, match=rf"training\.framework must be a known name.*did you mean {meant}"):
        scenario_from({"model": {"preset": "gpt2"}, "training": {"framework": library}})


@pytest.mark.parametrize(
    ("framework", "kind", "name"),
    [
        ("transformers", "FULL_STATE_DICT", "hf-trainer"),
        ("accelerate", "SHARDED_STATE_DICT", "accelerate-fsdp"),
        ("fsdp2", "full", "full"),
        ("fsdp2", "DCP", "fsdp-sharded"),
        ("megatron", "dcp", "torch-dist"),
        ("lightning", "full", "lightning"),
        ("verl", "sharded", "fsdp-sharded"),
    ],
)
def test_a_kind_of_format_is_the_frameworks_own_of_that_kind(framework: str, kind: str, name: str) -> None:
    document = {"model": {"preset": "gpt2"}, "training": {"framework": framework}, "checkpoint": {"format": kind}}
    assert scenario_from(document).checkpoint.format == name


def test_a_kind_of_format_that_a_framework_has_not_is_refused_with_its_formats() -> None:
    document = {"model": {"preset": "gpt2"}, "training": {"framework": "deepspeed"}, "checkpoint": {"format": "full"}}
    with pytest.raises(InvalidInput, match=r"checkpoint\.format must be one of deepspeed with framework deepspeed"):
        answer(document)


@pytest.mark.parametrize(
    ("framework", "base_dtype", "bytes_per_parameter"),
    [
        ("axolotl", None, 12),
        ("axolotl", "nf4", 12),
        ("trl", None, 12),
        ("trl", "nf4", 6),
        ("trl", "8bit", 6),
        ("trl", "fp32", 12),
        ("torchtune", None, 6),
        ("transformers", "nf4", 12),
    ],
)
def test_adapters_have_the_dtype_that_a_trainer_gives_them(
    framework: str, base_dtype: str | None, bytes_per_parameter: int
) -> None:
    """PEFT raises adapters to fp32; TRL casts those beside a base in 4 or 8 bits to bf16, torchtune trains in bf16."""
    adapters = {"rank": 16} | ({"base_dtype": base_dtype} if base_dtype else {})
    training = {"framework": framework, "adapters": adapters}
    report = answer({"model": {"preset": "llama-3.1-8b"}, "training": training})
    assert report.checkpoint.logical_bytes == bytes_per_parameter * 6_815_744


@pytest.mark.parametrize("trainer", ["slime", "nemo", "megatron-bridge"])
def test_recipes_of_megatron_divide_the_optimizer_unless_a_run_says_no(trainer: str) -> None:
    document: dict[str, Any] = {"model": {"preset": "gpt2"}, "training": {"framework": trainer}}
    assert scenario_from(document).training.distributed_optimizer is True
    document["training"]["distributed_optimizer"] = False
    assert scenario_from(document).training.distributed_optimizer is False


@pytest.mark.parametrize(
    ("training", "num_files"), [({}, 0), ({"optimizer": "sgd"}, 1), ({"saved_state": {"weights_alone": True}}, 0)]
)
def test_trainer_writes_a_small_file_of_an_optimizer_that_keeps_nothing(
    training: dict[str, Any], num_files: int
) -> None:
    report = answer({"model": {"preset": "gpt2"}, "training": {"framework": "transformers", **training}})
    assert report.checkpoint.small_files.count("optimizer.pt") == num_files


def test_the_full_state_dict_of_torchtune_is_no_shards_of_torchtitan() -> None:
    scenario = scenario_from({"model": {"preset": "gpt2"}, "training": {"framework": "torchtune"}})
    assert scenario.checkpoint.format == "full"
