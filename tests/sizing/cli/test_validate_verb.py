"""`ckpt-size validate`: how it stands first, then every row with its note, in 100 columns; its exit code."""

import json
import re
import textwrap

import pytest
import typer

import sizing.validation
from sizing.cli import own_verbs
from sizing.validation import ValidationReport, validation
from sizing.validation.comparison import EXACT, Source
from sizing.validation.validation_report import validation_report
from tests.testbed.terminal import ckpt_size


@pytest.fixture(scope="module")
def text() -> str:
    found = ckpt_size("validate")
    assert found.returncode == 0
    return found.stdout


def test_the_parts_are_counted_before_the_first_row(text: str) -> None:
    counted = text[: text.index("1. Published observations: somebody measured or counted it")]
    for number, part in enumerate(validation().parts, start=1):
        counts = (len(part.comparisons), *part.counts.model_dump().values())
        row = r"\s+".join([rf"{number}\. .*", *map(str, counts)])
        assert re.search(row, counted), part.title


def test_every_row_is_printed_with_its_verdict(text: str) -> None:
    for part in validation().parts:
        for row in part.comparisons:
            assert textwrap.wrap(row.fact, 30)[0] in text
    printed = [
        re.search(r"(equal|within|above|explained|no prediction|UNEXPLAINED)", line[80:]) for line in text.splitlines()
    ]
    counted = sum(len(part.comparisons) for part in validation().parts)
    assert sum(found is not None for found in printed) >= counted


def test_notes_and_assumptions_are_printed(text: str) -> None:
    words = " ".join(text.split())
    for note in {row.note for part in validation().parts for row in part.comparisons if row.note}:
        assert " ".join(note.split()) in words
    for assumption in validation().run_assumptions:
        assert assumption.reason in words
        assert assumption.source in words
    for name, instead in validation().without_figure.items():
        assert f"{name}: {instead}" in words


def test_prediction_published_figure_and_ratio_stand_side_by_side(text: str) -> None:
    assert re.search(r"1T parameters +1,008,038,758,400 +1,008,038,758,400 +1\.0000 +equal", text)
    assert re.search(
        r"1T rate allowed against observed, B/s +4\.62663e\+11 +2\.73e\+11 +1\.6947 +explained \(1\)", text
    )


def test_nothing_is_wider_than_100_columns(text: str) -> None:
    assert max(len(line.rstrip()) for line in text.splitlines()) <= 100


def test_json_is_the_document_of_the_library() -> None:
    found = ckpt_size("validate", "--json")
    assert found.returncode == 0
    assert ValidationReport.model_validate(json.loads(found.stdout)) == validation()


@pytest.mark.parametrize("as_json", [False, True], ids=["text", "json"])
def test_a_miss_without_a_reason_ends_with_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], as_json: bool
) -> None:
    missed = Source("observation", "somewhere").compare("a count", 101, 100, within=EXACT)
    monkeypatch.setattr(sizing.validation, "validation", lambda: validation_report([missed]))
    with pytest.raises(typer.Exit) as ended:
        own_verbs.validate_verb(as_json=as_json)
    assert ended.value.exit_code == 1
    assert ("unexplained" if as_json else "UNEXPLAINED") in capsys.readouterr().out
