"""Guesses in words: the same rows everywhere, and a mark beside each figure that rests on one with a wide swing."""

from __future__ import annotations

import html
from typing import Any

import pytest

from sizing.field_paths import with_field
from sizing.guesses.figures import LOST, REQUIRED
from sizing.guesses.guess import WIDE_FRACTION
from sizing.present.grids import report_grids
from sizing.present.guesses import (
    TITLE,
    guess_grid,
    guess_rows,
    guess_sentences,
    guessed_range_text,
    input_words,
    marked,
)
from sizing.questions.answer.first_screen import key_figures
from sizing.questions.answer.notebook import report_html
from sizing.questions.answer.run_rows import time_rows
from sizing.questions.answer.words import sections
from sizing.report import SizingReport, answer
from sizing.units import figure_text, seconds_text
from tests.sizing.guesses.test_guesses import OPEN, figure


@pytest.fixture(scope="module")
def report() -> SizingReport:
    return answer(OPEN)


def test_a_row_says_the_range_what_follows_and_what_was_assumed(report: SizingReport) -> None:
    assert guess_sentences(report, 1) == ["interval 60.0 min to 4.00 h: lost time 8.38 % to 21.1 %, assumed 4.00 h"]
    (choice,) = [row for row in guess_rows(report) if row.label == "restore"]
    assert choice.figure == "parallel-read-exchange or every-replica"
    assert choice.meaning.endswith("assumed every-replica")


def test_the_top_guesses_are_the_first_of_all(report: SizingReport) -> None:
    assert guess_rows(report, 2) == guess_rows(report)[:2]
    assert len(guess_rows(report)) == len(guess_grid(report).rows) <= len(report.guesses)


def test_a_guess_whose_swing_does_not_show_is_left_out(report: SizingReport) -> None:
    same = report.guesses[0].model_copy(
        update={"headline_low": 1.0001 * report.headline.value, "headline_high": report.headline.value}
    )
    assert guess_rows(report.model_copy(update={"guesses": [same]})) == []


def test_a_choice_that_ties_with_what_was_assumed_is_named_as_what_was_assumed() -> None:
    """Muon and Adam save the same bytes of these matrices: what stands is the end."""
    asked = {"model": {"num_parameters": 447e9}, "training": {"framework": "fsdp2"}, "parallelism": {"data": 64}}
    (found,) = [row for row in guess_rows(answer(asked)) if row.label == "optimizer"]
    assert found.figure == "adam-8bit or adam"
    assert found.meaning.endswith("assumed adam")


def test_one_table_has_the_range_of_each_guess_and_what_becomes_of_the_headline(report: SizingReport) -> None:
    (grid,) = [grid for grid in report_grids(report) if grid.topic == "guesses"]
    assert (grid.title, grid.columns[3]) == (TITLE, "lost time")
    shown = [(may_be, f"lost time {becomes}, assumed {assumed}") for _, assumed, may_be, becomes, _ in grid.rows]
    assert shown == [(row.figure, row.meaning) for row in guess_rows(report)]
    page = report_html(report)
    assert page.count(f">{TITLE}<") == 1
    assert all(cell in html.unescape(page) for row in grid.rows for cell in row)


def test_a_report_without_guesses_has_no_such_table(report: SizingReport) -> None:
    sure = report.model_copy(update={"guesses": []})
    assert TITLE not in [grid.title for grid in report_grids(sure)]
    assert "(guess" not in str(sections(sure))


def test_figures_that_rest_on_a_wide_guess_are_marked_where_they_stand(report: SizingReport) -> None:
    rows = {row.label: row for section in sections(report) for row in section.rows}
    moving = {guess.field for guess in report.guesses if "shares.recovering_fraction" in guess.moves}
    assert {"training.framework", "reliability.detection_seconds"} < moving
    assert rows["recovering"].meaning.endswith("(guess: framework megatron, and 3 more)")
    assert rows["work repeated"].meaning.endswith("(guess: interval 60.0 min to 4.00 h)")
    of_size = [guess.field for guess in report.guesses if "checkpoint.written_bytes" in guess.moves]
    assert of_size == ["training.framework", "training.optimizer"]
    assert rows["total"].meaning.endswith("(guess: framework megatron, and 1 more)")
    assert "guess" not in rows["writers"].meaning


@pytest.mark.parametrize("path", ["write.seconds", "restore.seconds", "overhead.fraction"])
def test_the_mark_stands_exactly_where_an_end_moves_the_figure_by_more_than_the_rule(
    report: SizingReport, path: str
) -> None:
    asked: list[tuple[str, Any]] = [(guess.field, end) for guess in report.guesses for end in (guess.low, guess.high)]
    wide = {
        field
        for field, end in asked
        if abs(figure(answer(with_field(OPEN, field, end)), path) / figure(report, path) - 1) > WIDE_FRACTION
    }
    assert wide <= {guess.field for guess in report.guesses if path in guess.moves}
    assert ("(guess" in marked(report, path, "")) is bool(wide)


def test_inputs_that_would_read_alike_have_their_blocks() -> None:
    assert input_words(["a.read_seconds", "b.read_seconds", "c.mode"]) == ["a: read", "b: read", "mode"]


def test_a_figure_that_a_guess_moves_by_more_than_the_rule_has_its_range_beside_it(report: SizingReport) -> None:
    """The range is what the answers of the scenario with one guess at another value have at least and at most."""
    asked: list[tuple[str, Any]] = [(guess.field, end) for guess in report.guesses for end in (guess.low, guess.high)]
    answers = [answer(with_field(OPEN, field, end)) for field, end in asked]
    rows = {row.label: row for row in key_figures(report)}
    for path, label in (("restore.seconds", "Restore time"), (LOST, "Lost time")):
        low, high = report.guessed_ranges[path]
        assert high is not None
        values = [figure(each, path) for each in [report, *answers]]
        assert low <= min(values) * (1 + 1e-9)
        assert high >= max(values) * (1 - 1e-9)
        number, unit = figure_text(path, low).split(" ")
        ends = (figure_text(path, low) if unit not in figure_text(path, high) else number, figure_text(path, high))
        assert rows[label].meaning.startswith(f"{ends[0]} to {ends[1]}; ")
    assert set(report.guessed_ranges) == {path for guess in report.guesses for path in guess.moves}


def test_a_required_rate_says_that_with_a_guess_no_rate_is_enough() -> None:
    """To plan a write of OLMo 3 32B on 1,024 GPUs takes 6 to 360 s, of which the longest is above the max stall."""
    scenario = {
        "model": {"preset": "olmo-3-32b"},
        "training": {"framework": "fsdp2"},
        "parallelism": {"data": 1024},
        "checkpoint": {"mode": "sync"},
        "storage": {"profile": {"write_bytes_per_second": 1e11, "read_bytes_per_second": 1e11}},
        "targets": {"max_stall_seconds": 300, "recovery_seconds": 500},
        "reliability": {"mtbf_seconds": "3h", "detection_seconds": 0},
    }
    report = answer(scenario)
    for path in REQUIRED:  # to relaunch takes 5 to 10 min
        low, high = report.guessed_ranges[path]
        assert high is None, path
        assert low <= figure(report, path)
        assert guessed_range_text(report, path) == f"{figure_text(path, low)} or more, up to where no rate is enough"
    assert "up to where no rate is enough" in " ".join(row.meaning for row in key_figures(report))


def test_a_guess_that_moves_no_headline_shows_beside_the_figure_that_it_moves() -> None:
    """Plans in the background take most of a write of OLMo 3 32B on 1,024 GPUs, and hardly stall it."""
    report = answer(
        {
            "model": {"preset": "olmo-3-32b"},
            "training": {"framework": "fsdp2"},
            "parallelism": {"data": 1024},
            "checkpoint": {"mode": "async"},
            "storage": {"profile": {"write_bytes_per_second": 1e11, "read_bytes_per_second": 1e11}},
        }
    )
    write = next(row for row in key_figures(report) if row.label == "Write time")
    low, high = report.guessed_ranges["write.seconds"]
    assert high is not None
    assert high / low > 10
    assert write.figure.startswith("~")
    assert write.meaning.startswith(f"{seconds_text(low)} to {seconds_text(high)}; ")
    assert any("planning per rank" in row.meaning for row in time_rows(report) if row.label == "write")
