"""The process that reads batches: `python -m io_bench.shapes.batch_reader FILE BATCH_BYTES SEED`.

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

from io_bench.target.directory.direct_io import ALIGNMENT_BYTES, is_refusal


@dataclass(frozen=True, slots=True)
class Reader:
    """An open file, and memory for one batch, which begins at a page."""

    fd: int
    is_direct: bool
    buffer: mmap.mmap
    places: range
    generator: random.Random

    def read_one(self) -> int:
        """A batch from anywhere in the file, where it begins at a page; its bytes. Raises OSError."""
        place = self.generator.choice(self.places)
        num_bytes = os.preadv(self.fd, [self.buffer], place)
        if not self.is_direct:
            os.posix_fadvise(self.fd, place, num_bytes, os.POSIX_FADV_DONTNEED)
        return num_bytes


def opened(path: str, batch_bytes: int, seed: int) -> Reader:
    """The reader of a file. Raises OSError."""
    try:
        fd, is_direct = os.open(path, os.O_RDONLY | os.O_DIRECT), True
    except OSError as error:
        if not is_refusal(error):
            raise
        fd, is_direct = os.open(path, os.O_RDONLY), False
    size = -(-batch_bytes // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
    places = range(0, max(1, os.fstat(fd).st_size - size + 1), ALIGNMENT_BYTES)
    return Reader(fd, is_direct, mmap.mmap(-1, size), places, random.Random(seed))  # noqa: S311 - places, not secrets


def counted(reader: Reader) -> dict[str, float]:
    """Read a batch or more until a line comes, or the input ends; what was read, and how long that took."""
    started = time.perf_counter()
    num_bytes = reader.read_one()
    while not select.select([sys.stdin], [], [], 0)[0]:
        num_bytes += reader.read_one()
    return {"bytes": num_bytes, "seconds": time.perf_counter() - started}


def main(path: str, batch_bytes: str, seed: str) -> None:
    """Do as the input says until it ends, whatever is typed at the terminal of the rank."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    reader = opened(path, int(batch_bytes), int(seed))
    # Unbuffered: a line that Python held already would not show in `select`.
    said = open(sys.stdin.fileno(), "rb", buffering=0)  # noqa: SIM115, PTH123 - as long as the process
    _say({})
    while said.readline():
        told = counted(reader)
        if not said.readline():
            return
        _say(told)


def _say(told: dict[str, float]) -> None:
    sys.stdout.write(json.dumps(told) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
