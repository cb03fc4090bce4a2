"""Every figure of a report says where it comes from, and the calibrated ones how sure they are."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from sizing.present.grids import origins_grid
from sizing.provenance import Provenance, Runs
from sizing.report import SizingReport, answer
from sizing.scenario import REFERENCE_SCENARIO, scenario_from
from sizing.storage.calibration import Calibration, calibrate
from tests.sizing.storage.calibration.simulation import GB, TRUTH, result

MINIMAL: dict[str, Any] = {"model": {"num_parameters": 10**9}}
CLASSIC = MINIMAL | {"checkpoint": {"format": "megatron"}}
"""In a format that plans nothing."""


def report_of(document: dict[str, Any]) -> SizingReport:
    return answer(scenario_from(document))


def figures(value: object, path: str = "") -> Iterator[str]:
    """The dotted path of every number of a report."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from figures(inner, f"{path}.{name}" if path else name)
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from figures(inner, f"{path}.{number}")
    elif isinstance(value, int | float):
        yield path


def provenance_at(path: str, provenance: Sequence[Provenance]) -> Provenance:
    """The provenance of the longest path that leads to a figure; that of the empty path for all others."""
    by_path = {figure: found for found in provenance for figure in found.figures}
    while path not in by_path:
        path = path.rpartition(".")[0]
    return by_path[path]


def kind(report: SizingReport, path: str) -> str:
    return provenance_at(path, report.provenance).kind


@pytest.fixture(scope="module")
def calibration() -> Calibration:
    return calibrate([result(noise=0.02, outliers=0)], num_draws=200)


@pytest.fixture(scope="module")
def calibrated(calibration: Calibration) -> SizingReport:
    storage = {"calibration": calibration.model_dump(mode="json")}
    return report_of(CLASSIC | {"storage": storage, "parallelism": {"tensor": 8}})


@pytest.mark.parametrize("document", [MINIMAL, REFERENCE_SCENARIO])
def test_every_figure_has_a_provenance_with_a_source(document: dict[str, Any]) -> None:
    report = report_of(document)
    numbers = list(figures(report.model_dump(mode="json", exclude={"provenance", "assumptions", "warnings"})))
    assert len(numbers) > 40
    for path in numbers:
        assert provenance_at(path, report.provenance).source


def test_every_block_of_the_report_has_an_origin_of_its_own() -> None:
    """A new block names what it rests on in `sizing/origins.py`, instead of passing for as weak as the weakest."""
    named = {path.split(".")[0] for found in report_of(MINIMAL).provenance for path in found.figures}
    about_the_report = {
        "schema_version",
        "provenance",
        "prediction_intervals",
        "assumptions",
        "warnings",
        "headline",
        "guesses",
        "guessed_ranges",
    }
    assert named - {""} == set(SizingReport.model_fields) - about_the_report


def test_provenance_stays_compact() -> None:
    report = report_of(REFERENCE_SCENARIO)
    whole, part = len(report.model_dump_json()), len(report.model_dump_json(include={"provenance"}))
    assert part < 0.25 * whole
    assert len({figure for found in report.provenance for figure in found.figures}) == sum(
        len(found.figures) for found in report.provenance
    )


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("model.num_parameters", "exact"),
        ("checkpoint.total_bytes", "exact"),
        ("checkpoint.container_bytes", "published"),
        ("layout.num_writers", "exact"),
        ("write.seconds", "given"),
        ("restore.seconds", "given"),
        ("restore.read_bytes", "exact"),
        ("overhead.fraction", "given"),
        ("required.write_bytes_per_second", "assumed"),
        ("interval.optimal_seconds", "given"),
    ],
)
def test_the_reference_case_rests_on_what_it_gives(path: str, expected: str) -> None:
    assert kind(report_of(REFERENCE_SCENARIO), path) == expected


def test_what_nobody_said_is_assumed_or_unknown() -> None:
    report = report_of(MINIMAL | {"storage": {"profile": {"write_bytes_per_second": 1e9}}})
    assert kind(report, "model.num_parameters") == "given"
    assert kind(report, "overhead.fraction") == "assumed"
    assert kind(report, "interval.optimal_seconds") == "unknown"
    assert kind(report_of(MINIMAL), "restore.seconds") == "unknown"


def test_published_and_measured_profiles_are_named() -> None:
    published = report_of(MINIMAL | {"storage": {"preset": "mlperf-v3-hpe-e2000"}})
    assert "MLPerf Storage v3.0" in provenance_at("write.seconds", published.provenance).source
    measured_on = {"run_id": "run-1", "engine": "direct", "num_nodes": 1, "num_ranks": 1}
    profile = {"write_bytes_per_second": 1e9, "measured": measured_on}
    runs = provenance_at("write.seconds", report_of(MINIMAL | {"storage": {"profile": profile}}).provenance).runs
    assert runs is not None
    assert runs.run_ids == ("run-1",)


def test_a_calibration_gives_its_runs_date_and_error(calibrated: SizingReport) -> None:
    found = provenance_at("write.seconds", calibrated.provenance)
    assert found.kind == "calibrated"
    assert found.runs is not None
    assert found.runs.run_ids == ("20261121T120000Z-abc",)
    assert str(found.runs.measured_on) == "2026-11-21"
    assert found.runs.error_fraction is not None
    assert 0 < found.runs.error_fraction < 0.03


def test_readers_are_told_the_runs_in_a_few_words(calibrated: SizingReport) -> None:
    error = r"held-out error [\d.]+ %"
    said = [row[3] for row in origins_grid(calibrated).rows if row[3]]
    assert re.fullmatch(f"20261121T120000Z-abc, measured on 2026-11-21, {error}", said[0])
    many = Provenance(figures=("",), kind="measured", source="a", runs=Runs(run_ids=tuple("abcde")))
    rested = calibrated.model_copy(update={"provenance": [many]})
    assert origins_grid(rested).rows == (("others", "measured", "a", "a, b, c, 2 more"),)


def test_calibrated_times_and_rates_have_their_interval(calibrated: SizingReport) -> None:
    of_times = {"write.seconds", "write.bytes_per_second", "restore.seconds", "restore.bytes_per_second"}
    assert set(calibrated.prediction_intervals) == {
        *of_times, "write.stall_seconds", "restore.time_to_first_step_seconds", "overhead.fraction"
    }  # fmt: skip
    for path, (low, high) in calibrated.prediction_intervals.items():
        block, figure = path.split(".")
        assert low < getattr(getattr(calibrated, block), figure) < high
    low, high = calibrated.prediction_intervals["write.seconds"]
    assert low < calibrated.checkpoint.total_bytes / (TRUTH.write.node_bytes_per_second or 0) + 0.1 < high


def test_what_the_runs_did_not_see_is_taken_as_it_is_beside_the_interval(calibration: Calibration) -> None:
    whole = {"storage": {"calibration": calibration.model_dump(mode="json")}, "parallelism": {"tensor": 8}}
    found = {
        mode: report_of(MINIMAL | whole | {"checkpoint": {"mode": mode, "format": "torch-dist"}})
        for mode in ("sync", "async")
    }
    assert found["async"].write is not None
    copied = found["async"].write.stalled_by_copy_seconds
    assert copied > 0
    for waits, copies in zip(*(r.prediction_intervals["write.seconds"] for r in found.values()), strict=True):
        assert copies == pytest.approx(waits + copied)
    unplanned = [warning for warning in found["sync"].warnings if "planning of 8 ranks" in warning]
    assert [warning.split(" the planning ")[0] for warning in unplanned] == [
        "The write time assumes",
        "The restore time leaves out",
    ]
    assert not any("planning" in warning for warning in report_of(CLASSIC | whole).warnings)


def test_without_a_calibration_there_is_no_interval() -> None:
    assert report_of(REFERENCE_SCENARIO).prediction_intervals == {}


def test_layouts_outside_of_what_was_measured_are_named_with_what_was_not_seen() -> None:
    cells = [(nodes, ranks, GB) for nodes in (1, 2) for ranks in (1, 2, 4)]
    found = calibrate([result(cells, noise=0.02, outliers=0)], num_draws=200)
    storage = {"calibration": found.model_dump(mode="json")}
    warnings = " ".join(report_of(MINIMAL | {"storage": storage, "parallelism": {"tensor": 8, "pipeline": 8}}).warnings)
    assert "The write time is extrapolated: nodes, ranks per node" in warnings
    assert "The file-system limit of writes is not known, only its lower bound" in warnings
