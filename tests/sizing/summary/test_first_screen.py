"""The first screen fits a screen, says the figures of the report, and is the same wherever the report is shown."""

from __future__ import annotations

import copy
import functools
import io
from functools import cache
from html import escape

import pytest
from rich.console import Console

from sizing.cli.report_text import first_screen_text
from sizing.report import SizingReport, answer
from sizing.scenario import scenario_from
from sizing.summary import FirstScreen, first_screen
from sizing.units import parse_bytes, parse_bytes_per_second, parse_seconds
from tests.sizing.summary.scenarios import SCENARIOS

MAX_LINES = 14
"""Of what stands above the warnings, and the line that says how to see more."""
MAX_REMEDIES = 4
"""More lines where every target is missed, and each for a reason of its own."""
NAMES = list(SCENARIOS)


@cache
def report_of(name: str) -> SizingReport:
    return answer(scenario_from(SCENARIOS[name]))


def screen_of(name: str) -> FirstScreen:
    return first_screen(report_of(name))


def lines_of(name: str, *, width: int) -> list[str]:
    out = io.StringIO()
    Console(file=out, width=width).print(first_screen_text(report_of(name)))
    return out.getvalue().splitlines()


def figures_of(name: str) -> dict[str, tuple[str, str]]:
    return {row.label: (row.figure, row.meaning) for row in screen_of(name).figures}


def percent(text: str) -> float:
    return float(text.removesuffix(" %")) / 100


@pytest.mark.parametrize("width", [100, 160])
@pytest.mark.parametrize("name", NAMES)
def test_the_first_screen_has_a_dozen_lines(name: str, width: int) -> None:
    lines = lines_of(name, width=width)
    above = next((place for place, line in enumerate(lines) if line.startswith("warning: ")), len(lines) - 1)
    assert above + 1 <= MAX_LINES + (MAX_REMEDIES if screen_of(name).remedies else 0), "\n".join(lines)


@pytest.mark.parametrize("name", NAMES)
def test_a_narrow_terminal_wraps_words_and_cuts_none(name: str) -> None:
    def words(width: int) -> str:
        return "".join("".join(lines_of(name, width=width)).split())

    assert sorted(words(72)) == sorted(words(200))


@pytest.mark.parametrize("name", NAMES)
def test_size_and_times_are_those_of_the_report(name: str) -> None:
    report, figures = report_of(name), figures_of(name)
    assert parse_bytes(figures["One checkpoint"][0]) == pytest.approx(report.checkpoint.written_bytes, rel=5e-4)
    for label, seconds in (
        ("Write time", report.write and report.write.seconds),
        ("Restore time", report.restore.seconds),
    ):
        found = figures[label][0]
        assert (found == "unknown") == (seconds is None)
        assert seconds is None or parse_seconds(found) == pytest.approx(seconds, rel=1e-2)


@pytest.mark.parametrize("name", [name for name in NAMES if report_of(name).shares.useful_fraction is not None])
def test_what_is_lost_is_the_rest_of_goodput_and_its_parts_add_to_it(name: str) -> None:
    report = report_of(name)
    lost, meaning = figures_of(name)["Lost time"]
    assert percent(lost) == pytest.approx(1 - (report.shares.useful_fraction or 0), rel=6e-3)
    parts = [part.rsplit(" ", 2)[1] for part in meaning.partition(": ")[2].split(", ")]
    assert sum(percent(part) for part in parts) == pytest.approx(percent(lost), rel=1e-2)
    best, at_best = figures_of(name)["Best interval"]
    assert parse_seconds(best) == pytest.approx(report.interval.optimal_period_seconds, rel=1e-2)
    left = 1 - (report.interval.goodput_at_optimum_fraction or 0)
    assert percent(at_best.split()[1]) == pytest.approx(left, rel=6e-3)


@pytest.mark.parametrize("name", [name for name in NAMES if not report_of(name).needed_together])
def test_what_to_buy_is_what_is_required(name: str) -> None:
    required, figures = report_of(name).required, figures_of(name)
    for label, rate in (("write", required.write_bytes_per_second), ("read", required.restore_bytes_per_second)):
        found = figures.get(f"To buy: {label}")
        assert (found is None) == (rate is None)
        assert found is None or parse_bytes_per_second(found[0]) == pytest.approx(rate, rel=5e-4)


def test_a_target_that_no_storage_meets_leaves_the_others_what_to_buy() -> None:
    report = report_of("all missed")
    assert report.targets_beyond_storage == ["recovery_seconds"]
    assert figures_of("all missed")["To buy: write"][1].endswith("meets all targets but recovery")
    bought = copy.deepcopy(SCENARIOS["all missed"])
    for path, value in report.needed_together.items():
        *blocks, name = path.split(".")
        functools.reduce(dict.__getitem__, blocks, bought)[name] = value
    met = {check.target: check.met for check in answer(scenario_from(bought)).targets}
    assert met == dict.fromkeys(met, True) | {"recovery_seconds": False}


def test_what_meets_all_targets_together_is_what_to_buy() -> None:
    needed, figures = report_of("two short limits").needed_together, figures_of("two short limits")
    for direction in ("write", "read"):
        rate, meaning = figures[f"To buy: {direction}"]
        together = needed[f"storage.profile.{direction}_bytes_per_second"]
        assert parse_bytes_per_second(rate) == pytest.approx(together, rel=5e-4)
        node = meaning.split("per node ")[1].split(";")[0]
        of_node = needed[f"storage.profile.node_{direction}_bytes_per_second"]
        assert parse_bytes_per_second(node) == pytest.approx(of_node, rel=5e-4)
    assert screen_of("two short limits").remedies == ()


@pytest.mark.parametrize("name", NAMES)
def test_the_capacity_to_buy_is_what_must_be_usable(name: str) -> None:
    capacity, (figure, meaning) = report_of(name).capacity, figures_of(name)["To buy: capacity"]
    assert parse_bytes(figure) == pytest.approx(capacity.usable_bytes, rel=5e-4)
    assert ("stays free" in meaning) == (capacity.usable_bytes > capacity.capacity_bytes)
    assert ("raw drives" in meaning) == (capacity.raw_bytes > capacity.usable_bytes)


def test_prices_are_on_the_first_screen() -> None:
    report = report_of("tiers and prices")
    assert report.cost is not None
    assert report.cost.total is not None
    cost, meaning = figures_of("tiers and prices")["Cost"]
    assert float(cost.replace(",", "")) == round(report.cost.total)
    assert "lost GPU time" in meaning


def test_the_verdict_names_what_is_missed_what_is_met_and_what_nobody_asked_for() -> None:
    assert screen_of("reference").verdict == (
        "Meets the target: overhead 0.351 % (max 5.00 %, the default); the run loses 19.6 % of its time."
    )
    assert screen_of("no storage").verdict == "Not known: overhead (max 5.00 %, the default)."
    missed = screen_of("all missed")
    assert missed.misses
    assert missed.verdict.startswith("Misses all 4 targets: overhead 65.9 % (max 5.00 %, the default), stall 19.76 s (")
    assert [remedy.split(":")[0] for remedy in missed.remedies] == ["Recovery"]
    mixed = answer(scenario_from(SCENARIOS["reference"] | {"targets": {"max_stall_seconds": 10}}))
    assert first_screen(mixed).verdict == (
        "Misses 1 of 2 targets: stall 50.55 s (max 10.00 s); "
        "meets 1 of 2 targets: overhead 0.351 % (max 5.00 %, the default); the run loses 19.6 % of its time."
    )


@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_shows_the_same_first_screen(name: str) -> None:
    shown, screen = report_of(name)._repr_html_(), screen_of(name)
    said = (screen.headline, screen.verdict, *screen.remedies, *screen.warnings, *screen.guesses)
    for text in (*said, *(text for row in screen.figures for text in row)):
        assert escape(text) in shown
