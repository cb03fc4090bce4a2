"""The ranks that read a part of the state back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from sizing.layout.parallelism import Parallelism, Ranks

ReadersName = Literal["every-replica", "each-shard-once", "every-shard-copy", "writers", "rank-0"]
ReadingRanks = Literal["everyone", "writers", "rank-0"]


@dataclass(frozen=True, slots=True)
class Readers:
    """The ranks that read a part back.

    `copies`: how many of them read each byte of the files. `sharers`: how many divide the reading of what one
    model-parallel rank holds.
    """

    name: ReadersName
    ranks: ReadingRanks
    copies: Ranks
    sharers: Ranks


def every_replica(copies: Ranks) -> Readers:
    """Every rank reads all that it holds; so many ranks hold the same."""
    return Readers("every-replica", "everyone", copies, Ranks())


def each_shard_once(parallelism: Parallelism) -> Readers:
    """Every rank reads its own share of what its replicas divide."""
    return Readers("each-shard-once", "everyone", Ranks(), parallelism.replicas)


def every_shard_copy(parallelism: Parallelism) -> Readers:
    """Every rank of FSDP reads its shard, of which each shard group has a copy."""
    shards, copies = parallelism.shard_ranks, parallelism.num_replicas // parallelism.shard_ranks
    return Readers("every-shard-copy", "everyone", Ranks(copies, copies), Ranks(shards, shards))


WRITERS = Readers("writers", "writers", Ranks(), Ranks())
"""The ranks that wrote it read it and deal it out."""

RANK_0 = Readers("rank-0", "rank-0", Ranks(), Ranks())
"""Rank 0 alone reads it and deals it out."""
