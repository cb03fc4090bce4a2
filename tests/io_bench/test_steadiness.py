"""The rate that storage keeps up: found on series of a known truth, and on a disk that becomes slow while it is written."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from io_bench.measure.sample import pieces
from io_bench.measure.steadiness import Pieces, Steadiness, pieces_of, steadiness
from io_bench.measure.stopwatch import OperationSample, RankSample
from io_bench.target.request_log import Requests
from sizing.storage.measurement import BenchmarkResult, Measurement
from tests.io_bench.conftest import REPOSITORY
from tests.testbed.file_systems import Disk, Throttle, disk, throttled
from tests.testbed.processes import wait_until

if TYPE_CHECKING:
    from tests.conftest import Testbed

MB, GB = 10**6, 10**9
SIZE, NUM_PIECES, NUM_OPERATIONS = 2 * GB, 32, 6
CACHED, SUSTAINED = 2.0 * GB, 0.14 * GB

FAST, SLOW = 100 * MB, 20 * MB
FAST_BYTES = 5 * 34 * MB + 8 * MB
"""A warm-up, four repetitions and a quarter of the fifth."""
MAX_RUNS = 3

Truth = Callable[[float, float], float]
"""Bytes per second after so many bytes of the run, and of the operation."""


def found(truth: Truth, *, seed: int = 0, noise: float = 0.08) -> Steadiness:
    return steadiness(list(operations(truth, np.random.default_rng(seed), noise)))


def operations(truth: Truth, generator: np.random.Generator, noise: float) -> Iterator[Pieces]:
    size = SIZE / NUM_PIECES
    for number in range(NUM_OPERATIONS):
        rates = [truth(number * SIZE + piece * size, piece * size) for piece in range(NUM_PIECES)]
        yield Pieces(size, size / np.array(rates) * np.exp(noise * generator.standard_normal(NUM_PIECES)))


@pytest.mark.parametrize(
    ("truth", "num_steady"),
    [
        (lambda total, _: CACHED if total < 0.27 * GB else SUSTAINED, 5),
        (lambda _, own: CACHED if own < 0.27 * GB else SUSTAINED, 5),
        (lambda total, _: CACHED if total < 5 * GB else SUSTAINED, 4),
    ],
    ids=["once", "in every repetition", "in the third repetition"],
)
def test_behind_a_cache_the_rate_that_goes_on_is_found(truth: Truth, num_steady: int) -> None:
    for seed in range(20):
        steady = found(truth, seed=seed)
        assert steady.sustained_bytes_per_second == pytest.approx(SUSTAINED, rel=0.05)
        assert (steady.is_steady, steady.num_steady) == (True, num_steady)
        first = steady.changes[0]
        assert truth(first.after_bytes - SIZE / NUM_PIECES, first.after_bytes - SIZE / NUM_PIECES) == CACHED
        assert truth(first.after_bytes + SIZE / NUM_PIECES, first.after_bytes + SIZE / NUM_PIECES) == SUSTAINED


def test_a_change_just_before_the_end_is_not_yet_steady() -> None:
    assert not found(lambda total, _: CACHED if total < 11.6 * GB else SUSTAINED).is_steady


def test_a_rate_that_falls_all_the_time_is_not_steady() -> None:
    assert not found(lambda total, _: CACHED * float(np.exp(-total / (20 * GB))), noise=0.02).is_steady


def test_noise_is_no_change() -> None:
    steadies = [found(lambda *_: 1.0 * GB, seed=seed, noise=0.25) for seed in range(100)]
    assert sum(bool(steady.changes) for steady in steadies) <= 5
    assert sum(not steady.is_steady for steady in steadies) <= 5


def test_one_hang_is_no_change() -> None:
    rows = list(operations(lambda *_: 1.0 * GB, np.random.default_rng(1), 0.05))
    rows[3].seconds[10] += 12.0
    steady = steadiness(rows)
    assert steady.changes == ()
    assert steady.sustained_bytes_per_second == pytest.approx(1.0 * GB, rel=0.03)


def at_rates(*rates: float, disturbed: tuple[int, ...] = ()) -> Steadiness:
    """What is found in operations that each have a rate of their own, the warm-up first."""
    draws, size = np.random.default_rng(2), SIZE / NUM_PIECES
    return steadiness(
        [
            Pieces(size, size / rate * np.exp(0.05 * draws.standard_normal(NUM_PIECES)), number in disturbed)
            for number, rate in enumerate(rates)
        ]
    )


def test_one_slow_repetition_at_the_end_is_no_rate_that_goes_on() -> None:
    steady = at_rates(*[1.0 * GB] * 5, 0.3 * GB)
    assert (steady.changes, steady.is_steady, steady.num_steady) == ((), False, 0)
    assert steady.sustained_bytes_per_second == pytest.approx(1.0 * GB, rel=0.03)


def test_repetitions_that_differ_from_each_other_show_no_change() -> None:
    """Five restores of 128 MB on a node of two busy CPUs, the warm-up first."""
    steady = at_rates(76 * MB, 86 * MB, 182 * MB, 274 * MB, 47 * MB)
    assert (steady.changes, steady.is_steady) == ((), False)
    assert steady.sustained_bytes_per_second == pytest.approx((86 + 182) / 2 * MB, rel=0.03)
    wild = at_rates(76 * MB, 86 * MB, 182 * MB, 274 * MB, 90 * MB, 88 * MB)
    assert not [each for each in wild.changes if each.after_bytes_per_second < each.before_bytes_per_second]


def test_what_slows_two_repetitions_at_the_end_goes_on() -> None:
    steady = at_rates(*[1.0 * GB] * 4, *[0.3 * GB] * 2)
    (change,) = steady.changes
    assert change.after_bytes == pytest.approx(4 * SIZE)
    assert (steady.is_steady, steady.num_steady) == (True, 2)
    assert steady.sustained_bytes_per_second == pytest.approx(0.3 * GB, rel=0.03)


def test_operations_whose_threads_had_no_cpu_say_nothing_of_a_change() -> None:
    steady = at_rates(*[1.0 * GB] * 4, *[0.3 * GB] * 2, disturbed=(4, 5))
    assert (steady.changes, steady.is_steady) == ((), True)
    assert steady.sustained_bytes_per_second == pytest.approx(1.0 * GB, rel=0.03)
    fallen = at_rates(0.1 * GB, *[1.0 * GB] * 2, *[0.3 * GB] * 2, disturbed=(0,))
    (change,) = fallen.changes
    assert change.after_bytes == pytest.approx(3 * SIZE), "what a disturbed operation moved counts"
    assert at_rates(*[1.0 * GB] * 3, *[0.3 * GB] * 3, disturbed=tuple(range(6))).changes == ()


@pytest.mark.parametrize("num_pieces", [1, NUM_PIECES])
@pytest.mark.parametrize("disturbed", [(), (1,)])
def test_the_rate_that_goes_on_is_never_that_of_the_warm_up(num_pieces: int, disturbed: tuple[int, ...]) -> None:
    """A first save that a cache took, and one or two that it did not."""
    rows = [
        Pieces(SIZE / num_pieces, np.full(num_pieces, SIZE / num_pieces / rate), number in disturbed)
        for number, rate in enumerate([CACHED, SUSTAINED])
    ]
    assert steadiness(rows).sustained_bytes_per_second == pytest.approx(SUSTAINED)
    twice = steadiness([*rows, rows[1]])
    assert twice.sustained_bytes_per_second == pytest.approx(SUSTAINED)
    assert twice.num_steady == 2


def test_a_warm_up_that_becomes_faster_is_no_trend() -> None:
    size = SIZE / NUM_PIECES
    rising, constant = np.linspace(0.76, 1.0, NUM_PIECES) * GB, np.full(NUM_PIECES, 1.0) * GB
    assert steadiness([Pieces(size, size / rising), Pieces(size, size / constant)]).is_steady


@pytest.mark.parametrize(
    ("delay_seconds", "throttled_seconds", "is_disturbed"),
    [(None, 0.0, False), (4.9, 0.0, False), (5.1, 0.0, True), (0.0, 5.1, True)],
)
def test_an_operation_is_disturbed_where_a_rank_had_no_cpu_for_most_of_it(
    delay_seconds: float | None, throttled_seconds: float, is_disturbed: bool
) -> None:
    slow = RankSample(10.0, delay_seconds=delay_seconds, throttled_seconds=throttled_seconds, num_bytes=MB)
    assert pieces(OperationSample((RankSample(9.0, num_bytes=MB), slow))).is_disturbed is is_disturbed


def test_the_rates_of_ranks_add_up_while_all_of_them_move_data() -> None:
    """Two ranks at 100 MB/s; the second goes on alone for half as long again."""
    short = Requests(((0, 40),), 0.5, (50 * MB,) * 20)
    long = Requests(((0, 60),), 0.5, (50 * MB,) * 30)
    cut = pieces_of([short, long], total_bytes=2500 * MB, seconds=15.0)
    assert cut.rates == pytest.approx(200 * MB)
    assert cut.piece_bytes * len(cut.seconds) == pytest.approx(1900 * MB)


def test_too_few_requests_are_one_piece() -> None:
    few = pieces_of([Requests(((0, 8),), 0.5, (50 * MB,) * 20)], total_bytes=1000 * MB, seconds=11.0)
    assert (few.piece_bytes, list(few.seconds)) == (1000 * MB, [11.0])
    none = pieces_of([Requests(), Requests()], total_bytes=1000 * MB, seconds=11.0)
    assert (none.piece_bytes, list(none.seconds)) == (1000 * MB, [11.0])


@pytest.mark.long
def test_a_disk_that_becomes_slow_is_measured_until_it_is_steady_and_its_slow_rate_is_the_headline(
    testbed: Testbed, tmp_path: Path
) -> None:
    """100 MB/s, and 20 MB/s from within the fifth of five repetitions on: the median would be the fast rate.

    Beside busy processes a fast repetition may take as long as a slow one; then no fall is seen, and it runs anew.
    """
    slow = testbed(disk(tmp_path, num_bytes=96 << 20))
    throttle = testbed(throttled(slow, write_bytes_per_second=FAST))
    for number in range(MAX_RUNS):
        write = _written_while_it_becomes_slow(slow, throttle, tmp_path / f"result-{number}.json")
        assert len(write.seconds) > 5
        assert write.is_steady
        if write.fall is not None:
            # Busy processes make it slower than the disk, never faster.
            assert 0.6 * SLOW < write.headline_bytes_per_second < 1.1 * SLOW
            assert write.fall.after_bytes == pytest.approx(FAST_BYTES, abs=17 * MB)
            return
        throttle.limit_writes(FAST)
    pytest.fail(f"No fall was seen in {MAX_RUNS} runs")


def _written_while_it_becomes_slow(slow: Disk, throttle: Throttle, output: Path) -> Measurement:
    flags = ["--bytes-per-rank", "32MiB", "--block-size", "512KiB", "--threads", "2", "--repetitions", "5"]
    command = [sys.executable, "-m", "io_bench", "run", "--target", str(slow.path), *flags, "--until-steady"]
    before = slow.written_bytes
    process = subprocess.Popen(
        throttle.command(*command, "--output", output),
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_until(
        lambda: slow.written_bytes - before >= FAST_BYTES, process, last_words=lambda: "\n".join(process.communicate())
    )
    throttle.limit_writes(SLOW)
    _, err = process.communicate()
    assert process.returncode == 0, err
    write, _ = BenchmarkResult.model_validate_json(output.read_text()).measurements
    return write
