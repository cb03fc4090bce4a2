"""Changes of rates over time, on simulated series: how often nothing is called a loss, and how soon a loss is seen."""

import math
import random
from datetime import UTC, datetime, timedelta

import pytest

from sizing.storage.calibration import Publisher
from sizing.storage.measurement import Measurement
from sizing.storage.rate_changes import MAX_SERIES_CHARACTERS, RunPublication, judge_rates, series_of

MAX_FALSE_FRACTION = 0.003
"""What docs/rest.md says."""


def rates(num_runs: int, noise: float, *, level: float = 1e9, draw: random.Random) -> list[float]:
    return [level * math.exp(draw.gauss(0, noise)) for _ in range(num_runs)]


@pytest.mark.parametrize("noise", [0.03, 0.1])
def test_where_nothing_changes_few_runs_are_called_a_loss(noise: float) -> None:
    draw = random.Random(3)  # noqa: S311 - to repeat, not a secret
    judged = [found for _ in range(100) for found in judge_rates(rates(250, noise, draw=draw))]
    losses = sum(found.change == "loss" for found in judged)
    assert 0.001 < losses / len(judged) < MAX_FALSE_FRACTION


def test_a_run_of_many_series_raises_no_more_false_alarms() -> None:
    draw = random.Random(4)  # noqa: S311 - as above
    num_series, num_runs = 20, 250
    series = [judge_rates(rates(num_runs, 0.05, draw=draw), [num_series] * num_runs) for _ in range(4 * num_series)]
    losses = sum(found.change == "loss" for judged in series for found in judged)
    assert losses <= 2 * MAX_FALSE_FRACTION * 4 * num_runs  # of so few runs; each series by itself would give 40


@pytest.mark.parametrize(
    ("noise", "num_earlier", "at_first", "by_second"),
    [(0.03, 10, 0.95, 0.99), (0.03, 20, 0.99, 0.99), (0.05, 20, 0.7, 0.95)],
)
def test_a_loss_of_a_fifth_is_seen_at_the_first_or_second_run(
    noise: float, num_earlier: int, at_first: float, by_second: float
) -> None:
    draw = random.Random(5)  # noqa: S311 - as above
    first = second = 0
    for _ in range(300):
        before, after = rates(num_earlier, noise, draw=draw), rates(2, noise, level=0.8e9, draw=draw)
        *_, one, two = judge_rates([*before, *after])
        first += one.change == "loss"
        second += "loss" in (one.change, two.change)
    assert first / 300 >= at_first
    assert second / 300 >= by_second


def changes(values: list[float]) -> list[str | None]:
    return [found.change for found in judge_rates(values)]


CALM = [1.0, 1.02, 0.99, 1.01, 0.98, 1.0, 1.01, 0.99]


def test_one_slow_run_is_a_loss_for_as_long_as_the_next_is_slow_too() -> None:
    judged = judge_rates([*CALM, 0.5, 1.0, 1.01])
    assert [found.change for found in judged[-3:]] == ["loss", None, None]
    assert [found.is_lost for found in judged[-3:]] == [True, False, False]
    assert judged[-1].expected == pytest.approx(1.0, rel=0.01)


def test_a_lasting_loss_becomes_the_level_and_stays_lost_until_a_gain() -> None:
    judged = judge_rates([*CALM, *[0.7, 0.71, 0.69, 0.7], *[1.0, 1.01]])
    assert [found.change for found in judged] == [None] * 8 + ["loss", "loss", None, None, "gain", "gain"]
    assert [found.is_lost for found in judged[8:]] == [True, True, True, True, False, False]
    assert judged[-2].expected == pytest.approx(0.7, rel=0.02)


def test_what_is_too_little_to_matter_or_has_too_few_runs_before_it_is_not_marked() -> None:
    assert set(changes([1.0] * 10 + [0.96] * 5)) == {None}
    assert set(changes([1.0] * 4 + [0.5])) == {None}
    assert changes([1.0] * 5 + [0.5])[-1] == "loss"


def test_storage_that_became_noisy_is_soon_known_as_such() -> None:
    draw = random.Random(6)  # noqa: S311 - as above
    judged = judge_rates(rates(20, 0.01, draw=draw) + rates(200, 0.2, draw=draw))
    assert sum(found.change is not None for found in judged[-100:]) < 10


START = datetime(2026, 1, 1, tzinfo=UTC)
OWNER = Publisher("owner", True, START)
FIRST, SECOND = (Publisher(name, False, START + timedelta(days=day)) for day, name in enumerate(("first", "second"), 1))


def is_lost(*runs: tuple[Publisher, float], hours_between: float = 24) -> list[bool]:
    published = [
        RunPublication(source, START + n * timedelta(hours=hours_between)) for n, (source, _) in enumerate(runs)
    ]
    return [judged.is_lost for judged in judge_rates([rate for _, rate in runs], published=published)]


def by(source: Publisher, *values: float) -> list[tuple[Publisher, float]]:
    return [(source, value) for value in values]


def test_a_flood_of_slow_runs_raises_no_alarm_that_outlasts_the_next_run_of_the_senior_source() -> None:
    flood = by(SECOND, *[0.1, 0.11] * 200)
    assert is_lost(*by(OWNER, *CALM), *flood, *by(OWNER, 1.0), *flood, *by(OWNER, 1.0))[-402:] == [False] * 402


@pytest.mark.parametrize("flooded", [0.1, 1.0, 10.0])
def test_a_flood_hides_no_loss_that_the_senior_source_sees(flooded: float) -> None:
    flood = by(SECOND, *[flooded, flooded * 1.01] * 200)
    runs = [*by(FIRST, *CALM), *flood, *by(FIRST, 0.5, 0.5), *flood]
    assert is_lost(*runs, hours_between=1)[-401:] == [True] * 401


def test_the_most_sources_are_believed_and_a_new_one_knows_the_level_of_the_senior_one() -> None:
    calm = by(OWNER, *CALM)
    assert is_lost(*calm, *by(FIRST, 0.5))[-1], "the first run of a new token, where the last one of the other is older"
    assert not is_lost(*calm, *by(FIRST, 0.5), *by(OWNER, 1.0))[-1]
    assert is_lost(*calm, *by(FIRST, 0.5), *by(OWNER, 1.0), *by(SECOND, 0.5))[-1]
    assert not is_lost(*calm, *by(OWNER, 0.5), *by(FIRST, 1.0), *by(SECOND, 1.0))[-1]


def test_the_loss_that_a_source_saw_ends_with_it_where_others_see_none() -> None:
    seen = [*by(OWNER, *CALM, 0.5, 0.5), *by(FIRST, 1.0, 1.0, 1.0)]
    assert is_lost(*seen)[-4:] == [True] * 4
    assert is_lost(*seen, hours_between=24 * 12)[-4:] == [True, True, True, False]


def measured(**changed: object) -> Measurement:
    document = {
        "engine": "direct",
        "operation": "write",
        "num_nodes": 1,
        "num_ranks": 2,
        "bytes_per_rank": 10**9,
        "total_bytes": 2 * 10**9,
        "seconds": [2.0],
        "bytes_per_second": 10**9,
        "first_done_seconds": [1.9],
        "rank_seconds": [[1.9, 2.0]],
        "cache_policy": "o-direct",
        "verified": True,
    }
    return Measurement.model_validate(document | changed)


def test_like_runs_share_operation_engine_setting_and_configuration() -> None:
    assert series_of(measured()) == ("write by direct, o-direct, nodes 1, ranks 2, bytes per rank 1000000000, files 2")
    assert series_of(
        measured(seconds=[1.0], bytes_per_second=2 * 10**9, first_done_seconds=[0.9], rank_seconds=[[0.9, 1.0]])
    ) == series_of(measured())
    others: list[dict[str, object]] = [
        {"operation": "restore"},
        {"engine": "dcp"},
        {"num_nodes": 2},
        {"num_ranks": 1, "bytes_per_rank": 2 * 10**9, "rank_seconds": [[2.0]]},
        {"bytes_per_rank": 10**9 + 1},
        {"block_bytes": 4096},
        {"threads_per_rank": 4},
        {"cache_policy": "buffered-fsync"},
        {"stripe_count": 4},
        {"num_files": 8},
    ]
    assert len({series_of(measured(**other)) for other in [{}, *others]}) == len(others) + 1
    long = series_of(measured(engine="e" * 64, num_files=10**250))
    assert len(long or "") == MAX_SERIES_CHARACTERS


@pytest.mark.parametrize(
    "changed", [{"verified": False}, {"cache_policy": "cached"}, {"limited_by": "generator"}, {"is_steady": False}]
)
def test_what_says_nothing_of_the_storage_has_no_series(changed: dict[str, object]) -> None:
    assert series_of(measured(**changed)) is None
