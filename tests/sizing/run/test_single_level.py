"""Intervals and goodput reproduce the published vectors and obey their own optimum."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sizing.published import published
from sizing.run.goodput import ettr_fraction, first_order_waste_fraction, goodput_fraction, lost_to_failures_fraction
from sizing.run.levels import best_compute_seconds, daly_first_order_seconds, daly_seconds, young_seconds

VECTORS = published("checkpoint_intervals")["vectors"]
stalls, mtbfs = st.floats(1e-3, 1e5), st.floats(1.0, 1e8)


@pytest.mark.parametrize("row", VECTORS, ids=lambda row: f"stall-{row['checkpoint_seconds']}")
def test_published_vectors_are_reproduced(row: dict[str, Any]) -> None:
    stall, mtbf = row["checkpoint_seconds"], row["mtbf_seconds"]
    best = best_compute_seconds(stall, mtbf_seconds=mtbf)
    assert best == pytest.approx(row["exact_argmin_seconds"], rel=1e-6)
    assert young_seconds(stall, mtbf_seconds=mtbf) == pytest.approx(row["young_seconds"], rel=1e-6)
    first_order = daly_first_order_seconds(stall, mtbf_seconds=mtbf)
    assert first_order == pytest.approx(row["daly_first_order_seconds"], rel=1e-6)
    assert daly_seconds(stall, mtbf_seconds=mtbf) == pytest.approx(row["daly_seconds"], rel=1e-6)
    goodput = goodput_fraction(best, stall_seconds=stall, mtbf_seconds=mtbf)
    assert goodput == pytest.approx(row["efficiency_at_optimum"], rel=1e-5)


@pytest.mark.parametrize("row", published("checkpoint_intervals")["ettr_vectors"], ids=lambda row: str(row["num_gpus"]))
def test_metas_effective_training_time_is_reproduced(row: dict[str, Any]) -> None:
    mtbf = 86_400 / (row["failures_per_node_day"] * row["num_gpus"] / row["gpus_per_node"])
    ratio = ettr_fraction(
        row["interval_seconds"],
        stall_seconds=row["stall_seconds"],
        mtbf_seconds=mtbf,
        recovery_seconds=row["restart_seconds"],
    )
    assert ratio == pytest.approx(row["ettr"], abs=5e-5)


def test_two_levels_are_spaced_and_waste_as_published() -> None:
    facts = published("checkpoint_intervals")["two_level_vector"]
    share, mtbf = facts["share_recoverable_from_level1"], facts["mtbf_seconds"]
    levels = [(facts["level1_seconds"], mtbf / share), (facts["level2_seconds"], mtbf / (1 - share))]
    spacing = [float(young_seconds(stall, mtbf_seconds=between)) for stall, between in levels]
    assert spacing == pytest.approx([facts["level1_interval_seconds"], facts["level2_interval_seconds"]], abs=0.05)
    waste = sum(float(first_order_waste_fraction(stall, mtbf_seconds=between)) for stall, between in levels)
    assert waste == pytest.approx(facts["waste"], abs=5e-5)


@given(stalls, mtbfs, st.floats(0.5, 2.0))
def test_no_other_interval_has_more_goodput_than_the_optimum(stall: float, mtbf: float, factor: float) -> None:
    best = best_compute_seconds(stall, mtbf_seconds=mtbf)
    at_best = goodput_fraction(best, stall_seconds=stall, mtbf_seconds=mtbf)
    elsewhere = goodput_fraction(best * factor, stall_seconds=stall, mtbf_seconds=mtbf)
    assert elsewhere <= at_best * (1 + 1e-12)


@given(stalls, mtbfs)
def test_the_optimum_never_exceeds_youngs_nor_the_mtbf(stall: float, mtbf: float) -> None:
    best = best_compute_seconds(stall, mtbf_seconds=mtbf)
    assert 0 < best <= min(float(young_seconds(stall, mtbf_seconds=mtbf)), mtbf) * (1 + 1e-9)


@given(stalls, mtbfs, st.floats(1.0, 1e6), st.floats(0, 1e4))
def test_compute_stall_and_loss_share_the_whole_time(
    stall: float, mtbf: float, compute: float, recovery: float
) -> None:
    goodput = goodput_fraction(compute, stall_seconds=stall, mtbf_seconds=mtbf, recovery_seconds=recovery)
    lost = lost_to_failures_fraction(goodput, compute_seconds=compute, stall_seconds=stall)
    assert 0 <= goodput <= 1
    assert goodput + goodput * stall / compute + lost == pytest.approx(1)
    assert -1e-9 <= lost <= 1


def test_arrays_give_what_numbers_give() -> None:
    stall = np.array([row["checkpoint_seconds"] for row in VECTORS], dtype=float)
    mtbf = np.array([row["mtbf_seconds"] for row in VECTORS], dtype=float)
    for function in (young_seconds, daly_seconds, best_compute_seconds):
        alone = [float(function(s, mtbf_seconds=m)) for s, m in zip(stall, mtbf, strict=True)]
        assert np.asarray(function(stall, mtbf_seconds=mtbf)) == pytest.approx(alone, rel=1e-12)
