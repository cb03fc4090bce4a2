"""Runs that cannot be fitted are refused or left out, and the sentence says which are missing."""

from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import ValidationError

import sizing
from sizing.errors import InvalidInput
from sizing.report import answer
from sizing.scenario import scenario_from
from sizing.storage.calibration import Calibration, calibrate
from sizing.storage.calibration.calibration import UseGrade
from sizing.storage.measurement import BenchmarkResult, median_bytes_per_second
from tests.sizing.storage.calibration.simulation import FULL_SCAN, GB, TRUTH, result

ENVIRONMENT = {
    "target": "s3://bucket-a/one",
    "versions": {"checkpoint-sizing": sizing.__version__, "torch": "2.13.0"},
    "nodes": {"n1": {"kernel": "6.1", "mount": {"type": "lustre", "options": "rw", "device": "fs1"}}},
}


def test_one_configuration_is_refused_and_named() -> None:
    with pytest.raises(
        InvalidInput, match=r"at least 3 configurations.*1 node\(s\) x 1 rank\(s\), 1.000 GB each.*ckpt-bench scan"
    ):
        calibrate([result([(1, 1, GB)])])


@pytest.mark.parametrize(
    ("cell", "launch", "writers"),
    [
        ((1, 2, 16 * GB), "for example ckpt-bench scan", "1,2,3"),
        (
            (8, 4, 16 * GB),
            "on each of 8 nodes, with its number from 0 as NODE_RANK and the name of node 0 as FIRST_NODE, for example "
            "torchrun --nnodes 8 --node-rank NODE_RANK --nproc-per-node 4 --master-addr FIRST_NODE -m io_bench scan",
            "1,2,4",
        ),
    ],
)
def test_what_to_measure_needs_no_more_nodes_than_were_there(
    cell: tuple[int, int, int], launch: str, writers: str
) -> None:
    run = result([cell]).model_copy(update={"environment": {"target": "/mnt/checkpoints"}})
    with pytest.raises(InvalidInput) as refused:
        calibrate([run])
    assert str(refused.value).endswith(
        f"{launch} --target /mnt/checkpoints --engine direct --writers {writers} --bytes-per-rank 16GB,48GB."
    )


def test_what_to_measure_has_the_size_of_the_run_or_a_multiple_that_takes_long_enough() -> None:
    """A rank writes 33 MB of files in 0.38 s, and 32 MiB of payload: 14 times as much takes 5 s."""
    run = result([(1, 1, 33 * 10**6)], operations=["write"], payload_bytes_per_rank=32 << 20).model_dump()
    (found,) = run["measurements"]
    for seconds, sizes in ((0.38, "448MiB,1344MiB"), (6.0, "32MiB,96MiB")):
        found |= dict.fromkeys(("seconds", "first_done_seconds"), [seconds] * 3)
        found |= {"rank_seconds": [[seconds]] * 3, "bytes_per_second": 33 * 10**6 / seconds}
        with pytest.raises(InvalidInput, match=f"--bytes-per-rank {sizes}"):
            calibrate([BenchmarkResult.model_validate(run)])


def test_runs_of_one_configuration_stay_one_configuration() -> None:
    runs = [result([(1, 1, GB)], run_id=f"run-{i}") for i in range(5)]
    with pytest.raises(InvalidInput, match="at least 3 configurations"):
        calibrate(runs)


def test_copies_of_one_run_count_once_and_are_named() -> None:
    """A copy in the folder would narrow every interval, and tell nothing."""
    once, thrice = calibrate([result()], num_draws=50), calibrate([result()] * 3, num_draws=50)
    assert thrice.warnings == ("run 20261121T120000Z-abc was given 3 times and counts once", *once.warnings)
    assert thrice.model_copy(update={"warnings": once.warnings}) == once


def test_documents_of_one_id_that_differ_are_refused() -> None:
    with pytest.raises(InvalidInput, match=r"run_id must differ between .*'20261121T120000Z-abc'.*was changed"):
        calibrate([result(), result(seed=1)])


def test_no_result_at_all_is_refused() -> None:
    with pytest.raises(InvalidInput, match="found none"):
        calibrate([])


def test_rates_that_contradict_each_other_are_refused_with_both_runs() -> None:
    other = result(operations=["write"], run_id="slow-run").model_dump()
    for found in other["measurements"]:
        for key in ("seconds", "first_done_seconds"):
            found[key] = [10 * s for s in found[key]]
        found["rank_seconds"] = [[10 * s for s in row] for row in found["rank_seconds"]]
        found["bytes_per_second"] /= 10
    slow = type(result()).model_validate(other)
    with pytest.raises(InvalidInput, match=r"contradict each other.*run 20261121T120000Z-abc.*run slow-run"):
        calibrate([result(operations=["write"]), slow])


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"verified": False}, "failed verification"),
        ({"cache_policy": "cached"}, "page cache"),
        ({"limited_by": "generator"}, "waited for the payload generator"),
    ],
)
def test_measurements_that_say_nothing_of_the_storage_are_left_out_and_named(
    changed: dict[str, Any], reason: str
) -> None:
    with pytest.raises(InvalidInput, match=reason):
        calibrate([result(operations=["write"], **changed)])
    mixed = calibrate([result(), result(FULL_SCAN[:4], run_id="run-2", **changed)], num_draws=50)
    assert any(reason in warning for warning in mixed.warnings)
    assert mixed.run_ids == ("20261121T120000Z-abc",)


def test_where_verification_failed_the_remedy_is_to_verify_and_not_to_measure_more() -> None:
    with pytest.raises(
        InvalidInput, match=r"failed verification.*do not use this storage until ckpt-bench verify passes"
    ):
        calibrate([result(verified=False)])


def test_where_some_measurements_failed_verification_no_use_has_a_better_grade_than_d() -> None:
    reads = result(operations=["restore"], verified=False).measurements
    corrupt = result(operations=["write"])
    found = calibrate([corrupt.model_copy(update={"measurements": [*corrupt.measurements, *reads]})], num_draws=50)
    sentence = "40 of 80 measurements failed verification: do not use this storage until ckpt-bench verify passes"
    assert found.warnings[0] == sentence
    assert found.inside is not None
    assert found.beyond is not None
    for use in (found.inside, found.beyond):
        assert (use.grade, use.reasons[0]) == ("D", sentence)
    whole = calibrate([corrupt], num_draws=50)
    assert whole.inside is not None
    assert whole.inside.grade != "D"


def test_one_size_is_said_once_of_writes_and_restores_together() -> None:
    found = calibrate([result([cell for cell in FULL_SCAN if cell[2] == GB])], num_draws=50)
    said = [reason for reason in found.grade_reasons if reason.startswith("One size")]
    assert [reason.partition(",")[0] for reason in said] == [
        "One size: all writes and restores moved about 1.000 GB per rank"
    ]


def test_what_the_client_limited_is_fitted_and_named() -> None:
    found = calibrate([result(operations=["write"], limited_by="client")], num_draws=50)
    assert any("were limited by the client" in warning for warning in found.warnings)


def test_threads_that_an_engine_saves_on_small_files_do_not_part_the_runs() -> None:
    small, large = ([cell for cell in FULL_SCAN if (cell[2] == GB) == is_small] for is_small in (True, False))
    runs = [result(small, threads_per_rank=2), result(large, threads_per_rank=4, run_id="run-2")]
    fit = calibrate(runs, num_draws=50).write
    assert fit is not None
    assert fit.num_configurations == len(FULL_SCAN)


def test_of_several_numbers_of_threads_the_fastest_counts() -> None:
    half = TRUTH.with_rates("write", writer_bytes_per_second=0.5e9)
    runs = [
        result(threads_per_rank=4, operations=["write"], noise=0.02, outliers=0),
        result(truth=half, threads_per_rank=1, operations=["write"], noise=0.02, outliers=0, run_id="run-2"),
    ]
    found = calibrate(runs, num_draws=50)
    assert found.profile.write.writer_bytes_per_second == pytest.approx(1.1e9, rel=0.05)
    assert any("another number of threads and were slower" in warning for warning in found.warnings)


def fill_cache(found: dict[str, Any], *, after_bytes: int) -> None:
    """Of five repetitions three find room in a cache: the median is the cache's, a fifth of it what goes on."""
    fast = found["bytes_per_second"]
    fall = {"after_bytes": after_bytes, "before_bytes_per_second": fast, "after_bytes_per_second": fast / 5}
    found["rank_seconds"][3:] = [[5 * s for s in row] for row in found["rank_seconds"][3:]]
    found["seconds"] = found["first_done_seconds"] = [max(row) for row in found["rank_seconds"]]
    found["bytes_per_second"] = median_bytes_per_second(found["total_bytes"], found["seconds"])
    found |= {"sustained_bytes_per_second": fast / 5, "rate_changes": [fall], "is_steady": True}


def test_writes_that_fell_count_with_the_rate_that_went_on_and_not_with_their_median() -> None:
    document = result(operations=["write"], noise=0.02, outliers=0).model_dump()
    for found in document["measurements"]:
        fill_cache(found, after_bytes=1)
    calibration = calibrate([BenchmarkResult.model_validate(document)], num_draws=50)
    for field in ("file_system_bytes_per_second", "node_bytes_per_second", "writer_bytes_per_second"):
        assert getattr(calibration.profile.write, field) == pytest.approx(getattr(TRUTH.write, field) / 5, rel=0.05)
    assert calibration.write is not None
    assert calibration.write.noise_fraction < 0.05, "no noise of the cache's and the storage's repetitions together"
    assert any("40 write measurement(s) fell to a lower rate" in warning for warning in calibration.warnings)


def test_writes_that_fitted_into_the_cache_that_others_filled_say_nothing_of_the_storage() -> None:
    """A cache of 100 GB: with the warm-up six repetitions fill it from 17 GB on."""
    document = result(operations=["write"], noise=0.02, outliers=0).model_dump()
    full = [found for found in document["measurements"] if 6 * found["total_bytes"] >= 100 * GB]
    for found in full:
        fill_cache(found, after_bytes=100 * GB)
    calibration = calibrate([BenchmarkResult.model_validate(document)], num_draws=50)
    assert calibration.write is not None
    assert calibration.write.num_configurations == len(full) < 40
    assert calibration.profile.write.node_bytes_per_second == pytest.approx(8e9 / 5, rel=0.05)
    assert (
        f"left out: {40 - len(full)} write measurement(s) moved less in all repetitions than the 100.0 GB after which "
        "others fell"
    ) in calibration.warnings


def test_cold_reads_are_fitted_together_however_the_page_cache_was_kept_out() -> None:
    one, several = ([cell for cell in FULL_SCAN if (cell[0] == 1) == is_one] for is_one in (True, False))
    runs = [
        result(one, cache_policy="fadvise-dontneed", operations=["restore"]),
        result(several, cache_policy="other-node", operations=["restore"], run_id="run-2"),
    ]
    fit = calibrate(runs, num_draws=50).read
    assert fit is not None
    assert fit.num_configurations == len(FULL_SCAN)


def test_other_engines_and_settings_are_left_out_and_named() -> None:
    other = result(FULL_SCAN[:10], engine="torch-save", run_id="run-2")
    found = calibrate([result(), other], num_draws=50)
    assert found.engine == "direct"
    assert any("have other settings (torch-save, direct I/O)" in warning for warning in found.warnings)
    assert calibrate([result(), other], engine="torch-save", num_draws=50).engine == "torch-save"


@pytest.mark.parametrize(
    ("changed", "doubt"),
    [
        ({"versions": {"checkpoint-sizing": sizing.__version__, "torch": "2.8.0"}}, "version of torch is 2.13.0"),
        ({"nodes": {"n1": {"kernel": "6.9"}}}, "kernel is 6.1"),
        ({"nodes": {"n1": {"mount": {"type": "lustre", "options": "rw,flock"}}}}, "mount options is rw"),
        (
            {"target": "gs://bucket-b/one"},
            "object store is s3://bucket-a (run 20261121T120000Z-abc), gs://bucket-b (run",
        ),
        ({"target": "s3://bucket-a/one,s3://bucket-b/one"}, "s3://bucket-a and s3://bucket-b (run run-2)"),
        ({"target": "s3+https://host:9000/bucket/one"}, "s3+https://host:9000/bucket (run run-2)"),
        ({"versions": {"checkpoint-sizing": "0.0.1"}}, "stale runs: measured by version 0.0.1"),
    ],
)
def test_mixed_and_stale_runs_are_named_and_cost_a_grade(changed: dict[str, Any], doubt: str) -> None:
    one = result(noise=0.02, outliers=0, operations=["write"]).model_copy(update={"environment": ENVIRONMENT})
    other = result(noise=0.02, outliers=0, seed=1, run_id="run-2", operations=["write"])
    other = other.model_copy(update={"environment": ENVIRONMENT | changed})
    assert calibrate([one], num_draws=50).inside == UseGrade(grade="A")
    found = calibrate([one, other], num_draws=50)
    assert any(doubt in warning for warning in found.warnings), found.warnings
    assert found.inside is not None
    assert found.inside.grade == "B"


def test_places_within_one_bucket_are_one_store() -> None:
    runs = [
        result(seed=seed, run_id=f"run-{seed}", operations=["write"]).model_copy(
            update={"environment": {"target": f"s3://bucket/{seed}"}}
        )
        for seed in range(2)
    ]
    assert not any("mixed runs" in warning for warning in calibrate(runs, num_draws=50).warnings)


def test_runs_months_apart_are_stale() -> None:
    old = result(run_id="run-2", seed=1).model_copy(update={"started_at": datetime(2026, 6, 1, tzinfo=UTC)})
    found = calibrate([old, result()], num_draws=50)
    assert "stale runs: the oldest is of 2026-06-01, the latest of 2026-11-21" in found.warnings
    assert str(found.measured_on) == "2026-11-21"


def test_too_few_reads_are_named_and_the_writes_are_still_fitted() -> None:
    both = [result(operations=["write"]), result(FULL_SCAN[:2], operations=["restore"], run_id="run-2")]
    found = calibrate(both, num_draws=50)
    assert found.read is None
    assert any("No restore limits: 2 usable configuration(s), 3 are required" in warning for warning in found.warnings)


def scenario(calibration: object) -> dict[str, Any]:
    return {"model": {"preset": "gpt2"}, "storage": {"calibration": calibration}}


def test_a_scenario_takes_a_calibration_and_survives_json() -> None:
    found = calibrate([result()], num_draws=50)
    assert Calibration.model_validate_json(found.model_dump_json()) == found
    report = answer(scenario_from(scenario(found.model_dump(mode="json"))))
    assert report.write is not None
    assert report.write.bottleneck == "writer"


def test_an_id_passes_into_a_scenario_but_only_a_service_can_answer_it() -> None:
    asked = scenario_from(scenario("cal-7"))
    with pytest.raises(InvalidInput, match=r"storage\.calibration is the id of a stored calibration.*'cal-7'"):
        answer(asked)


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        ("", "storage.calibration must have 1 to 100 characters"),
        (7, "storage.calibration must be an object, got 7"),
        ({}, "storage.calibration.profile is required"),
    ],
)
def test_what_is_no_calibration_is_refused_in_one_sentence(value: object, sentence: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        scenario_from(scenario(value))
    assert sentence in str(refused.value)


def test_draws_and_points_are_bounded() -> None:
    document = calibrate([result()], num_draws=50).model_dump(mode="json")
    document["write"]["draws"]["fixed_write_seconds"] = [1.0] * 1001
    with pytest.raises(ValidationError, match="at most 1000"):
        Calibration.model_validate(document)
