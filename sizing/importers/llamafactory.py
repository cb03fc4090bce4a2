"""LLaMA-Factory's YAML or JSON, and the flags of `llamafactory-cli train`."""

from __future__ import annotations

from sizing.config_files.reader import SettingReader
from sizing.importers.importer import Importer
from sizing.importers.trainer_settings import (
    put_adapters,
    put_attention,
    put_batch,
    put_beside_adapters,
    put_frozen_towers,
    put_number_of_gpus,
    put_optimizer,
    put_quantised_base,
    put_recomputation,
    tell_unknown_flags,
)
from sizing.importers.transformers_trainer import (
    TRAINER_DEFAULTS,
    TRAINER_IGNORED,
    TRANSFORMERS,
    open_flags_of_trainer,
    read_sharding,
    read_trainer_checkpoint,
    read_trainer_degrees,
    read_trainer_precision,
)

_DEFAULTS = {
    **TRAINER_DEFAULTS,
    "finetuning_type": "lora",
    "lora_rank": 8,
    "lora_target": "all",
    "cutoff_len": 2048,
    "pure_bf16": False,
    "disable_gradient_checkpointing": False,
    "freeze_vision_tower": True,
}
_OTHER_OPTIMIZERS = ("use_galore", "use_apollo", "use_badam", "use_adam_mini")
_TOWERS = {"freeze_vision_tower": "vision", "freeze_multi_modal_projector": "projector"}

_OTHER_BACKENDS = ("use_mca", "use_megatron_bridge", "use_hyper_parallel")
_NOT_COUNTED = {
    **dict.fromkeys(_OTHER_BACKENDS, "trains with another backend, whose degrees are not read here"),
    "fp8": "is counted as without it: give training.precision",
    "mixture_of_depths": "changes the model in a way that is not counted",
    "use_kt": "keeps experts on the CPUs: not counted",
    "use_llama_pro": "trains blocks that were added to the model: give training.frozen",
}

_IGNORED = (
    *TRAINER_IGNORED,
    "stage",
    "adapter_name_or_path",
    "adapter_folder",
    "create_new_adapter",
    "split_special_tokens",
    "resize_vocab",
    "add_tokens",
    "add_special_tokens",
    "new_special_tokens_config",
    "init_special_tokens",
    "rope_scaling",
    "shift_attn",
    "moe_aux_loss_coef",
    "use_reentrant_gc",
    "upcast_layernorm",
    "upcast_lmhead_output",
    "train_from_scratch",
    "infer_*",
    "offload_folder",
    "use_kv_cache",
    "*_hub_token",
    "print_param_status",
    "use_unsloth",
    "use_unsloth_gc",
    "quantization_method",
    "quantization_type",
    "quantization_device_map",
    "double_quantization",
    "image_*",
    "video_*",
    "audio_*",
    "use_audio_in_video",
    "crop_to_patches",
    "block_diag_attn",
    "template",
    "media_dir",
    "train_on_prompt",
    "mask_history",
    "buffer_size",
    "mix_strategy",
    "interleave_probs",
    "preprocessing_batch_size",
    "ignore_pad_token_for_loss",
    "packing",
    "neat_packing",
    "tool_format",
    "default_system",
    "enable_thinking",
    "preserve_thinking",
    "tokenized_path",
    "data_shared_file_system",
    "loraplus_*",
    "pissa_*",
    "pref_*",
    "dpo_*",
    "kto_*",
    "simpo_gamma",
    "ppo_*",
    "ref_model*",
    "reward_model*",
    "compute_accuracy",
    "disable_shuffling",
    "early_stopping_steps",
    "plot_loss",
    "use_dft_loss",
    "use_asft_loss",
    "asft_alpha",
    "use_eaft_loss",
    "eaft_alpha",
    "use_swanlab",
    "do_sample",
    "num_beams",
    "length_penalty",
    "skip_special_tokens",
    "ray_run_name",
    "ray_storage_*",
    "ray_init_kwargs.*",
    "resources_per_worker.*",
    "placement_strategy",
    "use_ray",
    "master_addr",
    "master_port",
    "enable_torch_profiler",
    "profil*",
    "dataset_dir",
    "gradient_checkpointing",
    "galore_*",
    "apollo_*",
    "badam_*",
    "use_fast_tokenizer",
)
"""Source: LLaMA-Factory ff6d4d12eeb0, src/llamafactory/hparams."""


def _read(reader: SettingReader) -> None:
    sharding = read_sharding(reader, is_whole=True)
    value = reader.path("model_name_or_path")
    if value is not None:
        reader.put_model(value, "model_name_or_path")
    if reader.has("ray_num_workers"):
        put_number_of_gpus(reader, "ray_num_workers")
    _read_finetuning(reader)
    if reader.is_on("pure_bf16") and sharding != "deepspeed":
        reader.put("training.precision", "bf16", "pure_bf16")
        reader.get("bf16")
    else:
        read_trainer_precision(reader, sharding, is_trl=False, is_sure=True)
    _read_optimizer(reader)
    read_trainer_checkpoint(reader, sharding)
    read_trainer_degrees(reader, sharding)
    put_batch(
        reader,
        micro="per_device_train_batch_size",
        accumulation="gradient_accumulation_steps",
        sequence="cutoff_len",
    )
    _read_step(reader)
    for name, why in _NOT_COUNTED.items():
        if reader.get(name, None):
            reader.not_understood(name, why)
            if name in _OTHER_BACKENDS:
                reader.doubt("training.framework", f"{name} trains with another backend")
    tell_unknown_flags(reader)


def _read_step(reader: SettingReader) -> None:
    is_off = reader.is_on("disable_gradient_checkpointing")
    if reader.draft.value("training.recomputation") is None:
        put_recomputation(reader, "disable_gradient_checkpointing", is_on=not is_off)
    put_attention(reader, "flash_attn")
    if reader.is_on("enable_liger_kernel", default=False):
        reader.put("training.loss", "chunked", "enable_liger_kernel")
    reader.put("training.compile", reader.is_on("torch_compile"), "torch_compile")


def _read_finetuning(reader: SettingReader) -> None:
    """Read what is trained: adapters, the whole model, or some layers of it."""
    kind = str(reader.get("finetuning_type")).lower()
    if kind == "lora":
        put_adapters(reader, rank_name="lora_rank", targets_name="lora_target", default_targets="all")
        reader.get("finetuning_type")
        put_beside_adapters(reader, whole_modules="additional_target")
        if reader.draft.value("training.adapters.modules_to_save"):  # it raises them to fp32, as PEFT alone does not
            reader.put("training.trainer", "llamafactory", "additional_target")
        put_quantised_base(reader, "quantization_bit", doubles=True)
        reader.ignore(*_TOWERS, "freeze_language_model")
        return
    if kind == "full":
        reader.ignore("lora_rank", "lora_target", "lora_alpha", "additional_target", "quantization_bit")
        _read_frozen(reader)
        return
    reader.not_understood("finetuning_type", "trains a part of the model that is not known here")
    field = "training.frozen" if kind == "freeze" else "training.adapters"
    reader.doubt(field, f"finetuning_type is {kind}")


def _read_frozen(reader: SettingReader) -> None:
    put_frozen_towers(reader, _TOWERS)
    if reader.is_on("freeze_language_model", default=False):
        reader.not_understood("freeze_language_model", "trains the towers alone: give training.frozen")
        reader.need("training.frozen", "freeze_language_model is on")


def _read_optimizer(reader: SettingReader) -> None:
    others = [name for name in _OTHER_OPTIMIZERS if reader.is_on(name, default=False)]
    if reader.is_on("use_muon", default=False):
        reader.put("training.optimizer", "muon", "use_muon")
        reader.ignore("optim")
    elif others:
        reader.not_understood(others[0], "is an optimizer that the catalog lacks")
        reader.need("training.optimizer", f"{others[0]} is no optimizer of the catalog")
        reader.ignore("optim")
    else:
        put_optimizer(reader, "optim")
    for name in (*_OTHER_OPTIMIZERS, "use_muon"):
        reader.get(name, None)


LLAMAFACTORY = Importer(
    name="llamafactory",
    title="LLaMA-Factory",
    version="LLaMA-Factory ff6d4d12eeb0 of 2026-08-18",
    source="LLaMA-Factory, src/llamafactory/hparams",
    frameworks=("transformers", "deepspeed"),
    marks=(
        *TRANSFORMERS.marks,
        "finetuning_type",
        "stage",
        "template",
        "cutoff_len",
        "lora_target",
        "dataset_dir",
        "plot_loss",
        "max_samples",
        "quantization_bit",
        "pref_beta",
    ),
    min_marks=4,
    sure_marks=("finetuning_type", "stage+template", "stage+cutoff_len", "template+cutoff_len"),
    programs=("llamafactory-cli", "*/llamafactory-cli", "lmf"),
    needs_sure_mark=True,
    defaults=_DEFAULTS,
    read=_read,
    ignored=_IGNORED,
    rename=open_flags_of_trainer,
)
