"""What is trained, saved and predicted: one row per case."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass, field
from typing import Any, Literal

from io_bench.validation.tiny_llama import TINY
from sizing.scenario import Scenario, scenario_from

Kind = Literal["fsdp", "full", "safetensors", "tensor-parallel", "deepspeed"]


@dataclass(frozen=True, slots=True)
class Case:
    """A way to save, and the Scenario blocks that describe it."""

    name: str
    kind: Kind
    num_ranks: int
    training: dict[str, Any] = field(default_factory=dict)
    parallelism: dict[str, Any] = field(default_factory=dict)
    checkpoint: dict[str, Any] = field(default_factory=dict)

    @property
    def dtype(self) -> str:
        """Dtype of the parameters while they train."""
        return "bfloat16" if self.training.get("precision") == "bf16" else "float32"

    def scenario(self) -> Scenario:
        """The question whose answer is compared."""
        return scenario_from(
            {
                "model": {"architecture": TINY.model_dump(exclude_none=True)},
                "training": self.training,
                "parallelism": self.parallelism,
                "checkpoint": self.checkpoint,
            }
        )


_WEIGHTS_ALONE = {"master": None, "moments": None}

CASES = (
    *(
        Case(f"FSDP2, DCP, {precision}, {ranks} ranks", "fsdp", ranks, training, {"data": ranks})
        for precision, training in (
            ("fp32", {"framework": "fsdp2"}),
            ("bf16", {"framework": "fsdp2", "precision": "bf16"}),
        )
        for ranks in (1, 2, 4)
    ),
    Case("HSDP, DCP, 2 copies of 2 shards", "fsdp", 4, {"framework": "fsdp2"}, {"data": 4, "shard_group": 2}),
    Case("gathered, torch.save, 2 ranks", "full", 2, {"framework": "fsdp2"}, {"data": 2}, {"format": "full"}),
    Case(
        "weights, safetensors",
        "safetensors",
        1,
        {"framework": "fsdp2", "precision": "bf16", "saved_state": _WEIGHTS_ALONE},
        checkpoint={"format": "full"},
    ),
    Case(
        "tensor parallel, torch.save per rank",
        "tensor-parallel",
        2,
        {"precision": "fp32"},
        {"tensor": 2},
        {"format": "megatron"},
    ),
)

DEEPSPEED_CASES = tuple(
    Case(
        f"DeepSpeed ZeRO-{stage}, {precision.removesuffix('-mixed')}, 2 ranks",
        "deepspeed",
        2,
        {"framework": "deepspeed", "precision": precision},
        {"data": 2, "zero_stage": stage},
    )
    for precision in ("bf16-mixed", "fp16-mixed", "fp32")
    for stage in range(4)
)
"""Measured where DeepSpeed is installed, which is no dependency."""


def available_cases() -> tuple[Case, ...]:
    """Every case that can run here."""
    return CASES + (DEEPSPEED_CASES if importlib.util.find_spec("deepspeed") else ())
