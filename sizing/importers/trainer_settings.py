"""What trainers on top of transformers have in common: names of settings, precision, adapters, interval, retention."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, get_args

from sizing.checkpoint_files.peft_modules import (
    ALL_LINEAR,
    HALVES_OF_GATE,
    TENSORS_OF_MODULES,
    is_all_dense,
    means_all_linear,
    module_of,
    tensors_of_modules,
)
from sizing.config_files.reader import BESIDE_FILES, SettingReader, optimizer_of
from sizing.config_files.source import ConfigSource
from sizing.errors import InvalidInput, SizingError
from sizing.model.catalog import model_named
from sizing.model.inventory import Inventory
from sizing.model.model import Model, resolve
from sizing.model.trained import trained_whole, with_adapters
from sizing.state.training import DOUBLE_QUANTIZED, AdapterBias

DEEPSPEED_JSON = "deepspeed-json"
FSDP_CONFIG = "fsdp-config"
ACCELERATE_CONFIG = "accelerate-config"
HUGGINGFACE_CONFIG = "huggingface-config"
BESIDE_A_TRAINER = {
    DEEPSPEED_JSON,
    FSDP_CONFIG,
    ACCELERATE_CONFIG,
    HUGGINGFACE_CONFIG,
    "peft-config",
    "scenario",
    "launch-command",
}
"""Importers of files that stand beside a trainer's own."""

_DEFAULT_TARGETS = ("attention.query", "attention.value")
"""PEFT adapts q_proj and v_proj by default in these families. Source: PEFT 0.21, peft/utils/constants.py."""
_FAMILIES_WITH_DEFAULT_TARGETS = {"llama", "mixtral", "qwen2", "qwen3", "gemma", "gemma2", "opt"}

PRECISION_WORDS = {"bf16": "bf16", "fp16": "fp16", "fp8": "fp8", "no": None, "none": None, "null": None}
_BF16_NAMES = ("bfloat16", "torch.bfloat16", "bf16")
_FP32_NAMES = ("float32", "torch.float32", "fp32", "float")

LAUNCHER_FLAGS_THAT_MATTER = re.compile(
    r"launcher\.(fsdp|zero|offload|deepspeed_|megatron_lm|parallelism_config|fp8|mixed_precision|use_)\w*"
)


def has_trainer_beside(reader: SettingReader) -> bool:
    """Whether another file is a trainer's own, which says what this one leaves to it."""
    return any(name not in BESIDE_A_TRAINER for name in reader.names_of_others())


def has_flag_elsewhere(reader: SettingReader, flag: str) -> bool:
    """Whether the command of another source gives its launcher a flag, which goes before what a file says."""
    return any(f"launcher.{flag}" in source.settings for source in reader.sources_of_others())


def tell_unknown_flags(reader: SettingReader) -> None:
    """Count a launcher's settings as without effect, but for those that begin like ones which matter."""
    for name in reader.source.settings:
        if name.startswith("launcher.") and not LAUNCHER_FLAGS_THAT_MATTER.fullmatch(name):
            reader.ignore(name)


def is_empty(value: Any) -> bool:
    """Whether a setting of a path or a list says that there is none."""
    return value in (None, "", "none", "None", "null", False) or value == []


def put_number_of_gpus(reader: SettingReader, name: str) -> None:
    """Set the GPUs by the processes that a file of settings starts, of which there is one for each GPU."""
    value, known = reader.number(name), reader.draft.fields.get("cluster.num_gpus")
    is_overruled = has_flag_elsewhere(reader, "num_processes") or (known is not None and known.place == BESIDE_FILES)
    if value is not None and value > 0 and not is_overruled:
        reader.put("cluster.num_gpus", int(value), name)


# Precision.


def put_precision(
    reader: SettingReader,
    mixed: str | None,
    names: Sequence[str],
    *,
    dtype: Any,
    dtype_name: str,
    is_sure: bool,
    adapters_in_16_bits: bool = False,
) -> None:
    """Set the precision that a Trainer without DeepSpeed and FSDP trains in.

    `mixed`: bf16 or fp16 of autocast, or None. `dtype`: that in which the weights are loaded, which autocast does not
    change: None where the file does not say it. `is_sure`: whether weights are then fp32 in this trainer. Adapters are
    fp32 beside weights of any dtype (PEFT, autocast_adapter_dtype), but `adapters_in_16_bits`.
    """
    has_adapters = reader.draft.value("training.adapters.rank") is not None
    loaded = str(dtype).lower() if dtype is not None else None
    if loaded == "auto":
        config = reader.of_other(HUGGINGFACE_CONFIG)
        loaded = None if config is None else _dtype_of(config)
        if loaded is None and not has_adapters:
            reader.need("training.precision", f"{dtype_name} is auto: the model's config.json says the dtype")
            return
    if mixed == "fp8":
        reader.put("training.precision", "fp8-mixed", *names)
        return
    name = "fp32" if mixed is None else f"{mixed}-mixed"
    if has_adapters and adapters_in_16_bits and mixed == "bf16":
        reader.put("training.precision", "bf16", *names, note="TRL casts adapters of a quantised model to bfloat16")
        reader.get(dtype_name)
    elif has_adapters:
        reader.put("training.precision", name, *names, note="adapters are fp32 beside frozen weights of any dtype")
        put_base_in_fp32(reader, loaded, dtype_name)
    elif loaded in _BF16_NAMES:
        if mixed == "fp16":
            reader.need("training.precision", f"fp16 with weights in {loaded}")
            return
        note = "the weights themselves are bfloat16, so no fp32 copy is kept"
        reader.put("training.precision", "bf16", dtype_name, *names, note=note)
    elif loaded is None or loaded in _FP32_NAMES:
        note = "" if mixed is None else "the weights stay fp32, and products are computed in 16 bits"
        reader.put("training.precision", name, *names, *([dtype_name] if reader.has(dtype_name) else []), note=note)
        if loaded is None and not is_sure:
            why = "no file says the dtype in which the weights are loaded: fp32 is taken; of bfloat16 it is bf16"
            reader.doubt("training.precision", why)
    else:
        reader.not_understood(dtype_name, "is no dtype of weights that is known here: give training.precision")
        reader.need("training.precision", f"weights are loaded as {dtype_name} says")


def put_base_in_fp32(reader: SettingReader, loaded: str | None, dtype_name: str) -> None:
    """Set the dtype of the frozen weights under adapters where they are loaded in fp32, and not in 4 or 8 bits."""
    reader.get(dtype_name)
    is_quantised = reader.draft.value("training.adapters.base_dtype") is not None
    of_base = None if is_quantised or loaded not in _FP32_NAMES else "fp32"
    reader.put("training.adapters.base_dtype", of_base, dtype_name)


def _dtype_of(config: ConfigSource) -> str | None:
    """Return the dtype that a config.json has for its weights."""
    for name in ("torch_dtype", "dtype", "text_config.torch_dtype", "text_config.dtype"):
        setting = config.settings.get(name)
        if setting is not None and isinstance(setting.value, str):
            return setting.value.lower()
    return None


# Adapters.


def put_adapters(
    reader: SettingReader,
    *,
    rank_name: str,
    targets_name: str,
    default_targets: Any = None,
    takes_default_of_peft: bool = False,
    saves_base: bool = False,
) -> None:
    """Set low-rank adapters by their rank and the modules that they stand beside.

    `default_targets`: modules where the file names none; `takes_default_of_peft`: whether they are then PEFT's.
    `saves_base`: whether the frozen weights are saved too; a Trainer leaves them out, with DeepSpeed and FSDP also.
    Source: transformers 5.23, trainer.py, exclude_frozen_parameters and adapter_only.
    """
    reader.put("training.adapters.rank", reader.number(rank_name), rank_name)
    reader.put("training.adapters.save_base", saves_base, rank_name)
    targets = reader.get(targets_name, None)
    if targets is None or targets is True:
        targets = default_targets
    if targets is None and not takes_default_of_peft:
        reader.get(targets_name, None)
        reader.need("training.adapters.tensors", "no file says which modules get adapters: the script decides it")
        return
    tensors = _tensors_of_targets(reader, targets)
    if isinstance(tensors, tuple):
        if tensors == ALL_LINEAR and _matrices_of_model(reader) is None:
            reader.need(
                "training.adapters.tensors", "all linear modules of a model that is not known: a dense one is taken"
            )
        reader.put("training.adapters.tensors", list(tensors), *([targets_name] if reader.has(targets_name) else ()))
        return
    if reader.has(targets_name):
        reader.not_understood(targets_name, tensors)
    reader.need("training.adapters.tensors", tensors)


def count_adapters(preset: str, *, rank: int, targets: Any) -> int:
    """Count the parameters of adapters beside modules of a model of the catalog, by PEFT's names or its all-linear.

    Raises InvalidInput for modules that the model lacks, and for all-linear where that differs by version.

    >>> count_adapters("gpt2", rank=8, targets="c_attn") == 12 * 8 * (768 + 3 * 768)
    True
    """
    names = [str(each).strip() for each in (targets if isinstance(targets, list) else str(targets).split(","))]
    adapted = with_adapters(resolve(Model(preset=preset)).inventory, rank=rank, names=names, field="target_modules")
    return sum(group.num_parameters for group in adapted if group.is_trained)


def _tensors_of_targets(reader: SettingReader, targets: Any) -> tuple[str, ...] | str:
    """Return the tensors that get adapters, or a sentence that says why they are not known."""
    known = _matrices_of_model(reader)
    if targets is None:
        has_default = _family_of_model(reader) in _FAMILIES_WITH_DEFAULT_TARGETS
        return _DEFAULT_TARGETS if has_default else "no file names the modules, nor is PEFT's default known here"
    modules = [str(each).strip() for each in (targets if isinstance(targets, list) else str(targets).split(","))]
    if means_all_linear(modules):
        return ALL_LINEAR if is_all_dense(known or ()) else "means modules that differ by version in this model"
    return _tensors_of_modules(set(map(module_of, modules)), known)


def _tensors_of_modules(names: set[str], known: Sequence[str] | None) -> tuple[str, ...] | str:
    if names - TENSORS_OF_MODULES.keys():
        return "has modules that are no matrices of layers known here"
    tensors = tensors_of_modules(names)
    wholes = {"attention.key": "attention.key_value", "attention.value": "attention.key_value"}
    wholes |= dict.fromkeys(HALVES_OF_GATE, "ffn.up")
    lacking = [each for each in tensors if known is not None and not {each, wholes.get(each)} & set(known)]
    if lacking:
        return f"has modules that become {', '.join(lacking)}, which this model lacks"
    return tensors


def _inventory_of_model(reader: SettingReader) -> Inventory:
    """Return the tensors of the model; none where it is not known."""
    preset, config = reader.draft.value("model.preset"), reader.of_other(HUGGINGFACE_CONFIG)
    if preset is None and config is None:
        return ()
    of_config = None if preset is not None or config is None else dict(config.document or {})
    try:
        return resolve(Model(preset=preset, huggingface_config=of_config)).inventory
    except SizingError:
        return ()


def _matrices_of_model(reader: SettingReader) -> list[str] | None:
    """List the matrices of the model's layers; None where the model is not known."""
    inventory = _inventory_of_model(reader)
    return list(dict.fromkeys(group.name for group in inventory if group.is_hidden_matrix)) or None


def _towers_of_model(reader: SettingReader) -> set[str] | None:
    """Return the towers that a model has beside its language model; None where the model is not known."""
    names = {group.name.partition(".")[0] for group in _inventory_of_model(reader)}
    return names & {"vision", "audio", "projector"} if names else None


def put_frozen_towers(reader: SettingReader, switches: Mapping[str, str]) -> None:
    """Freeze the towers of a model whose switches are on, as they are by default; ask where the model is not known."""
    towers = _towers_of_model(reader)
    names = [name for name in switches if reader.has(name)]
    frozen = [tower for name, tower in switches.items() if reader.is_on(name, default=True) and tower in (towers or ())]
    if frozen:
        reader.put("training.frozen", frozen, *names)
    if towers is None and any(reader.is_on(name) for name in names):
        reader.need("training.frozen", f"{names[0]} leaves a tower as it is: the model's config.json says its name")


def _family_of_model(reader: SettingReader) -> str | None:
    preset, config = reader.draft.value("model.preset"), reader.of_other(HUGGINGFACE_CONFIG)
    if preset is not None:
        architecture = model_named(preset).architecture
        return None if architecture is None else architecture.family
    setting = None if config is None else config.settings.get("model_type")
    return None if setting is None else str(setting.value)


def put_beside_adapters(reader: SettingReader, *, whole_modules: str) -> None:
    """Set what is trained beside adapters: modules whole, biases, and the magnitudes of DoRA."""
    value = reader.get(whole_modules, None)
    if not is_empty(value):
        names = [str(each).strip() for each in (value if isinstance(value, list) else str(value).split(","))]
        try:
            if inventory := _inventory_of_model(reader):
                trained_whole(inventory, names, field=whole_modules)
        except InvalidInput:
            reader.not_understood(whole_modules, "trains modules whole that are none of the model: not counted")
            reader.doubt("training.adapters.modules_to_save", f"{whole_modules} adds modules that are saved whole")
        else:
            reader.put("training.adapters.modules_to_save", names, whole_modules)
    for name in ("bias", "lora_bias"):
        if str(reader.get(name, None)) in get_args(AdapterBias):
            reader.put("training.adapters.bias", str(reader.get(name)), name)
    for name in ("use_dora", "peft_use_dora"):
        if reader.has(name):
            reader.put("training.adapters.dora", reader.is_on(name), name)


_BASE_OF_BITS = {"4": "nf4", "8": "int8"}
_FOUR_BIT_TYPES = ("bnb_4bit_quant_type", "quantization_type", "quant_type")
_DOUBLE_QUANT = ("bnb_4bit_use_double_quant", "use_bnb_nested_quant", "double_quantization", "double_quant")


def put_quantised_base(reader: SettingReader, *names: str, doubles: bool) -> None:
    """Set the dtype of the frozen weights by switches that say 4 or 8 bits, or by a number of bits.

    `doubles`: whether the trainer quantises scales again where the file does not say it.
    Source: LLaMA-Factory, hparams/model_args.py, double_quantization; axolotl, loaders/model.py, and ms-swift,
    QuantizeArguments, bnb_4bit_use_double_quant; TRL, ModelConfig, use_bnb_nested_quant, which is off.
    """
    for name in names:
        value = reader.get(name, None)
        if not reader.has(name) or is_empty(value) or str(value).lower() == "false":
            continue
        bits = "8" if "8bit" in name else "4" if "4bit" in name or "q_lora" in name else str(value)
        dtype = _BASE_OF_BITS.get(bits)
        if dtype is None:
            reader.not_understood(name, "quantises the frozen weights to other bits than 4 or 8")
            reader.doubt("training.adapters.base_dtype", f"{name} quantises the frozen weights")
            continue
        kind, double = reader.first(*_FOUR_BIT_TYPES), reader.first(*_DOUBLE_QUANT)
        if dtype == "nf4" and str(reader.get(kind, None)).lower() == "fp4":
            dtype = "fp4"
        reader.put("training.adapters.base_dtype", dtype, name, *([kind] if dtype == "fp4" else []))
        if dtype in DOUBLE_QUANTIZED:
            reader.put("training.adapters.double_quant", reader.is_on(double, default=doubles), double, name)


# Optimizer, interval, retention.


def put_optimizer(reader: SettingReader, name: str) -> None:
    """Set the optimizer, unless a DeepSpeed config beside has one of its own, which goes before."""
    known = reader.draft.fields.get("training.optimizer")
    if known is not None and not known.is_default:
        reader.ignore(name)
        return
    became = reader.take("training.optimizer", name, optimizer_of)
    if became is None and reader.has(name):
        reader.need("training.optimizer", f"{name} is no optimizer of the catalog")
    keeps_fp32 = str(reader.get(name)).endswith("_32bit")  # bitsandbytes, whose moments have a dtype of their own
    if keeps_fp32 and reader.draft.value("training.precision") == "bf16" and became is not None:
        reader.put("training.saved_state.moments", "fp32", name, note="moments of bitsandbytes are fp32")


def put_interval(reader: SettingReader, *, strategy: str = "save_strategy", steps: str = "save_steps") -> None:
    """Set the interval between checkpoints: steps, a share of the run's steps, or what is asked for."""
    kind = str(reader.get(strategy, "steps")).lower().rpartition(".")[2]
    every = reader.number(steps)
    if kind in ("no", "false"):
        reader.not_understood(strategy, "turns checkpoints off: those that it would write are sized")
        reader.need("checkpoint.interval_seconds", f"{strategy} is {kind}")
        reader.ignore(steps)
    elif kind in ("epoch", "best"):
        when = "once an epoch" if kind == "epoch" else "whenever a model is the best so far"
        reader.not_understood(strategy, f"saves {when}: give the interval in seconds or steps")
        reader.need("checkpoint.interval_seconds", f"a checkpoint is saved {when}")
        reader.ignore(steps)
    elif every is not None and 0 < every < 1:
        total = reader.number("max_steps", None)
        if total is not None and total > 0:
            reader.put("checkpoint.interval_steps", math.ceil(total * every), steps, "max_steps")
        else:
            reader.not_understood(steps, "is a share of the run's steps, which the file does not say")
            reader.need("checkpoint.interval_steps", f"{steps} is a share of the steps of the run")
    elif every is not None:
        reader.put("checkpoint.interval_steps", int(every), steps)
    elif reader.has(steps):
        reader.need("checkpoint.interval_steps", f"{steps} says it")


def put_retention(reader: SettingReader, name: str = "save_total_limit") -> None:
    """Set how many checkpoints are kept. The best one is among them, unless only one is kept.

    Source: transformers 5.23, trainer_utils.py, rotate_checkpoints: the best and the last are never deleted.
    """
    limit = reader.number(name)
    keeps_best = reader.is_on("load_best_model_at_end", default=False)
    if limit is None or limit <= 0:
        reader.get(name)
        reader.need("retention.keep_last", "all checkpoints of the run are kept")
        return
    reader.put("retention.keep_last", int(limit), name)
    if limit == 1 and keeps_best:
        reader.put("retention.keep_best", 1, "load_best_model_at_end", note="the best is kept beside the last")


def put_weights_alone(reader: SettingReader, name: str = "save_only_model") -> None:
    """Leave the optimizer out of the checkpoint where a trainer saves the model alone."""
    if reader.is_on(name):
        reader.draft.leave_out("training.saved_state.moments", "is not saved")
        reader.put("training.saved_state", {"master": None, "moments": None}, name, note="weights alone are saved")


# Batch, recomputation, kernels.


def put_batch(reader: SettingReader, *, micro: str, accumulation: str, sequence: str | None) -> None:
    """Set sequences of a forward pass and of an optimizer step; the former where the length of a sequence is known."""
    of_rank, steps = reader.number(micro), reader.number(accumulation)
    length = None if sequence is None else reader.number(sequence)
    if length is not None and length > 0 and sequence is not None:
        reader.put("training.sequence_length", int(length), sequence)
        reader.put("training.micro_batch_size", of_rank, micro)
        data = reader.draft.value("parallelism.data")
    else:
        return
    if of_rank and steps and data and reader.draft.value("training.global_batch_size") is None:
        reader.put("training.global_batch_size", int(of_rank * steps * data), micro, accumulation)


def put_recomputation(reader: SettingReader, name: str, *, is_on: bool | None = None) -> None:
    """Set recomputation: whole layers, or none."""
    on = reader.is_on(name) if is_on is None else is_on
    reader.put("training.recomputation", "full" if on else "none", name)


def put_attention(reader: SettingReader, name: str) -> None:
    """Set the kernel of attention; sdpa and flash attention keep no scores."""
    value = reader.get(name, None)
    if value is None or str(value).lower() == "auto":
        return
    kind = str(value).lower()
    if kind in ("eager", "disabled"):
        reader.put("training.attention", "eager", name)
    elif re.search(r"flash|fa[234]|sdpa|flex|xformers|sage", kind):
        reader.put("training.attention", "flash", name)
    else:
        reader.not_understood(name, "is no kernel of attention that is known")


def put_shard_group(reader: SettingReader) -> None:
    """Set the ranks that FSDP shards over: all that hold the same weights, where no strategy says fewer."""
    path, data = "parallelism.shard_group", reader.draft.value("parallelism.data")
    if path in reader.draft.fields or path in reader.draft.needed:
        return
    if data is None:
        reader.need(path, "FSDP shards over all GPUs, whose number no file says")
        return
    ranks = data * (reader.draft.value("parallelism.context") or 1)
    reader.draft.set(path, ranks, place="FSDP over all ranks", is_default=True)


def stage_in_name(path: str) -> int | None:
    """Return the ZeRO stage that the name of a DeepSpeed file says, or None.

    >>> stage_in_name("examples/deepspeed/ds_z3_offload_config.json"), stage_in_name("configs/ds.json")
    (3, None)
    """
    found = re.search(r"(?:z|zero|stage)[-_]?(?:stage)?[-_]?([0-3])(?!\d)", path.rpartition("/")[2].lower())
    return None if found is None else int(found[1])
