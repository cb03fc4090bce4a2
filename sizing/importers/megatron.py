"""Megatron-LM's arguments: of a launch script, of a YAML, or as a checkpoint holds them."""

from __future__ import annotations

import re
from dataclasses import replace

from sizing.config_files.block_shape import stage_layers
from sizing.config_files.reader import SettingReader, choice
from sizing.config_files.source import ConfigSource
from sizing.frameworks import FRAMEWORKS
from sizing.importers.importer import Importer
from sizing.importers.megatron_arguments import ALIASES, DEFAULTS, WITHOUT_EFFECT
from sizing.importers.megatron_model import put_model
from sizing.importers.trainer_settings import DEEPSPEED_JSON
from sizing.model.catalog import preset_of_name

_BLOCKS = re.compile(
    r"(MODEL_ARGS|args|language_model|model_parallel|system(\.(checkpoint|logging|precision|recompute))?|model(\.optimizer(\.lr_scheduler)?)?"
    r"|data(\.tokenizer)?)\."
)
"""Blocks of YAML files whose keys are arguments: of Megatron-LM's tests and --yaml-cfg, FlagScale."""

_MODEL_PARALLEL = {
    "tensor": "tensor_model_parallel_size",
    "pipeline": "pipeline_model_parallel_size",
    "context": "context_parallel_size",
}
_OPTIMIZERS = {
    "adam": "adam",
    "adamw": "adam",
    "sgd": "sgd-momentum",
    "lion": "lion",
    "muon": "muon",
    "dist_muon": "muon",
    "soap": "soap",
}
_MODULES = {
    "core_attn": "core-attn",
    "layernorm": "layernorm",
    "mla_up_proj": "mla-up-proj",
    "moe_act": "moe-act",
}
_FORMATS = {"torch_dist": "torch-dist", "fsdp_dtensor": "fsdp-dtensor"}
_OLD = (
    "DDP_impl",
    "data_impl",
    "checkpoint_activations",
    "checkpoint_num_layers",
    "distribute_checkpointed_activations",
    "activations_checkpoint_method",
    "no_contiguous_buffers_in_local_ddp",
    "no_async_tensor_model_parallel_allreduce",
)
"""Arguments that were removed before torch_dist became the default format."""


def _rename(source: ConfigSource) -> ConfigSource:
    """Name settings as the arguments are in Python: without the block of a YAML and the dashes of a flag."""
    is_flagscale = "system.tensor_model_parallel_size" in source.settings
    settings = {}
    for name, setting in source.settings.items():
        block = None if name.startswith("model.") and not is_flagscale else _BLOCKS.match(name)
        own = name[block.end() if block else 0 :].removeprefix("--").replace("-", "_")
        own = ALIASES.get(own, own)
        settings[own] = replace(setting, name=own)
    return replace(source, settings=settings)


_OF_PRIMUS = re.compile(r"modules\.(pre_|post_|sft_)?trainer\.(overrides\.)?")


def _rename_primus(source: ConfigSource) -> ConfigSource:
    """Name what a Primus file sets over its trainer as the arguments are."""
    settings = {}
    for name, setting in source.settings.items():
        own = _OF_PRIMUS.sub("", name)
        own = own if own in ("model", "framework", "config") else ALIASES.get(own, own)
        settings[own] = replace(setting, name=own)
    return replace(source, settings=settings)


def _read_primus(reader: SettingReader) -> None:
    """Read arguments over the defaults of Primus; its models are files by name."""
    if reader.get("framework") not in (None, "megatron"):
        reader.not_understood("framework", "is not Megatron-LM")
        reader.need("training.framework", "the framework within Primus is not Megatron-LM")
    if reader.get("config") not in (None, "pre_trainer.yaml"):
        reader.not_understood("config", "has other defaults than pre_trainer.yaml: give them here")
        for path in ("training.precision", "training.distributed_optimizer", "checkpoint.interval_steps"):
            reader.need(path, "the defaults of this trainer are not known")
    name = str(reader.get("model")).removesuffix(".yaml")
    preset = preset_of_name(re.sub(r"_v0\.1$|-(BF16|FP8|MXFP8)$", "", name).replace("_", "-"))
    reader.get("model")
    if preset is not None:
        reader.put("model.preset", preset, "model")
        reader.take("training.vocabulary_padding_multiple", "make_vocab_size_divisible_by")
    else:
        reader.need("model.preset", "the model is none of the catalog")
    _read(reader)


def _read(reader: SettingReader) -> None:
    switches = ("deepspeed", "deepspeed_config", "zero_stage")
    is_deepspeed = any([*map(reader.is_given, switches), reader.of_other(DEEPSPEED_JSON) is not None])
    reader.put_framework("deepspeed" if is_deepspeed else "megatron")
    if reader.source.document is not None and "args" in reader.source.document:
        _read_of_checkpoint(reader)
    if reader.number("world_size", None):
        reader.put("cluster.num_gpus", reader.number("world_size"), "world_size")
    of_actors = ("actor_num_nodes", "actor_num_gpus_per_node")
    if reader.draft.value("cluster.num_gpus") is None and all(reader.number(name, None) for name in of_actors):
        reader.put("cluster.num_gpus", reader.number(of_actors[0]) * reader.number(of_actors[1]), *of_actors)
        reader.draft.are_gpus_launched = True
    read_degrees(reader, is_deepspeed=is_deepspeed)
    read_stages(reader)
    if reader.draft.value("model.preset") is None and "model.preset" not in reader.draft.needed:
        put_model(reader)
    read_optimizer(reader, is_deepspeed=is_deepspeed)
    reader.put("training.precision", *read_precision(reader))
    read_step(reader)
    read_checkpoint(reader, is_deepspeed=is_deepspeed)


def _read_of_checkpoint(reader: SettingReader) -> None:
    """Leave out the arguments of a checkpoint that are off: it holds all, those of forks too."""
    reader.ignore(*(name for name, each in reader.source.settings.items() if each.value in (None, False, [], "")))


def read_degrees(reader: SettingReader, *, is_deepspeed: bool = False) -> None:
    """Set the degrees of all axes, and how data ranks divide the optimizer."""
    of_context = "ds_sequence_parallel_size" if is_deepspeed else "context_parallel_size"
    axes = _MODEL_PARALLEL | {"context": of_context}
    for axis, name in axes.items():
        reader.put(f"parallelism.{axis}", reader.number(name, reader.get(_MODEL_PARALLEL[axis])), name)
    reader.take("parallelism.expert", reader.first("expert_model_parallel_size", "moe_expert_parallel_size"))
    reader.take("parallelism.expert_tensor", "expert_tensor_parallel_size")
    data = reader.put_data_degree(**axes)
    _check_experts(reader, data)
    if is_deepspeed:
        _read_zero_stage(reader)
        return
    reader.put(
        "training.distributed_optimizer", reader.is_given("use_distributed_optimizer"), "use_distributed_optimizer"
    )
    if reader.is_unknown("use_distributed_optimizer"):
        reader.need("training.distributed_optimizer", "whether it is used differs between branches of the script")
    instances = reader.number("num_distributed_optimizer_instances", 1)
    if instances and instances > 1:
        if reader.is_given("use_megatron_fsdp") and data is not None:
            reader.put("parallelism.shard_group", data // instances, "num_distributed_optimizer_instances")
        else:
            reader.not_understood(
                "num_distributed_optimizer_instances", "divides the optimizer over a part of the data ranks only"
            )
            reader.need("training.distributed_optimizer", "the optimizer is divided over a part of the data ranks")
    if reader.is_given("use_tp_pp_dp_mapping"):
        order = ("tensor", "context", "expert", "pipeline", "data")
        reader.put("parallelism.rank_order", order, "use_tp_pp_dp_mapping")


def _check_experts(reader: SettingReader, data: int | None) -> None:
    """Ask for the GPUs where those that a script starts are too few for its experts."""
    tensor, context, expert, of_expert = (
        reader.draft.value(f"parallelism.{axis}") or 1 for axis in ("tensor", "context", "expert", "expert_tensor")
    )
    if reader.draft.value("parallelism.expert_tensor") is None:
        of_expert = tensor
    if data is not None and tensor * context * data % (expert * of_expert):
        reader.leave_out_launched(f"{expert * of_expert} ranks of experts do not divide those of a stage")


def _read_zero_stage(reader: SettingReader) -> None:
    """Set the stage of ZeRO, where DeepSpeed's JSON, which holds over the flag, is not given."""
    stage, json = reader.number("zero_stage", None), "deepspeed_config"
    if reader.of_other(DEEPSPEED_JSON) is not None:
        reader.get(json)
        return
    reader.not_understood(json, "names DeepSpeed's JSON: give that file too")
    if stage is None:
        reader.put("parallelism.zero_stage", None, "zero_stage")
        reader.need("parallelism.zero_stage", "DeepSpeed's JSON says it: give that file too")
    elif stage == 0 and reader.is_given("bf16"):
        reader.put("parallelism.zero_stage", 1, "zero_stage", "bf16", note="in bf16 stage 0 divides the optimizer too")
    else:
        reader.put("parallelism.zero_stage", int(stage), "zero_stage")


def read_stages(reader: SettingReader) -> None:
    """Set what stages hold: virtual stages, given layers of the ends or of every chunk."""
    num_stages = reader.draft.value("parallelism.pipeline") or 1
    num_counted = _read_counted_ends(reader)
    layout, of_each = "pipeline_model_parallel_layout", "num_layers_per_virtual_pipeline_stage"
    of_rank = ("num_virtual_stages_per_pipeline_rank", "virtual_pipeline_model_parallel_size")
    virtual = next((name for name in of_rank if reader.get(name) is not None), reader.first(*of_rank))
    ends = {"first": "decoder_first_pipeline_num_layers", "last": "decoder_last_pipeline_num_layers"}
    values = {name: reader.get(name) for name in (layout, of_each, virtual, *ends.values())}
    if num_stages == 1 and not reader.is_unknown("pipeline_model_parallel_size"):
        return
    if reader.has("num_layer_list"):
        layers = re.findall(r"\d+", str(reader.get("num_layer_list")))
        reader.put("parallelism.layers_per_stage", tuple(map(int, layers)), "num_layer_list")
    elif isinstance(values[layout], str):
        _read_layout(reader, layout, num_stages)
    elif values[of_each] is not None:
        num_units = (reader.number("num_layers") or 0) + num_counted
        if num_units and num_units % (num_stages * values[of_each]) == 0:
            reader.put("parallelism.virtual_pipeline", num_units // num_stages // values[of_each], of_each)
        else:
            reader.not_understood(of_each, "does not divide the layers of a stage")
            reader.need("parallelism.virtual_pipeline", "the layers of a virtual stage do not say how many there are")
    else:
        reader.put("parallelism.virtual_pipeline", values[virtual], reader.first(virtual, of_each, layout))
    for end, name in ends.items():
        reader.put(f"parallelism.{end}_stage_layers", values[name], name)


def _read_counted_ends(reader: SettingReader) -> int:
    """Set whether embedding and loss count as layers of the stages, and return how many do."""
    method = str(reader.get("pp_partition_method"))
    if method not in ("None", "type:transformer|embedding"):
        reader.not_understood("pp_partition_method", "cuts stages in a way that is not known here")
    num_counted = 0
    for end in ("embedding", "loss"):
        switch = f"account_for_{end}_in_pipeline_split"
        if reader.is_given(switch) or "embedding" in method:
            name = switch if reader.has(switch) else "pp_partition_method"
            reader.put(f"parallelism.{end}_counts_as_layer", True, name)
            num_counted += 1
    return num_counted


def _read_layout(reader: SettingReader, name: str, num_stages: int) -> None:
    layers = stage_layers(str(reader.get(name)))
    if layers is None or len(layers) % num_stages:
        reader.not_understood(name, "places embedding, loss or modules in a way that is not known here")
        reader.need("parallelism.layers_per_stage", "the layout of the stages is not understood")
    else:
        reader.put("parallelism.layers_per_stage", tuple(layers), name)
        reader.put("parallelism.virtual_pipeline", len(layers) // num_stages, name)


def read_optimizer(reader: SettingReader, *, is_deepspeed: bool = False) -> None:
    """Set the optimizer, what of it leaves the GPU, and what of it is saved."""
    known = dict(_OPTIMIZERS) | ({"sgd": "sgd"} if reader.number("sgd_momentum") == 0 else {})
    optimizer = reader.take("training.optimizer", "optimizer", choice(known, "optimizer with state known here"))
    if reader.has("optimizer") and optimizer is None:
        reader.need("training.optimizer", "the optimizer is not understood")
    offload = reader.first("optimizer_cpu_offload", "cpu_optimizer")
    if reader.is_given(offload):
        reader.put("training.offload.optimizer", "host", offload)
        fraction = reader.number("optimizer_offload_fraction")
        if not is_deepspeed and fraction not in (None, 1, 1.0, 0, 0.0):
            reader.put("training.offload.optimizer_fraction", fraction, "optimizer_offload_fraction")
    reader.get("optimizer_offload_fraction")
    if reader.is_given("use_precision_aware_optimizer"):
        for name in ("main_params_dtype", "exp_avg_dtype", "exp_avg_sq_dtype"):
            if reader.has(name) and reader.get(name) not in ("fp32", None):
                reader.not_understood(name, "keeps a part of the optimizer in fewer bits")
                reader.need("training.saved_state", "the dtype that a precision-aware optimizer saves is not known")
    for name in ("main_grads_dtype", "main_params_dtype", "exp_avg_dtype", "exp_avg_sq_dtype"):
        reader.get(name)
    switches = ("no_save_optim",) if reader.has("no_save_optim") else ("save_optim",)
    if reader.is_given("no_save_optim") or reader.get("save_optim", True) is False:
        reader.put("training.saved_state", {"master": None, "moments": None}, *switches)


def read_precision(reader: SettingReader) -> tuple[str | None, str, str]:
    """Return the precision and the arguments that give it."""
    eight, four = reader.first("fp8_format", "fp8", "fp8_hybrid", "fp8_e4m3"), reader.first("fp4_format", "fp4")
    for name in ("fp16", "bf16", "fp8_format", "fp8", "fp8_hybrid", "fp8_e4m3", "fp4_recipe"):
        reader.get(name)
    recipe = str(reader.get("fp8_recipe")).lower()
    for name in ("bf16", "fp16", eight, four):
        if reader.is_unknown(name) and not reader.is_given(name):
            return None, name, ""
    if reader.is_given(four):
        return "nvfp4-mixed", four, "fp4_recipe"
    if reader.is_given(eight) and reader.get(eight) is not False:
        return ("mxfp8-mixed" if recipe == "mxfp8" else "fp8-mixed"), eight, "fp8_recipe"
    if reader.is_given("fp16"):
        return "fp16-mixed", "fp16", ""
    return ("bf16-mixed" if reader.is_given("bf16") else "fp32"), "bf16", ""


def read_step(reader: SettingReader) -> None:
    """Set what a step computes: batch, sequence, recomputation, exchanges. All of it needs the micro batch."""
    sequence = reader.first("seq_length", "encoder_seq_length")
    micro = reader.first("micro_batch_size", "batch_size")
    length, size = reader.number(sequence), reader.number(micro)
    if length is None or size is None:
        reader.put("training.micro_batch_size", None, micro)
        reader.put("training.sequence_length", None, sequence)
        reader.ignore(*_OF_A_STEP, sequence, micro)
        return
    reader.put("training.sequence_length", length, sequence)
    reader.put("training.micro_batch_size", size, micro)
    data = reader.draft.value("parallelism.data")
    if reader.number("global_batch_size") is None and not reader.has("global_batch_size") and data is not None:
        reader.put("training.global_batch_size", size * data, micro)
    else:
        reader.put("training.global_batch_size", reader.number("global_batch_size"), "global_batch_size")
    _read_recomputation(reader)
    if (reader.draft.value("parallelism.tensor") or 1) > 1:
        reader.put("training.sequence_parallel", reader.is_given("sequence_parallel"), "sequence_parallel")
    reader.is_given("sequence_parallel")
    _read_kernels(reader)
    _read_exchanges(reader)


_OF_A_STEP = (
    "global_batch_size",
    "recompute_*",
    "checkpoint_activations",
    "checkpoint_num_layers",
    "activations_checkpoint_*",
    "deepspeed_activation_checkpointing",
    "sequence_parallel",
    "attention_backend",
    "use_flash_attn*",
    "transformer_impl",
    "cross_entropy_*",
    "overlap_grad_reduce",
    "overlap_param_gather",
    "overlap_moe_expert_parallel_comm",
    "tp_comm_overlap",
    "moe_token_dispatcher_type",
    "moe_enable_deepep",
)


def _read_recomputation(reader: SettingReader) -> None:
    name = reader.first(
        "recompute_granularity",
        "recompute_activations",
        "activations_checkpoint_granularity",
        "checkpoint_activations",
        "activations_checkpoint_method",
    )
    value = reader.get(name)
    if reader.is_unknown(name):
        reader.put("training.recomputation", None, name)
    elif name.startswith("checkpoint") or name.endswith("method"):
        reader.put("training.recomputation", "full" if value else "none", name)
    elif name == "recompute_activations":
        reader.put("training.recomputation", "selective" if reader.is_given(name) else "none", name)
    elif value in (None, "full", "selective"):
        reader.put("training.recomputation", value or "none", name)
    else:
        reader.not_understood(name, "is neither full nor selective")
    reader.is_given("recompute_activations")
    reader.is_given("deepspeed_activation_checkpointing")
    layers = reader.first("recompute_num_layers", "checkpoint_num_layers", "activations_checkpoint_num_layers")
    method = reader.get(reader.first("recompute_method", "activations_checkpoint_method"))
    num_layers = reader.number(layers)
    if reader.draft.value("training.recomputation") == "full" and method == "block":
        reader.put("training.recomputed_layers", num_layers or None, layers)
    elif reader.draft.value("training.recomputation") == "full" and num_layers not in (None, 1):
        reader.not_understood(layers, "keeps the inputs of every nth layer only; counted with those of each")
    _read_recomputed_modules(reader)


def _read_recomputed_modules(reader: SettingReader) -> None:
    name = "recompute_modules"
    given = reader.get(name)
    modules = given if isinstance(given, list) else str(given or "").split()
    whole = "moe_layer_recompute"
    if reader.draft.value("training.recomputation") != "selective":
        reader.is_given(whole)
        return
    strange = [each for each in modules if each not in _MODULES]
    if strange or reader.is_given(whole):
        reader.not_understood(name if strange else whole, "recomputes a block that is not counted alone")
        reader.need("training.recompute_modules", "whole blocks of layers are recomputed")
    elif modules:
        reader.put("training.recompute_modules", tuple(_MODULES[each] for each in modules), name)


def _read_kernels(reader: SettingReader) -> None:
    backend = str(reader.get("attention_backend", "auto")).rpartition(".")[2]
    backend = {"AttnBackend(3)": "unfused", "AttnBackend(4)": "local"}.get(backend, backend)
    flash = reader.first("use_flash_attn", "use_flash_attn_v2", "use_flash_attn_triton", "use_flash_attn_v1")
    is_local = reader.get("transformer_impl", "local" if _is_old(reader) else "transformer_engine") == "local"
    names = (flash, "attention_backend", "transformer_impl")
    if reader.is_given(flash):
        reader.put("training.attention", "flash", flash)
    elif backend in ("unfused", "local") or (is_local and backend not in ("flash", "fused")):
        reader.put("training.attention", "eager", *filter(reader.has, names))
    else:
        reader.put("training.attention", "flash", *filter(reader.has, names))
    if reader.is_given("cross_entropy_loss_fusion"):
        reader.put("training.loss", "fused", "cross_entropy_loss_fusion")
    reader.get("cross_entropy_fusion_impl")


def _read_exchanges(reader: SettingReader) -> None:
    grads, params = reader.is_given("overlap_grad_reduce"), reader.is_given("overlap_param_gather")
    path = "training.achieved.overlap"
    if grads:
        half = "half of the exchange: gradients, not weights" if not params else ""
        names = ("overlap_grad_reduce", "overlap_param_gather")
        reader.put(f"{path}.gradients", 1.0 if params else 0.5, *names, note=half)
    if reader.is_given("tp_comm_overlap") and (reader.draft.value("parallelism.tensor") or 1) > 1:
        reader.put(f"{path}.tensor", 0.5, "tp_comm_overlap", note="some 0.5 where it is on")
    if reader.is_given("overlap_moe_expert_parallel_comm"):
        reader.put(f"{path}.expert", 1.0, "overlap_moe_expert_parallel_comm")
    dispatcher = "moe_token_dispatcher_type"
    if reader.draft.value("model.architecture.num_experts"):
        is_flex = reader.get(dispatcher) == "flex" or reader.is_given("moe_enable_deepep")
        reader.put("training.expert_dispatch", "deepep" if is_flex else "all-to-all", dispatcher)
    reader.is_given("moe_enable_deepep")


def _is_old(reader: SettingReader) -> bool:
    return any(map(reader.has, _OLD))


def read_checkpoint(reader: SettingReader, *, is_deepspeed: bool = False) -> None:
    """Set interval, retention, mode and format of the checkpoints."""
    if reader.has("rollout_batch_size"):
        reader.not_understood("save_interval", "counts rollouts, and not steps of the optimizer")
        reader.need("checkpoint.interval_seconds", "the interval is in rollouts")
    else:
        reader.take("checkpoint.interval_steps", "save_interval")
    if reader.get("save_interval") is None and not reader.is_unknown("save_interval"):
        reader.need("checkpoint.interval_seconds", "--save-interval is not given, so that only the last step is saved")
    _read_retention(reader)
    reader.put("checkpoint.mode", "async" if reader.is_given("async_save") else "sync", "async_save")
    if is_deepspeed:
        reader.ignore("ckpt_format", "dist_ckpt_format", "use_dist_ckpt")
        return
    _read_format(reader)
    if reader.is_given("ckpt_assume_constant_structure"):
        reader.put("checkpoint.cached_plans", True, "ckpt_assume_constant_structure")
    if reader.is_given("ckpt_fully_parallel_load"):
        reader.put("checkpoint.restore", "parallel-read-exchange", "ckpt_fully_parallel_load")
    if reader.is_given("no_ckpt_fully_parallel_save") or reader.get("ckpt_fully_parallel_save", True) is False:
        name = reader.first("no_ckpt_fully_parallel_save", "ckpt_fully_parallel_save")
        reader.not_understood(name, "lets only the first replica write; counted as written by all")
    if reader.is_given("non_persistent_save_interval"):
        reader.not_understood(
            "non_persistent_save_interval", "saves more often to another place: give checkpoint.tiers"
        )


def _read_retention(reader: SettingReader) -> None:
    retain, recent = reader.number("save_retain_interval"), reader.number("most_recent_k")
    interval = reader.draft.value("checkpoint.interval_steps")
    if retain and interval and retain != interval:
        reader.not_understood(
            "save_retain_interval", f"keeps a whole checkpoint of every {retain} steps beside the last"
        )
        reader.need("retention.keep_last", f"every {retain} steps one checkpoint stays for good")
    elif recent is not None and recent > 0:
        reader.put("retention.keep_last", recent, "most_recent_k")
    else:
        reader.need("retention.keep_last", "all checkpoints of the run are kept")


def _read_format(reader: SettingReader) -> None:
    is_distributed = bool(reader.draft.value("training.distributed_optimizer"))
    name = reader.first("ckpt_format", "dist_ckpt_format", "use_dist_ckpt")
    value = reader.get(name, "torch" if _is_old(reader) else None) or reader.get("ckpt_format")
    if name == "use_dist_ckpt" and reader.is_given(name):
        value = "torch_dist"
    if reader.is_given("use_torch_fsdp2"):
        reader.not_understood(
            "use_torch_fsdp2", "shards all state by FSDP2, whose saves by Megatron-LM are not counted"
        )
        reader.need("checkpoint.format", "no format here is that of Megatron-LM with FSDP2")
    elif reader.is_unknown(name):
        reader.put("checkpoint.format", None, name)
    elif value == "torch":
        names = (name,) if reader.has(name) else tuple(filter(reader.has, _OLD))[:1]
        of_optimizer = "megatron-distributed-optimizer" if is_distributed else "megatron"
        reader.put(
            "checkpoint.format", of_optimizer, *names, *(["use_distributed_optimizer"] if is_distributed else [])
        )
    elif value in _FORMATS:
        reader.put("checkpoint.format", _FORMATS[str(value)], name)
    else:
        reader.not_understood(name, "is no format that is counted: torch, torch_dist or fsdp_dtensor")
        reader.need("checkpoint.format", "the format is not understood")
    if value == "torch_dist" and reader.is_given("dist_ckpt_optim_fully_reshardable") and is_distributed:
        reader.put("checkpoint.optimizer_sharding", "fully-reshardable", "dist_ckpt_optim_fully_reshardable")
    reader.is_given("dist_ckpt_optim_fully_reshardable")
    reader.is_given("use_dist_ckpt")
    strategy = "data_parallel_sharding_strategy"
    shards = reader.get(strategy)
    if reader.is_given("use_megatron_fsdp") and shards not in (None, "optim_grads_params"):
        reader.not_understood(strategy, "shards less than all: saves are the same, the memory of GPUs is not")


MEGATRON = Importer(
    name="megatron",
    title="Megatron-LM",
    version=FRAMEWORKS["megatron"].version.partition(";")[0],
    source="Megatron-LM, megatron/training/arguments.py and megatron/training/config",
    frameworks=("megatron", "deepspeed"),
    marks=(
        "tensor_model_parallel_size",
        "pipeline_model_parallel_size",
        "num_layers",
        "hidden_size",
        "num_attention_heads",
        "micro_batch_size",
        "use_distributed_optimizer",
        "seq_length",
        "max_position_embeddings",
        "untie_embeddings_and_output_weights",
        "use_mcore_models",
        "expert_model_parallel_size",
        "lr_decay_style",
        "adam_beta1",
        "tokenizer_type",
        "save_interval",
    ),
    min_marks=3,
    defaults=DEFAULTS,
    read=_read,
    rename=_rename,
    ignored=WITHOUT_EFFECT,
)

PRIMUS = replace(
    MEGATRON,
    name="primus",
    title="Primus",
    version="fd1eeabb of 2026-08-22",
    source="Primus, primus/configs/modules/megatron/pre_trainer.yaml and trainer_base.yaml",
    marks=("work_group", "user_name", "exp_name", "workspace", "framework", "config", "model"),
    min_marks=4,
    defaults={
        **DEFAULTS,
        "bf16": True,
        "use_distributed_optimizer": True,
        "sequence_parallel": True,
        "save_interval": 1000,
        "config": "pre_trainer.yaml",
    },
    read=_read_primus,
    rename=_rename_primus,
    ignored=(
        *WITHOUT_EFFECT,
        *"""
        work_group user_name exp_name workspace platform* stderr_sink_level auto_continue_train disable_last_saving
        enable_primus_turbo use_turbo_* turbo_* moe_use_legacy_grouped_gemm no_fp8_weight_transpose_cache
        moe_use_fused_router_with_aux_score wall_clock_step_timer torch_profiler_* trainer_class pp_warmup
        disable_compile_dependencies disable_wandb disable_tensorboard disable_mlflow mlflow_* file_sink_level
        """.split(),  # noqa: SIM905 - one name a line would be longer
    ),
)


def _read_slime(reader: SettingReader) -> None:
    """Read arguments over what slime sets, whose model is often named by its files alone."""
    name = "hf_checkpoint"
    preset = preset_of_name(str(reader.get(name)))
    if preset is not None and not reader.has("num_layers"):
        reader.put("model.preset", preset, name)
    if reader.get("advantage_estimator") == "ppo":
        reader.not_understood("advantage_estimator", "trains a critic beside: give training.reinforcement")
        reader.need("training.reinforcement", "a critic is trained and saved beside")
    _read(reader)


SLIME = replace(
    MEGATRON,
    name="slime",
    title="slime",
    version="624b824a8 of 2026-08-21",
    source="slime, slime/backends/megatron_utils/arguments.py",
    marks=(
        *MEGATRON.marks,
        "rollout_batch_size",
        "n_samples_per_prompt",
        "rollout_max_response_len",
        "hf_checkpoint",
        "advantage_estimator",
        "num_rollout",
    ),
    defaults={
        **DEFAULTS,
        "bf16": True,
        "use_distributed_optimizer": True,
        "ckpt_assume_constant_structure": True,
        "ckpt_fully_parallel_load": True,
    },
    read=_read_slime,
)
