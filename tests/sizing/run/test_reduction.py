"""Saves of less than everything: bytes, times, restores, capacity, and the bandwidth below which they pay."""

import itertools
from typing import Any

import numpy as np
import pytest

from sizing.errors import InvalidInput
from sizing.questions.registry import SWEEP
from sizing.questions.require.answer import answer_requirements
from sizing.report import SizingReport, answer
from sizing.run.reduction import Compression, fraction_of
from sizing.run.reduction_effect import ReductionEffect, mean_age_of_experts
from sizing.run.retention import Retention, capacity_over_time, full_after_seconds
from sizing.run.workload import Chain
from sizing.scenario import REFERENCE_SCENARIO, scenario_from
from sizing.state import StatePart
from tests.sizing.run.scenarios import ARCHIVE, ASYNC, LLAMA_8B, NVME, document, report, tiered, write_of

WHOLE = 13_800_000_000_000
NUM_WRITERS, NUM_GPUS, NUM_REPLICAS = 512, 3072, 6
WRITE, READ = 273e9, 1e12
MEASURED = {
    "weights_fraction": 0.7,
    "master_fraction": 0.8,
    "moments_fraction": 0.9,
    "compress_bytes_per_second": "2 GB/s",
    "decompress_bytes_per_second": "4 GB/s",
}
KEPT = (2 * 0.7 + 4 * 0.8 + 8 * 0.9) / 14
"""Of the bytes of weights, master copy and moments, by their widths."""
FAILING = {"mtbf_seconds": 20_000, "detection_seconds": 0, "relaunch_seconds": 60}
FAILING_RUN = REFERENCE_SCENARIO | {"reliability": FAILING}
MIXTURE: dict[str, Any] = {
    "model": {"preset": "mixtral-8x7b"},
    "parallelism": {"expert": 8, "data": 8},
    "checkpoint": {"interval_seconds": "20min"},
    "storage": {"profile": {"write_bytes_per_second": "10 GB/s", "read_bytes_per_second": "20 GB/s"}},
    "cluster": {"node": "dgx-h100"},
    "reliability": FAILING,
}
ROUTED, DENSE = 45_097_156_608, 46_702_792_704 - 45_097_156_608


def reduced(reduction: dict[str, Any], base: dict[str, Any] = REFERENCE_SCENARIO, **blocks: Any) -> SizingReport:
    checkpoint = blocks.pop("checkpoint", {}) | {"reduction": reduction}
    return report(base, checkpoint=checkpoint, **blocks)


def savings(found: SizingReport) -> ReductionEffect:
    assert found.reduction is not None
    return found.reduction


def test_compression_as_measured_shrinks_each_part_and_takes_its_time() -> None:
    found = reduced({"compression": MEASURED})
    assert savings(found).mean_bytes == pytest.approx(KEPT * WHOLE, rel=1e-6)
    packing = found.layout.max_rank_bytes / 2e9
    assert found.write is not None
    assert found.write.seconds == pytest.approx(KEPT * WHOLE / WRITE + packing, rel=1e-6)
    assert {limit.resource for limit in found.write.limits} == {"file-system", "compression"}
    unpacking = report().restore.max_rank_read_bytes / 4e9
    assert found.restore.seconds == pytest.approx(NUM_REPLICAS * KEPT * WHOLE / READ + unpacking, rel=1e-6)
    assert found.capacity.checkpoints_bytes == pytest.approx(2 * KEPT * WHOLE, rel=1e-6)


def test_the_rank_with_most_bytes_decides_how_long_packing_takes() -> None:
    """With DeepSpeed's ZeRO 1 rank 0 of 32 writes all weights of 2 bytes, and a 32nd of the rest, 12 bytes."""
    uneven = {
        "model": {"preset": "llama-2-7b"},
        "training": {"framework": "deepspeed"},
        "parallelism": {"data": 32, "zero_stage": 1},
        "cluster": {"node": "dgx-h100"},
        "storage": {"profile": {"write_bytes_per_second": "200 GB/s"}},
    }
    found = reduced({"compression": MEASURED}, uneven)
    assert savings(found).packing_seconds == pytest.approx(6_738_415_616 * (2 + 12 / 32) / 2e9, rel=1e-4)
    assert write_of(found).even_seconds < write_of(found).seconds - 0.8 * savings(found).packing_seconds


def test_what_was_not_measured_is_assumed_with_its_range_and_its_swing_is_shown() -> None:
    found = reduced({"compression": {}}, FAILING_RUN)
    assumed = {row.field: row.value for row in found.assumptions if "compression" in row.field}
    prefix = "checkpoint.reduction.compression."
    assert {name.removeprefix(prefix): value for name, value in assumed.items()} == {
        "weights_fraction": pytest.approx(0.72),
        "master_fraction": pytest.approx(0.82),
        "moments_fraction": pytest.approx(0.82),
        "compress_bytes_per_second": pytest.approx(1.885e9),
        "decompress_bytes_per_second": pytest.approx(2.495e9),
    }
    assert f"{prefix}compress_bytes_per_second" in {guess.field for guess in found.guesses}


@pytest.mark.parametrize(("direction", "rate"), [("write", WRITE), ("read", READ)])
def test_at_the_break_even_rate_both_take_equally_long(direction: str, rate: float) -> None:
    edge = getattr(savings(reduced({"compression": MEASURED})), f"break_even_{direction}_bytes_per_second")
    profile = REFERENCE_SCENARIO["storage"]["profile"] | {f"{direction}_bytes_per_second": edge}
    there = savings(reduced({"compression": MEASURED}, storage={"profile": profile}))
    times = {"write": (there.write_seconds, there.whole_write_seconds)}
    times["read"] = (there.restore_seconds, there.whole_restore_seconds)
    assert times[direction][0] == pytest.approx(times[direction][1], rel=1e-6)
    assert edge != pytest.approx(rate, rel=0.1)


@pytest.mark.parametrize(("factor", "pays"), [(0.9, True), (1.1, False)])
def test_below_its_break_even_rate_the_run_loses_less_with_compression(factor: float, pays: bool) -> None:
    """The edge is of first order, the goodputs are exact."""
    frequent = {"interval_seconds": "30min"}
    edge = savings(reduced({"compression": MEASURED}, FAILING_RUN, checkpoint=frequent))
    assert edge.break_even_run_write_bytes_per_second is not None
    ratio = factor * edge.break_even_run_write_bytes_per_second / WRITE
    profile = {"write_bytes_per_second": ratio * WRITE, "read_bytes_per_second": ratio * READ}
    there = reduced({"compression": MEASURED}, FAILING_RUN, checkpoint=frequent, storage={"profile": profile})
    assert savings(there).pays is pays
    assert any("loses more time than it saves" in warning for warning in there.warnings) is not pays


@pytest.mark.parametrize(("factor", "pays"), [(0.95, True), (1.05, False)])
def test_the_edge_of_a_run_counts_the_failures_alone_that_read_from_the_main_storage(
    factor: float, *, pays: bool
) -> None:
    """Drives in the nodes recover nine of ten failures, without a read from the storage whose rate is in question."""
    deltas = {"delta": {"full_every": 8, "fraction": 0.1, "bytes_per_second": "20 GB/s"}}
    run = tiered(NVME, mode="sync") | {"reliability": {"mtbf_seconds": 300_000}}
    edge = savings(reduced(deltas, run)).break_even_run_write_bytes_per_second
    assert edge is not None
    reads_over_writes = 400 / 100  # of the scenario
    profile = {"write_bytes_per_second": factor * edge, "read_bytes_per_second": factor * edge * reads_over_writes}
    profile = run["storage"]["profile"] | profile
    assert savings(reduced(deltas, run, storage={"profile": profile})).pays is pays


@pytest.mark.parametrize("full_every", [3, 5, 12])
@pytest.mark.parametrize("mode", ["sync", "async"])
@pytest.mark.parametrize("fraction", [0.3, 1e-5])
def test_deltas_that_take_no_time_to_make_have_no_edge(full_every: int, mode: str, fraction: float) -> None:
    """They shorten saves at every rate, and lengthen restores at every rate; rounding is no rate."""
    found = reduced({"delta": {"full_every": full_every, "fraction": fraction}}, ASYNC, checkpoint={"mode": mode})
    block = savings(found)
    assert block.is_save_shorter
    assert block.break_even_write_bytes_per_second is None
    assert block.break_even_read_bytes_per_second is None
    assert block.break_even_run_write_bytes_per_second is None


def test_a_chain_of_deltas_restores_the_full_save_and_every_delta() -> None:
    found = reduced({"delta": {"full_every": 5, "fraction": 0.3}})
    block = savings(found)
    assert block.mean_bytes == pytest.approx((1 + 4 * 0.3) / 5 * WHOLE)
    assert block.largest_bytes == WHOLE
    assert block.smallest_bytes == pytest.approx(0.3 * WHOLE)
    assert block.restore_seconds == pytest.approx((1 + 2 * 0.3) * NUM_REPLICAS * WHOLE / READ)
    assert block.max_restore_seconds == pytest.approx((1 + 4 * 0.3) * NUM_REPLICAS * WHOLE / READ)
    assert block.is_save_shorter is True
    assert block.is_restore_shorter is False


@pytest.mark.parametrize(("fraction", "is_larger"), [(0.9, True), (0.7, False)])
def test_deltas_that_are_larger_than_compressed_full_saves_are_the_largest_and_told(
    fraction: float, *, is_larger: bool
) -> None:
    found = reduced({"compression": MEASURED, "delta": {"full_every": 4, "fraction": fraction}})
    block = savings(found)
    sizes = sorted((fraction * WHOLE, KEPT * WHOLE))
    assert [block.smallest_bytes, block.largest_bytes] == pytest.approx(sizes, rel=1e-6)
    assert any("deltas save nothing" in each for each in found.warnings) is is_larger


def test_deltas_against_the_full_save_restore_one_of_them() -> None:
    block = savings(reduced({"delta": {"full_every": 5, "fraction": 0.3, "against": "full"}}))
    assert block.restore_seconds == pytest.approx((1 + 0.8 * 0.3) * NUM_REPLICAS * WHOLE / READ)
    assert block.max_restore_seconds == pytest.approx(1.3 * NUM_REPLICAS * WHOLE / READ)


def test_making_and_applying_deltas_takes_its_time() -> None:
    whole = report()
    block = savings(reduced({"delta": {"full_every": 2, "fraction": 0.3, "bytes_per_second": "5 GB/s"}}))
    assert block.packing_seconds == pytest.approx(0.5 * whole.layout.max_rank_bytes / 5e9)
    assert block.unpacking_seconds == pytest.approx(0.5 * whole.restore.max_rank_read_bytes / 5e9)


def test_deltas_need_the_state_before_in_host_memory() -> None:
    """Eight writers of a node each keep one more whole share of the 512, compressed or not."""
    deltas = {"delta": {"full_every": 2, "fraction": 0.3}}
    plain, less = report(REFERENCE_SCENARIO), reduced({"compression": {}, **deltas})
    assert plain.host_memory.delta_base_bytes == 0
    assert less.host_memory.delta_base_bytes == 8 * plain.layout.max_rank_bytes >= 8 * WHOLE / NUM_WRITERS
    small = {"node": None, "node_spec": {"gpus_per_node": 8, "host_memory_bytes": "100 GB"}, "num_gpus": 3072}
    assert report(REFERENCE_SCENARIO, cluster=small).host_memory.fits
    too_much = reduced(deltas, cluster=small)
    assert too_much.host_memory.fits is False
    assert any(warning.endswith("Remove checkpoint.reduction.delta") for warning in too_much.warnings)


@pytest.mark.parametrize(
    ("against", "kept", "num_full", "num_deltas"),
    [("previous", 1, 2, 4), ("previous", 6, 3, 8), ("full", 1, 2, 1), ("full", 6, 3, 5)],
)
def test_what_the_newest_saves_need_stays(against: str, kept: int, num_full: int, num_deltas: int) -> None:
    """With one save in flight. One kept: a full save with its four deltas, and the next full one in flight."""
    delta = {"full_every": 5, "fraction": 0.3, "against": against}
    capacity = reduced({"delta": delta}, retention={"keep_last": kept}).capacity
    assert capacity.checkpoints_bytes == pytest.approx((num_full + 0.3 * num_deltas) * WHOLE)


def test_targets_are_held_against_the_largest_save_and_the_longest_restore() -> None:
    """The mean save takes 22.2 s, the full one 50.5 s; restores 132 s on average, 182 s at most."""
    targets = {"max_stall_seconds": 40, "recovery_seconds": 150}
    found = reduced({"delta": {"full_every": 5, "fraction": 0.3}}, targets=targets)
    checks = {check.target: check for check in found.targets}
    assert checks["max_stall_seconds"].found == pytest.approx(WHOLE / WRITE)
    assert checks["recovery_seconds"].found == pytest.approx(182.16)
    assert not checks["max_stall_seconds"].met
    assert not checks["recovery_seconds"].met


@pytest.mark.parametrize("targets", [{"max_stall_seconds": 40}, {"max_overhead_fraction": 0.0001}])
def test_the_required_rate_meets_its_target_and_hardly_more(targets: dict[str, float]) -> None:
    reduction = {"delta": {"full_every": 5, "fraction": 0.3}}
    rate = reduced(reduction, targets=targets).required.write_bytes_per_second
    assert rate is not None
    for factor, met in ((1.0001, True), (0.9999, False)):
        profile = {"write_bytes_per_second": factor * rate, "read_bytes_per_second": READ}
        checks = reduced(reduction, targets=targets, storage={"profile": profile}).targets
        assert all(check.met for check in checks) is met


@pytest.mark.parametrize("against", ["previous", "full"])
def test_the_required_rate_drains_a_full_save_before_the_next_save(against: str) -> None:
    """112.4 GB, less what is copied to the host meanwhile, within a minute; the mean save has 23.9 GB."""
    deltas = {"delta": {"full_every": 8, "fraction": 0.1, "against": against}}
    checkpoint = {"mode": "async", "interval_seconds": 60}
    rate = reduced(deltas, LLAMA_8B, checkpoint=checkpoint).required.write_bytes_per_second
    assert rate is not None
    assert 112.42e9 / 60 < rate < 1.02 * 112.42e9 / 60
    for factor, is_kept in ((1.0001, True), (0.9999, False)):
        storage = {"profile": {"write_bytes_per_second": factor * rate}}
        found = reduced(deltas, LLAMA_8B, checkpoint=checkpoint, storage=storage)
        assert (found.interval.effective_interval_seconds == 60) is is_kept
        assert any("The largest save drains for" in each for each in found.warnings) is not is_kept


def test_the_free_interval_of_deltas_drains_a_full_save_and_reaches_its_goodput() -> None:
    """A full save of 112 GB takes 236 s at the rate that is needed, and saves are best made every 142 s."""
    deltas = {"reduction": {"delta": {"full_every": 8, "fraction": 0.1}}}
    checkpoint = {"mode": "async", "interval_seconds": 60} | deltas
    run = document(LLAMA_8B, checkpoint=checkpoint, reliability=FAILING, targets={"min_goodput_fraction": 0.93})
    free = answer_requirements(scenario_from(run)).at_free_interval
    assert free is not None
    needed = {"write_bytes_per_second": free.write_bytes_per_second, "read_bytes_per_second": "5 GB/s"}
    there = report(
        run,
        checkpoint={"interval_seconds": free.interval_seconds},
        storage={"profile": needed},
    )
    assert there.interval.effective_interval_seconds == free.interval_seconds
    assert (there.interval.goodput_at_interval_fraction or 0.0) >= 0.93
    assert free.interval_seconds >= (savings(there).max_write_seconds or 0.0) > 150


def test_an_asynchronous_save_still_copies_the_whole_state() -> None:
    plain, less = report(ASYNC), reduced({"compression": MEASURED}, ASYNC)
    assert plain.write is not None
    assert less.write is not None
    assert less.write.stalled_by_copy_seconds == pytest.approx(plain.write.stalled_by_copy_seconds)
    assert less.write.drain_seconds != plain.write.drain_seconds


def test_tiers_in_front_keep_whole_states() -> None:
    plain, less = report(tiered(NVME)), reduced({"delta": {"full_every": 4, "fraction": 0.2}}, tiered(NVME))
    front, main = less.tiers
    # Saves to the main storage are shorter and recoveries longer, so that a day has other numbers of both.
    a_day = {"restores_per_day", "saves_per_day", "written_bytes_per_day", "drive_writes_per_day"}
    differing = {"optimal_interval_seconds", *a_day}
    assert front.model_dump(exclude=differing) == plain.tiers[0].model_dump(exclude=differing)
    assert main.mean_bytes_per_second < 0.5 * plain.tiers[1].mean_bytes_per_second


def test_an_object_store_behind_the_main_storage_keeps_what_its_saves_need() -> None:
    """One kept: a full save with seven deltas, and the next full one in flight, as on the main storage."""
    store = ARCHIVE | {"interval_seconds": "30min", "keep": 1, "capacity_bytes": "250 GB"}
    less = reduced(EIGHT_DELTAS, LLAMA_8B, checkpoint={"mode": "async", "tiers": [store]}, retention={"keep_last": 1})
    main, behind = less.tiers
    assert behind.stored_bytes == main.stored_bytes == pytest.approx((2 + 7 * 0.1) * 112.42e9, rel=1e-3)
    assert behind.fits is False
    assert behind.cost == pytest.approx(behind.stored_bytes / 1e12 * 20)


@pytest.mark.parametrize(
    ("interval", "num_full", "num_deltas", "kept_full", "kept_deltas"),
    [("30min", 1 / 8, 7 / 8, 2, 7), ("1h", 2 / 8, 14 / 8, 2, 9), ("4h", 1, 0, 2, 0), ("1d", 1, 0, 2, 0)],
)
def test_a_copy_to_an_object_store_has_the_full_save_that_its_deltas_need(
    interval: str, num_full: float, num_deltas: float, kept_full: int, kept_deltas: int
) -> None:
    """Saves every half hour, one of eight full: of a copy an hour all saves go there, of one in four hours full ones.

    One copy is kept, and the next one in flight.
    """
    store = ARCHIVE | {"interval_seconds": interval, "keep": 1}
    behind = reduced(EIGHT_DELTAS, LLAMA_8B, checkpoint={"mode": "async", "tiers": [store]}).tiers[1]
    copied = behind.mean_bytes_per_second * behind.effective_interval_seconds
    assert copied == pytest.approx((num_full + 0.1 * num_deltas) * 112.42e9, rel=1e-3)
    assert behind.drain_seconds == pytest.approx(copied / 10e9)
    assert behind.stored_bytes == pytest.approx((kept_full + 0.1 * kept_deltas) * 112.42e9, rel=1e-3)


def test_a_copy_to_an_object_store_is_compressed_already() -> None:
    checkpoint = {"mode": "async", "tiers": [ARCHIVE]}
    behind = reduced({"compression": MEASURED}, LLAMA_8B, checkpoint=checkpoint).tiers[1]
    assert behind.drain_seconds == pytest.approx(KEPT * 112.42e9 / 10e9, rel=1e-3)


def test_some_experts_in_turn_shrink_what_is_routed_alone() -> None:
    whole, found = report(MIXTURE), reduced({"partial_experts": {"num_per_save": 2}}, MIXTURE)
    assert savings(found).whole_bytes == whole.checkpoint.total_bytes
    saved = whole.checkpoint.total_bytes - 0.75 * 14 * ROUTED
    assert savings(found).mean_bytes == pytest.approx(saved, rel=1e-6)
    assert found.restore.seconds == whole.restore.seconds
    assert savings(found).mean_age_of_experts == 1.5
    assert found.capacity.checkpoints_bytes == pytest.approx((2 + 3) * saved, rel=1e-6)


@pytest.mark.parametrize(("full_every", "num_older"), [(16, 3), (5, 3), (4, 3), (3, 2), (2, 1)])
def test_partial_saves_need_a_turn_of_experts_or_the_full_save(full_every: int, num_older: int) -> None:
    """Four saves of two of eight experts hold all; one kept, and the next in flight."""
    whole, found = report(MIXTURE), reduced({"partial_experts": {"num_per_save": 2, "full_every": full_every}}, MIXTURE)
    full = whole.checkpoint.total_bytes
    partial = full - 0.75 * 14 * ROUTED
    num_full = -(-(2 + num_older) // full_every)
    assert found.capacity.num_needed_checkpoints == num_older
    expected = num_full * full + (2 + num_older - num_full) * partial
    assert found.capacity.checkpoints_bytes == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("num_in_turn", [2, 3, 4, 7])
@pytest.mark.parametrize("full_every", [2, 3, 5, 16])
@pytest.mark.parametrize("kept", [1, 2, 6, 20])
def test_the_max_that_a_chain_keeps_is_that_of_its_saves_one_by_one(
    num_in_turn: int, full_every: int, kept: int
) -> None:
    needed = min(num_in_turn, full_every) - 1
    held = []
    for oldest in range(full_every, 2 * full_every):
        first = max(oldest - needed, oldest - oldest % full_every)
        held.append(sum(10 if save % full_every else 100 for save in range(first, oldest + kept)))
    assert Chain(100, 10, full_every, needed).kept_bytes(kept) == max(held)


@pytest.mark.parametrize("needs_full_alone", [True, False])
@pytest.mark.parametrize("full_every", [2, 3, 5, 16])
@pytest.mark.parametrize("kept", [1, 2, 4, 20])
@pytest.mark.parametrize("small_bytes", [10, 130])
def test_what_a_chain_keeps_after_each_save_is_that_of_its_saves_one_by_one(
    small_bytes: int, kept: int, full_every: int, *, needs_full_alone: bool
) -> None:
    """Of deltas the full save stays, and the deltas since it where each needs the one before; deltas may be larger."""
    chain = Chain(100, small_bytes, full_every, 1 if needs_full_alone else full_every - 1, needs_full_alone)
    held = []
    for newest in range(60):
        oldest = max(0, newest - kept + 1)
        full = oldest - oldest % full_every
        there = {full, *range(oldest if needs_full_alone else full, newest + 1)}
        held.append(sum(small_bytes if save % full_every else 100 for save in there))
    most = list(itertools.accumulate(held, max))
    assert [chain.kept_bytes(kept, num_saves=number) for number in range(1, 61)] == most
    assert chain.kept_bytes(kept) == most[-1]
    assert chain.num_kept_in(most[-1]) >= kept > chain.num_kept_in(most[-1] - 1)


EIGHT_DELTAS = {"delta": {"full_every": 8, "fraction": 0.1}}


@pytest.mark.parametrize(("disk", "keep_last", "held"), [("240 GB", 10, 1), ("1 TB", 1, 33), ("1 TB", 10, 33)])
def test_a_disk_holds_as_many_checkpoints_of_a_chain_as_fit_with_those_they_need(
    disk: str, keep_last: int, held: int
) -> None:
    """Of 112.4 GB, and 11.2 GB of a delta: 1 TB hold five full saves and 35 deltas, of which seven are needed alone."""
    capacity = reduced(EIGHT_DELTAS, LLAMA_8B, retention={"disk_bytes": disk, "keep_last": keep_last}).capacity
    assert capacity.disk_checkpoints == held


def test_a_chain_of_which_none_is_deleted_fills_a_disk_save_by_save() -> None:
    """The 41st save, a full one, finds no room on 1 TB: 6 x 112.4 + 35 x 11.2 GB."""
    capacity = reduced(EIGHT_DELTAS, LLAMA_8B, retention={"disk_bytes": "1 TB"}).capacity
    assert capacity.disk_full_seconds == 41 * 1800


def test_the_number_to_keep_of_a_chain_cures_the_warning_of_the_disk() -> None:
    found = reduced(EIGHT_DELTAS, LLAMA_8B, retention={"disk_bytes": "1 TB", "keep_last": 40})
    (warning,) = [each for each in found.warnings if each.startswith("Saves will fail")]
    assert "Keep 32 (retention.keep_last)" in warning
    fitting = [
        reduced(EIGHT_DELTAS, LLAMA_8B, retention={"disk_bytes": "1 TB", "keep_last": kept}) for kept in (32, 33)
    ]
    assert [found.capacity.fits_disk for found in fitting] == [True, False]


def test_an_offer_that_a_chain_overfills_is_full_at_the_save_that_does_not_fit() -> None:
    """600 GB hold a full save and 43 deltas of 48; the 45th save is begun after 22.5 h."""
    found = reduced({"delta": {"full_every": 48, "fraction": 0.1}}, LLAMA_8B, retention={"disk_bytes": "600 GB"})
    seconds = full_after_seconds(found.capacity, Retention(), interval_seconds=1800, offered_bytes=600e9)
    assert seconds == found.capacity.disk_full_seconds == 22.5 * 3600
    (at_an_hour,) = capacity_over_time(found.capacity, Retention(), interval_seconds=1800, run_seconds=36_000)[1:2]
    assert at_an_hour.usable_bytes == pytest.approx(1.1 * 112.42e9, rel=1e-3)


@pytest.mark.parametrize("full_every", [1, 2, 3, 5, 12])
@pytest.mark.parametrize(("num_per_save", "num_experts"), [(1, 8), (2, 8), (3, 8), (5, 7), (4, 4)])
def test_experts_age_as_counted_save_by_save(num_per_save: int, num_experts: int, full_every: int) -> None:
    """An expert is as old as the saves since it was in one: by its place in the turn, but never older than the full."""
    ages = [min(save, expert // num_per_save) for save in range(full_every) for expert in range(num_experts)]
    mean_age = mean_age_of_experts(fraction=num_per_save / num_experts, full_every=full_every)
    assert mean_age == pytest.approx(sum(ages) / len(ages))


def test_one_expert_rank_of_four_writes_all_of_its_experts() -> None:
    """Two of eight experts, one on each of eight ranks: two ranks write one, six write none."""
    whole, found = report(MIXTURE), reduced({"partial_experts": {"num_per_save": 2}}, MIXTURE)
    assert whole.write is not None
    assert found.write is not None
    profile = {"writer_write_bytes_per_second": "1 GB/s"}
    even, uneven = (
        answer(document(MIXTURE, storage={"profile": profile}, checkpoint=checkpoint)).write
        for checkpoint in ({}, {"reduction": {"partial_experts": {"num_per_save": 2}}})
    )
    assert even is not None
    assert uneven is not None
    assert uneven.seconds / uneven.even_seconds > 3 * even.seconds / even.even_seconds


def test_a_node_that_holds_a_whole_expert_group_writes_no_more_for_some_of_its_experts() -> None:
    profile = {"node_write_bytes_per_second": "1 GB/s"}
    found = [
        write_of(report(MIXTURE, storage={"profile": profile}, checkpoint=checkpoint, parallelism={"data": 16}))
        for checkpoint in ({}, {"reduction": {"partial_experts": {"num_per_save": 2}}})
    ]
    whole, partial = (write.seconds / write.even_seconds for write in found)
    assert partial == pytest.approx(whole)


def test_a_save_of_everything_in_a_cycle_has_no_busiest_expert_rank() -> None:
    profile = {"writer_write_bytes_per_second": "1 GB/s"}
    partial = {"reduction": {"partial_experts": {"num_per_save": 2, "full_every": 4}}}
    whole, cycle = (
        report(MIXTURE, storage={"profile": profile}, checkpoint=checkpoint, targets={"max_stall_seconds": 1})
        for checkpoint in ({}, partial)
    )
    stalls = [next(each.found for each in one.targets if each.target == "max_stall_seconds") for one in (whole, cycle)]
    assert stalls[1] == pytest.approx(stalls[0])


@pytest.mark.parametrize(
    ("base", "reduction", "sentence"),
    [
        (REFERENCE_SCENARIO, {"partial_experts": {"num_per_save": 2}}, "needs a model with routed experts"),
        (MIXTURE, {"partial_experts": {"num_per_save": 8}}, "must be less than the 8 routed experts of a layer"),
        (REFERENCE_SCENARIO, {}, "must have compression, delta or partial_experts"),
        (
            MIXTURE,
            {"partial_experts": {"num_per_save": 2}, "delta": {"full_every": 2, "fraction": 0.5}},
            "has both delta and partial_experts",
        ),
        (REFERENCE_SCENARIO, {"compression": {"weights_fraction": 1.4}}, "weights_fraction"),
        (REFERENCE_SCENARIO, {"delta": {"full_every": 1, "fraction": 0.5}}, "full_every"),
    ],
)
def test_what_makes_no_sense_is_refused(base: dict[str, Any], reduction: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InvalidInput, match=sentence):
        reduced(reduction, base)


def test_a_sweep_over_deltas_answers_each() -> None:
    checkpoint = REFERENCE_SCENARIO["checkpoint"] | {"reduction": {"delta": {"full_every": [2, 5], "fraction": 0.3}}}
    swept = SWEEP.answer({"scenario": REFERENCE_SCENARIO | {"checkpoint": checkpoint}, "figures": ["write.seconds"]})
    column = swept.columns.index("write.seconds")
    expected = [(1 + (k - 1) * 0.3) / k * WHOLE / WRITE for k in (2, 5)]
    assert [row[column] for row in swept.rows] == pytest.approx(expected)


def test_the_goodput_of_a_chain_is_that_of_a_walk_over_its_saves() -> None:
    """Saves in their own order, each with its own time; failures at random; a restore reads what its position needs."""
    interval, mtbf, overhead = 600.0, 20_000.0, 60.0
    deltas = {"delta": {"full_every": 5, "fraction": 0.3}}
    found = reduced(deltas, FAILING_RUN, checkpoint={"interval_seconds": interval})
    stalls = np.array([1.0, 0.3, 0.3, 0.3, 0.3]) * WHOLE / WRITE
    restores = (1.0 + 0.3 * np.arange(5)) * NUM_REPLICAS * WHOLE / READ + overhead
    compute = interval - stalls.mean()
    random = np.random.default_rng(5)
    useful = wall = 0.0
    position, last = 0, 4
    for left in random.exponential(mtbf, 20_000):
        remaining = left
        while remaining > compute + stalls[position]:
            remaining -= compute + stalls[position]
            useful, last, position = useful + compute, position, (position + 1) % 5
        wall += left
        while (again := random.exponential(mtbf)) < restores[last]:
            wall += again
        wall += restores[last]
    assert found.shares.useful_fraction == pytest.approx(useful / wall, rel=0.005)


@pytest.mark.parametrize(("frozen_dtype", "is_less"), [(None, True), ("bf16", True), ("nf4", False)])
def test_values_of_4_bits_are_taken_to_be_random(frozen_dtype: Any, is_less: bool) -> None:
    weights = StatePart("weights", "fp32", is_kept_of_frozen=True, frozen_dtype=frozen_dtype)
    assert (fraction_of(weights, Compression()) < 1) is is_less
