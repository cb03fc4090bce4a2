"""The first screen fits a screen, says the figures of the report, and is the same wherever the report is shown."""

from __future__ import annotations

import copy
import functools
import io
import math
from functools import cache
from html import escape
from typing import Any

import pytest
from rich.console import Console

from sizing.cli.report_text import answer_text
from sizing.field_paths import with_field
from sizing.present.rows import UNKNOWN, FirstScreen
from sizing.questions.answer.first_screen import first_screen
from sizing.questions.answer.state_rows import memory_rows
from sizing.questions.answer.words import sections
from sizing.questions.question import TerminalStyle
from sizing.questions.registry import ANSWER
from sizing.report import SizingReport, answer
from sizing.scenario import scenario_from
from sizing.storage.calibration import calibrate
from sizing.units import parse_bytes, parse_bytes_per_second, parse_seconds
from tests.sizing.present.scenarios import SCENARIOS
from tests.sizing.storage.calibration.simulation import GB, result

MAX_LINES = {100: 21, 160: 14}
"""By width, of what stands above the warnings, the meaning of the mark, and the line that says how to see more.

At 100 columns a figure of which a guess is wide goes on in a second line: the range stands beside it.
"""
MAX_FIGURES = 9
"""Size, times to write and to restore, what is lost and at best, what to buy (write, read, capacity), cost."""
MAX_REMEDIES = 4
"""More lines where every target is missed, and each for a reason of its own."""
NAMES = list(SCENARIOS)


@cache
def report_of(name: str) -> SizingReport:
    return answer(scenario_from(SCENARIOS[name]))


def screen_of(name: str) -> FirstScreen:
    return first_screen(report_of(name))


def lines_of(name: str, *, width: int) -> list[str]:
    out, report = io.StringIO(), report_of(name)
    printed = ANSWER.question.present(scenario_from(SCENARIOS[name]), report).terminal_summary(TerminalStyle())
    Console(file=out, width=width).print(answer_text(printed))
    return out.getvalue().splitlines()


def figures_of(name: str) -> dict[str, tuple[str, str]]:
    """Without the mark of those that rest on guesses."""
    return {row.label: (row.figure.removeprefix("~"), row.meaning) for row in screen_of(name).figures}


def percent(text: str) -> float:
    return float(text.removeprefix("at least ").removesuffix(" %")) / 100


@pytest.mark.parametrize("width", [100, 160])
@pytest.mark.parametrize("name", NAMES)
def test_the_first_screen_has_a_dozen_lines(name: str, width: int) -> None:
    assert len(screen_of(name).figures) <= MAX_FIGURES
    lines = lines_of(name, width=width)
    above = next((place for place, line in enumerate(lines) if line.startswith("warning: ")), len(lines) - 1)
    assert above + 1 <= MAX_LINES[width] + (MAX_REMEDIES if screen_of(name).remedies else 0), "\n".join(lines)


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
    parts = [part.rsplit(" ", 2)[1] for part in meaning.rpartition(": ")[2].partition("; ")[0].split(", ")]
    assert sum(percent(part) for part in parts) == pytest.approx(percent(lost), rel=1e-2)
    best, at_best = figures_of(name)["Best interval"]
    assert parse_seconds(best) == pytest.approx(report.interval.optimal_period_seconds, rel=1e-2)
    left = 1 - (report.interval.goodput_at_optimum_fraction or 0)
    assert percent(at_best.partition("loses ")[2].partition(" of ")[0]) == pytest.approx(left, rel=6e-3)


def is_rounded_up(text: str, rate: float | None) -> bool:
    """Whether four digits of a rate are what it takes: not a hair less, and at most one more in the last of them."""
    assert rate is not None
    return bool(rate * (1 - 1e-12) <= parse_bytes_per_second(text) <= rate * 1.001)


@pytest.mark.parametrize("name", [name for name in NAMES if not report_of(name).needed_together])
def test_what_to_buy_is_what_is_required(name: str) -> None:
    required, figures = report_of(name).required, figures_of(name)
    for label, rate in (("write", required.write_bytes_per_second), ("read", required.restore_bytes_per_second)):
        found = figures.get(f"To buy: {label}")
        assert (found is None) == (rate is None)
        assert found is None or is_rounded_up(found[0], rate)


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
        assert is_rounded_up(rate, together)
        node = meaning.split("per node ")[1].split(";")[0]
        of_node = needed[f"storage.profile.node_{direction}_bytes_per_second"]
        assert is_rounded_up(node, of_node)
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


def test_a_figure_that_is_printed_like_the_target_that_it_misses_is_just_beside_it() -> None:
    goodput = answer(SCENARIOS["reference"]).interval.goodput_at_interval_fraction
    assert goodput is not None
    missed = answer(SCENARIOS["reference"] | {"targets": {"min_goodput_fraction": goodput + 1e-6}})
    assert "goodput just below 80.4 % (min 80.4 %)" in first_screen(missed).verdict
    met = answer(SCENARIOS["reference"] | {"targets": {"min_goodput_fraction": goodput}})
    assert "just" not in first_screen(met).verdict


def test_the_verdict_names_what_is_missed_what_is_met_and_what_nobody_asked_for() -> None:
    assert screen_of("reference").verdict == (
        "Meets the target: overhead 0.351 % (max 5.00 %, the default); "
        "yet the run loses at least 19.6 % of its time, most of it work repeated after failures."
    )
    assert screen_of("reference").is_weak
    assert screen_of("no storage").verdict == (
        "A checkpoint has 1.742 GB. For times and losses give storage.profile.write_bytes_per_second, "
        "storage.profile.read_bytes_per_second and reliability.mtbf_seconds. For more than 1 GPU give cluster.num_gpus."
    )
    missed = screen_of("all missed")
    assert missed.misses
    assert missed.verdict.startswith("Misses all 4 targets: overhead 65.9 % (max 5.00 %, the default), stall 19.76 s (")
    assert [remedy.split(":")[0] for remedy in missed.remedies] == ["Recovery"]
    mixed = answer(scenario_from(SCENARIOS["reference"] | {"targets": {"max_stall_seconds": 10}}))
    assert first_screen(mixed).verdict == (
        "Misses 1 of 2 targets: stall 50.55 s (max 10.00 s); "
        "meets 1 of 2 targets: overhead 0.351 % (max 5.00 %, the default); "
        "the run loses at least 19.6 % of its time, most of it work repeated after failures."
    )


def test_of_a_calibration_without_write_limits_nothing_is_asked_for_as_if_there_were_none() -> None:
    runs = [
        result([(1, ranks, GB) for ranks in (1, 2)], operations=["write"]),
        result(operations=["restore"], run_id="run-2"),
    ]
    calibration = calibrate(runs, num_draws=20).model_dump(mode="json")
    report = answer({"model": {"preset": "gpt2"}, "storage": {"calibration": calibration}})
    screen = first_screen(report)
    meanings = {row.label: row.meaning for row in screen.figures}
    lack = "measure more, as the calibration has no write limits: its warnings say what"
    assert meanings["Write time"] == lack
    assert [row.meaning for part in sections(report) for row in part.rows if row.label == "write"] == [lack]
    assert meanings["Lost time"].startswith(f"{lack}; it also needs reliability.mtbf_seconds")
    assert f"For times and losses {lack}; or give storage.profile.write_bytes_per_second" in screen.verdict
    assert any("No write limits: 2 usable configuration(s)" in warning for warning in screen.warnings)


@pytest.mark.parametrize(("first", "table"), [("Write time", "write"), ("Restore time", "restore")])
def test_tables_ask_for_a_rate_in_the_words_of_the_first_screen(first: str, table: str) -> None:
    report = answer({"model": {"preset": "gpt2"}})
    asked = {row.label: row.meaning.rpartition("; ")[2] for row in first_screen(report).figures}[first]
    rows = {row.label: row.meaning for part in sections(report) for row in part.rows}
    assert asked.startswith("give storage.profile.")
    assert rows[table].endswith(asked)


WEAK: dict[str, Any] = {
    "model": {"preset": "llama-3.1-405b"},
    "parallelism": {"tensor": 8, "pipeline": 16, "data": 128},
    "cluster": {"node": "dgx-h100"},
    "checkpoint": {
        "format": "torch-dist",
        "mode": "async",
        "interval_seconds": "30min",
        "restore": "read-once-broadcast",
    },
    "training": {"framework": "megatron", "precision": "bf16-mixed", "optimizer": "adam"},
    "storage": {"profile": {"write_bytes_per_second": "100 GB/s", "read_bytes_per_second": "200 GB/s"}},
}
"""57 s of planning on 16,384 ranks are 3.2 % of 30 minutes; 113 s without cached plans are 6.3 %."""
PLANNING = "storage.profile.planning_seconds_per_rank"


def test_a_target_that_one_end_of_a_guess_would_miss_is_met_with_that_condition() -> None:
    report = answer(WEAK)
    (check,) = report.targets
    assert (check.met, check.met_at_range_ends) == (True, False)
    assert check.missed_with == {PLANNING: [pytest.approx(62 / 8960)]}
    screen = first_screen(report)
    assert screen.verdict.endswith("(max 5.00 %, the default), but not if planning per rank is 6.92 ms.")
    assert (screen.misses, screen.is_weak) == (False, True)
    (row,) = [row for section in sections(report) for row in section.rows if section.title == "Targets"]
    assert row.meaning.endswith("met; missed if planning per rank is 6.92 ms")
    stated = answer(with_field(WEAK, PLANNING, check.missed_with[PLANNING][0]))
    assert stated.targets[0].met is False
    assert stated.targets[0].met_at_range_ends is None


def test_a_target_that_one_end_of_a_guess_would_meet_is_missed_with_that_condition() -> None:
    """2 s of planning with cached plans are 0.2 % of 15 minutes, and the 57 s between both ends 6.4 %."""
    asked = with_field(WEAK, "checkpoint.interval_seconds", "15min")
    report = answer(asked)
    (check,) = report.targets
    assert (check.met, check.met_at_range_ends, check.missed_with) == (False, None, {})
    assert check.met_with[PLANNING] == [pytest.approx(62 / 8960 / 60)]
    assert "(max 5.00 %, the default), but meets it if " in first_screen(report).verdict
    assert "planning per rank is 0.115 ms" in first_screen(report).verdict
    (row,) = [row for section in sections(report) for row in section.rows if section.title == "Targets"]
    assert "; met if " in row.meaning
    for field, values in check.met_with.items():
        for value in values:
            assert answer(with_field(asked, field, value)).targets[0].met is True, field


def test_a_goodput_that_leaves_out_the_restore_is_not_said_to_be_met_with_a_guess() -> None:
    unread = {"storage": {"profile": {"write_bytes_per_second": "100 GB/s"}}, "reliability": {"mtbf_seconds": "3h"}}
    asked = WEAK | unread | {"targets": {"min_goodput_fraction": 0.86}}
    cached = with_field(asked, PLANNING, 62 / 8960 / 60)
    ((missed,), (unknown,)) = (
        [check for check in answer(each).targets if check.target == "min_goodput_fraction"] for each in (asked, cached)
    )
    assert (missed.met, missed.met_with) == (False, {})
    assert unknown.met is None
    assert unknown.found is not None
    assert unknown.found > 0.86


def test_a_target_that_every_guess_leaves_met_is_met_without_condition() -> None:
    report = answer(with_field(WEAK, "targets.max_overhead_fraction", 0.1))
    (check,) = report.targets
    assert (check.met, check.met_at_range_ends, check.missed_with) == (True, True, {})
    screen = first_screen(report)
    assert " but " not in screen.verdict
    assert not screen.is_weak


def test_alternatives_that_would_miss_a_target_are_named_with_the_ends_of_ranges() -> None:
    asked = copy.deepcopy(SCENARIOS["two short limits"])
    del asked["checkpoint"]["format"]
    asked["targets"] = {"max_overhead_fraction": 0.15}
    checks = {check.target: check for check in answer(asked).targets}
    for target, check in checks.items():
        for field, values in check.missed_with.items():
            for value in values:
                stated = {found.target: found.met for found in answer(with_field(asked, field, value)).targets}
                assert stated[target] is False, (target, field, value)
    assert checks["max_overhead_fraction"].missed_with["checkpoint.format"] == ["megatron"]


def test_a_verdict_begins_with_the_loss_where_that_is_most_of_the_time() -> None:
    """Failures every quarter of an hour: saves stall for little, and recovery takes the run."""
    report = answer(with_field(with_field(WEAK, PLANNING, 0), "reliability.mtbf_seconds", "15min"))
    assert report.targets[0].met
    screen = first_screen(report)
    loses, _, meets = screen.verdict.partition(". ")
    assert loses.startswith("The run loses ")
    assert loses.endswith(" of its time, most of it recovering from failures")
    assert percent(loses.split()[3]) == pytest.approx(report.interval.lost_at_interval_fraction, rel=6e-3)
    assert meets.startswith("Meets the target: overhead")
    assert (screen.misses, screen.is_weak) == (False, True)


def test_a_goodput_target_that_is_met_allows_the_loss() -> None:
    asked = with_field(with_field(WEAK, PLANNING, 0), "reliability.mtbf_seconds", "3h")
    judged = answer(with_field(asked, "targets.min_goodput_fraction", 0.1))
    assert first_screen(answer(asked)).verdict.count("yet the run loses") == 1
    assert "yet" not in first_screen(judged).verdict


def test_figures_that_rest_on_a_wide_guess_have_a_mark_on_the_first_screen_too() -> None:
    report = answer(WEAK)
    screen = first_screen(report)
    marked = {row.label for row in screen.figures if row.figure.startswith("~")}
    wide = {figure for guess in report.guesses for figure in guess.moves}
    assert ("Overhead" in marked) == ("overhead.fraction" in wide)
    assert ("One checkpoint" in marked) == ("checkpoint.written_bytes" in wide)
    assert "Overhead" in marked
    assert "One checkpoint" not in marked, "everything that it rests on is stated"
    said = "~ moves by more than 10.0 % with what is assumed: "
    assert screen.mark_meaning.startswith(f"{said}planning per rank")
    assert first_screen(answer(SCENARIOS["reference"])).mark_meaning == f"{said}restore"


def test_a_cost_that_is_not_known_is_not_marked_as_a_guess() -> None:
    document: dict[str, Any] = {
        "model": {"preset": "llama-3.1-405b"},
        "cluster": {"node": "dgx-h100", "num_gpus": 2048},
        "costs": {"per_terabyte": 20, "per_lost_gpu_hour": 2, "run_seconds": "90d"},
    }
    rows = {row.label: row for row in first_screen(answer(scenario_from(document))).figures}
    assert rows["To buy: capacity"].figure.startswith("~")
    assert (rows["Cost"].figure, rows["Cost"].meaning) == (UNKNOWN, "capacity 227.28")


@pytest.mark.parametrize("found", [{"tensor": 8, "pipeline": 8, "data": 1}, {}], ids=["given", "searched"])
def test_a_layout_that_cannot_run_is_the_verdict_with_one_nearest(found: dict[str, int]) -> None:
    """405B needs 119.5 GB of each of 64 GPUs of 80 GB, whatever the degrees."""
    asked = {"model": {"preset": "llama-3.1-405b"}, "parallelism": found, "cluster": {"num_gpus": 64}}
    report = answer(asked)
    screen = first_screen(report)
    first, second = screen.verdict.splitlines()
    assert first == f"{report.training.cannot_run}."
    assert first.startswith("Does not fit on 64 GPUs: ")
    assert second.startswith("If it could run: ")
    assert screen.misses
    assert screen.remedies[0].startswith("To run: ")
    said = " ".join((screen.verdict, *screen.remedies, *screen.warnings))
    assert said.count("nearest") == 1
    assert not any("cannot run" in warning for warning in screen.warnings)


def test_a_model_alone_is_sized_without_a_word_that_frightens() -> None:
    report = answer({"model": {"preset": "llama-3-8b"}})
    screen = first_screen(report)
    assert report.training.cannot_run is None
    assert not screen.misses
    assert not screen.warnings
    assert not screen.remedies
    assert "oes not fit" not in screen.verdict
    assert "A checkpoint has 112.4 GB." in screen.verdict
    assert "144.5 GB that it holds exceed the 80.00 GB of one: give cluster.num_gpus." in screen.verdict
    assert not any("this layout cannot run" in warning for warning in report.warnings)


GATHERING: dict[str, Any] = {
    "model": {"preset": "llama-3.1-405b"},
    "cluster": {},
    "training": {"framework": "fsdp2"},
    "parallelism": {"data": 92},
}


def memory_of(**blocks: Any) -> dict[str, str]:
    """The rows of memory and time of 8B on 64 GPUs, as one text each."""
    asked = {"model": {"preset": "llama-3-8b"}, "cluster": {"num_gpus": 64}, **blocks}
    rows = first_screen(answer(asked)).figures
    return {row.label: f"{row.figure} {row.meaning}" for row in rows if row.label in {"GPU memory", "Step time"}}


def test_model_and_gpus_alone_tell_whether_they_fit_and_what_the_time_of_a_step_lacks() -> None:
    """8.03e9 parameters over tensor 4, with 2 + 4 + 12 bytes each: 36.14 GB."""
    (said,) = memory_of().values()
    assert said == (
        "36.14 GB fits 80.00 GB of the fullest GPU without activations, and with those of micro-batch 1 x 8,192 tokens; "
        "for step time and MFU give training.sequence_length, training.micro_batch_size, training.global_batch_size"
    )
    batch = {"sequence_length": 8192, "micro_batch_size": 1}
    assert memory_of(training=batch)["GPU memory"].endswith(
        " GB fits 80.00 GB of the fullest GPU; for step time and MFU give training.global_batch_size"
    )
    timed = memory_of(training=batch | {"global_batch_size": 512})
    assert list(timed) == ["Step time"]
    assert "; MFU " in timed["Step time"]
    assert timed["Step time"].endswith(" GB fit 80.00 GB of the fullest GPU")


def test_weights_that_fsdp_gathers_are_in_the_memory_and_may_not_fit_though_the_state_does() -> None:
    """Llama-3.1-405B has 16 bytes a parameter over 92 GPUs; 4 of 4.203e9 outside the layers, and 10 of 3.188e9 in one.

    Of 16,384 rows a GPU has 178.1 on average, and the fullest 179.
    """
    said = memory_of(**GATHERING)
    assert said["GPU memory"].startswith("119.5 GB may not fit 80.00 GB of the fullest GPU without activations")


def test_the_table_of_memory_says_of_activations_what_the_first_screen_says() -> None:
    asked = {"model": {"preset": "llama-3-8b"}, "cluster": {"num_gpus": 64}}
    [row] = [row for row in memory_rows(answer(asked)) if row.label == "GPU memory"]
    assert row.meaning == (
        "of the fullest GPU: fits without activations, and with those of micro-batch 1 x 8,192 tokens"
    )
    [gathering] = [row for row in memory_rows(answer(GATHERING)) if row.label == "GPU memory"]
    assert gathering.meaning.startswith("of the fullest GPU: may not fit; activations not counted")


def test_memory_is_not_on_the_first_screen_where_the_verdict_says_it_or_nobody_named_gpus() -> None:
    assert memory_of(cluster={"num_gpus": 1}) == {}
    assert memory_of(cluster={}) == {}


@pytest.mark.parametrize("named", [{"cluster": {"num_gpus": 1}}, {"parallelism": {"data": 1}}])
def test_a_model_on_gpus_that_somebody_named_cannot_run_where_it_does_not_fit(named: dict[str, Any]) -> None:
    assert first_screen(answer({"model": {"preset": "llama-3-8b"}} | named)).verdict.startswith(
        "Does not fit on 1 GPU: "
    )


def test_a_missing_rate_beside_a_target_of_ones_own_is_not_known() -> None:
    screen = first_screen(answer({"model": {"preset": "gpt2"}, "targets": {"max_stall_seconds": 5}}))
    assert screen.verdict.startswith("Not known: ")
    assert screen.warnings


def test_what_runs_has_no_such_verdict() -> None:
    screen = first_screen(answer({"model": {"preset": "gpt2"}}))
    assert "oes not fit" not in screen.verdict
    assert not screen.remedies


def test_warnings_do_not_repeat_the_verdict() -> None:
    for name in NAMES:
        for warning in screen_of(name).warnings:
            assert "misses the target" not in warning
            assert "is not met at any bandwidth" not in warning


@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_shows_the_same_first_screen(name: str) -> None:
    shown, screen = report_of(name)._repr_html_(), screen_of(name)
    said = (screen.headline, screen.verdict, screen.mark_meaning, *screen.remedies, *screen.warnings, *screen.guesses)
    for text in (*said, *(text for row in screen.figures for text in row)):
        assert escape(text) in shown


@pytest.mark.parametrize("data", [4, 64])
def test_a_best_interval_of_months_is_not_shown_as_a_number(data: int) -> None:
    """Of four groups that each hold the state, failures that lose all come once in ages; of 64, never."""
    shrink = {"strategy": "shrink", "step_seconds": 6, "repair_seconds": 3600, "shrink": {"regroup_seconds": 20}}
    scenario = {
        "model": {"preset": "llama-3.1-8b"},
        "parallelism": {"tensor": 8, "data": data},
        "storage": {"profile": {"write_bytes_per_second": 1e11, "read_bytes_per_second": 1e11}},
        "reliability": {"components": [{"name": "node", "per": "node", "mtbf_seconds": 4e6}]} | shrink,
    }
    report = answer(scenario)
    assert (report.interval.optimal_period_seconds or math.inf) > 30 * 86_400
    (row,) = [row for row in first_screen(report).figures if row.label == "Best interval"]
    assert row.figure == "over 7.0 days"
    assert "need the main storage" in row.meaning


def test_what_was_asked_leads_and_an_unknown_figure_does_not() -> None:
    assert {row.label for name in NAMES for row in screen_of(name).figures if row.is_leading} == {
        *("Lost time", "Overhead", "Best interval"),
        *("To buy: write", "To buy: read", "To buy: capacity"),
        "One checkpoint",  # where no storage is given
    }
    leading = [row for name in NAMES for row in screen_of(name).figures if row.is_leading]
    assert not [row for row in leading if row.figure == UNKNOWN]
    (unknown,) = (
        row for row in first_screen(answer({"model": {"preset": "gpt2"}})).figures if row.label == "Lost time"
    )
    assert (unknown.figure, unknown.is_leading) == (UNKNOWN, False)
    label, *_ = leading[0]
    assert label == leading[0].label, "a row stays three texts"
