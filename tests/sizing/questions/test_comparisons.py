"""A comparison says what differs, what follows, and which input made which difference."""

import copy
from typing import Any

import pytest

from sizing.errors import InvalidInput
from sizing.field_paths import with_fields
from sizing.present.compared_figures import COMPARED_FIGURES
from sizing.questions.compare.charts import comparison_chart
from sizing.questions.compare.report import ComparisonReport, FigureRow
from sizing.questions.compare.request import REFERENCE_COMPARISON
from sizing.questions.compare.words import comparison_summary
from sizing.questions.registry import COMPARE
from sizing.report import answer
from sizing.scenario import REFERENCE_SCENARIO, scenario_from
from sizing.units import percent_text
from tests.sizing.present.drawn_words import place_lines

OTHER = {
    "model": {"preset": "llama-3.1-405b"},
    "training": {"framework": "fsdp2"},
    "parallelism": {"data": 1024},
    "checkpoint": {"mode": "async"},
    "storage": {"profile": {"write_bytes_per_second": "1 TB/s", "device_to_host_bytes_per_second": "20 GB/s"}},
    "reliability": {"mtbf_seconds": "5h"},
    "costs": {"per_terabyte": 20},
}


def of(*scenarios: dict[str, Any]) -> ComparisonReport:
    return COMPARE.answer({"scenarios": [{"name": f"s{i}", "scenario": s} for i, s in enumerate(scenarios)]})


def row(report: ComparisonReport, figure: str) -> FigureRow:
    return next(row for row in report.figures if row.figure == figure)


def rows_of(report: ComparisonReport, title: str) -> tuple[tuple[str, ...], ...]:
    return next(grid.rows for grid in comparison_summary(report).grids if grid.title == title)


def test_inputs_that_differ_and_figures_that_follow() -> None:
    report = COMPARE.answer(REFERENCE_COMPARISON)
    assert {difference.field: difference.values for difference in report.inputs} == {
        "checkpoint.interval_seconds": [14_400.0, 3_600.0],
        "storage.profile.write_bytes_per_second": [273e9, 100e9],
    }
    write = row(report, "write.seconds")
    assert write.values == pytest.approx([13.8e12 / 273e9, 138])
    assert write.ratios == pytest.approx([1, 2.73])
    assert write.differs
    assert not row(report, "restore.seconds").differs
    assert row(report, "write.bottleneck").ratios == [None, None]


def test_each_figure_is_that_of_the_scenarios_own_report() -> None:
    reports, compared = (
        [answer(scenario_from(each)) for each in (REFERENCE_SCENARIO, OTHER)],
        of(REFERENCE_SCENARIO, OTHER),
    )
    for figure in COMPARED_FIGURES:
        block, field = figure.split(".")
        expected = [getattr(getattr(report, block), field, None) for report in reports]
        assert row(compared, figure).values == expected, figure


@pytest.mark.parametrize(("start", "end"), [(REFERENCE_SCENARIO, OTHER), (OTHER, REFERENCE_SCENARIO)])
def test_the_steps_lead_from_one_report_to_the_other(start: dict[str, Any], end: dict[str, Any]) -> None:
    report = of(start, end)
    (explanation,) = report.explanations
    assert sorted(name for step in explanation.steps for name in step.inputs) == sorted(d.field for d in report.inputs)
    for figure in report.figures:
        value = figure.values[0]
        for change in (c for step in explanation.steps for c in step.changes if c.figure == figure.figure):
            assert change.before == pytest.approx(value)
            value = change.after
        assert value == pytest.approx(figure.values[1])


def test_each_input_is_told_what_it_changed() -> None:
    interval, rate = COMPARE.answer(REFERENCE_COMPARISON).explanations[0].steps
    assert interval.inputs == ["checkpoint.interval_seconds"]
    assert "write.seconds" not in {change.figure for change in interval.changes}
    assert rate.inputs == ["storage.profile.write_bytes_per_second"]
    assert {"write.seconds", "overhead.fraction"} <= {change.figure for change in rate.changes}
    assert "required.write_bytes_per_second" not in {change.figure for change in rate.changes}


def test_the_degrees_of_a_layout_change_together() -> None:
    """Nobody runs the tensor parallelism of one with the pipeline of the other."""
    steps = [step.inputs for step in of(REFERENCE_SCENARIO, OTHER).explanations[0].steps]
    assert {"parallelism.tensor", "parallelism.pipeline", "parallelism.data", "cluster.num_gpus"} in map(set, steps)
    assert ["training.framework"] in steps


@pytest.mark.parametrize("is_turned", [False, True])
def test_another_way_to_state_the_storage_is_one_step_in_which_no_time_is_unknown(is_turned: bool) -> None:
    published = REFERENCE_SCENARIO | {"storage": {"preset": "dgx-superpod-h100-4su-best"}}
    start, end = (published, REFERENCE_SCENARIO) if is_turned else (REFERENCE_SCENARIO, published)
    (step,) = of(start, end).explanations[0].steps
    assert "storage.preset" in step.inputs
    assert "storage.profile.write_bytes_per_second" in step.inputs
    assert all(change.before is not None and change.after is not None for change in step.changes)


def test_the_chart_draws_names_whole_that_differ_at_their_ends() -> None:
    names = [f"deepseek-v3 on 2,048 GPUs, {tier}" for tier in ("with a parallel file system", "with object storage")]
    scenarios = [{"name": name, "scenario": {"model": {"preset": "gpt2"}}} for name in names]
    assert set(names) <= set(place_lines(comparison_chart(COMPARE.answer({"scenarios": scenarios}))))


def test_inputs_that_have_no_answer_alone_change_together() -> None:
    """No optimizer state is sharded without replicas, and a format of shards has none of whole files."""
    full, sharded = (
        {"model": {"preset": "gpt2"}, "training": {"framework": name}, "checkpoint": {"format": format_}}
        for name, format_ in (("ddp", "torch-save"), ("fsdp2", "fsdp-sharded"))
    )  # fmt: skip
    (step,) = of(full, sharded).explanations[0].steps
    assert set(step.inputs) == {"training.framework", "checkpoint.format"}


CLUSTER = {
    "model": {"preset": "llama-3.1-70b"},
    "training": {"distributed_optimizer": True},
    "parallelism": {"tensor": 8, "pipeline": 4, "data": 16},
    "storage": {"profile": {"write_bytes_per_second": "40 GB/s", "read_bytes_per_second": "80 GB/s"}},
    "reliability": {"failures_per_node_day": 0.01, "detection_seconds": 60, "relaunch_seconds": 300},
}


def test_a_block_that_one_scenario_has_is_one_step() -> None:
    """Nobody runs part of it: an export that begins with its defaults would stall, and one row later not any more."""
    exported: dict[str, Any] = CLUSTER | {"checkpoint": {"export": {"every": 10, "written_by": "afterwards"}}}
    (step,) = of(CLUSTER, exported).explanations[0].steps
    assert {"checkpoint.export.every", "checkpoint.export.written_by", "checkpoint.export.dtype"} <= set(step.inputs)
    assert "overhead.fraction" not in {change.figure for change in step.changes}
    changed = with_fields(exported, {"checkpoint.export.every": 5, "checkpoint.export.keep": 2})
    steps = of(exported, changed).explanations[0].steps
    assert [step.inputs for step in steps] == [["checkpoint.export.every"], ["checkpoint.export.keep"]]


def test_what_has_an_answer_alone_is_a_step_alone_wherever_it_stands() -> None:
    """Tiers need to know what failures take; the write bandwidth stands between both in a scenario, and needs neither."""
    tier = {
        "kind": "local-nvme",
        "interval_seconds": 600,
        "storage": {"profile": {"node_write_bytes_per_second": 2e10}},
    }
    parts = [{"name": "node", "per": "node", "mtbf_seconds": "2400h", "loss_domain": "process"}]
    other = with_fields(CLUSTER, {"storage.profile.write_bytes_per_second": "100 GB/s", "checkpoint.tiers": [tier]})
    other["reliability"] = {"components": parts, "detection_seconds": 60, "relaunch_seconds": 300}
    rate, failures, tiers = of(CLUSTER, other).explanations[0].steps
    assert rate.inputs == ["storage.profile.write_bytes_per_second"]
    assert {name.rsplit(".", 2)[0] for name in failures.inputs} >= {"reliability.components"}
    assert all(name.startswith("checkpoint.tiers.0.") for name in tiers.inputs)
    assert failures.changes == []
    assert "write.seconds" in {change.figure for change in rate.changes}


def test_blocks_of_equal_lists_differ_field_by_field() -> None:
    tier = {
        "kind": "local-nvme",
        "interval_seconds": 600,
        "storage": {"profile": {"node_write_bytes_per_second": 2e10}},
    }
    reliability = {"components": [{"name": "n", "mtbf_seconds": "40h", "loss_domain": "process"}]}
    sooner, later = (
        CLUSTER | {"checkpoint": {"interval_seconds": 3600, "tiers": [tier | {"interval_seconds": seconds}]}}
        | {"reliability": reliability}
        for seconds in (600, 1200)
    )  # fmt: skip
    report = of(sooner, later)
    (difference,) = report.inputs
    assert (difference.field, difference.values) == ("checkpoint.tiers.0.interval_seconds", [600, 1200])
    assert rows_of(report, "Inputs that differ") == (("checkpoint tier 1: interval", "10.0 min", "20.0 min"),)
    assert [step.inputs for step in report.explanations[0].steps] == [[difference.field]]


def test_what_stays_free_and_redundancy_are_seen_in_the_drives_to_buy() -> None:
    report = of(CLUSTER, CLUSTER | {"retention": {"free_fraction": 0.2, "redundancy_fraction": 0.25}})
    assert not row(report, "capacity.capacity_bytes").differs
    assert row(report, "capacity.usable_bytes").ratios[1] == pytest.approx(1 / 0.8)
    assert row(report, "capacity.raw_bytes").ratios[1] == pytest.approx(1.25 / 0.8)


def test_a_default_written_out_is_no_difference() -> None:
    written = copy.deepcopy(REFERENCE_SCENARIO)
    del written["checkpoint"]["interval_seconds"]
    report = of(REFERENCE_SCENARIO, written)
    assert report.inputs == []
    assert not any(row.differs for row in report.figures)
    assert report.explanations[0].steps == []


def test_an_input_that_differs_says_whether_it_was_assumed() -> None:
    stated = copy.deepcopy(REFERENCE_SCENARIO) | {"reliability": {"mtbf_seconds": "3h", "detection_seconds": 30}}
    left_open = copy.deepcopy(REFERENCE_SCENARIO) | {"reliability": {"mtbf_seconds": "3h"}}
    report = of(stated, left_open)
    (detection,) = [each for each in report.inputs if each.field == "reliability.detection_seconds"]
    assert (detection.values, detection.assumed) == ([30, 72.6], [False, True])
    assert ("reliability: detection", "30.00 s", "72.60 s (assumed)") in rows_of(report, "Inputs that differ")


def test_an_assumption_that_follows_from_other_inputs_is_an_input_that_differs() -> None:
    """The format is left open, and each framework has its own."""
    open_format = {"model": {"preset": "gpt2"}, "parallelism": {"data": 8}}
    report = of(open_format, open_format | {"training": {"framework": "fsdp2"}})
    (format_,) = [each for each in report.assumed if each.field == "checkpoint.format"]
    assert (format_.values, format_.assumed) == (["torch-dist", "fsdp-sharded"], [True, True])


def test_the_guesses_that_move_the_compared_answers_are_named_with_how_far_they_move_each() -> None:
    stated = copy.deepcopy(REFERENCE_SCENARIO)
    left_open = copy.deepcopy(REFERENCE_SCENARIO) | {"reliability": {"failures_per_node_day": 0.0065}}
    report = of(stated, left_open)
    rows = {name: texts for name, *texts in rows_of(report, "These guesses move your answer")}
    (guess,) = [each for each in report.guesses[1] if each.field == "reliability.detection_seconds"]
    ends = f"lost time {percent_text(guess.headline_low)} to {percent_text(guess.headline_high)}"
    assert rows["reliability: detection"] == ["0 s to 10.0 min", "given, or without effect", ends]


def test_figures_that_rest_on_a_wide_guess_have_its_mark() -> None:
    report = of(REFERENCE_SCENARIO, OTHER)
    figures = {name: texts for name, *texts in rows_of(report, "Figures")}
    moved = {path for guess in report.guesses[1] for path in guess.moves}
    assert "write.seconds" in moved
    assert figures["write: time"][1].startswith("~")
    assert not figures["write: time"][0].startswith("~")
    assert "~ moves by more than 10.0 % with what is assumed" in comparison_summary(report).remarks


def test_a_layout_that_cannot_run_is_the_verdict_on_its_scenario() -> None:
    runs, cannot = ({"model": {"preset": "llama-3.1-405b"}, "cluster": {"num_gpus": num}} for num in (2048, 64))
    summary = comparison_summary(of(runs, cannot))
    assert "\ns1: Does not fit on 64 GPUs: " in summary.verdict
    assert summary.verdict.startswith("s0: Not known: overhead")
    assert summary.misses


def test_every_scenario_is_explained_from_the_first() -> None:
    report = of(REFERENCE_SCENARIO, OTHER, REFERENCE_SCENARIO)
    assert [explanation.name for explanation in report.explanations] == ["s1", "s2"]
    assert report.explanations[1].steps == []


@pytest.mark.parametrize(
    ("document", "sentence"),
    [
        ({"scenarios": []}, "scenarios must have at least 2 entries"),
        ({"scenarios": [{"name": "a", "scenario": OTHER}]}, "scenarios"),
        ({"scenarios": [{"name": "a", "scenario": OTHER}] * 2}, "has two scenarios of one name"),
        (
            {"scenarios": [{"name": str(i), "scenario": OTHER} for i in range(11)]},
            "scenarios must have at most 10 entries",
        ),
        (
            {
                "scenarios": [
                    {"name": "a", "scenario": OTHER},
                    {"name": "b", "scenario": {"model": {"preset": "gpt-9"}}},
                ]
            },
            "scenarios.1.scenario.model.preset must be a name of the catalog",
        ),
        (
            {"scenarios": [{"name": "a", "scenario": OTHER}, {"name": "b", "scenario": {}}]},
            "scenarios.1.scenario.model is required",
        ),
    ],
)
def test_what_cannot_be_compared_is_refused(document: object, sentence: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        COMPARE.answer(document)
    assert sentence in str(refused.value)
