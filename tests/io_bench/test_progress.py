"""Progress of runs and scans: how far they are, in how long, and what was best."""

from __future__ import annotations

import io

from rich.console import Console
from rich.progress import Progress

from io_bench.results.scan_table import ScanProgress
from io_bench.terminal import RunProgress
from tests.io_bench.test_result_table import RESULT


def counted(num_steps: int, max_steps: int, num_done: int) -> list[str]:
    lines: list[str] = []
    progress = RunProgress(
        Progress(console=Console(file=io.StringIO()), disable=True), num_steps, max_steps=max_steps, say=lines.append
    )
    for _ in range(num_done):
        progress.begin("writing")
        progress.end(1e9)
    return [line.split(",")[0] for line in lines]


def test_repetitions_until_rates_settle_count_to_the_least_and_the_most() -> None:
    assert counted(12, 102, 14)[11:] == ["12 of 12 to 102", "13 of 102", "14 of 102"]


def test_a_fixed_number_of_repetitions_counts_to_it() -> None:
    assert counted(4, 4, 4) == ["1 of 4", "2 of 4", "3 of 4", "4 of 4"]


def shown(progress: ScanProgress) -> str:
    console = Console(width=120, file=io.StringIO(), record=True)
    console.print(progress)
    return console.export_text()


def test_the_view_says_how_far_how_long_what_runs_and_what_was_best() -> None:
    now = [100.0]
    progress = ScanProgress([100, 300, 0], num_steps=2, num_done=3, clock=lambda: now[0])
    assert "3/6" in shown(progress)
    progress.begin_configuration("direct, 1 node x 1")
    progress.begin("writing")
    now[0] = 110.0
    progress.end(2e9)
    progress.begin("restoring")
    text = shown(progress)
    assert "4/6" in text
    assert "10.00 s so far, 70.00 s left" in text  # 50 of 400 bytes in 10 s
    assert "direct, 1 node x 1: restoring 2.000 GB/s" in text
    line = progress.end_configuration(RESULT.measurements)
    assert line == "4/6  direct, 1 node x 1: restore 8.000 GB/s, 30.00 s left"
    assert "best restore 8.000 GB/s: direct, 1 node x 1" in shown(progress)
    progress.begin_configuration("slower")
    slower = RESULT.measurements[0].model_copy(update={"bytes_per_second": 1e9})
    assert progress.end_configuration([slower]) == "5/6  slower: restore 1.000 GB/s"
    assert "best restore 8.000 GB/s: direct, 1 node x 1" in shown(progress)
    progress.begin_configuration("warm")
    warm = slower.model_copy(update={"bytes_per_second": 9e9, "cache_policy": "cached"})
    assert progress.end_configuration([warm]).endswith("warm: restore 9.000 GB/s from the page cache")
    assert "best restore 8.000 GB/s: direct, 1 node x 1" in shown(progress)
