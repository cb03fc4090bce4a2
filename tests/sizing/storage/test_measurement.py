"""A result document says what it measured, agrees with itself, and becomes a profile without guessing."""

from typing import Any

import pytest
from pydantic import ValidationError

from sizing.errors import InvalidInput, explain
from sizing.report import answer
from sizing.scenario import scenario_from
from sizing.storage.measurement import BenchmarkResult, Measurement
from sizing.storage.one_result import profile_of


def measurement(operation: str = "write", seconds: tuple[float, ...] = (2.0, 1.0, 4.0), **changed: Any) -> Any:
    document = {
        "engine": "torch-save",
        "operation": operation,
        "num_nodes": 1,
        "num_ranks": 2,
        "bytes_per_rank": 10**9,
        "total_bytes": 2 * 10**9,
        "seconds": list(seconds),
        "bytes_per_second": 2 * 10**9 / sorted(seconds)[len(seconds) // 2],
        "first_done_seconds": [s / 2 for s in seconds],
        "rank_seconds": [[s / 2, s] for s in seconds],
        "cache_policy": "buffered-fsync" if operation == "write" else "fadvise-dontneed",
        "verified": True,
    }
    return document | changed


def result(*measurements: Any, **changed: Any) -> BenchmarkResult:
    document = {
        "schema_version": 1,
        "run_id": "run-1",
        "command": ["ckpt-bench", "run"],
        "environment": {},
        "warnings": [],
        "measurements": list(measurements),
    }
    return BenchmarkResult.model_validate(document | changed)


FALLEN: dict[str, Any] = {
    "rate_changes": [{"after_bytes": 5 * 10**9, "before_bytes_per_second": 1e9, "after_bytes_per_second": 0.2e9}],
    "sustained_bytes_per_second": 0.21e9,
}
"""A rate that fell in the middle of the run, and the one that went on."""


def test_writes_that_fell_to_the_rate_that_goes_on_give_it_to_the_profile_which_says_so() -> None:
    profile = profile_of(result(measurement(**FALLEN)))
    assert profile.write.file_system_bytes_per_second == 0.21e9
    assert profile.measured is not None
    (warning,) = profile.measured.warnings
    assert warning == (
        "the write bandwidth is the 210.0 MB/s that went on after the rate fell, not the median of the repetitions, "
        "1.000 GB/s"
    )
    report = answer({"model": {"preset": "gpt2"}, "storage": {"profile": profile.model_dump(mode="json")}})
    assert any("210.0 MB/s that went on" in told for told in report.warnings)


def test_a_rate_that_went_on_above_that_of_whole_repetitions_is_no_fall() -> None:
    """All ranks together end at 1.4 GB/s, and the last of them alone is slower: the median of the whole is 1 GB/s."""
    change = {"after_bytes": 553 * 10**6, "before_bytes_per_second": 3.84e9, "after_bytes_per_second": 1.6e9}
    ended_apart = measurement(rate_changes=[change], sustained_bytes_per_second=1.381e9)
    found = Measurement.model_validate(ended_apart)
    assert (found.fall, found.headline_bytes_per_second) == (None, 1e9)
    profile = profile_of(result(ended_apart))
    assert profile.measured is not None
    assert profile.measured.warnings == ()


def test_a_fall_before_most_repetitions_stays_one_although_their_median_is_of_the_rate_that_goes_on() -> None:
    found = Measurement.model_validate(measurement(**FALLEN | {"sustained_bytes_per_second": 1.01e9}))
    assert found.fall is None, "0.2 GB/s is not what went on"
    change = {"after_bytes": 10**9, "before_bytes_per_second": 5e9, "after_bytes_per_second": 1.02e9}
    found = Measurement.model_validate(measurement(rate_changes=[change], sustained_bytes_per_second=1.01e9))
    assert found.fall is not None
    assert found.headline_bytes_per_second == 1e9


def test_a_restore_fills_no_cache_so_its_rate_is_that_of_the_median() -> None:
    fallen = Measurement.model_validate(measurement("restore", **FALLEN))
    assert fallen.fall is None
    assert fallen.headline_bytes_per_second == 1e9
    profile = profile_of(result(measurement(), measurement("restore", **FALLEN)))
    assert profile.read.file_system_bytes_per_second == 1e9
    assert profile.measured is not None
    assert profile.measured.warnings == ()


def test_that_the_client_limited_a_restore_is_the_first_that_is_said_of_its_time() -> None:
    limited = measurement("restore", limited_by="client")
    profile = profile_of(result(measurement(), limited, warnings=["The clocks differ."]))
    assert profile.measured is not None
    assert profile.measured.limited_by_client == ("read",)
    report = answer({"model": {"preset": "gpt2"}, "storage": {"profile": profile.model_dump(mode="json")}})
    assert report.warnings[0] == (
        "The restore time is by the rate of a client, not of the storage: in run run-1 the client was the limit of "
        "reads, 1.000 GB/s. The storage gives at least that. Measure with more ranks or nodes, or with more CPUs"
    )
    assert "rate of a client" not in " ".join(report.warnings[1:])


def test_late_repetitions_are_told_in_one_sentence() -> None:
    place = {"rank": 1, "node": "n1", "title": "rank 1 on n1"}
    lates = [place | {"repetition": number, "seconds": 2.0 * number, "ratio": 1.0 * number} for number in (2, 3)]
    told = [f"Repetition {number} of the write took {2.0 * number} s, {number} times the median." for number in (2, 3)]
    several = result(measurement(late_repetitions=lates), warnings=["The clocks differ.", *told])
    assert several.warnings_by_kind == [
        "The clocks differ.",
        "2 repetitions took over 1.5 times the median of their measurement: at worst repetition 3 of the write, 3.0 "
        "times. It waited for rank 1 on n1. Bandwidths are medians and do not show them.",
    ]
    profile = profile_of(several)
    assert profile.measured is not None
    assert profile.measured.warnings == tuple(several.warnings_by_kind)
    one = result(measurement(late_repetitions=lates[:1]), warnings=told[:1])
    assert one.warnings_by_kind == told[:1]


def test_the_rate_is_the_total_over_the_median_time() -> None:
    assert Measurement.model_validate(measurement()).bytes_per_second == 1e9


@pytest.mark.parametrize(
    "changed",
    [
        {"bytes_per_second": 1.01e9},
        {"rank_seconds": [[1.0, 2.0]]},
        {"rank_seconds": [[1.0], [1.0], [1.0]]},
        {"first_done_seconds": [1.0]},
        {"first_done_seconds": [1.0, 1.1, 2.0]},
        {"rank_seconds": [[1.0, 2.0], [0.5, 1.1], [2.0, 4.0]]},
        {"bytes_per_rank": 2 * 10**9},
        {"bytes_per_rank": "1000000000"},
        {"num_nodes": True},
        {"verified": "yes"},
        {"seconds": []},
        {"seconds": [0.0, 1.0, 2.0]},
        {"seconds": [float("nan"), 1.0, 2.0]},
        {"num_ranks": 0},
        {"operation": "erase"},
        {"cache_policy": "hopefully-cold"},
        {"note": "x"},
        {"rank_bytes": [10**9]},
        {"rank_bytes": [10**9, 10**9 + 1]},
        {"client_cpu_fraction": 1.01},
        {"software_tax_fraction": 1.0},
        {"straggler_ratio": 0.9},
        {"limited_by": "moon"},
        {"limit_probabilities": {"storage": 1.1}},
        {"phase_seconds": {"write": -1.0}},
        {"rate_interval_bytes_per_second": [1e9]},
    ],
)
def test_a_document_that_contradicts_itself_is_refused(changed: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Measurement.model_validate(measurement() | changed)


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"num_nodes": 3}, "has num_nodes 3 above num_ranks 2: a node takes part by its ranks"),
        ({"num_ranks": 1}, "has num_ranks 1 and a repetition with 2 entries in rank_seconds"),
        ({"first_done_seconds": [1.0]}, "in seconds, first_done_seconds and rank_seconds, and has 3, 1, 3"),
    ],
)
def test_a_refusal_says_which_numbers_contradict_each_other(changed: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValidationError) as refused:
        Measurement.model_validate(measurement() | changed)
    assert sentence in str(explain(refused.value, Measurement))


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"schema_version": True}, "schema_version must be a whole number, got true: give a whole number."),
        ({"started_at": []}, "started_at must be a date and time, got []: write it as in 2026-11-21T12:00:00Z."),
        (
            {"measurements": [measurement(limit_probabilities={"moon": 1.0})]},
            "measurements.0.limit_probabilities.moon must be one of 'storage', 'client', 'network' or 'generator', "
            "got 'moon': choose one of these.",
        ),
    ],
)
def test_a_refusal_names_the_field_and_its_rule(changed: dict[str, Any], sentence: str) -> None:
    document = result(measurement()).model_dump(mode="json") | changed
    with pytest.raises(ValidationError) as refused:
        BenchmarkResult.model_validate(document)
    assert str(explain(refused.value, BenchmarkResult)) == sentence


def test_what_was_not_measured_is_null_and_old_documents_still_read() -> None:
    old = Measurement.model_validate(measurement())
    assert (old.num_files, old.limited_by, old.rate_interval_bytes_per_second) == (None, None, None)
    new = measurement(rank_bytes=[10**9, 10**9], rate_interval_bytes_per_second=[0.9e9, 1.1e9], limited_by="storage")
    assert Measurement.model_validate_json(Measurement.model_validate(new).model_dump_json()).limited_by == "storage"


def test_another_schema_version_is_refused() -> None:
    with pytest.raises(ValidationError):
        result(measurement(), schema_version=2)


def test_a_profile_takes_write_and_read_from_their_own_measurements() -> None:
    profile = profile_of(result(measurement(), measurement("restore", (0.5, 0.5, 0.5))))
    assert profile.write.file_system_bytes_per_second == 1e9
    assert profile.read.file_system_bytes_per_second == 4e9
    assert profile.write.node_bytes_per_second is None


def test_a_read_that_may_have_come_from_memory_is_no_storage_rate() -> None:
    profile = profile_of(result(measurement(), measurement("restore", cache_policy="cached")))
    assert profile.read.file_system_bytes_per_second is None


def test_the_warnings_of_the_run_reach_the_report() -> None:
    measured = result(measurement(), measurement("restore", cache_policy="cached"), warnings=["the run was short"])
    profile = profile_of(measured).model_dump(exclude_none=True)
    document = {"model": {"preset": "gpt2"}, "parallelism": {"tensor": 2}, "storage": {"profile": profile}}
    warnings = " ".join(answer(scenario_from(document)).warnings)
    assert "run run-1: the run was short" in warnings
    assert "left out: 1 restore measurement(s) may have come from the page cache" in warnings
    assert "measured with" not in warnings


def test_a_run_without_a_verified_write_gives_no_profile() -> None:
    with pytest.raises(InvalidInput, match="must hold a verified, steady write"):
        profile_of(result(measurement(verified=False)))


def test_a_measured_profile_sizes_and_says_how_little_of_the_cluster_it_saw() -> None:
    profile = profile_of(result(measurement(), measurement("restore")))
    report = answer(
        scenario_from(
            {
                "model": {"num_parameters": 10**9},
                "parallelism": {"tensor": 8, "pipeline": 2},
                "checkpoint": {"format": "megatron"},
                "storage": {"profile": profile.model_dump(exclude_none=True)},
            }
        )
    )
    assert report.write is not None
    assert report.write.seconds == pytest.approx(14.0)
    warning = "measured with 2 rank(s) on 1 node(s), and here 16 write from 2"
    assert any(warning in found for found in report.warnings)
