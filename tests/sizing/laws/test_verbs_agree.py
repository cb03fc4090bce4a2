"""One scenario, asked through every verb: what they say of the same figure is the same figure."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

import pytest

from sizing.errors import InvalidInput
from sizing.field_paths import with_field, with_fields
from sizing.questions.registry import CLUSTER, COMPARE, DECIDE, MANIFEST, REQUIRE, SENSITIVITY, SIMULATE, SWEEP
from sizing.questions.simulate.request import ScenarioSimulation
from sizing.questions.sweep.figures import DEFAULT_FIGURES
from sizing.report import SizingReport, answer
from sizing.scenario import scenario_from
from tests.sizing.laws.scenarios import FRESH_SEEDS, repeated, with_answers

_ENOUGH_RESTORES = 100
"""For a mean that they may decide: the standard error is no measure of fewer, which may be missing altogether. A choice."""

Law = Callable[[dict[str, Any], SizingReport], None]

_DEFAULT_SEED = 7_000
_STANDARD_ERRORS = 5.0
"""Of a simulation beside its formula: one in 1.7 million scenarios is further off by chance."""


def _figure(report: SizingReport, path: str) -> Any:
    value: Any = report
    for name in path.split("."):
        value = getattr(value, name, None)
    return value


def _same(value: Any, other: Any) -> bool:
    if isinstance(value, float) and isinstance(other, int | float):
        return math.isclose(value, other, rel_tol=1e-9, abs_tol=1e-12)
    return bool(value == other)


def a_row_of_a_sweep_is_the_answer(document: dict[str, Any], report: SizingReport) -> None:
    interval = document["checkpoint"]["interval_seconds"]
    tiers = document["checkpoint"].get("tiers")
    if tiers:  # the interval of the main storage is a multiple of theirs
        return
    table = SWEEP.answer(with_field(document, "checkpoint.interval_seconds", [interval, 2 * interval]))
    row = next((row for row in table.rows if row[0] == interval), None)
    if row is None:
        pytest.fail(f"the sweep refuses what is answered: {table.refused}")
    for name, value in zip(table.columns, row, strict=True):
        if name in DEFAULT_FIGURES and name != "targets.met":
            assert _same(value, _figure(report, name)), (name, value, _figure(report, name))


def a_sensitivity_starts_from_the_answer(document: dict[str, Any], report: SizingReport) -> None:
    found = SENSITIVITY.answer(document)
    assert found.headline == report.headline
    for swing in found.inputs:
        for value, headline in ((swing.low, swing.headline_low), (swing.high, swing.headline_high)):
            stated = answer(with_field(document, swing.field, value))
            assert _same(headline, _figure(stated, report.headline.figure)), (swing.field, value, headline)


def a_comparison_shows_the_answers(document: dict[str, Any], report: SizingReport) -> None:
    other = with_field(document, "retention.keep_last", 7)
    table = COMPARE.answer({"scenarios": [{"name": "one", "scenario": document}, {"name": "two", "scenario": other}]})
    for row in table.figures:
        value = _figure(report, row.figure)
        assert _same(row.values[0], value), (row.figure, row.values[0], value)


def a_manifest_has_the_bytes_of_the_answer(document: dict[str, Any], report: SizingReport) -> None:
    if report.layout.num_gpus > 1024:
        return
    manifest = MANIFEST.answer({"scenario": document, "max_files": 10_000})
    if manifest.files is None or manifest.next is not None:
        return
    assert len(manifest.files) == report.checkpoint.num_files
    small = {*report.checkpoint.small_files}
    small |= {name.replace("RANK", str(n)) for name in report.checkpoint.small_files_of_ranks for n in range(1024)}
    written: dict[int, int] = {}
    for file in manifest.files:
        assert file.file not in small or not file.tensor_bytes
        written[file.rank] = written.get(file.rank, 0) + file.tensor_bytes
    by_class = sum(each.num_ranks * each.bytes_per_rank for each in manifest.rank_classes)
    # Shares of an observed size are rounded, each file's by itself.
    assert sum(written.values()) == pytest.approx(by_class, abs=report.checkpoint.num_files)
    assert max(written.values()) == pytest.approx(report.layout.max_rank_bytes, abs=len(manifest.files))
    assert sum(written.values()) == pytest.approx(report.checkpoint.written_bytes, abs=len(manifest.files))
    headers = sum(file.container_bytes for file in manifest.files if file.file not in small)
    assert headers == report.checkpoint.container_bytes


def a_decision_loses_what_the_answer_loses(document: dict[str, Any], report: SizingReport) -> None:
    if "storage" not in document:
        return
    workload = copy.deepcopy(document)
    storage = workload.pop("storage")
    found = DECIDE.answer(
        {
            "currency": "USD",
            "horizon_seconds": "30d",
            "per_lost_gpu_hour": 2,
            "workloads": [{"name": "run", "scenario": workload}],
            "offers": [
                {"name": "it", "storage": storage, "prices": [{"amount": 100, "per": "terabyte", "every": "once"}]}
            ],
            "settings": {"retention.keep_best": [0]},
            "chooses_interval": False,
        }
    )
    outcome = found.offers[0].workloads[0].as_asked
    assert outcome is not None
    assert [(each.target, each.met) for each in outcome.targets] == [(each.target, each.met) for each in report.targets]
    assert _same(outcome.goodput_fraction, report.interval.goodput_at_interval_fraction)


def what_a_decision_needs_is_enough_and_less_is_not(document: dict[str, Any], report: SizingReport) -> None:
    """At the settings proposed. With the rates of one direction 1 % less a target is missed, or a save does not drain."""
    if "storage" not in document or "targets" not in document or not report.targets:
        return
    workload = copy.deepcopy(document)
    storage = workload.pop("storage")
    found = DECIDE.answer(
        {"workloads": [{"name": "run", "scenario": workload}], "offers": [{"name": "it", "storage": storage}]}
        | {"currency": "USD", "horizon_seconds": "30d", "per_lost_gpu_hour": 2}
    )
    (decided,) = found.offers[0].workloads
    rates = {need.field: need.needed for need in decided.needs if need.field != "capacity_bytes"}
    if decided.proposed is None or not rates:
        return
    interval = {"checkpoint.interval_seconds": decided.needs_interval_seconds}
    settings = with_fields(document, decided.proposed.settings | interval)

    def is_enough(scenario: dict[str, Any]) -> bool:
        found = answer(scenario)
        assert found.interval.effective_interval_seconds is not None
        drains = found.interval.effective_interval_seconds <= found.interval.interval_seconds * (1 + 1e-9)
        return drains and all(each.met is not False for each in found.targets)

    assert is_enough(with_fields(settings, rates)), (rates, interval)
    for direction in ("write", "read"):
        less = {field: 0.99 * rate for field, rate in rates.items() if f"{direction}_bytes" in field}
        assert not less or not is_enough(with_fields(settings, rates | less)), (less, rates, interval)


def one_job_on_a_cluster_is_the_answer(document: dict[str, Any], report: SizingReport) -> None:
    profile = document.get("storage", {}).get("profile", {})
    if report.write is None or "write_bytes_per_second" not in profile:
        return
    job = copy.deepcopy(document)
    storage = job.pop("storage")
    job.pop("targets", None)
    cluster = {
        "jobs": [{"name": "job", "count": 1, "scenario": job}],
        "storage": storage,
        "horizon_seconds": 20 * document["checkpoint"]["interval_seconds"],
    }
    try:
        found = CLUSTER.answer(cluster)
    except InvalidInput:  # what a cluster cannot answer it names
        return
    (figures,) = found.jobs
    assert figures.num_gpus == report.layout.num_gpus
    # A tier in front takes the copy to host memory; the row of the main storage has what is left, and exports beside it.
    of_main = {row.kind: row.stall_seconds for row in report.tiers}.get("storage", report.write.stall_seconds)
    if not report.tiers or "export" not in document["checkpoint"]:
        assert _same(figures.stall_alone_seconds, of_main)
    assert _same(figures.goodput_alone_fraction, report.interval.goodput_at_interval_fraction)
    assert _same(figures.capacity_bytes, report.capacity.capacity_bytes)


def what_is_required_is_enough(document: dict[str, Any], report: SizingReport) -> None:
    if "targets" not in document:
        return
    try:
        found = REQUIRE.answer(document)
    except InvalidInput:  # without a write rate an answer does not judge the recovery, whose strategy may be refused
        assert report.write is None
        return
    assert found.needed.capacity_bytes == report.capacity.capacity_bytes
    if report.needed_together or report.targets_beyond_storage:  # as said where goodput is a target
        assert found.targets_beyond_storage == report.targets_beyond_storage
    bought = {
        f"storage.profile.{name}": value
        for name, value in (
            ("write_bytes_per_second", found.needed.write_bytes_per_second),
            ("read_bytes_per_second", found.needed.read_bytes_per_second),
        )
        if value is not None
    }
    if not bought:
        return
    changed = document
    for field, value in (bought | found.needed.together_with).items():
        changed = with_field(changed, field, value)
    missed = [each.target for each in answer(changed).targets if each.met is False]
    assert set(missed) <= set(found.targets_beyond_storage), (missed, bought, found.needed.together_with)


def a_simulation_is_what_the_formula_says(document: dict[str, Any], report: SizingReport) -> None:
    goodput, mtbf = report.interval.goodput_at_interval_fraction, report.interval.mtbf_seconds
    if report.write is None or goodput is None or mtbf is None or not goodput > 0.02:
        return
    preemptions_per_hour = document["reliability"].get("preemption", {}).get("per_hour", 0.0)
    interruptions_per_second = 1 / mtbf + preemptions_per_hour / 3600
    question = ScenarioSimulation(
        scenario=scenario_from(document), num_runs=200, run_seconds=min(100 / interruptions_per_second, 3e9), seed=1
    )
    try:
        found = SIMULATE.answer(question)
    except InvalidInput:  # what takes too many failures it names
        return
    if not found.notes:
        assert _same(found.formula_goodput_fraction, goodput)
    off = _STANDARD_ERRORS * found.standard_error_fraction
    if found.mean_restores * found.num_runs < _ENOUGH_RESTORES:
        assert report.recovery is not None
        period = report.interval.effective_interval_seconds or 0.0
        off += report.recovery.restores_per_day / 86_400 * (period + report.recovery.recovery_seconds)
    assert abs(found.goodput_fraction - found.formula_goodput_fraction) <= off, found


_LAWS: dict[Law, int] = {
    a_row_of_a_sweep_is_the_answer: 5,
    a_sensitivity_starts_from_the_answer: 2,
    a_comparison_shows_the_answers: 3,
    a_manifest_has_the_bytes_of_the_answer: 5,
    a_decision_loses_what_the_answer_loses: 3,
    what_a_decision_needs_is_enough_and_less_is_not: 2,
    one_job_on_a_cluster_is_the_answer: 5,
    what_is_required_is_enough: 3,
    a_simulation_is_what_the_formula_says: 5,
}
"""Each law with how many scenarios it is held on by default: those of heavy questions on fewer."""
_MORE_WHEN_LONG = 48


def _hold(law: Law, first_seed: int, num: int) -> None:
    for seed, document, report in with_answers(first_seed, num):
        try:
            law(document, report)
        except Exception as error:
            error.add_note(repeated(seed, document))
            raise


@pytest.mark.parametrize("law", _LAWS, ids=lambda law: law.__name__)
def test_verbs_agree_on_one_scenario(law: Law) -> None:
    _hold(law, _DEFAULT_SEED, _LAWS[law])


@pytest.mark.exhaustive(minutes=2)
@pytest.mark.parametrize("law", _LAWS, ids=lambda law: law.__name__)
def test_verbs_agree_on_scenarios_never_drawn_before(law: Law) -> None:
    _hold(law, FRESH_SEEDS, _MORE_WHEN_LONG * _LAWS[law])
