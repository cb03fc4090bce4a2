"""Random scenarios that use the whole of the question, each of them from a seed that draws it again."""

from __future__ import annotations

import json
import math
import os
import random
from collections.abc import Iterator
from typing import Any

from sizing.errors import InvalidInput
from sizing.report import SizingReport, answer

_DENSE = (
    "gpt2",
    "llama-3.2-1b",
    "llama-3.1-8b",
    "llama-3.1-70b",
    "qwen2.5-7b",
    "megatron-1t",
    "bloom-176b",
    "gemma-2-9b",
)
_EXPERTS = ("mixtral-8x7b", "deepseek-v2-lite", "qwen3-30b-a3b", "deepseek-v3")
_FORMATS = {
    "megatron": ("megatron", "megatron-distributed-optimizer", "torch-dist"),
    "deepspeed": ("deepspeed",),
    "fsdp2": ("fsdp-sharded", "full"),
    "torchtitan": ("fsdp-sharded",),
    "maxtext": ("orbax",),
}
_OPTIMIZERS = ("adam", "adamw", "sgd", "sgd-momentum", "lion", "muon", "adafactor", "adam-8bit")

FRESH_SEEDS = int(os.environ.get("LAWS_FIRST_SEED", "0")) or random.SystemRandom().randrange(10**6, 10**12)
"""The first seed of an exhaustive run. LAWS_FIRST_SEED draws those of a run that failed again."""


def drawn(seed: int) -> dict[str, Any]:
    """The scenario of a seed, as the document that a user writes; two in three have an answer."""
    dice = random.Random(seed)  # noqa: S311 - equal seeds must draw equal scenarios
    training = _training(dice)
    document: dict[str, Any] = {
        "model": _model(dice),
        "training": training,
        "parallelism": {},
        "checkpoint": _checkpoint(dice, training["framework"]),
        "cluster": {"node": dice.choice(("dgx-h100", "dgx-a100", "dgx-b200"))},
    }
    document["parallelism"] = _parallelism(dice, training["framework"], document["model"])
    if dice.random() < 0.9:
        document["storage"] = {"profile": _profile(dice)}
    if dice.random() < 0.85:
        document["reliability"] = _reliability(dice)
    if dice.random() < 0.4:
        document["retention"] = {"keep_last": dice.randint(1, 5), "free_fraction": dice.choice((0, 0.1, 0.2))}
    if dice.random() < 0.7:
        document["targets"] = _targets(dice)
    return document


def with_answers(first_seed: int, num: int) -> Iterator[tuple[int, dict[str, Any], SizingReport]]:
    """The first `num` scenarios from a seed on that have an answer, each with its seed and its answer."""
    seed, found = first_seed, 0
    while found < num:
        document = drawn(seed)
        try:
            report = answer(document)
        except InvalidInput:
            pass
        else:
            found += 1
            yield seed, document, report
        seed += 1


def repeated(seed: int, document: dict[str, Any]) -> str:
    """What a failure says, to repeat it."""
    return f"seed {seed} (LAWS_FIRST_SEED={seed}): {json.dumps(document)}"


def _model(dice: random.Random) -> dict[str, Any]:
    kind = dice.random()
    if kind < 0.6:
        return {"preset": dice.choice(_DENSE)}
    if kind < 0.8:
        return {"preset": dice.choice(_EXPERTS)}
    if kind < 0.9:
        return {"num_parameters": round(_log(dice, 1e8, 1e12))}
    heads = dice.choice((8, 16, 32))
    return {
        "architecture": {
            "family": "llama",
            "hidden_size": heads * 128,
            "num_layers": dice.choice((8, 24, 40)),
            "num_attention_heads": heads,
            "num_kv_heads": dice.choice((2, 8)),
            "vocab_size": dice.choice((32_000, 128_256)),
        }
    }


def _training(dice: random.Random) -> dict[str, Any]:
    framework = dice.choice(("megatron", "megatron", "fsdp2", "torchtitan", "deepspeed", "maxtext"))
    training: dict[str, Any] = {"framework": framework}
    if dice.random() < 0.4:
        training["precision"] = dice.choice(("bf16-mixed", "fp16-mixed", "bf16", "fp32", "fp8-mixed"))
    if dice.random() < 0.4:
        training["optimizer"] = dice.choice(_OPTIMIZERS)
    if framework == "megatron" and dice.random() < 0.5:
        training["distributed_optimizer"] = dice.random() < 0.7
    if dice.random() < 0.15:
        training["saved_state"] = dice.choice(({"ema": "fp32"}, {"master": None}, {"moments": "bf16"}))
    return training


def _parallelism(dice: random.Random, framework: str, model: dict[str, Any]) -> dict[str, Any]:
    degrees: dict[str, Any] = {"data": dice.choice((1, 2, 4, 8, 16, 64, 6))}
    if framework in {"megatron", "deepspeed", "torchtitan"}:
        degrees["tensor"] = dice.choice((1, 2, 4, 8))
        degrees["pipeline"] = dice.choice((1, 1, 2, 4))
    if framework == "megatron" and dice.random() < 0.2:
        degrees["context"] = 2
    if framework in {"fsdp2", "torchtitan"} and dice.random() < 0.3:
        degrees["shard_group"] = max(1, degrees["data"] // 2)
    if framework == "deepspeed" and dice.random() < 0.6:
        degrees["zero_stage"] = dice.choice((0, 1, 2, 3))
        if degrees["zero_stage"] >= 2:
            degrees.pop("pipeline")
    if model.get("preset") in _EXPERTS and framework in {"megatron", "deepspeed"} and dice.random() < 0.6:
        degrees["expert"] = dice.choice((2, 4, 8))
    return degrees


def _checkpoint(dice: random.Random, framework: str) -> dict[str, Any]:
    checkpoint: dict[str, Any] = {"interval_seconds": _round(_log(dice, 120, 40_000))}
    if dice.random() < 0.5:
        checkpoint["format"] = dice.choice(_FORMATS[framework])
    if dice.random() < 0.5:
        checkpoint["mode"] = dice.choice(("sync", "async"))
    if dice.random() < 0.15:
        checkpoint["observed_bytes"] = round(_log(dice, 1e9, 1e13))
    if dice.random() < 0.5:
        checkpoint["restore"] = dice.choice(("every-replica", "read-once-broadcast", "parallel-read-exchange"))
    if checkpoint.get("mode") == "async" and dice.random() < 0.3:
        checkpoint["staging_bytes"] = round(_log(dice, 1e9, 1e11))
    if dice.random() < 0.2:
        checkpoint["tiers"] = [_tier(dice, checkpoint["interval_seconds"])]
    if dice.random() < 0.1:
        checkpoint["export"] = {
            "every": dice.randint(1, 5),
            "written_by": dice.choice(("rank-0", "every-rank", "afterwards")),
        }
    if dice.random() < 0.1:
        checkpoint["reduction"] = dice.choice(
            (
                {"compression": {"weights_fraction": 0.7, "moments_fraction": 0.8}},
                {"delta": {"full_every": 4, "fraction": 0.1}},
            )
        )
    return checkpoint


def _tier(dice: random.Random, interval_seconds: float) -> dict[str, Any]:
    """A tier in front, whose interval goes a whole number of times into that of the main storage."""
    kind = dice.choice(("host-memory", "peer-memory", "local-nvme"))
    tier: dict[str, Any] = {"kind": kind, "interval_seconds": interval_seconds / dice.choice((2, 4, 10))}
    if kind == "local-nvme":
        tier["storage"] = {
            "profile": {
                "node_write_bytes_per_second": _round(_log(dice, 5e9, 5e10)),
                "node_read_bytes_per_second": _round(_log(dice, 5e9, 5e10)),
            }
        }
    if dice.random() < 0.8:
        tier["recovered_fraction"] = dice.choice((0.5, 0.9))
    return tier


def _profile(dice: random.Random) -> dict[str, float]:
    rates: dict[str, tuple[float, float, float]] = {  # the chance to be given, the least and the most
        "write_bytes_per_second": (0.95, 1e9, 2e12),
        "read_bytes_per_second": (0.95, 1e9, 4e12),
        "node_write_bytes_per_second": (0.3, 1e8, 5e10),
        "node_read_bytes_per_second": (0.3, 1e8, 5e10),
        "writer_write_bytes_per_second": (0.3, 1e8, 1e10),
        "writer_read_bytes_per_second": (0.2, 1e8, 1e10),
        "device_to_host_bytes_per_second": (0.3, 1e9, 5e10),
        "files_per_second": (0.15, 100, 1e5),
        "file_write_seconds": (0.1, 1e-4, 0.1),
        "file_read_seconds": (0.1, 1e-4, 0.1),
        "commit_seconds": (0.1, 0.01, 10),
        "fixed_write_seconds": (0.15, 0.1, 20),
        "fixed_read_seconds": (0.15, 0.1, 20),
        "writer_write_contention_fraction": (0.1, 1e-4, 0.1),
        "node_read_contention_fraction": (0.1, 1e-4, 0.1),
        "write_cache_bytes": (0.1, 1e9, 1e13),
    }
    given = {
        name: _round(_log(dice, low, high)) for name, (chance, low, high) in rates.items() if dice.random() < chance
    }
    cache_rates = ("write_bytes_per_second", "node_write_bytes_per_second", "writer_write_bytes_per_second")
    if given.keys().isdisjoint(cache_rates):  # a profile is refused whose cache has no rate
        given.pop("write_cache_bytes", None)
    if "write_cache_bytes" in given:
        given["beyond_cache_write_bytes_per_second"] = _round(given.get("write_bytes_per_second", 1e11) / 4)
        given["write_cache_bytes"] = round(given["write_cache_bytes"])
    return given


def _reliability(dice: random.Random) -> dict[str, Any]:
    reliability: dict[str, Any] = dice.choice(
        (
            {"failures_per_node_day": _round(_log(dice, 1e-4, 0.1))},
            {"failures_per_gpu_hour": _round(_log(dice, 1e-7, 1e-4))},
            {"mtbf_seconds": _round(_log(dice, 3e3, 3e6))},
            {
                "components": [
                    {"name": "GPU", "per": "gpu", "failures_per_hour": _round(_log(dice, 1e-7, 1e-5))},
                    {"name": "switch", "count": 2, "mtbf_seconds": _round(_log(dice, 1e6, 1e8)), "loss_domain": "rack"},
                ]
            },
        )
    )
    if dice.random() < 0.5:
        reliability["detection_seconds"] = dice.choice((0, 30, 600))
    if dice.random() < 0.5:
        reliability["relaunch_seconds"] = dice.choice((0, 60, 900))
    strategy = dice.choice((None, None, "restart", "spares", "peers", "shrink"))
    if strategy:
        reliability["strategy"] = strategy
    if strategy in {"spares", "shrink"}:
        reliability["repair_seconds"] = _round(_log(dice, 600, 90_000))
    if strategy == "spares":
        reliability["spares"] = {"num": dice.randint(1, 4)}
    if strategy in {"peers", "shrink"}:
        reliability["step_seconds"] = _round(_log(dice, 1, 60))
    if strategy == "shrink":
        reliability["shrink"] = {"regroup_seconds": dice.choice((5, 30, 120))}
    if strategy != "shrink" and dice.random() < 0.2:
        reliability["preemption"] = {
            "per_hour": _round(_log(dice, 1e-3, 0.5)),
            "notice_seconds": dice.choice((0, 30, 120)),
            "capacity_wait_seconds": dice.choice((0, 300, 3600)),
        }
    if dice.random() < 0.15:
        reliability["data_skip"] = dice.choice(({"seconds": 30}, {"num_batches": 5000, "batches_per_second": 100}))
    return reliability


def _targets(dice: random.Random) -> dict[str, float]:
    targets: dict[str, float] = {}
    if dice.random() < 0.6:
        targets["max_overhead_fraction"] = _round(_log(dice, 1e-3, 0.2))
    if dice.random() < 0.3:
        targets["max_stall_seconds"] = _round(_log(dice, 1, 600))
    if dice.random() < 0.4:
        targets["recovery_seconds"] = _round(_log(dice, 120, 7200))
    if dice.random() < 0.5:
        targets["min_goodput_fraction"] = dice.choice((0.5, 0.75, 0.9, 0.95, 0.98))
    return targets


def _log(dice: random.Random, low: float, high: float) -> float:
    """A number between two ends, evenly in its logarithm."""
    return math.exp(dice.uniform(math.log(low), math.log(high)))


def _round(value: float) -> float:
    """Four digits, so that a document can be read."""
    return float(f"{value:.4g}")
