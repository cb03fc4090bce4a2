"""torchtitan: FSDP2 with the defaults that torchtitan ships."""

from __future__ import annotations

from dataclasses import replace

from sizing.frameworks.framework import (
    INTERVAL_FIELDS,
    CollectiveTimeout,
    RetentionRule,
    ShippedDefault,
    shipped_detection,
    shipped_interval,
)
from sizing.frameworks.fsdp2 import FSDP2
from sizing.provenance import Assumption

_TIMEOUT = CollectiveTimeout(
    100.0,
    "[comm] train_timeout_seconds = {seconds}",
    "pytorch/torchtitan, torchtitan/config/job_config.py, Comm, 000204a4a8bf; 300 s before the first step",
)

TORCHTITAN = replace(
    FSDP2,
    name="torchtitan",
    title="torchtitan",
    version="b5bcd76c66d0 of 2026-08-21",
    keeps={precision: kept for precision, kept in FSDP2.keeps.items() if precision != "fp16-mixed"},
    offload=replace(FSDP2.offload, moves_activations=False),
    lists_operations=True,  # selective_ac_option op, its default
    counts_layers=False,
    exchange_source="torchtitan, config/job_config.py: enable_async_tensor_parallel is off; else as FSDP2",
    retention=RetentionRule(
        "checkpoint.keep_latest_k",
        "after-save",
        "torchtitan, components/checkpointer/base.py, _purge_stale_checkpoints, purge_thread: a thread deletes, so one "
        "more is there while it does",
    ),
    # Selective recomputation is the default of all.
    defaults=(
        ShippedDefault(
            "training.precision", "bf16-mixed", "mixed_precision_param bfloat16, mixed_precision_reduce float32"
        ),
        ShippedDefault("training.optimizer", "adamw", "optimizer.name"),
        ShippedDefault("checkpoint.mode", "sync", "checkpoint.async_mode"),
        ShippedDefault("retention.keep_last", 10, "checkpoint.keep_latest_k"),
        ShippedDefault(
            "parallelism.embedding_counts_as_layer",
            True,
            "parallelism.pipeline_parallel_first_stage_less_layers",
            with_stages=True,
        ),
        ShippedDefault(
            "parallelism.loss_counts_as_layer",
            True,
            "parallelism.pipeline_parallel_last_stage_less_layers",
            with_stages=True,
        ),
        shipped_detection(_TIMEOUT.seconds, "comm.train_timeout_seconds 100"),
    ),
    keeps_base_as_trained=True,  # training.dtype float32 is that of all weights
    collective_timeout=_TIMEOUT,
    not_taken={
        INTERVAL_FIELDS: shipped_interval("torchtitan checkpoint.interval", 500),
        ("checkpoint.export",): Assumption(
            field="torchtitan checkpoint.export_dtype",
            value="float32",
            reason="of the last checkpoint of a run, which holds weights alone (checkpoint.last_save_model_only): not "
            "counted, those before it are",
        ),
    },
    source="published/framework_defaults.json; torchtitan, config/job_config.py; models/llama3, "
    "xk.view(bs, seqlen, -1, head_dim)",
)
