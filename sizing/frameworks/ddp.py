"""Trainers in which every replica holds all state, as DDP does, unless the scenario gives FSDP a shard group."""

from __future__ import annotations

from dataclasses import replace

from sizing.frameworks.framework import (
    TORCH_TIMEOUT,
    CollectiveTimeout,
    RetentionRule,
    ShippedDefault,
    SmallFile,
    shipped_detection,
)
from sizing.frameworks.fsdp2 import FSDP2
from sizing.state.training import Precision

# Bytes of small files: of runs of transformers 5.23.0 and accelerate 1.15.0 with torch 2.13.0 on two CPUs, by a
# learning rate of LambdaLR. A random state has 16 more for each GPU of the node, a trainer's state some 150 more for
# each line of its log.
_OF_TRAINERS: tuple[Precision, ...] = ("bf16-mixed", "fp16-mixed", "fp32", "bf16")
"""Precisions of autocast, which keeps the weights as they were loaded, fp32 or bf16."""

DDP = replace(
    FSDP2,
    name="ddp",
    title="PyTorch DDP",
    shards="shard-group",
    gradient_exchange="copies",
    hides_exchange_of=FSDP2.hides_exchange_of | {"nothing"},
    exchange_source="PyTorch, torch/nn/parallel/distributed.py: a bucket of 25 MiB is reduced as soon as its gradients "
    "are there, and buckets are a copy of all gradients unless gradient_as_bucket_view is set",
    offload=replace(FSDP2.offload, optimizer=(), weights=(), is_joint=False, gradients_leave=False),
    format="torch-save",
    loading="each rank reads the whole file",
    source="PyTorch tutorials, Getting Started with Distributed Data Parallel, Save and Load Checkpoints: rank 0 saves "
    "module.state_dict() and all ranks load it; saves in tests/sizing/checkpoint_files/library_folders.py",
)

TRANSFORMERS = replace(
    DDP,
    name="transformers",
    title="Hugging Face Trainer",
    version="transformers 5.23, accelerate 1.15",
    keeps={precision: DDP.keeps[precision] for precision in _OF_TRAINERS},
    offload=FSDP2.offload,
    exchange_source=f"TrainingArguments.ddp_bucket_cap_mb is left to torch. {DDP.exchange_source}",
    counts_layers=False,
    accumulates_unreduced=True,  # accelerate 1.15, accelerator.py, accumulate and no_sync
    retention=RetentionRule(
        "save_total_limit",
        "after-save",
        "transformers 5.23, trainer_utils.py, rotate_checkpoints: the newest and the best stay, whatever the limit",
    ),
    format="hf-trainer",
    collective_timeout=CollectiveTimeout(
        1800.0, "ddp_timeout: {seconds}", "transformers 5.23, training_args.py, ddp_timeout"
    ),
    defaults=(
        ShippedDefault("training.optimizer", "adamw", "optim adamw_torch_fused"),
        shipped_detection(1800, "ddp_timeout 1800"),
    ),
    small_files=(
        SmallFile("optimizer.pt", 1_593, without_moments=True, format="hf-trainer"),
        SmallFile("scheduler.pt", 1_465),
        SmallFile("scaler.pt", 1_383, scales=True),
        SmallFile("trainer_state.json", 1_064, is_beside_weights=True),
        SmallFile("training_args.bin", 5_265, is_beside_weights=True, format="hf-trainer"),
        SmallFile("rng_state_RANK.pth", 14_469, alone="rng_state.pth"),
    ),
    described_by={
        "zero_stage": "with DeepSpeed give training.framework deepspeed and, for the whole weights that Trainer writes "
        "too, checkpoint.export.every 1"
    },
    loading="each rank reads all weights and the whole optimizer; with FSDP rank 0 does, or each rank its shards",
    source="transformers 5.23, trainer.py, _save_checkpoint, _save_optimizer_and_scheduler, _load_optimizer_and_"
    "scheduler; training_args.py; bf16 and fp16 are autocast of the weights as they were loaded",
)

ACCELERATE = replace(
    TRANSFORMERS,
    name="accelerate",
    title="Hugging Face accelerate",
    version="accelerate 1.15",
    keeps={**TRANSFORMERS.keeps, "fp8-mixed": DDP.keeps["fp8-mixed"]},
    exchange_source=f"accelerate leaves it to torch. {DDP.exchange_source}",
    counts_layers=True,
    retention=RetentionRule(
        "ProjectConfiguration.total_limit",
        "before-save",
        "accelerate 1.15, accelerator.py, save_state: with automatic_checkpoint_naming it makes room first",
    ),
    format="accelerate",
    collective_timeout=replace(
        TORCH_TIMEOUT,
        line="Accelerator(kwargs_handlers=[InitProcessGroupKwargs(timeout=datetime.timedelta(seconds={seconds}))])",
    ),
    defaults=(),
    small_files=(
        SmallFile("scheduler.bin", 1_401),
        SmallFile("scaler.pt", 1_383, scales=True),
        SmallFile("random_states_RANK.pkl", 14_497),
    ),
    loading="each rank reads all weights and the whole optimizer; with FSDP1 all weights, and rank 0 the optimizer; or "
    "each rank its shards",
    source="accelerate 1.15, accelerator.py, save_state; checkpointing.py, save_accelerator_state; utils/fsdp_utils.py",
)

LIGHTNING = replace(
    TRANSFORMERS,
    name="lightning",
    title="Lightning",
    version="Lightning 2.6",
    exchange_source=f"Lightning leaves it to torch. {DDP.exchange_source}",
    counts_layers=True,
    accumulates_unreduced=False,  # strategies/parallel.py, block_backward_sync: of DDP alone
    retention=RetentionRule(
        "ModelCheckpoint.save_top_k and save_last",
        "after-save",
        "Lightning 2.6, callbacks/model_checkpoint.py, _update_best_and_save: the worst is removed after the next save",
    ),
    format="lightning",
    small_files=(),
    collective_timeout=CollectiveTimeout(
        1800.0,
        "DDPStrategy(timeout=datetime.timedelta(seconds={seconds}))",
        "Lightning 2.6, strategies/ddp.py: torch.distributed's default_pg_timeout, 30 min",
    ),
    defaults=(),
    loading="each rank reads the whole file, with FSDP too; with state_dict_type sharded its shards",
    source="Lightning 2.6, trainer/connectors/checkpoint_connector.py, dump_checkpoint; strategies/fsdp.py; "
    "plugins/precision/amp.py, which is autocast",
)
