"""Megatron-Bridge: the YAML of its whole configuration that a run saves, and overrides, as YAML or of a command."""

from __future__ import annotations

import re
from dataclasses import replace

from sizing.checkpoint_files.peft_modules import TENSORS_OF_MODULES
from sizing.config_files.reader import SettingReader
from sizing.config_files.source import ConfigSource, Setting
from sizing.frameworks.trainers import TRAINERS
from sizing.importers.importer import Importer
from sizing.importers.megatron import (
    read_checkpoint,
    read_degrees,
    read_optimizer,
    read_precision,
    read_stages,
    read_step,
)
from sizing.importers.megatron_arguments import ALIASES, DEFAULTS, WITHOUT_EFFECT
from sizing.importers.megatron_model import put_model
from sizing.importers.trainer_settings import is_empty

_BLOCKS = (
    "dataset",
    "dist",
    "train",
    "validation",
    "tokenizer",
    "checkpoint",
    "optimizer",
    "ddp",
    "model",
    "mixed_precision",
)
"""Blocks whose settings have the names of Megatron-LM's arguments; of a name in two of them the last block's holds."""

_DTYPES = {"torch.float32": "fp32", "torch.bfloat16": "bf16", "torch.float16": "fp16", "torch.uint8": "fp8"}
_OPTIMIZER_DTYPES = ("main_grads_dtype", "main_params_dtype", "exp_avg_dtype", "exp_avg_sq_dtype")

_OWN_NAMES = {
    "dataset.sequence_length": "dataset.seq_length",
    "model.attention_backend._args_": "model.attention_backend",
    "mixed_precision": "mixed_precision.name",
    "model.should_pad_vocab": "model.pad_vocab_size",
    **{f"optimizer.{each}._target_": f"optimizer.{each}" for each in _OPTIMIZER_DTYPES},
}
_INVERTED = {"share_embeddings_and_output_weights": "untie_embeddings_and_output_weights"}
_MIXES = (
    ("nvfp4", "nvfp4-mixed"),
    ("mxfp8", "mxfp8-mixed"),
    ("fp8", "fp8-mixed"),
    ("bf16_mixed", "bf16-mixed"),
    ("fp16_mixed", "fp16-mixed"),
)
"""Precisions by a part of the names of Megatron-Bridge's recipes for it."""

_RECIPE = re.compile(r"_(pretrain|finetune|sft|peft|config|performance|lora|dora|recipe).*")


def _rename(source: ConfigSource) -> ConfigSource:
    """Name settings as Megatron-LM's arguments are; those of other blocks keep their names."""
    named: dict[str, dict[str, Setting]] = {block: {} for block in ("", *_BLOCKS)}
    for path, setting in source.settings.items():
        full = _OWN_NAMES.get(path.lstrip("+~"), path.lstrip("+~"))
        block, _, name = full.partition(".")
        value = setting.value
        is_data = block == "dataset" and name != "seq_length"
        if (
            full == "mixed_precision.name"
            or is_data
            or block not in _BLOCKS
            or not name
            or "." in name
            or name.startswith("_")
        ):
            named[""][full] = replace(setting, name=full)
            continue
        own = _INVERTED.get(name, ALIASES.get(name, name))
        if name in _INVERTED and isinstance(value, bool):
            value = not value
        if name == "attention_backend" and isinstance(value, list):
            value = f"AttnBackend({value[0]})"
        value = _DTYPES.get(value, value) if isinstance(value, str) else value
        named[block][own] = replace(setting, name=own, value=value)
    order = ("", *_BLOCKS)
    settings = {name: setting for block in order for name, setting in named[block].items()}
    if "seq_length" in named["dataset"]:  # that of the model is the longest it can
        settings["seq_length"] = named["dataset"]["seq_length"]
    return replace(source, settings=settings)


_OF_EXPERTS = {"share_expert_adapters": True, "experts_shared_outer_loras": False, "normalize_moe_lora": False}
"""Settings of adapters of experts, as they ship. Source: Megatron-Bridge, peft/lora.py."""


def _read(reader: SettingReader) -> None:
    reader.put_framework("megatron")
    is_whole = reader.has("_target_") or reader.has("checkpoint._target_")
    if is_whole:  # it has every setting, and those that are off change nothing
        reader.ignore(*(name for name, each in reader.source.settings.items() if each.value in (None, False, [], "")))
    else:
        _ask_for_what_recipes_say(reader)
    read_degrees(reader)
    read_stages(reader)
    if not _read_recipe(reader) and (is_whole or reader.has("num_layers")):
        put_model(reader)
    read_optimizer(reader)
    _read_mix(reader)
    read_step(reader)
    read_checkpoint(reader)
    _read_adapters(reader)


def _read_adapters(reader: SettingReader) -> None:
    """Set adapters where a block or a scheme has them on; recipes for finetuning have them by default."""
    scheme = reader.first("peft", "peft_scheme")
    kind = reader.get(scheme, None)
    if reader.has(scheme) and is_empty(kind):
        reader.ignore(scheme, "peft.*")
        return
    has_block = reader.is_given("peft._target_") or reader.has("peft.dim")
    if kind is not None and not has_block:
        reader.need("training.adapters.rank", f"{scheme} is {kind}, whose rank the recipe says")
        return
    if not has_block and re.search("finetune|peft", str(reader.get("recipe", None))):
        reader.doubt("training.adapters", "the recipe says whether it trains LoRA, its default, or all weights")
    if has_block:
        reader.put("training.trainer", "megatron-bridge", "peft.dim")
        reader.put("training.adapters.rank", reader.number("peft.dim"), "peft.dim")
        for name, usual in _OF_EXPERTS.items():
            if reader.is_on(f"peft.{name}", default=usual) is not usual:
                reader.not_understood(f"peft.{name}", "changes adapters of experts: one for those of a rank is counted")
        if str(reader.get("peft._target_", None)).endswith(".DoRA"):
            reader.put("training.adapters.dora", True, "peft._target_")
        modules = reader.get("peft.target_modules", list(TRAINERS["megatron-bridge"].adapter_targets))
        if isinstance(modules, list) and modules and {str(each) for each in modules} <= TENSORS_OF_MODULES.keys():
            reader.put("training.adapters.tensors", tuple(modules), "peft.target_modules")
        else:
            reader.not_understood("peft.target_modules", "names modules of some layers, or others than are known here")
            reader.need("training.adapters.tensors", "the matrices with adapters are not understood")


_OF_RECIPES = {
    "parallelism.tensor": "tensor_model_parallel_size",
    "parallelism.pipeline": "pipeline_model_parallel_size",
    "parallelism.context": "context_parallel_size",
    "training.precision": "bf16",
    "training.micro_batch_size": "micro_batch_size",
    "training.sequence_length": "seq_length",
    "training.recomputation": "recompute_granularity",
}


def _ask_for_what_recipes_say(reader: SettingReader) -> None:
    """Ask for what overrides leave to a recipe, which is Python."""
    for path, name in _OF_RECIPES.items():
        if not reader.has(name) and not (name == "bf16" and reader.has("mixed_precision.name")):
            reader.need(path, "the recipe says it, which is Python")


def _read_recipe(reader: SettingReader) -> bool:
    """Set the model by the name of a recipe, such as llama3_8b_pretrain_config."""
    name = reader.first("recipe", "model.hf_path", "hf_model_id", "hf_path")
    value = reader.get(name, None)
    if not isinstance(value, str):
        return False
    return reader.put_model(_RECIPE.sub("", value), name)


def _read_mix(reader: SettingReader) -> None:
    name = "mixed_precision.name"
    value = reader.get(name, None)
    if not isinstance(value, str):
        if reader.has("bf16") or reader.has("fp16"):
            reader.put("training.precision", *read_precision(reader))
        return
    known = next((precision for part, precision in _MIXES if part in value.replace("-", "_")), None)
    if known is None:
        reader.not_understood(name, "is no precision that is known here")
        reader.need("training.precision", "the precision is not understood")
    reader.put("training.precision", known, name)
    reader.ignore("bf16", "fp16")


_WITHOUT_EFFECT = """
    grad_reduce_in_fp32 average_in_collective bucket_size check_for_nan_in_grad gradient_reduce_div_fusion
    pad_buckets_for_high_nccl_busbw preserve_fp32_weights decoupled_weight_decay finetune_lr scale_factor
    low_freq_factor high_freq_factor old_context_len parallel_output scatter_embedding_sequence_parallel peft.alpha
    peft.dropout     peft.dropout_position autocast_enabled align_param_gather bias_activation_fusion
    use_transformer_engine_full_layer_spec
"""

MEGATRON_BRIDGE = Importer(
    name="megatron-bridge",
    title="Megatron-Bridge",
    version="067f987df of 2026-08-22",
    source="Megatron-Bridge, src/megatron/bridge/training/config.py and models/gpt_provider.py",
    frameworks=("megatron",),
    marks=(
        "_target_",
        "checkpoint._target_",
        "model._target_",
        "ddp._target_",
        "optimizer._target_",
        "recipe",
        "mixed_precision.name",
        "tensor_model_parallel_size",
        "pipeline_model_parallel_size",
        "context_parallel_size",
        "seq_length",
        "micro_batch_size",
        "global_batch_size",
        "train_iters",
        "save_interval",
        "scheduler.*",
        "use_distributed_optimizer",
        "logger.*",
        "rng.*",
    ),
    min_marks=3,
    defaults={**DEFAULTS, "use_distributed_optimizer": True, "most_recent_k": -1},
    read=_read,
    rename=_rename,
    ignored=(
        *WITHOUT_EFFECT,
        "_target_",
        "*._target_",
        "*._args_",
        "*._call_",
        "*._partial_",
        "model.*_method.*",
        "model.generation_config.*",
        "dataset.*",
        "scheduler.*",
        "logger.*",
        "rng.*",
        "profiling*",
        "rerun_state_machine.*",
        "inprocess_restart*",
        "ft",
        "ft.*",
        "straggler*",
        "nvrx_straggler*",
        "tensor_inspect*",
        "comm_overlap",
        "comm_overlap.*",
        "tokenizer.*",
        "checkpoint.save",
        *_WITHOUT_EFFECT.split(),
        "checkpoint.load",
    ),
)
