"""Storage systems of known behaviour, most of them no roofline, and scans of them with noise."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from sizing.storage.measurement import BenchmarkResult, Operation
from sizing.storage.rates import Direction
from sizing.storage.transfer import Floats
from tests.sizing.storage.calibration.simulation import GB, measurement

FILE_SYSTEM, NODE, WRITER, FIXED = 20e9, 8e9, 1.1e9, 0.1
WIDE_FILE_SYSTEM, NUM_TARGETS = 40e9, 16
CACHE = 100e9
NOISE = 0.03

Cell = tuple[int, int, int, int]
"""Nodes, ranks per node, bytes per rank, files per rank."""

SCAN: tuple[Cell, ...] = tuple(itertools.product((1, 2, 4, 8), (1, 2, 4, 8, 16), (1 * GB, 4 * GB), (1,)))
FILES_SCAN: tuple[Cell, ...] = tuple(itertools.product((1, 2, 4, 8), (1, 4, 16), (1 * GB, 4 * GB), (1, 16)))
INSIDE = tuple(itertools.product((1, 2, 3, 4, 6, 8), (1, 2, 4, 6, 8, 16), (1 * GB, 2 * GB, 4 * GB), (1,)))
FAR = tuple(tuple(itertools.product((nodes,), (1, 4, 8, 16), (1 * GB, 4 * GB), (1,))) for nodes in (32, 128))
"""Four and sixteen times the nodes."""


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


def of_slow_node(cell: Cell, _: np.random.Generator, *, slow: int) -> Floats:
    """Seconds of each rank where one node writes at a quarter of its rate."""
    nodes, ranks, size = cell[:3]
    rates = np.full(nodes, NODE)
    rates[slow : slow + 1] /= 4
    alone = np.maximum(size / WRITER, nodes * ranks * size / WIDE_FILE_SYSTEM)
    return np.repeat(np.maximum(alone, ranks * size / rates), ranks)


def of_slow_target(cell: Cell, draws: np.random.Generator) -> Floats:
    """Seconds of each rank where files lie on sixteen targets in turn, of which one writes at a quarter of its rate."""
    nodes, ranks, size, _ = cell
    place = (np.arange(nodes * ranks) + draws.integers(NUM_TARGETS)) % NUM_TARGETS
    rates = np.full(NUM_TARGETS, WIDE_FILE_SYSTEM / NUM_TARGETS)
    rates[0] /= 4
    of_targets = np.bincount(place, minlength=NUM_TARGETS) * size / rates
    return np.asarray(np.maximum(of_targets[place], max(size / WRITER, ranks * size / NODE)))


def read_cached(cell: Cell, *, cache_bytes: float) -> float:
    """Reads from the servers' memory; what is larger comes from drives, at 0.15 of the rate."""
    nodes, ranks, size, _ = cell
    return roofline(cell, file_system=FILE_SYSTEM * (1.0 if nodes * ranks * size <= cache_bytes else 0.15))


def collapsing(cell: Cell, *, max_ranks: int) -> float:
    """The file system gives a quarter where more ranks write at once."""
    return roofline(cell, file_system=FILE_SYSTEM / (4 if cell[0] * cell[1] > max_ranks else 1))


def racked(cell: Cell, *, nodes_per_rack: int, uplink: float) -> float:
    """Nodes fill one rack after the other; all of a rack share its uplink."""
    nodes, ranks, size, _ = cell
    in_fullest = min(nodes, nodes_per_rack)
    return max(roofline(cell, file_system=WIDE_FILE_SYSTEM), in_fullest * ranks * size / uplink)


@dataclass(frozen=True, slots=True)
class Truth:
    """A storage system: what a configuration takes, how it is scanned, and the share of repetitions in its tail.

    `ranks` gives the seconds of each rank where they differ. Neighbours are busy for a fifth of the time with `bursts`:
    each burst lasts for eight repetitions, in which everything takes that many times as long.
    """

    seconds: Callable[[Cell], float] = roofline
    cells: Sequence[Cell] = SCAN
    tail: float = 0.0
    operation: Operation = "write"
    ranks: Callable[[Cell, np.random.Generator], Floats] | None = None
    bursts: float = 1.0

    @property
    def direction(self) -> Direction:
        """Direction of the operation that is scanned."""
        return "write" if self.operation == "write" else "read"

    def repetitions(self, cell: Cell, draws: np.random.Generator) -> list[float]:
        """Five: 3 % of noise between configurations, a third of it between repetitions."""
        return [float(ranks.max()) for ranks in self.rank_repetitions(cell, draws)]

    def rank_repetitions(self, cell: Cell, draws: np.random.Generator) -> Floats:
        """The seconds of each rank in each of five repetitions."""
        off = draws.normal(0, NOISE) + draws.normal(0, NOISE / 3, 5)
        late = (draws.random(5) < self.tail) * draws.exponential(1.0, 5)
        factors = np.exp(off) * (1 + late)
        if self.bursts != 1.0:
            start = draws.integers(-8, 32)
            factors *= np.where((start <= np.arange(5)) & (np.arange(5) < start + 8), self.bursts, 1.0)
        if self.ranks is None:
            return np.repeat(((FIXED + self.seconds(cell)) * factors)[:, None], cell[0] * cell[1], axis=1)
        of_ranks = np.array([self.ranks(cell, draws) for _ in range(5)])
        return (FIXED + of_ranks * np.exp(draws.normal(0, NOISE / 3, of_ranks.shape))) * factors[:, None]

    def scan(self, cells: Sequence[Cell], seed: int) -> BenchmarkResult:
        """A run over cells."""
        draws = np.random.default_rng(seed)
        measurements = []
        for cell in cells:
            times = self.rank_repetitions(cell, draws)
            seconds = [float(slowest) for slowest in times.max(axis=1)]
            num_files = cell[0] * cell[1] * cell[3]
            changed = {"rank_seconds": times.tolist(), "num_files": num_files}
            measurements.append(measurement(cell[:3], self.operation, seconds, **changed))
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
    "file system never reached": Truth(lambda cell: roofline(cell, file_system=1e15)),
    "file system reached by 8 nodes": Truth(lambda cell: roofline(cell, file_system=WIDE_FILE_SYSTEM)),
    "reads": Truth(roofline, operation="restore"),
    "slow node, of the largest runs": Truth(ranks=functools.partial(of_slow_node, slow=5)),
    "slow node, of most runs": Truth(ranks=functools.partial(of_slow_node, slow=1)),
    "slow target": Truth(ranks=of_slow_target),
    "bursts of neighbours": Truth(roofline, bursts=3.0),
    "read cache, never exceeded": Truth(functools.partial(read_cached, cache_bytes=1e12), operation="restore"),
    "read cache, once exceeded": Truth(functools.partial(read_cached, cache_bytes=300e9), operation="restore"),
    "read cache, often exceeded": Truth(functools.partial(read_cached, cache_bytes=50e9), operation="restore"),
    "collapse beyond 64 ranks": Truth(functools.partial(collapsing, max_ranks=64)),
    "collapse beyond 32 ranks": Truth(functools.partial(collapsing, max_ranks=32)),
    "racks of 4 nodes, 2:1": Truth(functools.partial(racked, nodes_per_rack=4, uplink=16e9)),
    "racks of 8 nodes, 2:1": Truth(functools.partial(racked, nodes_per_rack=8, uplink=32e9)),
}
PLAIN = ("roofline", "universal scalability law", "limits that add", "20 ms per file")
"""Which must not hide behind a low grade."""
SMOOTH = (
    *PLAIN,
    *(name for name in TRUTHS if name.startswith("B / (")),
    "100 GB cache, then a fifth",
    "stairs",
    "slow tail",
)
"""Which every node and rank sees alike, and which no cache of the servers answers: nine of ten intervals hold."""
