"""A restore whose time is not known is never counted as none without a word, wherever a loss is shown."""

from __future__ import annotations

from typing import Any

import pytest

from sizing.field_paths import with_field
from sizing.present.guesses import guess_sentences
from sizing.questions.answer.charts import guesses_chart, lost_time_chart
from sizing.questions.compare.words import comparison_summary
from sizing.questions.registry import COMPARE, SENSITIVITY, SIMULATE
from sizing.questions.sensitivity.question import sensitivity_chart, sensitivity_summary
from sizing.questions.simulate.charts import simulation_chart
from sizing.questions.simulate.request import ScenarioSimulation
from sizing.questions.simulate.words import simulation_summary
from sizing.report import answer
from sizing.scenario import REFERENCE_SCENARIO, scenario_from

KNOWN: dict[str, Any] = REFERENCE_SCENARIO | {"reliability": {"failures_per_node_day": 0.0065}}
UNKNOWN = KNOWN | {"storage": {"profile": {"write_bytes_per_second": "273 GB/s"}}}
MEASURED = with_field(UNKNOWN, "reliability.restart_seconds", 600.0)
KNOWN_ONES = pytest.mark.parametrize("asked", [KNOWN, MEASURED], ids=["rate", "restart"])


def test_guesses_move_a_loss_without_the_restore() -> None:
    report = answer(UNKNOWN)
    assert report.headline.leaves_out_restore
    assert all(": lost time without the restore " in said for said in guess_sentences(report, 3))
    assert guesses_chart(report)["title"]["text"].endswith("move the lost time without the restore")


def test_the_chart_of_the_loss_says_so() -> None:
    subtitle = lost_time_chart(scenario_from(UNKNOWN), answer(UNKNOWN))["title"]["subtitle"]
    assert subtitle.endswith("recovery (RTO) without the restore, whose time is not known")


def test_sensitivities_say_so() -> None:
    report = SENSITIVITY.answer(UNKNOWN)
    assert sensitivity_summary(report).headline.startswith("Lost time without the restore ")
    assert sensitivity_chart(report)["title"]["text"].endswith("move the lost time without the restore")


def test_simulated_goodput_is_a_max() -> None:
    report = SIMULATE.answer(ScenarioSimulation(scenario=scenario_from(UNKNOWN), num_runs=100))
    summary = simulation_summary(report)
    assert [figure.startswith("at most ") for _, figure, _ in summary.grids[0].rows] == [True, True, True]
    assert "recoveries leave out the restore, so goodput is at most that" in summary.remarks[0]
    assert "by formula, at most " in simulation_chart(report)["title"]["subtitle"]


def test_a_comparison_says_so_of_the_one_that_does_not_know() -> None:
    scenarios = [{"name": name, "scenario": each} for name, each in (("known", KNOWN), ("unknown", UNKNOWN))]
    known, unknown = comparison_summary(COMPARE.answer({"scenarios": scenarios})).verdict.splitlines()
    assert "loses at least" in unknown
    assert "at least" not in known


@KNOWN_ONES
def test_nothing_is_said_where_it_is_known(asked: dict[str, Any]) -> None:
    report = answer(asked)
    assert not report.headline.leaves_out_restore
    assert not any("without the restore" in said for said in guess_sentences(report, 3))
    run = SIMULATE.answer(ScenarioSimulation(scenario=scenario_from(asked), num_runs=100))
    assert not any(figure.startswith("at most") for _, figure, _ in simulation_summary(run).grids[0].rows)
