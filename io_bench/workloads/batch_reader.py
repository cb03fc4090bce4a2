"""The process that reads batches: `python -m io_bench.workloads.batch_reader FILE BATCH_BYTES SEED`.

It says `{}` once it is ready. Between the lines `begin` and `end` on its standard input it reads batches at random
places, past the page cache where the file system lets it; after `end` it says how many bytes in which time, as JSON.
It ends with its input, so also with the rank that started it.
"""

from __future__ import annotations

import json
import mmap
import os
import random
import select
import signal
import sys
import time
from dataclasses import dataclass

from io_bench.target.direct_io import ALIGNMENT_BYTES, is_refusal


@dataclass(frozen=True, slots=True)
class BatchReader:
    """An open file, and memory for one batch, which begins at a page."""

    fd: int
    is_direct: bool
    buffer: mmap.mmap
    places: range
    generator: random.Random

    def read_one(self) -> int:
        """Read a batch from anywhere in the file, where it begins at a page; return its bytes. Raises OSError."""
        place = self.generator.choice(self.places)
        num_bytes = os.preadv(self.fd, [self.buffer], place)
        if not self.is_direct:
            os.posix_fadvise(self.fd, place, num_bytes, os.POSIX_FADV_DONTNEED)
        return num_bytes


def open_reader(path: str, batch_bytes: int, seed: int) -> BatchReader:
    """Open the reader of a file. Raises OSError."""
    try:
        fd, is_direct = os.open(path, os.O_RDONLY | os.O_DIRECT), True
    except OSError as error:
        if not is_refusal(error):
            raise
        fd, is_direct = os.open(path, os.O_RDONLY), False
    size = -(-batch_bytes // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
    places = range(0, max(1, os.fstat(fd).st_size - size + 1), ALIGNMENT_BYTES)
    return BatchReader(fd, is_direct, mmap.mmap(-1, size), places, random.Random(seed))  # noqa: S311 - places, not secrets


def read_batches(reader: BatchReader) -> dict[str, float]:
    """Read batches until a line comes, or the input ends; return what was read, and how long that took."""
    started = time.perf_counter()
    num_bytes = reader.read_one()
    while not select.select([sys.stdin], [], [], 0)[0]:
        num_bytes += reader.read_one()
    return {"bytes": num_bytes, "seconds": time.perf_counter() - started}


def main(path: str, batch_bytes: str, seed: str) -> None:
    """Follow the input until it ends, whatever is typed at the terminal of the rank."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    reader = open_reader(path, int(batch_bytes), int(seed))
    # Unbuffered: a line that Python held already would not show in `select`.
    commands = open(sys.stdin.fileno(), "rb", buffering=0)  # noqa: SIM115, PTH123 - as long as the process
    _say({})
    while commands.readline():
        counts = read_batches(reader)
        if not commands.readline():
            return
        _say(counts)


def _say(counts: dict[str, float]) -> None:
    sys.stdout.write(json.dumps(counts) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
