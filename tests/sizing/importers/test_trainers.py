"""Trainers on top of transformers, with DeepSpeed and accelerate: scenarios of public files, by their keys and values."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from sizing.errors import InvalidInput
from sizing.importers import ConfigText, ImportRequest, import_config_files
from sizing.scenario import Scenario
from tests.sizing.importers.imports import fields_of, import_texts

_AUTO = {"train_micro_batch_size_per_gpu": "auto", "gradient_accumulation_steps": "auto", "train_batch_size": "auto"}
_OFFLOADED = {
    **_AUTO,
    "bf16": {"enabled": "auto"},
    "fp16": {"enabled": "auto"},
    "optimizer": {"type": "AdamW", "params": {"lr": "auto"}},
    "zero_optimization": {
        "stage": 3,
        "offload_optimizer": {"device": "cpu"},
        "offload_param": {"device": "cpu"},
        "gather_16bit_weights_on_model_save": True,
    },
}
"""haotian-liu/LLaVA@c121f04:scripts/zero3_offload.json"""

_ZEPHYR = {
    "model_name_or_path": "mistralai/Mistral-7B-v0.1",
    "torch_dtype": "bfloat16",
    "bf16": True,
    "gradient_accumulation_steps": 1,
    "gradient_checkpointing": True,
    "max_seq_length": 2048,
    "output_dir": "data",
    "per_device_train_batch_size": 16,
    "save_strategy": "steps",
    "save_steps": 100,
    "save_total_limit": 1,
}
"""huggingface/alignment-handbook@925acdfe4b2b:recipes/zephyr-7b-beta/sft/config_full.yaml"""


def _launch(kind: str, processes: int = 8, **blocks: Any) -> str:
    """Return a config file of accelerate. Source of the keys: huggingface/accelerate@16cb6eb80dd9:examples."""
    top = {"compute_environment": "LOCAL_MACHINE", "distributed_type": kind, "num_machines": 1}
    return yaml.safe_dump({**top, "mixed_precision": "bf16", "num_processes": processes, **blocks})


_FLAGS = "--num_train_epochs 1 --learning_rate 2e-5 --output_dir ./x --model_name_or_path Qwen/Qwen2.5-7B"

FILES: dict[str, tuple[tuple[str, ...], int | None, dict[str, Any], set[str]]] = {
    "haotian-liu/LLaVA@c121f04:scripts/v1_5/finetune.sh with zero3_offload.json": (
        (
            "deepspeed llava/train/train_mem.py --deepspeed ./scripts/zero3_offload.json "
            "--model_name_or_path lmsys/vicuna-13b-v1.5 --bf16 True --num_train_epochs 1 "
            "--vision_tower openai/clip-vit-large-patch14-336 --per_device_train_batch_size 16 "
            "--gradient_accumulation_steps 1 --save_strategy steps --save_steps 50000 "
            "--save_total_limit 1 --learning_rate 2e-5 --tf32 True --model_max_length 2048 --gradient_checkpointing True",
            json.dumps(_OFFLOADED),
        ),
        16,
        {
            "training.framework": "deepspeed",
            "training.precision": "bf16-mixed",
            "training.optimizer": "adamw",
            "training.offload.optimizer": "host",
            "training.offload.weights": "host",
            "training.global_batch_size": 256,
            "parallelism.zero_stage": 3,
            "parallelism.data": 16,
            "checkpoint.interval_steps": 50_000,
            "checkpoint.export.dtype": "bf16",
            "retention.keep_last": 1,
        },
        {"model.preset"},
    ),
    "huggingface/alignment-handbook@925acdfe4b2b:zephyr-7b-beta/sft/config_full.yaml, launched by zero3.yaml": (
        (
            yaml.safe_dump(_ZEPHYR),
            _launch("DEEPSPEED", deepspeed_config={"zero_stage": 3, "zero3_save_16bit_model": True}),
        ),
        None,
        {
            "model.preset": "mistral-7b-v0.1",
            "cluster.num_gpus": 8,
            "training.framework": "deepspeed",
            "training.precision": "bf16-mixed",
            "parallelism.zero_stage": 3,
            "checkpoint.interval_steps": 100,
            "checkpoint.export.every": 1,
        },
        set(),
    ),
    "the same by fsdp.yaml, which casts the weights to fp32": (
        (
            yaml.safe_dump(_ZEPHYR),
            _launch(
                "FSDP",
                fsdp_config={"fsdp_sharding_strategy": "FULL_SHARD", "fsdp_state_dict_type": "SHARDED_STATE_DICT"},
            ),
        ),
        None,
        {
            "training.framework": "transformers",
            "training.precision": "bf16-mixed",
            "checkpoint.format": "accelerate-fsdp",
            "parallelism.data": 8,
            "parallelism.shard_group": 8,
        },
        set(),
    ),
    "the same by ddp.yaml, in the dtype that weights are loaded in": (
        (yaml.safe_dump(_ZEPHYR), _launch("MULTI_GPU")),
        None,
        {
            "training.framework": "transformers",
            "training.precision": "bf16",
            "training.optimizer": "adamw",
            "parallelism.shard_group": None,
        },
        set(),
    ),
    "the same alone, with no word of how it is launched": (
        (yaml.safe_dump(_ZEPHYR),),
        8,
        {"training.framework": "transformers"},
        {"training.framework"},
    ),
    "huggingface/alignment-handbook@925acdfe4b2b:zephyr-7b-beta/dpo/config_qlora.yaml": (
        (
            yaml.safe_dump(
                {
                    **{key: _ZEPHYR[key] for key in ("model_name_or_path", "torch_dtype", "bf16", "output_dir")},
                    "use_peft": True,
                    "load_in_4bit": True,
                    "lora_r": 128,
                    "lora_target_modules": [
                        *("q_proj", "k_proj", "v_proj", "o_proj"),
                        *("gate_proj", "up_proj", "down_proj"),
                    ],
                    "optim": "paged_adamw_32bit",
                    "save_steps": 100,
                    "load_best_model_at_end": True,
                    "save_total_limit": 1,
                    "num_train_epochs": 1,
                }
            ),
            _launch("MULTI_GPU", 4),
        ),
        None,
        {
            "training.adapters.rank": 128,
            "training.adapters.base_dtype": "nf4",
            "training.adapters.double_quant": False,
            "training.adapters.save_base": False,
            "training.adapters.tensors": [
                *("attention.key", "attention.output", "attention.query", "attention.value"),
                *("ffn.down", "ffn.up"),
            ],
            "training.precision": "bf16",
            "training.saved_state.moments": "fp32",
            "training.optimizer": "adamw",
            "retention.keep_last": 1,
            "retention.keep_best": 1,
        },
        set(),
    ),
    "huggingface/open-r1@1416fa0:OlympicCoder-32B/sft/config_v00.00.yaml, launched by fsdp.yaml": (
        (
            yaml.safe_dump(
                {
                    "bf16": True,
                    "optim": "paged_adamw_8bit",
                    "save_strategy": "epoch",
                    "save_only_model": True,
                    "save_total_limit": 1,
                    "torch_dtype": "bfloat16",
                    "output_dir": "data",
                    "num_train_epochs": 10,
                }
            ),
            _launch("FSDP", 16, fsdp_config={"fsdp_state_dict_type": "FULL_STATE_DICT"}),
        ),
        None,
        {
            "training.optimizer": "adam-8bit",
            "training.saved_state": {"master": None, "moments": None},
            "checkpoint.interval_steps": None,
        },
        {"checkpoint.interval_seconds", "model.preset"},
    ),
    "a share of the run's steps": (
        (
            f"torchrun --nproc_per_node 8 train.py {_FLAGS} --max_steps 1500 --save_steps 0.15 --bf16 --torch_dtype float32",
        ),
        None,
        {"checkpoint.interval_steps": 225, "training.precision": "bf16-mixed"},
        {"retention.keep_last"},
    ),
    "a script that does not say the dtype of its weights": (
        (f"torchrun --nproc_per_node 4 train.py {_FLAGS} --bf16",),
        None,
        {"training.precision": "bf16-mixed", "checkpoint.interval_steps": 500, "training.framework": "transformers"},
        {"training.precision", "retention.keep_last"},
    ),
    "weights in the dtype of a config.json beside": (
        (
            f"torchrun --nproc_per_node 4 train.py {_FLAGS} --bf16 --torch_dtype auto",
            json.dumps({"model_type": "qwen2", "torch_dtype": "bfloat16", "num_hidden_layers": 2, "hidden_size": 64}),
        ),
        None,
        {"training.precision": "bf16"},
        {"retention.keep_last"},
    ),
    "DeepSpeed by the name of its file alone": (
        (f"torchrun --nproc_per_node 8 train.py {_FLAGS} --bf16 --deepspeed examples/deepspeed/ds_z2_config.json",),
        None,
        {"parallelism.zero_stage": 2, "training.framework": "deepspeed"},
        {"parallelism.zero_stage", "retention.keep_last"},
    ),
    "flags of accelerate launch": (
        (
            "accelerate launch --use_fsdp --num_processes 16 --fsdp_offload_params true --fsdp_state_dict_type "
            f"SHARDED_STATE_DICT --mixed_precision bf16 train.py {_FLAGS} --fp16",
        ),
        None,
        {
            "cluster.num_gpus": 16,
            "training.precision": "fp16-mixed",
            "training.offload.weights": "host",
            "checkpoint.format": "accelerate-fsdp",
        },
        {"retention.keep_last"},
    ),
    "accelerate's config that is named and not given": (
        (f"accelerate launch --config_file cfg.yaml --num_processes 16 train.py {_FLAGS} --bf16",),
        None,
        {"cluster.num_gpus": 16},
        {"training.framework", "training.precision", "retention.keep_last"},
    ),
    "trl's command with a config that it ships": (
        (f"trl sft --accelerate_config zero2 --num_processes 8 {_FLAGS} --use_peft --save_total_limit 3",),
        None,
        {
            "cluster.num_gpus": 8,
            "parallelism.zero_stage": 2,
            "training.precision": "bf16-mixed",
            "training.adapters.rank": 16,
            "training.adapters.tensors": ["attention.query", "attention.value"],
            "training.recomputation": None,
            "retention.keep_last": 3,
        },
        set(),
    ),
    "microsoft/DeepSpeedExamples@83757d9c:deepspeed_bsz4k_onebitadam_config_seq128_nccl.json": (
        (
            json.dumps(
                {
                    "train_batch_size": 4096,
                    "train_micro_batch_size_per_gpu": 16,
                    "steps_per_print": 100,
                    "optimizer": {"type": "OneBitAdam", "params": {"lr": 4e-4, "freeze_step": 23000}},
                    "fp16": {"enabled": True, "loss_scale": 0},
                }
            ),
        ),
        256,
        {
            "parallelism.data": 256,
            "parallelism.zero_stage": 0,
            "training.precision": "fp16-mixed",
            "training.optimizer": "adam",
            "training.gradient_compression.method": "1-bit-adam",
        },
        {"model.preset", "checkpoint.interval_seconds", "retention.keep_last"},
    ),
    "huggingface/accelerate@16cb6eb80dd9:examples/torch_native_parallelism/configs/tp_hsdp.yaml": (
        (
            _launch(
                "FSDP",
                fsdp_config={"fsdp_version": 2, "fsdp_reshard_after_forward": True},
                parallelism_config={
                    "parallelism_config_dp_replicate_size": 2,
                    "parallelism_config_dp_shard_size": 2,
                    "parallelism_config_tp_size": 2,
                },
            ),
        ),
        None,
        {
            "training.framework": "accelerate",
            "training.precision": "bf16-mixed",
            "parallelism.tensor": 2,
            "parallelism.data": 4,
            "parallelism.shard_group": 2,
            "checkpoint.format": "accelerate-fsdp",
        },
        {"model.preset", "training.optimizer", "checkpoint.interval_seconds", "retention.keep_last"},
    ),
    "hiyouga/LLaMA-Factory@ff6d4d12eeb0:examples/train_full/qwen3_full_sft.yaml": (
        (
            yaml.safe_dump(
                {
                    "model_name_or_path": "Qwen/Qwen3-4B-Instruct-2507",
                    "stage": "sft",
                    "finetuning_type": "full",
                    "deepspeed": "examples/deepspeed/ds_z3_config.json",
                    "template": "qwen3_nothink",
                    "cutoff_len": 2048,
                    "save_steps": 500,
                    "per_device_train_batch_size": 1,
                    "gradient_accumulation_steps": 2,
                    "bf16": True,
                }
            ),
        ),
        8,
        {
            "model.preset": "qwen3-4b",
            "parallelism.zero_stage": 3,
            "training.precision": "bf16-mixed",
            "training.recomputation": "full",
            "training.global_batch_size": 16,
            "training.adapters.rank": None,
            "checkpoint.interval_steps": 500,
        },
        {"parallelism.zero_stage", "retention.keep_last"},
    ),
    "hiyouga/LLaMA-Factory@ff6d4d12eeb0:examples/train_qlora/qwen3_lora_sft_otfq.yaml": (
        (
            yaml.safe_dump(
                {
                    "model_name_or_path": "Qwen/Qwen3-4B-Instruct-2507",
                    "stage": "sft",
                    "quantization_bit": 4,
                    "template": "qwen3_nothink",
                    "cutoff_len": 2048,
                    "bf16": True,
                }
            ),
        ),
        1,
        {
            "training.adapters.rank": 8,
            "training.adapters.base_dtype": "nf4",
            "training.adapters.double_quant": True,
            "training.adapters.tensors": ["attention", "ffn"],
            "training.precision": "bf16-mixed",
            "training.framework": "transformers",
            "checkpoint.interval_steps": 500,
        },
        {"retention.keep_last"},
    ),
    "hiyouga/LLaMA-Factory@ff6d4d12eeb0:examples/extras/galore/llama3_full_sft.yaml": (
        (
            yaml.safe_dump(
                {
                    "model_name_or_path": "meta-llama/Meta-Llama-3-8B-Instruct",
                    "stage": "sft",
                    "finetuning_type": "full",
                    "use_galore": True,
                    "template": "llama3",
                    "pure_bf16": True,
                    "save_total_limit": 2,
                }
            ),
        ),
        1,
        {"training.precision": "bf16", "training.optimizer": None},
        {"training.optimizer"},
    ),
    "axolotl-ai-cloud/axolotl@067b021c8b87:examples/distributed-parallel/llama-3_1-8b-hsdp-tp.yaml": (
        (
            yaml.safe_dump(
                {
                    "base_model": "meta-llama/Llama-3.1-8B",
                    "dp_shard_size": 4,
                    "dp_replicate_size": 2,
                    "tensor_parallel_size": 2,
                    "fsdp_version": 2,
                    "fsdp_config": {"offload_params": False, "state_dict_type": "FULL_STATE_DICT"},
                    "sequence_len": 2048,
                    "sample_packing": True,
                    "micro_batch_size": 1,
                    "num_epochs": 2,
                    "optimizer": "adamw_torch_fused",
                    "bf16": True,
                    "saves_per_epoch": 1,
                }
            ),
        ),
        16,
        {
            "parallelism.tensor": 2,
            "parallelism.data": 8,
            "parallelism.shard_group": 4,
            "training.precision": "bf16",
            "training.optimizer": "adamw",
            "retention.keep_last": 4,
        },
        {"checkpoint.interval_seconds"},
    ),
    "axolotl-ai-cloud/axolotl@067b021c8b87:examples/llama-3/fft-8b-liger-fsdp.yaml": (
        (
            yaml.safe_dump(
                {
                    "base_model": "NousResearch/Meta-Llama-3.1-8B",
                    "fsdp": ["full_shard", "auto_wrap"],
                    "fsdp_config": {
                        "fsdp_offload_params": True,
                        "fsdp_state_dict_type": "FULL_STATE_DICT",
                        "fsdp_sharding_strategy": "FULL_SHARD",
                    },
                    "sequence_len": 4096,
                    "micro_batch_size": 2,
                    "num_epochs": 1,
                    "sample_packing": True,
                    "optimizer": "adamw_torch_fused",
                    "bf16": True,
                    "save_steps": 40,
                    "save_total_limit": 7,
                }
            ),
        ),
        8,
        {
            "training.precision": "bf16-mixed",
            "training.offload.optimizer": "host",
            "parallelism.shard_group": 8,
            "checkpoint.interval_steps": 40,
            "retention.keep_last": 7,
        },
        set(),
    ),
    "modelscope/ms-swift@3602360a5:examples/train/multi-gpu/deepspeed/train_zero3.sh": (
        (
            "nproc_per_node=2\nCUDA_VISIBLE_DEVICES=0,1 NPROC_PER_NODE=$nproc_per_node swift sft "
            "--model Qwen/Qwen2.5-7B-Instruct --tuner_type lora --torch_dtype bfloat16 --lora_rank 8 --target_modules "
            "all-linear --per_device_train_batch_size 1 --gradient_accumulation_steps 8 --save_steps 100 "
            "--save_total_limit 2 --max_length 2048 --output_dir output --deepspeed zero3",
        ),
        None,
        {
            "cluster.num_gpus": 2,
            "training.framework": "deepspeed",
            "training.precision": "bf16-mixed",
            "training.adapters.tensors": ["attention", "ffn"],
            "training.global_batch_size": 16,
            "parallelism.zero_stage": 3,
            "checkpoint.interval_steps": 100,
            "retention.keep_last": 2,
        },
        set(),
    ),
    "modelscope/ms-swift@3602360a5:examples/train/full/train.sh": (
        (
            "CUDA_VISIBLE_DEVICES=0 NPROC_PER_NODE=1 swift sft --model Qwen/Qwen2.5-7B-Instruct --tuner_type full "
            "--torch_dtype bfloat16 --num_train_epochs 1 --per_device_train_batch_size 1 --save_steps 100 "
            "--save_total_limit 2 --max_length 2048 --output_dir output --learning_rate 1e-5",
        ),
        None,
        {"training.framework": "transformers", "training.precision": "bf16", "training.adapters.rank": None},
        set(),
    ),
    "LLaMA-Factory on two nodes, by its environment": (
        (
            "FORCE_TORCHRUN=1 NNODES=2 NPROC_PER_NODE=8 llamafactory-cli train --stage sft --finetuning_type full "
            "--model_name_or_path meta-llama/Llama-2-13b-hf --template llama2 --output_dir x --bf16 true --save_steps 50 "
            "--save_total_limit 4 --fsdp 'full_shard auto_wrap offload'",
        ),
        None,
        {
            "cluster.num_gpus": 16,
            "parallelism.shard_group": 16,
            "training.precision": "bf16-mixed",
            "training.offload.optimizer": "host",
            "checkpoint.format": None,
        },
        set(),
    ),
}


@pytest.mark.parametrize(("texts", "num_gpus", "expected", "asked"), FILES.values(), ids=list(FILES))
def test_a_file_becomes_the_fields_that_it_gives(
    texts: tuple[str, ...], num_gpus: int | None, expected: dict[str, Any], asked: set[str]
) -> None:
    report = import_texts(*texts, num_gpus=num_gpus)
    assert fields_of(report, expected) == expected
    assert {each.field for each in report.needed} - {"storage.preset", "training.step_seconds"} == asked


_AXOLOTL = {"base_model": "NousResearch/Meta-Llama-3-8B", "adapter": "qlora", "lora_r": 16, "lora_target_linear": True}
_FACTORY = {"model_name_or_path": "Qwen/Qwen3-4B-Instruct-2507", "stage": "sft", "finetuning_type": "lora"}


@pytest.mark.parametrize(
    ("settings", "dtype", "double"),
    [
        ({**_AXOLOTL, "load_in_4bit": True, "bf16": "auto"}, "nf4", True),
        ({**_AXOLOTL, "load_in_8bit": True, "bf16": "auto"}, "int8", None),
        ({**_AXOLOTL, "load_in_8bit": False, "bf16": "auto"}, None, None),
        ({**_FACTORY, "quantization_bit": 4, "quantization_type": "fp4", "double_quantization": False}, "fp4", False),
        ({**_FACTORY, "quantization_bit": 8}, "int8", None),
        ({**_FACTORY, "quantization_bit": 3}, None, None),
    ],
)
def test_a_base_in_4_or_8_bits_becomes_its_dtype(
    settings: dict[str, Any], dtype: str | None, double: bool | None
) -> None:
    report = import_texts(yaml.safe_dump(settings), num_gpus=8, name="train.yaml")
    names = ("training.adapters.base_dtype", "training.adapters.double_quant")
    assert tuple(fields_of(report, names).values()) == (dtype, double)
    is_told = any(row.setting == "quantization_bit" for row in report.not_understood)
    assert is_told is (settings.get("quantization_bit") == 3)


def test_an_axolotl_file_that_has_many_settings_of_a_trainer_is_axolotls() -> None:
    """As axolotl-ai-cloud/axolotl has it: examples/llama-3/diffusion/pretrain-1b.yaml, in fewer settings."""
    of_axolotl = {"base_model": "meta-llama/Llama-3.2-1B", "sequence_len": 512, "micro_batch_size": 4}
    of_trainer = {
        "output_dir": "out",
        "gradient_accumulation_steps": 8,
        "max_steps": 10000,
        "warmup_ratio": 0.1,
        "learning_rate": 3e-4,
        "bf16": "auto",
        "logging_steps": 1,
        "save_strategy": "steps",
        "save_steps": 1000,
        "optimizer": "adamw_8bit",
    }
    report = import_texts(yaml.safe_dump({**of_axolotl, **of_trainer}), name="train.yaml", num_gpus=16)
    assert [each.read_as for each in report.files] == ["axolotl"]
    fields = {"training.precision": "bf16", "training.optimizer": "adam-8bit", "retention.keep_last": 4}
    assert fields_of(report, fields) == fields


@pytest.mark.parametrize("is_on", [True, False])
def test_axolotl_says_whether_experts_are_quantised(is_on: bool) -> None:
    settings = {**_AXOLOTL, "base_model": "Qwen/Qwen3-30B-A3B", "load_in_4bit": True, "bf16": "auto"}
    text = yaml.safe_dump(settings | {"quantize_moe_experts": is_on})
    report = import_texts(text, num_gpus=8, name="train.yaml")
    name = "training.adapters.quantize_experts"
    assert fields_of(report, (name,)) == {name: is_on}
    assert not any(row.setting == "quantize_moe_experts" for row in report.not_understood)


@pytest.mark.parametrize(
    ("text", "dora"),
    [
        (yaml.safe_dump({**_AXOLOTL, "load_in_8bit": False, "bf16": "auto", "peft_use_dora": True}), True),
        (yaml.safe_dump({**_FACTORY, "quantization_bit": 8, "use_dora": True}), True),
        (yaml.safe_dump({**_FACTORY, "quantization_bit": 8, "use_dora": False}), False),
        (yaml.safe_dump({**_FACTORY, "quantization_bit": 8}), None),
        (
            f"torchrun train.py {_FLAGS} --use_peft --use_dora --lora_target_modules q_proj --model_name_or_path gpt2",
            True,
        ),
    ],
)
def test_dora_is_read(text: str, dora: bool | None) -> None:
    report = import_texts(text, num_gpus=8, name="train.sh" if text.startswith("torchrun") else "train.yaml")
    assert fields_of(report, ["training.adapters.dora"]) == {"training.adapters.dora": dora}
    assert not any("dora" in row.setting for row in report.not_understood)


def test_a_model_with_experts_has_its_adapters_asked_for() -> None:
    report = import_texts(
        f"torchrun train.py {_FLAGS} --use_peft --lora_target_modules all-linear --model_name_or_path Qwen/Qwen3-30B-A3B"
    )
    assert "training.adapters.tensors" in {each.field for each in report.needed}


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        (
            {"zero_optimization": {"stage": 3, "zero_hpz_partition_size": 8}},
            "zero_optimization.zero_hpz_partition_size",
        ),
        ({"checkpoint": {"use_node_local_storage": True}}, "checkpoint.use_node_local_storage"),
        ({"bf16": {"enabled": True, "bf16_master_weights_and_grads": True}}, "bf16.bf16_master_weights_and_grads"),
    ],
)
def test_what_deepspeed_does_and_no_field_says_is_told(settings: dict[str, Any], name: str) -> None:
    report = import_texts(json.dumps({"train_batch_size": 8, "steps_per_print": 1, **settings}))
    assert name in {each.setting for each in report.not_understood}


@pytest.mark.parametrize(("stage", "gathers", "is_written"), [(3, True, True), (3, False, False), (2, True, True)])
def test_gathered_weights_have_an_effect_with_zero_3_alone(stage: int, gathers: bool, is_written: bool) -> None:
    name = "stage3_gather_16bit_weights_on_model_save"
    deepspeed = {"bf16": {"enabled": True}, "zero_optimization": {"stage": stage, name: gathers}}
    report = import_texts(f"deepspeed train.py {_FLAGS} --bf16 True --deepspeed x.json", json.dumps(deepspeed))
    assert (report.scenario["checkpoint"].get("export") is not None) is is_written
    has_effect = f"zero_optimization.{name}" not in {each.setting for each in report.no_matter}
    assert has_effect is (stage == 3)


@pytest.mark.parametrize(("stage", "gathers"), [(3, True), (3, False), (2, False)])
def test_adapters_are_written_beside_deepspeeds_files_with_each_stage(stage: int, gathers: bool) -> None:
    gathering = {"stage": stage, "stage3_gather_16bit_weights_on_model_save": gathers}
    deepspeed = json.dumps({"bf16": {"enabled": True}, "zero_optimization": gathering})
    report = import_texts(
        f"deepspeed train.py {_FLAGS} --bf16 True --deepspeed x.json --use_peft --lora_r 16 "
        "--lora_target_modules q_proj v_proj --model_name_or_path meta-llama/Llama-3.1-8B",
        deepspeed,
    )
    expected = {"checkpoint.export.content": "adapters", "checkpoint.export.dtype": "bf16"}
    assert fields_of(report, expected) == expected


_FSDP = f"torchrun --nproc_per_node 8 train.py --fsdp full_shard --bf16 True --save_steps 9 {_FLAGS}"


@pytest.mark.parametrize(
    ("form", "saved_as"), [("SHARDED_STATE_DICT", "accelerate-fsdp"), ("FULL_STATE_DICT", "hf-trainer")]
)
def test_settings_of_fsdp_are_read_from_a_flag_or_a_file_of_theirs(form: str, saved_as: str) -> None:
    settings = json.dumps({"fsdp_transformer_layer_cls_to_wrap": ["Block"], "state_dict_type": form})
    by_flag = import_texts(f"{_FSDP} --fsdp_config '{settings}'")
    by_file = import_texts(f"{_FSDP} --fsdp_config fsdp.json", settings)
    for report in (by_flag, by_file):
        assert Scenario.model_validate(report.scenario).checkpoint.format == saved_as
        assert not report.not_understood
        assert "checkpoint.format" not in {each.field for each in report.needed}
    asked = import_texts(f"{_FSDP} --fsdp_config fsdp.json")
    assert "checkpoint.format" in {each.field for each in asked.needed}


def test_weights_alone_beside_deepspeed_are_no_files_of_deepspeed() -> None:
    report = import_texts(
        f"deepspeed train.py --deepspeed zero2.json --save_only_model True {_FLAGS}", json.dumps(_OFFLOADED)
    )
    assert (
        "rank 0 alone writes model.safetensors" in {each.field: each.why for each in report.needed}["checkpoint.format"]
    )


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("train.py", "#!/usr/bin/env python\nimport torch\n", "is a Python program, which is not read"),
        ("recipe.py", "import nemo\n\ndef recipe():\n    return 1\n", "is a Python program, which is not read"),
        ("mpt.yaml", "max_duration: 9ba\nalgorithms:\n  low_precision_layernorm: {}\n", "is of Composer"),
        (
            "20B.yml",
            '{"pipe-parallel-size": 4, "model-parallel-size": 2, "num-layers": 44}',
            "is of GPT-NeoX, which is",
        ),
        (
            "125M.yml",
            "num_layers: 12\nhidden_size: 768\noptimizer: {type: Adam}\nfp16: {enabled: true}\n",
            "is of GPT-NeoX",
        ),
        ("run.sh", "python ./deepy.py train.py -d configs 20B.yml local_setup.yml", "is of GPT-NeoX"),
        ("8B_full.yaml", "model: {_component_: torchtune.models.llama3.llama3_8b}\nepochs: 1\n", "is of torchtune"),
        ("run.sh", "tune run --nproc_per_node 8 full_finetune_distributed --config llama3/8B_full", "is of torchtune"),
        ("sft.yaml", "policy: {model_name: x, dtensor_cfg: {lora_cfg: {enabled: false, dim: 8}}}\n", "is of NeMo-RL"),
        ("run.sh", "uv run examples/run_sft.py policy.model_name=Qwen/Qwen2.5-7B cluster.num_nodes=2", "is of NeMo-RL"),
        (
            "llama3.yaml",
            "trainer: {devices: 8, precision: 32, strategy: {_target_: a.MegatronStrategy, tensor_model_parallel_size: 4}}\n"
            "log: {ckpt: {save_top_k: 3}}\noptim: {config: {optimizer: adam}}\n",
            "is of NeMo 2, which is not read",
        ),
        ("run.sh", "nemo llm pretrain --factory llama3_8b trainer.devices=8 trainer.num_nodes=2 -y", "is of NeMo 2"),
        ("run.sh", f"deepspeed --module openrlhf.cli.train_sft {_FLAGS} --bf16 --save_steps 9", "is of OpenRLHF"),
        ("train.yaml", " \n", "train.yaml is empty: give the file as the training reads or writes it"),
        ("own.yaml", "train_loader: {name: x}\nshuffle: true\n", "has the settings of no training that is known"),
        ("compose.yaml", "version: '3'\nservices: {a: {image: x}}\n", "has the settings of no training that is known"),
    ],
)
def test_what_is_not_read_is_refused_by_what_it_is(name: str, text: str, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        import_texts(text, name=name)


def test_a_trainer_that_contradicts_deepspeed_is_refused() -> None:
    deepspeed = json.dumps({**_OFFLOADED, "bf16": {"enabled": True}})
    with pytest.raises(InvalidInput, match=r"bf16-mixed.* in 1-train\.sh: bf16\.enabled.* and .*fp16-mixed"):
        import_texts(f"deepspeed train.py {_FLAGS} --fp16 True --deepspeed x.json", deepspeed)


def test_a_loop_of_its_own_is_not_taken_for_the_trainer() -> None:
    report = import_texts(
        "deepspeed main.py --model_name_or_path meta-llama/Llama-2-7b-hf --per_device_train_batch_size 4 "
        "--num_train_epochs 4 --learning_rate 9.65e-6 --num_warmup_steps 0 --zero_stage 3 --output_dir x"
    )
    assert fields_of(report, ["parallelism.zero_stage", "checkpoint.interval_steps"]) == {
        "parallelism.zero_stage": 3,
        "checkpoint.interval_steps": None,
    }
    assert {"training.precision", "retention.keep_last"} <= {each.field for each in report.needed}


def test_parts_that_a_script_trains_by_switches_of_its_own_are_asked_for() -> None:
    # OpenGVLab/InternVL: internvl_chat/shell/internvl2.0/2nd_finetune/internvl2_8b_internlm2_7b_dynamic_res_2nd_finetune_lora.sh
    report = import_texts(
        f"torchrun --nproc_per_node 2 train.py {_FLAGS} --freeze_llm True --freeze_mlp False --use_llm_lora 16 --bf16 True"
    )
    assert {"training.frozen", "training.adapters"} <= {each.field for each in report.needed}
    assert {"--freeze_llm", "--use_llm_lora"} == {each.setting for each in report.not_understood}


def test_folders_and_tokens_are_nowhere_in_a_report() -> None:
    report = import_texts(
        "deepspeed train.py --model_name_or_path /home/mary/Qwen2.5-7B --hub_token hf_mary --output_dir /home/mary/x "
        "--learning_rate 1e-5 --num_train_epochs 1 --deepspeed /home/mary/ds_z3.json"
    )
    assert "mary" not in report.model_dump_json()
    assert fields_of(report, ["model.preset", "parallelism.zero_stage"]) == {
        "model.preset": "qwen2.5-7b",
        "parallelism.zero_stage": 3,
    }


@pytest.mark.parametrize(
    ("settings", "modules"),
    [
        (
            {**_AXOLOTL, "load_in_8bit": True, "bf16": "auto", "lora_modules_to_save": ["embed_tokens", "lm_head"]},
            ["embed_tokens", "lm_head"],
        ),
        ({**_FACTORY, "quantization_bit": 8, "additional_target": "embed_tokens,lm_head"}, ["embed_tokens", "lm_head"]),
        ({**_FACTORY, "quantization_bit": 8, "additional_target": "score"}, None),
    ],
)
def test_modules_that_are_trained_whole_become_those_to_save(
    settings: dict[str, Any], modules: list[str] | None
) -> None:
    report = import_texts(yaml.safe_dump(settings), num_gpus=8, name="train.yaml")
    path = "training.adapters.modules_to_save"
    assert fields_of(report, [path]) == {path: modules}
    assert (path in {each.field for each in report.needed}) is (modules is None)
    raises_them = modules is not None and "additional_target" in settings
    assert fields_of(report, ["training.trainer"]) == {"training.trainer": "llamafactory" if raises_them else None}


_PEFT: dict[str, Any] = {
    "alpha_pattern": {},
    "auto_mapping": None,
    "base_model_name_or_path": "meta-llama/Llama-3.1-8B-Instruct",
    "bias": "none",
    "fan_in_fan_out": False,
    "inference_mode": True,
    "init_lora_weights": True,
    "layers_to_transform": None,
    "lora_alpha": 32,
    "lora_bias": False,
    "lora_dropout": 0.05,
    "modules_to_save": None,
    "peft_type": "LORA",
    "r": 16,
    "rank_pattern": {},
    "target_modules": ["v_proj", "q_proj"],
    "task_type": "CAUSAL_LM",
    "use_dora": False,
    "use_rslora": False,
}
"""Keys and values of an adapter_config.json as PEFT 0.21.2 saves it."""


def test_a_config_of_peft_becomes_adapters_of_its_base_model() -> None:
    text = json.dumps({**_PEFT, "modules_to_save": ["lm_head"], "bias": "all", "use_dora": True})
    report = import_texts(text, num_gpus=8, name="adapter_config.json")
    expected = {
        "model.preset": "llama-3.1-8b",
        "training.framework": "transformers",
        "training.adapters.rank": 16,
        "training.adapters.tensors": ["attention.query", "attention.value"],
        "training.adapters.modules_to_save": ["lm_head"],
        "training.adapters.bias": "all",
        "training.adapters.dora": True,
        "training.adapters.save_base": False,
    }
    assert fields_of(report, expected) == expected
    assert report.not_understood == []
    assert {each.field for each in report.needed} == {"storage.preset", "training.framework"}


@pytest.mark.parametrize(
    ("change", "setting", "needed"),
    [
        ({"peft_type": "IA3"}, "peft_type", "training.adapters"),
        ({"rank_pattern": {"q_proj": 64}}, "rank_pattern.q_proj", "training.adapters"),
        ({"layers_to_transform": [0, 1]}, "layers_to_transform", "training.adapters"),
        ({"base_model_name_or_path": "my/own-model"}, "base_model_name_or_path", "model.preset"),
        ({"target_modules": ["q_proj", "lm_head"]}, "target_modules", "training.adapters.tensors"),
        ({"task_type": "SEQ_CLS"}, "task_type", "training.framework"),
    ],
)
def test_what_a_config_of_peft_says_beyond_a_scenario_is_told(
    change: dict[str, Any], setting: str, needed: str
) -> None:
    report = import_texts(json.dumps({**_PEFT, **change}), num_gpus=8, name="adapter_config.json")
    assert setting in {row.setting for row in report.not_understood}
    assert needed in {each.field for each in report.needed}


def test_a_config_of_peft_beside_a_trainers_file_leaves_the_framework_to_it() -> None:
    flags = f"torchrun train.py {_FLAGS.replace('Qwen/Qwen2.5-7B', 'meta-llama/Llama-3.1-8B-Instruct')} --bf16 True"
    report = import_texts(flags, json.dumps(_PEFT), num_gpus=8)
    path = "training.adapters.rank"
    assert fields_of(report, [path]) == {path: 16}


def test_a_config_of_peft_without_a_rank_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"training\.adapters\.rank is required"):
        import_texts(json.dumps({**_PEFT, "r": "sixteen"}), num_gpus=8, name="adapter_config.json")


def test_a_base_in_4_bits_by_its_name_is_one_of_a_config_of_peft() -> None:
    text = json.dumps({**_PEFT, "base_model_name_or_path": "unsloth/meta-llama-3.1-8b-instruct-unsloth-bnb-4bit"})
    expected = {"model.preset": "llama-3.1-8b", "training.adapters.base_dtype": "nf4"}
    assert fields_of(import_texts(text, num_gpus=8, name="adapter_config.json"), expected) == expected


_SHARED: dict[str, Any] = {
    "model_name_or_path": "meta-llama/Meta-Llama-3-8B",
    "learning_rate": 2e-5,
    "bf16": True,
    "num_train_epochs": 1,
    "per_device_train_batch_size": 2,
    "gradient_accumulation_steps": 8,
    "eval_steps": 100,
    "packing": True,
    "dataloader_num_workers": 4,
    "output_dir": "s",
    "save_steps": 100,
}
"""Settings that files of transformers, TRL, LLaMA-Factory and ms-swift share. Source: their TrainingArguments."""
_OFF = {"lora_r": 16, "lora_rank": 8, "lora_alpha": 16}


@pytest.mark.parametrize(
    ("settings", "read_as"),
    [
        (_SHARED, "Trainer of transformers"),
        ({**_SHARED, "max_length": 2048, "gradient_checkpointing": True}, "Trainer of transformers"),
        ({**_SHARED, "max_samples": 1000, "template": "x"}, "Trainer of transformers"),
        ({**_SHARED, **_OFF, "max_length": 2048, "use_peft": False}, "Trainer of transformers"),
        ({**_SHARED, "max_length": 2048, "lora_rank": 0}, "Trainer of transformers"),
        ({**_SHARED, "max_length": 2048, "lora_r": None}, "Trainer of transformers"),
        ({**_SHARED, **_OFF, "dataset": "x", "finetuning_type": "full"}, "LLaMA-Factory"),
        ({**_SHARED, **_OFF, "dataset": "x", "model": "Qwen/Qwen2.5-7B", "train_type": "full"}, "ms-swift"),
    ],
)
def test_a_full_training_has_no_adapters_by_its_likeness_to_trainers_that_have(
    settings: dict[str, Any], read_as: str
) -> None:
    report = import_texts(yaml.safe_dump(settings), num_gpus=8, name="train.yaml")
    assert [each.read_as for each in report.files] == [read_as]
    assert "adapters" not in report.scenario["training"]


_OF_FACTORY = {**_SHARED, "finetuning_type": "lora", "lora_rank": 8, "stage": "sft", "template": "llama3"}
_OF_SWIFT = {"model": "Qwen/Qwen2.5-7B", "dataset": ["x"], "torch_dtype": "bfloat16", "save_steps": 100, "lora_rank": 8}
_RANK, _STEPS, _OPTIMIZER = "training.adapters.rank", "checkpoint.interval_steps", "training.optimizer"


@pytest.mark.parametrize(
    ("command", "settings", "expected"),
    [
        ("llamafactory-cli train ex/train.yaml finetuning_type=full save_steps=7", _OF_FACTORY, (None, 7, "adamw")),
        ("llamafactory-cli train ex/train.yaml lora_rank=64 optim=sgd", _OF_FACTORY, (64, 100, "sgd")),
        ("NPROC_PER_NODE=8 swift sft --config train.yaml --train_type full", _OF_SWIFT, (None, 100, "adamw")),
        ("swift sft train.yaml --save_steps 7", {**_OF_SWIFT, "tuner_type": "lora"}, (8, 7, "adamw")),
        ("trl sft --config train.yaml --save_steps 7", _SHARED, (None, 7, "adamw")),
        (
            "accelerate launch trl/scripts/sft.py --config train.yaml --use_peft --lora_r 32 --lora_target_modules q_proj",
            _SHARED,
            (32, 100, "adamw"),
        ),
        ("axolotl train train.yaml --adapter lora --lora-r 32 --save_steps 7", _AXOLOTL, (32, 7, "adamw")),
    ],
)
def test_words_of_a_command_stand_over_the_file_that_it_names(
    command: str, settings: dict[str, Any], expected: tuple[int | None, int | None, str | None]
) -> None:
    files = [
        ConfigText(name="run.sh", content=command),
        ConfigText(name="train.yaml", content=yaml.safe_dump(settings)),
    ]
    report = import_config_files(ImportRequest(files=files, num_gpus=8))
    became = tuple(fields_of(report, (_RANK, _STEPS, _OPTIMIZER)).values())
    assert became == expected
    assert report.not_understood == []


_OF_TRL = {"model_name_or_path": "Qwen/Qwen2.5-7B", "learning_rate": 2e-5, "output_dir": "x", "use_peft": True}


@pytest.mark.parametrize(
    ("text", "base_dtype", "doubted"),
    [
        (f"trl sft {_FLAGS} --use_peft", "fp32", False),
        (f"accelerate launch trl/scripts/sft.py {_FLAGS} --use_peft", "fp32", False),
        (f"accelerate launch --use_fsdp trl/scripts/sft.py {_FLAGS} --use_peft", "fp32", False),
        (f"accelerate launch train.py {_FLAGS} --use_peft", "fp32", True),
        (yaml.safe_dump(_OF_TRL), "fp32", True),
        (yaml.safe_dump(_OF_TRL | {"dtype": "bfloat16"}), None, False),
        (yaml.safe_dump(_OF_TRL | {"torch_dtype": "auto"}), None, False),
        (yaml.safe_dump(_OF_TRL | {"load_in_4bit": True}), "nf4", False),
        (f"trl sft --accelerate_config zero2 {_FLAGS} --use_peft", None, False),
        (f"accelerate launch train.py {_FLAGS} --lora_r 16", None, False),
    ],
)
def test_trl_loads_the_frozen_weights_in_fp32_however_it_is_started(
    text: str, base_dtype: str | None, doubted: bool
) -> None:
    """ModelConfig.dtype of TRL is float32; DeepSpeed casts the weights that it is given."""
    report = import_texts(text, num_gpus=8, name="train.yaml" if text.startswith("learning") else "train.sh")
    path = "training.adapters.base_dtype"
    assert fields_of(report, [path]) == {path: base_dtype}
    assert (path in {each.field for each in report.needed}) is doubted


def test_defaults_of_trl_are_told_as_trls() -> None:
    report = import_texts(f"accelerate launch trl/scripts/sft.py {_FLAGS} --use_peft --max_length 512", num_gpus=8)
    told = {each.field: (each.file, each.setting, each.value, each.became) for each in report.defaults}
    assert told["training.recomputation"] == ("TRL", "gradient_checkpointing", True, "full")
    assert told["training.precision"] == ("TRL", "bf16", True, "bf16-mixed")
    assert told["training.adapters.rank"] == ("TRL", "lora_r", 16, 16)
    other = import_texts(f"accelerate launch train.py {_FLAGS} --gradient_checkpointing", num_gpus=8)
    assert {each.file for each in other.defaults} == {"Trainer of transformers"}


@pytest.mark.parametrize(
    "command", ["llamafactory-cli train ex/train.yaml finetuning_type=full", "trl sft --config train.yaml --lora_r 8"]
)
def test_a_command_that_says_little_more_than_a_file_asks_for_it(command: str) -> None:
    with pytest.raises(InvalidInput, match=r"names a file that is not given, got 'train\.yaml': give that file too"):
        import_texts(command, num_gpus=8)


@pytest.mark.parametrize(
    ("kind", "params", "optimizer"),
    [
        ("SGD", {"lr": 1}, "sgd"),
        ("SGD", {"lr": 1, "momentum": 0.9}, "sgd-momentum"),
        ("Adam", {"torch_adam": True, "amsgrad": True}, "adam-amsgrad"),
    ],
)
def test_params_of_deepspeeds_optimizer_say_what_it_keeps(kind: str, params: dict[str, Any], optimizer: str) -> None:
    text = json.dumps({"train_batch_size": 8, "optimizer": {"type": kind, "params": params}})
    assert fields_of(import_texts(text), [_OPTIMIZER]) == {_OPTIMIZER: optimizer}
