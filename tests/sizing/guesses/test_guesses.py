"""Every assumption is answered over its range, as a scenario that states it would be, or is known to be no guess."""

from __future__ import annotations

import types
import typing
from collections.abc import Iterator
from typing import Any

import hypothesis
import pytest
from pydantic import BaseModel

from sizing.errors import InvalidInput
from sizing.field_paths import with_field
from sizing.guesses import alternatives, guesses
from sizing.guesses.alternatives import values_of
from sizing.guesses.figures import HEADLINES
from sizing.layout.formats.registry import FORMATS
from sizing.ranges import plausible_choices, plausible_ranges, reason_settled, settled
from sizing.report import SizingReport, answer
from sizing.run.evaluation import evaluate
from sizing.run.workload import CheckpointWorkload
from sizing.scenario import REFERENCE_SCENARIO, Scenario, scenario_from
from sizing.sized_layout import size_layout, workload_anew
from tests.sizing.guesses.scenarios import documents, with_rates_in_profile

OPEN: dict[str, Any] = {
    "model": {"preset": "megatron-1t"},
    "parallelism": {"tensor": 8, "pipeline": 64, "data": 6},
    "storage": {"profile": {"write_bytes_per_second": "273 GB/s", "read_bytes_per_second": "1 TB/s"}},
    "reliability": {"failures_per_node_day": 0.0065},
}
"""The published run of 1T, where nothing is stated that has a default."""


def unweighed(document: dict[str, Any]) -> Any:
    """The blocks of its report that have figures, without its own guesses, each of which would be laid out."""
    scenario = scenario_from(document)
    asked = size_layout(scenario)
    run = evaluate(asked.workload, scenario.run_inputs).report
    return types.SimpleNamespace(**dict(run), checkpoint=asked.checkpoint_layout.size)


def figure(report: SizingReport, path: str) -> float:
    block, name = path.split(".")
    value = getattr(getattr(report, block), name)
    assert value is not None
    return float(value)


def is_given(scenario: Scenario, path: str) -> bool:
    block: Any = scenario
    for name in path.split("."):
        if block is None or name not in block.model_fields_set:
            return False
        block = getattr(block, name)
    return True


@hypothesis.given(documents())
def test_both_ends_of_a_guess_are_what_a_scenario_answers_that_states_them(document: dict[str, Any]) -> None:
    try:
        report = answer(document)
    except InvalidInput:
        hypothesis.reject()
    assert report.headline.value == figure(report, report.headline.figure)
    assert report.headline.value == figure(unweighed(document), report.headline.figure)
    for guess in report.guesses:
        for value, expected in ((guess.low, guess.headline_low), (guess.high, guess.headline_high)):
            stated = with_field(with_rates_in_profile(document), guess.field, value)
            assert figure(unweighed(stated), report.headline.figure) == pytest.approx(expected, rel=1e-9), guess


@hypothesis.given(documents())
def test_guesses_are_assumptions_that_move_the_headline_the_largest_first(document: dict[str, Any]) -> None:
    try:
        scenario = scenario_from(document)
        report = answer(scenario)
    except InvalidInput:
        hypothesis.reject()
    spans = [guess.span(report.headline.value) for guess in report.guesses]
    assert spans == sorted(spans, reverse=True)
    assert all(span > 0 or guess.moves for span, guess in zip(spans, report.guesses, strict=True))
    assumed = {assumption.field: assumption.value for assumption in report.assumptions}
    for guess in report.guesses:
        assert guess.assumed == assumed[guess.field]
        assert not is_given(scenario, guess.field)
    for field in assumed:
        assert field in plausible_ranges() or field in plausible_choices() or reason_settled(field), field


def test_every_default_of_a_scenario_has_a_range_or_alternatives_or_is_no_guess() -> None:
    open_fields = [
        path
        for path in defaults(Scenario, "")
        if path not in plausible_ranges() and path not in plausible_choices() and reason_settled(path) is None
    ]
    assert open_fields == []


def defaults(model: type[BaseModel], prefix: str) -> Iterator[str]:
    """The paths of all fields that have a default that states something."""
    for name, field in model.model_fields.items():
        inner = block_of(field.annotation)
        if inner is not None:
            yield from defaults(inner, f"{prefix}{name}.")
        elif not field.is_required() and field.default is not None:
            yield f"{prefix}{name}"


def block_of(annotation: Any) -> type[BaseModel] | None:
    """The block that a field holds; None where it holds a value or a list."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    if typing.get_origin(annotation) in (typing.Union, types.UnionType, typing.Annotated):
        return next(filter(None, map(block_of, typing.get_args(annotation))), None)
    return None


def test_no_field_is_both_a_guess_and_settled_by_its_own_name() -> None:
    named = {field for row in settled() for field in row.fields}
    assert not named & (plausible_ranges().keys() | plausible_choices().keys())
    assert all(len(row.reason) > 20 for row in settled())


def test_the_largest_guess_of_the_open_run_is_its_interval() -> None:
    report = answer(OPEN)
    assert report.headline.figure == "interval.lost_at_interval_fraction"
    first = report.guesses[0]
    assert (first.field, first.assumed, first.low, first.high) == ("checkpoint.interval_seconds", 14_400, 3600, 14_400)
    assert first.headline_high == report.headline.value
    assert first.headline_low < 0.5 * first.headline_high
    found = {guess.field: guess for guess in report.guesses}
    assert found["checkpoint.restore"].low == "parallel-read-exchange"
    assert found["checkpoint.restore"].high == "every-replica"
    assert found["reliability.detection_seconds"].high == 600
    assert "restore.time_to_first_step_seconds" in found["reliability.detection_seconds"].moves
    assert "write.seconds" not in found["reliability.detection_seconds"].moves


def test_what_is_stated_is_no_guess() -> None:
    stated = with_field(with_field(OPEN, "checkpoint.interval_seconds", "4h"), "training.optimizer", "adam")
    fields = {guess.field for guess in answer(stated).guesses}
    assert not fields & {"checkpoint.interval_seconds", "training.optimizer"}
    assert "checkpoint.restore" in fields


def test_what_no_setting_of_a_trainer_changes_is_no_guess() -> None:
    """verl saves the frozen weights beside adapters whatever is set; PEFT's trainers may be told to."""
    of_trainer = {
        name: {
            guess.field
            for guess in answer(
                {
                    "model": {"preset": "llama-3.1-8b"},
                    "training": {"framework": name, "adapters": {"rank": 16}},
                    "parallelism": {"data": 8},
                    "storage": OPEN["storage"],
                }
            ).guesses
        }
        for name in ("verl", "trl")
    }
    assert "training.adapters.save_base" in of_trainer["trl"] - of_trainer["verl"]


@pytest.mark.parametrize(
    ("left_out", "headline"),
    [
        ((), "interval.lost_at_interval_fraction"),
        (("reliability",), "overhead.fraction"),
        (("reliability", "storage"), "checkpoint.written_bytes"),
    ],
)
def test_the_headline_is_the_best_figure_that_is_known(left_out: tuple[str, ...], headline: str) -> None:
    report = answer({name: block for name, block in OPEN.items() if name not in left_out})
    assert report.headline.figure == headline
    assert report.headline.figure in HEADLINES
    assert report.guesses


def test_an_interval_that_the_tiers_forbid_is_left_as_assumed() -> None:
    nvme = {"node_write_bytes_per_second": 2e10, "node_read_bytes_per_second": 3e10}
    tier = {"kind": "local-nvme", "interval_seconds": 4800, "recovered_fraction": 0.9, "storage": {"profile": nvme}}
    report = answer(OPEN | {"checkpoint": {"tiers": [tier]}})
    interval = next((guess for guess in report.guesses if guess.field == "checkpoint.interval_seconds"), None)
    assert interval is None, "both ends are what is assumed"


def test_alternatives_without_an_answer_are_left_out() -> None:
    fields = {guess.field: guess for guess in answer(OPEN | {"checkpoint": {"format": "megatron"}}).guesses}
    assert "training.framework" not in fields, "no other framework writes this format"
    assert "checkpoint.mode" not in fields, "the format saves in one mode"


def test_a_layout_of_many_kinds_of_ranks_answers_numbers_alone_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (alternatives, guesses):
        monkeypatch.setattr(module, "MAX_KINDS_OF_RANKS", 1)
    guesses._group_rows.cache_clear()
    report = answer(OPEN)
    guesses._group_rows.cache_clear()
    assert {guess.field for guess in report.guesses} <= plausible_ranges().keys()
    (said,) = [warning for warning in report.warnings if "kinds of ranks" in warning]
    assert "checkpoint.format" in said


def test_alternatives_are_laid_out_once_for_all_scenarios_of_a_layout(monkeypatch: pytest.MonkeyPatch) -> None:
    answer(OPEN)
    monkeypatch.setattr(alternatives, "workload_anew", None)
    slower = OPEN | {"storage": {"profile": {"write_bytes_per_second": "100 GB/s", "read_bytes_per_second": "1 TB/s"}}}
    assert answer(slower).guesses


def test_progress_counts_the_layouts_that_an_answer_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoint_layout: list[Scenario] = []

    def counted(scenario: Scenario, *profile: Any) -> CheckpointWorkload:
        checkpoint_layout.append(scenario)
        return workload_anew(scenario, *profile)

    monkeypatch.setattr("sizing.guesses.alternatives.workload_anew", counted)
    heard: list[tuple[float, int]] = []
    document = {"model": {"preset": "gpt2-large"}, "parallelism": {"data": 24}}
    answer(document, progress=lambda fraction: heard.append((fraction, len(checkpoint_layout))))
    assert len(checkpoint_layout) > 3
    assert heard[-1] == (1.0, len(checkpoint_layout))
    for fraction, done in heard:
        assert fraction == pytest.approx((1 + done) / (1 + len(checkpoint_layout)))


def test_every_format_is_an_alternative_without_being_listed() -> None:
    assert set(values_of(plausible_choices()["checkpoint.format"])) == set(FORMATS)


@pytest.mark.parametrize("choice", plausible_choices().values(), ids=lambda choice: choice.field)
def test_every_value_of_a_choice_is_one_that_its_field_takes(choice: Any) -> None:
    assert len(values_of(choice)) >= 2
    for value in values_of(choice, 0.9):
        assert any(is_taken(with_field(base, choice.field, value)) for base in BASES), value


def is_taken(document: dict[str, Any]) -> bool:
    try:
        scenario_from(document)
    except InvalidInput:
        return False
    return True


BASES: list[dict[str, Any]] = [
    {"model": {"preset": "gpt2"}},
    {"model": {"preset": "gpt2"}, "training": {"framework": "maxtext"}},
    {"model": {"num_parameters": "1T", "num_active_parameters": "64B", "num_experts": 384}},
    {"model": {"preset": "gpt2"}, "training": {"adapters": {"rank": 8}}},
    {"model": {"preset": "gpt2"}, "training": {"adapters": {"rank": 8, "base_dtype": "nf4"}}},
    {"model": {"preset": "gpt2"}, "training": {"reinforcement": {"publication": {"interval_seconds": 60}}}},
    {
        "model": {
            "architecture": {
                "family": "gpt2",
                "hidden_size": 64,
                "num_layers": 2,
                "num_attention_heads": 2,
                "vocab_size": 100,
            }
        }
    },
]


@pytest.mark.parametrize("plausible", plausible_ranges().values(), ids=lambda plausible: plausible.field)
def test_both_ends_of_a_range_are_values_that_its_field_takes(plausible: Any) -> None:
    assert plausible.low < (plausible.high or 1e18)
    base = {
        "model": {"preset": "gpt2"},
        "reliability": {"mtbf_seconds": 1e5, "preemption": {"per_hour": 1, "capacity_wait_seconds": 60}},
        "storage": {"profile": {"write_bytes_per_second": 1e9}},
        "training": {"reinforcement": {"publication": {"interval_seconds": 60}}},
    }
    for end in plausible.ends(1e11 if plausible.high is None else 100.0):
        scenario_from(with_field(base, plausible.field, end))


def test_the_reference_case_keeps_its_figures_and_has_few_guesses() -> None:
    report = answer(REFERENCE_SCENARIO)
    assert report.headline.value == pytest.approx(0.19645, rel=1e-4)
    assert {guess.field for guess in report.guesses} <= {"reliability.detection_seconds", "checkpoint.restore"}
