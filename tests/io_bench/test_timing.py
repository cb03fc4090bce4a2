"""What is kept of single requests: how long they took, when bytes moved, and where the slowest was."""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from io_bench.engines import IoReport
from io_bench.measure.stopwatch import RankSample
from io_bench.target import request_log
from io_bench.target.directory import RunDirectory
from io_bench.target.request_log import (
    MAX_BINS,
    RELATIVE_ERROR,
    RequestLog,
    RequestTimeline,
    align,
    bucket_of,
    counts_of,
    quantile_seconds,
)

TIMES = st.lists(st.floats(1e-9, 1e5), min_size=1, max_size=300)


@given(TIMES, st.sampled_from([0.5, 0.99, 0.999, 1.0]))
def test_every_quantile_is_within_one_percent(seconds: list[float], fraction: float) -> None:
    found = quantile_seconds(Counter(map(bucket_of, seconds)), fraction)
    exact = float(np.quantile(seconds, fraction, method="inverted_cdf"))
    assert found == pytest.approx(exact, rel=RELATIVE_ERROR * (1 + 1e-9))


@given(TIMES, TIMES)
def test_the_counts_of_two_ranks_add_up_to_those_of_both(one: list[float], other: list[float]) -> None:
    together = Counter(map(bucket_of, one)) + Counter(map(bucket_of, other))
    assert together == Counter(map(bucket_of, one + other))


@given(st.lists(st.tuples(st.integers(1, 10**9), st.floats(0, 1e4), st.floats(0, 1e3)), min_size=1, max_size=50))
def test_a_timeline_keeps_all_bytes_in_a_bounded_number_of_bins(requests: list[tuple[int, float, float]]) -> None:
    timeline = RequestTimeline()
    for num_bytes, begun, seconds in requests:
        timeline.add(num_bytes, begun, begun + seconds)
    bins = timeline.bins()
    assert len(bins) <= MAX_BINS
    assert sum(bins) == pytest.approx(sum(num_bytes for num_bytes, _, _ in requests), rel=1e-6, abs=MAX_BINS)


def test_a_request_counts_in_the_bins_in_which_it_was_under_way() -> None:
    timeline = RequestTimeline()
    timeline.add(100, 0.0, 100.0)
    timeline.add(80, 0.0, 20.0)
    bins = np.array(timeline.bins()) / timeline.bin_seconds
    assert timeline.bin_seconds == 1.0
    assert bins[:20] == pytest.approx(5.0)
    assert bins[20:] == pytest.approx(1.0)


def test_timelines_of_ranks_that_took_more_and_less_time_are_laid_on_each_other() -> None:
    short, long = RequestTimeline(), RequestTimeline()
    short.add(102_400, 0.0, 0.1)
    long.add(1000, 0.0, 100.0)
    width, (first, second) = align([(each.bin_seconds, each.bins()) for each in (short, long)])
    assert (width, sum(first), sum(second)) == (1.0, 102_400, 1000)
    assert (len(first), len(second)) == (1, 100)


def test_files_tell_their_log_what_was_written_read_and_waited_for(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    files = RunDirectory(tmp_path / "run")
    files.log = log = RequestLog()
    with files.create("a") as file:
        file.write(bytes(1000))
        file.write(bytes(500))
        files.persist(file)
    files.sync()
    written = log.summary()
    assert sum(count for _, count in written.latency_counts) == 2
    assert sum(written.bin_bytes) == pytest.approx(1500, abs=MAX_BINS)
    assert set(written.slowest) == {"create", "write", "fsync", "close", "commit"}
    assert (written.slowest["write"].file, written.slowest["fsync"].offset_bytes) == ("a", 1500)

    files.log = log = RequestLog()
    with files.open("a") as file:
        file.seek(100)
        assert (len(file.read(300)), file.tell()) == (300, 400)
        with log.silent():
            file.read()
    assert log.summary().slowest["read"].offset_bytes == 100
    assert sum(log.summary().bin_bytes) == pytest.approx(300, abs=MAX_BINS)
    files.close()
    os.truncate(tmp_path / "run" / "a", 0)


@given(st.lists(st.tuples(st.integers(1, 10**9), st.floats(0, 1e4), st.floats(0, 1e3)), min_size=1, max_size=50))
def test_many_requests_at_once_leave_the_timeline_that_each_alone_leaves(
    requests: list[tuple[int, float, float]],
) -> None:
    together, one_by_one = RequestTimeline(), RequestTimeline()
    num_bytes, begun, seconds = (np.array(column, dtype=float) for column in zip(*requests, strict=True))
    together.add_all(num_bytes, begun, begun + seconds)
    for count, start, duration in requests:
        one_by_one.add(count, start, start + duration)
    assert together.bin_seconds == one_by_one.bin_seconds
    assert together.bins() == pytest.approx(one_by_one.bins(), rel=1e-6, abs=2)


@given(TIMES)
def test_many_times_at_once_fall_into_the_buckets_of_each(seconds: list[float]) -> None:
    each, counts = Counter(map(bucket_of, seconds)), counts_of(np.array(seconds))
    assert sum(counts.values()) == len(seconds)
    for fraction in (0.0, 0.5, 1.0):
        assert quantile_seconds(counts, fraction) == pytest.approx(quantile_seconds(each, fraction), rel=0.0101)


def test_no_request_of_many_threads_is_lost_however_often_they_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_log, "_MAX_WAITING_BYTES", 320)
    log = RequestLog()

    def write(first: int) -> None:
        for number in range(2_000):
            log.moved("write", f"file-{first % 2}", first + number, 10, begun=time.perf_counter() - 1e-3)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(4)))
    found = log.summary()
    assert sum(count for _, count in found.latency_counts) == 8_000
    assert sum(found.bin_bytes) == pytest.approx(80_000, abs=MAX_BINS)


def test_the_slowest_request_keeps_its_place_among_many() -> None:
    log = RequestLog()
    for number in range(100):
        late = 5.0 if number == 42 else 0.001
        log.moved("read", "rank-00000.pt", number << 20, 1 << 20, begun=time.perf_counter() - late)
    slowest = log.summary().slowest["read"]
    assert (slowest.file, slowest.offset_bytes) == ("rank-00000.pt", 42 << 20)
    assert slowest.seconds == pytest.approx(5.0, abs=0.5)


def test_a_sample_is_the_same_after_it_went_from_rank_to_rank() -> None:
    log = RequestLog()
    log.moved("write", "rank-00001.pt", 4096, 10, begun=time.perf_counter())
    report = IoReport(is_direct=True, notices=("one",), phase_seconds={"write": 1.5}, requests=log.summary())
    sample = RankSample(2.5, counted_bytes={"disk": 10}, delay_seconds=0.25, report=report, num_bytes=10)
    assert RankSample.of(json.loads(json.dumps(sample.packed()))) == sample


def test_a_sample_is_sent_by_name_without_what_has_its_default() -> None:
    sample = RankSample(2.5, report=IoReport(phase_seconds={"read": 2.0}), num_bytes=10)
    assert sample.packed() == {"seconds": 2.5, "report": {"phase_seconds": {"read": 2.0}}, "num_bytes": 10}
