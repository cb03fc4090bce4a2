"""The cases of DeepSpeed: its engine trains and saves.

Started by `forked_ranks`, with CASE and FOLDER.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import deepspeed
import torch
import torch._inductor.compile_fx  # DeepSpeed's optimizers import it: here once for all ranks
from deepspeed.moe.layer import MoE
from deepspeed.moe.utils import split_params_into_different_moe_groups_for_optimizer
from deepspeed.pipe import PipelineModule
from torch import Tensor, nn

from io_bench.checks.validation.cases import Case, available_cases
from io_bench.checks.validation.tiny_llama import TinyFeedForward, TinyLlama, loss_of, random_tokens
from sizing.model import Architecture

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
    deepspeed.init_distributed("gloo")
    torch.manual_seed(0)
    model = _make_model(case)
    engine, *_ = deepspeed.initialize(
        model=model,
        optimizer=torch.optim.AdamW(_group_parameters(model, case)),
        config={
            "train_batch_size": 2 * case.parallelism["data"],
            **_PRECISION[case.training["precision"]],
            "zero_optimization": {"stage": case.parallelism["zero_stage"]},
            "zero_allow_untested_optimizer": True,
        },
    )
    _train_one_step(engine, case)
    engine.save_checkpoint(str(folder.parent), tag=folder.name)


def _make_model(case: Case) -> nn.Module:
    """Make the tiny model, with DeepSpeed's own layers of experts or as the list of a pipeline's layers."""
    a = case.architecture
    model = TinyLlama(a)
    for layer in model.layers.values() if a.num_experts else ():
        layer.mlp = _Experts(a, expert_ranks=case.parallelism.get("expert", 1))
    stages = case.parallelism.get("pipeline", 1)
    if stages == 1:
        return model
    head = [module for module in (model.norm, model.lm_head) if module is not None]
    layers = [model.embed_tokens, *model.layers.values(), nn.Sequential(*head)]
    return PipelineModule(layers, num_stages=stages, loss_fn=loss_of, partition_method="uniform")  # type: ignore[no-any-return]  # as below


class _Experts(nn.Module):
    """Experts as DeepSpeed routes them, without what it says beside the output."""

    def __init__(self, a: Architecture, *, expert_ranks: int) -> None:
        super().__init__()
        self.moe = MoE(a.hidden_size, TinyFeedForward(a), num_experts=a.num_experts or 0, ep_size=expert_ranks)

    def forward(self, x: Tensor) -> Tensor:
        """Route and compute."""
        return self.moe(x)[0]  # type: ignore[no-any-return]  # DeepSpeed has no types


def _group_parameters(model: nn.Module, case: Case) -> Any:
    """Group the parameters to train; experts have groups of their own, as other ranks share them."""
    if case.architecture.num_experts is None:
        return model.parameters()
    everything = {"params": list(model.parameters()), "name": "parameters"}
    return split_params_into_different_moe_groups_for_optimizer(everything)


def _train_one_step(engine: Any, case: Case) -> None:
    tokens = random_tokens(vocab_size=case.architecture.vocab_size)
    if case.parallelism.get("pipeline", 1) > 1:
        engine.train_batch(iter([(tokens[:, :-1], tokens[:, 1:])]))
        return
    engine.backward(loss_of(engine(tokens[:, :-1]), tokens[:, 1:]))
    engine.step()


def main(arguments: list[str]) -> None:
    """Save the case of a name in a folder, as one rank in its process group."""
    name, folder = arguments
    save(next(case for case in available_cases() if case.name == name), Path(folder))
