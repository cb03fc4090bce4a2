"""Published failure rates by name: each is what its source says, and is doubted for much smaller jobs."""

from collections.abc import Callable
from typing import Any

import pytest

from sizing.errors import InvalidInput
from sizing.published import published
from sizing.report import SizingReport, answer
from sizing.run.failure_rates import GPUS_PER_NODE, published_rates, rate_warnings
from sizing.run.failures import Reliability

HOUR = 3600.0


def row(system: str) -> dict[str, Any]:
    found: dict[str, Any] = next(row for row in published("failure_rates")["rows"] if row["system"] == system)
    return found


def of_llama(row: dict[str, Any]) -> float:
    return float(row["unexpected_interruptions"] / row["days"] / (row["gpus"] / GPUS_PER_NODE))


def of_rsc(row: dict[str, Any]) -> float:
    return float(row["failures_per_1000_node_days"] / 1000)


def of_opt(row: dict[str, Any]) -> float:
    return float(row["machines_lost_per_day"] / row["nodes"])


def of_bloom(row: dict[str, Any]) -> float:
    low, high = row["gpu_failures_per_week"]
    return float((low + high) / 2 / 7 / (row["gpus_about"] / GPUS_PER_NODE))


SOURCES: dict[str, tuple[str, Callable[[dict[str, Any]], float]]] = {
    "llama-3-405b": ("Llama 3 405B", of_llama),
    "rsc-1": ("Meta RSC-1", of_rsc),
    "rsc-2": ("Meta RSC-2", of_rsc),
    "opt-175b": ("OPT-175B cloud cluster", of_opt),
    "bloom-176b": ("BLOOM, Jean Zay", of_bloom),
}


def answered(name: str, num_gpus: int, **node: Any) -> SizingReport:
    return answer(
        {
            "model": {"preset": "gpt2"},
            "parallelism": {"data": num_gpus},
            "cluster": node or {"node": "dgx-a100"},
            "reliability": {"preset": name},
            "storage": {"profile": {"write_bytes_per_second": "10 GB/s", "read_bytes_per_second": "10 GB/s"}},
        }
    )


def test_every_rate_has_a_source_to_be_held_against() -> None:
    assert list(published_rates()) == list(SOURCES)


@pytest.mark.parametrize("name", SOURCES)
def test_a_rate_is_what_its_source_says(name: str) -> None:
    system, rate_of = SOURCES[name]
    assert published_rates()[name].failures_per_node_day == pytest.approx(rate_of(row(system)), rel=1e-3)
    assert "secondary" not in row(system)["source"]


def test_jobs_of_rsc_1_were_seen_to_fail_as_its_publication_says() -> None:
    seen = {one.job_gpus: one.mttf_seconds for one in published_rates()["rsc-1"].observed}
    rows = row("Meta RSC, MTTF by job size")["rows"]
    measured = {found["job_gpus"]: found["mttf_hours"] * HOUR for found in rows if "measured" in found["kind"]}
    assert seen == pytest.approx(measured)


def test_llama_3s_rate_gives_the_time_to_failure_of_its_job() -> None:
    interval = answered("Llama 3 405B", 16_384).interval
    assert interval.mtbf_seconds == pytest.approx(row("Llama 3 405B")["derived"]["mttf_hours"] * HOUR, rel=1e-3)


@pytest.mark.parametrize(("num_gpus", "hours"), [(8, 3692.308), (1024, 28.846), (16_384, 1.803)])
def test_the_rate_of_rsc_1_is_its_rate_per_node_day(num_gpus: int, hours: float) -> None:
    by_name = Reliability(preset="rsc-1").job_mtbf_seconds(num_nodes=num_gpus // 8, num_gpus=num_gpus)
    by_rate = Reliability(failures_per_node_day=0.0065).job_mtbf_seconds(num_nodes=num_gpus // 8, num_gpus=num_gpus)
    assert by_name == pytest.approx(by_rate)
    assert by_name == pytest.approx(hours * HOUR, rel=1e-3)


def test_on_nodes_of_other_sizes_a_rate_is_taken_per_gpu() -> None:
    small = answered("rsc-2", 64, node_spec={"gpus_per_node": 4}).interval.mtbf_seconds
    assert small == answered("rsc-2", 64).interval.mtbf_seconds


def test_a_rate_of_large_jobs_is_doubted_for_a_small_one_with_what_was_measured() -> None:
    (told,) = [warning for warning in answered("rsc-1", 1024).warnings if "reliability.preset" in warning]
    assert "is the rate of jobs from 16,384 GPUs on, and this one has 1,024" in told
    assert "at 1,024 GPUs once in 7.90 h, where the rate gives 28.85 h" in told
    assert "at 8 GPUs once in 47.7 days, where the rate gives 154 days" in told


@pytest.mark.parametrize(
    ("name", "num_gpus", "is_doubted"),
    [
        ("rsc-1", 8_192, True),
        ("rsc-1", 8_200, False),
        ("llama-3-405b", 16_384, False),
        ("llama-3-405b", 512, True),
        ("opt-175b", 992, False),
        ("bloom-176b", 384, False),
        ("bloom-176b", 8, True),
    ],
)
def test_the_jobs_size_is_compared_with_those_of_the_rate(name: str, num_gpus: int, is_doubted: bool) -> None:
    assert bool(list(rate_warnings(name, num_gpus=num_gpus))) == is_doubted


def test_what_rests_on_a_published_rate_says_so() -> None:
    report = answered("rsc-1", 1024)
    assert not any("no reliability" in origin.source for origin in report.provenance)
    stated = answer(
        {
            "model": {"preset": "gpt2"},
            "checkpoint": {"interval_seconds": 600},
            "targets": {"max_overhead_fraction": 0.05},
            "reliability": {"preset": "rsc-1", "detection_seconds": 0, "relaunch_seconds": 0},
            "storage": {"preset": "local-nvme-raid0-8x-gen5"},
        }
    )
    assert any(origin.source.startswith(("rsc-1", "local-nvme")) for origin in stated.provenance)


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"preset": "rsc-3"}, r"reliability\.preset must be a name of the catalog, got 'rsc-3': the nearest"),
        ({"preset": "rsc-1", "mtbf_seconds": 60}, "must have exactly one of"),
    ],
)
def test_a_name_that_there_is_not_or_a_rate_beside_it_is_refused(fields: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InvalidInput, match=sentence):
        answer({"model": {"preset": "gpt2"}, "reliability": fields})
