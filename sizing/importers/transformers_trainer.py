"""TrainingArguments of transformers' Trainer, and of TRL: flags of a training script, or a YAML or JSON of them."""

from __future__ import annotations

import re
from typing import Any

from sizing.config_files.reader import SettingReader
from sizing.config_files.source import ConfigSource, Unresolved, open_blocks
from sizing.importers.accelerate_config import (
    FSDP_IGNORED,
    distributed_type,
    mixed_precision,
    put_fsdp_format,
    put_fsdp_sharding,
    read_launch,
)
from sizing.importers.deepspeed_json import GATHERS_WEIGHTS, read_deepspeed
from sizing.importers.importer import Importer
from sizing.importers.trainer_settings import (
    ACCELERATE_CONFIG,
    DEEPSPEED_JSON,
    FSDP_CONFIG,
    PRECISION_WORDS,
    is_empty,
    put_adapters,
    put_attention,
    put_base_in_fp32,
    put_batch,
    put_beside_adapters,
    put_interval,
    put_number_of_gpus,
    put_optimizer,
    put_precision,
    put_quantised_base,
    put_recomputation,
    put_retention,
    put_shard_group,
    put_weights_alone,
    stage_in_name,
    tell_unknown_flags,
)

VERSION = "transformers 5.23, TRL 1.9"

TRAINER_DEFAULTS: dict[str, Any] = {
    "per_device_train_batch_size": 8,
    "gradient_accumulation_steps": 1,
    "optim": "adamw_torch_fused",
    "save_strategy": "steps",
    "save_steps": 500,
    "save_total_limit": None,
    "save_only_model": False,
    "bf16": False,
    "fp16": False,
    "gradient_checkpointing": False,
    "torch_compile": False,
}
"""Source: transformers 5.23, training_args.py."""

_TRL_DEFAULTS: dict[str, Any] = {"bf16": True, "gradient_checkpointing": True, "lora_r": 16, "dtype": "float32"}
"""Where TRL's own differ; bf16 is on unless fp16 is. Source: TRL 1.10, trainer/base_config.py and model_config.py."""

_OF_TRL = (
    "use_peft",
    "dataset_text_field",
    "dataset_mixer",
    "dataset_mixture.*",
    "dataset_num_proc",
    "max_prompt_length",
    "max_completion_length",
    "num_generations",
    "packing",
    "packing_strategy",
    "assistant_only_loss",
    "completion_only_loss",
    "loss_type",
    "beta",
    "model_init_kwargs.*",
    "attn_implementation",
    "vllm_*",
    "use_vllm",
    "reward_model_path",
    "sft_model_path",
)
_TRL_PROGRAMS = ("trl", "sft.py", "dpo.py", "grpo.py", "orpo.py", "kto.py", "reward_modeling.py", "rloo.py")
_ZERO_OF_TRL = {"zero1": 1, "zero2": 2, "zero3": 3}
_OTHERS_OF_TRL = {"fsdp1": "FSDP", "fsdp2": "FSDP", "multi_gpu": "MULTI_GPU", "single_gpu": "NO"}
"""What `accelerate_config` of TRL's command names. Source: TRL, trl/accelerate_configs."""

_SWITCHES_OF_ADAPTERS = ("use_peft", "use_lora", "lora_enable", "lora", "q_lora", "enable_lora", "peft", "train_mode")
_RANKS = ("lora_r", "lora_rank", "lora_dim", "peft_lora_r", "lora_attn_dim")
_TARGETS = (
    "lora_target_modules",
    "lora_target",
    "lora_modules",
    "target_modules",
    "peft_lora_target_modules",
    "trainable",
)
_MODELS = ("model_name_or_path", "model_name", "base_model", "model", "model_id", "pretrained_model_name_or_path")
_LENGTHS = (
    "max_length",
    "max_seq_length",
    "max_seq_len",
    "model_max_length",
    "block_size",
    "seq_length",
    "sequence_length",
    "cutoff_len",
)
_DTYPES = (
    "torch_dtype",
    "dtype",
    "model_dtype",
    "model_init_kwargs.torch_dtype",
    "model_init_kwargs.dtype",
    "torch_dtype_str",
)
_SHIPPED_BY_SWIFT = {f"zero{stage}{end}": (stage, bool(end)) for stage in range(4) for end in ("", "_offload")}
"""DeepSpeed's configs that ms-swift ships: their stage, and whether they offload. Source: ms-swift, swift/config."""

_FSDP_WORDS = {
    "full_shard": "FULL_SHARD",
    "shard_grad_op": "SHARD_GRAD_OP",
    "no_shard": "NO_SHARD",
    "hybrid_shard": "HYBRID_SHARD",
    "hybrid_shard_zero2": "HYBRID_SHARD_ZERO2",
}

TRAINER_IGNORED = (
    "output_dir",
    "overwrite_output_dir",
    "run_name",
    "project",
    "project_name",
    "experiment_name",
    "exp_name",
    "trackio_*",
    "wandb_*",
    "swanlab_*",
    "seed",
    "data_seed",
    "do_train",
    "do_eval",
    "do_predict",
    "eval_*",
    "evaluation_*",
    "evaluate_*",
    "per_device_eval_batch_size",
    "per_gpu_train_batch_size",
    "per_gpu_eval_batch_size",
    "prediction_loss_only",
    "predict_with_generate",
    "generation_max_length",
    "generation_num_beams",
    "generation_config",
    "logging_*",
    "log_level",
    "log_level_replica",
    "log_on_each_node",
    "log_*_completions",
    "log_completions",
    "log_multimodal",
    "report_to",
    "learning_rate",
    "lr_scheduler_type",
    "lr_scheduler_kwargs",
    "lr_scheduler_kwargs.*",
    "warmup_ratio",
    "warmup_steps",
    "warmup_*",
    "weight_decay",
    "adam_beta1",
    "adam_beta2",
    "adam_epsilon",
    "max_grad_norm",
    "num_train_epochs",
    "max_steps",
    "label_smoothing_factor",
    "label_names",
    "bf16_full_eval",
    "fp16_full_eval",
    "fp16_opt_level",
    "fp16_backend",
    "half_precision_backend",
    "tf32",
    "gradient_checkpointing_kwargs",
    "gradient_checkpointing_kwargs.*",
    "torch_compile_backend",
    "torch_compile_mode",
    "use_cache",
    "neftune_noise_alpha",
    "torch_empty_cache_steps",
    "disable_tqdm",
    "include_*",
    "push_to_hub",
    "push_to_hub_*",
    "hub_*",
    "load_best_model_at_end",
    "metric_for_best_model",
    "greater_is_better",
    "ignore_data_skip",
    "resume_from_checkpoint",
    "restore_callback_states_from_checkpoint",
    "save_safetensors",
    "enable_jit_checkpoint",
    "full_determinism",
    "accelerator_config",
    "accelerator_config.*",
    "dataloader_*",
    "remove_unused_columns",
    "train_sampling_strategy",
    "length_column_name",
    "group_by_length",
    "ddp_*",
    "debug",
    "skip_memory_metrics",
    "local_rank",
    "no_cuda",
    "use_cpu",
    "past_index",
    "average_tokens_across_devices",
    "batch_eval_metrics",
    "mp_parameters",
    "jit_mode_eval",
    "liger_kernel_config.*",
    "ray_scope",
    "torchdynamo",
    "split_batches",
    "dispatch_batches",
    "auto_find_batch_size_*",
    "sortish_sampler",
    # of models and data in scripts
    "model_revision",
    "model_code_revision",
    "config_name",
    "tokenizer_name",
    "tokenizer_name_or_path",
    "tokenizer_revision",
    "tokenizer_path",
    "cache_dir",
    "use_fast_tokenizer",
    "use_auth_token",
    "token",
    "trust_remote_code",
    "low_cpu_mem_usage",
    "ignore_mismatched_sizes",
    "data_path",
    "data_paths",
    "data_dir",
    "data_file",
    "data_files",
    "data_name",
    "dataset",
    "dataset_*",
    "datasets",
    "train_data",
    "train_data_path",
    "train_file",
    "train_files",
    "train_dataset*",
    "train_split",
    "validation_*",
    "valid_*",
    "val_*",
    "test_*",
    "preprocessing_num_workers",
    "preprocess_num_workers",
    "overwrite_cache",
    "keep_linebreaks",
    "streaming",
    "max_train_samples",
    "max_eval_samples",
    "max_predict_samples",
    "max_samples",
    "lazy_preprocess",
    "chat_template",
    "chat_template_path",
    "system_prompt",
    "prompt_template",
    "image_folder",
    "text_column",
    "text_column_name",
    "num_workers",
    "env.*",
    "config",
    "pad_token",
    "eos_token",
    "version",
    "mm_use_im_*",
    "mm_vision_select_*",
    "mm_patch_*",
    "mm_projector_lr",
    "mm_vision_tower_lr",
    "template_name",
    "template",
    "task_type",
    "tokenize_num_workers",
    "conversation_template",
    "disable_group_texts",
    "num_padding_at_beginning",
    "enable_tensorboard",
    "tensorboard_path",
    "conv_style",
    "meta_path",
    "dynamic_image_size",
    "use_thumbnail",
    "min_dynamic_patch",
    "max_dynamic_patch",
    "min_num_frame",
    "max_num_frame",
    "pad2square",
    "pad_to_max_length",
    "use_data_resampling",
    "drop_path_rate",
    "loss_reduction*",
    "image_aspect_ratio",
    "image_grid_pinpoints",
    "group_by_modality_length",
    # of TRL
    "packing",
    "packing_strategy",
    "padding_free",
    "eval_packing",
    "pad_to_multiple_of",
    "shuffle_dataset",
    "completion_only_loss",
    "assistant_only_loss",
    "truncation_mode",
    "max_prompt_length",
    "max_completion_length",
    "max_target_length",
    "max_source_length",
    "max_new_tokens",
    "num_generations",
    "num_generations_eval",
    "num_iterations",
    "num_completions_to_print",
    "generation_batch_size",
    "generation_kwargs.*",
    "chat_template_kwargs.*",
    "steps_per_generation",
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "repetition_penalty",
    "cache_implementation",
    "use_vllm",
    "vllm_*",
    "ds3_gather_for_generation",
    "beta",
    "epsilon",
    "epsilon_high",
    "delta",
    "importance_sampling_level",
    "reward_weights",
    "reward_funcs",
    "scale_rewards",
    "loss_type",
    "loss_weights",
    "label_smoothing",
    "mask_truncated_completions",
    "sync_ref_model",
    "ref_model_mixup_alpha",
    "ref_model_sync_steps",
    "top_entropy_quantile",
    "precompute_ref_log_probs",
    "precompute_ref_batch_size",
    "disable_dropout",
    "f_divergence_type",
    "f_alpha_divergence_coef",
    "reference_free",
    "rpo_alpha",
    "ld_alpha",
    "use_weighting",
    "discopop_tau",
    "force_use_ref_model",
    "generate_during_eval",
    "max_tool_calling_iterations",
    "router_aux_loss_coef",
    "desirable_weight",
    "undesirable_weight",
    "center_rewards_coefficient",
    "ignore_bias_buffers",
    "log_unique_prompts",
    "cosine_*",
    "trl_project",
    # of adapters
    "lora_alpha",
    "lora_dropout",
    "lora_bias",
    "lora_task_type",
    "lora_weight_path",
    "use_rslora",
    "peft_lora_alpha",
    "peft_lora_dropout",
    "bnb_4bit_*",
    "use_bnb_nested_quant",
    "double_quant",
    "quant_type",
    "bits",
    "launcher.slurm_*",
)
"""Settings that change no figure here: logging, data, learning rates, rewards. Source: transformers 5.23 and 4.57,
training_args.py and the example scripts; TRL, trainer/*_config.py and scripts/utils.py."""

_OF_OWN_LOOPS = ("num_warmup_steps", "checkpointing_steps", "zero_stage")
"""Settings of scripts with a loop of their own, whose flags look like a Trainer's.

Source: DeepSpeedExamples, training/DeepSpeed-ZeRO++ and applications/DeepSpeed-Chat, main.py; transformers,
examples/pytorch/*/run_*_no_trainer.py.
"""


def _read(reader: SettingReader) -> None:
    if any(map(reader.has, _OF_OWN_LOOPS)):
        _read_own_loop(reader)
        return
    is_trl = _is_trl(reader)
    if is_trl:
        reader.take_defaults("TRL", _TRL_DEFAULTS)
    sharding = read_sharding(reader)
    _read_model(reader)
    _read_adapters(reader, is_trl=is_trl)
    read_trainer_precision(reader, sharding, is_trl=is_trl)
    put_optimizer(reader, "optim")
    read_trainer_checkpoint(reader, sharding)
    if reader.is_on("adafactor", default=False):
        reader.put("training.optimizer", "adafactor", "adafactor")
    read_trainer_degrees(reader, sharding)
    length = reader.first(*_LENGTHS)
    put_batch(
        reader,
        micro="per_device_train_batch_size",
        accumulation="gradient_accumulation_steps",
        sequence=length if reader.has(length) else None,
    )
    _read_step(reader)
    _doubt_what_is_trained(reader)
    tell_unknown_flags(reader)


def _read_own_loop(reader: SettingReader) -> None:
    """Read what has the same meaning in a loop of a script's own, and ask for what that loop decides."""
    sharding = read_sharding(reader)
    if reader.has("zero_stage"):
        reader.put_framework("deepspeed")
        reader.take("parallelism.zero_stage", "zero_stage")
        if reader.is_on("offload", default=False):
            reader.put("training.offload.optimizer", "host", "offload")
    _read_model(reader)
    read_trainer_degrees(reader, sharding)
    steps = "checkpointing_steps"
    every = reader.get(steps, None)
    if isinstance(every, int) and every > 0:
        reader.put("checkpoint.interval_steps", every, steps)
    else:
        reader.need("checkpoint.interval_seconds", "the script's own loop says when it saves")
    for path in ("training.precision", "training.optimizer", "retention.keep_last"):
        if reader.draft.value(path) is None:
            reader.need(path, "the script's own loop decides it")
    if sharding is None and not reader.has("zero_stage"):
        reader.doubt("training.framework", "the script's own loop decides it")
    for name in ("per_device_train_batch_size", "gradient_accumulation_steps", *_LENGTHS):
        reader.get(name, None)
    reader.ignore("num_warmup_steps", "data_split", "data_output_path")
    tell_unknown_flags(reader)


_PARTLY_TRAINED = re.compile(r"(un)?freeze_\w+|tune_\w+|use_\w+_lora|mm_tunable_parts")


def _doubt_what_is_trained(reader: SettingReader) -> None:
    """Ask for the tensors that are trained where a script has switches of its own for parts of its model."""
    for name in filter(_PARTLY_TRAINED.fullmatch, list(reader.source.settings)):
        if str(reader.get(name)).lower() in ("false", "0", "none", ""):
            continue
        reader.not_understood(name, "decides which part of the model is trained, in a way of this script's own")
        field = "training.adapters" if name.endswith("_lora") else "training.frozen"
        reader.doubt(field, f"{name} decides which part of the model is trained")


def _starts_trl(reader: SettingReader) -> bool:
    """Return whether a command starts TRL, or a script of a name that its own have."""
    return any(word.rpartition("/")[2] in _TRL_PROGRAMS for word in reader.source.words[:2])


def _is_trl(reader: SettingReader) -> bool:
    return _starts_trl(reader) or any(map(reader.source.matching, _OF_TRL))


def read_sharding(reader: SettingReader, *, is_whole: bool = False, config_turns_fsdp_on: bool = False) -> str | None:
    """Read what shards the state, and return it: deepspeed, fsdp, megatron, or None for plain data parallelism.

    `is_whole`: the trainer's file says it by itself, without the command that starts it. `config_turns_fsdp_on`: the
    block fsdp_config alone turns FSDP on.
    """
    launch = reader.of_other(ACCELERATE_CONFIG)
    kind = distributed_type(reader.source) or (None if launch is None else distributed_type(launch))
    kind = _read_trl_command(reader) or kind
    if any(name.startswith("launcher.") for name in reader.source.settings):
        read_launch(reader, is_alone=False)
    if _read_deepspeed(reader) or kind == "DEEPSPEED":
        reader.put_framework("deepspeed")
        return "deepspeed"
    if _read_fsdp(reader, config_turns_it_on=config_turns_fsdp_on) or kind == "FSDP":
        reader.put_framework("transformers", is_sure=False)
        return "fsdp"
    if kind == "MEGATRON_LM":
        return "megatron"
    reader.put_framework("transformers", is_sure=False)
    if kind is None and launch is None and reader.source.document is not None and not is_whole:
        why = "the launch command is not given, which may say DeepSpeed or FSDP: plain data parallelism is taken"
        reader.doubt("training.framework", why)
    return None


def _read_deepspeed(reader: SettingReader) -> bool:
    """Read what the trainer is told of DeepSpeed, a file's name or its content, and return whether it uses it."""
    if any(name.startswith("deepspeed.") for name in reader.source.settings):
        read_deepspeed(reader, "deepspeed.")
        return True
    path = reader.get("deepspeed", None)
    if path is None and reader.has("deepspeed") and isinstance(reader.source.settings["deepspeed"].value, Unresolved):
        reader.need("parallelism.zero_stage", "DeepSpeed's file is not given: give that file too")
        return True
    if is_empty(path) or path is True:
        return reader.of_other(DEEPSPEED_JSON) is not None
    if reader.of_other(DEEPSPEED_JSON) is not None:
        return True
    if path in _SHIPPED_BY_SWIFT and "swift" in reader.source.words:
        stage, offloads = _SHIPPED_BY_SWIFT[path]
        reader.put("parallelism.zero_stage", stage, "deepspeed")
        if offloads:
            _put_offload(reader, "deepspeed")
        return True
    named = stage_in_name(str(path))
    if named is None:
        reader.not_understood("deepspeed", "names a file that is not given: give that file too")
    else:
        note = "as its name says; give that file too"
        reader.put("parallelism.zero_stage", named, "deepspeed", note=note)
    reader.doubt("parallelism.zero_stage", "DeepSpeed's file is not given, which also says offload: give that file too")
    return True


def _read_trl_command(reader: SettingReader) -> str | None:
    """Read what TRL's command hands to accelerate, processes and a config of TRL, and return how that distributes."""
    if reader.source.words[:1] == ("trl",) or reader.has("accelerate_config"):
        put_number_of_gpus(reader, "num_processes")
    name = reader.get("accelerate_config", None)
    if name is None:
        return None
    if name in _ZERO_OF_TRL:
        reader.put("parallelism.zero_stage", _ZERO_OF_TRL[name], "accelerate_config")
        return "DEEPSPEED"
    if name in _OTHERS_OF_TRL:
        return _OTHERS_OF_TRL[name]
    if reader.of_other(ACCELERATE_CONFIG) is None:
        reader.not_understood("accelerate_config", "names a file that is not given: give that file too")
        reader.doubt("training.framework", "accelerate's config file is not given, which says DeepSpeed, FSDP or DDP")
    return None


def _read_fsdp(reader: SettingReader, *, config_turns_it_on: bool) -> bool:
    """Read the trainer's own settings of FSDP, and return whether it uses it."""
    value = reader.get("fsdp", None)
    given = [name for name in reader.source.settings if name.startswith("fsdp_config.")]
    path = reader.get("fsdp_config", None)
    words = value.replace(",", " ").split() if isinstance(value, str) else value if isinstance(value, list) else []
    words = [str(each).lower() for each in words if str(each).lower() != "false"]
    if not (value is True or words or (config_turns_it_on and given)):
        reader.ignore(*given)
        return False
    is_in_file = reader.of_other(FSDP_CONFIG) is not None
    if isinstance(path, str) and not is_empty(path) and not is_in_file:
        reader.not_understood("fsdp_config", "names a file that is not given: give that file too")
        reader.need("checkpoint.format", "the file of fsdp_config is not given, which says the form of the state dict")
    for word in words:
        if word in _FSDP_WORDS:
            put_fsdp_sharding(reader, _FSDP_WORDS[word], "fsdp")
        elif word == "offload":
            _put_offload(reader, "fsdp")
        elif word == "fsdp2":  # the config of this name that ms-swift ships
            reader.put("checkpoint.format", "accelerate-fsdp", "fsdp")
            reader.put("training.recomputation", "full", "fsdp")
        elif word not in ("auto_wrap", "true"):
            reader.not_understood("fsdp", "has a word that is not known")
    if not is_in_file:
        _read_fsdp_config(reader, "fsdp_config.", is_sharded_by_version=config_turns_it_on)
    for name in ("fsdp_transformer_layer_cls_to_wrap", "fsdp_min_num_params", "fsdp_version"):
        reader.get(name, None)
    return True


def _read_fsdp_config(reader: SettingReader, block: str = "", *, is_sharded_by_version: bool = False) -> None:
    """Read the settings of FSDP, whose names begin with a block, or with nothing in a file of theirs.

    A Trainer's default form is the full state dict, accelerate's goes by version.

    Source: transformers 5.23, training_args.py, _process_fsdp_args.
    """

    def named(setting: str) -> str:
        return reader.first(f"{block}{setting}", f"{block}fsdp_{setting}")

    version = str(reader.get(named("version"), reader.get("fsdp_version", None) or "1"))
    form = named("state_dict_type")
    value = reader.get(form, None if is_sharded_by_version else "FULL_STATE_DICT")
    put_fsdp_format(reader, form if reader.has(form) else None, value, version=version)
    for strategy in (named("sharding_strategy"), named("reshard_after_forward")):
        put_fsdp_sharding(reader, str(reader.get(strategy, "")).upper(), strategy)
    if reader.is_on(named("activation_checkpointing"), default=False):
        reader.put("training.recomputation", "full", named("activation_checkpointing"))
    for switch in ("offload_params", "cpu_offload"):
        if reader.is_on(named(switch), default=False):
            _put_offload(reader, named(switch))
    for begin in (block, f"{block}fsdp_"):
        reader.ignore(*(f"{begin}{each}" for each in FSDP_IGNORED if each != "reshard_after_forward"))
        reader.ignore(f"{begin}final_state_dict_type")


def _put_offload(reader: SettingReader, name: str) -> None:
    reader.put("training.offload.optimizer", "host", name)
    reader.put("training.offload.weights", "host", name)


def _read_model(reader: SettingReader) -> None:
    name = reader.first(*_MODELS)
    value = reader.path(name)
    if value is not None:
        reader.put_model(value, name)
    if not is_empty(reader.get("vision_tower", None)):
        reader.not_understood("vision_tower", "names a tower beside the language model: not counted")
        reader.doubt("model.preset", "a vision tower stands beside the language model, which alone is counted")
    for other in _MODELS:
        if other != name and reader.has(other):
            reader.not_understood(other, "names a second model: the first is counted")


def _read_adapters(reader: SettingReader, *, is_trl: bool) -> None:
    switches = [name for name in _SWITCHES_OF_ADAPTERS if reader.has(name)]
    is_on = [name for name in switches if reader.is_on(name) or str(reader.get(name)).lower() in ("lora", "qlora")]
    ranks = [name for name in _RANKS if reader.has(name) and (reader.is_unknown(name) or reader.get(name))]
    targets = reader.first(*_TARGETS)
    if is_on or (ranks and not switches and not is_trl):
        name = ranks[0] if ranks else "lora_r"
        if not ranks and not is_trl:
            reader.need("training.adapters.rank", "adapters are on, and the file does not say their rank")
            reader.get(targets, None)
            return
        put_adapters(reader, rank_name=name, targets_name=targets, takes_default_of_peft=is_trl)
        if not is_on:
            reader.doubt("training.adapters.rank", "no switch says whether adapters are trained: they are counted")
        put_beside_adapters(reader, whole_modules=reader.first("lora_modules_to_save", "modules_to_save"))
        put_quantised_base(reader, "load_in_4bit", "load_in_8bit", "q_lora", doubles=False)
    else:
        reader.ignore(*_RANKS, *_TARGETS, "lora_modules_to_save", "use_dora")
        for name in ("load_in_4bit", "load_in_8bit"):
            if reader.is_on(name, default=False):
                reader.not_understood(name, "quantises the weights of a model that no adapter is said of")
                reader.need("training.adapters.rank", "a quantised model is trained by adapters")


def read_trainer_precision(reader: SettingReader, sharding: str | None, *, is_trl: bool, is_sure: bool = False) -> None:
    """Set the precision, unless DeepSpeed's file has said it: by bf16 and fp16, else as accelerate is told."""
    mixed, names = _mixed_precision(reader, is_trl=is_trl)
    dtype_name = reader.first(*(["dtype"] if is_trl else []), *_DTYPES)
    dtype = reader.get(dtype_name) if is_trl else reader.get(dtype_name, None)
    known = reader.draft.fields.get("training.precision")
    if known is not None and not known.is_default:
        if mixed is not None and known.value == f"{mixed}-mixed":
            reader.put("training.precision", known.value, *names)
        elif mixed is not None and known.value.endswith("-mixed"):
            reader.put("training.precision", f"{mixed}-mixed", *names)
        return
    if sharding == "deepspeed":
        name = "fp32" if mixed is None else f"{mixed}-mixed"
        reader.put("training.precision", name, *names)
        if mixed is None and "parallelism.zero_stage" in {**reader.draft.needed, **reader.draft.doubted}:
            reader.doubt("training.precision", "DeepSpeed's file is not given, which may say it")
    elif sharding == "fsdp" and mixed in ("bf16", "fp16"):
        note = "accelerate casts sharded weights to fp32 for mixed precision"
        reader.put("training.precision", f"{mixed}-mixed", *names, note=note)
        if reader.draft.value("training.adapters.rank") is not None:
            put_base_in_fp32(reader, None if dtype is None else str(dtype).lower(), dtype_name)
    else:
        is_quantised = any(reader.is_on(name, default=False) for name in ("load_in_4bit", "load_in_8bit"))
        if is_trl and not reader.has(dtype_name) and not is_quantised and not _starts_trl(reader):
            has_adapters = reader.draft.value("training.adapters.rank") is not None
            path = "training.adapters.base_dtype" if has_adapters else "training.precision"
            reader.doubt(path, "no file says the dtype in which the weights are loaded: fp32 is taken, as TRL does")
        put_precision(
            reader,
            mixed,
            names,
            dtype=dtype,
            dtype_name=dtype_name,
            is_sure=is_sure,
            adapters_in_16_bits=is_trl and is_quantised,
        )


def _mixed_precision(reader: SettingReader, *, is_trl: bool) -> tuple[str | None, tuple[str, ...]]:
    """Return the precision of autocast and the settings that say it."""
    if reader.is_on("bf16", default=False):
        reader.get("fp16", None)
        return "bf16", ("bf16",)
    if reader.is_on("fp16"):
        reader.get("bf16", None)
        return "fp16", ("fp16",)
    own = reader.get("mixed_precision", None)
    launch = reader.of_other(ACCELERATE_CONFIG)
    told = own or mixed_precision(reader.source) or (None if launch is None else mixed_precision(launch))
    word = PRECISION_WORDS.get(str(told).lower()) if told is not None else None
    if word is not None:
        return word, tuple(name for name in ("mixed_precision", "launcher.mixed_precision") if reader.has(name))
    if is_trl and not reader.has("bf16") and not reader.has("fp16"):
        return "bf16", ("bf16",)
    return None, ("bf16", "fp16")


def read_trainer_checkpoint(reader: SettingReader, sharding: str | None) -> None:
    """Set interval, retention, and what a folder holds."""
    put_interval(reader)
    put_retention(reader)
    put_weights_alone(reader)
    if reader.is_on("save_on_each_node", default=False):
        reader.not_understood("save_on_each_node", "lets each node write a copy of its own: one copy is counted")
    else:
        reader.get("save_on_each_node", None)
    if sharding == "deepspeed":
        put_gathered_weights(reader)


def put_gathered_weights(reader: SettingReader) -> None:
    """Count the weights that a Trainer writes beside DeepSpeed's files; with ZeRO 3 where they are gathered.

    With adapters these alone are written, whatever the stage and its setting. Source: transformers 5.23, trainer.py,
    save_model: stage3_gather_16bit_weights_on_model_save, and exclude_frozen_parameters.
    """
    of_adapters = "training.adapters.rank"
    has_adapters = reader.draft.value(of_adapters) is not None
    if reader.is_on("save_only_model", default=False):
        why = "with save_only_model rank 0 alone writes model.safetensors: its bytes are counted, in DeepSpeed's files"
        reader.doubt("checkpoint.format", why)
        return
    if of_adapters in reader.draft.needed:
        return
    stage, precision = reader.draft.value("parallelism.zero_stage"), reader.draft.value("training.precision")
    if stage is None or precision is None:
        return
    if stage == 3 and not has_adapters and not _gathers_weights(reader):
        return
    dtype = {"bf16-mixed": "bf16", "fp16-mixed": "fp16", "fp32": "fp32"}.get(precision)
    if dtype is None:
        return
    reader.put("checkpoint.export.every", 1, "save_only_model")
    reader.put("checkpoint.export.content", "adapters" if has_adapters else None, "save_only_model")
    reader.put("checkpoint.export.dtype", dtype, "save_only_model")
    keep = reader.draft.value("retention.keep_last")
    if keep:
        reader.put("checkpoint.export.keep", keep, "save_only_model")


def _gathers_weights(reader: SettingReader) -> bool:
    names = (*GATHERS_WEIGHTS, "deepspeed_config.zero3_save_16bit_model", "launcher.zero3_save_16bit_model")
    for source in (reader.source, *reader.sources_of_others()):
        for name in (*names, *(f"deepspeed.{name}" for name in names)):
            setting = source.settings.get(name)
            if setting is not None and str(setting.value).lower() == "true":
                return True
    return False


def read_trainer_degrees(reader: SettingReader, sharding: str | None) -> None:
    """Set the degrees that the trainer itself is told, and the data ranks that are left of the GPUs."""
    if reader.has("tp_size") and (reader.number("tp_size") or 0) > 1:
        reader.take("parallelism.tensor", "tp_size")
    sizes = {}
    for axis in ("tp", "cp", "sp", "dp_replicate", "dp_shard"):
        name = f"parallelism_config.{axis}_size"
        sizes[axis] = reader.number(name, None) or 1
    if sizes["tp"] > 1:
        reader.put("parallelism.tensor", sizes["tp"], "parallelism_config.tp_size")
    if sizes["cp"] * sizes["sp"] > 1:
        names = ("parallelism_config.cp_size", "parallelism_config.sp_size")
        reader.put("parallelism.context", sizes["cp"] * sizes["sp"], *names)
    if sizes["dp_replicate"] > 1:
        of_group = ("parallelism_config.dp_shard_size", "parallelism_config.cp_size", "parallelism_config.sp_size")
        reader.put("parallelism.shard_group", sizes["dp_shard"] * sizes["cp"] * sizes["sp"], *of_group)
        reader.get("parallelism_config.dp_replicate_size")
    reader.put_data_degree(tensor="tp_size", pipeline="pipeline", context="parallelism_config.cp_size")
    if sharding == "fsdp":
        put_shard_group(reader)


def _read_step(reader: SettingReader) -> None:
    """Set what a step recomputes, and its kernels."""
    if reader.draft.value("training.recomputation") is None or reader.has("gradient_checkpointing"):
        if reader.draft.value("training.recomputation") == "full":
            reader.get("gradient_checkpointing", None)
        else:
            put_recomputation(reader, "gradient_checkpointing")
    for name in ("attn_implementation", "attn_impl"):
        put_attention(reader, name)
    if reader.is_on("use_flash_attn", default=False):
        reader.put("training.attention", "flash", "use_flash_attn")
    reader.put("training.compile", reader.is_on("torch_compile"), "torch_compile")
    liger = reader.first("use_liger_kernel", "use_liger")
    if reader.is_on(liger, default=False):
        reader.put("training.loss", "chunked", liger)
    if reader.is_on("activation_offloading", default=False):
        reader.not_understood("activation_offloading", "moves activations: give training.offload.activations_fraction")
    if reader.is_on("auto_find_batch_size", default=False):
        reader.not_understood("auto_find_batch_size", "lets the batch shrink: the one that is given is counted")
    for name in ("activation_offloading", "auto_find_batch_size", "use_liger", "use_flash_attn", "load_in_4bit"):
        reader.get(name, None)


_OF_OTHERS_TOO = {"xla", "version", "activation_checkpointing", "cpu_offload"}
"""Names that, without fsdp_ before them, files of other programs have."""
_FSDP_SETTINGS = {*FSDP_IGNORED, *_OF_OTHERS_TOO, "state_dict_type", "sharding_strategy"}
FSDP_FILE = Importer(
    name=FSDP_CONFIG,
    title="FSDP's settings of Trainer",
    version=VERSION,
    source="transformers, training_args.py, _process_fsdp_args",
    frameworks=("transformers",),
    marks=(*sorted(_FSDP_SETTINGS - _OF_OTHERS_TOO), *sorted(f"fsdp_{name}" for name in _FSDP_SETTINGS)),
    read=_read_fsdp_config,
    rank=-1,
)


def open_flags_of_trainer(source: ConfigSource) -> ConfigSource:
    """Open the settings that flags of a Trainer give as JSON.

    Source: transformers, training_args.py, _VALID_DICT_FIELDS.
    """
    return open_blocks(source, ("fsdp_config", "deepspeed", "parallelism_config"))


TRANSFORMERS = Importer(
    name="transformers",
    title="Trainer of transformers",
    version=VERSION,
    source="transformers, training_args.py; TRL, trainer/*_config.py",
    frameworks=("transformers", "deepspeed"),
    marks=(
        "per_device_train_batch_size",
        "per_device_eval_batch_size",
        "gradient_accumulation_steps",
        "num_train_epochs",
        "learning_rate",
        "lr_scheduler_type",
        "warmup_ratio",
        "warmup_steps",
        "output_dir",
        "overwrite_output_dir",
        "save_steps",
        "save_strategy",
        "save_total_limit",
        "logging_steps",
        "eval_strategy",
        "evaluation_strategy",
        "report_to",
        "bf16",
        "fp16",
        "gradient_checkpointing",
        "model_name_or_path",
        "do_train",
        "ddp_timeout",
        "optim",
        "dataset_name",
        "attn_implementation",
        "torch_dtype",
        "use_peft",
    ),
    min_marks=3,
    programs=("trl", "*/trl"),
    defaults=TRAINER_DEFAULTS,
    read=_read,
    ignored=TRAINER_IGNORED,
    rename=open_flags_of_trainer,
)
