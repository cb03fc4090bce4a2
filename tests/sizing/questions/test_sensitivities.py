"""Each given input varied alone: both ends are what a scenario answers that has them."""

from __future__ import annotations

import copy
from typing import Any

import hypothesis
import pytest

from sizing.errors import InvalidInput
from sizing.field_paths import with_field
from sizing.guesses.guess import InputSwing
from sizing.questions.registry import SENSITIVITY
from sizing.questions.sensitivity.question import sensitivity_summary
from sizing.questions.sensitivity.request import REFERENCE_SENSITIVITY, SensitivityReport
from sizing.report import answer
from sizing.scenario import REFERENCE_SCENARIO
from tests.examples import examples
from tests.sizing.guesses.scenarios import documents, with_rates_in_profile
from tests.sizing.guesses.test_guesses import figure


def swing(report: SensitivityReport, field: str) -> InputSwing:
    return next(found for found in report.inputs if found.field == field)


def asked(**more: Any) -> SensitivityReport:
    return SENSITIVITY.answer({"scenario": REFERENCE_SCENARIO} | more)


@examples(32)
@hypothesis.given(documents())
def test_both_ends_of_an_input_are_what_a_scenario_answers_that_has_them(document: dict[str, Any]) -> None:
    try:
        report = SENSITIVITY.answer(document)
    except InvalidInput:
        hypothesis.reject()
    base = with_rates_in_profile(document)
    assert report.headline == answer(base).headline
    for found in report.inputs:
        for value, expected in ((found.low, found.headline_low), (found.high, found.headline_high)):
            stated = answer(with_field(base, found.field, value))
            assert figure(stated, report.headline.figure) == pytest.approx(expected, rel=1e-9), found


@pytest.mark.parametrize(
    ("reliability", "varied"),
    [
        ({"components": [{"name": "node", "failures_per_hour": 0.05}]}, "components.0.failures_per_hour"),
        (
            {"mtbf_seconds": 72_000, "strategy": "spares", "spares": {"num": 1}, "repair_seconds": 3600},
            "repair_seconds",
        ),
        ({"mtbf_seconds": 72_000, "strategy": "peers", "step_seconds": 5, "repair_seconds": 3600}, "repair_seconds"),
        (
            {"mtbf_seconds": 72_000, "data_skip": {"num_batches": 600, "batches_per_second": 10}},
            "data_skip.num_batches",
        ),
    ],
)
def test_what_follows_failures_is_varied_too(reliability: dict[str, Any], varied: str) -> None:
    document = {
        "model": {"preset": "llama-3.1-8b"},
        "parallelism": {"data": 16},
        "cluster": {"node": "dgx-h100"},
        "storage": {"profile": {"write_bytes_per_second": "10 GB/s", "read_bytes_per_second": "10 GB/s"}},
        "reliability": reliability,
    }
    found = swing(SENSITIVITY.answer(document), f"reliability.{varied}")
    assert found.headline_low < found.headline_high


def test_inputs_go_a_fifth_down_and_up_the_largest_swing_first() -> None:
    report = asked()
    failures = swing(report, "reliability.failures_per_node_day")
    assert failures.given == 0.0065
    assert [failures.low, failures.high] == pytest.approx([0.0052, 0.0078])
    assert failures.headline_low < report.headline.value < failures.headline_high
    assert failures.source == "20.0 % down and up: no range of it is published"
    spans = [found.span(report.headline.value) for found in report.inputs]
    assert spans == sorted(spans, reverse=True)
    assert {found.field for found in report.inputs} >= {
        "checkpoint.interval_seconds",
        "checkpoint.observed_bytes",
        "reliability.detection_seconds",
        "reliability.failures_per_node_day",
        "storage.profile.write_bytes_per_second",
    }


def test_an_input_within_its_published_range_is_varied_over_that_range() -> None:
    interval = swing(asked(), "checkpoint.interval_seconds")
    assert (interval.low, interval.high) == (3600, 1.2 * 14_400)
    assert interval.source.startswith("plausible range, and 20.0 % beyond what is given: ")
    assert "BLOOM" in interval.source
    amid = swing(
        SENSITIVITY.answer(with_field(REFERENCE_SCENARIO, "checkpoint.interval_seconds", 7200)), interval.field
    )
    assert (amid.low, amid.high, amid.source.partition(":")[0]) == (3600, 14_400, "plausible range")
    scenario = with_field(REFERENCE_SCENARIO, "checkpoint.interval_seconds", 600)
    outside = swing(SENSITIVITY.answer(scenario), "checkpoint.interval_seconds")
    assert [outside.low, outside.high] == pytest.approx([480, 720])
    assert outside.source == "20.0 % down and up: it lies outside the plausible range"


def test_a_budget_of_host_memory_is_varied_too() -> None:
    scenario = {
        "model": {"num_parameters": 447e9},
        "training": {"framework": "fsdp2"},
        "parallelism": {"data": 64},
        "cluster": {"node": "dgx-gb200"},
        "checkpoint": {"mode": "async", "staging_bytes": "8 GiB"},
        "storage": {"profile": {"write_bytes_per_second": "41.2 GB/s", "device_to_host_bytes_per_second": "6.44 GB/s"}},
    }
    staged = swing(SENSITIVITY.answer(scenario), "checkpoint.staging_bytes")
    assert [staged.low, staged.high] == pytest.approx([0.8 * 2**33, 1.2 * 2**33])
    assert staged.headline_low > staged.headline_high


def test_the_table_says_why_an_input_is_varied_so_far() -> None:
    (grid,) = sensitivity_summary(asked()).grids
    assert grid.columns[-1] == "why so far"
    why = ("20.0 % down and up", "plausible range")
    assert {row[-1].partition(":")[0] for row in grid.rows} >= set(why)


def test_a_range_of_ones_own_has_the_units_of_its_field() -> None:
    report = SENSITIVITY.answer(REFERENCE_SENSITIVITY)
    interval = swing(report, "checkpoint.interval_seconds")
    assert (interval.low, interval.high, interval.source) == (1800, 14_400, "as given")
    assert interval.headline_high == report.headline.value
    percent = asked(fraction="50%")
    assert swing(percent, "reliability.failures_per_node_day").low == pytest.approx(0.00325)


def test_a_range_of_ones_own_stands_even_where_it_moves_nothing_or_is_of_a_degree() -> None:
    report = asked(
        ranges={"retention.keep_last": {"low": 1, "high": 9}, "cluster.num_gpus": {"low": 3072, "high": 3072}}
    )
    kept = swing(report, "retention.keep_last")
    assert kept.headline_low == kept.headline_high == report.headline.value


def test_choices_are_answered_too() -> None:
    chosen = with_field(copy.deepcopy(REFERENCE_SCENARIO), "checkpoint.restore", "every-replica")
    del chosen["reliability"]["restart_seconds"]
    found = swing(SENSITIVITY.answer(chosen), "checkpoint.restore")
    assert (found.given, found.low, found.high) == ("every-replica", "parallel-read-exchange", "every-replica")


def test_rates_of_a_published_system_are_varied_as_if_they_were_given() -> None:
    scenario = {
        "model": {"preset": "llama-3.1-8b"},
        "parallelism": {"tensor": 8},
        "storage": {"preset": "mlperf-v3-hpe-e2000"},
    }
    report = SENSITIVITY.answer(scenario)
    assert report.headline.figure == "overhead.fraction"
    assert swing(report, "storage.profile.write_bytes_per_second").headline_low > report.headline.value


def test_where_nothing_moves_that_is_said() -> None:
    report = SENSITIVITY.answer({"model": {"preset": "gpt2"}})
    assert report.inputs == []
    assert report.warnings == ["No given input moves the headline. Give storage rates and reliability"]


@pytest.mark.parametrize(
    ("ranges", "sentence"),
    [
        (
            {"checkpoint.intervall": {"low": 1, "high": 2}},
            "ranges.checkpoint.intervall must be a field of a scenario, got 'checkpoint.intervall': did you mean "
            "checkpoint.interval_seconds",
        ),
        (
            {"foo.bar": {"low": 1, "high": 2}},
            "ranges.foo.bar must be a field of a scenario, got 'foo.bar': name one by its dotted path",
        ),
        ({"checkpoint.interval_seconds": {"low": "1h", "high": "9x"}}, "has an unknown unit of time"),
        ({"checkpoint.interval_seconds": {"low": "1h"}}, "ranges.checkpoint.interval_seconds.high is required"),
        ({"training.optimizer": {"low": "adam", "high": "lion"}}, "must be a number"),
        ({"parallelism.tensor": {"low": 7, "high": 8}}, "tensor"),
    ],
)
def test_a_range_that_says_nothing_is_refused(ranges: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        asked(ranges=ranges)
    assert sentence in str(refused.value)


def test_a_fraction_must_leave_something() -> None:
    with pytest.raises(InvalidInput, match="fraction must be less than 1"):
        asked(fraction=1)
