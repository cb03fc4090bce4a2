"""Storage that asks to be tried again (EAGAIN): real answers of the kernel, for a while or for ever."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from io_bench import interruption
from io_bench.target import patience
from io_bench.target.patience import open_buffered, patiently
from io_bench.target.request_log import RequestLog, observe_requests
from sizing.storage.measurement import BenchmarkResult

if TYPE_CHECKING:
    from tests.io_bench.conftest import Bench

CONTENT = os.urandom(3 << 20)


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    """Both ends of a pipe that answers EAGAIN while it is full, or empty."""
    reader, writer = os.pipe()
    for end in (reader, writer):
        os.set_blocking(end, False)
    yield reader, writer
    for end in (reader, writer):
        os.close(end)


def test_what_a_full_queue_refuses_is_written_once_there_is_room(pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    os.set_blocking(reader, True)
    found = bytearray()

    def drain() -> None:
        while len(found) < len(CONTENT):
            found.extend(os.read(reader, 1 << 16))

    draining = threading.Thread(target=drain)
    with observe_requests(open_buffered(os.dup(writer), "wb"), "pipe", RequestLog()) as file:
        file.write(b"")
        for end in (1000, 5000, 2 << 20, len(CONTENT)):
            if end == 2 << 20:
                draining.start()  # before that it fits
            start = {1000: 0, 5000: 1000, 2 << 20: 5000}.get(end, 2 << 20)
            assert file.write(CONTENT[start:end]) == end - start
    draining.join()
    assert bytes(found) == CONTENT


def test_what_is_not_there_yet_is_read_once_it_has_come(pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    os.set_blocking(writer, True)
    filling = threading.Thread(target=lambda: os.write(writer, CONTENT))
    filling.start()
    found = bytearray()
    with open_buffered(os.dup(reader), "rb") as file:
        while len(found) < len(CONTENT):
            block = bytearray(len(CONTENT) - len(found))
            found += block[: file.readinto(block)]
    filling.join()
    assert bytes(found) == CONTENT


def test_patience_ends(pipe: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "MAX_SECONDS", 0.1)
    with pytest.raises(BlockingIOError), open_buffered(os.dup(pipe[0]), "rb") as file:
        file.read(1)
    with pytest.raises(BlockingIOError):
        patiently(lambda: os.read(pipe[0], 1))


def test_a_signal_ends_patience(pipe: tuple[int, int]) -> None:
    interruption.expect()
    os.kill(os.getpid(), interruption.SIGNALS[0])
    with pytest.raises(InterruptedError):
        patiently(lambda: os.read(pipe[0], 1))


def test_a_whole_file_is_read_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(CONTENT)
    with open_buffered(os.open(path, os.O_RDONLY), "rb") as file:
        assert file.read(10) + file.read() == CONTENT


def agains(count: str, log: Path) -> list[str]:
    """The command that has the kernel answer EAGAIN to the vectored writes of another, all or a few of each thread."""
    calls = "pwritev,pwritev2"  # the C library chooses
    inject = f"inject={calls}:error=EAGAIN:when={count}"
    return ["strace", "--follow-forks", "--quiet=all", f"--output={log}", f"--trace={calls}", "-e", inject]


@pytest.mark.usefixtures("strace")
def test_a_run_whose_storage_wants_requests_again_measures(bench: Bench, target: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    flags = ("--bytes-per-rank", "32MiB", "--repetitions", "2", "--engine", "direct", "--output", "r.json")
    done = bench.finish(bench.start([*agains("1..3", log), *bench.command("run", "--target", str(target), *flags)]))
    assert done.returncode == 0, done.stderr
    assert log.read_text().count("EAGAIN") >= 3
    result = BenchmarkResult.model_validate_json((bench.directory / "r.json").read_text())
    assert all(measurement.verified for measurement in result.measurements)


@pytest.mark.usefixtures("strace")
def test_a_run_whose_storage_never_takes_a_request_is_told_so(bench: Bench, target: Path, tmp_path: Path) -> None:
    prelude = "from io_bench.target import patience\npatience.MAX_SECONDS = 0.2"
    flags = ("--bytes-per-rank", "32MiB", "--repetitions", "2", "--engine", "direct")
    command = bench.command("run", "--target", str(target), *flags, prelude=prelude)
    done = bench.finish(bench.start([*agains("1+", tmp_path / "log"), *command]))
    assert done.returncode == 1
    said = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert len(said) == 1
    assert said[0].startswith(f"error: Rank 0 failed while writing {target}/ckpt-bench-")
    assert said[0].endswith("/rank-00000.pt: Resource temporarily unavailable.")
    assert [path.name for path in target.iterdir()] == ["not-ours.bin"]
