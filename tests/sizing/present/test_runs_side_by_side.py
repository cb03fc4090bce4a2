"""The newest runs of a storage system beside each other, in words."""

from datetime import UTC, datetime, timedelta

from sizing.present.rates_over_time import side_by_side
from sizing.storage.rate_changes import RatedRun, RatedSeries, RateVerdict

FIRST = datetime(2026, 1, 1, tzinfo=UTC)
NOT_JUDGED = RateVerdict(None, None, is_lost=False)


def series(operation: str, rates: dict[int, float]) -> RatedSeries:
    runs = [RatedRun(f"run-{day}", FIRST + timedelta(days=day), rate, NOT_JUDGED) for day, rate in rates.items()]
    return RatedSeries(f"{operation} by direct, nodes 1", runs)


def test_the_newest_runs_stand_beside_each_other_and_what_one_did_not_measure_is_left_open() -> None:
    write = series("write", {day: 1e9 + 1e8 * day for day in range(7)})
    restore = series("restore", {1: 9e9, 6: 2e9})
    before = series("write", {0: 1e9})
    (grid,) = side_by_side([write, restore, before])
    assert grid.columns == ("operation", "run-6", "run-5", "run-4", "run-3", "run-2", "conditions")
    assert grid.rows == (
        ("write by direct", "1.600 GB/s", "1.500 GB/s", "1.400 GB/s", "1.300 GB/s", "1.200 GB/s", "nodes 1"),
        ("restore by direct", "2.000 GB/s", "-", "-", "-", "-", "nodes 1"),
    )


def test_one_run_has_nothing_to_stand_beside() -> None:
    assert list(side_by_side([series("write", {0: 1e9})])) == []
    assert list(side_by_side([])) == []
