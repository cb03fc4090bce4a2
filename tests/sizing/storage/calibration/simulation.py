"""Results of a storage system whose limits are known, with noise, outliers and repetitions."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from sizing.storage.limits import transfer
from sizing.storage.measurement import BenchmarkResult, median_bytes_per_second
from sizing.storage.profile import StorageProfile
from sizing.storage.rates import Rates
from sizing.storage.terms import Demand

GB = 10**9

TRUTH = StorageProfile.of(
    write=Rates(
        file_system_bytes_per_second=40e9, node_bytes_per_second=8e9, writer_bytes_per_second=1.1e9, fixed_seconds=0.1
    ),
    read=Rates(
        file_system_bytes_per_second=60e9, node_bytes_per_second=12e9, writer_bytes_per_second=3e9, fixed_seconds=0.1
    ),
)
"""The writes are those of the synthetic scan that the method was first tried on."""

Cell = tuple[int, int, int]
"""Nodes, ranks per node, bytes per rank."""

FULL_SCAN: tuple[Cell, ...] = tuple(itertools.product((1, 2, 4, 8), (1, 2, 4, 8, 16), (1 * GB, 4 * GB)))


def demand(cell: Cell, *, files_per_rank: int = 1) -> Demand:
    """What a configuration asks of the storage."""
    nodes, ranks, size = cell
    return Demand(size * nodes * ranks, nodes * ranks, nodes, nodes * ranks * files_per_rank)


def true_seconds(cell: Cell, *, truth: StorageProfile = TRUTH, operation: str = "write") -> float:
    """What a configuration takes where nothing disturbs it."""
    found = transfer(truth, [demand(cell)], direction="write" if operation == "write" else "read")
    assert found is not None
    return float(found.seconds)


def result(
    cells: Sequence[Cell] = FULL_SCAN,
    *,
    truth: StorageProfile = TRUTH,
    noise: float = 0.05,
    outliers: float = 0.05,
    seed: int = 0,
    operations: Sequence[str] = ("write", "restore"),
    run_id: str = "20261121T120000Z-abc",
    **changed: Any,
) -> BenchmarkResult:
    """One run over all cells: `noise` between configurations and a third of it between repetitions."""
    draws = np.random.default_rng(seed)
    measurements = []
    for cell, operation in itertools.product(cells, operations):
        off = draws.normal(0, noise) + (draws.random() < outliers) * draws.exponential(0.5)
        seconds = true_seconds(cell, truth=truth, operation=operation) * np.exp(off + draws.normal(0, noise / 3, 5))
        measurements.append(measurement(cell, operation, [float(s) for s in seconds], **changed))
    return BenchmarkResult.model_validate(
        {
            "run_id": run_id,
            "started_at": "2026-11-21T12:00:00Z",
            "command": ["ckpt-bench", "scan"],
            "environment": {},
            "warnings": [],
            "measurements": measurements,
        }
    )


def measurement(cell: Cell, operation: str, seconds: list[float], **changed: Any) -> dict[str, Any]:
    """One measurement as the agent writes it."""
    nodes, ranks, size = cell
    num_ranks = nodes * ranks
    return {
        "engine": "direct",
        "operation": operation,
        "num_nodes": nodes,
        "num_ranks": num_ranks,
        "bytes_per_rank": size,
        "total_bytes": size * num_ranks,
        "seconds": seconds,
        "bytes_per_second": median_bytes_per_second(size * num_ranks, seconds),
        "first_done_seconds": seconds,
        "rank_seconds": [[s] * num_ranks for s in seconds],
        "cache_policy": "o-direct",
        "verified": True,
    } | changed
