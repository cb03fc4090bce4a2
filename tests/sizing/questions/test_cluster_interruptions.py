"""Jobs of a cluster are interrupted as they would be alone: by preemptions, with peers, groups and repairs."""

import copy
from typing import Any

import pytest

from sizing.questions.cluster.report import ClusterReport
from sizing.questions.registry import CLUSTER
from sizing.report import answer
from tests.examples import spread
from tests.sizing.questions.test_decision_ledger import (
    FAILURES,
    NONE,
    NOTICE,
    NVME,
    PEERS,
    REPAIR,
    SHRINK,
    STORAGE,
    TWO,
    scenario,
    spot,
)

SPARES = {"strategy": "spares", "spares": {"num": 1, "swap_seconds": 60}, **REPAIR}
SPOT_CAPACITY = "spot capacity with a notice"
ASYNC = {"checkpoint": {"mode": "async"}}
CASES: dict[str, dict[str, Any]] = {
    "peers": {"reliability": PEERS},
    "peers that are preempted": {"reliability": PEERS | spot(0.2, **NOTICE)},
    "groups": {"reliability": SHRINK},
    "two groups": {"reliability": SHRINK, "parallelism": TWO},
    "a wait for repairs": {"reliability": REPAIR},
    "a spare": {"reliability": SPARES},
    SPOT_CAPACITY: {"reliability": spot(0.2, **NOTICE)},
    "spot capacity without": {"reliability": spot(0.2, **NONE)},
    "asynchronous saves on spot capacity": {"reliability": spot(0.2, **NOTICE), **ASYNC},
    "a tier in front of spot capacity": {"checkpoint": {"tiers": [NVME]}, "reliability": spot(0.2, **NONE)},
}


def cluster(document: dict[str, Any], *, count: int = 1, **more: Any) -> ClusterReport:
    jobs = [{"name": "job", "count": count, "scenario": document}]
    return CLUSTER.answer({"jobs": jobs, "storage": STORAGE, "horizon_seconds": "1000d"} | more)


@pytest.mark.parametrize("name", spread(CASES, by_default=["peers that are preempted", "two groups", "a spare"]))
def test_a_job_alone_loses_what_its_own_answer_says(name: str) -> None:
    """One job over 1,000 days: 1,200 failures, and 4,700 preemptions where there are any.

    Here a save within a notice begins a new interval between saves, and a later failure goes back to it; the formula
    takes it as one beside those of the storage, which costs up to 0.4 % of the time in these cases.
    """
    document = scenario(CASES[name])
    found = cluster(document)
    (job,) = found.jobs
    assert job.goodput_alone_fraction is not None
    assert job.simulated_goodput_fraction == pytest.approx(job.goodput_alone_fraction, abs=0.005)
    assert found.read is not None
    read = found.read.mean_bytes_per_second
    restored = answer(document | {"storage": STORAGE}).restore.read_bytes
    num_restores = read * found.horizon_seconds / restored
    simulated = found.read.simulated.mean_bytes_per_second * found.horizon_seconds / restored
    assert simulated == pytest.approx(num_restores, abs=3.5 * num_restores**0.5 + 0.02 * num_restores + 0.5)
    preemption = document["reliability"].get("preemption")
    assert bool(job.num_preemptions) == (preemption is not None)


@pytest.mark.long
@pytest.mark.parametrize(
    "name", spread(["peers", "peers that are preempted", SPOT_CAPACITY], by_default=[SPOT_CAPACITY])
)
def test_two_jobs_each_lose_what_one_alone_loses_and_no_preempted_job_gains(name: str) -> None:
    """405B on 100 GB/s writes for a minute in half an hour: next to nothing is lost to the other job."""
    document = scenario(CASES[name])
    (job,) = cluster(document, count=2, horizon_seconds="500d").jobs
    alone = answer(document | {"storage": STORAGE}).interval.goodput_at_interval_fraction
    assert job.goodput_alone_fraction == alone
    assert job.simulated_goodput_fraction == pytest.approx(alone, abs=0.007)
    undisturbed = copy.deepcopy(document)
    if undisturbed["reliability"].pop("preemption", None) is None:
        return
    (unhurt,) = cluster(undisturbed, count=2, horizon_seconds="500d").jobs
    assert job.simulated_goodput_fraction < unhurt.simulated_goodput_fraction - 0.03


@pytest.mark.long
def test_preempted_jobs_wait_for_each_other_within_the_notice() -> None:
    """A save takes 57 s alone and just fits the notice: beside 39 others that write it often does not."""
    document = scenario({"reliability": spot(0.2, notice_seconds=60)})
    alone, together = cluster(document, horizon_seconds="200d"), cluster(document, count=40, horizon_seconds="20d")
    lost = [1 - found.jobs[0].simulated_goodput_fraction for found in (alone, together)]
    assert lost[1] > lost[0] + 0.02


def test_a_power_failure_is_no_preemption() -> None:
    """Nobody waits for capacity after it: detection, relaunch and the reading count."""
    document = scenario({"reliability": spot(0.2, capacity_wait_seconds=7200)})
    plain = copy.deepcopy(document)
    plain["reliability"] = FAILURES
    of_spot, of_plain = (cluster(each, horizon_seconds="20d").storms for each in (document, plain))
    assert [storm.last_back_seconds for storm in of_spot] == [storm.last_back_seconds for storm in of_plain]
