"""MaxText: scenarios of public commands and YAML files, of which only keys and values stand here."""

from __future__ import annotations

from typing import Any

import pytest

from sizing.importers import ConfigText, ImportRequest, import_config_files
from sizing.model import Model
from sizing.model.model import resolve
from tests.sizing.importers.imports import fields_of, import_texts

_TRAIN = "python3 -m MaxText.train MaxText/configs/base.yml run_name=r base_output_directory=/x"

COMMANDS: dict[str, tuple[str, int | None, dict[str, Any], set[str]]] = {
    "all axes, within and between slices": (
        "model_name=llama3.1-405b ici_fsdp_parallelism=4 ici_tensor_parallelism=2 dcn_fsdp_parallelism=16 "
        "dcn_data_parallelism=2 per_device_batch_size=2 max_target_length=8192 weight_dtype=bfloat16 "
        "checkpoint_period=200 max_num_checkpoints_to_keep=5 gradient_accumulation_steps=2",
        None,
        {
            "cluster.num_gpus": 256,
            "model.preset": "llama-3.1-405b",
            "parallelism.tensor": 2,
            "parallelism.data": 128,
            "parallelism.shard_group": 64,
            "training.precision": "bf16",
            "training.micro_batch_size": 4,
            "training.global_batch_size": 1024,
            "training.recomputation": "full",
            "checkpoint.interval_steps": 200,
            "checkpoint.mode": "async",
            "retention.keep_last": 5,
        },
        set(),
    ),
    "the rest of one slice to FSDP, with experts and context": (
        "model_name=mixtral-8x7b ici_expert_parallelism=2 ici_context_parallelism=2 num_slices=1 async_checkpointing=false",
        32,
        {
            "parallelism.expert": 2,
            "parallelism.context": 2,
            "parallelism.data": 16,
            "parallelism.shard_group": None,
            "training.precision": "bf16-mixed",
            "checkpoint.mode": "sync",
            "checkpoint.interval_steps": 10_000,
        },
        {"retention.keep_last"},
    ),
    "two axes that take the rest": (
        "model_name=llama2-7b",
        64,
        {"parallelism.data": None, "training.micro_batch_size": None},
        {"parallelism.data", "parallelism.shard_group", "retention.keep_last"},
    ),
    "what is not counted": (
        "model_name=gemma2-9b dtype=float16 opt_type=lion remat_policy=minimal num_slices=1",
        8,
        {"training.precision": None, "training.optimizer": None, "training.recomputation": None},
        {"model.preset", "training.precision", "training.optimizer", "training.recomputation", "retention.keep_last"},
    ),
    "a switch of the state": (
        "model_name=deepseek3-671b enable_single_replica_ckpt_restoring=true optimizer_memory_host_offload=true",
        8,
        {
            "model.preset": "deepseek-v3",
            "model.language_model_only": True,
            "checkpoint.restore": "read-once-broadcast",
            "training.offload.optimizer": "host",
        },
        {"retention.keep_last"},
    ),
}


@pytest.mark.parametrize(("words", "num_gpus", "expected", "needed"), COMMANDS.values(), ids=COMMANDS)
def test_a_command_becomes_its_scenario(
    words: str, num_gpus: int | None, expected: dict[str, Any], needed: set[str]
) -> None:
    report = import_texts(f"{_TRAIN} {words}", num_gpus=num_gpus)
    assert fields_of(report, expected) == expected
    assert {each.field for each in report.needed} - {"storage.preset", "training.step_seconds"} == needed


def test_the_default_model_is_counted_by_its_shape() -> None:
    scenario = import_texts(
        f"{_TRAIN} base_emb_dim=4096 base_num_decoder_layers=32 base_mlp_dim=11008 "
        "base_num_query_heads=32 base_num_kv_heads=32"
    ).scenario
    described = resolve(Model.model_validate(scenario["model"]))
    assert described.num_parameters == resolve(Model(preset="llama-2-7b")).num_parameters


def test_a_yaml_that_a_command_names_is_asked_for_and_read_below_it() -> None:
    command = "python3 MaxText/train.py MaxText/configs/models/gpu/llama2_7b.yml run_name=r steps=30 dcn_data_parallelism=16 ici_fsdp_parallelism=8"
    alone = import_texts(command)
    assert {"model.preset", "training.precision", "checkpoint.mode"} <= {each.field for each in alone.needed}
    config = "base_config: base.yml\nmodel_name: llama2-7b\nhardware: gpu\nasync_checkpointing: false\nper_device_batch_size: 4\nsteps: 5\n"
    files = [ConfigText(name="run.sh", content=command), ConfigText(name="llama2_7b.yml", content=config)]
    both = import_config_files(ImportRequest(files=files))
    expected = {
        "model.preset": "llama-2-7b",
        "checkpoint.mode": "sync",
        "cluster.num_gpus": 128,
        "parallelism.shard_group": 8,
    }
    assert fields_of(both, expected) == expected


def test_commands_that_convert_or_decode_are_no_training() -> None:
    script = f"python3 -m MaxText.decode base.yml model_name=llama2-7b per_device_batch_size=1 steps=1\n{_TRAIN} model_name=llama2-7b"
    assert import_texts(script, num_gpus=8).scenario["training"]["micro_batch_size"] == 12
