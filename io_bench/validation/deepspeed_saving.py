"""The cases of DeepSpeed: its engine trains and saves."""

from __future__ import annotations

from pathlib import Path

import deepspeed
import torch
from torch.nn import functional

from io_bench.validation.cases import Case
from io_bench.validation.tiny_llama import TINY, TinyLlama


def save(case: Case, folder: Path) -> None:
    """Train for one step and save, on every rank."""
    # Without the faster all-reduce: to compile it takes minutes, and a compiler that is killed leaves a lock for ever.
    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
    torch.manual_seed(0)
    model = TinyLlama(TINY)
    engine, *_ = deepspeed.initialize(
        model=model,
        optimizer=torch.optim.AdamW(model.parameters()),
        config={
            "train_batch_size": 2 * case.num_ranks,
            "bf16": {"enabled": True},
            "zero_optimization": {"stage": case.parallelism["zero_stage"]},
            "zero_allow_untested_optimizer": True,
        },
    )
    tokens = torch.randint(0, TINY.vocab_size, (2, 16), generator=torch.Generator().manual_seed(0))
    logits = engine(tokens[:, :-1]).float()
    engine.backward(functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten()))
    engine.step()
    engine.save_checkpoint(str(folder.parent), tag=folder.name)
