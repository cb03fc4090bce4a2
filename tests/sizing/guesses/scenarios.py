"""Random scenarios that leave much open: what they say of each block is drawn, and the rest is assumed."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from sizing.storage.catalog import profile_named

MODELS: list[dict[str, Any]] = [
    {"preset": "llama-3.2-1b"},
    {"preset": "mixtral-8x7b"},
    {"num_parameters": 10**9},
    {
        "architecture": {
            "family": "llama",
            "hidden_size": 512,
            "num_layers": 8,
            "num_attention_heads": 8,
            "vocab_size": 32_000,
        }
    },
]
TRAINING: list[dict[str, Any]] = [
    {},
    {"framework": "fsdp2"},
    {"framework": "deepspeed"},
    {"framework": "megatron", "precision": "bf16-mixed", "optimizer": "adam"},
    {"optimizer": "sgd-momentum"},
]
CHECKPOINT: list[dict[str, Any]] = [
    {},
    {"interval_seconds": 1800},
    {"observed_bytes": "20 GB"},
    {"restore": "read-once-broadcast", "mode": "sync"},
    {
        "tiers": [
            {
                "kind": "local-nvme",
                "interval_seconds": 2400,
                "recovered_fraction": 0.9,
                "storage": {"profile": {"node_write_bytes_per_second": 2e10, "node_read_bytes_per_second": 3e10}},
            }
        ],
    },
]
STORAGE: list[dict[str, Any] | None] = [
    None,
    {"profile": {"write_bytes_per_second": 2e9, "read_bytes_per_second": 3e9}},
    {"profile": {"write_bytes_per_second": 2e9, "file_read_seconds": 0.05, "node_read_bytes_per_second": 1e9}},
    {"preset": "mlperf-v3-hpe-e2000"},
]
RELIABILITY: list[dict[str, Any] | None] = [
    None,
    {"mtbf_seconds": 40_000},
    {"failures_per_node_day": 0.5, "detection_seconds": 60},
    {"mtbf_seconds": 40_000, "restart_seconds": 900},
    {"components": [{"name": "node", "per": "node", "mtbf_seconds": 4e6}], "relaunch_seconds": 100},
]
PARALLELISM: list[dict[str, Any]] = [{}, {"data": 16}, {"tensor": 2, "data": 4}, {"data": 8, "context": 2}]
CLUSTER: list[dict[str, Any]] = [{}, {"node": "dgx-a100"}]


def documents() -> st.SearchStrategy[dict[str, Any]]:
    """Scenarios as documents; some have no answer."""
    blocks: dict[str, list[Any]] = {
        "training": TRAINING,
        "parallelism": PARALLELISM,
        "checkpoint": CHECKPOINT,
        "cluster": CLUSTER,
        "storage": STORAGE,
        "reliability": RELIABILITY,
    }
    chosen = {name: st.sampled_from(choices) for name, choices in blocks.items()}
    return st.fixed_dictionaries({"model": st.sampled_from(MODELS), **chosen}).map(
        lambda document: {name: block for name, block in document.items() if block is not None}
    )


def with_rates_in_profile(document: dict[str, Any]) -> dict[str, Any]:
    """The same with the rates of a published system as its own, so that one of them can be stated anew."""
    storage = document.get("storage", {})
    if "preset" not in storage:
        return document
    rates = profile_named(storage["preset"]).profile.model_dump(exclude_none=True)
    return document | {"storage": {"profile": rates}}
