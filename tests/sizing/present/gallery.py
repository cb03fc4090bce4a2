"""One example of every chart, on what its question's own example answers."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import cache, partial
from typing import Any, cast

from sizing.present.calibrations import calibration_chart
from sizing.present.capacity import capacity_chart
from sizing.present.chart import Chart
from sizing.present.rates_over_time import rates_chart
from sizing.present.scan import scan_chart
from sizing.questions.answer.charts import guesses_chart, limits_chart, lost_time_chart, parts_chart, report_charts
from sizing.questions.cluster.charts import cluster_chart
from sizing.questions.cluster.report import ClusterReport
from sizing.questions.cluster.request import REFERENCE_CLUSTER
from sizing.questions.decide.charts import decision_chart, decision_charts
from sizing.questions.decide.request import REFERENCE_DECISION
from sizing.questions.registry import CLUSTER, DECIDE, QUESTIONS, SIMULATE, QuestionEntry
from sizing.questions.simulate.charts import simulation_chart
from sizing.questions.simulate.request import ScenarioSimulation
from sizing.report import SizingReport, answer
from sizing.scenario import REFERENCE_SCENARIO, scenario_from
from sizing.storage.calibration import Calibration, calibrate
from sizing.storage.rate_changes import RatedRun, RatedSeries, judge_rates
from tests.sizing.present.test_scan import SCAN
from tests.sizing.storage.calibration.simulation import result

REFERENCE = scenario_from(REFERENCE_SCENARIO)
OPEN = {name: REFERENCE_SCENARIO[name] for name in ("model", "parallelism", "storage")}
"""Of which most is assumed."""
INGREDIENTS = {"sizing.present.chart", "sizing.present.tornado"}
"""Modules that charts are made with."""
UNCERTAIN = {"odds": {"ranges": {"per_lost_gpu_hour": {"low": 2, "high": 4}}, "num_draws": 1000}}


@cache
def calibration() -> Calibration:
    """Of a simulated storage system."""
    return calibrate([result(noise=0.02, outliers=0)], num_draws=200)


@cache
def cluster() -> ClusterReport:
    """Jobs that save, fail and read on one file system."""
    return CLUSTER.answer(REFERENCE_CLUSTER)


def kept_weights() -> SizingReport:
    """A run of 90 days that keeps the weights of each sixth checkpoint."""
    return answer(REFERENCE_SCENARIO | {"retention": {"keep_weights_every": 6, "run_seconds": "90d"}})


def slower() -> RatedSeries:
    """Twelve nights, and two that are slower."""
    rates = [10e9 + 1e8 * (night % 3) for night in range(12)] + [7e9, 7.1e9]
    nights = (datetime(2026, 11, 1, tzinfo=UTC) + timedelta(days=night) for night in range(len(rates)))
    found = zip(nights, rates, judge_rates(rates), strict=True)
    runs = [RatedRun(f"run-{number}", *each) for number, each in enumerate(found)]
    return RatedSeries("write by direct, odirect, nodes 4, ranks 32, bytes per rank 4000000000, files 32", runs)


def draw_example(entry: QuestionEntry[Any, Any]) -> Chart:
    """What `--chart` draws of the answer to a question's example."""
    draw = entry.question.chart
    assert draw is not None, entry.name
    return cast("Chart", draw(entry.answer(entry.question.example)))


EXAMPLES: dict[Callable[..., Any], Callable[[], Chart | list[Chart]]] = {
    **{entry.question.chart: partial(draw_example, entry) for entry in QUESTIONS.values() if entry.question.chart},
    calibration_chart: lambda: calibration_chart(calibration()),
    capacity_chart: lambda: [
        capacity_chart(dict.fromkeys(names, kept_weights().capacity_over_time), {"small": 60e12})
        for names in (["1T"], ["1T", "again"])
    ],
    cluster_chart: lambda: cluster_chart(cluster()),
    decision_chart: lambda: [decision_chart(DECIDE.answer(REFERENCE_DECISION | each)) for each in ({}, UNCERTAIN)],
    decision_charts: lambda: decision_charts(DECIDE.answer(REFERENCE_DECISION | UNCERTAIN)),
    rates_chart: lambda: rates_chart(slower()),
    simulation_chart: lambda: simulation_chart(
        SIMULATE.answer(ScenarioSimulation.model_validate({"scenario": REFERENCE, "num_runs": 1000}))
    ),
    scan_chart: lambda: scan_chart(SCAN),
    report_charts: lambda: report_charts(REFERENCE, answer(REFERENCE)),
    parts_chart: lambda: parts_chart(answer(REFERENCE).checkpoint),
    limits_chart: lambda: limits_chart("What limits the restore", answer(REFERENCE).restore.limits),
    lost_time_chart: lambda: lost_time_chart(REFERENCE, answer(REFERENCE)),
    guesses_chart: lambda: guesses_chart(answer(OPEN)),
}


@cache
def drawn(chart: Callable[..., Any]) -> tuple[Chart, ...]:
    """The specifications of a chart's example."""
    spec = EXAMPLES[chart]()
    return tuple(spec) if isinstance(spec, list) else (spec,)
