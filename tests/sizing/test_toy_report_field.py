"""The report field that docs/extending.md adds: it passes what every field must, and it is the one of the page."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import sizing
from sizing.report import answer
from sizing.run.targets import Targets
from sizing.scenario import REFERENCE_SCENARIO, scenario_from
from tests.descriptions import flaws_of
from tests.sizing import toy_report_field
from tests.sizing.test_formulas import test_a_formula_states_its_source_and_an_example as check_formula
from tests.sizing.toy_report_field import Overhead, overhead_of, stall_seconds_per_day

PAGE = Path(sizing.__path__[0]).parent / "docs" / "extending.md"


def test_the_page_shows_this_field() -> None:
    assert f"```python\n{Path(toy_report_field.__file__).read_text()}```" in PAGE.read_text()


def test_the_field_and_its_formula_say_what_every_one_must() -> None:
    assert list(flaws_of(Overhead)) == []
    check_formula(stall_seconds_per_day)


def test_the_field_holds_what_the_reference_stalls_in_a_day() -> None:
    report = answer(scenario_from(REFERENCE_SCENARIO))
    filled = overhead_of(report.overhead.fraction, Targets())
    assert report.write is not None
    num_saves = 86_400 / report.interval.interval_seconds
    assert filled.stall_seconds_per_day == pytest.approx(report.write.stall_seconds * num_saves)


def test_the_field_is_an_array_where_a_sweep_asks_and_null_where_nothing_is_known() -> None:
    swept = overhead_of(np.array([0.01, 2.0]), Targets()).stall_seconds_per_day
    assert np.asarray(swept).tolist() == [864.0, 86_400.0]
    assert overhead_of(None, Targets()).stall_seconds_per_day is None
