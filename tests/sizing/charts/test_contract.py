"""Every chart draws, names its axes, and fits on a page; a chart without an example here is named."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sizing import charts
from sizing.charts.rendering import svg
from sizing.report import answer
from tests.sizing.charts import toy_chart
from tests.sizing.charts.gallery import EXAMPLES, INGREDIENTS, REFERENCE, drawn
from tests.sizing.charts.toy_chart import writers_chart

PAGE = Path(charts.__path__[0]).parents[1] / "docs" / "extending.md"
CHARTS = {"Chart", "list[Chart]"}
DRAWN = {"str", "bytes", "None"}
MAX_WIDTH_PIXELS = 800
"""The text of a page has 912 on a screen and 673 on paper, where 11 px of a label are then 9 px or 7 pt."""
MAX_HEIGHT_PIXELS = 1_200
"""At that width a sheet of A4 holds as much."""


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
        size = re.search(r'<svg [^>]*?\bwidth="([0-9.]+)" height="([0-9.]+)"', svg(spec))
        assert size is not None
        assert float(size[1]) <= MAX_WIDTH_PIXELS
        assert float(size[2]) <= MAX_HEIGHT_PIXELS


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
