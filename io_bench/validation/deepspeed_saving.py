"""The cases of DeepSpeed: its engine trains and saves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import deepspeed
import torch
from torch.nn import functional

from io_bench.validation.cases import Case
from io_bench.validation.tiny_llama import TINY, TinyLlama

_PRECISION: dict[str, dict[str, Any]] = {
    "bf16-mixed": {"bf16": {"enabled": True}},
    # A fixed scale: a scale that is sought lets DeepSpeed skip the first steps, and then there are no moments to save.
    "fp16-mixed": {"fp16": {"enabled": True, "loss_scale": 1}},
    "fp32": {},
}


def save(case: Case, folder: Path) -> None:
    """Train for one step and save, on every rank."""
    # Without the faster all-reduce: to compile it takes minutes, and a compiler that is killed leaves a lock for ever.
    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
    # DeepSpeed refuses fp16 on processors without instructions for it; torch computes it on all.
    deepspeed.accelerator.get_accelerator().is_fp16_supported = lambda: True
    torch.manual_seed(0)
    model = TinyLlama(TINY)
    engine, *_ = deepspeed.initialize(
        model=model,
        optimizer=torch.optim.AdamW(model.parameters()),
        config={
            "train_batch_size": 2 * case.num_ranks,
            **_PRECISION[case.training["precision"]],
            "zero_optimization": {"stage": case.parallelism["zero_stage"]},
            "zero_allow_untested_optimizer": True,
        },
    )
    tokens = torch.randint(0, TINY.vocab_size, (2, 16), generator=torch.Generator().manual_seed(0))
    logits = engine(tokens[:, :-1]).float()
    engine.backward(functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten()))
    engine.step()
    engine.save_checkpoint(str(folder.parent), tag=folder.name)
