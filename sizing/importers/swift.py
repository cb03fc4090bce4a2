"""ms-swift: flags of `swift sft`, `pt` and `rlhf`, and a YAML or JSON of them."""

from __future__ import annotations

from typing import Any

from sizing.config_files.reader import SettingReader
from sizing.importers.importer import Importer
from sizing.importers.trainer_settings import (
    put_adapters,
    put_attention,
    put_batch,
    put_beside_adapters,
    put_frozen_towers,
    put_optimizer,
    put_precision,
    put_quantised_base,
    put_recomputation,
    tell_unknown_flags,
)
from sizing.importers.transformers_trainer import (
    TRAINER_DEFAULTS,
    TRAINER_IGNORED,
    open_flags_of_trainer,
    read_sharding,
    read_trainer_checkpoint,
    read_trainer_degrees,
)

_DEFAULTS: dict[str, Any] = {
    **TRAINER_DEFAULTS,
    "per_device_train_batch_size": 1,
    "tuner_type": "lora",
    "lora_rank": 8,
    "target_modules": "all-linear",
    "gradient_checkpointing": True,
    "freeze_vit": True,
    "freeze_aligner": True,
}
_KINDS = ("tuner_type", "train_type", "sft_type")
_TOWERS = {"freeze_vit": "vision", "freeze_aligner": "projector"}
_MIXED = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp16"}
"""Autocast by the dtype of the weights. Source: ms-swift, arguments/base_args/model_args.py, _init_torch_dtype."""

_IGNORED = (
    *TRAINER_IGNORED,
    "model_type",
    "model_name",
    "model_author",
    "model_kwargs",
    "template_backend",
    "template_type",
    "system",
    "use_chat_template",
    "agent_template",
    "loss_scale",
    "padding_side",
    "response_prefix",
    "split_dataset_ratio",
    "cached_dataset",
    "cached_val_dataset",
    "columns",
    "custom_dataset_info",
    "custom_register_path",
    "external_plugins",
    "load_from_cache_file",
    "lazy_tokenize",
    "packing_*",
    "strict",
    "truncation_strategy",
    "max_pixels",
    "norm_bbox",
    "enable_thinking",
    "add_non_thinking_prefix",
    "add_version",
    "create_checkpoint_symlink",
    "use_hf",
    "use_logits_to_keep",
    "rlhf_type",
    "reward_model*",
    "reward_funcs",
    "teacher_*",
    "ref_model*",
    "ref_adapters",
    "adapters",
    "load_args",
    "load_data_args",
    "init_weights",
    "lorap_*",
    "quant_method",
    "vit_lr",
    "aligner_lr",
    "task_type",
    "num_labels",
    "problem_type",
    "metric*",
    "acc_strategy",
    "deepspeed_autotp_size",
    "offload_*",
    "sleep_level",
    "move_model_batch*",
    "to_cached_dataset",
    "async_generate",
    "multi_turn_scheduler",
    "max_turns",
    "use_gym_env",
    "response_length",
    "max_model_len",
    "enable_dft_loss",
    "early_stop_interval",
    "vit_gradient_checkpointing",
    "dynamic_sample",
    "max_resample_times",
    "overlong_filter",
    "stop_words",
    "interleave_prob",
    "stopping_strategy",
    "shuffle_buffer_size",
    "ignore_args_error",
    "check_model",
    "attn_impl_*",
    "num_infer_workers",
    "advantage_estimator",
    "kl_in_reward",
    "loss_type",
    "max_epochs",
    "lmbda",
    "sft_alpha",
    "seq_kd",
)


_DEGREES = {
    "tensor": "tensor_model_parallel_size",
    "pipeline": "pipeline_model_parallel_size",
    "context": "context_parallel_size",
    "expert": "expert_model_parallel_size",
    "expert_tensor": "expert_tensor_parallel_size",
}


def _read_megatron(reader: SettingReader) -> None:
    """Read the degrees of `megatron sft`, which trains with Megatron-Core, and ask for what it decides else."""
    reader.put_framework("megatron")
    value = reader.path("model")
    if value is not None:
        reader.put_model(value, "model")
    for axis, name in _DEGREES.items():
        if reader.has(name):
            reader.take(f"parallelism.{axis}", name)
    reader.put_data_degree(**{axis: _DEGREES[axis] for axis in ("tensor", "pipeline", "context")})
    every = reader.first("save_steps", "save_interval")
    if reader.has(every):
        reader.take("checkpoint.interval_steps", every)
    else:
        reader.need("checkpoint.interval_seconds", "the file does not say it")
    for path in ("training.precision", "training.optimizer", "checkpoint.format", "retention.keep_last"):
        reader.need(path, "ms-swift with Megatron-Core is read for its degrees alone")
    tell_unknown_flags(reader)


def _read(reader: SettingReader) -> None:
    if reader.source.words[:1] == ("megatron",):
        _read_megatron(reader)
        return
    sharding = read_sharding(reader, is_whole=True)
    value = reader.path("model")
    if value is not None:
        reader.put_model(value, "model")
    _read_tuner(reader)
    _read_precision(reader, sharding)
    put_optimizer(reader, "optim")
    for name in ("use_galore", "optimizer"):
        if reader.get(name, None):
            reader.not_understood(name, "is an optimizer that the catalog lacks")
            reader.doubt("training.optimizer", f"{name} is no optimizer of the catalog")
    read_trainer_checkpoint(reader, sharding)
    if (reader.number("sequence_parallel_size", None) or 1) > 1:
        reader.take("parallelism.context", "sequence_parallel_size")
    read_trainer_degrees(reader, sharding)
    put_batch(
        reader,
        micro="per_device_train_batch_size",
        accumulation="gradient_accumulation_steps",
        sequence="max_length" if reader.has("max_length") else None,
    )
    if reader.draft.value("training.recomputation") is None:
        put_recomputation(reader, "gradient_checkpointing")
    reader.get("gradient_checkpointing", None)
    put_attention(reader, "attn_impl")
    if reader.is_on("use_liger_kernel", default=False):
        reader.put("training.loss", "chunked", "use_liger_kernel")
    if (reader.number("zero_hpz_partition_size", None) or 1) > 1:
        reader.not_understood("zero_hpz_partition_size", "keeps a second copy of the weights in each node: not counted")
    tell_unknown_flags(reader)


def _read_tuner(reader: SettingReader) -> None:
    name = reader.first(*_KINDS)
    kind = str(reader.get(name, "full" if "pt" in reader.source.words else "lora")).lower()
    if kind == "full":
        reader.ignore(*(key for key in ("lora_rank", "target_modules") if reader.has(key)))
        put_frozen_towers(reader, _TOWERS)
        for key in ("freeze_llm", "freeze_parameters", "freeze_parameters_ratio", "trainable_parameters"):
            if reader.get(key, None) not in (None, False, 0, 0.0, []):
                reader.not_understood(key, "freezes a part of the model: give training.frozen")
                reader.need("training.frozen", f"{key} freezes a part of the model")
        return
    if kind != "lora":
        reader.not_understood(name, "trains a part of the model that is not known here")
        reader.doubt("training.adapters", f"{name} is {kind}")
        reader.ignore("lora_rank", "target_modules")
        return
    put_adapters(reader, rank_name="lora_rank", targets_name="target_modules", default_targets="all-linear")
    for key in ("target_regex", "target_parameters"):
        if reader.get(key, None):
            reader.not_understood(key, "names modules in a way that is not read: give training.adapters.tensors")
            reader.doubt("training.adapters.tensors", f"{key} names the modules")
    put_beside_adapters(reader, whole_modules="modules_to_save")
    put_quantised_base(reader, "quant_bits", doubles=True)
    reader.ignore(*_TOWERS, "freeze_llm")


def _read_precision(reader: SettingReader, sharding: str | None) -> None:
    known = reader.draft.fields.get("training.precision")
    dtype = reader.get("torch_dtype", None)
    names = tuple(name for name in ("bf16", "fp16") if reader.has(name))
    mixed = next((name for name in ("bf16", "fp16") if reader.is_on(name, default=False)), None)
    mixed = mixed or _MIXED.get(str(dtype))
    if known is not None and not known.is_default:
        return
    if mixed is None:
        reader.need("training.precision", "torch_dtype is not given: the model's config.json says it")
    elif sharding in ("deepspeed", "fsdp"):
        reader.put("training.precision", f"{mixed}-mixed", *names, "torch_dtype")
    else:
        put_precision(reader, mixed, names, dtype=dtype, dtype_name="torch_dtype", is_sure=True)


SWIFT = Importer(
    name="swift",
    title="ms-swift",
    version="ms-swift 3602360a5 of 2026-08",
    source="ms-swift, swift/arguments",
    frameworks=("transformers", "deepspeed"),
    marks=(
        "tuner_type",
        "train_type",
        "sft_type",
        "rlhf_type",
        "model",
        "torch_dtype",
        "lora_rank",
        "target_modules",
        "model_author",
        "model_name",
        "split_dataset_ratio",
        "dataset",
        "num_train_epochs",
        "per_device_train_batch_size",
        "per_device_eval_batch_size",
        "learning_rate",
        "gradient_accumulation_steps",
        "eval_steps",
        "save_steps",
        "save_total_limit",
        "logging_steps",
        "max_length",
        "output_dir",
        "warmup_ratio",
        "dataloader_num_workers",
        "freeze_vit",
        "attn_impl",
        "padding_free",
        "bf16",
        "fp16",
        "report_to",
        "lr_scheduler_type",
        "optim",
        "gradient_checkpointing",
        "eval_strategy",
        "save_strategy",
        "packing",
    ),
    min_marks=4,
    sure_marks=(*_KINDS, "rlhf_type", "model_author+model_name"),
    programs=("swift", "*/swift", "megatron", "swift/cli/*", "*/swift/cli/*", "swift.cli.*"),
    needs_sure_mark=True,
    defaults=_DEFAULTS,
    read=_read,
    ignored=_IGNORED,
    rename=open_flags_of_trainer,
)
