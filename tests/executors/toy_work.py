"""Work that adds up numbers, or does what a test wants of a chunk: picklable, as other processes make it anew."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal

from pydantic import BaseModel

from sizing.errors import InvalidInput
from sizing.questions.chunks import ItemRange, Progress, cut

Mischief = Literal[
    "none",
    "refuses",
    "is killed",
    "is killed once",
    "kills its worker",
    "kills its worker once",
    "takes memory",
    "sleeps",
]


class Sum(BaseModel):
    total: int
    pids: list[int]


class ToyWork:
    """The sum of the whole numbers below `num_items`, in chunks of 10; the second chunk makes the mischief."""

    part = Sum

    def __init__(self, num_items: int, mischief: Mischief = "none", folder: Path | None = None) -> None:
        self._num_items, self._mischief, self._folder = num_items, mischief, folder

    @property
    def chunks(self) -> Sequence[ItemRange]:
        return cut([0, self._num_items], max_items=10)

    def compute(self, items: ItemRange, progress: Progress) -> Sum:
        if items.start == 10:
            self._misbehave()
        progress(1.0)
        return Sum(total=sum(range(*items)), pids=[os.getpid()])

    def merge(self, parts: Iterable[Sum]) -> Sum:
        every = list(parts)
        return Sum(total=sum(part.total for part in every), pids=sorted({pid for part in every for pid in part.pids}))

    def _misbehave(self) -> None:
        if self._mischief == "refuses":
            raise InvalidInput.of("the number", "must be small", value=10, remedy="take a smaller one")
        if self._mischief == "is killed" or (self._mischief == "is killed once" and not self._has_been_here()):
            os.kill(os.getpid(), signal.SIGKILL)
        if self._mischief == "kills its worker" or (
            self._mischief == "kills its worker once" and not self._has_been_here()
        ):
            self._kill_worker()
        if self._mischief == "takes memory":
            bytearray(2 << 30)
        if self._mischief == "sleeps":
            time.sleep(600)

    def _kill_worker(self) -> None:
        """End the process that has started this one: a Dask worker, as where its container runs out of memory."""
        time.sleep(2)  # as what takes memory does not at once
        parent = multiprocessing.parent_process()
        assert parent is not None
        assert parent.pid is not None
        if self._folder is not None:
            (self._folder / f"killed {parent.pid}").touch()
        os.kill(parent.pid, signal.SIGKILL)
        time.sleep(60)

    def _has_been_here(self) -> bool:
        mark = (self._folder or Path()) / "was here"
        was_here = mark.exists()
        mark.touch()
        return was_here
