"""Storage systems of known behaviour, most of them no roofline, and scans of them with noise."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from sizing.storage.measurement import BenchmarkResult
from tests.sizing.storage.calibration.simulation import GB, measurement

FILE_SYSTEM, NODE, WRITER, FIXED = 20e9, 8e9, 1.1e9, 0.1
CACHE = 100e9
NOISE = 0.03

Cell = tuple[int, int, int, int]
"""Nodes, ranks per node, bytes per rank, files per rank."""

SCAN: tuple[Cell, ...] = tuple(itertools.product((1, 2, 4, 8), (1, 2, 4, 8, 16), (1 * GB, 4 * GB), (1,)))
FILES_SCAN: tuple[Cell, ...] = tuple(itertools.product((1, 2, 4, 8), (1, 4, 16), (1 * GB, 4 * GB), (1, 16)))
INSIDE = tuple(itertools.product((1, 2, 3, 4, 6, 8), (1, 2, 4, 6, 8, 16), (1 * GB, 2 * GB, 4 * GB), (1,)))
FAR = tuple(itertools.product((64,), (1, 4, 8, 16), (1 * GB, 4 * GB), (1,)))
"""Eight times the nodes."""


def roofline(cell: Cell, *, file_system: float = FILE_SYSTEM, total: float | None = None) -> float:
    """Seconds of the slowest of writer, node and file system."""
    nodes, ranks, size, _ = cell
    moved = nodes * ranks * size if total is None else total
    return max(moved / (nodes * ranks * WRITER), moved / (nodes * NODE), moved / file_system)


def contended(cell: Cell, *, writer: float = 0.0, node: float = 0.0) -> float:
    """B / (1 + a n) of n writers or nodes."""
    nodes, ranks, _, _ = cell
    return roofline(cell, file_system=FILE_SYSTEM / (1 + writer * nodes * ranks + node * nodes))


def cached(cell: Cell) -> float:
    """The first 100 GB of a save at the rates of the roofline, the others at a fifth of the file system's."""
    nodes, ranks, size, _ = cell
    moved = nodes * ranks * size
    beyond = max(0.0, moved - CACHE)
    return roofline(cell, total=moved - beyond) + roofline(cell, total=beyond, file_system=FILE_SYSTEM / 5)


def universal(cell: Cell, *, alpha: float = 0.03, beta: float = 0.0003) -> float:
    """The Universal Scalability Law of writers, which is the only limit."""
    nodes, ranks, size, _ = cell
    writers = nodes * ranks
    return size / WRITER * (1 + alpha * (writers - 1) + beta * writers * (writers - 1))


def added(cell: Cell) -> float:
    """Writer, node and file system one after the other."""
    nodes, ranks, size, _ = cell
    moved = nodes * ranks * size
    return size / WRITER + moved / (nodes * NODE) + moved / FILE_SYSTEM


def stairs(cell: Cell) -> float:
    """The file system's rate doubles where writers become four times as many, and stands still between."""
    nodes, ranks, _, _ = cell
    return roofline(cell, file_system=3e9 * 2 ** np.floor(np.log(nodes * ranks + 0.5) / np.log(4)))


@dataclass(frozen=True, slots=True)
class Truth:
    """A storage system: what a configuration takes, how it is scanned, and the share of repetitions in its tail."""

    seconds: Callable[[Cell], float]
    cells: Sequence[Cell] = SCAN
    tail: float = 0.0

    def repetitions(self, cell: Cell, draws: np.random.Generator) -> list[float]:
        """Five: 3 % of noise between configurations, a third of it between repetitions."""
        off = draws.normal(0, NOISE) + draws.normal(0, NOISE / 3, 5)
        late = (draws.random(5) < self.tail) * draws.exponential(1.0, 5)
        return [float(seconds) for seconds in (FIXED + self.seconds(cell)) * np.exp(off) * (1 + late)]

    def scan(self, cells: Sequence[Cell], seed: int) -> BenchmarkResult:
        """A run over cells."""
        draws = np.random.default_rng(seed)
        measurements = [
            measurement(cell[:3], "write", self.repetitions(cell, draws), num_files=cell[0] * cell[1] * cell[3])
            for cell in cells
        ]
        return BenchmarkResult.model_validate(
            {
                "run_id": "20261121T120000Z-abc",
                "started_at": "2026-11-21T12:00:00Z",
                "command": ["ckpt-bench", "scan"],
                "environment": {},
                "warnings": [],
                "measurements": measurements,
            }
        )


TRUTHS = {
    "roofline": Truth(roofline),
    "B / (1 + 0.02 writers)": Truth(lambda cell: contended(cell, writer=0.02)),
    "B / (1 + 0.2 writers)": Truth(lambda cell: contended(cell, writer=0.2)),
    "B / (1 + 0.02 nodes)": Truth(lambda cell: contended(cell, node=0.02)),
    "B / (1 + 0.2 nodes)": Truth(lambda cell: contended(cell, node=0.2)),
    "100 GB cache, then a fifth": Truth(cached),
    "universal scalability law": Truth(universal),
    "limits that add": Truth(added),
    "20 ms per file": Truth(lambda cell: roofline(cell) + 0.02 * cell[3], cells=FILES_SCAN),
    "stairs": Truth(stairs),
    "slow tail": Truth(roofline, tail=0.2),
}
PLAIN = ("roofline", "universal scalability law", "limits that add", "20 ms per file")
"""Which must not hide behind a low grade."""
