"""Restores by other ranks than have saved: by replicas of the ranks that wrote, or by another number of ranks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from io_bench.engines import ENGINES, Engine, EngineOptions
from io_bench.target.direct_io import share_bytes
from sizing.storage.calibration.fit_data import PLANNING_ENGINES


class RestoreStrategy(Protocol):
    """A way for replicas to restore what one of them wrote.

    `engines` are those with which it works; `can_stream` where nobody needs a whole checkpoint in memory.
    Replicas are counted from 0, which wrote. `num_replicas` hold what stands in one file of `num_bytes`.
    """

    name: str
    summary: str
    engines: frozenset[str]
    can_stream: bool

    def engine(self, name: str, options: EngineOptions, *, num_replicas: int) -> Engine:
        """The engine of that name, restoring in this way. Imports torch."""

    def read_bytes(self, num_bytes: int, replica: int, *, num_replicas: int) -> int:
        """Bytes of a file that the rank of a replica reads from storage."""

    def exchanged_bytes(self, num_bytes: int, payload_bytes: int, *, num_replicas: int) -> int:
        """Bytes of a file that replicas receive from each other, all together; `payload_bytes` are its tensors'."""


RESTORE_ALONE = frozenset(ENGINES) - frozenset(PLANNING_ENGINES)
"""Engines whose ranks restore without each other."""


class EveryReplica:
    """Every rank reads its shard, so each file is read as often as there are replicas: hot files."""

    name = "every-replica"
    summary = "every replica reads the files that one wrote"
    engines = RESTORE_ALONE
    can_stream = True

    def engine(self, name: str, options: EngineOptions, *, num_replicas: int) -> Engine:  # noqa: ARG002 - each alone
        return ENGINES[name](options)

    def read_bytes(self, num_bytes: int, replica: int, *, num_replicas: int) -> int:  # noqa: ARG002 - all the same
        return num_bytes

    def exchanged_bytes(self, num_bytes: int, payload_bytes: int, *, num_replicas: int) -> int:  # noqa: ARG002 - none
        return 0


class ReadOnceBroadcast:
    """The ranks of one replica read, and send every tensor to those of the others."""

    name = "read-once-broadcast"
    summary = "one replica reads and sends to the others"
    engines = RESTORE_ALONE
    can_stream = False

    def engine(self, name: str, options: EngineOptions, *, num_replicas: int) -> Engine:
        """Make the engine, with a broadcast of what it restores."""
        from io_bench.workloads.exchanges import Broadcasting  # noqa: PLC0415 - imports torch: a second

        return Broadcasting(ENGINES[name](options), num_replicas)

    def read_bytes(self, num_bytes: int, replica: int, *, num_replicas: int) -> int:  # noqa: ARG002 - one reads
        """Count all bytes for the first replica, none for the others."""
        return num_bytes if replica == 0 else 0

    def exchanged_bytes(self, num_bytes: int, payload_bytes: int, *, num_replicas: int) -> int:  # noqa: ARG002 - tensors
        """Count the tensors, for each replica but the first."""
        return payload_bytes * (num_replicas - 1)


class ParallelReadExchange:
    """Every rank reads an equal share of the file of its shard, then all gather the shares."""

    name = "parallel-read-exchange"
    summary = "every rank reads a share of its file, then they exchange"
    engines = frozenset({"direct"})
    can_stream = False

    def engine(self, name: str, options: EngineOptions, *, num_replicas: int) -> Engine:  # noqa: ARG002 - the only one
        """Make `direct` with exchanged shares: it reads a file in any parts."""
        from io_bench.workloads.exchanges import Exchanging  # noqa: PLC0415 - imports torch: a second

        return Exchanging(options, num_replicas)

    def read_bytes(self, num_bytes: int, replica: int, *, num_replicas: int) -> int:
        """Count the share of a replica, as far as the file goes."""
        share = share_bytes(num_bytes, num_replicas)
        return min(share, max(0, num_bytes - replica * share))

    def exchanged_bytes(self, num_bytes: int, payload_bytes: int, *, num_replicas: int) -> int:  # noqa: ARG002 - of files
        """Count the shares of the other replicas, padded to be equal."""
        return num_replicas * (num_replicas - 1) * share_bytes(num_bytes, num_replicas)


RESTORES: Mapping[str, RestoreStrategy] = {
    strategy.name: strategy for strategy in (EveryReplica(), ReadOnceBroadcast(), ParallelReadExchange())
}
"""Restore strategies by the names that sizing has for them."""


RESHARDING_ENGINES = ("dcp",)
"""Engines whose files say where in a tensor a shard belongs, so that any number of ranks can restore it."""


@dataclass(frozen=True, slots=True)
class RowAssignment:
    """Assignment of the rows of every tensor, in order and equally: to `num_saving` ranks, then to `num_restoring`."""

    num_saving: int
    num_restoring: int

    def rows(self, saved_rows: int, rank: int) -> range:
        """The rows of a restoring rank, among those of all ranks that saved `saved_rows` each.

        ceil(n / R) to each but the last: as torch.chunk deals them, and FSDP2 with it.

        >>> [RowAssignment(2, 3).rows(4, rank) for rank in range(3)]
        [range(0, 3), range(3, 6), range(6, 8)]
        """
        total = self.num_saving * saved_rows
        each = -(-total // self.num_restoring)
        return range(min(rank * each, total), min((rank + 1) * each, total))

    def pieces(self, saved_rows: int, rank: int) -> Iterator[tuple[int, range]]:
        """From which saving ranks these rows come: the number of each, and which of its rows.

        >>> list(RowAssignment(4, 2).pieces(3, 1)), list(RowAssignment(2, 3).pieces(4, 1))
        ([(2, range(0, 3)), (3, range(0, 3))], [(0, range(3, 4)), (1, range(0, 2))])
        """
        rows = self.rows(saved_rows, rank)
        for source in range(rows.start // saved_rows, -(-rows.stop // saved_rows)) if rows else ():
            begin = source * saved_rows
            yield source, range(max(rows.start, begin) - begin, min(rows.stop, begin + saved_rows) - begin)

    def sources(self, saved_rows: Iterable[int], rank: int) -> tuple[int, ...]:
        """The saving ranks whose files a rank reads: none where it does not restore.

        >>> RowAssignment(4, 2).sources([3, 8], 1), RowAssignment(4, 2).sources([3], 2)
        ((2, 3), ())
        """
        if rank >= self.num_restoring:
            return ()
        return tuple(sorted({source for rows in set(saved_rows) for source, _ in self.pieces(rows, rank)}))

    @property
    def max_shards(self) -> int:
        """Saved shards that what a restoring rank holds amounts to, rounded up.

        >>> RowAssignment(4, 2).max_shards, RowAssignment(2, 4).max_shards
        (2, 1)
        """
        return -(-self.num_saving // self.num_restoring)


def num_rows(shape: tuple[int, ...]) -> int:
    """Count the rows of a tensor that a rank saves; a scalar is one.

    >>> num_rows((4, 8)), num_rows(())
    (4, 1)
    """
    return shape[0] if shape else 1
