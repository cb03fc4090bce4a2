"""`make demo-calibration`: scan a storage system whose limits are known, calibrate it, and compare."""

from __future__ import annotations

import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from io_bench.results.calibration import calibrate_files
from io_bench.terminal import Terminal
from sizing.storage.calibration import Calibration, calibrate, predict
from sizing.storage.measurement import BenchmarkResult, Measurement
from sizing.storage.rates import Direction
from sizing.storage.terms import Demand
from sizing.units import percent_text, rate_text, seconds_text
from tests.testbed.known_storage import TRUTH, KnownStorage, known_storage
from tests.testbed.processes import Unavailable

NUM_NODES = 4
WITHIN_FRACTION = 0.10
LIMITS = {
    "node_write_bytes_per_second": "node, write",
    "node_read_bytes_per_second": "node, restore",
    "write_bytes_per_second": "file system, write",
    "read_bytes_per_second": "file system, restore",
}
_DIRECTIONS: dict[str, Direction] = {"write": "write", "restore": "read"}


@dataclass(frozen=True, slots=True)
class Comparison:
    """What a link was set to, or a held-out run took, beside what the calibration says of it."""

    what: str
    truth: str
    found: str
    error_fraction: float


def fitted_scan(storage: KnownStorage) -> BenchmarkResult:
    """The runs that are fitted: 1, 2 and 4 nodes with 1 and 2 ranks each, and two sizes."""
    return storage.scan(
        num_nodes=(1, 2, NUM_NODES), writers=(1, 2), sizes=("8MiB", "24MiB"), repetitions=3, name="scan"
    )


def held_out_run(storage: KnownStorage) -> BenchmarkResult:
    """A run that no fit has seen: 3 nodes, and a size between the others."""
    return storage.scan(num_nodes=(3,), writers=(2,), sizes=("16MiB",), repetitions=3, name="held-out")


def comparisons(calibration: Calibration, held_out: BenchmarkResult) -> list[Comparison]:
    """Every known limit and every held-out measurement beside what the calibration says."""
    limits = [_limit(calibration, field, name) for field, name in LIMITS.items()]
    return limits + [_held_out(calibration, measurement) for measurement in held_out.measurements]


def _limit(calibration: Calibration, field: str, name: str) -> Comparison:
    fits = [fit for fit in (calibration.write, calibration.read) if fit is not None]
    limit = next(limit for fit in fits for limit in fit.limits if limit.field == field)
    truth, found = getattr(TRUTH, field), limit.value or 0.0
    return Comparison(f"{name} limit ({limit.verdict})", rate_text(truth), rate_text(found), found / truth - 1)


def _held_out(calibration: Calibration, found: Measurement) -> Comparison:
    demand = Demand(found.total_bytes, found.num_ranks, found.num_nodes, found.num_files or found.num_ranks)
    prediction = predict(calibration, [demand], direction=_DIRECTIONS[found.operation])
    assert prediction is not None
    seconds, guess = found.total_bytes / found.bytes_per_second, float(prediction.seconds)
    what = f"held-out {found.operation}, {found.num_nodes} nodes x {found.num_ranks // found.num_nodes} ranks"
    return Comparison(what, seconds_text(seconds), seconds_text(guess), guess / seconds - 1)


def main() -> int:
    """Run the demonstration; 0 where everything is recovered within 10 %, 1 where not, 2 where it cannot run here."""
    console = Console()
    chart = Path("demo-calibration.html")
    rates = ", ".join(f"{name} {rate_text(getattr(TRUTH, field))}" for field, name in LIMITS.items())
    console.print(f"{NUM_NODES} nodes and a GlusterFS, links shaped to: {rates}.")
    with tempfile.TemporaryDirectory(prefix="demo-calibration-") as scratch:
        try:
            scan, held_out = _measured(Path(scratch), console)
        except Unavailable as missing:
            console.print(f"error: {missing}.")
            return 2
        path = Path(scratch) / "results.json"
        path.write_text(scan.model_dump_json())
        terminal = Terminal(is_speaker=True)
        calibrate_files([path], engine=None, output=None, chart=chart, suggest=True, terminal=terminal)
    rows = comparisons(calibrate([scan]), held_out)
    console.print(_table(rows))
    return int(any(abs(row.error_fraction) > WITHIN_FRACTION for row in rows))


def _measured(directory: Path, console: Console) -> tuple[BenchmarkResult, BenchmarkResult]:
    with known_storage(directory, num_nodes=NUM_NODES) as storage:
        results = []
        for doing, measure in (("Scanning 12 configurations", fitted_scan), ("Measuring one more", held_out_run)):
            started = time.monotonic()
            with console.status(f"{doing}; minutes"):
                results.append(measure(storage))
            console.print(f"{doing}: {seconds_text(time.monotonic() - started)}.")
    return results[0], results[1]


def _table(rows: list[Comparison]) -> Table:
    table = Table("what", "truth", "calibration", "error", title="Known truth against calibration")
    for row in rows:
        sign = "+" if row.error_fraction >= 0 else "-"
        table.add_row(row.what, row.truth, row.found, sign + percent_text(abs(row.error_fraction)))
    return table


if __name__ == "__main__":
    sys.exit(main())
