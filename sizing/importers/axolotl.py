"""axolotl's YAML."""

from __future__ import annotations

from typing import Any

from sizing.config_files.reader import SettingReader
from sizing.importers.importer import Importer
from sizing.importers.trainer_settings import (
    put_adapters,
    put_attention,
    put_batch,
    put_beside_adapters,
    put_number_of_gpus,
    put_optimizer,
    put_quantised_base,
    put_recomputation,
    put_retention,
    put_shard_group,
    put_weights_alone,
    tell_unknown_flags,
)
from sizing.importers.transformers_trainer import TRAINER_IGNORED, put_gathered_weights, read_sharding

_DEFAULTS: dict[str, Any] = {
    "micro_batch_size": 1,
    "gradient_accumulation_steps": 1,
    "sequence_len": 512,
    "optimizer": "adamw_torch_fused",
    "bf16": "auto",
    "save_total_limit": 4,
    "save_only_model": False,
    "gradient_checkpointing": False,
    "torch_compile": False,
}
"""Source: axolotl 067b021c8b87, utils/schemas/config.py, training.py; core/builders/base.py for the limit of 4."""

_IGNORED = (
    *(name for name in TRAINER_IGNORED if name != "load_best_model_at_end"),
    "load_best_model_at_end",
    "base_model_config",
    "base_model_ignore_patterns",
    "cls_model_config",
    "tokenizer_*",
    "processor_*",
    "is_*_derived_model",
    "model_type",
    "type_of_model",
    "revision_of_model",
    "special_tokens.*",
    "special_tokens",
    "tokens",
    "tokens.*",
    "eta_min",
    "use_eaft",
    "eaft_*",
    "ebft.*",
    "model_config.output_router_logits",
    "use_scattermoe",
    "use_sonicmoe",
    "fused_attn_kernel",
    "experts_implementation",
    "added_tokens_overrides.*",
    "eot_tokens",
    "chat_template_*",
    "default_system_message",
    "datasets",
    "pretraining_dataset",
    "shuffle_*",
    "skip_prepare_dataset",
    "push_dataset_to_hub",
    "hf_use_auth_token",
    "dataset_*",
    "sample_packing",
    "sample_packing_*",
    "eval_sample_packing",
    "eval_*",
    "evals_per_epoch",
    "pad_to_sequence_len",
    "min_sample_len",
    "excess_length_strategy",
    "max_packed_sequence_len",
    "train_on_inputs",
    "group_by_length",
    "curriculum_sampling",
    "batch_flattening",
    "pretrain_*",
    "streaming*",
    "num_epochs",
    "lr_scheduler",
    "lr_*",
    "cosine_*",
    "embedding_lr*",
    "loraplus_*",
    "adam_*",
    "dion_*",
    "warmup_*",
    "weight_decay",
    "max_grad_norm",
    "early_stopping_patience",
    "loss_watchdog_*",
    "wandb_*",
    "use_wandb",
    "mlflow_*",
    "use_mlflow",
    "hf_mlflow_log_artifacts",
    "comet_*",
    "use_comet",
    "gradio_*",
    "use_tensorboard",
    "use_otel_metrics",
    "otel_*",
    "trackio_*",
    "use_trackio",
    "swanlab_*",
    "use_swanlab",
    "profiler_*",
    "plugins",
    "cut_cross_entropy",
    "liger_rms_norm*",
    "liger_layer_norm",
    "liger_glu_activation",
    "liger_rope",
    "lora_mlp_kernel",
    "lora_qkv_kernel",
    "lora_o_kernel",
    "lora_embedding_kernel",
    "lora_fan_in_fan_out",
    "lora_model_dir",
    "lora_on_cpu",
    "peft_use_rslora",
    "peft_init_lora_weights",
    "peft_autocast_adapter_dtype",
    "peft.*",
    "loftq_config.*",
    "bnb_config_kwargs.*",
    "gptq*",
    "rl",
    "rl_beta",
    "dpo_*",
    "kto_*",
    "orpo_alpha",
    "cpo_alpha",
    "simpo_gamma",
    "trl.*",
    "vllm.*",
    "reward_model",
    "process_reward_model",
    "num_labels",
    "center_rewards_coefficient",
    "strict",
    "tf32",
    "gc_steps",
    "seed",
    "device_map",
    "max_memory.*",
    "low_cpu_mem_usage",
    "val_set_size",
    "do_causal_lm_eval",
    "do_bench_eval",
    "bench_*",
    "neftune_noise_alpha",
    "noisy_embedding_alpha",
    "flash_attn_cross_entropy",
    "flash_attn_rms_norm",
    "flash_attn_fuse_*",
    "flash_optimum",
    "flex_attn_compile_kwargs.*",
    "use_kernels",
    "xformers_attention",
    "s2_attention",
    "heads_k_stride",
    "ring_attn_func",
    "fix_untrained_tokens",
    "rope_*",
    "use_ray",
    "ray_run_name",
    "resources_per_worker.*",
    "ddp",
    "auto_resume_from_checkpoints",
    "torchdistx_path",
    "experimental_skip_move_to_device",
    "remove_unused_columns",
    "image_size",
    "image_resize_algorithm",
    "save_first_step",
    "relora_prune_ratio",
    "relora_cpu_offload",
    "jagged_restart_*",
    "tiled_mlp*",
    "generate_samples",
    "generation_*",
    "num_generation_samples",
)


_OF_ADAPTERS = (
    "lora_r",
    "lora_alpha",
    "lora_dropout",
    "lora_target_linear",
    "lora_target_modules",
    "lora_target_parameters",
    "lora_modules_to_save",
    "load_in_4bit",
    "load_in_8bit",
    "quantize_moe_experts",
    "peft_use_dora",
)

_SWITCHES = (
    ("flash_attention", "training.attention", "flash"),
    ("sdp_attention", "training.attention", "flash"),
    ("flex_attention", "training.attention", "flash"),
    ("sage_attention", "training.attention", "flash"),
    ("eager_attention", "training.attention", "eager"),
    ("liger_fused_linear_cross_entropy", "training.loss", "chunked"),
    ("chunked_cross_entropy", "training.loss", "chunked"),
)
"""Switches, and the value of a field where they are on."""

_NOT_COUNTED = {
    "activation_offloading": "moves activations to the host: give training.offload",
    "layer_offloading": "moves layers to the host: give training.offload",
    "relora": "merges adapters into the weights while it trains: not counted",
}


def _read(reader: SettingReader) -> None:
    sharding = read_sharding(reader, is_whole=True, config_turns_fsdp_on=True)
    value = reader.get("base_model", None)
    if value is not None:
        reader.put_model(value, "base_model")
    if reader.has("ray_num_workers"):
        put_number_of_gpus(reader, "ray_num_workers")
    _read_adapters(reader)
    _read_precision(reader, sharding)
    put_optimizer(reader, "optimizer")
    _read_interval(reader)
    put_retention(reader)
    put_weights_alone(reader)
    _read_degrees(reader)
    if sharding == "fsdp":
        put_shard_group(reader)
    put_batch(reader, micro="micro_batch_size", accumulation="gradient_accumulation_steps", sequence="sequence_len")
    reader.get("batch_size", None)
    if sharding == "deepspeed":
        put_gathered_weights(reader)
    _read_step(reader)
    tell_unknown_flags(reader)


def _read_adapters(reader: SettingReader) -> None:
    kind = reader.get("adapter", None)
    if kind in (None, ""):
        reader.ignore(*_OF_ADAPTERS)
        reader.ignore("adapter")
        for name in ("unfrozen_parameters", "freeze_mm_modules"):
            if reader.get(name, None):
                reader.not_understood(name, "freezes a part of the model: give training.frozen")
                reader.need("training.frozen", f"{name} freezes a part of the model")
        return
    reader.ignore("unfrozen_parameters", "freeze_mm_modules")
    if str(kind).lower() not in ("lora", "qlora"):
        reader.not_understood("adapter", "is an adapter that is not known here")
        reader.need("training.adapters", f"adapter is {kind}")
        return
    # lora_target_linear adds all linear modules to those that are named (loaders/adapter.py).
    is_all = reader.is_on("lora_target_linear", default=False)
    reader.get("lora_target_modules", None)
    put_adapters(
        reader,
        rank_name="lora_r",
        targets_name="lora_target_linear" if is_all else "lora_target_modules",
        default_targets="all" if is_all else None,
        takes_default_of_peft=True,
    )
    reader.get("adapter")
    put_beside_adapters(reader, whole_modules="lora_modules_to_save")
    if reader.get("lora_target_parameters", None):
        reader.not_understood("lora_target_parameters", "adapts parameters that are no modules")
        reader.doubt("training.adapters.tensors", "lora_target_parameters names more of them")
    put_quantised_base(reader, "load_in_4bit", "load_in_8bit", doubles=True)
    if reader.has("quantize_moe_experts") and reader.draft.value("training.adapters.base_dtype") is not None:
        name = "quantize_moe_experts"
        reader.put("training.adapters.quantize_experts", reader.is_on(name), name)


def _read_precision(reader: SettingReader, sharding: str | None) -> None:
    """Set the precision. Weights are loaded in bfloat16 with bf16, and cast to fp32 by FSDP 1 and DeepSpeed alone.

    Source: axolotl, utils/config/__init__.py, resolve_dtype; monkeypatch/accelerate/fsdp2.py, which casts nothing.
    """
    known = reader.draft.fields.get("training.precision")
    half = reader.first("bf16", "bfloat16")
    is_bf16 = str(reader.get(half)).lower() in ("true", "auto", "full") and not reader.is_on("fp16", default=False)
    for name in ("bf16", "bfloat16", "fp16", "float16"):
        reader.get(name, None)
    if known is not None and not known.is_default:
        return
    has_adapters = reader.draft.value("training.adapters.rank") is not None
    is_second = str(reader.get("fsdp_version", reader.get("fsdp_config.fsdp_version", "1"))) == "2"
    if reader.is_on("fp8", default=False):
        reader.not_understood("fp8", "is counted as the dtype of the weights says")
    if is_bf16:
        casts = sharding == "deepspeed" or has_adapters or (sharding == "fsdp" and not is_second)
        precision = "bf16-mixed" if casts else "bf16"
        note = "" if casts else "weights are loaded in bfloat16, and no fp32 copy is kept"
        reader.put("training.precision", precision, half, note=note)
    elif reader.is_on("fp16", default=False):
        if not (sharding in ("deepspeed", "fsdp") or has_adapters):
            reader.need("training.precision", "fp16 loads the weights in float16, which is not known here")
        else:
            reader.put("training.precision", "fp16-mixed", "fp16")
    elif reader.is_on("float16", default=False):
        reader.need("training.precision", "weights are float16")
    else:
        reader.put("training.precision", "fp32", half)


def _read_interval(reader: SettingReader) -> None:
    every = reader.number("save_steps", None)
    if every is not None and every >= 1:
        reader.put("checkpoint.interval_steps", int(every), "save_steps")
        return
    for name in ("save_steps", "saves_per_epoch", "save_strategy"):
        if reader.has(name) and reader.get(name) is not None:
            reader.not_understood(name, "says no number of steps: give the interval in seconds or steps")
        reader.get(name, None)
    reader.need("checkpoint.interval_seconds", "checkpoints are counted by epochs or parts of the run")


def _read_degrees(reader: SettingReader) -> None:
    context = reader.first("context_parallel_size", "sequence_parallel_degree")
    for path, name in (("parallelism.tensor", "tensor_parallel_size"), ("parallelism.context", context)):
        if (reader.number(name, None) or 1) > 1:
            reader.take(path, name)
    if (reader.number("expert_parallel_size", None) or 1) > 1:
        reader.take("parallelism.expert", "expert_parallel_size")
    replicate, shard = reader.number("dp_replicate_size", None), reader.number("dp_shard_size", None)
    names = ("dp_shard_size", "dp_replicate_size")
    if shard:
        reader.put("parallelism.data", shard * (replicate or 1), *names)
        if (replicate or 1) > 1:
            context_size = reader.draft.value("parallelism.context") or 1
            reader.put("parallelism.shard_group", shard * context_size, "dp_shard_size")
    elif (replicate or 1) > 1:
        reader.need("parallelism.shard_group", "the ranks of one shard group are those that the replicas leave")
        reader.put_data_degree(tensor="tensor_parallel_size", context=context)
    else:
        reader.put_data_degree(tensor="tensor_parallel_size", context=context)


def _read_step(reader: SettingReader) -> None:
    name = "gradient_checkpointing"
    kind = str(reader.get(name)).lower()
    if reader.draft.value("training.recomputation") is None:
        put_recomputation(reader, name, is_on=kind not in ("false", "none"))
    if kind.startswith("offload"):
        reader.not_understood(name, "moves recomputed inputs: give training.offload.activations_fraction")
    for name in ("attn_implementation", "attn_impl"):
        put_attention(reader, name)
    for name, field, value in _SWITCHES:
        if reader.is_on(name, default=False):
            reader.put(field, value, name)
    reader.put("training.compile", reader.is_on("torch_compile"), "torch_compile")
    for name, why in _NOT_COUNTED.items():
        if reader.get(name, None):
            reader.not_understood(name, why)


AXOLOTL = Importer(
    name="axolotl",
    title="axolotl",
    version="axolotl 067b021c8b87 of 2026-07-24",
    source="axolotl, src/axolotl/utils/schemas and core/builders/base.py",
    frameworks=("transformers", "deepspeed"),
    marks=(
        "base_model",
        "micro_batch_size",
        "sequence_len",
        "datasets",
        "adapter",
        "num_epochs",
        "val_set_size",
        "sample_packing",
        "dataset_prepared_path",
        "saves_per_epoch",
        "evals_per_epoch",
        "lora_target_linear",
        "pad_to_sequence_len",
        "lr_scheduler",
        "optimizer",
        "wandb_project",
        "special_tokens",
        "special_tokens.*",
        "load_in_4bit",
        "load_in_8bit",
        "flash_attention",
        "train_on_inputs",
    ),
    min_marks=4,
    sure_marks=("pretraining_dataset", "sample_packing", "micro_batch_size+sequence_len"),
    programs=("axolotl", "*/axolotl", "axolotl.cli.*"),
    defaults=_DEFAULTS,
    read=_read,
    ignored=_IGNORED,
)
