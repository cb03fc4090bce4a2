"""Every chart draws, names its axes, and fits on a page; a chart without an example here is named."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from sizing import charts
from sizing.charts.calibration import calibration_chart
from sizing.charts.chart import Chart
from sizing.charts.clusters import cluster_chart
from sizing.charts.comparisons import comparison_chart
from sizing.charts.layouts import layouts_chart
from sizing.charts.rendering import svg
from sizing.charts.scan import scan_chart
from sizing.charts.sizing_report import limits_chart, lost_time_chart, parts_chart, report_charts
from sizing.charts.sweeps import sweep_chart
from sizing.explore.clusters.cluster_answer import answer_cluster
from sizing.explore.clusters.cluster_scenario import REFERENCE_CLUSTER
from sizing.explore.comparisons.comparison import compare
from sizing.explore.comparisons.comparison_request import REFERENCE_COMPARISON
from sizing.explore.layouts.layouts_request import REFERENCE_SEARCH
from sizing.explore.layouts.ranking import find_layouts
from sizing.explore.sweeps.sweep import sweep
from sizing.explore.sweeps.sweep_request import REFERENCE_SWEEP
from sizing.report import answer
from sizing.scenario import REFERENCE_SCENARIO, scenario_from
from sizing.storage.calibration import calibrate
from tests.sizing.charts import toy_chart
from tests.sizing.charts.test_scan import SCAN
from tests.sizing.charts.toy_chart import writers_chart
from tests.sizing.storage.calibration.simulation import result

PAGE = Path(charts.__path__[0]).parents[1] / "docs" / "extending.md"
INGREDIENTS = "sizing.charts.chart"
CHARTS = {"Chart", "list[Chart]"}
DRAWN = {"str", "bytes", "None"}
MAX_WIDTH_PIXELS = 1_100
REFERENCE = scenario_from(REFERENCE_SCENARIO)
EXAMPLES: dict[Callable[..., Any], Callable[[], Chart | list[Chart]]] = {
    calibration_chart: lambda: calibration_chart(calibrate([result(noise=0.02, outliers=0)], num_draws=200)),
    cluster_chart: lambda: cluster_chart(answer_cluster(REFERENCE_CLUSTER)),
    comparison_chart: lambda: comparison_chart(compare(REFERENCE_COMPARISON)),
    layouts_chart: lambda: layouts_chart(find_layouts(REFERENCE_SEARCH)),
    scan_chart: lambda: scan_chart(SCAN),
    report_charts: lambda: report_charts(REFERENCE, answer(REFERENCE)),
    parts_chart: lambda: parts_chart(answer(REFERENCE).checkpoint),
    limits_chart: lambda: limits_chart("What limits the restore", answer(REFERENCE).restore.limits),
    lost_time_chart: lambda: lost_time_chart(REFERENCE, answer(REFERENCE)),
    sweep_chart: lambda: sweep_chart(sweep(REFERENCE_SWEEP)),
}
"""One call of each chart, on what its question's own example answers."""


def public_functions() -> Iterator[Callable[..., Any]]:
    """Every public function of the room, but what charts are made of."""
    for found in pkgutil.iter_modules(charts.__path__, f"{charts.__name__}."):
        module = importlib.import_module(found.name)
        if module.__name__ != INGREDIENTS:
            for name, member in inspect.getmembers(module, inspect.isfunction):
                if member.__module__ == module.__name__ and not name.startswith("_"):
                    yield member


def returned(function: Callable[..., Any]) -> str:
    """The annotation, as it is written."""
    return str(inspect.signature(function).return_annotation)


@cache
def drawn(chart: Callable[..., Any]) -> tuple[Chart, ...]:
    spec = EXAMPLES[chart]()
    return tuple(spec) if isinstance(spec, list) else (spec,)


def test_every_chart_has_an_example() -> None:
    assert {function for function in public_functions() if returned(function) in CHARTS} == set(EXAMPLES)


def test_a_public_function_answers_with_a_chart_or_with_what_was_drawn() -> None:
    assert {returned(function) for function in public_functions()} <= CHARTS | DRAWN


@pytest.mark.parametrize("chart", EXAMPLES, ids=lambda chart: chart.__name__)
def test_a_chart_draws_with_title_and_description(chart: Callable[..., Any]) -> None:
    assert drawn(chart)
    for spec in drawn(chart):
        assert spec["title"]["text"] in svg(spec)
        assert spec["description"].endswith(".")


@pytest.mark.parametrize("chart", EXAMPLES, ids=lambda chart: chart.__name__)
def test_every_quantity_has_a_title_in_words(chart: Callable[..., Any]) -> None:
    for spec in drawn(chart):
        for axis in quantities(spec):
            assert axis.get("title"), axis
            assert "_" not in axis["title"], axis


@pytest.mark.parametrize("chart", EXAMPLES, ids=lambda chart: chart.__name__)
def test_a_chart_fits_on_a_page_at_its_own_size(chart: Callable[..., Any]) -> None:
    for spec in drawn(chart):
        width = re.search(r'<svg [^>]*?\bwidth="([0-9.]+)"', svg(spec))
        assert width is not None
        assert float(width[1]) <= MAX_WIDTH_PIXELS


def test_the_page_shows_this_chart_and_it_draws_what_ranks_write(monkeypatch: pytest.MonkeyPatch) -> None:
    assert f"```python\n{Path(toy_chart.__file__).read_text()}```" in PAGE.read_text()
    layout = answer(REFERENCE).layout
    monkeypatch.setitem(EXAMPLES, writers_chart, lambda: writers_chart(layout))
    test_a_chart_draws_with_title_and_description(writers_chart)
    test_every_quantity_has_a_title_in_words(writers_chart)
    [spec] = drawn(writers_chart)
    drawn_bytes = [row["rank_bytes"] for row in spec["data"]["values"]]
    assert drawn_bytes == [ranks.bytes_per_rank for ranks in layout.rank_classes]


def quantities(spec: Any) -> Iterator[dict[str, Any]]:
    """Every encoding of a number in a specification."""
    if isinstance(spec, dict):
        if spec.get("type") == "quantitative":
            yield spec
        for inner in spec.values():
            yield from quantities(inner)
    elif isinstance(spec, list):
        for inner in spec:
            yield from quantities(inner)
