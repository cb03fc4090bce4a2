"""What it costs to look at every request: the engine with its log against one that hears nothing. Prints ratios."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from io_bench.engines import ENGINES, EngineOptions
from io_bench.payload.inventory import inventory_of
from io_bench.target.request_log import RequestLog
from tests.benchmarks.pairs import Rates, engine_run, payload_of, ratios, shown

NUM_PAIRS = 9
INVENTORY = inventory_of(256 << 20)

pytestmark = pytest.mark.benchmark


class DeafLog(RequestLog):
    def moved(self, *_: Any, **__: Any) -> None:
        """Nothing is kept."""


@pytest.mark.parametrize(
    ("engine", "options"),
    [
        ("direct", EngineOptions()),
        ("direct", EngineOptions(block_bytes=64 << 10)),
        ("torch-save", EngineOptions()),
    ],
    ids=["direct", "direct, smallest blocks", "torch-save"],
)
def test_with_the_histogram_against_without(engine: str, options: EngineOptions, tmp_path: Path) -> None:
    with engine_run(ENGINES[engine](options), payload_of(INVENTORY), tmp_path) as run:

        def with_log(log: type[RequestLog]) -> Rates:
            run.files.log = log()
            return run.rates()

        kept = ratios(lambda: with_log(RequestLog), lambda: with_log(DeafLog), num_pairs=NUM_PAIRS)
    shown(f"{engine} with the histogram / without", kept)


def test_the_null_sink_with_the_histogram_against_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the CPU time of all threads where nothing else costs anything: the disk's noise is out of it."""
    with engine_run(ENGINES["direct"](EngineOptions()), payload_of(INVENTORY), tmp_path) as run:

        def rates() -> Rates:
            begun = time.process_time()
            for _ in range(NUM_PAIRS):
                run.null_sink_rate()
            return {"CPU": NUM_PAIRS * INVENTORY.num_bytes / (time.process_time() - begun)}

        def deaf() -> Rates:
            with monkeypatch.context() as patched:
                patched.setattr(RequestLog, "moved", DeafLog.moved)
                return rates()

        kept = ratios(rates, deaf, num_pairs=NUM_PAIRS)
    shown("direct to nowhere with the histogram / without", kept)
