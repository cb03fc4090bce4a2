"""torchtitan's TOML as a scenario: what the file says, what torchtitan ships, and what is asked for."""

from __future__ import annotations

from typing import Any

import pytest

from sizing.errors import InvalidInput
from tests.sizing.importers.imports import fields_of, import_texts

LLAMA_70B = """
[job]
dump_folder = "./outputs"
[model]
name = "llama3"
flavor = "70B"
[optimizer]
name = "AdamW"
[training]
local_batch_size = 8
seq_len = 8192
[parallelism]
data_parallel_shard_degree = -1
tensor_parallel_degree = 8
[checkpoint]
enable = true
interval = 500
"""
"""As pytorch/torchtitan has it: train_configs/llama3_70b.toml at b5bcd76, in fewer words."""

READ = {
    "training.framework": "torchtitan",
    "model.preset": "llama-3.1-70b",
    "training.precision": "bf16-mixed",
    "training.optimizer": "adamw",
    "training.sequence_length": 8192,
    "training.micro_batch_size": 8,
    "training.global_batch_size": 256,
    "parallelism.tensor": 8,
    "parallelism.pipeline": 1,
    "parallelism.data": 32,
    "checkpoint.interval_steps": 500,
    "checkpoint.mode": "sync",
    "retention.keep_last": 10,
}

CHANGES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "hsdp": (
        "data_parallel_shard_degree = -1",
        "data_parallel_replicate_degree = 4\ndata_parallel_shard_degree = 8",
        {"parallelism.data": 32, "parallelism.shard_group": 8},
    ),
    "pipeline": (
        "tensor_parallel_degree = 8",
        'tensor_parallel_degree = 8\npipeline_parallel_degree = 4\npipeline_parallel_schedule = "Interleaved1F1B"',
        {
            "parallelism.pipeline": 4,
            "parallelism.virtual_pipeline": 2,
            "parallelism.layers_per_stage": "10,11,5x10,9",
            "parallelism.data": 8,
            "training.schedule": "interleaved",
        },
    ),
    "pipeline, whose ends count as no layers": (
        "tensor_parallel_degree = 8",
        "tensor_parallel_degree = 8\npipeline_parallel_degree = 4\npipeline_parallel_first_stage_less_layers = 0\n"
        "pipeline_parallel_last_stage_less_layers = 0",
        {"parallelism.layers_per_stage": "4x20"},
    ),
    "pipeline of three chunks": (
        "tensor_parallel_degree = 8",
        'tensor_parallel_degree = 8\npipeline_parallel_degree = 4\npipeline_parallel_schedule = "Interleaved1F1B"\n'
        "pipeline_parallel_layers_per_stage = 7",
        {"parallelism.virtual_pipeline": 3, "parallelism.layers_per_stage": "6,9x7,6,5"},
    ),
    "float8": ('flavor = "70B"', 'flavor = "70B"\nconverters = ["float8"]', {"training.precision": "fp8-mixed"}),
    "asynchronous": (
        "interval = 500",
        'interval = 500\nasync_mode = "async_with_pinned_mem"',
        {"checkpoint.mode": "async"},
    ),
    "an interval in seconds": (
        "interval = 500",
        'interval_type = "seconds"\ninterval = 500',
        {"checkpoint.interval_seconds": 500, "checkpoint.interval_steps": None},
    ),
    "retention": ("interval = 500", "interval = 50\nkeep_latest_k = 3", {"retention.keep_last": 3}),
}


def test_a_file_and_its_defaults_are_read_exactly() -> None:
    report = import_texts(LLAMA_70B, name="train.toml", num_gpus=256)
    assert fields_of(report, READ) == READ
    assert {each.field for each in report.needed} == {"storage.preset", "training.step_seconds"}
    assert [each.setting for each in report.no_matter] == ["job.dump_folder"]


@pytest.mark.parametrize(("old", "new", "fields"), CHANGES.values(), ids=CHANGES)
def test_a_changed_setting_changes_its_field(old: str, new: str, fields: dict[str, Any]) -> None:
    assert fields_of(import_texts(LLAMA_70B.replace(old, new), name="train.toml", num_gpus=256), fields) == fields


def test_gpus_are_asked_for_and_must_be_a_multiple_of_the_degrees() -> None:
    report = import_texts(LLAMA_70B, name="train.toml")
    assert [each.field for each in report.needed if each.is_required] == ["cluster.num_gpus"]
    with pytest.raises(InvalidInput, match=r"must be a multiple of 8.*tensor_parallel_degree"):
        import_texts(LLAMA_70B, name="train.toml", num_gpus=60)


def test_a_command_sets_over_the_file_and_says_how_many_gpus_it_starts() -> None:
    command = "torchrun --nnodes 4 --nproc_per_node 8 train.py --job.config_file a.toml --checkpoint.interval 100"
    report = import_texts(LLAMA_70B, command, name="train.toml")
    fields = {"cluster.num_gpus": 32, "checkpoint.interval_steps": 100, "parallelism.data": 4}
    assert fields_of(report, fields) == fields


FORMER = """
[job]
dump_folder = "./outputs"
[model]
name = "llama3"
flavor = "405B"
[training]
batch_size = 2
seq_len = 8192
data_parallel_shard_degree = -1
tensor_parallel_degree = 8
[experimental]
context_parallel_degree = 2
pipeline_parallel_degree = 4
enable_async_tensor_parallel = true
pipeline_parallel_split_points = ["layers.32"]
[checkpoint]
enable_checkpoint = true
interval_type = "seconds"
interval = 500
"""
"""As pytorch/torchtitan had it at e846b69: names of torchtitan/config_manager.py."""


def test_settings_by_their_former_names_are_read_and_former_defaults_asked_for() -> None:
    report = import_texts(FORMER, name="train.toml", num_gpus=512)
    expected = {
        "parallelism.tensor": 8,
        "parallelism.context": 2,
        "parallelism.pipeline": 4,
        "parallelism.data": 8,
        "checkpoint.interval_seconds": 500,
        "retention.keep_last": None,
        "training.micro_batch_size": None,
    }
    assert fields_of(report, expected) == expected
    assert [each.setting for each in report.not_understood] == ["experimental.pipeline_parallel_split_points"]
    asked = {"retention.keep_last", "parallelism.layers_per_stage", "training.micro_batch_size"}
    assert asked <= {each.field for each in report.needed}


@pytest.mark.parametrize(("switch", "is_asked"), [("", True), ("enable = true\n", False)])
def test_checkpoints_that_are_off_by_default_are_told(switch: str, is_asked: bool) -> None:
    text = f'[model]\nname = "llama3"\nflavor = "8B"\n[training]\nlocal_batch_size = 1\n[checkpoint]\n{switch}interval = 500\n'
    report = import_texts(text, num_gpus=8, name="train.toml")
    assert ("checkpoint.interval_steps" in {each.field for each in report.needed}) is is_asked
    assert fields_of(report, ["checkpoint.interval_steps"]) == {"checkpoint.interval_steps": 500}
