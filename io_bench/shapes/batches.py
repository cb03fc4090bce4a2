"""Batches read from the target by a process of its own, which takes nothing from the rank but storage and CPU time."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable

import numpy as np

from io_bench.engines import IoReport
from io_bench.errors import RunFailed
from io_bench.payload.seeded_bytes import POOL_BYTES, SeededBytes
from io_bench.shapes.company import Beside
from io_bench.target.run_files import RunFiles

_SECONDS_TO_END = 10.0
"""More than one request of a batch takes."""


class BatchReading:
    """A file of random bytes, and the process that reads from it. Fulfils Company."""

    def __init__(self, files: RunFiles, name: str, *, num_bytes: int, batch_bytes: int, seed: int) -> None:
        self._files = files
        self._name = name
        _write(files, name, num_bytes, seed)
        path = files.location(name)
        words = [sys.executable, "-m", "io_bench.shapes.batch_reader", path, str(batch_bytes), str(seed)]
        self._process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)  # noqa: S603 - this very program
        self._heard()

    def alone(self, seconds: float) -> float:
        """Bytes per second."""
        self._tell("begin")
        time.sleep(seconds)
        return self._ended()

    def beside(self, save: Callable[[], IoReport]) -> Beside:
        """Bytes per second while the save ran, an asynchronous one to the end of its drain."""
        self._tell("begin")
        report = save()
        return Beside(report, self._ended())

    def close(self) -> None:
        """End the process and remove the file."""
        if self._process.stdin:
            self._process.stdin.close()
        try:
            self._process.wait(_SECONDS_TO_END)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdout:
            self._process.stdout.close()
        self._files.remove([self._name])

    def _ended(self) -> float:
        self._tell("end")
        counted = self._heard()
        return float(counted["bytes"] / counted["seconds"])

    def _tell(self, word: str) -> None:
        assert self._process.stdin is not None  # noqa: S101 - it was asked for
        try:
            self._process.stdin.write(f"{word}\n")
            self._process.stdin.flush()
        except BrokenPipeError as error:
            raise self._failure() from error

    def _heard(self) -> dict[str, float]:
        assert self._process.stdout is not None  # noqa: S101 - it was asked for
        line = self._process.stdout.readline()
        if not line:
            raise self._failure()
        counted: dict[str, float] = json.loads(line)
        return counted

    def _failure(self) -> RunFailed:
        location = self._files.location(self._name)
        return RunFailed(f"The process that reads batches from {location} ended with {self._process.wait()}.")


def _write(files: RunFiles, name: str, num_bytes: int, seed: int) -> None:
    """The file, of bytes that storage does not find twice, and out of the page cache."""
    seeded, chunk = SeededBytes(f"batches/{seed}"), np.empty(POOL_BYTES, dtype=np.uint8)
    with files.create(name) as file:
        for number, start in enumerate(range(0, num_bytes, POOL_BYTES)):
            seeded.fill(chunk, key=seeded.key(0, name, number))
            file.write(chunk[: num_bytes - start].data)
        file.flush()
        files.persist(file)
    files.drop_from_memory(name)
