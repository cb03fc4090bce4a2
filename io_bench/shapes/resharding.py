"""Which rows of each tensor a rank restores where another number of ranks has saved."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

RESHARDING_ENGINES = ("dcp",)
"""Those whose files say where in a tensor a shard belongs, so that any number of ranks can restore it."""


@dataclass(frozen=True, slots=True)
class Resharding:
    """Every tensor has its rows dealt in order: as many to each of `num_saving` ranks, then to `num_restoring`."""

    num_saving: int
    num_restoring: int

    def rows(self, saved_rows: int, rank: int) -> range:
        """The rows of a restoring rank, among those of all ranks that saved `saved_rows` each.

        ceil(n / R) to each but the last: as torch.chunk deals them, and FSDP2 with it.

        >>> [Resharding(2, 3).rows(4, rank) for rank in range(3)]
        [range(0, 3), range(3, 6), range(6, 8)]
        """
        total = self.num_saving * saved_rows
        each = -(-total // self.num_restoring)
        return range(min(rank * each, total), min((rank + 1) * each, total))

    def pieces(self, saved_rows: int, rank: int) -> Iterator[tuple[int, range]]:
        """From which saving ranks these rows come: the number of each, and which of its rows.

        >>> list(Resharding(4, 2).pieces(3, 1)), list(Resharding(2, 3).pieces(4, 1))
        ([(2, range(0, 3)), (3, range(0, 3))], [(0, range(3, 4)), (1, range(0, 2))])
        """
        rows = self.rows(saved_rows, rank)
        for source in range(rows.start // saved_rows, -(-rows.stop // saved_rows)) if rows else ():
            begin = source * saved_rows
            yield source, range(max(rows.start, begin) - begin, min(rows.stop, begin + saved_rows) - begin)

    def sources(self, saved_rows: Iterable[int], rank: int) -> tuple[int, ...]:
        """The saving ranks whose files a rank reads: none where it does not restore.

        >>> Resharding(4, 2).sources([3, 8], 1), Resharding(4, 2).sources([3], 2)
        ((2, 3), ())
        """
        if rank >= self.num_restoring:
            return ()
        return tuple(sorted({source for rows in set(saved_rows) for source, _ in self.pieces(rows, rank)}))

    @property
    def max_shards(self) -> int:
        """Saved shards that what a restoring rank holds amounts to, rounded up.

        >>> Resharding(4, 2).max_shards, Resharding(2, 4).max_shards
        (2, 1)
        """
        return -(-self.num_saving // self.num_restoring)


def num_rows(shape: tuple[int, ...]) -> int:
    """Of a tensor that a rank saves; a scalar is one.

    >>> num_rows((4, 8)), num_rows(())
    (4, 1)
    """
    return shape[0] if shape else 1
