"""The charts of clusters, comparisons and sweeps draw the figures of their reports."""

from __future__ import annotations

import itertools

import pytest

from sizing.errors import InvalidInput
from sizing.present.guesses import visible_guesses
from sizing.questions.answer.charts import guesses_chart
from sizing.questions.cluster.charts import cluster_chart
from sizing.questions.compare.charts import comparison_chart
from sizing.questions.compare.request import REFERENCE_COMPARISON
from sizing.questions.decide.charts import decision_charts
from sizing.questions.decide.request import REFERENCE_DECISION
from sizing.questions.registry import COMPARE, DECIDE, SENSITIVITY, SWEEP
from sizing.questions.sensitivity.question import sensitivity_chart
from sizing.questions.sensitivity.request import REFERENCE_SENSITIVITY
from sizing.questions.sweep.charts import sweep_chart
from sizing.questions.sweep.request import REFERENCE_SWEEP
from sizing.report import answer
from sizing.scenario import scenario_from
from tests.sizing.present.gallery import OPEN, cluster, drawn


def test_the_busiest_day_has_a_mean_rate_for_every_five_minutes_and_direction() -> None:
    day, report = drawn(cluster_chart)[0]["vconcat"][0]["data"]["values"], cluster()
    assert len(day) == 2 * 24 * 12
    for direction in ("write", "read"):
        of_direction = [row for row in day if row["direction"] == direction]
        hours = [row["hour"] for row in of_direction]
        assert [later - earlier for earlier, later in itertools.pairwise(hours)] == pytest.approx([1 / 12] * 287)
        moved = sum(row["bytes_per_second"] for row in of_direction) * 300
        rates = [getattr(moment, f"{direction}_bytes_per_second") for moment in report.busiest_day]
        assert moved == pytest.approx(300 * sum(rates))
        assert moved > 0


def test_stalls_grow_with_their_percentile_up_to_the_longest() -> None:
    rows = drawn(cluster_chart)[0]["vconcat"][1]["data"]["values"]
    assert list(dict.fromkeys(row["group"] for row in rows)) == [job.name for job in cluster().jobs]
    for job in cluster().jobs:
        stalls = {row["percentile"]: row["stall_seconds"] for row in rows if row["group"] == job.name}
        assert list(stalls) == [0, 1, 5, 10, 25, 50, 75, 90, 95, 99, 99.9, 100]
        assert list(stalls.values()) == sorted(stalls.values())
        found = job.simulated_stalls
        assert found is not None
        assert (stalls[50], stalls[99], stalls[100]) == (found.p50_seconds, found.p99_seconds, found.max_seconds)


def test_a_comparison_has_a_bar_for_the_times_and_losses_of_each_scenario() -> None:
    times, losses = (view["data"]["values"] for view in drawn(comparison_chart)[0]["vconcat"])
    for asked in REFERENCE_COMPARISON["scenarios"]:
        report = answer(scenario_from(asked["scenario"]))
        assert report.write is not None
        bars = [row["seconds"] for row in times if row["scenario"] == asked["name"]]
        assert bars == [report.write.stall_seconds, report.restore.seconds]
        shares = [row["fraction"] for row in losses if row["scenario"] == asked["name"]]
        assert shares == [report.overhead.fraction, report.overhead.rework_fraction]
    kinds = [list(dict.fromkeys(row["kind"] for row in rows)) for rows in (times, losses)]
    assert ["stall" in kinds[0][0], "restore" in kinds[0][1], *kinds[1]] == [True, True, "saving", "failures"]


def test_a_comparison_of_two_names_both_and_one_of_more_counts_the_others() -> None:
    first, second = (asked["name"] for asked in REFERENCE_COMPARISON["scenarios"])
    assert drawn(comparison_chart)[0]["title"]["text"] == f"{first} against {second}"
    third = REFERENCE_COMPARISON["scenarios"][1] | {"name": "a third"}
    more = COMPARE.answer(REFERENCE_COMPARISON | {"scenarios": [*REFERENCE_COMPARISON["scenarios"], third]})
    assert comparison_chart(more)["title"]["text"] == f"{first} against 2 others"


def test_a_sweep_draws_every_row_and_joins_those_that_no_other_beats() -> None:
    """The least write bandwidth for the most goodput: no row on the line has a row that is better in both."""
    chart = drawn(sweep_chart)[0]
    bandwidth, goodput = chart["encoding"]["x"], chart["encoding"]["y"]
    rows, best = (
        [(row[bandwidth["field"]], row[goodput["field"]]) for row in drawn["data"]["values"]]
        for drawn in (chart, chart["layer"][1])
    )
    assert len(rows) == 16 * 18 * 2
    beats = {
        one: any(other[0] <= one[0] and other[1] >= one[1] and other != one for other in rows) for one in set(rows)
    }
    assert best == sorted(one for one in beats if not beats[one])
    assert len(best) == 18
    assert (bandwidth["title"], goodput["title"]) == ("bandwidth", "goodput")
    assert bandwidth["scale"]["zero"] is goodput["scale"]["zero"] is False


def test_one_objective_alone_cannot_be_drawn() -> None:
    with pytest.raises(InvalidInput, match="objectives must name two or more"):
        sweep_chart(SWEEP.answer(REFERENCE_SWEEP | {"objectives": ["goodput"]}))


def test_a_tornado_has_a_bar_from_the_headline_to_either_end_of_each_input() -> None:
    report = SENSITIVITY.answer(REFERENCE_SENSITIVITY)
    rows = drawn(sensitivity_chart)[0]["data"]["values"]
    assert [row["end_fraction"] for row in rows[::2]] == [swing.headline_low for swing in report.inputs]
    assert [row["end_fraction"] for row in rows[1::2]] == [swing.headline_high for swing in report.inputs]
    assert {row["standing_fraction"] for row in rows} == {report.headline.value}
    assert rows[0]["input"] == "interval"
    left, right = (layer["data"]["values"] for layer in drawn(sensitivity_chart)[0]["layer"][1:3])
    assert (left[0]["label"], right[0]["label"]) == ("30.0 min", "4.00 h")
    write_bandwidth = next(row for row in left if row["input"] == "write bandwidth")
    assert write_bandwidth["label"] == "327.6 GB/s", "the higher rate loses less"


def test_guesses_are_drawn_the_same_with_their_alternatives() -> None:
    report = answer(OPEN)
    rows = drawn(guesses_chart)[0]["data"]["values"]
    assert [row["end_fraction"] for row in rows[::2]] == [
        guess.headline_low for guess in visible_guesses(report.guesses, report.headline)
    ]
    assert "interval" in {row["input"] for row in rows}


def test_cost_over_bandwidth_marks_where_it_is_least_and_one_gigabyte_per_second_for_every_gpu() -> None:
    report = DECIDE.answer(REFERENCE_DECISION)
    [curves] = [each for each in decision_charts(report) if each["title"]["text"] == "Cost over bandwidth"]
    _, points, least, rule, words = curves["layer"]
    assert [point["write_gigabytes_per_second"] * 1e9 for point in points["data"]["values"]] == [
        offer.cheapest_bandwidth.write_bytes_per_second for offer in report.offers if offer.cheapest_bandwidth
    ]
    first = points["data"]["values"][0]
    assert least["data"]["values"] == [
        {name: first[name] for name in ("write_gigabytes_per_second", "cost_USD")}
        | {"label": "costs least at 125.4 GB/s"}
    ]
    assert rule["data"]["values"] == [{"write_gigabytes_per_second": 3072, "label": "1 GB/s per GPU: 3.072 TB/s"}]
    assert words["mark"]["align"] == "right", "the words stand within the axes"


def test_the_words_of_one_gigabyte_per_second_for_every_gpu_stand_on_the_right_where_gpus_are_few() -> None:
    few = {"model": {"preset": "gpt2"}, "reliability": {"mtbf_seconds": "1d"}}
    asked = REFERENCE_DECISION | {"workloads": [{"name": "few", "scenario": few}]}
    [curves] = [
        each for each in decision_charts(DECIDE.answer(asked)) if each["title"]["text"] == "Cost over bandwidth"
    ]
    assert curves["layer"][-1]["mark"]["align"] == "left"
