"""OLMo: the YAML of its first trainer, and the configuration that a run of OLMo-core saves or is told by flags."""

from __future__ import annotations

from typing import Any

from sizing.config_files.reader import SettingReader, choice
from sizing.importers.importer import Importer

_ARCHITECTURE = "model.architecture."
_CONFIG = "model.huggingface_config"

_OF_TENSORS = {
    "hidden_size": "hidden_size",
    "num_layers": "num_hidden_layers",
    "num_attention_heads": "num_attention_heads",
    "num_kv_heads": "num_key_value_heads",
    "ffn_hidden_size": "intermediate_size",
    "vocab_size": "vocab_size",
    "tied_embeddings": "tie_word_embeddings",
}
"""Fields of an architecture by their names in a config.json."""


def _put_shape(reader: SettingReader, model_type: str, shape: dict[str, Any], *names: str) -> None:
    """Set a model of a model_type by its shape: Llama's is an architecture, others are a config.json."""
    present = tuple(filter(reader.has, names))
    if model_type == "llama":
        for field, value in {"family": "llama", **shape}.items():
            reader.put(f"{_ARCHITECTURE}{field}", value, *present)
        return
    config = {_OF_TENSORS[field]: value for field, value in shape.items()}
    reader.put(_CONFIG, {"model_type": model_type, **config}, *present)


# OLMo 1.


def _read(reader: SettingReader) -> None:
    reader.put_framework("fsdp2")
    _read_model(reader)
    _read_sharding(reader)
    reader.take("training.optimizer", "optimizer.name", choice({"adamw": "adamw", "lionw": "lion"}, "optimizer"))
    _read_precision(reader)
    _read_step(reader)
    _read_checkpoint(reader)


_MODEL = (
    "d_model",
    "n_heads",
    "n_kv_heads",
    "n_layers",
    "mlp_ratio",
    "mlp_hidden_size",
    "vocab_size",
    "embedding_size",
    "weight_tying",
    "layer_norm_type",
    "layer_norm_with_affine",
    "attention_layer_norm",
    "norm_after",
    "include_bias",
    "bias_for_layer_norm",
    "activation_type",
    "alibi",
    "rope",
    "block_type",
    "multi_query_attention",
    "embedding_layer_norm",
)


def _read_model(reader: SettingReader) -> None:
    values = {name: reader.get(f"model.{name}") for name in _MODEL}
    names = tuple(f"model.{name}" for name in _MODEL)
    model_type = _model_type(values)
    if model_type is None or reader.is_unknown(*names):
        reader.need("model.preset", "no model here has these norms, biases and positions")
        return
    hidden, heads = values["d_model"], values["n_heads"]
    whole_width = values["mlp_hidden_size"] or values["mlp_ratio"] * hidden
    kv_heads = 1 if values["multi_query_attention"] else values["n_kv_heads"] or heads
    shape = {
        "hidden_size": hidden,
        "num_layers": values["n_layers"],
        "num_attention_heads": heads,
        "num_kv_heads": kv_heads,
        "ffn_hidden_size": whole_width // 2,  # of gate and up projection together
        "vocab_size": values["embedding_size"] or values["vocab_size"],
        "tied_embeddings": bool(values["weight_tying"]),
    }
    _put_shape(reader, model_type, shape, *names)


def _model_type(values: dict[str, Any]) -> str | None:
    """Return the model_type of transformers that has the same tensors, or None."""
    is_plain = (
        values["rope"] and not values["alibi"] and not values["include_bias"] and not values["embedding_layer_norm"]
    )
    if not is_plain or values["activation_type"] != "swiglu" or values["block_type"] not in ("sequential", "llama"):
        return None
    is_rms, has_weights = values["layer_norm_type"] == "rms", bool(values["layer_norm_with_affine"])
    if is_rms and has_weights and not values["bias_for_layer_norm"]:
        if values["attention_layer_norm"]:
            return "olmo2"
        return None if values["norm_after"] else "llama"
    return "olmo" if not is_rms and not has_weights and not values["attention_layer_norm"] else None


def _read_sharding(reader: SettingReader) -> None:
    strategy, sharding = "distributed_strategy", "fsdp.sharding_strategy"
    data = reader.put_data_degree()
    if reader.get(strategy) != "fsdp" or str(reader.get(sharding)).upper() == "NO_SHARD":
        for name in (strategy, sharding):
            reader.not_understood(name, "does not shard the state, which is not counted of this trainer")
        reader.need("training.framework", "the state is not sharded")
        return
    replicas = "fsdp.hybrid_sharding_num_model_replicas"
    is_hybrid = "HYBRID" in str(reader.get(sharding)).upper().lstrip("_")
    if is_hybrid and data is not None and reader.number(replicas):
        reader.put("parallelism.shard_group", data // reader.number(replicas), replicas, sharding)
    elif is_hybrid:
        reader.need("parallelism.shard_group", "the replicas of hybrid sharding, or the GPUs, are not given")
    reader.get(replicas)


def _read_precision(reader: SettingReader) -> None:
    precisions = {"amp_bf16": "bf16-mixed", "fp32": "fp32"}
    if reader.take("training.precision", "precision", choice(precisions, "precision that is counted")) is None:
        reader.need("training.precision", "the precision is not understood")
    reader.get("fsdp.precision")


def _read_step(reader: SettingReader) -> None:
    reader.take("training.sequence_length", "model.max_sequence_length")
    reader.take("training.micro_batch_size", "device_train_microbatch_size")
    reader.take("training.global_batch_size", "global_train_batch_size")
    name = "activation_checkpointing"
    value = reader.get(name)
    if value in (None, "whole_layer"):
        reader.put("training.recomputation", "full" if value else "none", name)
    else:
        reader.not_understood(name, "recomputes a part that is not counted alone")
        reader.need("training.recomputation", "a part that is not counted alone is recomputed")
    reader.put("training.attention", "flash", "model.flash_attention")
    compiles = [each for each in reader.source.settings if each.startswith("compile.")]
    reader.put("training.compile", bool(compiles), *(compiles or ["compile"]))


def _read_checkpoint(reader: SettingReader) -> None:
    interval, short = reader.number("save_interval"), reader.number("save_interval_ephemeral", None)
    names = ("save_interval_ephemeral",) if short else ("save_interval",)
    reader.put("checkpoint.interval_steps", short or interval, *names)
    keep, kept = reader.number("save_num_checkpoints_to_keep"), "save_num_checkpoints_to_keep"
    if keep is not None and keep > 0:
        note = "and the temporary one" if short else ""
        reader.put("retention.keep_last", keep + bool(short), kept, note=note)
    else:
        reader.need("retention.keep_last", "all checkpoints of the run are kept, or none beside whole ones")
    reader.put("checkpoint.mode", "sync", "new_style_checkpoints")
    checkpointer = "sharded_checkpointer"
    if reader.get(checkpointer) in ("olmo_core", "torch_new"):
        reader.put("checkpoint.format", "fsdp-sharded", checkpointer)
    else:
        reader.not_understood(checkpointer, "writes one file of torch.save per rank, which is not counted")
        reader.need("checkpoint.format", "no format here is that of the sharded checkpointer")
    whole = "save_interval_unsharded"
    if reader.number(whole, None):
        reader.not_understood(whole, "also writes one unsharded checkpoint: give checkpoint.export or tiers for it")


_WITHOUT_EFFECT = """
    run_name seed epoch dry_run save_folder remote_save_folder save_overwrite save_num_unsharded_checkpoints_to_keep
    force_save_unsharded no_pre_train_checkpoint load_path load_path_sharded_checkpointer try_load_latest_save
    reset_optimizer_state reset_trainer_state restore_dataloader fast_forward_batches max_duration max_grad_norm
    max_grad_norm_ratio console_log_interval softmax_auxiliary_loss auxiliary_loss_multiplier time_limit fused_loss
    extra_steps_after_cancel early_stopping_factor save_data_indices python_profiling torch_profiling stop_at
    stop_after hf_datasets_cache_dir module_outputs_save_steps gen1_gc_interval canceled_check_interval
    device_eval_batch_size new_style_checkpoints optimizer.learning_rate optimizer.weight_decay
    optimizer.betas optimizer.eps optimizer.decay_norm_and_bias optimizer.decay_embeddings
    optimizer.metrics_log_interval optimizer.record_update_metrics optimizer.selective_updates
"""

OLMO = Importer(
    name="olmo",
    title="OLMo",
    version="0.6.0",
    source="OLMo, olmo/config.py",
    frameworks=("fsdp2",),
    marks=(
        "model.d_model",
        "model.n_heads",
        "model.mlp_hidden_size",
        "model.layer_norm_type",
        "save_interval_unsharded",
        "save_num_checkpoints_to_keep",
        "sharded_checkpointer",
        "global_train_batch_size",
        "device_train_microbatch_size",
        "fsdp.wrapping_strategy",
        "max_duration",
    ),
    min_marks=3,
    defaults={
        "model.d_model": 768,
        "model.n_heads": 12,
        "model.n_layers": 12,
        "model.mlp_ratio": 4,
        "model.vocab_size": 50_257,
        "model.embedding_size": 50_304,
        "model.weight_tying": True,
        "model.layer_norm_type": "default",
        "model.layer_norm_with_affine": True,
        "model.include_bias": True,
        "model.activation_type": "swiglu",
        "model.block_type": "sequential",
        "model.max_sequence_length": 1024,
        "optimizer.name": "lionw",
        "precision": "fp32",
        "distributed_strategy": "fsdp",
        "fsdp.sharding_strategy": "FULL_SHARD",
        "device_train_microbatch_size": 16,
        "global_train_batch_size": 512,
        "save_interval": 1000,
        "save_num_checkpoints_to_keep": -1,
        "sharded_checkpointer": "torch_legacy",
    },
    read=_read,
    ignored=(
        "launcher.*",
        "optimizer.no_decay_norm_and_bias",
        "scheduler.*",
        "data.*",
        "tokenizer.*",
        "evaluators",
        "eval_*",
        "wandb.*",
        "wandb",
        "speed_monitor.*",
        "model.rope_*",
        "model.init_*",
        "model.*_dropout",
        "model.layer_norm_eps",
        "model.clip_qkv",
        "model.eos_token_id",
        "model.pad_token_id",
        "model.attention_layer_norm_with_affine",
        "model.alibi_bias_max",
        "model.block_group_size",
        "model.scale_logits",
        "model.scale_emb_init",
        "model.emb_init_std",
        "model.precision",
        "fsdp.wrapping_strategy",
        "fsdp.use_orig_params",
        *_WITHOUT_EFFECT.split(),
    ),
)


# OLMo-core.

_MODULE, _CHECKPOINTER = "train_module.", "trainer.callbacks.checkpointer."
_NORMS = ("rms", "fused_rms", "cute_rms")
_OPTIMIZERS = {
    "AdamConfig": "adam",
    "AdamWConfig": "adamw",
    "SkipStepAdamWConfig": "adamw",
    "LionConfig": "lion",
    "SkipStepLionConfig": "lion",
    "MuonConfig": "muon",
    "adam": "adam",
    "adamw": "adamw",
    "skip_step_adamw": "adamw",
    "lion": "lion",
    "skip_step_lion": "lion",
    "muon": "muon",
}
_SCHEDULES = {
    "1F1B": "1f1b",
    "GPipe": "gpipe",
    "Interleaved1F1B": "interleaved",
    "InterleavedZeroBubble": "zb-h1",
    "ZBVZeroBubble": "zb-v",
}


def _read_core(reader: SettingReader) -> None:
    reader.put_framework("fsdp2")
    _read_core_model(reader)
    _read_core_degrees(reader)
    _read_core_state(reader)
    _read_core_step(reader)
    _read_core_checkpoint(reader)


def _read_core_model(reader: SettingReader) -> None:
    mixer = "attention" if reader.has("model.block.attention.n_heads") else "sequence_mixer"
    names = {
        "hidden_size": "model.d_model",
        "num_layers": "model.n_layers",
        "num_attention_heads": f"model.block.{mixer}.n_heads",
        "num_kv_heads": f"model.block.{mixer}.n_kv_heads",
        "ffn_hidden_size": "model.block.feed_forward.hidden_size",
        "vocab_size": "model.vocab_size",
        "tied_embeddings": "model.tie_word_embeddings",
    }
    shape = {field: reader.get(name) for field, name in names.items()}
    shape["num_kv_heads"] = shape["num_kv_heads"] or shape["num_attention_heads"]
    shape["tied_embeddings"] = bool(shape["tied_embeddings"])
    model_type = _core_model_type(reader, mixer)
    if model_type is None or None in shape.values():
        reader.need("model.preset", "the model is built in Python, or has layers that must be given otherwise")
        return
    _put_shape(reader, model_type, shape, *names.values())


def _core_model_type(reader: SettingReader, mixer: str) -> str | None:
    """Return the model_type of transformers with the same tensors; None where there is none, or for experts."""
    block = "model.block."
    parts = (mixer, f"{mixer}.qk_norm", "feed_forward", "layer_norm")
    biases = [reader.get(f"{block}{part}.bias", None) for part in parts]
    has_wide_norms = reader.get(f"{block}{mixer}.qk_norm.name", None) in _NORMS
    strange = (
        "model.block_pattern",
        "model.block_overrides",
        f"{block}{mixer}.gate.granularity",
        "model.embedding_norm.name",
    )
    of_heads = f"{block}{mixer}.use_head_qk_norm"
    is_plain = (
        reader.get(f"{block}layer_norm.name", None) in _NORMS
        and not any(biases)
        and not reader.is_on("model.lm_head.bias", default=False)
        and not any(reader.get(name, None) for name in strange)
        and reader.get(f"{block}{mixer}.head_dim", None) is None
    )
    kind = reader.get(f"{block}name", None)
    if not is_plain or reader.is_on(of_heads, default=False):
        return None
    if kind == "reordered_norm" and has_wide_norms:
        return "olmo2"
    return "llama" if kind == "default" and not has_wide_norms else None


def _read_core_degrees(reader: SettingReader) -> None:
    axes = {"tensor": "tp_config", "pipeline": "pp_config", "context": "cp_config"}
    degrees = {axis: f"{_MODULE}{block}.degree" for axis, block in axes.items()}
    for axis, name in degrees.items():
        reader.put(f"parallelism.{axis}", reader.number(name, 1), name)
    reader.put("parallelism.expert", reader.number(f"{_MODULE}ep_config.degree", 1), f"{_MODULE}ep_config.degree")
    data = reader.put_data_degree(**degrees)
    kind, block = f"{_MODULE}dp_config.name", f"{_MODULE}dp_config."
    if reader.get(kind, None) == "ddp":
        reader.not_understood(kind, "does not shard the state, which is not counted of this trainer")
        reader.need("training.framework", "the state is not sharded")
    elif reader.get(kind, None) == "hsdp":
        _read_shard_group(reader, data, block)
    elif reader.get(kind, None) is None:
        reader.need("parallelism.shard_group", "dp_config is not given: it is set in Python")
    schedule = f"{_MODULE}pp_config.schedule"
    if (reader.draft.value("parallelism.pipeline") or 1) > 1:
        reader.take("training.schedule", schedule, choice(_SCHEDULES, "schedule"))
        if "nterleaved" in str(reader.get(schedule)):
            reader.need("parallelism.virtual_pipeline", "the chunks of a stage follow from split points")
    reader.ignore(schedule)


def _read_shard_group(reader: SettingReader, data: int | None, block: str) -> None:
    replicas, degree = reader.number(f"{block}num_replicas", None), reader.number(f"{block}shard_degree", None)
    context = reader.draft.value("parallelism.context") or 1
    if degree:
        reader.put("parallelism.shard_group", degree * context, f"{block}shard_degree")
    elif replicas and data is not None:
        reader.put("parallelism.shard_group", data // replicas * context, f"{block}num_replicas")
    else:
        reader.need("parallelism.shard_group", "the ranks of one shard group follow from nodes or GPUs, not given here")
    reader.get(f"{block}num_replicas", None)


def _read_core_state(reader: SettingReader) -> None:
    name = reader.first(f"{_MODULE}optim._CLASS_", f"{_MODULE}optim.type")
    value = str(reader.get(name, None) or "").rpartition(".")[2]
    if value in _OPTIMIZERS:
        reader.put("training.optimizer", _OPTIMIZERS[value], name)
    else:
        reader.not_understood(name, "is no optimizer whose state is known here")
        reader.need("training.optimizer", "it is set in Python, or not understood")
    if reader.get(f"{_MODULE}optim.dtype", None) is not None:
        reader.not_understood(f"{_MODULE}optim.dtype", "keeps the moments in another dtype")
        reader.need("training.saved_state.moments", "the optimizer keeps them in another dtype")
    dtype, of_model = f"{_MODULE}dp_config.param_dtype", "model.dtype"
    if reader.get(of_model, "float32") != "float32":
        reader.put("training.precision", "bf16", of_model)
    elif reader.has(dtype):
        reader.put("training.precision", "bf16-mixed" if reader.get(dtype) == "bfloat16" else "fp32", dtype)
    else:
        reader.need("training.precision", "dp_config.param_dtype is not given: it is set in Python")
    eight = f"{_MODULE}float8_config.enabled"
    if reader.is_on(eight, default=False):
        reader.put("training.precision", "fp8-mixed", eight)


def _read_core_step(reader: SettingReader) -> None:
    length = reader.number(f"{_MODULE}max_sequence_length", None)
    tokens, of_all = f"{_MODULE}rank_microbatch_size", "data_loader.global_batch_size"
    micro, whole = reader.number(tokens, None), reader.number(of_all, None)
    if not length or not micro:
        reader.need("training.micro_batch_size", "it is set in Python")
        reader.ignore("data_loader.global_batch_size")
        return
    reader.put("training.sequence_length", length, f"{_MODULE}max_sequence_length")
    reader.put("training.micro_batch_size", max(1, micro // length), tokens, note="tokens over the sequence length")
    if whole:
        reader.put("training.global_batch_size", whole // length, of_all, note="tokens over the sequence length")
    mode = f"{_MODULE}ac_config.mode"
    value = reader.get(mode, None)
    if value in (None, "full"):
        reader.put("training.recomputation", "full" if value else "none", mode)
    else:
        reader.not_understood(mode, "recomputes a part that is not counted alone")
        reader.need("training.recomputation", "a part that is not counted alone is recomputed")
    compiles = f"{_MODULE}compile_model"
    reader.put("training.compile", reader.is_on(compiles, default=False), compiles)


def _read_core_checkpoint(reader: SettingReader) -> None:
    interval = reader.number(f"{_CHECKPOINTER}save_interval")
    short = reader.number(f"{_CHECKPOINTER}ephemeral_save_interval", None)
    name = f"{_CHECKPOINTER}{'ephemeral_save_interval' if short else 'save_interval'}"
    reader.put("checkpoint.interval_steps", short or interval, name)
    mode, kept = f"{_CHECKPOINTER}save_async", f"{_CHECKPOINTER}max_checkpoints"
    reader.put("checkpoint.mode", "sync" if reader.get(mode, None) is False else "async", mode)
    is_whole = not reader.is_command
    number = reader.number(kept, None if is_whole else 3)
    if number:
        note = "and the temporary one" if short else ""
        reader.put("retention.keep_last", number + bool(short), kept, note=note)
    else:
        reader.need("retention.keep_last", "all checkpoints of the run are kept")
    if reader.get(f"{_CHECKPOINTER}enabled", True) is False:
        reader.not_understood(f"{_CHECKPOINTER}enabled", "turns checkpoints off: those that it would write are sized")


_CALLBACKS = """
    config_saver comet console_logger wandb profiler gpu_monitor gpu_memory_monitor speed_monitor garbage_collector
    downstream_evaluator lm_evaluator beaker slack_notifier monkey_patcher gap_monitor grad_clipper stability_monitor
    evaluator metric_saver
"""

_WITHOUT_EFFECT_IN_CORE = """
    train_module.max_grad_norm train_module.z_loss_multiplier train_module.autocast_precision
    train_module.label_ignore_index train_module.load_key_mapping trainer.save_folder trainer.work_dir
    trainer.load_path trainer.load_strategy trainer.max_duration.value trainer.max_duration.unit
    trainer.metrics_collect_interval trainer.cancel_check_interval trainer.hard_stop trainer.hard_stop.value
    trainer.hard_stop.unit trainer.save_overwrite trainer.checkpointer.work_dir trainer.checkpointer.save_overwrite
    trainer.checkpointer.save_thread_count trainer.checkpointer.load_thread_count trainer.load_trainer_state
    trainer.load_optim_state trainer.no_checkpoints trainer.no_evals trainer.async_bookkeeping trainer.device
    trainer.bookkeeping_soft_timeout trainer.checkpointer.pre_download trainer.checkpointer.throttle_uploads
    train_module.optim.lr train_module.optim.betas train_module.optim.eps train_module.optim.weight_decay
    train_module.optim.group_overrides train_module.optim.fused train_module.optim.foreach train_module.optim.compile
    train_module.optim.fixed_fields train_module.optim.rolling_interval_length train_module.optim.sigma_factor
    train_module.optim.step_increment_bugfix train_module.optim.initial_lr train_module.optim.mu
    train_module.optim.cautious_wd
"""

OLMO_CORE = Importer(
    name="olmo-core",
    title="OLMo-core",
    version="fa6c5014c of 2026-06-22",
    source="OLMo-core, src/olmo_core/train/callbacks/checkpointer.py and nn/transformer/config.py",
    frameworks=("fsdp2",),
    marks=(
        "train_module._CLASS_",
        "train_module.rank_microbatch_size",
        "train_module.max_sequence_length",
        "train_module.optim.*",
        "train_module.dp_config.*",
        "trainer.callbacks.checkpointer.*",
        "trainer.save_folder",
        "data_loader.global_batch_size",
        "model.block.*",
        "model.d_model",
        "_CLASS_",
    ),
    min_marks=2,
    defaults={f"{_CHECKPOINTER}save_interval": 250},
    read=_read_core,
    ignored=(
        "launcher.*",
        "_CLASS_",
        "*._CLASS_",
        "dataset.*",
        "data_loader.*",
        "launch.*",
        "run_name",
        "init_seed",
        "backend",
        "tokenizer.*",
        *(f"trainer.callbacks.{name}.*" for name in _CALLBACKS.split()),
        "model.init_*",
        "model.embedding_init_std",
        "model.name",
        "model.block.*.eps",
        "model.block.*.dtype",
        "model.block.*.full_precision",
        "model.block.*.rope.*",
        "model.block.*.sliding_window.*",
        "model.block.*.use_flash",
        "model.block.*.backend",
        "model.block.*.clip_qkv",
        "model.block.*.name",
        "model.block.dropout",
        "model.lm_head.*",
        "train_module.scheduler.*",
        "train_module.dp_config.reduce_dtype",
        "train_module.dp_config.wrapping_strategy",
        "train_module.dp_config.prefetch_factor",
        "train_module.cp_config.ring.*",
        "train_module.cp_config.uly.*",
        "train_module.cp_config.load_balancer",
        "train_module.float8_config.*",
        *(
            f"trainer.callbacks.checkpointer.{name}"
            for name in ("pre_train_checkpoint", "remove", "ephemeral_cooldown")
        ),
        *_WITHOUT_EFFECT_IN_CORE.split(),
    ),
)
