"""Restoring into another layout than the one that saved: what is read more for it."""

from __future__ import annotations

import math
from typing import NamedTuple

from sizing.layout import Parallelism
from sizing.layout.formats import CheckpointFormat


class Amplification(NamedTuple):
    """Bytes read over bytes needed, of dense tensors and of routed experts."""

    dense: float = 1
    expert: float = 1


def overlapping_shards(num_saved: int, num_restored: int) -> int:
    """Pairs of saved and restored shards that share rows: n + m - gcd(n, m).

    Each restored shard reads every saved one that it overlaps, whole. Both cut the same rows into equal runs; an
    inner border of one is one of the other gcd(n, m) - 1 times.
    Source: counting; torch.distributed.checkpoint, filesystem.py, read_data, which loads a saved shard and narrows it.

    >>> overlapping_shards(8, 8), overlapping_shards(8, 4), overlapping_shards(8, 6)
    (8, 8, 12)
    """
    return num_saved + num_restored - math.gcd(num_saved, num_restored)


def amplification(saved_as: CheckpointFormat, saved: Parallelism, restored: Parallelism) -> Amplification:
    """What restoring `saved` into `restored` reads over what it needs: overlapping shards / saved shards."""
    before, after = saved_as.num_shards(saved), saved_as.num_shards(restored)
    return Amplification(_amplification(before.dense, after.dense), _amplification(before.expert, after.expert))


def _amplification(num_saved: int, num_restored: int) -> float:
    whole, rest = divmod(overlapping_shards(num_saved, num_restored), num_saved)
    return whole + rest / num_saved if rest else whole
