"""NeMo 1 and Megatron-Bridge: scenarios of public files, of which only keys and values stand here."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from sizing.config_files.interpolation import resolve_interpolations
from sizing.config_files.source import Unresolved
from sizing.model import Model
from sizing.model.model import resolve
from sizing.report import answer
from tests.sizing.importers.imports import fields_of, import_texts

ALWAYS = {"storage.preset", "training.step_seconds"}

GPT3_175B = """
trainer: {num_nodes: 128, devices: 8, precision: bf16, val_check_interval: 2000}
exp_manager:
  checkpoint_callback_params: {monitor: val_loss, save_top_k: 5, mode: min, always_save_nemo: false}
model:
  micro_batch_size: 1
  global_batch_size: 2048
  tensor_model_parallel_size: 4
  pipeline_model_parallel_size: 8
  virtual_pipeline_model_parallel_size: 6
  encoder_seq_length: 2048
  max_position_embeddings: 2048
  num_layers: 96
  hidden_size: 12288
  ffn_hidden_size: "${multiply:4, ${.hidden_size}}"
  num_attention_heads: 96
  kv_channels: null
  num_query_groups: null
  sequence_parallel: true
  activations_checkpoint_granularity: null
  make_vocab_size_divisible_by: 128
  tokenizer: {library: megatron, type: GPT2BPETokenizer, vocab_file: "${data_dir}/bpe/vocab.json"}
  megatron_amp_O2: true
  mcore_gpt: true
  transformer_engine: true
  fp8: false
  optim: {name: mcore_distributed_optim, overlap_grad_sync: true, overlap_param_sync: true, lr: 0.9e-4}
"""

LORA = """
trainer: {devices: 8, num_nodes: 1, precision: bf16, val_check_interval: 200}
exp_manager: {checkpoint_callback_params: {save_top_k: 1, monitor: validation_loss, save_best_model: true}}
model:
  tensor_model_parallel_size: 1
  pipeline_model_parallel_size: 1
  micro_batch_size: 4
  global_batch_size: 128
  restore_from_path: /x.nemo
  megatron_amp_O2: false
  peft: {peft_scheme: lora, lora_tuning: {adapter_dim: 32, target_modules: [attention_qkv]}}
  optim: {name: fused_adam}
"""

BRIDGE = """
_target_: megatron.bridge.training.config.ConfigContainer
checkpoint: {_target_: a, async_save: false, ckpt_format: torch_dist, fully_parallel_save: true, most_recent_k: 4,
  save_interval: 500, save_optim: true, ckpt_assume_constant_structure: true}
dataset: {_target_: a, sequence_length: 1024}
ddp: {_target_: a, num_distributed_optimizer_instances: 1, overlap_grad_reduce: true, overlap_param_gather: true,
  use_distributed_optimizer: true, use_megatron_fsdp: false}
mixed_precision: {_target_: a, bf16: true, fp16: false, fp8: null, fp8_recipe: tensorwise}
model: {_target_: a, add_bias_linear: false, attention_backend: {_args_: [5], _call_: true, _target_: b}, bf16: true,
  context_parallel_size: 1, cross_entropy_loss_fusion: true, expert_model_parallel_size: 1, ffn_hidden_size: 8192,
  gated_linear_unit: true, hidden_size: 2048, kv_channels: 64, make_vocab_size_divisible_by: 128, num_moe_experts: null,
  normalization: RMSNorm, num_attention_heads: 32, num_layers: 16, num_query_groups: 8, pipeline_model_parallel_size: 1,
  position_embedding_type: rope, recompute_granularity: null, recompute_modules: [core_attn], seq_length: 131072,
  sequence_parallel: false, share_embeddings_and_output_weights: true, should_pad_vocab: false,
  tensor_model_parallel_size: 2, vocab_size: 128256}
optimizer: {_target_: a, optimizer: adam, overlap_param_gather: false, use_distributed_optimizer: true,
  exp_avg_dtype: {_call_: false, _target_: torch.float32}}
train: {_target_: a, global_batch_size: 512, micro_batch_size: 1}
"""

FILES: dict[str, tuple[str, int | None, dict[str, Any], set[str]]] = {
    "NVIDIA/NeMo-Framework-Launcher:launcher_scripts/conf/training/gpt3/175b.yaml": (
        GPT3_175B,
        None,
        {
            "cluster.num_gpus": 1024,
            "parallelism.tensor": 4,
            "parallelism.pipeline": 8,
            "parallelism.virtual_pipeline": 6,
            "parallelism.data": 32,
            "training.precision": "bf16-mixed",
            "training.saved_state": None,
            "training.distributed_optimizer": True,
            "training.recomputation": "none",
            "training.attention": "flash",
            "model.architecture.family": "gpt2",
            "model.architecture.ffn_hidden_size": 49_152,
            "checkpoint.interval_steps": 2000,
            "checkpoint.format": "torch-dist",
            "retention.keep_best": 5,
            "retention.keep_last": 1,
        },
        {"model.architecture.vocab_size"},
    ),
    "NVIDIA/NeMo-Framework-Launcher:launcher_scripts/conf/peft/llama/squad.yaml": (
        LORA,
        None,
        {
            "training.distributed_optimizer": False,
            "training.saved_state": {"weights": "fp32", "master": None},  # without megatron_amp_O2 weights stay fp32
            "training.adapters.rank": 32,
            "training.adapters.tensors": ("attention_qkv",),
            "training.trainer": "nemo",
        },
        {"model.preset", "training.sequence_length"} - {"training.sequence_length"},
    ),
    "a run of Megatron-Bridge 0.1.0 with Llama 3.2 1B, as its log has the configuration": (
        BRIDGE,
        64,
        {
            "parallelism.data": 32,
            "training.sequence_length": 1024,
            "training.distributed_optimizer": True,
            "training.achieved.overlap.gradients": 1.0,
            "training.vocabulary_padding_multiple": None,
            "checkpoint.cached_plans": True,
            "retention.keep_last": 4,
        },
        set(),
    ),
}


@pytest.mark.parametrize(("text", "num_gpus", "expected", "needed"), FILES.values(), ids=FILES)
def test_a_public_file_becomes_its_scenario(
    text: str, num_gpus: int | None, expected: dict[str, Any], needed: set[str]
) -> None:
    report = import_texts(text, num_gpus=num_gpus, name="config.yaml")
    assert fields_of(report, expected) == expected
    assert {each.field for each in report.needed} - ALWAYS == needed
    assert {each.setting.rpartition(".")[2] for each in report.not_understood} <= {"save_best_model"}


def test_the_model_of_a_whole_configuration_is_counted_as_the_run_counted_it() -> None:
    described = resolve(Model.model_validate(import_texts(BRIDGE, name="config.yaml").scenario["model"]))
    assert described.num_parameters == resolve(Model(preset="llama-3.2-1b")).num_parameters


def test_overrides_ask_for_what_a_recipe_says() -> None:
    overrides = {"train": {"global_batch_size": 8, "train_iters": 100}, "checkpoint": {"save_interval": 50}}
    report = import_texts(yaml.safe_dump({**overrides, "model": {"tensor_model_parallel_size": 2}}), name="a.yaml")
    asked = {each.field for each in report.needed}
    assert {"parallelism.pipeline", "training.precision", "training.micro_batch_size", "model.preset"} <= asked
    assert report.scenario["parallelism"]["tensor"] == 2
    assert "pipeline" not in report.scenario["parallelism"]


INTERVALS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"every_n_train_steps": 250, "async_save": True}, {"checkpoint.interval_steps": 250, "checkpoint.mode": "async"}),
    ({"train_time_interval": "00:04:30:00"}, {"checkpoint.interval_seconds": 16_200, "checkpoint.mode": "sync"}),
    ({"monitor": "step", "save_top_k": 3}, {"retention.keep_last": 3, "retention.keep_best": None}),
]


@pytest.mark.parametrize(("callback", "expected"), INTERVALS)
def test_the_callback_says_when_and_how_many(callback: dict[str, Any], expected: dict[str, Any]) -> None:
    document = yaml.safe_load(GPT3_175B)
    document["exp_manager"]["checkpoint_callback_params"] = callback
    assert fields_of(import_texts(yaml.safe_dump(document), name="a.yaml"), expected) == expected


def test_interpolations_are_followed_as_far_as_the_file_says() -> None:
    settings = {"a.b": 3, "a.c": "${.b}", "a.d.e": "${..b}", "f": "x-${a.b}", "g": "${oc.env:HOME}", "h": "${h}"}
    resolved = resolve_interpolations(settings)
    assert [resolved[name] for name in ("a.c", "a.d.e", "f")] == [3, 3, "x-3"]
    assert isinstance(resolved["g"], Unresolved)
    assert isinstance(resolved["h"], Unresolved)


_FOUR = ("attention_qkv", "attention_dense", "mlp_fc1", "mlp_fc2")


@pytest.mark.parametrize(
    ("targets", "modules"),
    [("[all]", _FOUR), ("[attention, mlp_fc1]", _FOUR[:3]), ("[mlp]", _FOUR[2:]), ("[router]", None)],
)
def test_the_words_of_nemo_1_for_targets_become_modules(targets: str, modules: tuple[str, ...] | None) -> None:
    report = import_texts(LORA.replace("[attention_qkv]", targets), name="squad.yaml")
    path = "training.adapters.tensors"
    assert fields_of(report, [path]) == {path: modules}
    assert (path in {each.field for each in report.needed}) is (modules is None)


@pytest.mark.parametrize(
    ("peft", "modules"),
    [
        ("{_target_: a.LoRA, dim: 16}", ("linear_qkv", "linear_proj", "linear_fc1", "linear_fc2")),
        ("{_target_: a.LoRA, dim: 16, target_modules: [linear_qkv]}", ("linear_qkv",)),
        ("{_target_: a.LoRA, dim: 16, target_modules: ['*.layers.0.*.linear_qkv']}", None),
    ],
)
def test_the_targets_of_megatron_bridge_become_modules(peft: str, modules: tuple[str, ...] | None) -> None:
    report = import_texts(f"{BRIDGE}peft: {peft}\n", num_gpus=64, name="run.yaml")
    path = "training.adapters.tensors"
    assert fields_of(report, [path]) == {path: modules}
    assert (path in {each.field for each in report.needed}) is (modules is None)


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ("share_expert_adapters: true, experts_shared_outer_loras: false", []),
        ("share_expert_adapters: false", ["peft.share_expert_adapters"]),
        ("normalize_moe_lora: true", ["peft.normalize_moe_lora"]),
    ],
)
def test_adapters_of_experts_are_counted_as_megatron_bridge_ships_them(settings: str, told: list[str]) -> None:
    peft = f"peft: {{_target_: a.LoRA, dim: 16, {settings}}}\n"
    experts = BRIDGE.replace(
        "num_moe_experts: null", "num_moe_experts: 8, moe_ffn_hidden_size: 512, moe_router_topk: 2"
    )
    report = import_texts(experts + peft, num_gpus=64, name="run.yaml")
    assert fields_of(report, ["training.trainer"]) == {"training.trainer": "megatron-bridge"}
    assert [each.setting for each in report.not_understood if each.setting.startswith("peft.")] == told
    adapters = 16 * 16 * (2048 + 3072 + 2048 + 2048 + 2048 + 1024 + 512 + 2048)
    assert answer(report.scenario).model.num_trained_parameters == adapters


@pytest.mark.parametrize(
    ("name", "precision"),
    [
        ("bf16_mixed", "bf16-mixed"),
        ("fp16_mixed", "fp16-mixed"),
        ("bf16_with_fp8_delayed_scaling_mixed", "fp8-mixed"),
        ("bf16_with_mxfp8_mixed", "mxfp8-mixed"),
        ("bf16_with_int4_mixed", None),
    ],
)
def test_the_mixed_precision_of_megatron_bridge_is_read_by_its_name(name: str, precision: str | None) -> None:
    overrides = (
        "run.py --recipe llama3_8b_pretrain_config train.micro_batch_size=1 model.seq_length=4096 {}mixed_precision={}"
    )
    for text in (f"python {overrides.format('', name)}", f"python {overrides.format('++', name)}"):
        report = import_texts(text, num_gpus=8)
        assert fields_of(report, ["training.precision"]) == {"training.precision": precision}
        assert ("training.precision" in {each.field for each in report.needed}) is (precision is None)


@pytest.mark.parametrize(
    ("peft", "needed"),
    [
        ("peft=none peft.dim=8", set()),
        ("peft=null", set()),
        ("--peft_scheme none", set()),
        ("--peft_scheme lora", {"training.adapters.rank"}),
        ("", {"training.adapters"}),
    ],
)
def test_adapters_of_megatron_bridge_that_are_off_are_none(peft: str, needed: set[str]) -> None:
    report = import_texts(
        "python run.py --recipe llama3_8b_finetune_config train.micro_batch_size=1 model.seq_length=4096 "
        f"model.tensor_model_parallel_size=1 {peft}",
        num_gpus=8,
    )
    assert "adapters" not in report.scenario["training"]
    assert {each.field for each in report.needed if "adapters" in each.field} == needed
    assert report.not_understood == []
