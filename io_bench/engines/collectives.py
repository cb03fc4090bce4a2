"""Torch's process group, for libraries whose ranks talk to each other by themselves.

The ranks of a run meet in a store, where every wait is bounded and who is missing has a name. A library that
wants collectives gets gloo for as long as it needs it; its work runs where this rank can watch its peers
meanwhile, and what goes wrong in a collective is traced back to the rank that caused it.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import TypeVar

from torch import distributed

from io_bench.errors import RunFailed
from io_bench.ranks.process_group import Writers

_Made = TypeVar("_Made")


class Collectives:
    """A process group of gloo between writers, in their order."""

    def __init__(self, writers: Writers) -> None:
        """Connect, on all writers. Raises RunFailed where they cannot, and what ProcessGroup.watch raises."""
        self._writers = writers
        self._num_running = 0
        store = writers.group.store_for_collectives()

        def connect() -> None:
            distributed.init_process_group(
                "gloo",
                store=store,
                rank=writers.ranks.index(writers.group.rank),
                world_size=len(writers.ranks),
                timeout=timedelta(seconds=writers.group.collective_seconds),
            )

        self.run(connect, doing="connecting with gloo")

    def run(self, work: Callable[[], _Made], *, doing: str) -> _Made:
        """Run `work`. Raises what it raises, and RanksLost or PeerFailed where a peer is at fault."""

        def counted() -> _Made:
            self._num_running += 1
            try:
                return work()
            finally:
                self._num_running -= 1

        try:
            return self._writers.group.watch(counted, doing=doing)
        except RuntimeError as error:
            if "gloo" not in str(error):
                raise
            self.blame(doing=doing)
            remedy = "Set GLOO_SOCKET_IFNAME to the network interface that the nodes share."
            raise RunFailed(f"The ranks could not communicate while {doing}: {error}. {remedy}") from error

    def blame(self, *, doing: str) -> None:
        """Raise PeerFailed or RanksLost for the writer at fault for work that has failed; return where none is."""
        self._writers.group.blame(self._writers.ranks, doing=doing)

    def close(self) -> None:
        """Close the connections, unless work that was left behind is in them: that would abort the process."""
        if self._num_running == 0 and distributed.is_initialized():
            distributed.destroy_process_group()
