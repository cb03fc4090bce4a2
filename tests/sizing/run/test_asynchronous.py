"""Asynchronous saving stalls for the copy, drains before the next save, and counts only once drained."""

import math
from typing import Any

import numpy as np
import pytest

from sizing.errors import InvalidInput
from sizing.published import published
from sizing.report import answer
from sizing.run.evaluation import evaluate
from sizing.run.figures import with_arrays
from sizing.scenario import scenario_from
from sizing.sized_layout import size_layout
from tests.sizing.run.scenarios import ASYNC, NVME, document, report, tiered, write_of

BYTES = 14 * 405_853_388_800
LARGEST_SHARE = 4 * (128_256 // 8) * 16_384
"""Bytes of the rank with most: a tensor rank's rows of the embedding in fp32, dealt whole."""
COPY_SECONDS = LARGEST_SHARE / 20e9
WRITE_SECONDS = BYTES / 100e9


def test_training_stalls_for_the_copy_and_the_rest_drains() -> None:
    write = write_of(report(ASYNC))
    assert write.stall_seconds == pytest.approx(COPY_SECONDS, rel=1e-6)
    assert write.drain_seconds == pytest.approx(WRITE_SECONDS, rel=1e-6)
    assert write.seconds == pytest.approx(write.stall_seconds + write.drain_seconds)


def test_training_goes_on_when_the_largest_rank_has_copied_its_share() -> None:
    """Whole shards make ranks unequal: 8 B of embedding and head on some ranks of the end stages."""
    found = report(ASYNC, training={"distributed_optimizer": True}, checkpoint={"optimizer_sharding": "dp-reshardable"})
    write, layout = write_of(found), found.layout
    assert layout.largest_over_mean > 2
    assert write.stalled_by_copy_seconds == pytest.approx(layout.max_rank_bytes / 20e9, rel=1e-6)
    assert write.seconds == pytest.approx(write.stall_seconds + write.drain_seconds)
    required = report(
        ASYNC,
        training={"distributed_optimizer": True},
        checkpoint={"optimizer_sharding": "dp-reshardable"},
        targets={"max_stall_seconds": 2},
    ).required
    assert required.device_to_host_bytes_per_second == pytest.approx(layout.max_rank_bytes / 2, rel=1e-6)


def test_a_drain_counts_as_work_lost_at_each_failure() -> None:
    found = report(ASYNC)
    interval, write = found.interval, write_of(found)
    recovery = 60 + 300 + (found.restore.seconds or 0)
    mtbf = 86_400 / (0.0038 * 2048)
    tau = 600 - write.stall_seconds
    expected = tau * math.exp(-(recovery + write.drain_seconds) / mtbf) / (mtbf * math.expm1(600 / mtbf))
    assert interval.recovery_seconds == pytest.approx(recovery)
    assert interval.goodput_at_interval_fraction == pytest.approx(expected, rel=1e-9)
    assert found.restore.time_to_first_step_seconds == interval.recovery_seconds


def test_a_save_that_has_not_drained_delays_the_next_one() -> None:
    found = report(ASYNC, checkpoint={"interval_seconds": 30})
    write, interval = write_of(found), found.interval
    assert interval.effective_interval_seconds == pytest.approx(write.stall_seconds + write.drain_seconds)
    assert found.overhead.fraction == pytest.approx(write.stall_seconds / (write.stall_seconds + write.drain_seconds))
    assert found.recovery is not None
    saves_per_day = (interval.goodput_at_interval_fraction or 0) * 86_400 / (write.seconds - write.stall_seconds)
    assert found.recovery.saves_per_day == pytest.approx(saves_per_day, rel=1e-3)
    assert found.capacity.written_bytes_per_day == pytest.approx(found.recovery.saves_per_day * BYTES, rel=1e-6)
    assert any("so saves cannot start every" in warning for warning in found.warnings)


def test_the_best_interval_leaves_time_to_drain() -> None:
    found = report(ASYNC, storage={"profile": {"write_bytes_per_second": "5 GB/s", "planning_seconds_per_rank": 0}})
    assert found.interval.optimal_seconds == pytest.approx(write_of(found).drain_seconds)


def test_the_least_write_rate_drains_within_the_interval_exactly() -> None:
    required = report(ASYNC).required
    assert required.write_target == "interval_seconds"
    at_the_limit = ASYNC["storage"]["profile"] | {"write_bytes_per_second": required.write_bytes_per_second}
    again = report(ASYNC, storage={"profile": at_the_limit})
    assert write_of(again).seconds == pytest.approx(600, rel=1e-9)


def test_the_least_copy_rate_stalls_for_what_the_target_allows() -> None:
    required = report(ASYNC, targets={"max_stall_seconds": 2}).required
    assert required.device_to_host_bytes_per_second == pytest.approx(LARGEST_SHARE / 2, rel=1e-6)


def test_without_a_copy_rate_the_middle_of_what_was_measured_is_assumed() -> None:
    """0.1 to 0.84 of the 63 GB/s of PCIe 5.0."""
    found = report(ASYNC, storage={"profile": {"write_bytes_per_second": "100 GB/s"}})
    assert write_of(found).stalled_by_copy_seconds == pytest.approx(LARGEST_SHARE / (0.47 * 63e9), rel=1e-6)
    (assumed,) = (each for each in found.assumptions if each.field == "storage.profile.device_to_host_bytes_per_second")
    assert assumed.value == pytest.approx(29.61e9)
    assert "47.0 % of the line rate" in assumed.reason


def test_a_node_without_a_published_link_needs_a_copy_rate() -> None:
    blocks: dict[str, Any] = {
        "storage": {"profile": {"write_bytes_per_second": "100 GB/s"}},
        "cluster": {"node": None, "node_spec": {"gpus_per_node": 8}},
    }
    with pytest.raises(InvalidInput, match="device_to_host_bytes_per_second is required for the copy to host memory"):
        report(ASYNC, **blocks)


def test_what_is_staged_must_fit_the_host_memory() -> None:
    found = report(ASYNC)
    memory = found.host_memory
    assert memory.staged_bytes == 8 * found.layout.max_rank_bytes
    assert memory.fits
    small = {"node": None, "node_spec": {"gpus_per_node": 8, "host_memory_bytes": "1 GB", "pcie_generation": 5}}
    found = report(ASYNC, cluster=small)
    assert found.host_memory.fits is False
    assert any("of host memory per node" in warning for warning in found.warnings)


@pytest.mark.parametrize("name", ["megatron", "megatron-distributed-optimizer"])
def test_formats_that_only_save_synchronously_refuse(name: str) -> None:
    with pytest.raises(InvalidInput, match=f"checkpoint.mode must be sync with format {name}"):
        report(document(ASYNC, checkpoint={"format": name, "optimizer_sharding": None}))


def test_an_unknown_mode_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"checkpoint\.mode must be one of 'sync' or 'async'"):
        scenario_from(document(ASYNC, checkpoint={"mode": "lazy"}))


@pytest.mark.parametrize("profile", [{"write_bytes_per_second": "1 TB/s"}, None])
def test_the_required_rate_counts_a_copy_at_the_rate_of_the_links(profile: dict[str, Any] | None) -> None:
    storage = None if profile is None else {"profile": profile}
    base = document(ASYNC, storage=None)
    required = report(base, **({"storage": storage} if storage else {})).required
    again = report(base, storage={"profile": {"write_bytes_per_second": required.write_bytes_per_second}})
    assert write_of(again).seconds == pytest.approx(600, rel=1e-9)


def marin(**checkpoint: Any) -> dict[str, Any]:
    """The rack of marin-8514: 64 processes with 78 GiB each, uploaded at 0.6 GiB/s each, copied in 13 s.

    JAX makes no plans of PyTorch's kind.
    """
    check = next(row for row in published("stall_incidents")["rows"] if row["id"] == "marin-8514")["check"]
    share = check["share_gib"] * 2**30
    return {
        "model": {"num_parameters": 447e9},
        "training": {"framework": "fsdp2", "precision": "fp32"},
        "parallelism": {"data": 64},
        "cluster": {"node": "dgx-gb200"},
        "checkpoint": {"mode": "async", "interval_seconds": "64min", "observed_bytes": round(64 * share)} | checkpoint,
        "storage": {
            "profile": {
                "writer_write_bytes_per_second": check["upload_gib_per_s"] * 2**30,
                "device_to_host_bytes_per_second": share / check["copy_seconds"],
                "planning_seconds_per_rank": 0,
            }
        },
    }


def test_a_share_beyond_its_staging_budget_stalls_as_marin_measured() -> None:
    """130.1 s measured; 13 s without the budget."""
    whole, staged = (write_of(report(marin(**given))) for given in ({}, {"staging_bytes": "8 GiB"}))
    assert whole.stall_seconds == pytest.approx(13)
    assert staged.stall_seconds == pytest.approx(130.1, rel=0.005)
    assert staged.stalled_by_staging_seconds == pytest.approx(70 / 0.6)
    assert staged.drain_seconds == pytest.approx(8 / 0.6, rel=1e-3)
    assert staged.seconds == pytest.approx(whole.seconds)


def test_a_budget_for_the_whole_share_stalls_no_longer() -> None:
    for budget in ("78 GiB", "1 TiB"):
        found = report(marin(staging_bytes=budget))
        assert write_of(found).stall_seconds == pytest.approx(13)
        assert not any("staging_bytes" in warning for warning in found.warnings)


def test_what_waits_for_room_is_warned_of() -> None:
    found = report(marin(staging_bytes="8 GiB"))
    (warning,) = (each for each in found.warnings if "staging_bytes" in each)
    assert "83.75 GB to save and checkpoint.staging_bytes 8.590 GB" in warning
    assert "each save waits 116.67 s longer" in warning


def test_a_sweep_over_budgets_gives_what_each_gives_alone() -> None:
    scenario = scenario_from(marin(staging_bytes=1))
    budgets = np.array([1.0, 2.0**33, 2.0**37, 1e12])
    inputs = with_arrays(scenario, {"checkpoint.staging_bytes": budgets}).run_inputs
    write = evaluate(size_layout(scenario).workload, inputs).report.write
    alone = [write_of(report(marin(staging_bytes=int(budget)))).stall_seconds for budget in budgets]
    assert write is not None
    assert np.asarray(write.stall_seconds).tolist() == pytest.approx(alone)


def test_the_write_rate_for_a_stall_target_leaves_the_copy_its_time() -> None:
    asked = marin(staging_bytes="8 GiB") | {"targets": {"max_stall_seconds": 60, "max_overhead_fraction": 1}}
    found = report(asked)
    assert found.required.write_target == "max_stall_seconds"
    (missed,) = (check for check in found.targets if check.met is False)
    assert "write bandwidth per writer" in (missed.remedy or "")
    rate = (found.required.write_bytes_per_second or 0) / 64
    again = {"profile": asked["storage"]["profile"] | {"writer_write_bytes_per_second": rate}}
    assert write_of(report(asked, storage=again)).stall_seconds == pytest.approx(60)


def test_each_local_process_holds_its_budget() -> None:
    asked = document(ASYNC, checkpoint={"optimizer_sharding": "dp-reshardable"})  # the other gathers on every rank
    whole, staged = (report(asked, checkpoint=given).host_memory for given in ({}, {"staging_bytes": "200 MB"}))
    assert staged.staged_bytes == 8 * 200_000_000 < whole.staged_bytes
    small = {"node": None, "node_spec": {"gpus_per_node": 8, "host_memory_bytes": "2.5 GB", "pcie_generation": 5}}
    assert [
        report(asked, cluster=small, checkpoint=given).host_memory.fits for given in ({}, {"staging_bytes": "200 MB"})
    ] == [
        False,
        True,
    ]


def test_the_first_tier_waits_for_room_too() -> None:
    asked = tiered(NVME, interval="1h")
    base, staged = (report(asked, checkpoint=given).tiers for given in ({}, {"staging_bytes": "100 MB"}))
    share = LARGEST_SHARE
    waits = base[0].drain_seconds * (1 - 100e6 / share)
    assert staged[0].stall_seconds == pytest.approx(base[0].stall_seconds + waits, rel=1e-3)
    assert staged[0].stall_seconds + staged[0].drain_seconds == pytest.approx(
        base[0].stall_seconds + base[0].drain_seconds
    )
    assert staged[1].stall_seconds == base[1].stall_seconds


PLANNED = {"write_bytes_per_second": "100 GB/s", "device_to_host_bytes_per_second": "20 GB/s"}
UNCACHED = 62 / 8960
"""Seconds of planning per rank of Megatron-LM, 405B (ByteCheckpoint, arXiv 2407.20143, section 4.1, at second hand)."""
OF_256 = {"tensor": 8, "pipeline": 16, "data": 2}


@pytest.mark.parametrize(
    ("per_rank", "seconds"), [(90 / 256, 90.0), (1.5 / 256, 1.5), (None, 256 * UNCACHED * (1 + 1.5 / 90) / 2)]
)
def test_ranks_of_megatron_plan_in_the_stall(per_rank: float | None, seconds: float) -> None:
    """90 s for 256 ranks, 1.5 s with cached plans; the middle of both where every rank plans only a share."""
    given = {} if per_rank is None else {"planning_seconds_per_rank": per_rank}
    write = write_of(report(ASYNC, parallelism=OF_256, storage={"profile": PLANNED | given}))
    assert write.stalled_by_planning_seconds == pytest.approx(seconds)
    assert write.stall_seconds == pytest.approx(seconds + write.stalled_by_copy_seconds)
    fourfold = write_of(report(ASYNC, parallelism=OF_256 | {"data": 8}, storage={"profile": PLANNED | given}))
    assert fourfold.stalled_by_planning_seconds == pytest.approx(4 * seconds)


def test_pytorch_plans_every_tensor_on_every_rank_in_the_background() -> None:
    asked = document(
        ASYNC, checkpoint={"format": "fsdp-sharded", "optimizer_sharding": None}, storage={"profile": PLANNED}
    )
    asked |= {"training": {"framework": "fsdp2"}, "parallelism": {"data": 256}}
    found, free = (
        report(asked, storage={"profile": PLANNED | given}) for given in ({}, {"planning_seconds_per_rank": 0})
    )
    assert write_of(found).stall_seconds == write_of(free).stall_seconds
    assert write_of(found).drain_seconds - write_of(free).drain_seconds == pytest.approx((90 + 1.5) / 2)
    sync = report(
        asked,
        storage={"profile": PLANNED},
        checkpoint={"format": "fsdp-sharded", "optimizer_sharding": None, "mode": "sync"},
    )
    assert write_of(sync).stall_seconds == write_of(sync).seconds
    planned = {each.field: each for each in found.assumptions}["storage.profile.planning_seconds_per_rank"]
    assert planned.value == pytest.approx(0.17871, rel=1e-4)
    assert "pytorch/pytorch#149785" in planned.reason


def test_the_planning_assumed_is_the_middle_of_the_range_shown() -> None:
    for asked in (
        document(ASYNC, storage={"profile": PLANNED}) | {"parallelism": OF_256},
        document(ASYNC, storage={"profile": PLANNED}, checkpoint={"format": "fsdp-sharded", "optimizer_sharding": None})
        | {"training": {"framework": "fsdp2"}, "parallelism": {"data": 256}},
    ):
        found = {each.field: each for each in report(asked).guesses}.get("storage.profile.planning_seconds_per_rank")
        assert found is not None
        assert isinstance(found.low, float)
        assert isinstance(found.high, float)
        assert found.assumed == pytest.approx((found.low + found.high) / 2, rel=1e-12)
        assert found.low == pytest.approx(found.high / 60, rel=1e-12), "1.5 of 90 s with cached plans"


def test_whole_shares_that_are_assumed_to_fit_host_memory_are_a_guess_down_to_a_budget_of_8_gib() -> None:
    """marin-community/marin#8514: 13 s where all of it fits, 130 s with a budget of 8 GiB; overhead in 64 minutes."""
    found = answer(MARIN)
    assert found.write is not None
    assert found.write.stall_seconds == pytest.approx(13, rel=0.01)
    (staged,) = [each for each in found.assumptions if each.field == "checkpoint.staging_bytes"]
    assert staged.value == 5_364_000_000_000 // 64
    guess = found.guesses[0]
    assert (guess.field, guess.low, guess.high) == ("checkpoint.staging_bytes", 8 * 2**30, staged.value)
    assert guess.headline_low == pytest.approx(130 / (64 * 60), rel=0.01)
    assert not any(each.field == "checkpoint.staging_bytes" for each in answer(staged_at("8GiB")).assumptions)


MARIN: dict[str, Any] = {
    "model": {"num_parameters": 447e9},
    "training": {"framework": "fsdp2", "precision": "fp32"},
    "parallelism": {"data": 64},
    "cluster": {"node": "dgx-gb200"},
    "checkpoint": {"mode": "async", "interval_seconds": "64min"},
    "storage": {
        "profile": {
            "write_bytes_per_second": "41.2 GB/s",
            "read_bytes_per_second": "100 GB/s",
            "device_to_host_bytes_per_second": "6.44 GB/s",
        }
    },
}


def staged_at(budget: str) -> dict[str, Any]:
    """The same with a budget."""
    return MARIN | {"checkpoint": MARIN["checkpoint"] | {"staging_bytes": budget}}


def test_shares_within_the_smallest_budget_have_no_such_guess() -> None:
    found = report(ASYNC, parallelism=OF_256 | {"data": 128}, storage={"profile": PLANNED})
    assert "checkpoint.staging_bytes" in {each.field for each in found.assumptions}
    assert "checkpoint.staging_bytes" not in {each.field for each in found.guesses}


def test_formats_without_metadata_plan_nothing() -> None:
    found = report()
    assert "planning" not in {limit.resource for limit in write_of(found).limits}
    assert not any("planning" in each.field for each in found.assumptions)


def test_a_scenario_of_before_copies_at_line_rate_and_plans_in_no_time() -> None:
    asked = document(ASYNC, storage={"profile": {"write_bytes_per_second": "100 GB/s"}}) | {"schema_version": 1}
    found = report(asked)
    assert write_of(found).stall_seconds == pytest.approx(LARGEST_SHARE / 63e9, rel=1e-6)
    assumed = {each.field: each.reason for each in found.assumptions}
    assert "real copies are slower" in assumed["storage.profile.device_to_host_bytes_per_second"]
    assert "storage.profile.planning_seconds_per_rank" not in assumed


@pytest.mark.parametrize(("cached", "share"), [(True, 1.5 / 90), (False, 1.0), (None, (1 + 1.5 / 90) / 2)])
def test_whoever_says_whether_plans_are_cached_has_no_guess_of_them(cached: bool | None, share: float) -> None:
    """1.5 of 90 s were left with cached plans; who does not say it has the middle."""
    given = {} if cached is None else {"cached_plans": cached}
    found = report(ASYNC, parallelism=OF_256, storage={"profile": PLANNED}, checkpoint=ASYNC["checkpoint"] | given)
    (planning,) = [limit.seconds for limit in write_of(found).limits if limit.resource == "planning"]
    assert planning == pytest.approx(256 * UNCACHED * share)
    guessed = "storage.profile.planning_seconds_per_rank" in {guess.field for guess in found.guesses}
    assert guessed is (cached is None)
