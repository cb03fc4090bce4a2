"""A scan's chart has a panel per operation, a line per thing compared, and draws."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from typing import Any

from sizing.present.rendering import render_svg
from sizing.present.scan import scan_chart, series_name
from sizing.storage.measurement import BenchmarkResult, Operation


def measurement(operation: Operation, ranks: int, engine: str, **more: Any) -> dict[str, Any]:
    rate = ranks * 1e9
    return {
        "engine": engine,
        "operation": operation,
        "num_nodes": 1,
        "num_ranks": ranks,
        "bytes_per_rank": 10**9,
        "total_bytes": ranks * 10**9,
        "seconds": [1.0],
        "bytes_per_second": rate,
        "first_done_seconds": [1.0],
        "rank_seconds": [[1.0] * ranks],
        "cache_policy": "o-direct",
        "verified": True,
        "rate_interval_bytes_per_second": [0.9 * rate, 1.2 * rate],
    } | more


def result(*measurements: dict[str, Any]) -> BenchmarkResult:
    head = {"run_id": "r", "command": [], "environment": {}, "warnings": []}
    return BenchmarkResult.model_validate(head | {"measurements": list(measurements)})


SCAN = result(
    *(
        measurement(operation, ranks, engine, block_bytes=block)
        for operation in ("write", "restore")
        for ranks in (1, 2, 4)
        for engine, block in (("direct", 4 << 20), ("direct", 8 << 20), ("torch-save", None))
    )
)


def test_lines_are_named_by_what_differs_between_them() -> None:
    names = {series_name(m, SCAN.measurements) for m in SCAN.measurements}
    assert names == {"direct, blocks of 4.000 MiB", "direct, blocks of 8.000 MiB", "torch-save"}
    sizes = result(*(measurement("write", 1, "direct", payload_bytes_per_rank=n << 20) for n in (1, 2)))
    assert [series_name(m, sizes.measurements) for m in sizes.measurements] == [
        "direct, 1.000 MiB",
        "direct, 2.000 MiB",
    ]


def test_each_operation_has_a_panel_with_a_point_and_a_whisker_per_configuration() -> None:
    panels = scan_chart(SCAN)["vconcat"]
    assert len(panels) == 2
    for panel in panels:
        assert len(panel["data"]["values"]) == 9
        for row in panel["data"]["values"]:
            assert row["low_bytes_per_second"] < row["bytes_per_second"] < row["high_bytes_per_second"]
    assert len(scan_chart(result(measurement("write", 1, "direct")))["vconcat"]) == 1


def test_what_came_from_memory_is_not_drawn() -> None:
    warm = result(
        measurement("write", 1, "direct"),
        measurement("restore", 1, "direct"),
        measurement("restore", 2, "direct", cache_policy="cached"),
    )
    drawn = scan_chart(warm)
    assert [len(panel["data"]["values"]) for panel in drawn["vconcat"]] == [1, 1]
    assert "1 from the page cache not drawn" in str(drawn["title"])
    assert "from memory" not in str(scan_chart(SCAN)["title"])


def test_it_draws_with_its_labels() -> None:
    text = " ".join(ET.fromstring(render_svg(scan_chart(SCAN))).itertext())  # noqa: S314 - our own
    for label in ("torch-save", "blocks of 8.000 MiB", "GB/s", "write, all ranks together", "active ranks"):
        assert label in text
