"""Intervals and what they cost, as published."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sizing.published import published
from sizing.run.failures import mtbf_seconds
from sizing.run.goodput.single_level import (
    daly_first_order_seconds,
    daly_seconds,
    ettr_fraction,
    first_order_waste_fraction,
    goodput_fraction,
    optimal_seconds,
    young_seconds,
)
from sizing.units import SECONDS_PER_DAY
from sizing.validation.comparison import Comparison


def intervals() -> Iterator[Comparison]:
    """Best intervals, effective training time and two levels."""
    facts = published("checkpoint_intervals")
    for row in facts["vectors"]:
        stall, mtbf = row["checkpoint_seconds"], row["mtbf_seconds"]
        best = float(optimal_seconds(stall, mtbf_seconds=mtbf))
        found = {
            "exact_argmin_seconds": best,
            "young_seconds": float(young_seconds(stall, mtbf_seconds=mtbf)),
            "daly_first_order_seconds": float(daly_first_order_seconds(stall, mtbf_seconds=mtbf)),
            "daly_seconds": float(daly_seconds(stall, mtbf_seconds=mtbf)),
            "efficiency_at_optimum": float(goodput_fraction(best, stall_seconds=stall, mtbf_seconds=mtbf)),
        }
        for key, value in found.items():
            fact = f"{key.removesuffix('_seconds').replace('_', ' ')}, stall {stall} s, MTBF {mtbf} s"
            yield Comparison(fact, value, row[key], 1e-5, "Young 1974, Daly 2006")
    for row in facts["ettr_vectors"]:
        yield from _effective_training_time(row)
    yield from _two_levels(facts["two_level_vector"])


def _effective_training_time(row: dict[str, Any]) -> Iterator[Comparison]:
    num_nodes, stall = row["num_gpus"] / row["gpus_per_node"], row["stall_seconds"]
    mtbf = mtbf_seconds(row["failures_per_node_day"] / SECONDS_PER_DAY, num_components=num_nodes)
    ratio = ettr_fraction(
        row["interval_seconds"], stall_seconds=stall, mtbf_seconds=mtbf, recovery_seconds=row["restart_seconds"]
    )
    source, what = "Kokolis et al. 2024, arXiv 2410.21680", f"{row['num_gpus']:,} GPUs"
    yield Comparison(f"effective training time, {what}", float(ratio), row["ettr"], 1e-4, source)
    best = float(young_seconds(stall, mtbf_seconds=mtbf))
    yield Comparison(f"best interval, {what}", best, row["interval_seconds"], 1e-3, source)


def _two_levels(facts: dict[str, Any]) -> Iterator[Comparison]:
    mtbf, share = facts["mtbf_seconds"], facts["share_recoverable_from_level1"]
    first, second, source = facts["level1_seconds"], facts["level2_seconds"], "Two levels, first order"
    cases = {
        "level 1 interval": (young_seconds(first, mtbf_seconds=mtbf / share), "level1_interval_seconds"),
        "level 2 interval": (young_seconds(second, mtbf_seconds=mtbf / (1 - share)), "level2_interval_seconds"),
        "single level interval": (young_seconds(second, mtbf_seconds=mtbf), "single_level_interval_seconds"),
        "single level waste": (first_order_waste_fraction(second, mtbf_seconds=mtbf), "single_level_waste"),
        "two-level waste": (
            first_order_waste_fraction(first, mtbf_seconds=mtbf / share)
            + first_order_waste_fraction(second, mtbf_seconds=mtbf / (1 - share)),
            "waste",
        ),
    }
    for fact, (value, key) in cases.items():
        yield Comparison(fact, float(value), facts[key], 1e-3, source)
