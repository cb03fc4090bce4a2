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

from sizing import present, questions
from sizing.present.rendering import render_svg
from sizing.report import answer
from tests.sizing.present import toy_chart
from tests.sizing.present.gallery import EXAMPLES, INGREDIENTS, REFERENCE, drawn
from tests.sizing.present.toy_chart import writers_chart

PAGE = Path(present.__path__[0]).parents[1] / "docs" / "extending.md"
CHARTS = {"Chart", "list[Chart]"}
MAX_WIDTH_PIXELS = 800
"""The text of a page has 912 on a screen and 673 on paper, where 11 px of a label are then 9 px or 7 pt."""
MAX_HEIGHT_PIXELS = 1_200
"""At that width a sheet of A4 holds as much."""


def public_functions() -> Iterator[Callable[..., Any]]:
    """Every public function that gives a chart, and all others of what a question draws."""
    for found in pkgutil.iter_modules(present.__path__, f"{present.__name__}."):
        if found.name not in INGREDIENTS:
            yield from (each for each in _functions_of(found.name) if returned(each) in CHARTS)
    for found in pkgutil.walk_packages(questions.__path__, f"{questions.__name__}."):
        if found.name.endswith(".charts"):
            yield from _functions_of(found.name)
        elif found.name.endswith(".question"):
            yield from (each for each in _functions_of(found.name) if returned(each) in CHARTS)


def _functions_of(name: str) -> Iterator[Callable[..., Any]]:
    module = importlib.import_module(name)
    for function_name, member in inspect.getmembers(module, inspect.isfunction):
        if member.__module__ == name and not function_name.startswith("_"):
            yield member


def returned(function: Callable[..., Any]) -> str:
    """The annotation, as it is written."""
    return str(inspect.signature(function).return_annotation)


def test_every_chart_has_an_example() -> None:
    assert {function for function in public_functions() if returned(function) in CHARTS} == set(EXAMPLES)


def test_what_a_question_draws_is_charts() -> None:
    assert {returned(function) for function in public_functions()} <= CHARTS


@pytest.mark.parametrize("chart", EXAMPLES, ids=lambda chart: chart.__name__)
def test_a_chart_draws_with_title_and_description_and_fits_on_a_page(chart: Callable[..., Any]) -> None:
    assert drawn(chart)
    for spec in drawn(chart):
        svg = render_svg(spec)
        assert spec["title"]["text"] in svg
        assert spec["description"].endswith(".")
        size = re.search(r'<svg [^>]*?\bwidth="([0-9.]+)" height="([0-9.]+)"', svg)
        assert size is not None
        assert float(size[1]) <= MAX_WIDTH_PIXELS
        assert float(size[2]) <= MAX_HEIGHT_PIXELS


@pytest.mark.parametrize("chart", EXAMPLES, ids=lambda chart: chart.__name__)
def test_every_quantity_has_a_title_in_words(chart: Callable[..., Any]) -> None:
    for spec in drawn(chart):
        for axis in quantities(spec):
            assert axis.get("title"), axis
            assert "_" not in axis["title"], axis


def test_the_page_shows_this_chart_and_it_draws_what_ranks_write(monkeypatch: pytest.MonkeyPatch) -> None:
    assert f"```python\n{Path(toy_chart.__file__).read_text()}```" in PAGE.read_text()
    layout = answer(REFERENCE).layout
    monkeypatch.setitem(EXAMPLES, writers_chart, lambda: writers_chart(layout))
    test_a_chart_draws_with_title_and_description_and_fits_on_a_page(writers_chart)
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
