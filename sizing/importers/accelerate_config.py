"""The config file of `accelerate launch`, and the flags of that command which say the same."""

from __future__ import annotations

from typing import Any

from sizing.config_files.reader import SettingReader, choice
from sizing.config_files.source import ConfigSource, Unresolved
from sizing.importers.deepspeed_json import PLACES
from sizing.importers.importer import Importer
from sizing.importers.trainer_settings import (
    ACCELERATE_CONFIG,
    DEEPSPEED_JSON,
    has_flag_elsewhere,
    has_trainer_beside,
    is_empty,
    put_number_of_gpus,
    put_shard_group,
    tell_unknown_flags,
)

_DEFAULTS: dict[str, Any] = {"mixed_precision": "no", "deepspeed_config.zero_stage": 2, "fsdp_config.fsdp_version": 1}

_BLOCKS = {"fsdp_": "fsdp_config.", "megatron_lm_": "megatron_lm_config.", "parallelism_config_": "parallelism_config."}
_OF_DEEPSPEED = {
    "zero_stage",
    "offload_optimizer_device",
    "offload_param_device",
    "zero3_save_16bit_model",
    "gradient_accumulation_steps",
    "deepspeed_config_file",
}
_SWITCHES = {
    "use_deepspeed": "DEEPSPEED",
    "use_fsdp": "FSDP",
    "use_megatron_lm": "MEGATRON_LM",
    "multi_gpu": "MULTI_GPU",
}
_KINDS = ("NO", "MULTI_GPU", "MULTI_NPU", "MULTI_XPU", "MULTI_MLU", "MULTI_HPU", "FSDP", "DEEPSPEED", "MEGATRON_LM")
_WHOLE = ("NO_SHARD", "3")
_HYBRID = ("HYBRID_SHARD", "HYBRID_SHARD_ZERO2", "_HYBRID_SHARD_ZERO2", "4", "5")
_GRADIENTS_TOO = ("SHARD_GRAD_OP", "2")

FSDP_IGNORED = (
    "auto_wrap_policy",
    "transformer_layer_cls_to_wrap",
    "transformer_cls_names_to_wrap",
    "min_num_params",
    "backward_prefetch",
    "forward_prefetch",
    "sync_module_states",
    "use_orig_params",
    "cpu_ram_efficient_loading",
    "limit_all_gathers",
    "param_init_fn",
    "xla",
    "xla_fsdp_v2",
    "xla_fsdp_grad_ckpt",
    "xla_fsdp_settings.*",
    "reshard_after_forward",
    "activation_cpu_offload",
)
"""Settings of FSDP that change no figure here: what is gathered when, and in which units."""

_IGNORED = (
    "compute_environment",
    "debug",
    "downcast_bf16",
    "enable_cpu_affinity",
    "gpu_ids",
    "machine_rank",
    "main_process_ip",
    "main_process_port",
    "main_training_function",
    "rdzv_backend",
    "same_network",
    "tpu_*",
    "use_cpu",
    "num_machines",
    "quiet",
    "commands",
    "command_file",
    "dynamo_config.*",
    "dynamo_backend",
    "ipex_config.*",
    "mpirun_config.*",
    "fp8_config.*",
    "deepspeed_config.deepspeed_multinode_launcher",
    "deepspeed_config.deepspeed_hostfile",
    "deepspeed_config.deepspeed_exclusion_filter",
    "deepspeed_config.deepspeed_inclusion_filter",
    "deepspeed_config.deepspeed_moe_layer_cls_names",
    "deepspeed_config.gradient_clipping",
    "deepspeed_config.zero3_init_flag",
    "deepspeed_config.offload_optimizer_nvme_path",
    "deepspeed_config.offload_param_nvme_path",
    "deepspeed_config.seq_parallel_communication_data_type",
    "parallelism_config.parallelism_config_cp_backend",
    "parallelism_config.parallelism_config_cp_comm_strategy",
    "parallelism_config.parallelism_config_sp_backend",
    "parallelism_config.parallelism_config_sp_seq_length",
    "parallelism_config.parallelism_config_sp_seq_length_is_variable",
    "parallelism_config.parallelism_config_sp_attn_implementation",
    "megatron_lm_config.megatron_lm_gradient_clipping",
    *(f"fsdp_config.fsdp_{name}" for name in FSDP_IGNORED),
)
_IGNORED_FLAGS = (
    "gradient_clipping",
    "zero3_init_flag",
    "offload_optimizer_nvme_path",
    "offload_param_nvme_path",
    "deepspeed_multinode_launcher",
    "deepspeed_hostfile",
    "deepspeed_exclusion_filter",
    "deepspeed_inclusion_filter",
    "deepspeed_moe_layer_cls_names",
    "use_parallelism_config",
    "use_xpu",
    "use_cpu",
    "parallelism_config_cp_backend",
    "parallelism_config_cp_comm_strategy",
    "parallelism_config_sp_backend",
    "parallelism_config_sp_seq_length*",
    "parallelism_config_sp_attn_implementation",
    "megatron_lm_gradient_clipping",
    "megatron_lm_num_micro_batches",
    *(f"fsdp_{name}" for name in FSDP_IGNORED),
)


class Launch:
    """What `accelerate launch` is told: by a config file, or by flags of its command."""

    def __init__(self, reader: SettingReader) -> None:
        self._reader = reader

    def name(self, flag: str) -> str | None:
        """Return the setting that says a flag, in the command or in the file; None where neither does."""
        reader, in_file = self._reader, name_in_file(flag)
        given = [name for name in (f"launcher.{flag}", in_file, flag) if reader.has(name)]
        if given and given[0] != f"launcher.{flag}" and has_flag_elsewhere(reader, flag):
            reader.ignore(*given)  # the command's own flag goes before
            return None
        if len(given) > 1:
            reader.ignore(*given[1:])
        return given[0] if given else None

    def get(self, flag: str, default: Any = None) -> Any:
        """Return the value of a flag, or `default`."""
        name = self.name(flag)
        value = None if name is None else self._reader.get(name)
        return default if value is None else value

    def put(self, path: str, value: Any, *flags: str, note: str = "") -> None:
        """Set a field to what flags say."""
        self._reader.put(path, value, *(name for flag in flags if (name := self.name(flag)) is not None), note=note)


def name_in_file(flag: str) -> str:
    """Return the dotted name that a flag of `accelerate launch` has in the config file.

    >>> name_in_file("fsdp_version"), name_in_file("zero_stage"), name_in_file("mixed_precision")
    ('fsdp_config.fsdp_version', 'deepspeed_config.zero_stage', 'mixed_precision')
    """
    if flag in _OF_DEEPSPEED:
        return f"deepspeed_config.{flag}"
    return next((f"{block}{flag}" for begin, block in _BLOCKS.items() if flag.startswith(begin)), flag)


def distributed_type(source: ConfigSource) -> str | None:
    """Return how accelerate distributes a training by a config file or by the flags of a command; None if neither."""
    setting = source.settings.get("distributed_type")
    if setting is not None:
        return str(setting.value).upper().rpartition(".")[2] if setting.value is not False else "NO"
    for switch, kind in _SWITCHES.items():
        flag = source.settings.get(f"launcher.{switch}")
        if flag is not None and str(flag.value).lower() not in ("false", "no", "0"):
            return kind
    return None


def mixed_precision(source: ConfigSource) -> str | None:
    """Return the mixed precision that accelerate is told, or None."""
    for name in ("launcher.mixed_precision", "mixed_precision"):
        setting = source.settings.get(name)
        if setting is not None and not isinstance(setting.value, Unresolved):
            return str(setting.value).lower()
    return None


def read_launch(reader: SettingReader, *, is_alone: bool) -> None:
    """Read what `accelerate launch` is told; `is_alone`: no file of a trainer is there, which decides more."""
    launch = Launch(reader)
    kind = distributed_type(reader.source)
    for name in ("distributed_type", *(f"launcher.{switch}" for switch in _SWITCHES)):
        reader.get(name, None)
    if kind is not None and kind not in _KINDS:
        name = "distributed_type"
        reader.not_understood(name, "is no way of distributing that is known here")
        reader.doubt("training.framework", f"{name} is not known here")
    _read_degrees(launch, reader)
    if kind == "DEEPSPEED":
        _read_deepspeed(launch, reader)
    elif kind == "FSDP":
        read_fsdp(launch, reader)
        if is_alone:
            reader.put_framework("accelerate", is_sure=False)
    elif kind == "MEGATRON_LM":
        _read_megatron(launch, reader)
    elif kind is not None and is_alone:
        reader.put_framework("accelerate", is_sure=False)
    if is_alone:
        _read_precision(launch, reader, kind)
    else:
        launch.get("mixed_precision")
    _tell_missing_file(reader)
    reader.ignore(*(f"launcher.{flag}" for flag in _IGNORED_FLAGS))


def _read(reader: SettingReader) -> None:
    put_number_of_gpus(reader, "num_processes")
    if distributed_type(reader.source) == "NO":
        reader.draft.set("cluster.num_gpus", 1, place="distributed_type NO", is_default=True)
    is_alone = not has_trainer_beside(reader)
    read_launch(reader, is_alone=is_alone)
    if is_alone:
        reader.put_data_degree(tensor="parallelism.tensor", pipeline="pipeline", context="context")
        if distributed_type(reader.source) == "FSDP":
            put_shard_group(reader)
        _tell_of_the_script(reader)
    tell_unknown_flags(reader)


def _tell_of_the_script(reader: SettingReader) -> None:
    """Ask for what the training script says, and not accelerate."""
    reader.need("training.optimizer", "the training script makes it")
    reader.need("checkpoint.interval_seconds", "the training script calls save_state")
    reader.need("retention.keep_last", "the training script says total_limit; without it all are kept")


def _read_precision(launch: Launch, reader: SettingReader, kind: str | None) -> None:
    if reader.draft.value("training.precision") is not None:
        launch.get("mixed_precision")
        return
    mixed = str(launch.get("mixed_precision", "no")).lower()
    if kind == "DEEPSPEED" and reader.of_other(DEEPSPEED_JSON) is None and mixed in ("bf16", "fp16"):
        launch.put("training.precision", f"{mixed}-mixed", "mixed_precision")
    elif mixed in ("bf16", "fp16", "fp8"):
        launch.put("training.precision", f"{mixed}-mixed", "mixed_precision")
        if kind not in ("FSDP", "DEEPSPEED"):
            reader.doubt(
                "training.precision",
                "the script decides the dtype of the weights: fp32 is taken; of bfloat16 it is bf16",
            )
    else:
        reader.need("training.precision", "mixed precision is off: the script decides the dtype of the weights")


def _read_degrees(launch: Launch, reader: SettingReader) -> None:
    tensor = launch.get("parallelism_config_tp_size", 1)
    context, ulysses = launch.get("parallelism_config_cp_size", 1), launch.get("parallelism_config_sp_size", 1)
    sizes = {
        name: size
        for name, size in (("tp", tensor), ("cp", context), ("sp", ulysses))
        if isinstance(size, int) and not isinstance(size, bool)
    }
    if sizes.get("tp", 1) > 1:
        launch.put("parallelism.tensor", sizes["tp"], "parallelism_config_tp_size")
    if sizes.get("cp", 1) * sizes.get("sp", 1) > 1:
        launch.put(
            "parallelism.context",
            sizes.get("cp", 1) * sizes.get("sp", 1),
            "parallelism_config_cp_size",
            "parallelism_config_sp_size",
        )
    replicate, shard = (
        launch.get("parallelism_config_dp_replicate_size"),
        launch.get("parallelism_config_dp_shard_size"),
    )
    names = ("parallelism_config_dp_replicate_size", "parallelism_config_dp_shard_size")
    if isinstance(replicate, int) and isinstance(shard, int) and replicate * shard > 1:
        launch.put("parallelism.data", replicate * shard, *names)
        if replicate > 1:
            launch.put("parallelism.shard_group", shard * sizes.get("cp", 1) * sizes.get("sp", 1), *names)
    elif isinstance(replicate, int) and replicate > 1:
        reader.need("parallelism.shard_group", "the ranks of one shard group are those that the replicas leave")


def _read_deepspeed(launch: Launch, reader: SettingReader) -> None:
    reader.put_framework("deepspeed")
    path = launch.get("deepspeed_config_file")
    if reader.of_other(DEEPSPEED_JSON) is not None:
        return
    if not is_empty(path):
        name = launch.name("deepspeed_config_file") or ""
        reader.not_understood(name, "names a file that is not given: give that file too")
        reader.need("parallelism.zero_stage", "DeepSpeed's file is not given")
        reader.need("training.precision", "DeepSpeed's file is not given")
        return
    stage = launch.get("zero_stage", 2)
    if isinstance(stage, int):
        reader.put("parallelism.zero_stage", stage, launch.name("zero_stage") or "deepspeed_config.zero_stage")
    for field, flag in (("optimizer", "offload_optimizer_device"), ("weights", "offload_param_device")):
        device = launch.name(flag)
        if device is not None:
            reader.take(f"training.offload.{field}", device, choice(PLACES, "device"))
    launch.get("gradient_accumulation_steps")
    launch.get("zero3_save_16bit_model")


def read_fsdp(launch: Launch, reader: SettingReader, prefix: str = "fsdp_") -> None:
    """Read the settings of FSDP: how state is sharded, offloaded, recomputed, and in which form it is saved."""
    version = launch.get(f"{prefix}version", 1)
    strategy = str(launch.get(f"{prefix}sharding_strategy", "FULL_SHARD")).upper()
    reshard = str(launch.get(f"{prefix}reshard_after_forward", "")).upper()
    by = f"{prefix}sharding_strategy"
    if str(version) != "2" and reshard in (*_WHOLE[:1], *_HYBRID[:3], *_GRADIENTS_TOO[:1]):
        strategy, by = reshard, f"{prefix}reshard_after_forward"
    put_fsdp_sharding(reader, strategy, launch.name(by) or by)
    state_dict = launch.name(f"{prefix}state_dict_type")
    put_fsdp_format(reader, state_dict, launch.get(f"{prefix}state_dict_type"), version=str(version))
    for flag in (f"{prefix}offload_params", f"{prefix}cpu_offload"):
        name = launch.name(flag)
        if name is not None and reader.is_on(name):
            reader.put("training.offload.optimizer", "host", name)
            reader.put("training.offload.weights", "host", name)
    name = launch.name(f"{prefix}activation_checkpointing")
    if name is not None and reader.is_on(name):
        reader.put("training.recomputation", "full", name)


def put_fsdp_sharding(reader: SettingReader, strategy: str, name: str) -> None:
    """Set the ranks that share one copy of the state, by FSDP's strategy."""
    if strategy in _HYBRID:
        reader.not_understood(name, "shards within a node or a group: give parallelism.shard_group, its ranks")
        reader.need("parallelism.shard_group", "the hybrid strategy shards within a node, whose GPUs are not said")
    elif strategy in _WHOLE:
        reader.put("parallelism.shard_group", 1, name)
    elif strategy in _GRADIENTS_TOO:
        reader.get(name, None)
        if reader.has(name):
            reader.not_understood(name, "keeps gathered weights between passes: GPU memory counts them sharded")


def put_fsdp_format(reader: SettingReader, name: str | None, value: Any, *, version: str) -> None:
    """Set the format by the type of FSDP's state dict. FULL_STATE_DICT is the default of version 1, sharded of 2."""
    kind = str(value).upper().rpartition(".")[2] if value is not None else ""
    if kind == "":
        kind = "SHARDED_STATE_DICT" if version == "2" else "FULL_STATE_DICT"
    if kind == "SHARDED_STATE_DICT":
        reader.put("checkpoint.format", "accelerate-fsdp", *([name] if name else ["fsdp_config.fsdp_state_dict_type"]))
    elif kind == "FULL_STATE_DICT":
        if name is not None:
            reader.put("checkpoint.format", "full-state-dict", name)
    elif name is not None:
        reader.not_understood(name, "is a form of saving that is not known here: give checkpoint.format")
        reader.need("checkpoint.format", "each rank saves its own flat shard")


def _read_megatron(launch: Launch, reader: SettingReader) -> None:
    reader.put_framework("megatron")
    for path, flag in (
        ("parallelism.tensor", "megatron_lm_tp_degree"),
        ("parallelism.pipeline", "megatron_lm_pp_degree"),
        ("parallelism.context", "megatron_lm_context_parallel_size"),
        ("parallelism.expert", "megatron_lm_expert_model_parallel_size"),
        ("parallelism.expert_tensor", "megatron_lm_expert_tensor_parallel_size"),
    ):
        name = launch.name(flag)
        if name is not None:
            reader.take(path, name)
    for path, flag in (
        ("training.distributed_optimizer", "megatron_lm_use_distributed_optimizer"),
        ("training.sequence_parallel", "megatron_lm_sequence_parallelism"),
    ):
        name = launch.name(flag)
        if name is not None:
            reader.put(path, reader.is_on(name), name)
    name = launch.name("megatron_lm_recompute_activations")
    if name is not None:
        reader.put("training.recomputation", "selective" if reader.is_on(name) else "none", name)
    launch.get("megatron_lm_num_micro_batches")


def _tell_missing_file(reader: SettingReader) -> None:
    """Ask for accelerate's config file where a command names one that is not given."""
    name = "launcher.config_file"
    if not reader.has(name):
        return
    reader.get(name)
    if reader.of_other(ACCELERATE_CONFIG) is None and not reader.has("distributed_type"):
        reader.not_understood(
            name, "names a file that is not given, which says how state is sharded: give that file too"
        )
        reader.doubt("training.framework", "accelerate's config file is not given, which says DeepSpeed, FSDP or DDP")


CONFIG_OF_ACCELERATE = Importer(
    name=ACCELERATE_CONFIG,
    title="accelerate's config",
    version="accelerate 1.15",
    source="accelerate, commands/config/config_args.py, commands/launch.py and utils/dataclasses.py",
    frameworks=("accelerate",),
    marks=(
        "distributed_type",
        "compute_environment",
        "main_training_function",
        "machine_rank",
        "num_processes",
        "num_machines",
        "mixed_precision",
        "fsdp_config.*",
        "deepspeed_config.*",
        "parallelism_config.*",
        "megatron_lm_config.*",
        "launcher.use_deepspeed",
        "launcher.use_fsdp",
        "launcher.use_megatron_lm",
        "launcher.config_file",
        "launcher.deepspeed_config_file",
        "launcher.zero_stage",
        "launcher.multi_gpu",
        "launcher.mixed_precision",
        "launcher.fsdp_*",
    ),
    min_marks=1,
    defaults=_DEFAULTS,
    read=_read,
    ignored=_IGNORED,
    rank=-3,
)
