"""What `--storage RESULT.json` makes of a result: a calibration, or of few configurations a profile."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sizing.errors import InvalidInput
from sizing.report import SizingReport, answer
from sizing.storage.calibration import Calibration, calibrate
from sizing.storage.measurement import BenchmarkResult
from sizing.storage.one_result import profile_of, storage_of
from sizing.storage.profile import StorageProfile
from sizing.terminal.storage_files import read_storage
from tests.sizing.storage.calibration.simulation import FULL_SCAN, GB, Cell, measurement, result


def result_of(*measurements: dict[str, Any]) -> BenchmarkResult:
    document = result([(1, 1, GB)]).model_dump(mode="json", exclude_none=True)
    return BenchmarkResult.model_validate(document | {"measurements": list(measurements)})


def write_at(cell: Cell, rate: float, *, repetitions: int = 5, **changed: Any) -> dict[str, Any]:
    nodes, ranks, size = cell
    return measurement(cell, "write", [nodes * ranks * size / rate] * repetitions, **changed)


def fallen_to(rate: float, *, after_bytes: int) -> dict[str, Any]:
    change = {"after_bytes": after_bytes, "before_bytes_per_second": 40e9, "after_bytes_per_second": rate}
    return {"rate_changes": [change], "sustained_bytes_per_second": rate}


def answer_on(storage: StorageProfile, *, nodes: int) -> SizingReport:
    """A model of which eight ranks of each node write."""
    document = {
        "model": {"num_parameters": 10**9},
        "parallelism": {"tensor": 8, "pipeline": nodes},
        "checkpoint": {"format": "megatron"},
        "storage": {"profile": storage.model_dump(exclude_none=True)},
    }
    return answer(document)


def test_a_result_of_three_configurations_is_calibrated_and_says_its_grade(tmp_path: Path) -> None:
    scan = result(FULL_SCAN, seed=1)
    found, by_hand = storage_of(scan), calibrate([scan])
    assert isinstance(found, Calibration)
    assert found.warnings == (f"made of run {scan.run_id} alone: grade {by_hand.grade_text}", *by_hand.warnings)
    assert found.model_copy(update={"warnings": by_hand.warnings}) == by_hand
    path = tmp_path / "scan.json"
    path.write_text(scan.model_dump_json())
    storage = read_storage(path)
    assert storage == {"calibration": json.loads(found.model_dump_json(exclude_none=True))}
    assert any(
        by_hand.grade_text in warning for warning in answer({"model": {"preset": "gpt2"}, "storage": storage}).warnings
    )


def test_a_result_with_too_few_restores_for_a_fit_stays_a_profile_of_both() -> None:
    scan = result(FULL_SCAN[:6], operations=["write"])
    both = [*scan.measurements, *result(FULL_SCAN[:1], operations=["restore"]).measurements]
    found = storage_of(scan.model_copy(update={"measurements": both}))
    assert isinstance(found, StorageProfile)
    assert found.read.file_system_bytes_per_second is not None


@pytest.mark.parametrize("num_fallen", [1, 4])
def test_writes_that_stayed_within_a_cache_give_no_rate_where_others_left_it(num_fallen: int) -> None:
    """114 GB go to a cache at 40 GB/s, then 5 GB/s: six times 16 GB never leave it."""
    beyond = fallen_to(5e9, after_bytes=114 * GB)
    scan = result_of(
        write_at((4, 1, 4 * GB), 40e9),
        write_at((4, 2, 2 * GB), 40e9),
        *(write_at((4, 8, size * GB), 5e9, **beyond) for size in (10, 14, 20, 28)[:num_fallen]),
    )
    found = storage_of(scan)
    profile = found.profile if isinstance(found, Calibration) else found
    assert profile.write.file_system_bytes_per_second == pytest.approx(5e9, rel=0.01)
    report = answer({"model": {"preset": "gpt2"}, "storage": {"profile": profile.model_dump(exclude_none=True)}})
    told = found.warnings if isinstance(found, Calibration) else report.warnings
    assert any("2 write measurement(s) moved less in all repetitions than the 114.0 GB" in each for each in told)


def test_a_layout_like_either_of_two_measured_ones_gets_what_that_one_got() -> None:
    profile = profile_of(result_of(write_at((4, 8, 8 * GB), 22e9), write_at((1, 8, 8 * GB), 5.5e9)))
    for nodes, rate in ((1, 5.5e9), (4, 22e9), (16, 22e9)):
        report = answer_on(profile, nodes=nodes)
        assert report.write is not None
        assert report.write.bytes_per_second == pytest.approx(rate)
        assert any("Measure with this number" in each for each in report.warnings) == (nodes == 16)


def test_a_writer_alone_gets_no_more_than_one_got() -> None:
    profile = profile_of(result_of(write_at((1, 8, GB), 6e9), write_at((1, 1, GB), 1.5e9)))
    assert (profile.write.file_system_bytes_per_second, profile.write.writer_bytes_per_second) == (6e9, 1.5e9)
    assert profile.write.node_bytes_per_second is None, "both ran on one node"


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"is_steady": False}, "were still changing when the run ended"),
        ({"limited_by": "generator"}, "waited for the payload generator"),
        ({"verified": False}, "failed verification"),
    ],
)
def test_a_write_that_no_calibration_would_use_gives_no_rate(changed: dict[str, Any], reason: str) -> None:
    fast = write_at((1, 8, GB), 50e9, **changed)
    profile = profile_of(result_of(write_at((1, 8, GB), 5e9), fast))
    assert profile.write.file_system_bytes_per_second == 5e9
    assert profile.measured is not None
    assert any(f"left out: 1 write measurement(s) {reason}" in each for each in profile.measured.warnings)
    told = any("do not use this storage until" in each for each in profile.measured.warnings)
    assert told == ("verified" in changed)
    with pytest.raises(InvalidInput, match=f"must hold a verified, steady write .*{reason}"):
        profile_of(result_of(fast))


def test_what_the_repetitions_say_of_a_rate_is_told_where_it_is_little() -> None:
    cell = (1, 8, GB)
    narrow = profile_of(result_of(write_at(cell, 5e9, rate_interval_bytes_per_second=[4.8e9, 5.2e9])))
    wide = profile_of(result_of(write_at(cell, 5e9, rate_interval_bytes_per_second=[4e9, 5.2e9])))
    once = profile_of(result_of(write_at(cell, 5e9, repetitions=1)))
    assert [each.measured.warnings for each in (narrow, wide, once) if each.measured] == [
        (),
        (
            "the write bandwidth of 5.000 GB/s may be 4.000 GB/s to 5.200 GB/s by the spread of 5 repetitions (95 % "
            "interval)",
        ),
        ("the write bandwidth is that of one repetition, which says nothing of its spread",),
    ]
