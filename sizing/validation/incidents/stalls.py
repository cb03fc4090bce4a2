"""Stalls of asynchronous saves, and what planning adds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sizing.report import answer
from sizing.run.goodput.levels import Level, overhead_of_levels_fraction
from sizing.scenario import scenario_from
from sizing.validation.comparison import Comparison
from sizing.validation.incidents.book import (
    GIB,
    MEASURED,
    NO_PLANS,
    RECKONED,
    REPORTED,
    held,
    measured,
    planning_seconds,
    reported,
    sharded,
    stall_seconds,
    write_seconds,
)

_LINE_RATE = (
    "the copy to the host is reckoned at the middle of the fractions of a link's line rate that were measured, with no "
    "time per tensor"
)
_SOME_RATE = {"write_bytes_per_second": 1e10}
"""These reports publish none; what a copy to the host or a plan takes does not depend on it."""


def stalls() -> Iterator[Comparison]:
    """For how long asynchronous saves stopped the training, and how much longer saves took for want of cached plans."""
    yield from _staging_budget()
    yield from _copied()
    yield from _planned()


def _staging_budget() -> Iterator[Comparison]:
    """A rack of 64 processes, each of which stages 78 GiB through a budget of 8 GiB."""
    row, rack = reported("marin-8514"), reported("marin-8469")
    check = row["check"]
    share = check["share_gib"] * GIB
    num_nodes = rack["gpus"] // rack["processes_per_node"]
    report = sharded(
        share * rack["gpus"],
        num_nodes=num_nodes,
        gpus_per_node=rack["processes_per_node"],
        profile={
            "writer_write_bytes_per_second": check["upload_gib_per_s"] * GIB,
            "device_to_host_bytes_per_second": share / check["copy_seconds"],
        }
        | NO_PLANS,
        mode="async",
        staging_bytes=check["budget_gib"] * GIB,
    )
    yield held(
        REPORTED,
        "marin-8514: one rack stalled, seconds",
        stall_seconds(report),
        check["measured_seconds"],
        lacks="",
    )
    often = Level(60.0 * row["interval_minutes"], row["stall_seconds"], 0.0, 0.0, 1.0)
    overhead, published = float(overhead_of_levels_fraction([often])), row["stall_fraction_of_wall_clock"]
    yield held(RECKONED, "marin-8514: share of the time stalled", overhead, published, lacks="")


def _copied() -> Iterator[Comparison]:
    """How long FSDP's shards took from GPU to host."""
    row = reported("automodel-635")
    stall = _fsdp_stall_seconds({"preset": "llama-3.1-8b"}, num_gpus=row["gpus"])
    fact = "automodel-635: Llama 8B stalled on 8 H100, seconds"
    yield held(REPORTED, fact, stall, row["blocked_seconds_async"], lacks=_LINE_RATE)
    row = measured("dlrover_glm")
    stall = _fsdp_stall_seconds({"num_parameters": row["model_parameters_b"] * 1e9}, num_gpus=row["gpus"])
    fact = "DLRover: GLM-65B copied on 1,536 H800, seconds"
    yield held(MEASURED, fact, stall, row["flash"]["blocked_seconds"], lacks=_LINE_RATE)
    seconds = measured("pytorch_async")["staging_seconds"]
    profile = _SOME_RATE | {"device_to_host_bytes_per_second": 7e9 * 12 / seconds["7b"]}
    report = sharded(13e9 * 12, num_nodes=1, gpus_per_node=1, profile=profile, mode="async")
    fact = "PyTorch and IBM: 13B copied at the rate of their 7B, seconds"
    yield held(MEASURED, fact, stall_seconds(report), seconds["13b"], lacks=_LINE_RATE)


def _fsdp_stall_seconds(model: dict[str, Any], *, num_gpus: int) -> float:
    scenario = {
        "model": model,
        "training": {"framework": "fsdp2"},
        "parallelism": {"data": num_gpus},
        "cluster": {"node": "dgx-h100"},
        "checkpoint": {"mode": "async"},
        "storage": {"profile": _SOME_RATE},
    }
    return stall_seconds(answer(scenario_from(scenario)))


def _planned() -> Iterator[Comparison]:
    """What a save takes with its plans still to be made, at the rate of the saves that had them cached."""
    row = reported("pytorch-147343")
    total = row["checkpoint_tb"] * 1e12
    profile = {"write_bytes_per_second": total / row["save_seconds_later"]}
    first = sharded(total, num_nodes=row["ranks"] // 8, gpus_per_node=8, profile=profile)
    fact = "pytorch-147343: first save of 1.6 TB on 256 ranks, seconds"
    longer = (row["save_seconds_first"] - row["save_seconds_later"]) / row["ranks"]
    lacks = f"the first save took {longer:.2f} s longer per rank, beyond the range of planning that is assumed"
    yield held(REPORTED, fact, write_seconds(first), row["save_seconds_first"], lacks=lacks)
    yield _global_plan()
    cached = measured("pytorch_cached_plans")
    total = 70e9 * 12.0
    profile = {"write_bytes_per_second": total / cached["background_seconds"]}
    unplanned = sharded(total, num_nodes=cached["gpus"] // 8, gpus_per_node=8, profile=profile)
    fact = "PyTorch and Crusoe: Llama3-70B saved on 1,856 GPUs without cached plans, seconds"
    published = cached["background_seconds_without_cached_plan"]
    yield held(MEASURED, fact, write_seconds(unplanned), published, lacks="")


def _global_plan() -> Comparison:
    """No confirmation: the default was made of this figure."""
    row, fact = reported("pytorch-149785"), "pytorch-149785: global plan of 256 ranks, seconds"
    report = sharded(1e12, num_nodes=row["ranks"] // 8, gpus_per_node=8, profile=_SOME_RATE)
    lacks = f"the default is the middle of this figure and of {row['seconds_after']:g} s with cached plans"
    return held(RECKONED, fact, planning_seconds(report), row["seconds_before"], lacks=lacks)
