from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any, cast

import pytest

from io_bench.engines import EnginePlan, IoReport
from io_bench.measure.configuration import Configuration
from io_bench.measure.plan import MeasurementPlan
from io_bench.measure.repeating import Samples
from io_bench.measure.sample import Sample
from io_bench.measure.stopwatch import OperationSample, RankSample
from io_bench.payload.device import Device
from io_bench.ranks.placement import Placement
from io_bench.ranks.process_group import ProcessGroup, Writers
from io_bench.results.doubts import warnings_about
from io_bench.results.measurements import measurements_of, notices_of
from io_bench.target.directory import DirectoryTarget
from io_bench.target.request_log import Requests
from io_bench.target.target import PartTransfer
from sizing.storage.measurement import Measurement, Suspect

MB = 10**6
TARGET = DirectoryTarget("/mnt/x", Path("/mnt/x"))


class Group:
    """As much of a group as writers need: who is where."""

    def __init__(self, nodes: list[str]) -> None:
        self.rank = 0
        self.placements = tuple(
            Placement(rank, len(nodes), rank, node, "host", 1, "pid:[1]") for rank, node in enumerate(nodes)
        )
        self.placement = self.placements[0]


def plan(*, num_ranks: int = 2, nodes: list[str] | None = None) -> MeasurementPlan:
    group = cast(ProcessGroup, Group(nodes or ["n0"] * num_ranks))
    files = tuple(EnginePlan((f"rank-{rank}",), 400 * MB, 0, 0, 8 << 20, 4) for rank in range(num_ranks))
    return MeasurementPlan(
        Configuration(engine="torch-save", num_nodes=1, writers_per_node=num_ranks),
        Writers(tuple(range(num_ranks)), group),
        Device("cpu"),
        own=None,
        engine_plans=files,
        payload_bytes=(300 * MB,) * num_ranks,
        workload_title="",
        node_host_bytes=0,
        gpu_bytes=0,
        cpus_of_node={"n0": 2, "n1": 2},
        restores_from_other_node=len(set(nodes or [])) > 1,
        max_disk_bytes=400 * MB * num_ranks,
        is_streamed=False,
        source_plan=files[0],
        files_of=lambda rank: files[rank].files,
    )


def operation(
    rank_seconds: tuple[float, ...],
    *,
    cpu: float = 0.1,
    disk: int = 601 * MB,
    pages: int = 0,
    report: IoReport | None = None,
) -> OperationSample:
    """A write or restore of 300 MB, by the second rank of 301 MB, whose pages those in the page cache are."""
    own = {0: {"process": disk // 2, "disk": disk}, 1: {"process": disk - disk // 2}}
    return OperationSample(
        tuple(
            RankSample(
                seconds,
                late_seconds=0.001 if rank == 0 else 0.0,
                cpu_seconds=cpu,
                counted_bytes=own.get(rank, {}),
                report=report or IoReport(),
                num_bytes=(301 if rank == 1 else 300) * MB,
                resident_pages=pages if rank == 1 else 0,
            )
            for rank, seconds in enumerate(rank_seconds)
        )
    )


def sample(
    *,
    write: tuple[float, ...],
    restore: tuple[float, ...] = (9.0, 9.0),
    resident: int = 0,
    written: int = 0,
    direct: bool = False,
    report: dict[str, Any] | None = None,
    **counted: Any,
) -> Sample:
    saved = operation(write, pages=written, report=IoReport(is_direct=direct, **(report or {})), **counted)
    restored = operation(restore, pages=resident, report=IoReport(is_direct=direct), **counted)
    return Sample(saved, restored, moved_bytes=2 * sum(saved.rank_bytes), elapsed_seconds=60.0)


def strain(running: float | None = None, delay: float | None = None, **waited: float) -> dict[str, float | None]:
    """What a rank waited for on its own node, in seconds."""
    return {"running_seconds": running, "delay_seconds": delay, **waited}


def strained(each: dict[str, float | None], *, slowest: dict[str, float | None] | None = None) -> Sample:
    """Writes and restores of 10 s, the first rank a little faster."""
    found = sample(write=(9.9, 10.0), restore=(9.9, 10.0))

    def waiting(ranks: tuple[RankSample, ...]) -> OperationSample:
        waits: list[Any] = [each, slowest or each]
        return OperationSample(
            tuple(dataclasses.replace(rank, **wait) for rank, wait in zip(ranks, waits, strict=True))
        )

    return dataclasses.replace(found, write=waiting(found.write.ranks), restore=waiting(found.restore.ranks))


def measured(
    samples: list[Sample], *, of: MeasurementPlan | None = None, null_sink_seconds: float = 0.1, stopped_by: str = ""
) -> tuple[Measurement, Measurement]:
    gathered = Samples(of or plan(), samples[0], tuple(samples), null_sink_seconds, stopped_by)
    write, restore = measurements_of(gathered, TARGET)
    return write, restore


def test_the_slowest_rank_makes_the_time_and_the_median_the_rate() -> None:
    write, restore = measured(
        [
            sample(write=(6.0, 8.0), restore=(20.0, 10.0)),
            sample(write=(12.0, 7.0), restore=(20.0, 40.0)),
            sample(write=(9.0, 10.0), restore=(30.0, 5.0)),
        ]
    )
    assert write.seconds == [8.0, 12.0, 10.0]
    assert write.first_done_seconds == [6.0, 7.0, 9.0]
    assert write.rank_seconds == [[6.0, 8.0], [12.0, 7.0], [9.0, 10.0]]
    assert (write.total_bytes, write.bytes_per_second) == (601 * MB, 60.1 * MB)
    assert restore.bytes_per_second == pytest.approx(601 * MB / 30.0)
    assert (write.num_ranks, write.bytes_per_rank, write.rank_bytes) == (2, 300_500_000, [300 * MB, 301 * MB])
    assert write.rate_interval_bytes_per_second == (601 * MB / 12, 601 * MB / 8)
    assert write.p50_rank_seconds == 8.5
    assert write.p95_rank_seconds == pytest.approx(11.5)
    assert (write.num_files, write.block_bytes, write.threads_per_rank) == (2, 8 << 20, 4)


def test_one_resident_page_of_one_rank_in_one_repetition_makes_the_restore_cached() -> None:
    cold = sample(write=(6.0, 6.0))
    warm = sample(write=(6.0, 6.0), resident=1)
    assert measured([cold, cold])[1].cache_policy == "fadvise-dontneed"
    write, restore = measured([cold, warm])
    assert (write.cache_policy, restore.cache_policy, restore.resident_pages) == ("buffered-fsync", "cached", 1)
    assert warnings_about(write) == []
    assert "read from the page cache" in " ".join(warnings_about(restore))


def test_only_ranks_that_all_bypassed_the_page_cache_count_as_direct() -> None:
    direct, buffered = sample(write=(6.0, 6.0), direct=True), sample(write=(6.0, 6.0))
    assert [m.cache_policy for m in measured([direct, direct])] == ["o-direct", "o-direct"]
    assert [m.cache_policy for m in measured([direct, buffered])] == ["buffered-fsync", "fadvise-dontneed"]


def test_a_direct_write_that_left_pages_in_memory_was_not_direct() -> None:
    clean, silent = sample(write=(6.0, 6.0), direct=True), sample(write=(6.0, 6.0), direct=True, written=7)
    write, _ = measured([clean, silent, clean])
    assert (write.cache_policy, write.resident_pages) == ("buffered-fsync", 7)
    assert "Direct writes left 7 pages in the page cache" in " ".join(warnings_about(write))
    assert measured([clean, clean])[0].resident_pages == 0
    assert measured([sample(write=(6.0, 6.0))])[0].resident_pages is None


def test_a_client_of_an_object_store_is_as_fast_as_one_cpu() -> None:
    in_parts = dataclasses.replace(plan(), transfer=PartTransfer(8 << 20, 8))
    for cpu, limit in ((9.5, "client"), (5.0, "storage")):
        write, _ = measured([sample(write=(10.0, 10.0), cpu=cpu)], of=in_parts)
        assert (write.limited_by, write.block_bytes, write.equivalent_commands) == (limit, 8 << 20, None)
    busy, _ = measured([sample(write=(10.0, 10.0), cpu=9.5)], of=in_parts)
    in_the_store = busy.model_copy(update={"cache_policy": "object-store"})
    assert any("uses one thread for the object store" in warning for warning in warnings_about(in_the_store))
    on_a_mount, _ = measured([sample(write=(10.0, 10.0), cpu=8.5)])
    assert on_a_mount.limited_by == "storage"


def test_a_restore_from_another_node_is_called_so_unless_pages_stayed() -> None:
    apart = plan(nodes=["n0", "n1"])
    assert measured([sample(write=(6.0, 6.0), direct=True)], of=apart)[1].cache_policy == "other-node"
    assert measured([sample(write=(6.0, 6.0), resident=1)], of=apart)[1].cache_policy == "cached"


def test_a_direct_restore_is_compared_with_direct_reads_whoever_wrote() -> None:
    apart = plan(nodes=["n0", "n1"])
    for direct in (True, False):
        restore = measured([sample(write=(6.0, 6.0), direct=direct)], of=apart)[1]
        assert restore.equivalent_commands is not None
        assert f"--direct={int(direct)}" in restore.equivalent_commands["fio"]


def test_the_copy_from_gpus_is_told_apart_and_belongs_to_the_write() -> None:
    kept = sample(write=(6.0, 6.0))
    gathered = Samples(plan(), kept, (kept,), 0.1, "", snapshot_seconds=0.3)
    write, restore = measurements_of(gathered, TARGET)
    assert (write.snapshot_seconds, restore.snapshot_seconds) == (0.3, None)


def test_what_engines_notice_is_said_once() -> None:
    samples = [sample(write=(6.0, 6.0), report={"notices": ("no O_DIRECT here",)}) for _ in range(2)]
    assert notices_of(samples) == ["no O_DIRECT here"]


@pytest.mark.parametrize(("seconds", "is_short"), [(4.9, True), (5.0, False)])
def test_less_than_five_seconds_is_called_short(seconds: float, is_short: bool) -> None:
    write, _ = measured([sample(write=(seconds, seconds))])
    assert any("less than 5.00 s" in warning for warning in warnings_about(write)) is is_short


def test_drift_is_warned_about_beyond_ten_percent() -> None:
    steady = [sample(write=(t, t)) for t in (10.0, 10.0, 10.9, 10.9)]
    drifting = [sample(write=(t, t)) for t in (10.0, 10.0, 11.1, 11.1)]
    assert warnings_about(measured(steady)[0]) == []
    (warning,) = warnings_about(measured(drifting)[0])
    assert "11.0 % more time" in warning


@pytest.mark.parametrize(
    ("nodes", "words"),
    [
        (["n0", "n1"], "and the time includes this: some nodes were too busy"),
        (["n0", "n0"], "and the time includes this: the node was too busy"),
    ],
)
def test_ranks_that_begin_apart_by_more_than_a_twentieth_of_the_time_are_warned_about(
    nodes: list[str], words: str
) -> None:
    def apart(seconds: float) -> list[str]:
        kept = sample(write=(10.0, 10.0))
        first, last = kept.write.ranks
        ranks = (dataclasses.replace(first, late_seconds=0.0), dataclasses.replace(last, late_seconds=seconds))
        kept = dataclasses.replace(kept, write=OperationSample(ranks))
        return warnings_about(measured([kept], of=plan(nodes=nodes))[0])

    assert apart(0.5) == []
    (warning,) = apart(0.6)
    assert warning.startswith("The ranks started the write 600.0 ms apart, 6.00 % of its time, ")
    assert words in warning


def test_what_a_node_keeps_beside_the_page_cache_may_answer_a_restore() -> None:
    dropped, direct = sample(write=(6.0, 6.0)), sample(write=(6.0, 6.0), direct=True)
    for file_system, kept, doubted in (
        ("ext4", dropped, False),
        ("fuse.glusterfs", dropped, True),
        ("fuse.glusterfs", direct, True),
        ("gpfs", dropped, True),
        ("gpfs", direct, False),
    ):
        write, restore = measured([kept])
        assert warnings_about(write, file_system=file_system) == []
        warnings = warnings_about(restore, file_system=file_system)
        assert [f"the target is {file_system}, whose " in warning for warning in warnings] == [True] * doubted
        on_another_node = measured([kept], of=plan(nodes=["n0", "n1"]))[1]
        assert warnings_about(on_another_node, file_system=file_system) == []


def test_phases_and_asynchronous_times_are_medians_of_the_slowest_rank() -> None:
    samples = [
        sample(write=(9.0, 9.0), report={"phase_seconds": {"fsync": t}, "stall_seconds": t, "drain_seconds": 2 * t})
        for t in (1.0, 5.0, 2.0)
    ]
    write, restore = measured(samples)
    assert (write.phase_seconds, write.stall_seconds, write.drain_seconds) == ({"fsync": 2.0}, 2.0, 4.0)
    assert (restore.phase_seconds, restore.stall_seconds) == ({}, None)


@pytest.mark.parametrize(
    ("null_sink_seconds", "wait", "cpu", "limit"),
    [
        (4.4, None, 0.1, "storage"),
        (5.6, None, 0.1, "client"),
        (0.1, 0.06, 0.1, "generator"),
        (0.1, 0.04, 0.1, "storage"),
        (0.1, None, 9.3, "client"),
    ],
)
def test_the_limit_is_storage_only_where_nothing_else_could_be(
    null_sink_seconds: float, wait: float | None, cpu: float, limit: str
) -> None:
    """601 MB in 10 s; discarded in 5 s the client is exactly twice as fast. Two CPUs have 20 s in 10 s."""
    samples = [sample(write=(10.0, 10.0), report={"generator_wait_fraction": wait}, cpu=cpu)] * 5
    write, restore = measured(samples, null_sink_seconds=null_sink_seconds)
    assert write.limited_by == limit
    assert write.client_cpu_fraction == pytest.approx(cpu * 2 / 20)
    assert write.null_sink_bytes_per_second == pytest.approx(601 * MB / null_sink_seconds)
    assert bool(warnings_about(write)) is (limit != "storage")
    assert restore.limited_by == ("client" if cpu > 9 else None)


@pytest.mark.parametrize(
    ("null_sink_seconds", "wait", "cpu", "suspect", "is_more_likely"),
    [
        (4.95, None, 0.1, "client", False),
        (5.05, None, 0.1, "client", True),
        (0.1, 0.049, 0.1, "generator", False),
        (0.1, 0.051, 0.1, "generator", True),
        (0.1, None, 8.95, "client", False),
        (0.1, None, 9.05, "client", True),
    ],
)
def test_near_its_threshold_a_limit_is_not_told_apart_and_at_it_as_likely_as_not(
    null_sink_seconds: float, wait: float | None, cpu: float, suspect: Suspect, is_more_likely: bool
) -> None:
    samples = [sample(write=(10.0, 10.0), report={"generator_wait_fraction": wait}, cpu=cpu)] * 5
    write, _ = measured(samples, null_sink_seconds=null_sink_seconds)
    assert write.limited_by == "not-told-apart"
    assert write.limit_probabilities is not None
    assert (write.limit_probabilities[suspect] > 0.5) is is_more_likely
    assert sum(write.limit_probabilities.values()) == pytest.approx(1.0, abs=1e-3)
    assert any("cannot be told: " in warning for warning in warnings_about(write))


def test_repetitions_that_disagree_leave_it_open_and_more_of_them_that_agree_decide_it() -> None:
    idle, busy = strain(1.0, 0.5), strain(2.0, 7.0)
    by_turns = [strained(each) for each in (idle, busy, idle, busy)]
    assert measured(by_turns)[0].limited_by == "not-told-apart"
    slightly = [strained(strain(5.4, 0.2))]
    assert [measured(slightly * count)[0].limited_by for count in (1, 5)] == ["not-told-apart", "client"]


@pytest.mark.parametrize(
    ("waited", "limit", "words"),
    [
        (strain(0.5, 0.1), "storage", ""),
        (strain(2.0, 7.0), "client", "For 70.0 % of the write a thread was ready and had no CPU"),
        (strain(2.0, 7.0, throttled_seconds=9.8), "client", "For 98.0 % of the write a control group had used up its"),
        (strain(0.5, 0.3, throttled_seconds=9.8), "storage", ""),
        (strain(9.0, 0.1), "client", "For 91.0 % of the write the busiest thread needed a CPU"),
        (strain(0.5, 0.1, link_seconds=9.5), "network", "A network adapter carried 95.0 % of what its link can"),
        (strain(0.5, 0.1, link_seconds=8.0), "storage", ""),
        (strain(throttled_seconds=9.8), "client", "The CPUs of a node were"),
    ],
)
def test_what_the_slowest_rank_waited_for_on_its_own_node_says_what_limited_it(
    waited: dict[str, float | None], limit: str, words: str
) -> None:
    write, restore = measured([strained(waited)] * 5)
    assert (write.limited_by, restore.limited_by) == (
        limit,
        limit if waited["running_seconds"] is not None or limit == "client" else None,
    )
    assert [warning.startswith(words) for warning in warnings_about(write)] == [True] * bool(words)
    assert write.throttled_fraction == pytest.approx((waited.get("throttled_seconds") or 0.0) / 10)


def test_a_rank_that_is_not_the_slowest_does_not_make_the_client_the_limit() -> None:
    write, _ = measured([strained(strain(2.0, 7.0), slowest=strain(0.5, 0.1))] * 5)
    assert write.limited_by == "storage"
    assert write.busy_thread_fraction == pytest.approx(0.06)
    assert write.run_delay_fraction == pytest.approx(0.7)
    assert write.rank_cpu_seconds == [0.1, 0.1]


def test_a_busy_client_is_not_told_that_it_is_slow_without_storage() -> None:
    busy, _ = measured([sample(write=(10.0, 10.0), cpu=9.5)])
    slow, _ = measured([sample(write=(10.0, 10.0))], null_sink_seconds=6.5)
    assert next(w for w in warnings_about(busy) if "client" in w).startswith("The CPUs of a node were 95.0 % busy")
    assert next(w for w in warnings_about(slow) if "client" in w).startswith("With writes discarded")


def test_counters_that_disagree_by_more_than_ten_percent_are_flagged() -> None:
    within = measured([sample(write=(9.0, 9.0), disk=655 * MB)])[0]
    beyond = measured([sample(write=(9.0, 9.0), disk=670 * MB)])[0]
    absent = measured([sample(write=(9.0, 9.0), disk=0)])[0]
    assert within.counted_bytes == {"disk": 655 * MB, "process": 655 * MB}
    assert warnings_about(within) == warnings_about(absent) == []
    assert ["diskstats" in warning or "self/io" in warning for warning in warnings_about(beyond)] == [True, True]


@pytest.mark.parametrize(("num_repetitions", "are_kept"), [(2, True), (3, False)])
def test_rates_over_time_are_left_out_where_ranks_and_repetitions_leave_no_room_for_them(
    num_repetitions: int, are_kept: bool
) -> None:
    """4,096 ranks: twice 8,192 in a document, which is its room."""
    num_ranks = 4_096
    seen = Requests(((0, 4),), 0.5, (50 * MB,) * 6)
    one = sample(write=(6.0,) * num_ranks, restore=(6.0,) * num_ranks, report={"requests": seen})
    write, _ = measured([one] * num_repetitions, of=plan(num_ranks=num_ranks))
    assert (write.rates_over_time is not None) is are_kept
    if write.rates_over_time:
        rates = write.rates_over_time.rank_bytes_per_second
        assert [len(ranks) for ranks in rates] == [num_ranks] * num_repetitions
        assert rates[0][0] == [100 * MB, 50 * MB]


def test_a_late_rank_is_named_with_its_node() -> None:
    of = plan(num_ranks=4, nodes=["n0", "n0", "n1", "n1"])
    late = [sample(write=(10.0, 10.0, 10.0, 13.0), restore=(9.0,) * 4) for _ in range(3)]
    write, restore = measured(late, of=of)
    assert (write.stragglers, write.straggler_ratio) == (["rank 3 on host (n1)"], 1.3)
    assert restore.stragglers == []
    assert any("Stragglers in the write: rank 3 on host (n1)." in warning for warning in warnings_about(write))


def test_a_rate_that_a_cap_left_unsettled_is_doubted() -> None:
    spread = [sample(write=(t, t)) for t in (8.0, 10.0, 12.0)]
    write = measured(spread)[0]
    assert warnings_about(write) == []
    (warning,) = warnings_about(write, stopped_by="--max-bytes")
    assert warning == "--max-bytes ended the repetitions: the bandwidth of the write is accurate to 25.0 % only."
    (alone,) = warnings_about(measured(spread[:1])[0], stopped_by="--max-seconds")
    assert alone.endswith("the bandwidth of the write comes from one repetition.")


def test_the_interval_holds_the_rate_and_shrinks_with_repetitions() -> None:
    few = measured([sample(write=(t, t)) for t in (9.0, 10.0, 11.0)])[0]
    many = measured([sample(write=(t, t)) for t in (9.0, 10.0, 11.0) * 10])[0]
    for write in (few, many):
        assert write.rate_interval_bytes_per_second is not None
        low, high = write.rate_interval_bytes_per_second
        assert low <= write.bytes_per_second <= high
        assert math.isfinite(high)
    assert many.rate_interval_bytes_per_second[1] < few.rate_interval_bytes_per_second[1]  # type: ignore[index]  # checked above
