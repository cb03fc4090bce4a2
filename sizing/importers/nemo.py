"""NeMo 1 (NeMo-Megatron): hydra's YAML of a trainer, an experiment manager and a model, and overrides of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sizing.config_files.reader import SettingReader
from sizing.config_files.source import ConfigSource, Setting
from sizing.importers.importer import Importer
from sizing.importers.megatron import read_degrees, read_stages, read_step
from sizing.importers.megatron_arguments import ALIASES, DEFAULTS, WITHOUT_EFFECT
from sizing.importers.megatron_model import put_model

_NAMES = {
    "bias": "add_bias_linear",
    "qkv_bias": "add_qkv_bias",
    "activation": "activation_func",
    "encoder_seq_length": "seq_length",
    "fp8_e4m3": "fp8_e4m3",
    "ub_tp_comm_overlap": "tp_comm_overlap",
    "use_flash_attention": "use_flash_attn",
    "optim.overlap_grad_sync": "overlap_grad_reduce",
    "optim.overlap_param_sync": "overlap_param_gather",
    "optim.name": "optimizer_name",
    "override_vocab_size": "vocab_size",
    "tokenizer.type": "tokenizer_name_or_path",
    "tokenizer.model": "tokenizer_model",
    "tokenizer.vocab_file": "vocab_file",
    "tokenizer.library": "tokenizer_type",
}
"""Names of NeMo below `model.` for Megatron-LM's."""

_INVERTED = {"share_embeddings_and_output_weights": "untie_embeddings_and_output_weights"}
_CALLBACK = "exp_manager.checkpoint_callback_params."
_OPTIMIZERS: dict[str, tuple[str, bool]] = {
    "mcore_distributed_optim": ("adam", True),
    "distributed_fused_adam": ("adam", True),
    "fused_adam": ("adam", False),
    "megatron_fused_adam": ("adam", False),
    "adam": ("adam", False),
    "adamw": ("adamw", False),
    "adafactor": ("adafactor", False),
}
"""Optimizers by NeMo's names, and whether data ranks divide their state."""

_PRECISIONS = {
    "bf16": "bf16-mixed",
    "bf16-mixed": "bf16-mixed",
    "bf16-true": "bf16-mixed",
    "16": "fp16-mixed",
    "16-mixed": "fp16-mixed",
    "fp16": "fp16-mixed",
    "32": "fp32",
    "32-true": "fp32",
}
_FP32_WEIGHTS = {"weights": "fp32", "master": None}
"""State without megatron_amp_O2: autocast, over weights that stay fp32."""


def _rename(source: ConfigSource) -> ConfigSource:
    """Name the model's settings as Megatron-LM does; those of trainer and experiment manager keep their names."""
    settings: dict[str, Setting] = {}
    for path, setting in source.settings.items():
        name = path.lstrip("+~")
        for block in ("training.", "peft.", "fine_tuning."):
            name = name.removeprefix(block) if name.startswith((f"{block}model.", f"{block}trainer.")) else name
            name = name.removeprefix(block) if name.startswith((f"{block}exp_manager.", f"{block}run.")) else name
        value = setting.value
        if name.startswith("model."):
            own = name.removeprefix("model.")
            name = _INVERTED.get(own, _NAMES.get(own, ALIASES.get(own, own)))
            value = not value if own in _INVERTED and isinstance(value, bool) else value
            if own == "transformer_engine":
                name, value = "transformer_impl", "local" if value is False else "transformer_engine"
        settings[name] = replace(setting, name=name, value=value)
    return replace(source, settings=settings)


def _read(reader: SettingReader) -> None:
    reader.put_framework("megatron")
    devices, nodes = reader.number("trainer.devices"), reader.number("trainer.num_nodes")
    if devices is not None and nodes is not None and devices > 0 and reader.draft.value("cluster.num_gpus") is None:
        reader.put("cluster.num_gpus", devices * nodes, "trainer.devices", "trainer.num_nodes")
    _read_optimizer(reader)
    read_degrees(reader)
    read_stages(reader)
    put_model(reader)
    _read_precision(reader)
    read_step(reader)
    _read_checkpoint(reader)
    _read_adapters(reader)


def _read_optimizer(reader: SettingReader) -> None:
    name = "optimizer_name"
    given = str(reader.get(name))
    if given not in _OPTIMIZERS:
        if reader.has(name):
            reader.not_understood(name, "is no optimizer whose state is known here")
        reader.need("training.optimizer", "the optimizer is not understood")
        reader.need("training.distributed_optimizer", "the optimizer is not understood")
        return
    optimizer, is_distributed = _OPTIMIZERS[given]
    reader.put("training.optimizer", optimizer, name)
    reader.put("training.distributed_optimizer", is_distributed, name)


def _read_precision(reader: SettingReader) -> None:
    names = ("trainer.precision", "precision")
    name = reader.first(*names)
    given = _PRECISIONS.get(str(reader.get(name)))
    if given is None:
        if reader.has(name) and not reader.is_unknown(name):
            reader.not_understood(name, "is no precision that is known here")
        reader.need("training.precision", "trainer.precision does not say it")
        return
    is_eight = reader.is_given("fp8") and (reader.is_given("fp8_hybrid") or reader.is_given("fp8_e4m3"))
    reader.put("training.precision", "fp8-mixed" if is_eight else given, name, *(["fp8"] if is_eight else []))
    if given != "fp32" and not reader.is_given("megatron_amp_O2"):
        note = "autocast, with weights that stay fp32"
        reader.put("training.saved_state", _FP32_WEIGHTS, "megatron_amp_O2", note=note)
    for each in ("fp8", "fp8_hybrid", "fp8_e4m3", "megatron_amp_O2", *names):
        reader.get(each)


def _read_checkpoint(reader: SettingReader) -> None:
    _read_interval(reader)
    top, monitor = reader.number(f"{_CALLBACK}save_top_k"), str(reader.get(f"{_CALLBACK}monitor"))
    saves_last = reader.get(f"{_CALLBACK}save_last") is not False
    if top is not None and top > 0 and "step" in monitor:
        reader.put("retention.keep_last", top, f"{_CALLBACK}save_top_k")
    elif top is not None and top >= 0 and saves_last:
        reader.put("retention.keep_best", top, f"{_CALLBACK}save_top_k")
        reader.put("retention.keep_last", 1, f"{_CALLBACK}save_last")
    else:
        reader.need("retention.keep_last", "all checkpoints of the run are kept, or none")
    if reader.is_on("exp_manager.ema.enable"):
        reader.not_understood("exp_manager.ema.enable", "saves a moving average of the weights beside")
        reader.need("training.saved_state.ema", "its dtype is not said")
    mode = f"{_CALLBACK}async_save"
    reader.put("checkpoint.mode", "async" if reader.is_on(mode) else "sync", mode)
    for name in ("always_save_nemo", "save_best_model"):
        if reader.is_on(f"{_CALLBACK}{name}"):
            reader.not_understood(f"{_CALLBACK}{name}", "writes a .nemo file beside: give checkpoint.export")
    if reader.is_on("fsdp"):
        reader.not_understood("fsdp", "shards all state by torch's FSDP, whose saves by NeMo are not counted")
        reader.need("checkpoint.format", "no format here is that of NeMo with FSDP")
    elif reader.get("mcore_gpt") is False:
        reader.not_understood("mcore_gpt", "saves one file per rank, as before Megatron Core, which is not counted")
        reader.need("checkpoint.format", "no format here is that of NeMo without Megatron Core")
    elif reader.get("dist_ckpt_format") == "torch_dist":
        reader.put("checkpoint.format", "torch-dist", "dist_ckpt_format")
    else:
        reader.not_understood("dist_ckpt_format", "is no format that is counted: torch_dist")
        reader.need("checkpoint.format", "the format is not understood")


def _read_interval(reader: SettingReader) -> None:
    """Set the interval: of the callback, in steps or time, else that of validation, after which NeMo saves."""
    steps, time = f"{_CALLBACK}every_n_train_steps", f"{_CALLBACK}train_time_interval"
    validation = "trainer.val_check_interval"
    if reader.number(steps):
        reader.put("checkpoint.interval_steps", reader.number(steps), steps)
        reader.ignore(validation)
    elif reader.has(time) and reader.get(time) is not None:
        reader.put("checkpoint.interval_seconds", _seconds(reader.get(time)), time)
        reader.ignore(validation)
    elif isinstance(reader.number(validation), int) and reader.number(validation) > 1:
        note = "checkpoints are saved after validation"
        reader.put("checkpoint.interval_steps", reader.number(validation), validation, note=note)
    else:
        reader.need("checkpoint.interval_seconds", "no steps or time between checkpoints are given")
    reader.get(steps)


def _seconds(time: Any) -> float | None:
    """Read a time as dd:hh:mm:ss; None where it is none."""
    parts = str(time).split(":")
    if len(parts) != len(_PART_SECONDS) or not all(part.isdecimal() for part in parts):
        return None
    return float(sum(int(part) * each for part, each in zip(parts, _PART_SECONDS, strict=True)))


_PART_SECONDS = (86_400, 3_600, 60, 1)
"""Seconds of a day, an hour, a minute and a second."""


_MODULES: dict[str, tuple[str, ...]] = {
    name: (name,) for name in ("attention_qkv", "attention_dense", "mlp_fc1", "mlp_fc2")
}
_MODULES |= {
    "attention": ("attention_qkv", "attention_dense"),
    "mlp": ("mlp_fc1", "mlp_fc2"),
    "all": ("attention_qkv", "attention_dense", "mlp_fc1", "mlp_fc2"),
}
"""Modules by the words of target_modules. Source: NeMo 1, conf/megatron_gpt_finetuning_config.yaml, lora_tuning."""


def _read_adapters(reader: SettingReader) -> None:
    scheme = "peft.peft_scheme"
    value = reader.get(scheme)
    reader.ignore("peft.*")
    if str(value) in ("lora", "qlora"):
        rank = reader.first("peft.lora_tuning.adapter_dim", "peft.lora_tuning.dim")
        reader.put("training.trainer", "nemo", scheme)
        reader.put("training.adapters.rank", reader.number(rank), rank, scheme)
        targets = reader.get("peft.lora_tuning.target_modules", default=["attention_qkv"])
        modules = (
            [each for name in targets for each in _MODULES.get(str(name), ())] if isinstance(targets, list) else []
        )
        if modules and set(targets) <= _MODULES.keys():
            reader.put("training.adapters.tensors", tuple(dict.fromkeys(modules)), "peft.lora_tuning.target_modules")
        else:
            reader.not_understood("peft.lora_tuning.target_modules", f"names others than {', '.join(_MODULES)}")
            reader.need("training.adapters.tensors", "the matrices with adapters are not understood")
    elif value not in (None, "none"):
        reader.not_understood(scheme, "is no technique that is counted: lora")
        reader.need("training.adapters.rank", "what is trained beside the frozen model is not understood")


_WITHOUT_EFFECT = """
    gradient_as_bucket_view resume_from_checkpoint restore_from_path apex_transformer_log_level
    trainer.num_sanity_val_steps grad_allreduce_chunk_size_mb native_amp_init_scale native_amp_growth_interval
    post_process pre_process sync_batch_comm grad_div_ar_fusion reduce_amax fsdp_use_orig_params
    scale_positional_embedding ffn_dropout fp32_residual_connection bias_dropout_add_fusion use_scaled_init_method
    headscale do_layer_norm_weight_decay transformer_block_type normalize_attention_scores attention_type use_emha
    megatron_legacy activations_checkpoint_layers_per_pipeline num_micro_batches_with_partial_activation_checkpoints
    inductor seq_len_interpolation_factor async_grad_allreduce fsdp_sharding_strategy fsdp_grad_reduce_dtype
    gc_interval sharp fsdp_sharded_checkpoint save_nemo_on_validation_end answer_only_loss
    get_attention_mask_from_fusion inductor_cudagraphs target log_train_loss reset_attention_mask batch_p2p_comm
    low_freq_factor high_freq_factor old_context_len rope_scaling dist_ckpt_parallel_save dist_ckpt_parallel_load
    dist_ckpt_load_on_device dist_ckpt_parallel_dist_opt dist_ckpt_assume_constant_structure
    dist_ckpt_load_strictness use_torch_dist
"""

_OF_TRAINER = """
    accelerator logger enable_checkpointing use_distributed_sampler replace_sampler_ddp max_epochs max_steps max_time
    log_every_n_steps limit_train_batches limit_val_batches limit_test_batches limit_predict_batches
    accumulate_grad_batches gradient_clip_val gradient_clip_algorithm benchmark enable_model_summary enable_progress_bar
    num_sanity_val_steps check_val_every_n_epoch sync_batchnorm overfit_batches profiler fast_dev_run detect_anomaly
    resume_from_checkpoint reload_dataloaders_every_n_epochs min_steps min_epochs
"""
_OF_MANAGER = """
    explicit_log_dir exp_dir name create_wandb_logger create_tensorboard_logger create_mlflow_logger
    create_dllogger_logger create_clearml_logger resume_if_exists resume_ignore_no_checkpoint resume_past_end
    resume_from_checkpoint create_checkpoint_callback create_early_stopping_callback log_step_timing
    log_tflops_per_sec_per_gpu use_datetime_version version seconds_to_sleep files_to_copy create_preemption_callback
    create_straggler_detection_callback create_fault_tolerance_callback max_time_per_run disable_validation_on_resume
    log_global_rank_0_only log_local_rank_0_only summary_writer_kwargs.save_dir log_delta_step_timing
"""

NEMO = Importer(
    name="nemo",
    title="NeMo 1",
    version="24.09",
    source="NeMo, examples/nlp/language_modeling/conf/megatron_gpt_config.yaml and nemo/utils/exp_manager.py",
    frameworks=("megatron",),
    marks=(
        "trainer.devices",
        "trainer.num_nodes",
        "trainer.precision",
        "trainer.val_check_interval",
        "exp_manager.*",
        f"{_CALLBACK}*",
        "megatron_amp_O2",
        "mcore_gpt",
        "optimizer_name",
        "activations_checkpoint_granularity",
        "tensor_model_parallel_size",
        "pipeline_model_parallel_size",
        "encoder_seq_length",
        "seq_length",
        "restore_from_path",
        "hidden_size",
        "micro_batch_size",
    ),
    min_marks=5,
    defaults={
        **DEFAULTS,
        "normalization": "layernorm",
        "optimizer_name": None,
        "dist_ckpt_format": "torch_dist",
        "mcore_gpt": True,
        f"{_CALLBACK}save_top_k": 3,
        f"{_CALLBACK}save_last": True,
        f"{_CALLBACK}monitor": "val_loss",
    },
    read=_read,
    rename=_rename,
    ignored=(
        *WITHOUT_EFFECT,
        "run.*",
        "hydra.*",
        "defaults",
        "name",
        "exp_manager.wandb_logger_kwargs.*",
        "exp_manager.*_logger_kwargs.*",
        "exp_manager.step_timing_kwargs.*",
        "exp_manager.early_stopping_callback_params.*",
        "exp_manager.straggler_detection_params.*",
        "exp_manager.fault_tolerance.*",
        "exp_manager.ema.*",
        *(f"trainer.{name}" for name in _OF_TRAINER.split()),
        *(f"exp_manager.{name}" for name in _OF_MANAGER.split()),
        f"{_CALLBACK}filename",
        f"{_CALLBACK}mode",
        f"{_CALLBACK}verbose",
        f"{_CALLBACK}model_parallel_size",
        f"{_CALLBACK}save_nemo_on_train_end",
        f"{_CALLBACK}dirpath",
        f"{_CALLBACK}prefix",
        f"{_CALLBACK}postfix",
        f"{_CALLBACK}always_save_nemo",
        f"{_CALLBACK}save_best_model",
        "data.*",
        "tokenizer.*",
        "optim.*",
        "nsys_profile.*",
        "ub_tp_comm_overlap_cfg*",
        "inference.*",
        *_WITHOUT_EFFECT.split(),
    ),
)
