"""What a decision bills for restores and saves is what the simulated run does, whatever interrupts it."""

import copy
from typing import Any

import numpy as np
import pytest

from sizing.questions.decide.report import OfferDecision
from sizing.questions.registry import DECIDE
from sizing.report import answer
from sizing.run.evaluation import evaluate
from sizing.run.simulation import SimulationReport, SimulationRequest, simulation_report
from sizing.scenario import scenario_from
from sizing.sized_layout import size_layout
from tests.examples import spread

DAY = 86_400.0
RUN: dict[str, Any] = {
    "model": {"preset": "llama-3.1-405b"},
    "parallelism": {"tensor": 8, "pipeline": 16, "data": 8},
    "checkpoint": {"format": "torch-dist", "interval_seconds": "30min"},
    "cluster": {"node": "dgx-h100"},
}
STORAGE = {"profile": {"write_bytes_per_second": "100 GB/s", "read_bytes_per_second": "400 GB/s"}}
FAILURES = {"mtbf_seconds": "20h", "detection_seconds": 60, "relaunch_seconds": 300}
PEERS = {"strategy": "peers", "step_seconds": 6}
REPAIR = {"repair_seconds": "6h"}
SHRINK = {"strategy": "shrink", "step_seconds": 6, "shrink": {"regroup_seconds": 20}, **REPAIR}
TWO = {"tensor": 8, "pipeline": 16, "data": 2}
NVME = {
    "kind": "local-nvme",
    "interval_seconds": "10min",
    "recovered_fraction": 0.75,
    "storage": {"profile": {"node_write_bytes_per_second": "5 GB/s", "node_read_bytes_per_second": "5 GB/s"}},
}
NOTICE, NONE = {"notice_seconds": 120}, {"notice_seconds": 1}
PRICES = [
    {"amount": 1, "per": "terabyte-read", "name": "read"},
    {"amount": 1, "per": "terabyte-written", "name": "written"},
]


def spot(per_hour: float, **more: Any) -> dict[str, Any]:
    return {"preemption": {"per_hour": per_hour, "capacity_wait_seconds": 600} | more}


CASES: dict[str, dict[str, Any]] = {
    "failures alone": {},
    "a wait for repairs": {"reliability": REPAIR},
    "spot capacity with a notice": {"reliability": spot(0.2, **NOTICE)},
    "spot capacity without": {"reliability": spot(0.2, **NONE)},
    "seldom preempted": {"reliability": spot(0.001, **NOTICE)},
    "preempted all the time": {"reliability": spot(3.0, **NOTICE)},
    "peers": {"reliability": PEERS},
    "peers that are preempted": {"reliability": PEERS | spot(0.2, **NOTICE)},
    "groups": {"reliability": SHRINK},
    "two groups": {"reliability": SHRINK, "parallelism": TWO},
    "a tier in front": {"checkpoint": {"tiers": [NVME]}},
    "a tier in front of spot capacity": {"checkpoint": {"tiers": [NVME]}, "reliability": spot(0.2, **NONE)},
}


def scenario(case: dict[str, Any]) -> dict[str, Any]:
    document = copy.deepcopy(RUN) | {"reliability": FAILURES}
    for block, fields in case.items():
        document[block] = document[block] | fields
    return document


def simulated(document: dict[str, Any]) -> SimulationReport:
    read = scenario_from(document | {"storage": STORAGE})
    return simulation_report(
        evaluate(size_layout(read).workload, read.run_inputs), SimulationRequest(num_runs=100, run_seconds=100 * DAY)
    )


def decided(document: dict[str, Any], prices: list[dict[str, Any]] = PRICES) -> OfferDecision:
    asked = {
        "currency": "USD",
        "horizon_seconds": 100 * DAY,
        "per_lost_gpu_hour": 2.0,
        "settings": {},
        "chooses_interval": False,
        "workloads": [{"name": "training", "scenario": document}],
        "offers": [{"name": "one", "storage": STORAGE, "prices": prices}],
    }
    return DECIDE.answer(asked).offers[0]


@pytest.mark.parametrize(
    "name",
    spread(CASES, by_default=["failures alone", "spot capacity with a notice", "two groups", "a tier in front"]),
)
def test_what_is_billed_is_what_interruptions_read_and_write(name: str) -> None:
    """100 runs of 100 days, and to the first recovery after that.

    Restores are Poisson, so their mean is known to the root of itself over the runs. Every preemption within whose
    notice a save fits makes one save more.
    """
    document = scenario(CASES[name])
    report, runs = answer(document | {"storage": STORAGE}), simulated(document)
    assert report.recovery is not None
    billed = {line.name: line.quantity or 0.0 for line in decided(document).ledger}
    restores = billed["read"] * 1e12 / report.restore.read_bytes * runs.mean_run_seconds / runs.run_seconds
    error = np.sqrt(max(runs.mean_restores, 1.0) / runs.num_runs)
    assert runs.mean_restores == pytest.approx(restores, abs=4 * error)
    kept = (runs.shares.useful_fraction or 0) + (runs.shares.saving_fraction or 0)
    if report.recovery.mean_groups and report.recovery.num_copies:  # those that train on save as often as all of them
        up, num = report.recovery.mean_groups / report.recovery.num_copies, report.recovery.num_copies
        kept *= (1 - (1 - up) ** num) / up
    preempted = (report.recovery.preemptions_per_day or 0) * report.recovery.available_fraction * 100
    in_notice = preempted * (report.recovery.saved_in_notice_fraction or 0)
    saves = billed["written"] * 1e12 / report.checkpoint.written_bytes
    assert saves == pytest.approx(kept * 4800 + in_notice, rel=0.005)


def test_spot_capacity_reads_after_every_preemption_as_a_hand_counts() -> None:
    """3 failures per 60 h and 12 preemptions; of 61 h and a little that this takes, 2 h wait for capacity.

    360 s pass after a failure until a read begins, and 300 s and a save after a notice, if nothing strikes meanwhile.
    """
    document = scenario({"reliability": spot(0.2, **NOTICE)})
    billed = {line.name: line.quantity or 0.0 for line in decided(document).ledger}
    found = answer(document | {"storage": STORAGE})
    assert found.write is not None
    with_nodes, per_hour = 2400 / (1 + 0.2 / 6), 1 / 20 + 0.2
    after_failures, after_notices = (
        np.exp(-per_hour * seconds / 3600) for seconds in (360, 300 + found.write.stall_seconds)
    )
    reads = with_nodes * (after_failures / 20 + 0.2 * after_notices)
    assert billed["read"] * 1e12 / found.restore.read_bytes == pytest.approx(reads, rel=0.001)


def test_peers_and_groups_read_nothing_where_no_failure_needs_a_save() -> None:
    for strategy in (PEERS, SHRINK):
        document = scenario({"reliability": strategy})
        billed = {line.name: line.quantity or 0.0 for line in decided(document).ledger}
        recovery = answer(document | {"storage": STORAGE}).recovery
        assert recovery is not None
        assert recovery.from_storage_fraction < 0.0001
        assert billed["read"] < 0.001 * billed["written"]


@pytest.mark.parametrize(
    ("written_by", "written", "read"), [("rank-0", 1, 0), ("every-rank", 2, 1), ("afterwards", 1, 1)]
)
def test_what_exports_write_and_read_is_billed(written_by: str, written: int, read: int) -> None:
    exporting = scenario({"checkpoint": {"export": {"every": 3, "written_by": written_by}}})
    billed = {line.name: line.quantity or 0.0 for line in decided(exporting).ledger}
    found = answer(exporting | {"storage": STORAGE})
    assert found.export is not None
    assert found.recovery is not None
    num_saves, num_restores = (100 * each for each in (found.recovery.saves_per_day, found.recovery.restores_per_day))
    exported = num_saves / 3 * found.export.num_bytes
    assert billed["written"] * 1e12 == pytest.approx(num_saves * found.checkpoint.written_bytes + written * exported)
    assert billed["read"] * 1e12 == pytest.approx(num_restores * found.restore.read_bytes + read * exported)


def test_requests_of_exports_are_counted_by_file_and_by_part() -> None:
    document = scenario({"checkpoint": {"export": {"every": 1, "written_by": "afterwards"}}})
    prices = [
        {"amount": 1, "per": per, "name": f"{per} {size}"} | ({"request_bytes": size} if size else {})
        for per in ("million-writes", "million-reads")
        for size in (None, "8 MiB")
    ]
    both = [
        {line.name: line.quantity or 0.0 for line in decided(each, prices).ledger} for each in (scenario({}), document)
    ]
    found = answer(document | {"storage": STORAGE})
    assert found.export is not None
    assert found.recovery is not None
    num_exports = found.recovery.saves_per_day * 100
    files = found.export.num_files
    parts = files * np.ceil(found.export.num_bytes / files / (8 * 1024**2))
    for per in ("million-writes", "million-reads"):
        for size, each in ((None, files), ("8 MiB", parts)):
            more = both[1][f"{per} {size}"] - both[0][f"{per} {size}"]
            assert more == pytest.approx(num_exports * each / 1e6, rel=0.001)


READS = [{"amount": 1, "per": "million-reads", "name": "reads"}]


@pytest.mark.parametrize(
    ("restore", "opened"),
    [("every-replica", 8 * 64 + 64), ("read-once-broadcast", 64 + 64), ("parallel-read-exchange", 64 + 64)],
)
def test_a_file_is_requested_by_every_rank_that_reads_it(restore: str, opened: int) -> None:
    """64 ranks write a file each of a state that 8 replicas hold, and all of them read .metadata."""
    document = {
        "model": {"preset": "llama-3.1-8b"},
        "training": {"framework": "fsdp2"},
        "parallelism": {"data": 64, "shard_group": 8},
        "checkpoint": {"format": "fsdp-sharded", "interval_seconds": "1h", "restore": restore},
        "cluster": {"node": "dgx-h100"},
        "reliability": FAILURES,
    }
    (line,) = [line for line in decided(document, READS).ledger if line.name == "reads"]
    recovery = answer(document | {"storage": STORAGE}).recovery
    assert recovery is not None
    assert line.quantity == pytest.approx(recovery.restores_per_day * 100 * opened / 1e6)
