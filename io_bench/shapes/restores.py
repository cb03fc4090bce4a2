"""Who reads what where several replicas restore what one of them wrote: the strategies of sizing, done."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from io_bench.engines import ENGINES, Engine, EngineOptions
from io_bench.shapes.shares import share_bytes
from sizing.storage.calibration.series import PLANNING_ENGINES


class RestoreStrategy(Protocol):
    """One way. `engines` are those with which it works; `can_stream` where nobody needs a whole checkpoint in memory.

    Replicas are counted from 0, which wrote. `num_replicas` hold what stands in one file of `num_bytes`.
    """

    name: str
    summary: str
    engines: frozenset[str]
    can_stream: bool

    def engine(self, name: str, options: EngineOptions, *, num_replicas: int) -> Engine:
        """The engine of that name, restoring in this way. Imports torch."""

    def read_bytes(self, num_bytes: int, replica: int, *, num_replicas: int) -> int:
        """What the rank of a replica reads of the file from storage."""

    def exchanged_bytes(self, num_bytes: int, payload_bytes: int, *, num_replicas: int) -> int:
        """What the replicas' ranks receive of it from each other, all together; `payload_bytes` are its tensors'."""


RESTORE_ALONE = frozenset(ENGINES) - frozenset(PLANNING_ENGINES)
"""Engines whose ranks restore without each other."""


class EveryReplica:
    """Every rank reads its shard, so each file is read as often as there are replicas: hot files."""

    name = "every-replica"
    summary = "every replica reads the files that one wrote"
    engines = RESTORE_ALONE
    can_stream = True

    def engine(self, name: str, options: EngineOptions, *, num_replicas: int) -> Engine:  # noqa: ARG002 - each alone
        """As it is."""
        return ENGINES[name](options)

    def read_bytes(self, num_bytes: int, replica: int, *, num_replicas: int) -> int:  # noqa: ARG002 - all the same
        """All of it."""
        return num_bytes

    def exchanged_bytes(self, num_bytes: int, payload_bytes: int, *, num_replicas: int) -> int:  # noqa: ARG002 - none
        """Nothing."""
        return 0


class ReadOnceBroadcast:
    """The ranks of one replica read, and send every tensor to those of the others."""

    name = "read-once-broadcast"
    summary = "one replica reads and sends to the others"
    engines = RESTORE_ALONE
    can_stream = False

    def engine(self, name: str, options: EngineOptions, *, num_replicas: int) -> Engine:
        """The engine, and a broadcast of what it gives."""
        from io_bench.shapes.exchanges import Broadcasting  # noqa: PLC0415 - imports torch: a second

        return Broadcasting(ENGINES[name](options), num_replicas)

    def read_bytes(self, num_bytes: int, replica: int, *, num_replicas: int) -> int:  # noqa: ARG002 - one reads
        """All of it, by the first."""
        return num_bytes if replica == 0 else 0

    def exchanged_bytes(self, num_bytes: int, payload_bytes: int, *, num_replicas: int) -> int:  # noqa: ARG002 - tensors
        """The tensors, by each but the first."""
        return payload_bytes * (num_replicas - 1)


class ParallelReadExchange:
    """Every rank reads an equal share of the file of its shard, then all gather the shares."""

    name = "parallel-read-exchange"
    summary = "every rank reads a share of its file, then they exchange"
    engines = frozenset({"direct"})
    can_stream = False

    def engine(self, name: str, options: EngineOptions, *, num_replicas: int) -> Engine:  # noqa: ARG002 - the only one
        """`direct`, which reads a file in any parts."""
        from io_bench.shapes.exchanges import Exchanging  # noqa: PLC0415 - imports torch: a second

        return Exchanging(options, num_replicas)

    def read_bytes(self, num_bytes: int, replica: int, *, num_replicas: int) -> int:
        """Its share, as far as the file goes."""
        share = share_bytes(num_bytes, num_replicas)
        return min(share, max(0, num_bytes - replica * share))

    def exchanged_bytes(self, num_bytes: int, payload_bytes: int, *, num_replicas: int) -> int:  # noqa: ARG002 - of files
        """The shares of the others, padded to be equal."""
        return num_replicas * (num_replicas - 1) * share_bytes(num_bytes, num_replicas)


RESTORES: Mapping[str, RestoreStrategy] = {
    strategy.name: strategy for strategy in (EveryReplica(), ReadOnceBroadcast(), ParallelReadExchange())
}
"""By the names that sizing has for them."""
