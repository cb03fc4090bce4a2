"""Our figures beside those of mlsysim, a simulator by others, where both answer: one tier, saved synchronously."""

from __future__ import annotations

import copy
from importlib import import_module
from typing import Any

import pytest

from sizing.report import SizingReport, answer
from sizing.scenario import REFERENCE_SCENARIO, scenario_from

pytestmark = pytest.mark.long

CHECKPOINT_BYTES = 13.8e12
DETECTION, RESTART, WARMUP = 30.0, 120.0, 60.0
HOURS = 3600.0


def answered(rate: float, mtbf: float) -> SizingReport:
    """The published run of 1T at the best interval, with a restart as mlsysim adds it up."""
    document: dict[str, Any] = copy.deepcopy(REFERENCE_SCENARIO)
    document["storage"] = {"profile": {"write_bytes_per_second": rate, "read_bytes_per_second": rate}}
    document["checkpoint"]["restore"] = "read-once-broadcast"  # mlsysim reads each byte once, within the restart
    restart = RESTART + CHECKPOINT_BYTES / rate + WARMUP
    document["reliability"] = {"mtbf_seconds": mtbf, "detection_seconds": DETECTION, "restart_seconds": restart}
    return answer(scenario_from(document))


def simulated(rate: float, mtbf: float) -> Any:
    """The same by mlsysim: to first order, without input waits, preemptions and the first start."""
    goodput, systems = import_module("mlsysim.engine.solvers.goodput"), import_module("mlsysim.systems.reliability")
    quantity = import_module("mlsysim.engine.solvers.reliability").Q_
    recovery = systems.RecoveryProfile(
        heartbeat_timeout_s=DETECTION,
        reschedule_time_s=0.0,
        detection_time_s=DETECTION,
        restart_time_s=RESTART,
        warmup_time_s=WARMUP,
        checkpoint_write_bw_gbs=rate / 1e9,
    )
    return goodput.RuntimeGoodputModel().solve(
        mtbf=quantity(mtbf, "second"),
        checkpoint_bytes=quantity(CHECKPOINT_BYTES, "byte"),
        recovery=recovery,
        input_wait=0.0,
        window=quantity(1e12, "second"),
        lost_work=quantity(0.0, "second"),
        preemption_rate=quantity(1e-15, "1/second"),
    )


@pytest.mark.parametrize("rate", [273e9, 100e9, 1e12])
@pytest.mark.parametrize("mtbf", [34_615.38, 6 * HOURS, 72 * HOURS])
def test_both_answer_alike_up_to_the_order_that_mlsysim_leaves_out(rate: float, mtbf: float) -> None:
    """Write time and Young's interval equal; what is lost differs by less than its square, the next order."""
    ours, theirs = answered(rate, mtbf), simulated(rate, mtbf)
    assert ours.write is not None
    assert ours.write.seconds == pytest.approx(theirs.write_time.m_as("second"), rel=1e-6)
    assert ours.interval.young_seconds == pytest.approx(theirs.interval.m_as("second"), rel=1e-6)
    assert ours.interval.recovery_seconds == pytest.approx(theirs.recovery_time.m_as("second"), rel=1e-6)
    best, lost = ours.interval.goodput_at_optimum_fraction, theirs.runtime_loss
    assert best is not None
    assert 1 - best == pytest.approx(lost, abs=lost**2)
    assert ours.shares.recovering_fraction == pytest.approx(theirs.recovery_share, abs=lost**2)
