"""Lightning's YAML: that of LightningCLI, and configs of a Trainer that hydra makes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sizing.config_files.reader import BESIDE_FILES, SettingReader, put_optimizer_with
from sizing.config_files.source import ConfigSource
from sizing.importers.importer import Importer
from sizing.importers.trainer_settings import DEEPSPEED_JSON, put_shard_group

_DEFAULTS: dict[str, Any] = {
    "trainer.devices": "auto",
    "trainer.num_nodes": 1,
    "trainer.strategy": "auto",
    "trainer.precision": "32-true",
}
"""Source: Lightning 2.6, pytorch/trainer/trainer.py."""

_STRATEGY = "trainer.strategy"
_ARGUMENTS = f"{_STRATEGY}.init_args."
_DEEPSPEED = re.compile(r"deepspeed(?:_stage_(?P<stage>[0-3]))?(?P<offload>_offload)?(?P<nvme>_nvme)?")
_CLASSES = {
    "DDPStrategy": "ddp",
    "FSDPStrategy": "fsdp",
    "DeepSpeedStrategy": "deepspeed",
    "ModelParallelStrategy": "model-parallel",
    "SingleDeviceStrategy": "ddp",
}
_PRECISIONS = {
    "32": "fp32",
    "32-true": "fp32",
    "16": "fp16-mixed",
    "16-mixed": "fp16-mixed",
    "bf16": "bf16-mixed",
    "bf16-mixed": "bf16-mixed",
    "bf16-true": "bf16",
}
_OF_DEEPSPEED = {"bf16-true": "bf16-mixed", "16-true": "fp16-mixed"}
"""DeepSpeed keeps an fp32 copy of 16-bit weights. Source: Lightning 2.6, plugins/precision/deepspeed.py."""

_CHECKPOINT = "callbacks.model_checkpoint."
_MODEL_NAMES = re.compile(
    r"model\.(.+\.)?(model_name|model_name_or_path|pretrained_model_name_or_path|model_id|base_model)"
)

_IGNORED = (
    "seed_everything",
    "ckpt_path",
    "data.*",
    "datamodule.*",
    "model.*",
    "logger.*",
    "paths.*",
    "hydra.*",
    "extras.*",
    "defaults",
    "task_name",
    "tags",
    "train",
    "test",
    "seed",
    "lr_scheduler.*",
    "optimizer.init_args.*",
    "trainer._target_",
    "trainer.accelerator",
    "trainer.logger",
    "trainer.logger.*",
    "trainer.profiler",
    "trainer.profiler.*",
    "trainer.fast_dev_run",
    "trainer.max_epochs",
    "trainer.min_epochs",
    "trainer.max_steps",
    "trainer.min_steps",
    "trainer.max_time",
    "trainer.limit_*",
    "trainer.overfit_batches",
    "trainer.val_check_interval",
    "trainer.check_val_every_n_epoch",
    "trainer.num_sanity_val_steps",
    "trainer.log_every_n_steps",
    "trainer.enable_progress_bar",
    "trainer.enable_model_summary",
    "trainer.accumulate_grad_batches",
    "trainer.gradient_clip_*",
    "trainer.deterministic",
    "trainer.benchmark",
    "trainer.inference_mode",
    "trainer.use_distributed_sampler",
    "trainer.detect_anomaly",
    "trainer.barebones",
    "trainer.sync_batchnorm",
    "trainer.reload_dataloaders_every_n_epochs",
    "trainer.default_root_dir",
    "trainer.model_registry",
    *(
        f"{_ARGUMENTS}{name}"
        for name in (
            "find_unused_parameters",
            "gradient_as_bucket_view",
            "static_graph",
            "process_group_backend",
            "timeout",
            "start_method",
            "bucket_cap_mb",
            "broadcast_buffers",
            "dim",
            "auto_wrap_policy",
            "forward_prefetch",
            "backward_prefetch",
            "limit_all_gathers",
            "use_orig_params",
            "sync_module_states",
            "allgather_bucket_size",
            "reduce_bucket_size",
            "logging_*",
        )
    ),
    *(
        f"{_CHECKPOINT}{name}"
        for name in ("_target_", "dirpath", "filename", "verbose", "mode", "auto_insert_metric_name")
    ),
    "callbacks.early_stopping.*",
    "callbacks.model_summary.*",
    "callbacks.rich_progress_bar.*",
    "callbacks.learning_rate_monitor.*",
    "callbacks.lr_monitor.*",
)


def _rename(source: ConfigSource) -> ConfigSource:
    """Take the settings of the verb `fit` out of its block."""
    if not source.matching("fit.trainer.*"):
        return source
    settings = {
        name.removeprefix("fit."): replace(each, name=name.removeprefix("fit."))
        for name, each in source.settings.items()
    }
    return replace(source, settings=settings)


def _read(reader: SettingReader) -> None:
    _put_gpus(reader)
    strategy = _read_strategy(reader)
    _read_precision(reader, strategy)
    for name in filter(_MODEL_NAMES.fullmatch, list(reader.source.settings)):
        reader.put_model(reader.path(name), name)
    kind = reader.first("optimizer.class_path", "optimizer._target_", "model.optimizer._target_")
    if reader.has(kind):
        block = kind.rpartition(".")[0]
        put_optimizer_with(reader, kind, f"{block}.init_args." if kind.endswith("class_path") else f"{block}.")
    if reader.draft.value("training.optimizer") is None:
        reader.need("training.optimizer", "the model's own configure_optimizers makes it")
    targets = [name for name in reader.source.matching("callbacks.*") if name.endswith("._target_")]
    by_setting = {name: _classes(reader.get(name, None)) for name in ("trainer.callbacks", *targets)}
    for name, classes in by_setting.items():
        for each in filter(_AVERAGES.search, classes):
            reader.not_understood(name, f"has {each}, which saves an average of the weights beside them: not counted")
            reader.doubt("training.saved_state.ema", f"{each} saves an average of the weights beside them")
    _read_checkpoint(reader)
    reader.ignore("launcher.*")


def _put_gpus(reader: SettingReader) -> None:
    devices, nodes = reader.get("trainer.devices"), reader.number("trainer.num_nodes")
    per_node = len(devices) if isinstance(devices, list) else devices
    if isinstance(per_node, str) and per_node.isdecimal():
        per_node = int(per_node)
    known = reader.draft.fields.get("cluster.num_gpus")
    if not isinstance(per_node, int) or isinstance(per_node, bool) or per_node < 1 or nodes is None:
        if reader.has("trainer.devices") and known is None:
            reader.need("cluster.num_gpus", "trainer.devices takes all GPUs that there are")
        return
    if known is None or known.place != BESIDE_FILES:
        reader.put("cluster.num_gpus", per_node * int(nodes), "trainer.devices", "trainer.num_nodes")


def _read_strategy(reader: SettingReader) -> str:
    """Read the strategy, its name or its class with arguments, and return its kind."""
    name = f"{_STRATEGY}.class_path" if reader.has(f"{_STRATEGY}.class_path") else _STRATEGY
    name = f"{_STRATEGY}._target_" if reader.has(f"{_STRATEGY}._target_") else name
    value = str(reader.get(name))
    kind = _CLASSES.get(value.rpartition(".")[2], value.lower())
    if (found := _DEEPSPEED.fullmatch(kind)) is not None:
        reader.put_framework("deepspeed")
        _read_deepspeed(reader, found, name)
        reader.put_data_degree()
        return "deepspeed"
    reader.put_framework("lightning", is_sure=False)
    if kind.startswith("fsdp"):
        if kind == "fsdp_cpu_offload" or reader.get(f"{_ARGUMENTS}cpu_offload", None):
            _put_offload(reader, name if kind == "fsdp_cpu_offload" else f"{_ARGUMENTS}cpu_offload")
        _read_fsdp(reader)
        return "fsdp"
    if kind == "model-parallel":
        _read_model_parallel(reader)
        return "fsdp"
    reader.put_data_degree()
    if kind != "auto" and not kind.startswith(("ddp", "single_device")):
        reader.not_understood(name, "is no strategy that is known here")
        reader.doubt("training.framework", f"{name} is no strategy that is known here")
    return "ddp"


def _put_offload(reader: SettingReader, name: str) -> None:
    reader.put("training.offload.optimizer", "host", name)
    reader.put("training.offload.weights", "host", name)


def _read_deepspeed(reader: SettingReader, found: re.Match[str], name: str) -> None:
    if reader.of_other(DEEPSPEED_JSON) is not None:
        return
    path = reader.get(f"{_ARGUMENTS}config", None)
    if isinstance(path, str):
        reader.not_understood(f"{_ARGUMENTS}config", "names a file that is not given: give that file too")
        reader.need("parallelism.zero_stage", "DeepSpeed's file is not given")
        return
    stage, of_arguments = found["stage"], reader.number(f"{_ARGUMENTS}stage", None)
    where = name if of_arguments is None else f"{_ARGUMENTS}stage"
    reader.put("parallelism.zero_stage", int(stage or of_arguments or 2), where)
    place = "nvme" if found["nvme"] else "host"
    is_offloaded = bool(found["offload"]) or reader.is_on(f"{_ARGUMENTS}offload_optimizer", default=False)
    if is_offloaded:
        reader.put("training.offload.optimizer", place, name)
    if reader.is_on(f"{_ARGUMENTS}offload_parameters", default=False) or (found["offload"] and stage == "3"):
        reader.put("training.offload.weights", place, name)


def _read_fsdp(reader: SettingReader) -> None:
    reader.put_data_degree()
    strategy = f"{_ARGUMENTS}sharding_strategy"
    kind = str(reader.get(strategy, "FULL_SHARD")).upper()
    if "HYBRID" in kind:
        reader.not_understood(strategy, "shards within a node or a group: give parallelism.shard_group, its ranks")
        reader.need("parallelism.shard_group", "the hybrid strategy shards within a node")
    elif kind == "NO_SHARD":
        reader.put("parallelism.shard_group", 1, strategy)
    put_shard_group(reader)
    for name in (f"{_ARGUMENTS}activation_checkpointing_policy", f"{_ARGUMENTS}activation_checkpointing"):
        if reader.get(name, None):
            reader.put("training.recomputation", "full", name)
    form = f"{_ARGUMENTS}state_dict_type"
    if str(reader.get(form, "full")).lower() == "sharded":
        reader.put("checkpoint.format", "fsdp-sharded", form)


def _read_model_parallel(reader: SettingReader) -> None:
    tensor, data = f"{_ARGUMENTS}tensor_parallel_size", f"{_ARGUMENTS}data_parallel_size"
    if isinstance(reader.get(tensor, None), int):
        reader.take("parallelism.tensor", tensor)
    else:
        reader.need("parallelism.tensor", f"{tensor} is auto: the GPUs of a node")
    if isinstance(reader.get(data, None), int):
        reader.take("parallelism.data", data)
    else:
        reader.put_data_degree(tensor=tensor)
    put_shard_group(reader)
    saves = f"{_ARGUMENTS}save_distributed_checkpoint"
    if reader.is_on(saves, default=True):
        reader.put("checkpoint.format", "fsdp-sharded", saves)


def _read_precision(reader: SettingReader, strategy: str) -> None:
    """Read the precision, and plugins that decide it or how files are saved; those of a cluster do neither."""
    plugins = "trainer.plugins"
    for each in _classes(reader.get(plugins, None)):
        if each == "AsyncCheckpointIO":
            reader.put("checkpoint.mode", "async", plugins)
        elif "Precision" in each:
            reader.not_understood(plugins, f"has {each}, which decides the precision: give training.precision")
            reader.doubt("training.precision", f"{each} among the plugins decides it")
        elif not each.endswith("Environment"):
            reader.not_understood(plugins, f"has {each}, which is not known here")
    name = "trainer.precision"
    value = str(reader.get(name)).lower()
    known = _PRECISIONS | (_OF_DEEPSPEED if strategy == "deepspeed" else {})
    draft = reader.draft.fields.get("training.precision")
    if draft is not None and not draft.is_default:
        return
    if value in known:
        reader.put("training.precision", known[value], name)
    else:
        reader.not_understood(name, "is no precision that is known here")
        reader.need("training.precision", f"{name} is no precision that is known here")


def _classes(value: Any) -> list[str]:
    """List the names of classes that a setting makes objects of: one, or several, by name or with arguments."""
    each_of = value if isinstance(value, list) else [value]
    paths = [each.get("class_path", each.get("_target_")) if isinstance(each, Mapping) else each for each in each_of]
    return [str(path).rpartition(".")[2] for path in paths if path is not None]


_AVERAGES = re.compile(r"(Weight|Model)Averag|EMA|Ema\b|ExponentialMovingAverage")
"""Callbacks that save an average of the weights beside them. Source: Lightning 2.6, pytorch/callbacks/
stochastic_weight_avg.py, average_model_state, and weight_averaging.py, current_model_state."""


def _read_checkpoint(reader: SettingReader) -> None:
    """Read the ModelCheckpoint among the callbacks; without one Lightning saves at the end of each epoch."""
    callbacks = reader.get("trainer.callbacks", None)
    listed = [each for each in callbacks if isinstance(each, Mapping)] if isinstance(callbacks, list) else []
    found = [each for each in listed if str(each.get("class_path", each.get("_target_"))).endswith("ModelCheckpoint")]
    of_hydra = {name.removeprefix(_CHECKPOINT): reader.get(name) for name in reader.source.matching(f"{_CHECKPOINT}*")}
    if len(found) > 1:
        reader.not_understood("trainer.callbacks", "has several ModelCheckpoints: give interval and retention")
        for path in ("checkpoint.interval_seconds", "retention.keep_last"):
            reader.need(path, "several ModelCheckpoints save")
        return
    arguments = dict((found[0].get("init_args") or found[0]) if found else of_hydra)
    names = ("trainer.callbacks",) if found else tuple(f"{_CHECKPOINT}{key}" for key in of_hydra)
    every = arguments.get("every_n_train_steps")
    if isinstance(every, int) and every > 0:
        reader.put("checkpoint.interval_steps", every, *_named(names, "every_n_train_steps"))
    else:
        if names == ("trainer.callbacks",):
            reader.not_understood("trainer.callbacks", "saves by epochs or time: give the interval in seconds or steps")
        reader.need("checkpoint.interval_seconds", "a checkpoint is saved by epochs or by time")
    _put_retention(reader, arguments, names)
    if arguments.get("save_weights_only") is True:
        reader.put("training.saved_state", {"master": None, "moments": None}, *_named(names, "save_weights_only"))


def _named(names: tuple[str, ...], key: str) -> tuple[str, ...]:
    return tuple(name for name in names if name == "trainer.callbacks" or name.endswith(f".{key}"))


def _put_retention(reader: SettingReader, arguments: Mapping[str, Any], names: tuple[str, ...]) -> None:
    """Set what is kept: the best k, or the newest one without a monitor, and last.ckpt, which is a copy.

    Source: Lightning 2.6, pytorch/callbacks/model_checkpoint.py, save_top_k and save_last.
    """
    best, has_last = arguments.get("save_top_k", 1), arguments.get("save_last") is True
    if not isinstance(best, int) or best < 0:
        reader.need("retention.keep_last", "all checkpoints of the run are kept")
        return
    of_both = (*_named(names, "save_top_k"), *_named(names, "save_last"))
    places = tuple(dict.fromkeys(of_both))
    others = max(0, best if has_last else best - 1)
    is_saved_twice = has_last and best > 0
    note = "last.ckpt is a second save, whose time is not counted; link makes none" if is_saved_twice else ""
    reader.put("retention.keep_last", 1, *places, note=note)
    if others:
        reader.put("retention.keep_best", others, *places)


LIGHTNING = Importer(
    name="lightning",
    title="Lightning",
    version="Lightning 2.6",
    source="Lightning, pytorch/trainer/trainer.py, pytorch/cli.py, pytorch/callbacks/model_checkpoint.py",
    frameworks=("lightning", "deepspeed"),
    marks=(
        "seed_everything",
        "trainer.accelerator",
        "trainer.devices",
        "trainer.num_nodes",
        "trainer.strategy",
        "trainer.strategy.*",
        "trainer.precision",
        "trainer.callbacks",
        "trainer.max_epochs",
        "trainer.max_steps",
        "trainer.accumulate_grad_batches",
        "trainer.gradient_clip_val",
        "trainer.log_every_n_steps",
        "trainer.check_val_every_n_epoch",
        "trainer.default_root_dir",
        "model.class_path",
        "data.class_path",
        "callbacks.model_checkpoint.*",
    ),
    min_marks=3,
    defaults=_DEFAULTS,
    read=_read,
    ignored=_IGNORED,
    rename=_rename,
)
