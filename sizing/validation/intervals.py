"""Comparisons of checkpoint intervals and their cost with published figures."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sizing.published import published
from sizing.run.failures import Reliability, mtbf_seconds
from sizing.run.goodput import ettr_fraction, first_order_waste_fraction, goodput_fraction
from sizing.run.levels import best_compute_seconds, daly_first_order_seconds, daly_seconds, young_seconds
from sizing.units import SECONDS_PER_DAY, SECONDS_PER_HOUR
from sizing.validation.comparison import Comparison, Source

_FORMULAS = Source("arithmetic", "Young 1974, Daly 2006: best intervals, evaluated by formula")
_KOKOLIS = Source("arithmetic", "Kokolis et al. 2024, arXiv 2410.21680: effective training time by its formula")
_TWO_LEVELS = Source("arithmetic", "Two levels of checkpoints, first order")
_PROJECTED = Source("arithmetic", "Kokolis et al. 2024: time to failure that they project from RSC-1's rate")
_MEASURED = Source("tool", "Kokolis et al. 2024: time to failure measured on RSC-1, quoted in public notes")


def intervals() -> Iterator[Comparison]:
    """Compare best intervals, effective training time and two levels."""
    facts = published("checkpoint_intervals")
    for row in facts["vectors"]:
        stall, mtbf = row["checkpoint_seconds"], row["mtbf_seconds"]
        best = float(best_compute_seconds(stall, mtbf_seconds=mtbf))
        predicted = {
            "exact_argmin_seconds": best,
            "young_seconds": float(young_seconds(stall, mtbf_seconds=mtbf)),
            "daly_first_order_seconds": float(daly_first_order_seconds(stall, mtbf_seconds=mtbf)),
            "daly_seconds": float(daly_seconds(stall, mtbf_seconds=mtbf)),
            "efficiency_at_optimum": float(goodput_fraction(best, stall_seconds=stall, mtbf_seconds=mtbf)),
        }
        for key, value in predicted.items():
            fact = f"{key.removesuffix('_seconds').replace('_', ' ')}, stall {stall} s, MTBF {mtbf} s"
            yield _FORMULAS.compare(fact, value, row[key], within=1e-5)
    for row in facts["ettr_vectors"]:
        yield from _effective_training_time(row)
    yield from _two_levels(facts["two_level_vector"])
    yield from _failures_by_size()


def _effective_training_time(row: dict[str, Any]) -> Iterator[Comparison]:
    num_nodes, stall = row["num_gpus"] / row["gpus_per_node"], row["stall_seconds"]
    mtbf = mtbf_seconds(row["failures_per_node_day"] / SECONDS_PER_DAY, num_components=num_nodes)
    ratio = ettr_fraction(
        row["interval_seconds"], stall_seconds=stall, mtbf_seconds=mtbf, recovery_seconds=row["restart_seconds"]
    )
    what = f"{row['num_gpus']:,} GPUs"
    yield _KOKOLIS.compare(f"effective training time, {what}", float(ratio), row["ettr"], within=1e-4)
    best = float(young_seconds(stall, mtbf_seconds=mtbf))
    yield _KOKOLIS.compare(f"best interval, {what}, seconds", best, row["interval_seconds"], within=1e-3)


def _two_levels(facts: dict[str, Any]) -> Iterator[Comparison]:
    mtbf, share = facts["mtbf_seconds"], facts["share_recoverable_from_level1"]
    first, second = facts["level1_seconds"], facts["level2_seconds"]
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
        yield _TWO_LEVELS.compare(fact, float(value), facts[key], within=1e-3)


def _failures_by_size() -> Iterator[Comparison]:
    """Compare how often jobs of a size fail, at the rate of RSC-1, which was found on its large jobs."""
    systems = {row["system"]: row for row in published("failure_rates")["rows"]}
    per_node_day = systems["Meta RSC-1"]["failures_per_1000_node_days"] / 1000
    for row in systems["Meta RSC, MTTF by job size"]["rows"]:
        job = Reliability(failures_per_node_day=per_node_day)
        num_gpus = row["job_gpus"]
        hours = float(job.job_mtbf_seconds(num_nodes=num_gpus // 8, num_gpus=num_gpus)) / SECONDS_PER_HOUR
        fact = f"hours to a failure on {num_gpus:,} GPUs"
        if row["kind"] == "projected":
            yield _PROJECTED.compare(f"{fact}, projected", hours, row["mttf_hours"], within=0.03)
        else:
            miss = "small jobs fail more often than a rate found on large ones says: what counts as a failure differs"
            yield _MEASURED.compare(fact, hours, row["mttf_hours"], within=0.2, miss=miss)
