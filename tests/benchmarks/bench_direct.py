"""`direct` against fio, and against the libraries' own ways. Prints ratios, judges nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import torch

from io_bench.engines import ENGINES, EngineOptions
from io_bench.engines.direct import Direct
from io_bench.payload.inventory import inventory_of
from sizing.storage.measurement import BenchmarkResult
from tests.benchmarks.pairs import Rates, engine_run, payload_of, ratios, shown
from tests.testbed.file_systems import disk, throttled

if TYPE_CHECKING:
    from tests.conftest import Testbed

NUM_PAIRS = 7
INVENTORY = inventory_of(1 << 30)
BLOCK_BYTES, DEPTH = 8 << 20, 8

pytestmark = pytest.mark.benchmark


def rates_of_fio(directory: Path, num_bytes: int, *, engine: str, prefix: Sequence[str] = ()) -> Rates:
    """fio's own rates: direct, one file, which it creates before its clock; fsync at the end, inside it."""
    rates = {}
    for name, pattern in {"write": "write", "restore": "read"}.items():
        command = [
            *("fio", "--name=bench", f"--filename={directory / 'fio.dat'}", f"--rw={pattern}", f"--size={num_bytes}"),
            *(f"--bs={BLOCK_BYTES}", f"--ioengine={engine}", f"--iodepth={DEPTH}", "--direct=1", "--end_fsync=1"),
            "--output-format=json",
        ]
        done = subprocess.run([*prefix, *command], capture_output=True, text=True, check=True)
        rates[name] = json.loads(done.stdout)["jobs"][0][pattern]["bw_bytes"]
    (directory / "fio.dat").unlink()
    return rates


@pytest.mark.usefixtures("fio")
@pytest.mark.parametrize("engine", ["libaio", "io_uring"])
def test_against_fio_by_its_own_clock(engine: str, tmp_path: Path) -> None:
    options = EngineOptions(block_bytes=BLOCK_BYTES, num_threads=DEPTH)
    with engine_run(Direct(options), payload_of(INVENTORY), tmp_path) as run:
        kept = ratios(
            run.rates_without_creation,
            lambda: rates_of_fio(tmp_path, INVENTORY.num_bytes, engine=engine),
            num_pairs=NUM_PAIRS,
        )
    shown(f"direct / fio {engine}", kept)


@pytest.mark.usefixtures("fio")
def test_on_a_disk_of_known_rate_against_fio_and_against_the_rate(testbed: Testbed, tmp_path: Path) -> None:
    num_bytes, cap = 256 << 20, {"write": 100e6, "restore": 200e6}
    slow = testbed(disk(tmp_path, num_bytes=1 << 30))
    throttle = testbed(
        throttled(slow, write_bytes_per_second=int(cap["write"]), read_bytes_per_second=int(cap["restore"]))
    )
    output, reached = tmp_path / "result.json", dict[str, list[float]]()

    def direct() -> Rates:
        flags = [
            "--engine",
            "direct",
            "--bytes-per-rank",
            f"{num_bytes}",
            "--repetitions",
            "1",
            "--output",
            str(output),
        ]
        command = throttle.command(sys.executable, "-m", "io_bench", "run", "--target", slow.path, *flags)
        subprocess.run(command, check=True, capture_output=True)
        result = BenchmarkResult.model_validate_json(output.read_text())
        rates: Rates = {measurement.operation: measurement.bytes_per_second for measurement in result.measurements}
        for name, rate in rates.items():
            reached.setdefault(name, []).append(rate / cap[name])
        return rates

    def of_fio() -> Rates:
        return rates_of_fio(slow.path, num_bytes, engine="libaio", prefix=throttle.command())

    shown("direct / fio on a throttled disk", ratios(direct, of_fio, num_pairs=5))
    shown("direct / the rate of the disk", reached)


@contextmanager
def without_crc() -> Iterator[None]:
    before = torch.serialization.get_crc32_options()
    torch.serialization.set_crc32_options(False)
    try:
        yield
    finally:
        torch.serialization.set_crc32_options(before)


OTHERS: dict[str, tuple[str, EngineOptions, Callable[[], AbstractContextManager[None]]]] = {
    "torch.save + fsync": ("torch-save", EngineOptions(), nullcontext),
    "torch.save + fsync, CRC off": ("torch-save", EngineOptions(), without_crc),
    "DCP": ("dcp", EngineOptions(), nullcontext),
    "DCP, 4 threads": ("dcp", EngineOptions(num_threads=4), nullcontext),
}


@pytest.mark.parametrize("other", OTHERS)
def test_against_the_libraries_themselves(other: str, tmp_path: Path) -> None:
    name, options, setting = OTHERS[other]
    payload = payload_of(INVENTORY)
    with (
        setting(),
        engine_run(Direct(EngineOptions()), payload, tmp_path) as ours,
        engine_run(ENGINES[name](options), payload, tmp_path) as theirs,
    ):
        shown(f"direct / {other}", ratios(ours.rates, theirs.rates, num_pairs=NUM_PAIRS))


def test_the_client_alone_against_the_disk(tmp_path: Path) -> None:
    with engine_run(Direct(EngineOptions()), payload_of(INVENTORY), tmp_path) as run:
        shown(
            "direct to nowhere / direct to the disk",
            ratios(lambda: {"write": run.null_sink_rate()}, run.rates, num_pairs=NUM_PAIRS),
        )
