from __future__ import annotations

import io
import re
from pathlib import Path

from rich.console import Console

from io_bench.results.result_table import result_table, sentences
from sizing.storage.measurement import BenchmarkResult
from tests.io_bench.conftest import REPOSITORY, Bench

RESULT = BenchmarkResult.model_validate(
    {
        "run_id": "r",
        "command": [],
        "environment": {},
        "warnings": [],
        "measurements": [
            {
                "engine": "torch-save",
                "operation": "restore",
                "num_nodes": 2,
                "num_ranks": 4,
                "bytes_per_rank": 20 * 10**9,
                "total_bytes": 80 * 10**9,
                "seconds": [8.0, 10.0, 16.0],
                "bytes_per_second": 8e9,
                "first_done_seconds": [6.0, 7.5, 15.0],
                "rank_seconds": [[6.0, 7.0, 7.0, 8.0], [7.5, 8.0, 8.0, 10.0], [15.0, 15.0, 15.0, 16.0]],
                "cache_policy": "fadvise-dontneed",
                "verified": True,
            }
        ],
    }
)


def test_the_table_has_first_and_last_done_as_medians_and_the_range_of_the_slowest() -> None:
    console = Console(width=120, record=True, file=io.StringIO())
    console.print(result_table(RESULT))
    row = console.export_text().splitlines()[4]
    assert [cell.strip() for cell in row.strip("│").split("│")] == [
        "restore",
        "7.50 s",
        "10.00 s",
        "8.00 s",
        "16.00 s",
        "8.000 GB/s",
        "",
        "",
    ]


def test_the_words_say_how_sure_the_rate_is_and_that_the_client_was_not_the_limit() -> None:
    more = {
        "operation": "write",
        "rate_interval_bytes_per_second": (7e9, 9e9),
        "limited_by": "storage",
        "null_sink_bytes_per_second": 30e9,
    }
    measurement = RESULT.measurements[0].model_copy(update=more)
    first, second, _ = sentences(RESULT.model_copy(update={"measurements": [measurement]}))
    assert "8.000 GB/s (95 % interval 7.000 GB/s to 9.000 GB/s), 2.000 GB/s per rank" in first
    assert (
        second
        == "The storage as torch-save uses it was the limit, not this client: with writes discarded, the client reaches 30.00 GB/s."
    )


def test_the_words_say_who_moved_what_how_fast_and_who_waited() -> None:
    first, second = sentences(RESULT)
    assert first.startswith(
        "4 ranks on 2 nodes restored 80.00 GB (74.51 GiB) from the target in 10.00 s, the median of "
        "3 repetitions: 8.000 GB/s, 2.000 GB/s per rank."
    )
    assert second == "The fastest rank finished 25.0 % before the slowest; the job waits for the slowest."


def test_an_asynchronous_save_says_how_long_training_stands_still() -> None:
    write = RESULT.measurements[0].model_copy(update={"operation": "write", "stall_seconds": 0.5, "drain_seconds": 9.5})
    said = sentences(RESULT.model_copy(update={"measurements": [write]}))
    assert any("stalls for 500.0 ms" in sentence and "drain takes 9.50 s more" in sentence for sentence in said)


def test_the_tour_shows_what_a_run_prints(bench: Bench, target: Path) -> None:
    """Numbers aside. Whether storage is the limit of a small run is not certain, so that line comes from a result."""
    tour = (REPOSITORY / "docs" / "tour.md").read_text()
    block = re.search(r"^\$ ckpt-bench run .*\n((?:[^$\n].*\n)+)", tour, re.MULTILINE)
    assert block is not None
    flags = ["--target", str(target), "--ranks", "2", "--bytes-per-rank", "4MiB", "--repetitions", "2"]
    done = bench.run("run", *flags, "--output", "result.json")
    assert done.returncode == 0, done.stderr
    limited = {"engine": "direct", "operation": "write", "limited_by": "storage", "null_sink_bytes_per_second": 30e9}
    measurement = RESULT.measurements[0].model_copy(update=limited)
    said = " ".join([done.stderr, done.stdout, *sentences(RESULT.model_copy(update={"measurements": [measurement]}))])
    printed = without_numbers(re.sub("[│┃]", "", said).replace(str(bench.directory), "/home/ada"))
    shown = [without_numbers(line.removesuffix("...")) for line in block[1].splitlines()]
    assert [line for line in shown if line not in printed] == []


def without_numbers(text: str) -> str:
    """A text on one line, with a sign in place of each number and its unit."""
    return " ".join(re.sub(r"\d[\d.]*( ([kMGT]?i?B(/s)?|m?s|µs)\b)?", "#", text).split())
