"""The ranks that read a part of the state back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from sizing.layout.fsdp_shards import FsdpMesh
from sizing.layout.parallelism import Parallelism, Ranks

ReadersName = Literal["every-replica", "each-shard-once", "every-shard-copy", "writers", "rank-0"]
ReadingRanks = Literal["everyone", "writers", "rank-0"]


class Copies(NamedTuple):
    """How many ranks read each byte of the files, as the mean over them, of dense tensors and of routed experts."""

    dense: float = 1.0
    expert: float = 1.0


@dataclass(frozen=True, slots=True)
class Readers:
    """The ranks that read a part back.

    `copies`: how many of them read each byte of the files. `sharers`: how many divide the reading of what one
    model-parallel rank holds.
    """

    name: ReadersName
    ranks: ReadingRanks
    copies: Ranks | Copies
    sharers: Ranks


def every_replica(copies: Ranks | Copies) -> Readers:
    """Every rank reads all that it holds; so many ranks hold the same."""
    return Readers("every-replica", "everyone", copies, Ranks())


def each_shard_once(parallelism: Parallelism) -> Readers:
    """Every rank reads its own share of what its replicas divide."""
    return Readers("each-shard-once", "everyone", Ranks(), parallelism.replicas)


def every_shard_copy(parallelism: Parallelism) -> Readers:
    """Every rank of FSDP reads its shard, of which each shard group has a copy."""
    mesh = FsdpMesh.of(parallelism)
    copies, sharers = Ranks(mesh.copies, mesh.copies), Ranks(mesh.shards, mesh.expert_shards)
    return Readers("every-shard-copy", "everyone", copies, sharers)


OWN = Readers("each-shard-once", "everyone", Ranks(), Ranks())
"""Every rank reads what is its own."""

WRITERS = Readers("writers", "writers", Ranks(), Ranks())
"""The ranks that wrote it read it and deal it out."""

RANK_0 = Readers("rank-0", "rank-0", Ranks(), Ranks())
"""Rank 0 alone reads it and deals it out."""
