"""Megatron-LM's arguments: scenarios of public scripts, of which only keys and values stand here."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from sizing.cli.config_file_reading import read_config_file
from sizing.config_files.block_shape import stage_layers
from sizing.importers import ImportRequest, import_config_files
from sizing.model import Model
from sizing.model.model import resolve
from tests.sizing.importers.imports import fields_of, import_texts

_LLAMA = (
    "--swiglu --normalization RMSNorm --disable-bias-linear --position-embedding-type rope "
    "--untie-embeddings-and-output-weights --group-query-attention"
)
_STEP = "--micro-batch-size 1 --seq-length 8192"

SCRIPTS: dict[str, tuple[str, int, dict[str, Any], set[str]]] = {
    "swiss-ai/Megatron-LM@81d44dbe25c2:submit-llama3-70b.sh": (
        f"{_LLAMA} {_STEP} --num-layers 80 --hidden-size 8192 --ffn-hidden-size 28672 --num-attention-heads 64 "
        "--num-query-groups 8 --global-batch-size 1024 --tensor-model-parallel-size 4 --pipeline-model-parallel-size 8 "
        "--num-layers-per-virtual-pipeline-stage 5 --sequence-parallel --use-distributed-optimizer --bf16 "
        "--overlap-grad-reduce --overlap-param-gather --save-interval 250 --ckpt-format torch_dist --async-save "
        "--tokenizer-type HuggingFaceTokenizer --tokenizer-model alehc/swissai-tokenizer",
        128,
        {
            "parallelism.tensor": 4,
            "parallelism.pipeline": 8,
            "parallelism.virtual_pipeline": 2,
            "parallelism.data": 4,
            "training.precision": "bf16-mixed",
            "training.distributed_optimizer": True,
            "training.sequence_parallel": True,
            "training.global_batch_size": 1024,
            "training.achieved.overlap.gradients": 1.0,
            "checkpoint.interval_steps": 250,
            "checkpoint.mode": "async",
            "checkpoint.format": "torch-dist",
        },
        {"model.architecture.vocab_size", "retention.keep_last"},
    ),
    "bigscience-workshop/bigscience@9e64edec2ad1:train/tr11-176B-ml/tr11-176B-ml.slurm": (
        "--num-layers 70 --hidden-size 14336 --num-attention-heads 112 --embed-layernorm --position-embedding-type alibi "
        "--pad-vocab-size-to 250880 --tensor-model-parallel-size 4 --pipeline-model-parallel-size 12 "
        "--pp-partition-method type:transformer|embedding --micro-batch-size 2 --seq-length 2048 "
        "--global-batch-size 2048 --bf16 --checkpoint-activations --save-interval 100 --deepspeed --zero-stage 0",
        192,
        {
            "training.framework": "deepspeed",
            "model.architecture.family": "bloom",
            "model.architecture.vocab_size": 250_880,
            "training.vocabulary_padding_multiple": None,
            "parallelism.data": 4,
            "parallelism.zero_stage": 1,  # in bf16 DeepSpeed divides the optimizer whatever the stage
            "parallelism.embedding_counts_as_layer": True,
            "training.recomputation": "full",
            "training.attention": "eager",
            "checkpoint.format": None,
        },
        {"retention.keep_last"},
    ),
    "NVIDIA/Megatron-LM@d98e8a64ddf3:examples/megatron_fsdp/sbatch_mfsdp_deepseek_v3.sh": (
        "--num-layers 61 --hidden-size 7168 --ffn-hidden-size 18432 --num-attention-heads 128 --multi-latent-attention "
        "--q-lora-rank 1536 --kv-lora-rank 512 --qk-head-dim 128 --qk-pos-emb-head-dim 64 --v-head-dim 128 --swiglu "
        "--qk-layernorm --normalization RMSNorm --disable-bias-linear --position-embedding-type rope "
        "--untie-embeddings-and-output-weights --num-experts 256 --moe-layer-freq '[0]*3+[1]*58' --moe-router-topk 8 "
        "--moe-ffn-hidden-size 2048 --moe-shared-expert-intermediate-size 2048 --mtp-num-layers 1 "
        "--tokenizer-model deepseek-ai/DeepSeek-V3 --make-vocab-size-divisible-by 3232 --moe-token-dispatcher-type flex "
        "--expert-model-parallel-size 8 --expert-tensor-parallel-size 1 --use-megatron-fsdp "
        "--use-distributed-optimizer --ckpt-format fsdp_dtensor --bf16 --micro-batch-size 4 --seq-length 4096 "
        "--global-batch-size 2048 --save-interval 100",
        256,
        {
            "parallelism.expert": 8,
            "parallelism.expert_tensor": 1,
            "parallelism.data": 256,
            "checkpoint.format": "fsdp-dtensor",
            "training.expert_dispatch": "deepep",
            "training.vocabulary_padding_multiple": 3232,
            "model.architecture.first_dense_layers": 3,
            "model.architecture.num_mtp_layers": 1,
            "model.architecture.vocab_size": 128_815,
        },
        {"retention.keep_last"},
    ),
    "NVIDIA/Megatron-LM@d98e8a64ddf3:examples/llama/train_llama3_8b_h100_fp8.sh": (
        f"{_LLAMA} {_STEP} --num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336 --num-attention-heads 32 "
        "--num-query-groups 8 --kv-channels 128 --vocab-size 128256 --bf16 --fp8-format hybrid --fp8-recipe tensorwise "
        "--use-distributed-optimizer --save-interval 1000 --ckpt-format torch_dist",
        64,
        {
            "training.precision": "fp8-mixed",
            "training.sequence_parallel": None,
            "training.recomputation": "none",
            "model.architecture.vocab_size": 128_256,
            "training.vocabulary_padding_multiple": 128,
            "checkpoint.mode": "sync",
        },
        {"retention.keep_last"},
    ),
    "deepspeedai/Megatron-DeepSpeed@4efb479d5317:examples_deepspeed/rebase/ds_pretrain_gpt_13B.sh": (
        "--num-layers 40 --hidden-size 5120 --num-attention-heads 40 --max-position-embeddings 2048 "
        "--vocab-file /data/gpt2-vocab.json --data-impl mmap --tensor-model-parallel-size 4 "
        "--pipeline-model-parallel-size 8 --micro-batch-size 2 --seq-length 2048 --global-batch-size 1024 --fp16 "
        "--checkpoint-activations --save-interval 100 --deepspeed --deepspeed_config ds_config.json --zero-stage 1",
        128,
        {
            "model.architecture.family": "gpt2",
            "model.architecture.vocab_size": 50_257,
            "parallelism.zero_stage": 1,
            "training.precision": "fp16-mixed",
        },
        {"retention.keep_last"},
    ),
}
"""Public scripts by repository, commit and path: some of their flags, GPUs, expected fields and what is asked for."""


@pytest.mark.parametrize(("flags", "num_gpus", "expected", "needed"), SCRIPTS.values(), ids=SCRIPTS)
def test_a_public_script_becomes_its_scenario(
    flags: str, num_gpus: int, expected: dict[str, Any], needed: set[str]
) -> None:
    report = import_texts(
        f"torchrun --nproc_per_node 8 --nnodes {num_gpus // 8} pretrain_gpt.py {flags.replace('|', chr(92) + '|')}"
    )
    assert fields_of(report, expected) == expected
    asked_always = {"storage.preset", "training.step_seconds"}
    assert {each.field for each in report.needed} - asked_always == needed
    assert {each.setting for each in report.not_understood} <= {"--deepspeed_config"}


COUNTS = {
    "llama-3.1-8b": "--num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336 --num-attention-heads 32 "
    f"--num-query-groups 8 {_LLAMA} --padded-vocab-size 128256",
    "qwen2.5-7b": "--num-layers 28 --hidden-size 3584 --ffn-hidden-size 18944 --num-attention-heads 28 "
    f"--num-query-groups 4 {_LLAMA} --add-qkv-bias --padded-vocab-size 152064",
    "qwen3-30b-a3b": "--num-layers 48 --hidden-size 2048 --ffn-hidden-size 6144 --num-attention-heads 32 --kv-channels 128 "
    f"--num-query-groups 4 {_LLAMA} --qk-layernorm --num-experts 128 --moe-router-topk 8 --moe-ffn-hidden-size 768 "
    "--padded-vocab-size 151936",
    "mixtral-8x7b": "--num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336 --num-attention-heads 32 "
    f"--num-query-groups 8 {_LLAMA} --num-experts 8 --padded-vocab-size 32000",
    "gpt3-175b": "--num-layers 96 --hidden-size 12288 --num-attention-heads 96 --max-position-embeddings 2048 "
    "--padded-vocab-size 51200",
    "bloom-176b": "--num-layers 70 --hidden-size 14336 --num-attention-heads 112 --embed-layernorm "
    "--position-embedding-type alibi --padded-vocab-size 250880",
    "gpt-neox-20b": "--num-layers 44 --hidden-size 6144 --num-attention-heads 64 --position-embedding-type rope "
    "--untie-embeddings-and-output-weights --padded-vocab-size 50432",
    "deepseek-v2-lite": "--num-layers 27 --hidden-size 2048 --ffn-hidden-size 10944 --num-attention-heads 16 "
    "--multi-latent-attention --kv-lora-rank 512 --qk-head-dim 128 --qk-pos-emb-head-dim 64 --v-head-dim 128 "
    "--qk-layernorm --swiglu --normalization RMSNorm --disable-bias-linear --position-embedding-type rope "
    "--untie-embeddings-and-output-weights --num-experts 64 --moe-router-topk 6 --moe-ffn-hidden-size 1408 "
    "--moe-shared-expert-intermediate-size 2816 --moe-layer-freq ([0]+[1]*26) --padded-vocab-size 102400",
}
"""Models of the catalog as Megatron-LM's flags describe them."""


@pytest.mark.parametrize(("preset", "flags"), COUNTS.items(), ids=COUNTS)
def test_a_model_of_the_catalog_is_counted_alike_by_its_flags(preset: str, flags: str) -> None:
    quoted = flags.replace("(", "'(").replace(")", ")'")
    report = import_texts(f"torchrun pretrain_gpt.py --tensor-model-parallel-size 1 {quoted}")
    described = resolve(Model.model_validate(report.scenario["model"]))
    assert described.num_parameters == resolve(Model(preset=preset)).num_parameters
    assert described.num_active_parameters == resolve(Model(preset=preset)).num_active_parameters


LAYOUTS = [
    ("Et*2|(tt|)*22t|(tt|)*7mL", [2, *[2] * 22, 1, *[2] * 7, 0]),
    ("Et*11|t*11|t*11|t*10mL", [11, 11, 11, 10]),
    ("Et|(tt|)*22L", [1, *[2] * 22, 0]),
    ("E|t,t|tL", [0, 2, 1]),
    ("t|E|L", None),
    ("auto", None),
]


@pytest.mark.parametrize(("layout", "layers"), LAYOUTS)
def test_a_pipeline_layout_lists_the_layers_of_its_chunks(layout: str, layers: list[int] | None) -> None:
    assert stage_layers(layout) == layers


def _import(flags: str, **others: Any) -> Any:
    return import_texts(
        f"torchrun --nproc_per_node 8 pretrain_gpt.py {_STEP} --num-layers 8 --hidden-size 512 {flags}", **others
    )


_SHAPE_OF_LLAMA = f"{_LLAMA} --num-attention-heads 8 --num-query-groups 4 --ffn-hidden-size 1024 --vocab-size 1000"

CASES: dict[str, tuple[str, dict[str, Any], set[str]]] = {
    "formats by their names": (
        "--ckpt-format torch --use-distributed-optimizer",
        {"checkpoint.format": "megatron-distributed-optimizer"},
        set(),
    ),
    "the format of former versions": ("--data-impl mmap", {"checkpoint.format": "megatron"}, set()),
    "a format that is not counted": (
        "--use-dist-ckpt --dist-ckpt-format zarr",
        {"checkpoint.format": None},
        {"checkpoint.format"},
    ),
    "FSDP2 within Megatron": ("--use-torch-fsdp2", {"checkpoint.format": None}, {"checkpoint.format"}),
    "weights alone": ("--no-save-optim", {"training.saved_state": {"master": None, "moments": None}}, set()),
    "retention of some": (
        "--save-interval 100 --save-retain-interval 1000",
        {"retention.keep_last": None},
        {"retention.keep_last"},
    ),
    "no interval": ("--save /x", {"checkpoint.interval_steps": None}, {"checkpoint.interval_seconds"}),
    "an optimizer that is not known": (
        "--optimizer adaptive_muon",
        {"training.optimizer": None},
        {"training.optimizer"},
    ),
    "blocks of full recomputation": (
        "--recompute-granularity full --recompute-method block --recompute-num-layers 3",
        {"training.recomputation": "full", "training.recomputed_layers": 3},
        set(),
    ),
    "a degree that a variable has": (
        "--tensor-model-parallel-size $TP",
        {"parallelism.tensor": None, "parallelism.data": None},
        {"parallelism.tensor"},
    ),
    "another order of ranks": (
        "--use-tp-pp-dp-mapping",
        {"parallelism.rank_order": ("tensor", "context", "expert", "pipeline", "data")},
        set(),
    ),
    "modules of selective recomputation": (
        "--recompute-granularity selective --recompute-modules core_attn mla_up_proj",
        {"training.recompute_modules": ("core-attn", "mla-up-proj")},
        set(),
    ),
    "whole blocks in selective recomputation": (
        "--recompute-granularity selective --recompute-modules moe",
        {"training.recompute_modules": None},
        {"training.recompute_modules"},
    ),
    "blocks in 8 bits": ("--bf16 --fp8-format e4m3 --fp8-recipe mxfp8", {"training.precision": "mxfp8-mixed"}, set()),
    "resharding of the optimizer": (
        "--use-distributed-optimizer --dist-ckpt-optim-fully-reshardable",
        {"checkpoint.optimizer_sharding": "fully-reshardable"},
        set(),
    ),
    "chunks by their number": (
        "--pipeline-model-parallel-size 4 --num-virtual-stages-per-pipeline-rank 2",
        {"parallelism.virtual_pipeline": 2},
        set(),
    ),
    "a window in three of four layers": (
        f"{_SHAPE_OF_LLAMA} --window-size 127,0 --window-attn-skip-freq 4",
        {"model.architecture.sliding_window": 128, "model.architecture.sliding_window_layers": [0, 1, 2, 4, 5, 6]},
        set(),
    ),
    "a window in layers of a list": (
        f"{_SHAPE_OF_LLAMA} --window-size '(127, 0)' --window-attn-skip-freq '[0]*6+[1]*2'",
        {"model.architecture.sliding_window": 128, "model.architecture.sliding_window_layers": [6, 7]},
        set(),
    ),
    "a window without bound": (
        f"{_SHAPE_OF_LLAMA} --window-size -1,0",
        {"model.architecture.sliding_window": None},
        set(),
    ),
    "unequal ends": (
        "--pipeline-model-parallel-size 4 --decoder-first-pipeline-num-layers 1 --decoder-last-pipeline-num-layers 3",
        {"parallelism.first_stage_layers": 1, "parallelism.last_stage_layers": 3},
        set(),
    ),
}


@pytest.mark.parametrize(("flags", "expected", "needed"), CASES.values(), ids=CASES)
def test_an_argument_becomes_a_field_or_is_asked_for(flags: str, expected: dict[str, Any], needed: set[str]) -> None:
    report = _import(flags)
    assert fields_of(report, expected) == expected
    assert needed <= {each.field for each in report.needed}


LAYERS_OF_NO_FAMILY = (
    "--swiglu --num-attention-heads 8",  # LayerNorm and a gate
    "--num-attention-heads 8 --num-experts 8 --moe-layer-freq 2",
    "--num-attention-heads 8 --hybrid-layer-pattern M*M*",
    "--num-attention-heads 8 --experimental-attention-variant gated_delta_net",
)


@pytest.mark.parametrize("flags", LAYERS_OF_NO_FAMILY)
def test_a_model_that_no_family_has_is_asked_for(flags: str) -> None:
    report = _import(flags)
    assert "model" not in report.scenario
    assert "model.preset" in {each.field for each in report.needed}


@pytest.mark.parametrize(
    ("flags", "name"),
    [
        ("--window-size wide", "--window-size"),
        ("--window-size 127,0 --window-attn-skip-freq [1,0]", "--window-attn-skip-freq"),
    ],
)
def test_a_window_that_is_not_understood_is_told(flags: str, name: str) -> None:
    report = _import(f"{_SHAPE_OF_LLAMA} {flags}")
    assert fields_of(report, ["model.architecture.sliding_window"]) == {"model.architecture.sliding_window": None}
    assert name in {each.setting for each in report.not_understood}


def test_gpus_that_are_given_hold_over_the_one_node_of_a_template() -> None:
    assert _import("--tensor-model-parallel-size 8", num_gpus=64).scenario["parallelism"]["data"] == 8


@pytest.mark.parametrize(
    "degrees", ["--tensor-model-parallel-size 16", "--num-experts 16 --expert-model-parallel-size 16"]
)
def test_gpus_of_a_template_that_do_not_fit_are_asked_for(degrees: str) -> None:
    report = _import(degrees)
    assert "cluster" not in report.scenario
    assert "cluster.num_gpus" in {each.field for each in report.needed}
    assert _import(degrees, num_gpus=64).scenario["parallelism"]["data"] in (4, 64)


def test_arguments_of_a_yaml_are_those_of_the_command() -> None:
    arguments = {
        "--num-layers": 12,
        "--hidden-size": 512,
        "--num-attention-heads": 8,
        "--tensor-model-parallel-size": 2,
        "--use-distributed-optimizer": True,
        "--micro-batch-size": 4,
        "--seq-length": 1024,
        "--bf16": True,
        "--save-interval": 25,
    }
    report = import_texts(
        yaml.safe_dump({"ENV_VARS": {"NCCL_ALGO": "Ring"}, "MODEL_ARGS": arguments}), name="model_config.yaml"
    )
    flags = " ".join(name if value is True else f"{name} {value}" for name, value in arguments.items())
    assert report.scenario == import_texts(f"torchrun pretrain_gpt.py {flags}").scenario


def test_the_arguments_of_a_checkpoint_are_read_without_running_its_pickle(tmp_path: Path) -> None:
    arguments = argparse.Namespace(
        num_layers=32,
        hidden_size=4096,
        ffn_hidden_size=11008,
        num_attention_heads=32,
        group_query_attention=False,
        num_query_groups=1,
        swiglu=True,
        normalization="RMSNorm",
        add_bias_linear=False,
        position_embedding_type="rope",
        untie_embeddings_and_output_weights=True,
        padded_vocab_size=32_000,
        world_size=64,
        tensor_model_parallel_size=2,
        pipeline_model_parallel_size=4,
        virtual_pipeline_model_parallel_size=2,
        num_virtual_stages_per_pipeline_rank=None,
        use_distributed_optimizer=True,
        bf16=True,
        params_dtype=torch.bfloat16,
        save_interval=500,
        async_save=True,
        ckpt_format="torch_dist",
        of_a_fork=None,
        other_of_a_fork="x",
    )
    folder = tmp_path / "iter_0000500"
    folder.mkdir()
    torch.save({"args": arguments, "iteration": 500, "rng_state": torch.zeros(8)}, folder / "common.pt")
    report = import_config_files(ImportRequest(files=[read_config_file(folder)]))
    expected = {
        "cluster.num_gpus": 64,
        "parallelism.tensor": 2,
        "parallelism.pipeline": 4,
        "parallelism.virtual_pipeline": 2,
        "parallelism.data": 8,
        "training.distributed_optimizer": True,
        "checkpoint.mode": "async",
        "checkpoint.interval_steps": 500,
    }
    assert fields_of(report, expected) == expected
    described = resolve(Model.model_validate(report.scenario["model"]))
    assert described.num_parameters == resolve(Model(preset="llama-2-7b")).num_parameters
    assert [each.setting for each in report.not_understood] == ["args.other_of_a_fork"]


PRIMUS = """
work_group: amd
user_name: root
exp_name: llama3.1_8B-pretrain
workspace: ./output
modules:
  pre_trainer:
    framework: megatron
    config: pre_trainer.yaml
    model: llama3.1_8B.yaml
    overrides:
      stderr_sink_level: DEBUG
      micro_batch_size: 4
      global_batch_size: 512
      seq_length: "${PRIMUS_SEQ_LENGTH:8192}"
      tensor_model_parallel_size: "${PRIMUS_TP:1}"
      pipeline_model_parallel_size: 1
      recompute_granularity: full
      recompute_method: block
      recompute_num_layers: 0
      use_turbo_attention: true
      save_interval: 20000
      ckpt_format: torch
"""
"""AMD-AGI/Primus@fd1eeabb:examples/megatron/configs/MI300X/llama3.1_8B-BF16-pretrain.yaml, in part."""

FLAGSCALE = """
system:
  tensor_model_parallel_size: 2
  pipeline_model_parallel_size: 2
  disable_bias_linear: true
  use_distributed_optimizer: true
  precision: {bf16: true, attention_softmax_in_fp32: true}
  logging: {log_interval: 1, wandb_project: p}
  checkpoint: {save_interval: 1000, ckpt_format: torch_dist}
model:
  num_layers: 32
  hidden_size: 4096
  num_attention_heads: 32
  seq_length: 4096
  max_position_embeddings: 4096
  swiglu: true
  multiple_of: 256
  normalization: RMSNorm
  position_embedding_type: rope
  untie_embeddings_and_output_weights: true
  micro_batch_size: 1
  global_batch_size: 64
  optimizer: {weight_decay: 0.1, lr_scheduler: {lr: 1.0e-4}}
data:
  split: 1
  tokenizer: {tokenizer_type: QwenTokenizerFS, vocab_size: 32000, make_vocab_size_divisible_by: 64}
"""
"""flagos-ai/FlagScale, the form of examples/aquila/conf/train, with the shape of Llama 2 7B."""


def test_a_file_of_primus_stands_over_the_defaults_of_primus() -> None:
    report = import_texts(PRIMUS, num_gpus=8, name="llama3.1_8B-pretrain.yaml")
    expected = {
        "model.preset": "llama-3.1-8b",
        "parallelism.data": 8,
        "training.precision": "bf16-mixed",
        "training.distributed_optimizer": True,
        "training.sequence_length": 8192,
        "checkpoint.interval_steps": 20_000,
        "checkpoint.format": "megatron-distributed-optimizer",
    }
    assert fields_of(report, expected) == expected
    assert {each.field for each in report.needed} - {"storage.preset", "training.step_seconds"} == {
        "retention.keep_last"
    }


def test_a_file_of_flagscale_has_arguments_in_blocks() -> None:
    report = import_texts(FLAGSCALE, num_gpus=16, name="train.yaml")
    expected = {
        "parallelism.data": 4,
        "training.precision": "bf16-mixed",
        "training.vocabulary_padding_multiple": 64,
        "checkpoint.interval_steps": 1000,
    }
    assert fields_of(report, expected) == expected
    described = resolve(Model.model_validate(report.scenario["model"]))
    assert described.num_parameters == resolve(Model(preset="llama-2-7b")).num_parameters
    assert not report.not_understood


def test_a_script_of_slime_has_what_slime_sets_and_counts_rollouts() -> None:
    words = (
        "--actor-num-nodes 2 --actor-num-gpus-per-node 8 --colocate --hf-checkpoint /root/Qwen3-4B/ --rollout-batch-size 32 "
        "--n-samples-per-prompt 8 --global-batch-size 256 --tensor-model-parallel-size 2 --save-interval 20 "
        "--advantage-estimator grpo"
    )
    report = import_texts(f'ray job submit --address="http://127.0.0.1:8265" -- python3 train.py {words}')
    expected = {
        "model.preset": "qwen3-4b",
        "cluster.num_gpus": 16,
        "parallelism.data": 8,
        "training.precision": "bf16-mixed",
        "training.distributed_optimizer": True,
        "checkpoint.interval_steps": None,
    }
    assert fields_of(report, expected) == expected
    assert "checkpoint.interval_seconds" in {each.field for each in report.needed}


@pytest.mark.parametrize(("flags", "optimizer"), [("", "sgd-momentum"), ("--sgd-momentum 0", "sgd")])
def test_sgd_keeps_a_momentum_unless_it_is_0(flags: str, optimizer: str) -> None:
    report = import_texts(
        f"torchrun pretrain_gpt.py --num-layers 8 --hidden-size 64 --seq-length 64 --optimizer sgd {flags}"
    )
    assert fields_of(report, ["training.optimizer"]) == {"training.optimizer": optimizer}
