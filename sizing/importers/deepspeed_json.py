"""DeepSpeed's JSON, alone or beside the file of a trainer that fills its `auto`, and the same settings elsewhere."""

from __future__ import annotations

from sizing.config_files.reader import SettingReader, choice, put_optimizer_with
from sizing.frameworks import FRAMEWORKS
from sizing.importers.importer import Importer
from sizing.importers.trainer_settings import ACCELERATE_CONFIG, DEEPSPEED_JSON, has_trainer_beside, is_empty

DEEPSPEED_DEFAULTS = {"zero_optimization.stage": 0}

PLACES = {"cpu": "host", "nvme": "nvme", "none": "none"}
_AUTO = "auto"
_FP16_MASTER = "fp16.fp16_master_weights_and_grads"
_COMPRESSED_OPTIMIZERS = {"onebitadam": "1-bit-adam"}
_ONE_BIT_OTHERS = ("zerooneadam", "onebitlamb")

DEEPSPEED_IGNORED = (
    "steps_per_print",
    "wall_clock_breakdown",
    "memory_breakdown",
    "dump_state",
    "gradient_clipping",
    "prescale_gradients",
    "gradient_predivide_factor",
    "sparse_gradients",
    "communication_data_type",
    "seq_parallel_communication_data_type",
    "disable_allgather",
    "zero_allow_untested_optimizer",
    "zero_force_ds_cpu_optimizer",
    "optimizer.params.*",
    "optimizer.legacy_fusion",
    "scheduler.type",
    "scheduler.params.*",
    "fp16.auto_cast",
    "fp16.loss_scale",
    "fp16.initial_scale_power",
    "fp16.loss_scale_window",
    "fp16.hysteresis",
    "fp16.consecutive_hysteresis",
    "fp16.min_loss_scale",
    "fp16.opt_level",
    "fp16.loss_scale_args.*",
    "bf16.loss_scale",
    "bf16.initial_scale_power",
    "bf16.auto_cast",
    "bf16.check_grad_overflow",
    "bf16.immediate_grad_update",
    "bf16.loss_scale_window",
    "bf16.hysteresis",
    "bf16.min_loss_scale",
    "data_types.grad_accum_dtype",
    "amp.opt_level",
    "zero_optimization.allgather_partitions",
    "zero_optimization.allgather_bucket_size",
    "zero_optimization.all_gather_bucket_size",
    "zero_optimization.overlap_comm",
    "zero_optimization.reduce_scatter",
    "zero_optimization.reduce_bucket_size",
    "zero_optimization.contiguous_gradients",
    "zero_optimization.round_robin_gradients",
    "zero_optimization.grad_hooks",
    "zero_optimization.sub_group_size",
    "zero_optimization.stage3_prefetch_bucket_size",
    "zero_optimization.stage3_param_persistence_threshold",
    "zero_optimization.stage3_model_persistence_threshold",
    "zero_optimization.stage3_max_live_parameters",
    "zero_optimization.stage3_max_reuse_distance",
    "zero_optimization.stage3_module_granularity_threshold",
    "zero_optimization.stage3_use_all_reduce_for_fetch_params",
    "zero_optimization.stage3_allgather_sequential",
    "zero_optimization.prefetch_bucket_size",
    "zero_optimization.param_persistence_threshold",
    "zero_optimization.model_persistence_threshold",
    "zero_optimization.max_live_parameters",
    "zero_optimization.max_reuse_distance",
    "zero_optimization.ignore_unused_parameters",
    "zero_optimization.legacy_stage1",
    "zero_optimization.elastic_checkpoint",
    "zero_optimization.load_from_fp32_weights",
    "zero_optimization.memory_efficient_linear",
    "zero_optimization.override_module_apply",
    "zero_optimization.log_trace_cache_warnings",
    "zero_optimization.use_multi_rank_bucket_allreduce",
    "zero_optimization.use_all_gather_into_tensor",
    "zero_optimization.use_all_reduce_for_fetch_params",
    "zero_optimization.pipeline_loading_checkpoint",
    "zero_optimization.mics_hierarchical_params_gather",
    "zero_optimization.cpu_offload_use_pin_memory",
    "zero_optimization.offload_optimizer.pin_memory",
    "zero_optimization.offload_optimizer.nvme_path",
    "zero_optimization.offload_optimizer.buffer_count",
    "zero_optimization.offload_optimizer.buffer_size",
    "zero_optimization.offload_optimizer.fast_init",
    "zero_optimization.offload_optimizer.max_in_cpu",
    "zero_optimization.offload_optimizer.pipeline*",
    "zero_optimization.offload_param.pin_memory",
    "zero_optimization.offload_param.nvme_path",
    "zero_optimization.offload_param.buffer_count",
    "zero_optimization.offload_param.buffer_size",
    "zero_optimization.offload_param.max_in_cpu",
    "activation_checkpointing.partition_activations",
    "activation_checkpointing.contiguous_memory_optimization",
    "activation_checkpointing.number_checkpoints",
    "activation_checkpointing.num_checkpoints",
    "activation_checkpointing.synchronize_checkpoint_boundary",
    "activation_checkpointing.profile",
    "checkpoint.tag_validation",
    "checkpoint.load_universal",
    "checkpoint.parallel_write.*",
    "aio.*",
    "autotuning.*",
    "comms_logger.*",
    "comms_config.*",
    "csv_monitor.*",
    "curriculum_learning.*",
    "data_efficiency.*",
    "flops_profiler.*",
    "monitor_config.*",
    "tensorboard.*",
    "wandb.*",
    "comet.*",
    "timers.*",
    "hybrid_engine.*",
    "pipeline.activation_checkpoint_interval",
    "pipeline.pipe_partitioned",
    "pipeline.grad_partitioned",
    "pipeline.seed_layers",
    "tensor_parallel.tp_grain_size",
    "dataloader_drop_last",
    "data_sampling.*",
    "elasticity.enabled",
    "train_steps",
)
"""Settings that change no figure here. Source: DeepSpeed 0.19, runtime/config.py, runtime/zero/config.py, constants."""

GATHERS_WEIGHTS = (
    "zero_optimization.stage3_gather_16bit_weights_on_model_save",
    "zero_optimization.stage3_gather_fp16_weights_on_model_save",
    "zero_optimization.gather_16bit_weights_on_model_save",
)
"""Whether a Trainer writes whole weights too with ZeRO 3; with other stages it always does."""


def read_deepspeed(reader: SettingReader, prefix: str = "") -> None:
    """Read DeepSpeed's settings, which may stand in a block of another file."""
    reader.put_framework("deepspeed")
    _read_precision(reader, prefix)
    _read_stage(reader, f"{prefix}zero_optimization.")
    _read_offload(reader, f"{prefix}zero_optimization.")
    _read_optimizer(reader, prefix)
    _read_others(reader, prefix)
    reader.ignore(*(f"{prefix}{pattern}" for pattern in DEEPSPEED_IGNORED))
    gathers = [f"{prefix}{name}" for name in GATHERS_WEIGHTS]
    if reader.draft.value("parallelism.zero_stage") != 3:
        reader.ignore(*gathers)
    for name in gathers:
        reader.get(name, None)


def _read(reader: SettingReader) -> None:
    read_deepspeed(reader)
    _read_degrees(reader)


def _read_stage(reader: SettingReader, zero: str) -> None:
    stage = reader.number(f"{zero}stage", 0)
    if stage is None:
        reader.need("parallelism.zero_stage", "DeepSpeed's file does not say it as a number")
    elif stage == 0 and reader.draft.value("training.precision") == "bf16-mixed":
        # DeepSpeed 0.19, runtime/engine.py: without ZeRO bf16 accumulates in fp32, by BF16_Optimizer.
        note = "in bf16 DeepSpeed divides the optimizer without ZeRO too"
        reader.put("parallelism.zero_stage", 1, f"{zero}stage", note=note)
    else:
        reader.put("parallelism.zero_stage", int(stage), f"{zero}stage")
    for name, why in (
        ("zero_hpz_partition_size", "keeps a second copy of the weights in each node: not counted in GPU memory"),
        ("mics_shard_size", "shards state within groups of ranks: not counted"),
    ):
        if (reader.number(f"{zero}{name}", 1) or 1) > 1:
            reader.not_understood(f"{zero}{name}", why)
    if (reader.number(f"{zero}mics_shard_size", 1) or 1) > 1:
        reader.need("parallelism.shard_group", "MiCS shards within groups of ranks")
    for name in ("zero_quantized_weights", "zero_quantized_gradients", "zero_quantized_nontrainable_weights"):
        if reader.is_on(f"{zero}{name}", default=False):
            reader.not_understood(f"{zero}{name}", "sends in 8 bits: step times count 16; files stay")


def _read_offload(reader: SettingReader, zero: str) -> None:
    for field, block, old in (
        ("optimizer", "offload_optimizer", "cpu_offload"),
        ("weights", "offload_param", "cpu_offload_params"),
    ):
        name = f"{zero}{block}.device"
        place = reader.take(f"training.offload.{field}", name, choice(PLACES, "device"))
        if place is None and reader.is_on(f"{zero}{old}", default=False):
            reader.put(f"training.offload.{field}", "host", f"{zero}{old}")
    ratio = reader.number(f"{zero}offload_optimizer.ratio", None)
    if ratio is not None and ratio != 1 and (reader.draft.value("training.offload.optimizer") or "none") != "none":
        reader.put("training.offload.optimizer_fraction", ratio, f"{zero}offload_optimizer.ratio")
    if reader.is_on(f"{zero}offload_optimizer.super_offload", default=False):
        reader.not_understood(f"{zero}offload_optimizer.super_offload", "is not counted in step times")


def _read_precision(reader: SettingReader, prefix: str) -> None:
    """Set the precision; `auto` is what the trainer's file says, which is read later."""
    bf16 = reader.first(f"{prefix}bf16.enabled", f"{prefix}bfloat16.enabled")
    fp16 = f"{prefix}fp16.enabled"
    _tell_master_copies(reader, prefix)
    reads_later = has_trainer_beside(reader) or reader.of_other(ACCELERATE_CONFIG) is not None or bool(prefix)
    is_auto = _AUTO in (reader.get(bf16, None), reader.get(fp16, None))
    if reader.is_on(f"{prefix}amp.enabled", default=False):
        reader.not_understood(f"{prefix}amp.enabled", "is apex's mixed precision, which is not known here")
        reader.need("training.precision", "apex's amp decides it")
    elif reader.is_on(bf16, default=False):
        reader.put("training.precision", "bf16-mixed", bf16)
    elif reader.is_on(fp16, default=False):
        reader.put("training.precision", "fp16-mixed", fp16)
    elif is_auto and not reads_later:
        reader.need("training.precision", "it is auto: the trainer's file says it")
    elif not is_auto and (not reads_later or reader.has(bf16) or reader.has(fp16)):
        reader.put("training.precision", "fp32", bf16, fp16)


def _tell_master_copies(reader: SettingReader, prefix: str) -> None:
    """Tell switches that keep the master copy or moments in 16 bits, which a scenario says by saved_state."""
    for name in ("bf16.bf16_master_weights_and_grads", "bf16.bf16_optimizer_states", _FP16_MASTER):
        if reader.is_on(f"{prefix}{name}", default=False):
            reader.not_understood(f"{prefix}{name}", "keeps the master copy or moments in 16 bits: not counted")
            reader.need("training.saved_state", f"{name} keeps state in 16 bits")
    if reader.is_on(f"{prefix}fp8.enabled", default=False):
        reader.not_understood(f"{prefix}fp8.enabled", "is not counted: give training.precision")


def _read_optimizer(reader: SettingReader, prefix: str) -> None:
    name = f"{prefix}optimizer.type"
    kind = reader.get(name, None)
    if kind is None:
        if not has_trainer_beside(reader) and not prefix:
            reader.need("training.optimizer", "the training script makes the optimizer, and not DeepSpeed's file")
        return
    plain = str(kind).lower().replace("_", "").replace("-", "")
    if plain == _AUTO:
        reader.need("training.optimizer", "it is auto in DeepSpeed's file")
        return
    if plain in _ONE_BIT_OTHERS:
        reader.not_understood(name, "compresses gradients in a way that is not known here")
        reader.need("training.optimizer", f"{kind} is no optimizer of the catalog")
        return
    if put_optimizer_with(reader, name, f"{prefix}optimizer.params.") is None:
        reader.need("training.optimizer", f"{kind} is no optimizer of the catalog")
    if plain in _COMPRESSED_OPTIMIZERS:
        reader.put("training.gradient_compression.method", _COMPRESSED_OPTIMIZERS[plain], name)


def _read_others(reader: SettingReader, prefix: str) -> None:
    if reader.number(f"{prefix}sequence_parallel_size", None) is not None:
        reader.take("parallelism.context", f"{prefix}sequence_parallel_size")
    if reader.number(f"{prefix}tensor_parallel.autotp_size", None):
        reader.take("parallelism.tensor", f"{prefix}tensor_parallel.autotp_size")
    if str(reader.get(f"{prefix}pipeline.stages", _AUTO)) != _AUTO:
        reader.take("parallelism.pipeline", f"{prefix}pipeline.stages")
    for name in ("nebula.enabled", "datastates_ckpt", "checkpoint.async_save"):
        if reader.is_on(f"{prefix}{name}", default=False):
            reader.put("checkpoint.mode", "async", f"{prefix}{name}")
    reader.ignore(f"{prefix}nebula.*")
    if reader.is_on(f"{prefix}checkpoint.use_node_local_storage", default=False):
        name = f"{prefix}checkpoint.use_node_local_storage"
        reader.not_understood(name, "saves to the drives of each node: give storage.profile of these")
    if reader.is_on(f"{prefix}activation_checkpointing.cpu_checkpointing", default=False):
        name = f"{prefix}activation_checkpointing.cpu_checkpointing"
        reader.not_understood(name, "moves recomputed inputs to the host: give training.offload.activations_fraction")
    for name in (
        "checkpoint.use_node_local_storage",
        "activation_checkpointing.cpu_checkpointing",
        "zero_optimization.zero_quantized_*",
        "zero_optimization.cpu_offload*",
        "zero_optimization.offload_optimizer.super_offload",
        "zero_optimization.offload_optimizer.ratio",
        "bf16.bf16_*",
        "fp16.fp16_master_weights_and_grads",
        "amp.enabled",
        "fp8.enabled",
    ):
        matching = reader.source.matching(f"{prefix}{name}")
        reader.ignore(*(each for each in matching if is_empty(value := reader.get(each)) or value == 1))
    reader.get(f"{prefix}gradient_accumulation_steps", None)
    reader.get(f"{prefix}train_micro_batch_size_per_gpu", None)
    reader.get(f"{prefix}train_batch_size", None)
    elasticity = f"{prefix}elasticity.enabled"
    if reader.is_on(elasticity, default=False):
        reader.not_understood(elasticity, "lets the number of GPUs change")


def _read_degrees(reader: SettingReader) -> None:
    """Set the data ranks by the batch sizes, or by the GPUs, where no trainer's file says the degrees."""
    if has_trainer_beside(reader):
        return
    reader.need("checkpoint.interval_seconds", "the training script calls save_checkpoint")
    reader.need("retention.keep_last", "DeepSpeed deletes no checkpoint: the training script may")
    names = ("train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps")
    of_all, micro, steps = (reader.get(name, None) for name in names)
    steps = 1 if steps is None else steps
    sizes = [each for each in (of_all, micro, steps) if isinstance(each, int) and not isinstance(each, bool)]
    num_gpus = reader.draft.value("cluster.num_gpus")
    if len(sizes) == len(names) and sizes[0] % (sizes[1] * sizes[2]) == 0:
        data = sizes[0] // (sizes[1] * sizes[2])
        reader.put("parallelism.data", data, *names)
        if num_gpus is not None and num_gpus != data * (reader.draft.value("parallelism.context") or 1):
            reader.need("parallelism.tensor", f"the batch sizes mean {data} data ranks of {num_gpus} GPUs")
    else:
        reader.put_data_degree(tensor="tensor_parallel.autotp_size", context="sequence_parallel_size")


DEEPSPEED = Importer(
    name=DEEPSPEED_JSON,
    title="DeepSpeed's config",
    version=FRAMEWORKS["deepspeed"].version,
    source="DeepSpeed, deepspeed/runtime/config.py and deepspeed/runtime/zero/config.py",
    frameworks=("deepspeed",),
    marks=(
        "zero_optimization.stage",
        "zero_optimization.*",
        "train_micro_batch_size_per_gpu",
        "train_batch_size",
        "gradient_accumulation_steps",
        "gradient_clipping",
        "steps_per_print",
        "fp16.enabled",
        "bf16.enabled",
        "optimizer.type",
        "scheduler.type",
        "wall_clock_breakdown",
        "zero_allow_untested_optimizer",
    ),
    min_marks=2,
    defaults=DEEPSPEED_DEFAULTS,
    read=_read,
    rank=-2,
)
