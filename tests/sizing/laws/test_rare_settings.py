"""Each rare setting has an answer, and another one than the run without it."""

import functools
from collections.abc import Iterator
from typing import Any

import pytest

from sizing.errors import InvalidInput
from sizing.report import answer
from tests.sizing.laws.rare_settings import RARE, RUNS, on_top_of


def answers(settings: dict[str, Any]) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """What runs that take some settings answer with them, and without."""
    for place, run in enumerate(RUNS):
        try:
            report = answer(on_top_of(run, settings))
        except InvalidInput:
            continue
        yield report.model_dump(exclude={"scenario"}), answer_without(place)


@functools.cache
def answer_without(place: int) -> dict[str, Any]:
    """What one of the runs answers without any of the settings."""
    return answer(on_top_of(RUNS[place], {})).model_dump(exclude={"scenario"})


@pytest.mark.parametrize("settings", RARE, ids=[" ".join(each) for each in RARE])
def test_each_rare_setting_changes_an_answer(settings: dict[str, Any]) -> None:
    assert any(with_them != without for with_them, without in answers(settings))
