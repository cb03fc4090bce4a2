"""What Megatron-Core saves for real, and the Scenario that describes it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sizing.scenario import Scenario, scenario_from

NUM_RANKS = 8
NONE, SHARES, WHOLE = None, "dp-reshardable", "fully-reshardable"

LLAMA: dict[str, Any] = {
    "family": "llama",
    "hidden_size": 256,
    "num_layers": 4,
    "num_attention_heads": 8,
    "num_kv_heads": 4,
    "ffn_hidden_size": 704,
    "vocab_size": 8000,
    "tied_embeddings": False,
}
FEW_HEADS = LLAMA | {"num_kv_heads": 2}
TIED = LLAMA | {"tied_embeddings": True}
MIXTURE = LLAMA | {
    "family": "mixtral",
    "num_experts": 8,
    "num_experts_per_token": 2,
    "expert_ffn_hidden_size": 192,
}
ENDS_COUNT = {"embedding_counts_as_layer": True, "loss_counts_as_layer": True}
UNEVEN = {"first_stage_layers": 1, "last_stage_layers": 2}


@dataclass(frozen=True, slots=True)
class Case:
    """A save of 8 ranks: a model, degrees, how the optimizer is distributed and saved, and in which format."""

    architecture: dict[str, Any]
    optimizer_sharding: str | None
    parallelism: dict[str, Any]
    files_per_rank: int = 1
    is_legacy: bool = False
    is_fsdp: bool = False
    frozen: str | None = None

    @property
    def name(self) -> str:
        """What is special about it."""
        of = "tied" if self.architecture["tied_embeddings"] else self.architecture["family"]
        if (num_kv_heads := self.architecture["num_kv_heads"]) != LLAMA["num_kv_heads"]:
            of = f"{of} of {num_kv_heads} KV heads"
        degrees = " ".join(f"{name} {degree}" for name, degree in self.parallelism.items())
        kind = "legacy, " if self.is_legacy else "fsdp, " if self.is_fsdp else ""
        kind += f"frozen {self.frozen}, " if self.frozen else ""
        return f"{kind}{of}, {self.optimizer_sharding or 'not distributed'}, {degrees}"

    def scenario(self) -> Scenario:
        """The question whose answer is compared."""
        is_distributed = self.optimizer_sharding is not None
        checkpoint: dict[str, Any] = {"format": "torch-dist", "files_per_rank": self.files_per_rank}
        if is_distributed:
            checkpoint["optimizer_sharding"] = self.optimizer_sharding
        if self.is_fsdp:
            checkpoint = {"format": "fsdp-dtensor"}
        if self.is_legacy:
            checkpoint = {"format": "megatron-distributed-optimizer" if is_distributed else "megatron"}
        return scenario_from(
            {
                "model": {"architecture": self.architecture},
                "training": {
                    "distributed_optimizer": is_distributed,
                    "frozen": None if self.frozen is None else [self.frozen],
                },
                "parallelism": self.parallelism,
                "checkpoint": checkpoint,
            }
        )


CASES = (
    Case(LLAMA, SHARES, {"tensor": 2, "pipeline": 2, "data": 2}),
    Case(LLAMA, WHOLE, {"tensor": 2, "pipeline": 2, "data": 2}),
    Case(LLAMA, NONE, {"tensor": 2, "pipeline": 2, "data": 2}),
    Case(LLAMA, SHARES, {"pipeline": 2, "virtual_pipeline": 2, "data": 4}),
    Case(LLAMA | {"num_layers": 7}, WHOLE, {"pipeline": 4, "data": 2, **UNEVEN}),
    Case(LLAMA | {"num_layers": 6}, SHARES, {"pipeline": 4, "data": 2, **ENDS_COUNT}),
    Case(LLAMA, SHARES, {"context": 2, "data": 4}),
    Case(LLAMA | {"num_layers": 1}, NONE, {"data": 8}),
    Case(LLAMA, SHARES, {"data": 8}, files_per_rank=2),
    Case(TIED, SHARES, {"tensor": 2, "pipeline": 2, "data": 2}),
    Case(TIED, WHOLE, {"tensor": 2, "pipeline": 2, "data": 2}),
    Case(TIED, SHARES, {"data": 8}),
    Case(MIXTURE, SHARES, {"expert": 4, "data": 8}),
    Case(MIXTURE, WHOLE, {"expert": 4, "data": 8}),
    Case(MIXTURE | {"first_dense_layers": 1}, SHARES, {"tensor": 2, "pipeline": 2, "expert": 2, "data": 2}),
    Case(MIXTURE, SHARES, {"tensor": 2, "expert": 2, "expert_tensor": 1, "data": 4}),
    Case(MIXTURE, WHOLE, {"tensor": 2, "expert": 2, "expert_tensor": 1, "data": 4}),
    Case(MIXTURE, WHOLE, {"tensor": 2, "expert_tensor": 1, "data": 4}),
    Case(MIXTURE, WHOLE, {"expert": 2, "expert_tensor": 2, "data": 8}),
    Case(MIXTURE, NONE, {"tensor": 4, "expert": 2, "expert_tensor": 1, "data": 2}),
    Case(MIXTURE, NONE, {"tensor": 2, "expert": 4, "expert_tensor": 1, "data": 4}, is_legacy=True),
    Case(MIXTURE, SHARES, {"tensor": 2, "expert": 2, "expert_tensor": 1, "data": 4}, is_legacy=True),
    Case(MIXTURE, SHARES, {"tensor": 4, "expert": 2, "expert_tensor": 1, "data": 2}, is_legacy=True),
    Case(FEW_HEADS, SHARES, {"tensor": 4, "data": 2}),
    Case(FEW_HEADS, WHOLE, {"tensor": 4, "data": 2}),
    Case(FEW_HEADS, NONE, {"tensor": 4, "pipeline": 2}),
    Case(FEW_HEADS | {"num_kv_heads": 1}, SHARES, {"tensor": 8}),
    Case(FEW_HEADS, NONE, {"tensor": 4, "data": 2}, is_legacy=True),
    Case(FEW_HEADS, SHARES, {"tensor": 4, "data": 2}, is_legacy=True),
    Case(LLAMA, SHARES, {"data": 8}, is_fsdp=True),
    Case(LLAMA, SHARES, {"tensor": 2, "data": 4}, is_fsdp=True),
    Case(MIXTURE, SHARES, {"expert": 4, "data": 8}, is_fsdp=True),
    Case(LLAMA, SHARES, {"data": 8}, is_fsdp=True, frozen="attention"),
)
