"""A hang in one of several repetitions: the median does not show it, so it is named."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from io_bench.commands.main import main
from io_bench.engines import direct
from io_bench.engines.direct_blocks import FileBytes
from io_bench.payload.byte_source import Bytes
from sizing.storage.measurement import BenchmarkResult
from tests.testbed.file_systems import Disk, disk

if TYPE_CHECKING:
    from tests.conftest import Testbed

MIB = 1 << 20
HANG_SECONDS = 3.0
HUNG_REPETITION = 3


@pytest.fixture
def real_disk(tmp_path: Path, testbed: Testbed) -> Disk:
    return testbed(disk(tmp_path, num_bytes=96 * MIB))


def test_a_disk_that_hangs_in_one_of_five_repetitions_is_named_with_rank_file_offset_and_phase(
    real_disk: Disk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The disk takes no writes for 3 s, from when the block at 8 MiB of the third repetition is filled."""
    begun: list[FileBytes] = []
    timers: list[threading.Timer] = []

    class Hanging(FileBytes):
        def pieces(self, start: int, buffer: Bytes) -> list[Bytes]:
            if self not in begun:
                begun.append(self)
            # The warm-up, the repetitions before, and three times the same with writes discarded.
            if len(begun) == 1 + 3 + HUNG_REPETITION and start == 8 * MIB:
                timers.append(real_disk.hang(HANG_SECONDS))
            return super().pieces(start, buffer)

    monkeypatch.setattr(direct, "FileBytes", Hanging)
    output = tmp_path / "result.json"
    flags = ["--bytes-per-rank", "32MiB", "--block-size", "1MiB", "--threads", "2", "--repetitions", "5"]
    with pytest.raises(SystemExit) as end:
        main(["run", "--target", str(real_disk.path), *flags, "--output", str(output)])
    (timer,) = timers
    timer.join()
    said = capsys.readouterr()
    assert end.value.code == 0, said.err
    write, _ = BenchmarkResult.model_validate_json(output.read_text()).measurements
    (late,) = [late for late in write.late_repetitions or [] if late.seconds >= HANG_SECONDS]
    assert (late.repetition, late.rank, late.phase) == (HUNG_REPETITION, 0, "write")
    assert late.slowest is not None
    assert late.slowest.file == "rank-00000.pt"
    assert 5 * MIB <= late.slowest.offset_bytes <= 10 * MIB
    assert late.slowest.seconds >= HANG_SECONDS - 0.5
    assert write.request_latency is not None
    assert write.request_latency.max_seconds == late.slowest.seconds
    assert write.request_latency.p50_seconds < 1.0
    assert f"Repetition {HUNG_REPETITION} of the write took {late.seconds:.2f} s" in said.err
    assert f"of {late.slowest.file}" in said.err
    assert "max request" in said.out
