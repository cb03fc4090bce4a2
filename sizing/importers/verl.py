"""verl: hydra's YAML and the overrides of a launch script, for reinforcement learning and for supervised training."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from sizing.config_files.reader import BESIDE_FILES, SettingReader, choice, put_optimizer_with
from sizing.config_files.source import Unresolved
from sizing.errors import SizingError
from sizing.importers.importer import Importer
from sizing.importers.trainer_settings import count_adapters, put_adapters, tell_unknown_flags
from sizing.model.catalog import catalog, preset_of_name
from sizing.model.model import Model, resolve

_VERSION = "verl b178a3cd56f5 of 2026-01-29"

_ACTOR = "actor_rollout_ref.actor."
_MODEL = "actor_rollout_ref.model."
_DEFAULTS: dict[str, Any] = {
    "trainer.n_gpus_per_node": 8,
    "trainer.nnodes": 1,
    "trainer.save_freq": -1,
    "trainer.max_actor_ckpt_to_keep": None,
    "algorithm.adv_estimator": "gae",
    f"{_ACTOR}strategy": "fsdp",
    f"{_ACTOR}fsdp_config.model_dtype": "fp32",
    f"{_ACTOR}checkpoint.async_save": False,
    f"{_ACTOR}megatron.use_distributed_optimizer": True,
    f"{_ACTOR}megatron.sequence_parallel": True,
    f"{_ACTOR}optim.optimizer": "AdamW",
    f"{_MODEL}enable_gradient_checkpointing": True,
    f"{_MODEL}target_modules": "all-linear",
}
"""Source: verl b178a3cd56f5, verl/trainer/config/_generated_ppo_trainer.yaml, _generated_ppo_megatron_trainer.yaml."""

_SFT_DEFAULTS: dict[str, Any] = {
    "trainer.n_gpus_per_node": 8,
    "trainer.nnodes": 1,
    "trainer.save_freq": -1,
    "trainer.max_ckpt_to_keep": None,
    "model.strategy": "fsdp2",
    "model.fsdp_config.model_dtype": "fp32",
    "engine.model_dtype": "fp32",
    "model.enable_gradient_checkpointing": True,
    "model.target_modules": "all-linear",
    "optim.optimizer": "AdamW",
}
"""Source: verl b178a3cd56f5, verl/trainer/config/sft_trainer.yaml."""

_KNOWN_CONFIGS = re.compile(
    r"((one_step_off|fully_async|transfer_queue|dapo)_)?(ppo|dapo)?_?(megatron_)?trainer(\.yaml)?|sft_trainer(_engine)?(\.yaml)?"
)
"""Configs that verl ships and that leave its defaults as they are."""

_WITHOUT_CRITIC = (
    "grpo",
    "rloo",
    "remax",
    "reinforce_plus_plus",
    "reinforce_plus_plus_baseline",
    "grpo_passk",
    "opo",
    "gpg",
    "rloo_vectorized",
    "grpo_vectorized",
    "optimal_token_baseline",
    "tir_optimal_token_baseline",
)
_PRECISIONS = {
    "fp32": "bf16-mixed",
    "float32": "bf16-mixed",
    "bfloat16": "bf16",
    "bf16": "bf16",
    "torch.bfloat16": "bf16",
}
"""Precision by the dtype in which the actor's weights are loaded; FSDP computes in bfloat16."""

_DEGREES_OF_MEGATRON = {
    "tensor": "tensor_model_parallel_size",
    "pipeline": "pipeline_model_parallel_size",
    "virtual_pipeline": "virtual_pipeline_model_parallel_size",
    "context": "context_parallel_size",
    "expert": "expert_model_parallel_size",
    "expert_tensor": "expert_tensor_parallel_size",
}
_STAGES = {
    "num_layers_in_first_pipeline_stage": "parallelism.first_stage_layers",
    "num_layers_in_last_pipeline_stage": "parallelism.last_stage_layers",
    "account_for_embedding_in_pipeline_split": "parallelism.embedding_counts_as_layer",
    "account_for_loss_in_pipeline_split": "parallelism.loss_counts_as_layer",
}
_OPTIMIZER_OVERRIDES = "optim.override_optimizer_config."

_IGNORED_OF_ALL = (
    "data.*",
    "hydra.*",
    "defaults",
    "ray_init.*",
    "ray_kwargs.*",
    "global_profiler.*",
    "transfer_queue.*",
    "config_path",
    "trainer.project_name",
    "trainer.experiment_name",
    "trainer.group_name",
    "trainer.logger",
    "trainer.log_*",
    "trainer.val_*",
    "trainer.test_freq",
    "trainer.total_epochs",
    "trainer.total_training_steps",
    "trainer.default_local_dir",
    "trainer.default_hdfs_dir",
    "trainer.resume_*",
    "trainer.rollout_data_dir",
    "trainer.validation_data_dir",
    "trainer.validate_before_training",
    "trainer.critic_warmup",
    "trainer.balance_batch",
    "trainer.del_local_ckpt_after_load",
    "trainer.esi_redundant_time",
    "trainer.ray_wait_register_center_timeout",
    "trainer.device",
    "trainer.seed",
    "trainer.use_legacy_worker_impl",
    "trainer.profile_steps",
    "trainer.controller_nsight_options.*",
    "trainer.worker_nsight_options.*",
    "trainer.npu_profile.*",
)
_IGNORED = (
    *_IGNORED_OF_ALL,
    "algorithm._target_",
    "algorithm.gamma",
    "algorithm.lam",
    "algorithm.norm_adv_by_std_in_grpo",
    "algorithm.use_kl_in_reward",
    "algorithm.kl_*",
    "algorithm.use_pf_ppo",
    "algorithm.pf_ppo.*",
    "algorithm.filter_groups.*",
    "algorithm.rollout_*",
    "custom_reward_function.*",
    "reward_model.*",
    "reward_manager.*",
    "reward.*",
    "actor_rollout_ref.ref.*",
    "actor_rollout_ref.rollout.*",
    "actor_rollout_ref.hybrid_engine",
    "actor_rollout_ref.nccl_timeout",
    "actor_rollout_ref._target_",
    "rollout.*",
    "async_training.*",
    "env.*",
    *(
        f"{_ACTOR}{name}"
        for name in (
            "_target_",
            "rollout_n",
            "ppo_mini_batch_size",
            "ppo_epochs",
            "ppo_max_token_len_per_gpu",
            "clip_*",
            "tau_*",
            "policy_loss.*",
            "loss_agg_mode",
            "loss_scale_factor",
            "loss_mode",
            "entropy_*",
            "calculate_entropy",
            "use_kl_loss",
            "kl_loss_*",
            "use_prefix_grouper",
            "use_torch_compile",
            "shuffle",
            "data_loader_seed",
            "use_fused_kernels",
            "use_remove_padding",
            "profiler.*",
            "profile.*",
            "router_replay.*",
            "grad_clip",
            "load_weight",
            "calculate_sum_pi_squared",
            "sum_pi_squared_checkpointing",
            "checkpoint._target_",
            "checkpoint.load_contents",
            "optim._target_",
            "optim.optimizer_impl",
            "optim.lr*",
            "optim.min_lr*",
            "optim.weight_decay*",
            "optim.betas",
            "optim.clip_grad",
            "optim.num_cycles",
            "optim.warmup_style",
            "optim.total_training_steps",
            "optim.use_checkpoint_opt_param_scheduler",
            "optim.override_optimizer_config.overlap_cpu_optimizer_d2h_h2d",
            "optim.override_optimizer_config.use_precision_aware_optimizer",
            "optim.override_optimizer_config",
            "fsdp_config._target_",
            "fsdp_config.wrap_policy.*",
            "fsdp_config.reshard_after_forward",
            "fsdp_config.forward_prefetch",
            "fsdp_config.use_orig_params",
            "fsdp_config.seed",
            "fsdp_config.full_determinism",
            "fsdp_config.entropy_*",
            "fsdp_config.use_torch_compile",
            "fsdp_config.forward_only",
            "fsdp_config.strategy",
            "fsdp_config.ulysses_sequence_parallel_size",
            "fsdp_config.mixed_precision.reduce_dtype",
            "fsdp_config.mixed_precision.buffer_dtype",
            "megatron._target_",
            "megatron.seed",
            "megatron.strategy",
            "megatron.dist_checkpointing_*",
            "megatron.vanilla_mbridge",
            "megatron.use_remove_padding",
            "megatron.override_ddp_config.*",
            "megatron.override_mcore_model_config.*",
            "megatron.forward_only",
            "megatron.override_transformer_config.recompute_modules",
            "megatron.override_transformer_config.recompute_method",
            "megatron.override_transformer_config.attention_backend",
            "megatron.override_transformer_config.use_flash_attn",
            "megatron.override_transformer_config.moe_*",
            "megatron.override_transformer_config.*_fusion",
            "megatron.override_transformer_config.persist_layer_norm",
            "megatron.override_transformer_config.deallocate_pipeline_outputs",
            "megatron.override_transformer_config.variable_seq_lengths",
        )
    ),
    *(
        f"{_MODEL}{name}"
        for name in (
            "_target_",
            "hf_config_path",
            "tokenizer_path",
            "use_shm",
            "trust_remote_code",
            "custom_chat_template",
            "external_lib",
            "override_config.max_position_embeddings",
            "override_config.attn_implementation",
            "override_config.attention_dropout",
            "override_config.embd_pdrop",
            "override_config.resid_pdrop",
            "override_config.model_config.max_position_embeddings",
            "override_config.moe_config.freeze_moe_router",
            "use_remove_padding",
            "lora_alpha",
            "exclude_modules",
            "lora_adapter_path",
            "use_liger",
            "use_fused_kernels",
            "fused_kernel_options.*",
            "tiled_mlp.*",
            "lora.alpha",
            "lora.dropout*",
            "lora.lora_*",
            "lora.type",
            "lora.merge",
            "lora.exclude_modules",
            "lora.a2a_experimental",
            "lora.dtype",
            "lora.adapter_path",
            "lora.freeze_*",
            "mtp.*",
        )
    ),
)
_IGNORED_OF_SFT = (
    *_IGNORED_OF_ALL,
    "model.use_shm",
    "model.external_lib",
    "model.trust_remote_code",
    "model.lora_alpha",
    "model.use_liger",
    "model.use_remove_padding",
    "model.fsdp_config.wrap_policy.*",
    "model.override_config",
    "use_remove_padding",
    "optim.lr*",
    "optim.min_lr*",
    "optim.weight_decay",
    "optim.betas",
    "optim.clip_grad",
    "optim.warmup_*",
    "optim",
    "checkpoint.load_contents",
    "trainer.checkpoint.load_contents",
    "engine.use_mbridge",
    "engine.vanilla_mbridge",
    "profiler.*",
)


class _Values:
    """Values of verl's settings, with its defaults; text in a script stands for a number or a switch too."""

    def __init__(self, reader: SettingReader) -> None:
        self._reader = reader

    def get(self, name: str, default: Any = None) -> Any:
        """Return the value of a setting, or verl's default, or `default`."""
        value = self._reader.path(name)
        return default if value is None else value

    def number(self, name: str) -> int | None:
        """Return the value of a setting that is a whole number, also as text; None for others."""
        value = self.get(name)
        if isinstance(value, str) and value.isdecimal():
            return int(value)
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    def is_on(self, name: str) -> bool:
        """Whether a setting is true, as YAML or a command writes it; 1 is true too."""
        return str(self.get(name)).lower() in ("true", "1")


def _read(reader: SettingReader) -> None:
    values = _Values(reader)
    _put_gpus(reader, values)
    strategy = _read_strategy(reader, values)
    path = values.get(f"{_MODEL}path")
    if path is not None:
        reader.put_model(path, f"{_MODEL}path")
    elif not reader.has(f"{_MODEL}path"):
        reader.need("model.preset", "the policy's path is not given")
    if strategy == "megatron":
        _read_megatron(reader, values)
    elif strategy in ("fsdp", "fsdp2"):
        _read_fsdp(reader, values, f"{_ACTOR}fsdp_config.", ulysses=f"{_ACTOR}ulysses_sequence_parallel_size")
    _read_adapters(reader, values)
    keeps = ["trainer.max_actor_ckpt_to_keep", "trainer.max_critic_ckpt_to_keep"]
    if not _read_critic(reader, values, strategy):
        reader.ignore(keeps.pop())
    if strategy == "megatron" and not reader.has(f"{_ACTOR}optim.optimizer"):
        reader.put("training.optimizer", "adam", f"{_ACTOR}optim.optimizer")
    else:
        put_optimizer_with(reader, f"{_ACTOR}optim.optimizer", f"{_ACTOR}{_OPTIMIZER_OVERRIDES}")
    _read_step(reader, values)
    for name in ("gpu_memory_utilization", "free_cache_engine"):
        why = "is of the inference engine on the same GPUs, whose memory is not counted"
        reader.not_understood(f"actor_rollout_ref.rollout.{name}", why)
    why = "is of the reference model on the same GPUs, whose memory is not counted"
    reader.not_understood("actor_rollout_ref.ref.fsdp_config.param_offload", why)
    _read_checkpoint(reader, values, f"{_ACTOR}checkpoint.", keeps=keeps)
    reader.need("training.step_seconds", "a step of reinforcement learning also makes samples, which is not computed")
    tell_unknown_flags(reader)


def _put_gpus(reader: SettingReader, values: _Values) -> None:
    """Set the GPUs that train. They go before those of a job, which may also have nodes that only make samples."""
    names = ("trainer.n_gpus_per_node", "trainer.nnodes")
    known = reader.draft.fields.get("cluster.num_gpus")
    per_node, nodes = (values.number(name) for name in names)
    is_given = any(map(reader.has, names))
    if known is not None and (known.place == BESIDE_FILES or not is_given):
        return
    if per_node is None or nodes is None:
        if known is None:
            reader.need("cluster.num_gpus", "trainer.nnodes and trainer.n_gpus_per_node say it")
        return
    reader.draft.leave_out("cluster.num_gpus", "is the whole job's; trainer.nnodes says the nodes that train")
    reader.put("cluster.num_gpus", per_node * nodes, *names)


def _read_strategy(reader: SettingReader, values: _Values) -> str | None:
    """Set the framework by the actor's strategy, which a config that verl ships may say by its name."""
    config = str(reader.get("config_name", None) or "")
    engine = str(reader.get("model_engine", None) or "")
    if config and not _KNOWN_CONFIGS.fullmatch(config) and reader.source.document is None:
        reader.not_understood(
            "config_name", "names a file that is not given, whose settings stand below: give that file too"
        )
        reader.doubt("training.framework", f"the settings of {config} are not given")
    name = f"{_ACTOR}strategy"
    strategy = str(values.get(name)).lower()
    if not reader.has(name):
        of_megatron = any(key.startswith(f"{_ACTOR}megatron.") for key in reader.source.settings)
        strategy = "megatron" if "megatron" in config or engine == "megatron" or of_megatron else strategy
    if strategy == "megatron":
        reader.put_framework("megatron")
    elif strategy in ("fsdp", "fsdp2"):
        reader.put_framework("fsdp2")
    else:
        reader.not_understood(name, "is no strategy that is known here")
        reader.need("training.framework", f"the actor's strategy is {strategy}")
    reader.get(name)
    return strategy


def _read_fsdp(reader: SettingReader, values: _Values, config: str, *, ulysses: str) -> None:
    """Read FSDP as the actor and the supervised trainer have it."""
    _put_unless_one(reader, values, "parallelism.context", ulysses)
    data = reader.put_data_degree(context=ulysses)
    size = values.number(f"{config}fsdp_size")
    ranks = None if data is None else data * (reader.draft.value("parallelism.context") or 1)
    if size is not None and size > 0 and (ranks is None or size < ranks):
        reader.put("parallelism.shard_group", size, f"{config}fsdp_size")
    dtype = f"{config}model_dtype"
    became = reader.take("training.precision", dtype, choice(_PRECISIONS, "dtype"))
    computes_in = values.get(f"{config}dtype") or values.get(f"{config}mixed_precision.param_dtype")
    if became is None:
        reader.need("training.precision", f"{dtype} says it")
    elif computes_in is not None and str(computes_in) not in ("bfloat16", "bf16"):
        for name in (f"{config}dtype", f"{config}mixed_precision.param_dtype"):
            reader.not_understood(name, "is another dtype than bfloat16: give training.precision")
        reader.need("training.precision", f"FSDP computes in {computes_in}")
    for name in ("offload_policy", "cpu_offload", "offload_params"):
        if values.is_on(f"{config}{name}"):
            reader.put("training.offload.optimizer", "host", f"{config}{name}")
            reader.put("training.offload.weights", "host", f"{config}{name}")
    _tell_moves(reader, values, config)
    reader.need("checkpoint.format", "each rank saves files of its own by torch.save, of the bytes of fsdp-sharded")


def _tell_moves(reader: SettingReader, values: _Values, config: str) -> None:
    """Count moves of state to the host between training and making samples as without effect on files."""
    for name in ("param_offload", "optimizer_offload", "grad_offload"):
        if values.is_on(f"{config}{name}"):
            reader.not_understood(f"{config}{name}", "moves state to the host while samples are made: files stay")


def _put_unless_one(reader: SettingReader, values: _Values, path: str, name: str) -> None:
    size = values.number(name)
    if size is not None and size > 1:
        reader.put(path, size, name)
    elif reader.has(name) and isinstance(reader.source.settings[name].value, Unresolved):
        reader.need(path, f"{name} is not said")


def _read_megatron(reader: SettingReader, values: _Values, block: str = f"{_ACTOR}megatron.") -> None:
    for axis, name in _DEGREES_OF_MEGATRON.items():
        _put_unless_one(reader, values, f"parallelism.{axis}", f"{block}{name}")
        if axis == "expert_tensor" and values.number(f"{block}{name}") == 1:
            reader.put("parallelism.expert_tensor", 1, f"{block}{name}")
    reader.put_data_degree(
        **{axis: f"{block}{_DEGREES_OF_MEGATRON[axis]}" for axis in ("tensor", "pipeline", "context")}
    )
    overrides = f"{block}override_transformer_config."
    for name, path in _STAGES.items():
        value = values.get(f"{overrides}{name}")
        if value is not None:
            reader.put(path, value, f"{overrides}{name}")
    reader.put("training.precision", "bf16-mixed", f"{block}dtype")
    if str(values.get(f"{block}dtype", "bfloat16")) not in ("bfloat16", "bf16"):
        reader.not_understood(f"{block}dtype", "is another dtype than bfloat16: give training.precision")
        reader.need("training.precision", "Megatron's dtype is not bfloat16")
    divides = values.get(f"{block}use_distributed_optimizer", default=True)
    reader.put("training.distributed_optimizer", divides is True, f"{block}use_distributed_optimizer")
    _read_steps_of_megatron(reader, values, block)
    is_whole = (
        values.is_on(f"{block}use_dist_checkpointing") or values.get(f"{block}use_mbridge", default=True) is False
    )
    if not is_whole:
        why = "weights are saved in Hugging Face format, optimizer and random states by torch-dist"
        reader.doubt("checkpoint.format", why)
    _tell_moves(reader, values, block)


def _read_steps_of_megatron(reader: SettingReader, values: _Values, block: str) -> None:
    shares, overrides = f"{block}sequence_parallel", f"{block}override_transformer_config."
    if reader.has(shares) and (reader.draft.value("parallelism.tensor") or 1) > 1:
        reader.put("training.sequence_parallel", values.is_on(shares), shares)
    reader.ignore(shares)
    recompute = values.get(f"{overrides}recompute_granularity")
    count = values.number(f"{overrides}recompute_num_layers")
    if recompute in ("full", "selective"):
        reader.put("training.recomputation", recompute, f"{overrides}recompute_granularity")
    if recompute == "full" and count is not None and values.get(f"{overrides}recompute_method") == "block":
        reader.put("training.recomputed_layers", count, f"{overrides}recompute_num_layers")


def _read_adapters(reader: SettingReader, values: _Values) -> None:
    rank_name = next(
        (name for name in (f"{_MODEL}lora_rank", f"{_MODEL}lora.rank") if (values.number(name) or 0) > 0), None
    )
    if rank_name is None:
        reader.ignore(
            *(f"{_MODEL}{name}" for name in ("lora_rank", "lora.rank", "lora.target_modules", "target_modules"))
        )
        return
    if rank_name.endswith("lora.rank"):
        targets = f"{_MODEL}lora.target_modules"
        reader.put("training.adapters.rank", values.number(rank_name), rank_name)
        if reader.has(targets):
            reader.not_understood(targets, "are modules of Megatron: give training.adapters.tensors")
        reader.need("training.adapters.tensors", "target_modules are modules of Megatron")
        return
    _put_adapters(reader, _MODEL, f"{_ACTOR}fsdp_config.model_dtype")


def _put_adapters(reader: SettingReader, model: str, dtype_name: str) -> None:
    """Set adapters of a model that FSDP shards: its shards hold the frozen weights too, in the dtype of all.

    Source: verl, workers/fsdp_workers.py, _build_model_optimizer: `actor_module.to(torch_dtype)` before PEFT wraps it.
    """
    put_adapters(
        reader,
        rank_name=f"{model}lora_rank",
        targets_name=f"{model}target_modules",
        default_targets="all-linear",
        saves_base=True,
    )
    if reader.draft.value("training.precision") == "bf16-mixed":
        reader.put("training.adapters.base_dtype", "fp32", dtype_name)


_OF_CRITIC_WITH_FSDP = {
    "critic.model.fsdp_config.model_dtype": f"{_ACTOR}fsdp_config.model_dtype",
    "critic.model.fsdp_config.fsdp_size": f"{_ACTOR}fsdp_config.fsdp_size",
    "critic.ulysses_sequence_parallel_size": f"{_ACTOR}ulysses_sequence_parallel_size",
}
_OF_CRITIC = {"critic.strategy": f"{_ACTOR}strategy", "critic.optim.optimizer": f"{_ACTOR}optim.optimizer"}
"""Settings of the critic, which is counted like the actor, and those of the actor."""
_VALUES_OF_CRITIC = {
    "critic.model.fsdp_config.model_dtype": "fp32",
    "critic.model.fsdp_config.fsdp_size": -1,
    "critic.ulysses_sequence_parallel_size": 1,
    "critic.optim.optimizer": "AdamW",
}
"""What holds of the critic where no setting says it, and the actor may have otherwise. Source: as _DEFAULTS."""


def _read_critic(reader: SettingReader, values: _Values, strategy: str | None) -> bool:
    """Set the critic's parameters, and return whether there is one: with the estimator gae, or by critic.enable."""
    estimator = str(values.get("algorithm.adv_estimator")).lower().rpartition(".")[2]
    enabled = values.get("critic.enable")
    has_critic = estimator == "gae" if enabled is None else enabled is True
    if not has_critic:
        if enabled is None and estimator not in _WITHOUT_CRITIC:
            reader.need("training.reinforcement.critic_parameters", f"{estimator} may have a critic")
        reader.ignore("critic.*")
        return False
    field = "training.reinforcement.critic_parameters"
    path = values.get("critic.model.path")
    preset = preset_of_name(path) if isinstance(path, str) else None
    if preset is None:
        if reader.has("critic.model.path"):
            reader.not_understood("critic.model.path", "is no model of the catalog: give the critic's parameters")
        reader.need(field, "the estimator gae trains a critic, whose model is not known here")
    else:
        names = ("critic.model.path", *(["algorithm.adv_estimator"] if reader.has("algorithm.adv_estimator") else []))
        note = "a head of one value in place of the vocabulary's"
        if preset != reader.draft.value("model.preset"):
            note += "; of another model than the actor, which it is laid out like"
        put_critic(reader, values, preset, names=names, note=note)
    of_strategy = _OF_CRITIC_WITH_FSDP
    if strategy == "megatron":
        names = (*_DEGREES_OF_MEGATRON.values(), "dtype", "use_distributed_optimizer")
        of_strategy = {f"critic.megatron.{name}": f"{_ACTOR}megatron.{name}" for name in names}
    for name, of_actor in (_OF_CRITIC | of_strategy).items():
        shipped = None if strategy == "megatron" else _VALUES_OF_CRITIC.get(name)
        own, other = values.get(name, shipped), values.get(of_actor, shipped)
        if own is None or own == other or (other is None and own in (1, -1)):
            continue
        if reader.has(name):
            reader.not_understood(name, f"differs from the actor's {of_actor}: the critic is counted like the actor")
        else:
            why = f"{name} is {own} by default, unlike the actor's: the critic is counted like the actor"
            reader.doubt(field, why)
    reader.ignore("critic.*")
    return True


def put_critic(reader: SettingReader, values: _Values, preset: str, *, names: Sequence[str], note: str) -> None:
    """Set the parameters of a critic of that model; with adapters beside it, what is trained and what is frozen.

    Its shards hold the frozen weights too. Source: verl, workers/fsdp_workers.py, _build_critic_model_optimizer, and
    trainer/config/critic/dp_critic.yaml, whose target_modules are all-linear.
    """
    rank, targets = "critic.model.lora_rank", "critic.model.target_modules"
    field = "training.reinforcement.critic_parameters"
    if values.number("critic.model.lora.rank"):
        reader.not_understood("critic.model.lora.rank", "gives the critic adapters of Megatron, which are not counted")
        reader.doubt(field, "the critic is trained by adapters of Megatron, and counted as trained whole")
    if not values.number(rank):
        reader.put(field, count_critic(preset), *names, note=note)
        return
    try:
        num_trained = count_adapters(preset, rank=values.number(rank) or 0, targets=values.get(targets, "all-linear"))
    except SizingError as error:
        reader.not_understood(rank, f"gives the critic adapters that are not known here: {error}")
        reader.need(field, "the critic is trained by adapters")
        return
    reader.put(field, num_trained, rank, targets, note=f"of the critic's adapters; {note}")
    frozen = "training.reinforcement.saved_frozen_parameters"
    reader.put(frozen, count_critic(preset), *names, note="frozen weights under the critic's adapters")


def count_critic(preset: str) -> int:
    """Count the parameters of a model of the catalog with a head of one value in place of its own.

    >>> count_critic("qwen2-7b") == 7_615_616_512 - 152_064 * 3_584 + 3_584 + 1
    True
    """
    inventory = resolve(Model(preset=preset)).inventory
    architecture = catalog()[preset].architecture
    hidden = architecture.hidden_size if architecture else next(g.shape[1] for g in inventory if g.role == "embedding")
    head = sum(group.num_parameters for group in inventory if group.name == "output_head")
    return sum(group.num_parameters for group in inventory) - head + hidden + 1


def _read_step(reader: SettingReader, values: _Values) -> None:
    overrides = f"{_ACTOR}{_OPTIMIZER_OVERRIDES}"
    if values.is_on(f"{overrides}optimizer_cpu_offload"):
        reader.put("training.offload.optimizer", "host", f"{overrides}optimizer_cpu_offload")
        fraction = values.get(f"{overrides}optimizer_offload_fraction")
        if isinstance(fraction, int | float) and not isinstance(fraction, bool) and 0 < fraction < 1:
            reader.put("training.offload.optimizer_fraction", fraction, f"{overrides}optimizer_offload_fraction")
    lengths = [values.number(name) for name in ("data.max_prompt_length", "data.max_response_length")]
    micro = values.number(f"{_ACTOR}ppo_micro_batch_size_per_gpu")
    values.get(f"{_ACTOR}ppo_micro_batch_size")
    is_dynamic = values.is_on(f"{_ACTOR}use_dynamic_bsz")
    if micro and None not in lengths and not is_dynamic:
        names = ("data.max_prompt_length", "data.max_response_length")
        reader.put("training.sequence_length", sum(each or 0 for each in lengths), *names)
        reader.put("training.micro_batch_size", micro, f"{_ACTOR}ppo_micro_batch_size_per_gpu")
    name = f"{_MODEL}enable_gradient_checkpointing"
    if reader.draft.value("training.recomputation") is None and reader.draft.value("training.framework") == "fsdp2":
        reader.put("training.recomputation", "full" if values.is_on(name) else "none", name)
    values.get(name)
    if values.is_on(f"{_MODEL}enable_activation_offload"):
        reader.not_understood(f"{_MODEL}enable_activation_offload", "give training.offload.activations_fraction")
    if values.is_on(f"{_ACTOR}freeze_vision_tower"):
        reader.not_understood(f"{_ACTOR}freeze_vision_tower", "trains the language model alone: give training.frozen")
        reader.need("training.frozen", "freeze_vision_tower is on")


def _read_checkpoint(reader: SettingReader, values: _Values, block: str, *, keeps: Sequence[str]) -> None:
    """Set interval, retention, mode and content of checkpoints.

    `keeps`: settings that limit the checkpoints of the actor, and of the critic where there is one, which verl removes
    each for itself (ray_trainer.py, _save_checkpoint). A run that keeps more of one than of the other counts the more.
    """
    every = values.get("trainer.save_freq")
    if isinstance(every, int) and every > 0:
        reader.put("checkpoint.interval_steps", every, "trainer.save_freq")
    else:
        reader.not_understood("trainer.save_freq", "saves after the last step alone, or is not known here")
        reader.need("checkpoint.interval_seconds", "trainer.save_freq says no number of steps")
    limits = {name: max(values.number(name) or 0, 0) for name in keeps}
    if values.is_on("trainer.remove_previous_ckpt_in_save"):
        reader.put("retention.keep_last", 1, "trainer.remove_previous_ckpt_in_save")
    elif not limits[keeps[0]]:
        reader.need("retention.keep_last", "all checkpoints of the run are kept")
    else:
        reader.put("retention.keep_last", max(limits.values()), *filter(limits.get, keeps))
        if not all(limits.values()):
            reader.doubt("retention.keep_last", f"all checkpoints of the critic are kept without {keeps[-1]}")
        elif len(set(limits.values())) > 1:
            reader.doubt("retention.keep_last", f"{' and '.join(keeps)} differ: the larger counts for both")
    values.get("trainer.remove_previous_ckpt_in_save")
    reader.put("checkpoint.mode", "async" if values.is_on(f"{block}async_save") else "sync", f"{block}async_save")
    contents = reader.first(f"{block}save_contents", f"{block}contents")
    parts = values.get(contents, ["model", "optimizer", "extra"])
    parts = [str(each) for each in parts] if isinstance(parts, list) else re.findall(r"\w+", str(parts))
    if "optimizer" not in parts:
        reader.put("training.saved_state", {"master": None, "moments": None}, contents, note="without the optimizer")
    if "hf_model" in parts:
        reader.put("checkpoint.export.every", 1, contents)
        if (reader.draft.value("training.framework"), reader.draft.value("training.precision")) == (
            "fsdp2",
            "bf16-mixed",
        ):
            # fsdp_checkpoint_manager.py passes FSDP's own fp32 shards to save_pretrained, though its model is bfloat16.
            reader.put("checkpoint.export.dtype", "fp32", contents)
    if "model" not in parts:
        reader.not_understood(contents, "leaves the weights out: give training.saved_state")
        reader.need("training.saved_state", f"{contents} leaves the weights out")


def _read_sft(reader: SettingReader) -> None:
    values = _Values(reader)
    if reader.draft.value("cluster.num_gpus") is None or reader.has("trainer.nnodes"):
        _put_gpus(reader, values)
    path = reader.first("model.partial_pretrain", "model.path")
    value = values.get(path)
    if value is not None:
        reader.put_model(value, path)
    strategy = reader.first("engine.strategy", "model.strategy")
    kind = str(values.get(strategy)).lower()
    if str(reader.get("engine", None)) == "megatron" or kind == "megatron":
        reader.put_framework("megatron")
        _read_megatron(reader, values, "engine.")
    else:
        reader.put_framework("fsdp2")
        config = (
            "engine." if any(name.startswith("engine.") for name in reader.source.settings) else "model.fsdp_config."
        )
        ulysses = reader.first("ulysses_sequence_parallel_size", "engine.ulysses_sequence_parallel_size")
        _read_fsdp(reader, values, config, ulysses=ulysses)
    if (values.number("model.lora_rank") or 0) > 0:
        _put_adapters(reader, "model.", "model.fsdp_config.model_dtype")
    else:
        reader.ignore("model.lora_rank", "model.target_modules")
    put_optimizer_with(reader, "optim.optimizer", _OPTIMIZER_OVERRIDES)
    micro, length = values.number("data.micro_batch_size_per_gpu"), values.number("data.max_length")
    if micro and length:
        reader.put("training.sequence_length", length, "data.max_length")
        reader.put("training.micro_batch_size", micro, "data.micro_batch_size_per_gpu")
    name = "model.enable_gradient_checkpointing"
    reader.put("training.recomputation", "full" if values.is_on(name) else "none", name)
    block = (
        "checkpoint."
        if any(each.startswith("checkpoint.") for each in reader.source.settings)
        else "trainer.checkpoint."
    )
    _read_checkpoint(reader, values, block, keeps=("trainer.max_ckpt_to_keep",))
    tell_unknown_flags(reader)


VERL = Importer(
    name="verl",
    title="verl",
    version=_VERSION,
    source="verl, verl/trainer/config",
    frameworks=("fsdp2", "megatron"),
    marks=(
        "actor_rollout_ref.model.path",
        "actor_rollout_ref.actor.*",
        "actor_rollout_ref.rollout.*",
        "actor_rollout_ref.*",
        "algorithm.adv_estimator",
        "trainer.n_gpus_per_node",
        "trainer.nnodes",
        "trainer.save_freq",
        "critic.*",
    ),
    min_marks=2,
    defaults=_DEFAULTS,
    read=_read,
    ignored=_IGNORED,
)

VERL_SFT = Importer(
    name="verl-sft",
    title="verl SFT",
    version=_VERSION,
    source="verl, verl/trainer/config/sft_trainer.yaml",
    frameworks=("fsdp2", "megatron"),
    marks=(
        "model.partial_pretrain",
        "data.train_files",
        "data.micro_batch_size_per_gpu",
        "trainer.default_local_dir",
        "trainer.experiment_name",
        "trainer.total_epochs",
        "model.fsdp_config.*",
        "engine.*",
        "ulysses_sequence_parallel_size",
        "data.prompt_key",
        "optim.lr",
        "trainer.project_name",
    ),
    min_marks=3,
    defaults=_SFT_DEFAULTS,
    read=_read_sft,
    ignored=_IGNORED_OF_SFT,
)
