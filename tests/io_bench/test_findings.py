from __future__ import annotations

import pytest

from io_bench.campaign.repetition import Sample
from io_bench.engines import IoReport
from io_bench.findings import drift_fraction, measurements_of, notices_of, warnings_about
from io_bench.stopwatch import Timing
from sizing.storage.measurement import Measurement


def sample(
    *, write: tuple[float, ...], restore: tuple[float, ...], resident: int = 0, reports: tuple[IoReport, ...] = ()
) -> Sample:
    return Sample(
        write=Timing(write, 0.001),
        restore=Timing(restore, 0.001),
        write_reports=reports or (IoReport(),),
        restore_reports=reports or (IoReport(),),
        rank_bytes=(300, 301),
        resident_pages=(0, resident),
    )


def measured(samples: list[Sample]) -> tuple[Measurement, Measurement]:
    write, restore = measurements_of(samples, engine="torch-save", num_nodes=1)
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
    assert (write.total_bytes, write.bytes_per_second) == (601, 60.1)
    assert restore.bytes_per_second == pytest.approx(601 / 30.0)
    assert (write.num_ranks, write.bytes_per_rank) == (2, 300)


def test_direct_is_what_every_rank_did_directly() -> None:
    direct, buffered = IoReport(is_direct=True), IoReport(notices=("buffered here",))
    both = sample(write=(6.0, 6.0), restore=(6.0, 6.0), reports=(direct, direct))
    one = sample(write=(6.0, 6.0), restore=(6.0, 6.0), reports=(direct, buffered))
    assert [measurement.cache_policy for measurement in measured([both, both])] == ["o-direct", "o-direct"]
    assert [measurement.cache_policy for measurement in measured([both, one])] == ["buffered-fsync", "fadvise-dontneed"]
    assert notices_of([both, one, one]) == ["buffered here"]


def test_one_resident_page_of_one_rank_in_one_repetition_makes_the_restore_cached() -> None:
    cold = sample(write=(6.0, 6.0), restore=(6.0, 6.0))
    warm = sample(write=(6.0, 6.0), restore=(6.0, 6.0), resident=1)
    assert measured([cold, cold])[1].cache_policy == "fadvise-dontneed"
    write, restore = measured([cold, warm])
    assert (write.cache_policy, restore.cache_policy) == ("buffered-fsync", "cached")
    assert warnings_about(write) == []
    assert "stayed in memory" in " ".join(warnings_about(restore))


@pytest.mark.parametrize(("seconds", "is_short"), [(4.9, True), (5.0, False)])
def test_less_than_five_seconds_is_called_short(seconds: float, is_short: bool) -> None:
    write, _ = measured([sample(write=(seconds, seconds), restore=(9.0, 9.0))])
    assert any("less than 5.00 s" in warning for warning in warnings_about(write)) is is_short


@pytest.mark.parametrize(
    ("seconds", "drift"),
    [([10.0, 10.0, 50.0, 11.5, 11.5], 0.15), ([10.0, 10.0, 8.0, 8.0], -0.2), ([1.0, 1.0, 2.0], 0.0)],
)
def test_drift_compares_the_halves(seconds: list[float], drift: float) -> None:
    assert drift_fraction(seconds) == pytest.approx(drift)


def test_drift_is_warned_about_beyond_ten_percent() -> None:
    steady = [sample(write=(t, t), restore=(9.0, 9.0)) for t in (10.0, 10.0, 10.9, 10.9)]
    drifting = [sample(write=(t, t), restore=(9.0, 9.0)) for t in (10.0, 10.0, 11.1, 11.1)]
    assert warnings_about(measured(steady)[0]) == []
    (warning,) = warnings_about(measured(drifting)[0])
    assert "11.0 % longer" in warning
