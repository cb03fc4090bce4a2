"""Cases that are trained, saved and predicted: one row for each."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass, field
from typing import Any, Literal

from io_bench.checks.validation.tiny_llama import TINY, TINY_MIXTURE
from sizing.model import Architecture
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
    architecture: Architecture = TINY

    @property
    def dtype(self) -> str:
        """Dtype of the parameters while they train."""
        return "bfloat16" if self.training.get("precision") == "bf16" else "float32"

    def scenario(self) -> Scenario:
        """Scenario of the case, whose answer is compared."""
        return scenario_from(
            {
                "model": {"architecture": self.architecture.model_dump(exclude_none=True)},
                "training": self.training,
                "parallelism": self.parallelism,
                "checkpoint": self.checkpoint,
            }
        )


_WEIGHTS_ALONE = {"master": None, "moments": None}

_FEW_EXPERTS = TINY_MIXTURE.model_copy(update={"num_experts": 4})
"""Fewer than ranks, so that FSDP cuts the width of each."""

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
    *(
        Case(f"{name}, DCP", "fsdp", ranks, {"framework": "fsdp2"}, degrees)
        for name, ranks, degrees in (
            ("FSDP2 2 x tensor 2", 4, {"data": 2, "tensor": 2}),
            ("FSDP2 3 x tensor 2", 6, {"data": 3, "tensor": 2}),
            ("FSDP2 2 x context 2 x tensor 2", 8, {"data": 2, "context": 2, "tensor": 2}),
            ("FSDP2 2 x pipeline 2", 4, {"data": 2, "pipeline": 2}),
            ("HSDP 2 x 2 x tensor 2", 8, {"data": 4, "shard_group": 2, "tensor": 2}),
            (
                "FSDP2 2 x tensor 2 x pipeline 2, torchtitan's stages",
                8,
                {
                    "data": 2,
                    "tensor": 2,
                    "pipeline": 2,
                    "embedding_counts_as_layer": True,
                    "loss_counts_as_layer": True,
                },
            ),
        )
    ),
    *(
        Case(f"{name}, DCP", "fsdp", 8, {"framework": "fsdp2"}, degrees, architecture=architecture)
        for name, degrees, architecture in (
            ("FSDP2 8 x expert 4", {"data": 8, "expert": 4}, TINY_MIXTURE),
            ("FSDP2 8 x expert 2 of 4 experts", {"data": 8, "expert": 2}, _FEW_EXPERTS),
            ("FSDP2 4 x tensor 2 x expert 2", {"data": 4, "tensor": 2, "expert": 2, "expert_tensor": 1}, TINY_MIXTURE),
            ("HSDP 2 x 4 x expert 2", {"data": 8, "shard_group": 4, "expert": 2}, TINY_MIXTURE),
        )
    ),
    *(
        Case(
            f"gathered{over}, torch.save, {ranks} ranks",
            "full",
            ranks,
            {"framework": "fsdp2"},
            degrees,
            {"format": "full"},
        )
        for over, ranks, degrees in (("", 2, {"data": 2}), (" over tensor 2", 4, {"data": 2, "tensor": 2}))
    ),
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

DEEPSPEED_CASES = (
    *(
        Case(
            f"DeepSpeed ZeRO-{stage}, {precision.removesuffix('-mixed')}, 2 ranks",
            "deepspeed",
            2,
            {"framework": "deepspeed", "precision": precision},
            {"data": 2, "zero_stage": stage},
        )
        for precision in ("bf16-mixed", "fp16-mixed", "fp32")
        for stage in range(4)
    ),
    *(
        Case(
            f"DeepSpeed ZeRO-{stage}, {precision.removesuffix('-mixed')}, {name}",
            "deepspeed",
            4,
            {"framework": "deepspeed", "precision": precision},
            degrees | {"zero_stage": stage},
            architecture=architecture,
        )
        for name, degrees, architecture, saves in (
            ("2 x pipeline 2", {"data": 2, "pipeline": 2}, TINY, (("bf16-mixed", 0), ("fp16-mixed", 0), ("fp32", 1))),
            (
                "4 x expert 2",
                {"data": 4, "expert": 2},
                TINY_MIXTURE,
                (("bf16-mixed", 0), ("fp16-mixed", 0), ("fp32", 0), ("bf16-mixed", 1), ("fp32", 2)),
            ),
        )
        for precision, stage in saves
    ),
)
"""Measured where DeepSpeed is installed, which is no dependency."""


def available_cases() -> tuple[Case, ...]:
    """Every case that can run here."""
    return CASES + (DEEPSPEED_CASES if importlib.util.find_spec("deepspeed") else ())
