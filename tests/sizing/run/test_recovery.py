"""Recovery strategies: each formula holds against an event simulation, shares add to 1, restart is what it was."""

import random
from typing import Any

import numpy as np
import pytest

from sizing.errors import InvalidInput
from sizing.report import SizingReport, answer
from sizing.run.availability import all_copies_lost_fraction
from sizing.run.evaluation import evaluate
from sizing.run.failures import StrategyName
from sizing.run.interval import Interval
from sizing.run.recovery_strategies import STRATEGIES
from sizing.run.simulation import SimulationReport, SimulationRequest, simulation_report
from sizing.scenario import scenario_from
from sizing.sized_layout import size_layout
from tests.examples import spread

HOURS = 3600.0
DP: dict[str, Any] = {
    "model": {"preset": "llama-3.1-405b"},
    "parallelism": {"tensor": 8, "pipeline": 16, "data": 8},
    "checkpoint": {"format": "torch-dist", "mode": "sync", "interval_seconds": "1h"},
    "cluster": {"node": "dgx-h100"},
    "storage": {"profile": {"write_bytes_per_second": "100 GB/s", "read_bytes_per_second": "400 GB/s"}},
}
"""Eight replicas, each with the whole optimizer on 16 nodes of its own."""
FAILURES = {"mtbf_seconds": 5 * HOURS, "detection_seconds": 60, "relaunch_seconds": 300}
REPAIR = {"repair_seconds": 6 * HOURS}
SPARES = {"strategy": "spares", "spares": {"num": 2, "swap_seconds": 60}, **REPAIR}
PEERS = {"strategy": "peers", "step_seconds": 6}
SHRINK = {"strategy": "shrink", "step_seconds": 6, "shrink": {"regroup_seconds": 20}, **REPAIR}
SPOT = {"per_hour": 0.3, "capacity_wait_seconds": 600, "notice_seconds": 120}

CASES: dict[str, dict[str, Any]] = {
    "restart that waits for a repair": REPAIR,
    "spares": SPARES,
    "peers": PEERS,
    "peers with a spare": PEERS | REPAIR | {"spares": {"num": 1}},
    "shrink": SHRINK,
    "shrink to no fewer than seven": SHRINK | {"shrink": {"regroup_seconds": 20, "min_groups": 7}},
    "preemptions with a save in the notice": {"preemption": SPOT},
    "preemptions without": {"preemption": SPOT | {"notice_seconds": 30}, **SPARES},
    "skipped data": {"data_skip": {"num_batches": 60_000, "batches_per_second": 100}},
}
QUICK = ("spares", "shrink")
"""Which of them are played in the default tests."""
CASES_BY_TIME = [name if name in QUICK else pytest.param(name, marks=pytest.mark.long) for name in CASES]


def asked(reliability: dict[str, Any], **blocks: Any) -> dict[str, Any]:
    own = reliability if "components" in reliability else FAILURES | reliability
    return DP | {"reliability": own} | blocks


def report(reliability: dict[str, Any], **blocks: Any) -> SizingReport:
    return answer(asked(reliability, **blocks))


def simulated(reliability: dict[str, Any], request: SimulationRequest) -> SimulationReport:
    scenario = scenario_from(asked(reliability))
    return simulation_report(evaluate(size_layout(scenario).workload, scenario.run_inputs), request)


@pytest.mark.parametrize("name", CASES_BY_TIME)
def test_a_strategy_agrees_with_its_simulation_share_by_share(name: str) -> None:
    found = simulated(CASES[name], SimulationRequest(num_runs=100, run_seconds=300 * 86_400))
    assert abs(found.difference_in_standard_errors) < 3.5
    assert 0 < found.standard_error_fraction < 0.0015
    by_formula = found.formula_shares.by_name
    assert found.shares.by_name == {key: pytest.approx(share, abs=0.005) for key, share in by_formula.items()}


@pytest.mark.parametrize("name", CASES)
def test_the_four_shares_of_a_strategy_add_to_1(name: str) -> None:
    assert sum(vars(report(CASES[name]).shares).values()) == pytest.approx(1, rel=1e-12)


def test_restart_is_what_follows_where_nothing_is_said() -> None:
    """To the last digit, and nothing is assumed for it."""
    unsaid, said = report({}), report({"strategy": "restart"})
    assert said == unsaid
    assert unsaid.recovery is not None
    assert (unsaid.recovery.strategy, unsaid.recovery.available_fraction) == ("restart", 1.0)


def test_spares_wait_as_erlang_says() -> None:
    """1.2 repairs under way on average. B(2, 1.2) = 0.72 / (1 + 1.2 + 0.72); B(3, 1.2) of the time nobody trains."""
    recovery = report(SPARES).recovery
    assert recovery is not None
    assert recovery.spares_run_out_fraction == pytest.approx(0.72 / 2.92)
    assert recovery.wait_for_node_seconds == pytest.approx(0.72 / 2.92 * 7200)
    assert recovery.available_fraction == pytest.approx(1 - 0.288 / 3.208)
    assert (recovery.num_spare_nodes, recovery.num_spare_gpus) == (2, 16)


@pytest.mark.parametrize("strategy", [SPARES, PEERS | REPAIR | {"spares": {"num": 2, "swap_seconds": 60}}])
@pytest.mark.parametrize("of_nodes", [0, 1, 3])
def test_a_failure_that_takes_no_node_relaunches_and_swaps_no_spare_in(strategy: dict[str, Any], of_nodes: int) -> None:
    """Of 4 failures `of_nodes` take a node: 60 s of a swap for these, 300 s of a relaunch for the others."""
    kinds = ["node"] * of_nodes + ["process"] * (4 - of_nodes)
    parts = [
        {"name": f"{kind} {index}", "mtbf_seconds": "40h", "loss_domain": kind} for index, kind in enumerate(kinds)
    ]
    found = answer(
        DP | {"reliability": {"components": parts, "detection_seconds": 60, "relaunch_seconds": 300} | strategy}
    )
    assert found.restore.seconds is not None
    assert found.recovery is not None
    before = 60 + (of_nodes * 60 + (4 - of_nodes) * 300) / 4
    assert found.restore.time_to_first_step_seconds == pytest.approx(
        before + found.restore.seconds + found.recovery.wait_seconds
    )
    waits = found.recovery.recovery_seconds - found.recovery.wait_seconds
    reading = found.restore.seconds if strategy is SPARES else found.recovery.peer_seconds or 0
    assert waits == pytest.approx(before + reading, rel=0.001)  # a few failures of peers need the storage


def test_a_preemption_relaunches_where_failures_swap_a_spare_in() -> None:
    """Once in 10 h each; nothing else differs, as there is always capacity and always a spare."""
    spot = {"per_hour": 0.1, "capacity_wait_seconds": 0, "notice_seconds": 0}
    often = {"mtbf_seconds": 10 * HOURS, "preemption": spot, "strategy": "spares", "repair_seconds": 1}
    found = report(often | {"spares": {"num": 2, "swap_seconds": 60}})
    assert found.restore.seconds is not None
    assert found.interval.recovery_seconds == pytest.approx((60 + 60 + 300) / 2 + found.restore.seconds)


def test_the_warning_of_spares_speaks_of_failures_of_nodes() -> None:
    """One failure in 10 takes a node. B(1, a) = a / (1 + a) with a = 1 repair under way is 50 % of these, not of all."""
    parts = [
        {"name": "process", "count": 9, "mtbf_seconds": "100h", "loss_domain": "process"},
        {"name": "node", "mtbf_seconds": "100h"},
    ]
    reliability = {"components": parts, "strategy": "spares", "spares": {"num": 1}, "repair_seconds": "100h"}
    found = report(reliability)
    assert found.recovery is not None
    assert found.recovery.wait_seconds == pytest.approx(0.1 * 0.5 * 100 * HOURS / 2)
    assert found.recovery.wait_for_node_seconds == pytest.approx(0.5 * 100 * HOURS / 2)
    (warning,) = [warning for warning in found.warnings if "find no spare" in warning]
    assert warning.startswith("50.0 % of the failures of nodes find no spare")
    assert "25.00 h on average over failures of nodes" in warning


@pytest.mark.parametrize("reliability", [REPAIR, SPARES, PEERS | REPAIR | {"spares": {"num": 1}}, {}])
def test_the_target_of_recovery_counts_the_wait_for_nodes(reliability: dict[str, Any]) -> None:
    """One answer has one RTO. The read rate that a target requires is what the wait leaves of it."""
    found = report(reliability)
    assert found.recovery is not None
    assert found.restore.seconds is not None
    wait = found.recovery.wait_for_node_seconds or 0.0
    swap = 60 if reliability is SPARES else 300
    assert found.restore.time_to_first_step_seconds == pytest.approx(wait + 60 + swap + found.restore.seconds)
    if reliability not in (SPARES, REPAIR, {}):
        return
    assert found.interval.recovery_seconds == pytest.approx(found.restore.time_to_first_step_seconds)
    wanted = wait + 60 + swap + 30
    rate = report(reliability, targets={"recovery_seconds": wanted}).required.restore_bytes_per_second
    assert rate is not None
    storage = {"profile": DP["storage"]["profile"] | {"read_bytes_per_second": rate}}
    at_rate = report(reliability, targets={"recovery_seconds": wanted}, storage=storage)
    assert at_rate.restore.time_to_first_step_seconds == pytest.approx(wanted)


def test_no_storage_meets_a_recovery_shorter_than_the_wait_for_a_node() -> None:
    found = report(REPAIR, targets={"recovery_seconds": "1h"})
    (check,) = [check for check in found.targets if check.target == "recovery_seconds"]
    assert check.met is False
    assert "the wait for a node takes 6.00 h on average" in (check.remedy or "")


def test_restores_are_reads_that_begin_not_failures_before_them() -> None:
    """A failure in 1,800 s, of which 500 s pass until the read: e^(-500 / 1800) of the recoveries get there."""
    reliability = {"mtbf_seconds": 1800, "detection_seconds": 100, "relaunch_seconds": 400}
    found = report(reliability).recovery
    assert found is not None
    dice, seconds, num_reads = random.Random(1), 0.0, 0  # noqa: S311 - chance
    while seconds < 2e8:
        seconds += (passed := dice.expovariate(1 / 1800))
        num_reads += passed >= 500  # each failure but the first strikes after another one, in a recovery or after it
    assert found.restores_per_day == pytest.approx(86_400 * num_reads / seconds, rel=0.01)
    runs = simulated(reliability, SimulationRequest(num_runs=100, run_seconds=30 * 86_400))
    assert found.restores_per_day == pytest.approx(runs.mean_restores * 86_400 / runs.mean_run_seconds, rel=0.01)


@pytest.mark.parametrize(
    "name",
    spread(
        ["shrink", "preemptions with a save in the notice", "preemptions without"],
        by_default=["preemptions with a save in the notice"],
    ),
)
def test_simulated_reads_of_the_main_storage_are_as_many_as_the_formula_says(name: str) -> None:
    case = {"mtbf_seconds": HOURS} | CASES[name] | {"relaunch_seconds": 1200}
    found = report(case).recovery
    assert found is not None
    runs = simulated(
        case, SimulationRequest(num_runs=200, run_seconds=300 * 86_400 if name == "shrink" else 30 * 86_400)
    )
    error = 4 / np.sqrt(runs.mean_restores * runs.num_runs)
    assert found.restores_per_day == pytest.approx(
        runs.mean_restores * 86_400 / runs.mean_run_seconds, rel=error + 0.01
    )


@pytest.mark.parametrize(
    ("notice", "planning", "named"),
    [
        (0, {}, "without notice undoes the work since the newest save. Save more often"),
        (10, {}, "It takes a higher write bandwidth"),
        (3, {}, "It takes checkpoint.cached_plans true"),
        (3, {"planning_seconds_per_rank": 0.007}, "It takes a notice of more than 7.17 s"),
    ],
)
def test_a_notice_that_is_too_short_has_a_remedy_that_cures(
    notice: float, planning: dict[str, Any], named: str
) -> None:
    """1,024 ranks plan for about 7 s, which no bandwidth shortens and cached plans do, if nobody has measured them."""
    storage = {"profile": DP["storage"]["profile"] | planning}
    found = report({"preemption": SPOT | {"notice_seconds": notice}}, storage=storage)
    (warning,) = [warning for warning in found.warnings if "preemption" in warning]
    assert named in warning


@pytest.mark.parametrize(("per_hour", "warned"), [(1, []), (12, ["recoveries"]), (360, ["recoveries", "saves"])])
def test_preemptions_interrupt_saves_and_recoveries_as_failures_do(per_hour: float, warned: list[str]) -> None:
    """A failure in 10 days; a save of 57 s or more, a recovery of 300 s or more; a preemption in 3,600, 300 or 10 s."""
    spot = {"per_hour": per_hour, "capacity_wait_seconds": 60, "notice_seconds": 0}
    found = report({"mtbf_seconds": "10d", "preemption": spot})
    interrupted = [warning for warning in found.warnings if "are interrupted" in warning]
    assert (
        sorted(what for what in ("saves", "recoveries") if any(f"most {what}" in each for each in interrupted))
        == warned
    )
    assert all("the job fails or is preempted every" in each for each in interrupted)


@pytest.mark.parametrize("interval", [60, 5])
def test_saves_take_no_more_than_the_time_in_which_the_run_does_not_recover(interval: float) -> None:
    """Of a save of 20 s every 5 s one follows the other; failures once in 5 h leave them all of the time but recovery."""
    storage = {"profile": DP["storage"]["profile"] | {"write_bytes_per_second": "285 GB/s"}}
    checkpoint = DP["checkpoint"] | {"interval_seconds": interval, "cached_plans": True}
    found = report({}, checkpoint=checkpoint, storage=storage)
    assert found.write is not None
    assert found.recovery is not None
    assert found.restore.seconds is not None
    assert 15 < found.write.seconds < 30
    per_day = found.recovery.saves_per_day
    running = float(np.exp(-(360 + found.restore.seconds) / (5 * HOURS)))
    if interval == 60:
        assert per_day == pytest.approx(running * 86_400 / 60, rel=0.003)  # failures undo a few
    else:
        assert found.interval.goodput_at_interval_fraction == 0
        assert per_day * found.write.seconds == pytest.approx(running * 86_400)


def test_spares_are_lost_gpu_time() -> None:
    costs = {"per_lost_gpu_hour": 2.0, "run_seconds": "10d"}
    found = report(SPARES, costs=costs)
    assert found.cost is not None
    goodput = found.interval.goodput_at_interval_fraction or 0
    assert found.cost.lost_gpu_hours == pytest.approx(((1 - goodput) * 1024 + 16) * 240)


@pytest.mark.parametrize("saved_as", ["fsdp-sharded", "full"])
def test_peers_send_a_node_its_shards_whoever_reads_the_files(saved_as: str) -> None:
    """Eight of 16 shards of a copy stand on a node, each with 12 bytes of state per parameter."""
    blocks: dict[str, Any] = {
        "training": {"framework": "fsdp2"},
        "parallelism": {"data": 64, "shard_group": 16},
        "checkpoint": {"format": saved_as},
        "reliability": PEERS | FAILURES,
        "storage": {"profile": {"write_bytes_per_second": "100 GB/s", "read_bytes_per_second": "400 GB/s"}},
    }
    sized = answer(scenario_from({"model": {"preset": "llama-3.1-70b"}, "cluster": {"node": "dgx-h100"}} | blocks))
    assert sized.recovery is not None
    assert sized.recovery.peer_bytes_per_node == pytest.approx(12 * 70_553_706_496 / 2, rel=1e-3)


def test_peers_send_the_state_of_a_node_over_its_network_and_lose_a_step() -> None:
    """16 bytes of state per parameter, less fp32 gradients that are not saved: 14; 400 GB/s per DGX H100."""
    recovery = report(PEERS).recovery
    assert recovery is not None
    node_bytes = recovery.peer_bytes_per_node or 0
    assert node_bytes == pytest.approx(14 * 405.85e9 / 16, rel=0.1)
    assert recovery.peer_seconds == pytest.approx(node_bytes / 400e9)
    redone = report(PEERS | {"mtbf_seconds": 1e5}).shares.redone_fraction or 0
    restarted = report({"mtbf_seconds": 1e5}).shares.redone_fraction or 0
    assert redone < restarted / 50


def test_all_copies_are_lost_as_often_as_nodes_that_fail_at_random_say() -> None:
    """Three copies on nodes that fail once in 1,000 s; after a failure of the first, the others within 300 s."""
    failures = np.random.default_rng(7).exponential(1000.0, (400_000, 2))
    seen = float((failures < 300.0).all(axis=1).mean())
    expected = float(all_copies_lost_fraction(3, window_seconds=300.0, node_mtbf_seconds=1000.0))
    assert seen == pytest.approx(expected, abs=4 * np.sqrt(expected / 400_000))


def test_failures_of_more_than_a_node_need_the_storage() -> None:
    parts = [
        {"name": "node", "count": 3, "mtbf_seconds": "20h"},
        {"name": "switch", "mtbf_seconds": "20h", "loss_domain": "rack"},
    ]
    recovery = answer(DP | {"reliability": {"components": parts, **PEERS}}).recovery
    assert recovery is not None
    assert recovery.from_storage_fraction == pytest.approx(0.25)


def test_a_notice_that_a_save_fits_into_saves_the_work() -> None:
    def redone(notice: float) -> float:
        return report({"preemption": SPOT | {"notice_seconds": notice}}).shares.redone_fraction or 0

    write = report({}).write
    assert write is not None
    assert redone(write.seconds * 1.01) < redone(write.seconds * 0.99) / 2
    assert redone(write.seconds * 1.01) == redone(write.seconds * 2)


def walked_goodput(*, interval: float, stall: float, recovery: float, mtbf: float, preempted: float) -> float:
    """Share of 3e9 s with nodes, interruption by interruption; each preemption saves and each failure reads that too."""
    dice, per_second = random.Random(1), 1 / mtbf + 1 / preempted  # noqa: S311 - equal walks
    wall = position = saved = 0.0
    while wall < 3e9:
        trained = dice.expovariate(per_second)
        wall, position = wall + trained, position + trained
        saved = max(saved, position // interval * interval)
        if dice.random() < 1 / preempted / per_second:
            saved = position
        while (struck := dice.expovariate(per_second)) < recovery:
            wall += struck
        wall, position = wall + recovery, saved
    whole = position // interval
    return (whole * (interval - stall) + min(position - whole * interval, interval - stall)) / wall


@pytest.mark.parametrize("interval", spread([300.0, 2700.0, 6000.0], by_default=[2700.0]))
def test_failures_find_the_save_within_a_notice_however_long_the_recovery(interval: float) -> None:
    """Preempted every 2.2 h on average, recovering for 5 h: most recoveries are broken off by the next interruption."""
    reliability = {
        "mtbf_seconds": 45 * HOURS,
        "detection_seconds": 0,
        "relaunch_seconds": 5 * HOURS,
        "preemption": {"per_hour": 0.45, "capacity_wait_seconds": 0, "notice_seconds": 120},
    }
    checkpoint = DP["checkpoint"] | {"interval_seconds": interval}
    found = report(reliability, checkpoint=checkpoint)
    assert found.write is not None
    assert found.restore.seconds is not None
    walked = walked_goodput(
        interval=interval,
        stall=found.write.stall_seconds,
        recovery=5 * HOURS + found.restore.seconds,
        mtbf=45 * HOURS,
        preempted=HOURS / 0.45,
    )
    assert found.interval.goodput_at_interval_fraction == pytest.approx(walked, rel=0.01)
    scenario = scenario_from(asked(reliability, checkpoint=checkpoint))
    request = SimulationRequest(num_runs=100, run_seconds=2e7)
    simulation = simulation_report(evaluate(size_layout(scenario).workload, scenario.run_inputs), request)
    assert simulation.goodput_fraction == pytest.approx(walked, rel=0.02)


def test_the_best_interval_counts_saves_that_are_begun_again() -> None:
    """A save of 4 h, a failure every 5 h that peers recover: two intervals beside the best one lose more."""
    slow = {"profile": {"write_bytes_per_second": "0.4 GB/s", "read_bytes_per_second": "400 GB/s"}}
    parts = [
        {"name": "node", "mtbf_seconds": 5 * HOURS},
        {"name": "switch", "mtbf_seconds": 500 * HOURS, "loss_domain": "rack"},
    ]

    def found(interval: float) -> Interval:
        checkpoint = DP["checkpoint"] | {"interval_seconds": interval}
        return report({"components": parts, **PEERS}, checkpoint=checkpoint, storage=slow).interval

    best = found(40 * HOURS)
    for factor in (0.8, 1.25):
        beside = found(factor * (best.optimal_period_seconds or 0)).goodput_at_interval_fraction
        assert (beside or 0) < (best.goodput_at_optimum_fraction or 0)


def test_a_save_that_drains_from_a_tier_counts_its_copy_in_the_notice() -> None:
    """The copy stands in the tier's stall, the drain in the storage's."""
    tier = {"kind": "host-memory", "interval_seconds": "10min", "recovered_fraction": 0.5}
    slow_copy = {"profile": DP["storage"]["profile"] | {"device_to_host_bytes_per_second": "1 GB/s"}}
    checkpoint = DP["checkpoint"] | {"mode": "async", "tiers": [tier]}

    def found(notice: float) -> SizingReport:
        return report({"preemption": SPOT | {"notice_seconds": notice}}, checkpoint=checkpoint, storage=slow_copy)

    memory, storage = found(1).tiers
    drain, copy = storage.drain_seconds, memory.stall_seconds + storage.stall_seconds  # the latter are its plans
    assert memory.stall_seconds > 5
    saved = [found(notice).recovery for notice in (drain * 1.01, (copy + drain) * 0.99, (copy + drain) * 1.01)]
    assert [each and each.saved_in_notice_fraction for each in saved] == [0.0, 0.0, 1.0]


def test_a_batch_that_shrinks_has_the_size_of_the_groups_that_train() -> None:
    """Groups fail once in 40 h and take 6 h: 40/46 of them train."""
    shrinking = report(SHRINK | {"shrink": {"regroup_seconds": 20, "keeps_batch": False}}).recovery
    kept = report(SHRINK).recovery
    assert shrinking is not None
    assert kept is not None
    assert shrinking.mean_batch_fraction == pytest.approx(40 / 46)
    assert kept.mean_batch_fraction == 1
    assert shrinking.throughput_fraction == kept.throughput_fraction == pytest.approx(40 / 46)


def test_skipping_data_makes_every_recovery_longer() -> None:
    without, skipping = report({}), report({"data_skip": {"seconds": "10min"}})
    for before, after in (
        (without.restore.time_to_first_step_seconds, skipping.restore.time_to_first_step_seconds),
        (without.interval.recovery_seconds, skipping.interval.recovery_seconds),
    ):
        assert (after or 0) - (before or 0) == pytest.approx(600)


def test_the_registry_has_every_name() -> None:
    assert set(STRATEGIES) == set(StrategyName.__args__)  # type: ignore[attr-defined]  # of a Literal


ONE_REPLICA = {"parallelism": {"tensor": 8, "pipeline": 16, "data": 1}}
DISTRIBUTED = {"training": {"distributed_optimizer": True}}
REFUSED: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "peers without replicas": (PEERS, ONE_REPLICA, "no other node holds a copy"),
    "peers that share one optimizer": (PEERS, DISTRIBUTED, "no other node holds a copy"),
    "no spares": ({**SPARES, "spares": {"num": 0}}, {}, "must be at least 1, got 0"),
    "spares that are not said": ({"strategy": "spares", **REPAIR}, {}, "has strategy spares without spares"),
    "shrink alone": (
        {"strategy": "shrink"},
        {},
        "has strategy shrink without shrink, repair_seconds, step_seconds: give reliability.shrink.regroup_seconds, "
        "reliability.repair_seconds, reliability.step_seconds",
    ),
    "spares without a strategy": ({"spares": {"num": 1}, **REPAIR}, {}, "has spares or shrink and no strategy"),
    "one group": (SHRINK, ONE_REPLICA, "with one data-parallel group"),
    "more groups needed than there are": (
        SHRINK | {"shrink": {"regroup_seconds": 20, "min_groups": 9}},
        {},
        "at most the 8 groups",
    ),
    "preemption of all groups": (SHRINK | {"preemption": SPOT}, {}, "cannot go with strategy shrink"),
    "preemption without a wait": ({"preemption": {"per_hour": 1}}, {}, "capacity_wait_seconds"),
    "skipping told twice": ({"restart_seconds": 600, "relaunch_seconds": 0, "data_skip": {"seconds": 60}}, {}, "holds"),
    "half of a skip": ({"data_skip": {"num_batches": 60}}, {}, "num_batches and batches_per_second"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_bad_input_is_refused_in_one_sentence(name: str) -> None:
    reliability, blocks, told = REFUSED[name]
    with pytest.raises(InvalidInput, match="reliability") as refused:
        report(reliability, **blocks)
    assert len(refused.value.problems) == 1
    assert told in str(refused.value)


@pytest.mark.parametrize(
    ("training", "degrees", "remedy", "applied"),
    [
        (
            {"framework": "megatron", "distributed_optimizer": True},
            {"tensor": 8, "data": 2},
            "set training.distributed_optimizer to false",
            {"training": {"framework": "megatron", "distributed_optimizer": False}},
        ),
        (
            {"framework": "deepspeed"},
            {"data": 16, "zero_stage": 3},
            "set parallelism.zero_stage to 0",
            {"parallelism": {"data": 16, "zero_stage": 0}},
        ),
        (
            {"framework": "fsdp2"},
            {"data": 16},
            "set parallelism.shard_group below data x context",
            {"parallelism": {"data": 16, "shard_group": 8}},
        ),
    ],
    ids=["megatron", "deepspeed", "fsdp2"],
)
def test_what_gives_peers_a_copy_is_a_field_of_the_framework_and_does_so(
    training: dict[str, Any], degrees: dict[str, Any], remedy: str, applied: dict[str, Any]
) -> None:
    scenario = {
        "model": {"preset": "llama-3.1-8b"},
        "training": training,
        "parallelism": degrees,
        "cluster": {"node": "dgx-h100"},
        "reliability": {"mtbf_seconds": 72_000, "strategy": "peers", "step_seconds": 3},
        "storage": {"profile": {"write_bytes_per_second": 1e10, "read_bytes_per_second": 1e10}},
    }
    with pytest.raises(InvalidInput, match=f"raise parallelism.data or {remedy}"):
        answer(scenario)
    answer(scenario | applied)


def test_failures_of_whole_racks_that_wait_for_one_node_are_warned_of() -> None:
    parts = [{"name": name, "mtbf_seconds": "400h", "loss_domain": name} for name in ("node", "rack")]
    asked = {"components": parts, "detection_seconds": 60, "relaunch_seconds": 300, "repair_seconds": "6h"}
    warnings = answer(DP | {"reliability": asked}).warnings
    assert [each.partition(" take a rack")[0] for each in warnings if "take a rack" in each] == [
        "50.0 % of the failures"
    ]
    without_repairs = {name: value for name, value in asked.items() if name != "repair_seconds"}
    assert not [each for each in answer(DP | {"reliability": without_repairs}).warnings if "take a rack" in each]
