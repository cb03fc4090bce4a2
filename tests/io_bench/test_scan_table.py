from __future__ import annotations

import io
from typing import Any

from rich.console import Console

from io_bench.measure.configuration import Configuration
from io_bench.results.doubts import warnings_about
from io_bench.results.scan_table import scan_sentences, scan_table
from io_bench.results.software_tax import with_software_tax
from sizing.storage.measurement import BenchmarkResult, Measurement
from tests.io_bench.test_result_table import RESULT


def measurement(operation: str, engine: str, ranks: int, rate: float, **more: Any) -> Measurement:
    document = {
        "engine": engine,
        "operation": operation,
        "num_nodes": 1,
        "num_ranks": ranks,
        "bytes_per_rank": 1 << 30,
        "total_bytes": ranks << 30,
        "seconds": [(ranks << 30) / rate],
        "bytes_per_second": rate,
        "first_done_seconds": [0.1],
        "rank_seconds": [[0.1] * ranks],
        "cache_policy": "o-direct",
        "verified": True,
    }
    return Measurement.model_validate(document | more)


def scan_of(*measurements: Measurement) -> BenchmarkResult:
    return RESULT.model_copy(update={"measurements": list(measurements)})


SCAN = scan_of(
    measurement("write", "direct", 2, 3e9, limited_by="storage"),
    measurement("restore", "direct", 2, 4e9),
    measurement("write", "direct", 1, 2e9, limited_by="storage"),
    measurement("restore", "direct", 1, 5e9),
    measurement("write", "torch-save", 2, 0.6e9, limited_by="client", software_tax_fraction=0.8),
    measurement("restore", "torch-save", 2, 9e9, cache_policy="cached"),
)


def rows(result: BenchmarkResult) -> list[list[str]]:
    console = Console(width=130, record=True, file=io.StringIO())
    console.print(scan_table(result))
    lines = [line for line in console.export_text().splitlines() if line.startswith(("┃", "│"))]
    return [[cell.strip() for cell in line.strip("┃│").replace("┃", "│").split("│")] for line in lines]


def test_a_write_that_fell_is_a_warning_of_a_scan_as_of_a_run() -> None:
    change = {"after_bytes": 270 * 10**6, "before_bytes_per_second": 2e9, "after_bytes_per_second": 142e6}
    write = measurement("write", "direct", 2, 1e9, rate_changes=[change], sustained_bytes_per_second=140e6)
    (warning,) = (each for each in warnings_about(write) if "fell" in each)
    assert warning == (
        "After 270.0 MB (257.5 MiB) the write fell from 2.000 GB/s to 142.0 MB/s, as where a cache is full. "
        "Sustained: 140.0 MB/s. This is the bandwidth in the table."
    )


def test_a_row_has_write_and_restore_of_a_configuration_sorted_by_engine_and_ranks() -> None:
    assert rows(SCAN) == [
        ["engine", "ranks", "write", "restore", "limit", "tax"],
        ["direct", "1", "2.000 GB/s", "5.000 GB/s", "storage", ""],
        ["direct", "2", "3.000 GB/s", "4.000 GB/s", "storage", ""],
        ["torch-save", "2", "600.0 MB/s", "(9.000 GB/s)", "client", "80.0 %"],
    ]
    assert str(scan_table(SCAN).caption).endswith("; in brackets: from the page cache")
    assert "page cache" not in str(scan_table(scan_of(*SCAN.measurements[:4])).caption)
    assert str(scan_table(SCAN).title) == "Scan r, nodes 1, per rank 1.000 GiB"


def test_what_is_varied_has_a_column() -> None:
    varied = scan_of(
        measurement("write", "direct", 1, 1e9, block_bytes=4 << 20, num_nodes=1),
        measurement("write", "direct", 2, 2e9, block_bytes=8 << 20, num_nodes=2),
    )
    assert rows(varied) == [
        ["engine", "nodes", "ranks", "block", "write"],
        ["direct", "1", "1", "4.000 MiB", "1.000 GB/s"],
        ["direct", "2", "2", "8.000 MiB", "2.000 GB/s"],
    ]


def test_the_words_name_the_fastest_that_came_from_storage_and_whether_more_ranks_might_help() -> None:
    assert scan_sentences(SCAN) == [
        "The fastest write was 3.000 GB/s: direct, 2 ranks on 1 node.",
        "This was the max number of ranks of any write: more ranks or nodes may be faster.",
        "The fastest restore was 5.000 GB/s: direct, 1 rank on 1 node.",
    ]


def test_the_tax_of_a_format_is_measured_against_the_best_direct_rate_of_the_same_load() -> None:
    def configuration(engine: str, **more: Any) -> Configuration:
        return Configuration(engine=engine, num_nodes=1, writers_per_node=2, bytes_per_rank=1 << 30, **more)

    rows = [
        (configuration("direct", block_bytes=4 << 20), measurement("write", "direct", 2, 2e9)),
        (configuration("direct", block_bytes=8 << 20), measurement("write", "direct", 2, 4e9)),
        (configuration("dcp"), measurement("write", "dcp", 2, 1e9)),
        (configuration("dcp"), measurement("restore", "dcp", 2, 1e9)),
        (configuration("dcp").model_copy(update={"writers_per_node": 1}), measurement("write", "dcp", 1, 1e9)),
    ]
    assert [m.software_tax_fraction for m in with_software_tax(rows)] == [None, None, 0.75, None, None]


def test_a_format_is_the_limit_where_direct_gets_more_out_of_the_same_storage() -> None:
    configuration = Configuration(engine="direct", num_nodes=1, writers_per_node=2, bytes_per_rank=1 << 30)
    other = configuration.model_copy(update={"engine": "dcp"})
    for rate, limit in ((0.95e9, "storage"), (0.85e9, "client")):
        rows = [
            (configuration, measurement("write", "direct", 2, 1e9, limited_by="storage")),
            (other, measurement("write", "dcp", 2, rate, limited_by="storage")),
        ]
        assert [m.limited_by for m in with_software_tax(rows)] == ["storage", limit]


def test_what_came_from_memory_has_no_tax_and_sets_none() -> None:
    configuration = Configuration(engine="direct", num_nodes=1, writers_per_node=2, bytes_per_rank=1 << 30)
    other = configuration.model_copy(update={"engine": "dcp"})
    for raw, measured in (("o-direct", "cached"), ("cached", "fadvise-dontneed")):
        rows = [
            (configuration, measurement("restore", "direct", 2, 2e9, cache_policy=raw)),
            (other, measurement("restore", "dcp", 2, 9e9, cache_policy=measured)),
        ]
        assert [m.software_tax_fraction for m in with_software_tax(rows)] == [None, None]
