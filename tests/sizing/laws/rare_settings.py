"""Settings that random scenarios leave open, on top of runs that take them."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

from sizing.errors import InvalidInput
from sizing.field_paths import with_fields
from sizing.report import answer

_OF_ALL: dict[str, Any] = {
    "training.sequence_length": 4096,
    "training.micro_batch_size": 1,
    "training.global_batch_size": 1024,
    "checkpoint.interval_seconds": 1800,
    "storage.profile.write_bytes_per_second": 4e11,
    "storage.profile.read_bytes_per_second": 8e11,
    "reliability.failures_per_node_day": 0.01,
    "targets.min_goodput_fraction": 0.95,
}
"""What lets a scenario tell memory, time of a step, restores and losses."""
RUNS: tuple[dict[str, Any], ...] = (
    {
        "model.preset": "deepseek-v3",
        "parallelism": {"pipeline": 8, "expert": 32, "data": 64, "virtual_pipeline": 2, "tensor": 2},
        "parallelism.layers_per_stage": [3, *[4] * 14, 2],
        "training.distributed_optimizer": True,
        "checkpoint.mode": "async",
    },
    {"model.preset": "gpt3-175b", "parallelism": {"tensor": 8, "pipeline": 4, "data": 16}},
    {"model.preset": "llama-3.1-70b", "training.framework": "fsdp2", "parallelism": {"data": 128}},
    {"model.preset": "qwen2.5-7b", "training.framework": "deepspeed", "parallelism": {"data": 64, "zero_stage": 1}},
    {"model.preset": "mixtral-8x7b", "training.framework": "maxtext", "parallelism": {"data": 64}},
)
"""Runs, of a mixture of experts and of dense models, with their fields by dotted path."""
_ON_MEGATRON_FSDP: dict[str, Any] = {
    "checkpoint.format": "fsdp-dtensor",
    "training.distributed_optimizer": True,
    "parallelism.pipeline": 1,
}
_OF_BARE_COUNTS: dict[str, Any] = {
    "model.preset": None,
    "parallelism.layers_per_stage": None,
    "model.num_parameters": 10**11,
    "model.num_active_parameters": 2 * 10**10,
    "model.num_experts": 64,
}
_OF_LISTED_TENSORS: dict[str, Any] = {
    "model.preset": None,
    "parallelism.layers_per_stage": None,
    "model.num_attention_heads": 32,
    "model.num_kv_heads": 8,
    "model.tensors": [
        {"name": "model.embed_tokens.weight", "shape": [128_256, 4096]},
        {"name": "model.layers.{0..31}.self_attn.qkv_proj.weight", "shape": [6144, 4096]},
        {"name": "model.layers.{0..31}.self_attn.o_proj.weight", "shape": [4096, 4096]},
        {"name": "model.layers.{0..31}.input_layernorm.weight", "shape": [4096]},
        {"name": "model.layers.{0,2..31}.mlp.experts.{0..7}.up_proj.weight", "shape": [1536, 4096]},
        {"name": "model.layers.{0,2..31}.mlp.experts.{0..7}.down_proj.weight", "shape": [4096, 1536]},
        {"name": "model.layers.{0..31}.mixer.unheard_of", "shape": [77, 4096]},
        {"name": "lm_head.weight", "shape": [128_256, 4096]},
    ],
}
_OPTIMIZERS = (
    "ademamix-8bit",
    "lion-8bit",
    "adam-4bit",
    "adam-fp8",
    "schedule-free-adamw",
    "soap",
    "shampoo",
    "rmsprop",
)
RARE: tuple[dict[str, Any], ...] = (
    _OF_BARE_COUNTS,
    _OF_LISTED_TENSORS,
    *({"training.optimizer": optimizer} for optimizer in _OPTIMIZERS),
    {"parallelism.shard_group": 16},
    {"parallelism.expert_tensor": 1},
    {"training.recomputation": "full"},
    {"training.attention": "eager", "training.loss": "eager"},
    {"training.sequence_parallel": True},
    {"training.expert_dispatch": "deepep"},
    {"training.num_tokens": 10**12, "training.critical_batch_tokens": 4 * 10**6},
    {"training.step_seconds": 7.3, "checkpoint.interval_steps": 200, "checkpoint.interval_seconds": None},
    {"training.gradient_compression": {"method": "powersgd", "rank": 4}},
    {"training.gradient_compression": {"method": "top-k"}},
    {"training.gradient_compression": {"method": "qsgd"}},
    {"training.gradient_compression": {"method": "1-bit-adam"}},
    {
        "training.recomputation": "selective",
        "training.recompute_modules": ["core-attn", "layernorm", "mla-up-proj", "moe-act"],
    },
    {"training.offload": {"optimizer": "host"}},
    {"training.offload": {"activations_fraction": 0.5}},
    {"training.adapters": {"rank": 16}},
    {"training.frozen": ["attention"]},
    {"training.reinforcement": {"critic_parameters": 10**9, "publication": {"interval_seconds": 120}}},
    {"training.reinforcement": {"publication": {"interval_seconds": 60, "over": "storage", "content": "delta"}}},
    {"parallelism.virtual_pipeline": 2, "parallelism.pipeline": 2},
    {"parallelism.context": 2, "parallelism.pipeline": 2},
    {"checkpoint.files_per_rank": 3},
    _ON_MEGATRON_FSDP,
    {**_ON_MEGATRON_FSDP, "parallelism.shard_group": 8},
    {"checkpoint.format": "megatron-distributed-optimizer", "training.distributed_optimizer": True},
    {"checkpoint.format": "full"},
    {"checkpoint.cached_plans": True, "storage.profile.planning_seconds_per_rank": 0.02},
    {"checkpoint.restore_parallelism": {"data": 2}},
    {"checkpoint.reduction": {"partial_experts": {"num_per_save": 2, "full_every": 5}}},
    {"checkpoint.reduction": {"delta": {"full_every": 6, "fraction": 0.2, "bytes_per_second": 2e9}}},
    {"checkpoint.reduction": {"compression": {}}},
    {"checkpoint.export": {"every": 3, "keep": 4, "written_by": "every-rank"}},
    {"storage.profile.write_cache_bytes": 10**11, "storage.profile.beyond_cache_write_bytes_per_second": 2e10},
    {"storage.profile.node_write_contention_fraction": 0.02, "storage.profile.node_write_bytes_per_second": 5e9},
    {"storage.profile.stripe_write_bytes_per_second": 1e9, "storage.profile.write_stripe_count": 16},
    {"storage.io": "buffered", "storage.profile.node_buffered_write_bytes_per_second": 2e10},
    {"reliability.failures_per_node_day": None, "reliability.preset": "rsc-1"},
    {
        "reliability.failures_per_node_day": None,
        "reliability.components": [{"name": "software", "per": "node", "mtbf_seconds": 9e6, "loss_domain": "process"}],
        "checkpoint.tiers": [
            {"kind": "peer-memory", "interval_seconds": 300},
            {
                "kind": "object-store",
                "interval_seconds": 86_400,
                "keep": 3,
                "storage": {"profile": {"write_bytes_per_second": 2e10}},
            },
        ],
    },
    {"reliability.strategy": "spares", "reliability.spares": {"num": 4}, "reliability.repair_seconds": 86400},
    {"reliability.strategy": "peers", "reliability.step_seconds": 8},
    {
        "reliability.strategy": "shrink",
        "reliability.shrink": {"regroup_seconds": 60},
        "reliability.repair_seconds": 86400,
        "reliability.step_seconds": 8,
    },
    {"reliability.preemption": {"per_hour": 0.05, "capacity_wait_seconds": 1800, "notice_seconds": 120}},
    {"reliability.data_skip": {"num_batches": 3000, "batches_per_second": 40}},
    {
        "reliability.failures_per_node_day": None,
        "reliability.components": [
            {"name": "software", "mtbf_seconds": 9e6, "loss_domain": "process"},
            {"name": "GPU", "per": "gpu", "mtbf_seconds": 2e8},
        ],
        "checkpoint.drain_survives": ["process"],
    },
    {"retention.keep_last": 3, "retention.keep_best": 2},
    {"retention.keep_weights_every": 4, "retention.run_seconds": 2_592_000, "retention.redundancy_fraction": 0.25},
    {"retention.disk_bytes": 10**14},
    {"retention.disk_bytes": 10**14, "retention.free_fraction": 0.1, "checkpoint.export": {"every": 2, "keep": 3}},
    {"costs.per_terabyte": 90, "costs.per_gigabyte_per_second": 4000},
    {"costs.per_lost_gpu_hour": 2.8, "costs.run_seconds": 7_776_000},
)
"""Settings that random scenarios leave open; None leaves a field of a run open. None of them fits all runs."""


def on_top_of(run: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """The scenario of a run with some settings."""
    return with_fields({}, {path: value for path, value in {**_OF_ALL, **run, **settings}.items() if value is not None})


def taken_by_one_run(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The scenario of the first run that takes some settings."""
    for run in RUNS:
        scenario = on_top_of(run, settings)
        with contextlib.suppress(InvalidInput):
            answer(scenario)
            return scenario
    raise AssertionError(f"no run takes {settings}")
