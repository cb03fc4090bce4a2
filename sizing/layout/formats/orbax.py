"""Orbax's format, as MaxText saves: every process writes its slices of every array into an OCDBT database of its own.

A shard that stands on R ranks is cut into R slices along the first of its dimensions that R divides, and each rank
writes one. Where no dimension divides, the first of them writes the shard whole.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace

from sizing.layout.cells import Shards, unique_shards
from sizing.layout.containers import CONTAINERS
from sizing.layout.files import File, PartBytes, Plan, WriterClass, runs, shares
from sizing.layout.formats.base import CheckpointFormat, RankShare
from sizing.layout.formats.readers import Readers
from sizing.layout.parallelism import Parallelism, Ranks
from sizing.layout.saving_ranks import SavingRank
from sizing.layout.sharding import Sharding
from sizing.layout.shards import content_of
from sizing.layout.stages import Holding, StageSpan
from sizing.model import TensorGroup
from sizing.provenance import Assumption
from sizing.state.saved_state import PartName

TARGET_FILE_BYTES = 2 * 1024**3
"""Orbax's ocdbt_target_data_file_size on file systems, and MaxText's everywhere: a data file is closed once it is as
large. Source: `checkpoint_storage_target_data_file_size_bytes` of MaxText in published/framework_defaults.json."""

_DATA, _MANIFEST, _SHAPES = (
    "ocdbt.process_RANK/d/N",
    "ocdbt.process_RANK/manifest.ocdbt",
    "array_metadatas/process_RANK",
)


class Orbax(CheckpointFormat):
    """Arrays are whole for all ranks: fsdp ranks and tensor ranks cut one dimension each, in equal parts."""

    def writer_classes(self, plan: Plan) -> Iterator[WriterClass]:
        """Every rank with its share of each pool, runs of ranks with equal shares together."""
        ranks = plan.parallelism.ranks_per_stage
        span = plan.spans[0]
        pools = [_Filled.of(pool, plan) for pool in _pools(span, plan.parallelism)]
        dealt = ((part_bytes, each.num_writers, 1) for each in pools for part_bytes in (each.dense, each.expert))
        for first, past in runs(ranks, *dealt, extra=[each.num_writers for each in pools]):
            yield WriterClass(span, range(first, past), ranks, range(1), tuple(_files(pools, first)))

    def rank_share(self, saving: SavingRank) -> RankShare:
        """A share of each pool that the rank is a writer of."""
        found = [
            RankShare(pool.shards, saving.inner, pool.num_writers)
            for pool in _pools(saving.writer.span, saving.parallelism)
            if saving.inner < pool.num_writers
        ]
        return replace(found[0], more=tuple(found[1:]))

    def name_parts(self, file: File, number: int, saving: SavingRank) -> dict[str, str]:
        """Process, one for each rank, and which of its data files; real ones have a random name."""
        return {"RANK": str(saving.rank), "N": str(number)}

    def num_copies(self, group: TensorGroup, part: PartName, parallelism: Parallelism) -> int:
        """One."""
        return 1

    def has_weights_beside_master(self, parallelism: Parallelism) -> bool:
        """Whatever is kept is saved."""
        return True

    def readers(self, part: PartName, parallelism: Parallelism, sharding: Sharding) -> Readers:
        """Every rank its shard."""
        shards, replicas = sharding.weights, parallelism.replicas
        copies = Ranks(*(max(1, n // held) for n, held in zip(replicas, shards, strict=True)))
        return Readers("every-shard-copy", "everyone", copies, shards)

    def num_shards(self, parallelism: Parallelism) -> Ranks:
        """Chunks of an array are compressed one by one, so that each is read whole."""
        shards = parallelism.tensor * parallelism.shard_ranks
        return Ranks(shards, shards)


@dataclass(frozen=True, slots=True)
class _Pool:
    """Arrays whose bytes the first `num_writers` ranks share equally."""

    shards: Shards
    num_writers: int


@dataclass(frozen=True, slots=True)
class _Filled:
    """A pool with its bytes."""

    dense: PartBytes
    expert: PartBytes
    num_arrays: int
    num_writers: int

    @classmethod
    def of(cls, pool: _Pool, plan: Plan) -> _Filled:
        """The bytes of the parts that a plan saves; the layers of a tensor are one array."""
        dense, expert = (content_of(shards, plan.parts).part_bytes for shards in pool.shards)
        num_arrays = sum(map(len, pool.shards)) * sum(part.num_statistics for part in plan.parts)
        return cls(dense, expert, num_arrays, pool.num_writers)


def _pools(span: StageSpan, parallelism: Parallelism) -> Iterator[_Pool]:
    """The arrays of a model by the number of ranks that write each, the largest number first."""
    by_writers: dict[int, list[Holding]] = defaultdict(list)
    for holding in span.holdings:
        by_writers[_num_writers(holding, parallelism)].append(holding)
    for num_writers, holdings in sorted(by_writers.items(), reverse=True):
        yield _Pool(unique_shards(replace(span, holdings=tuple(holdings)), _UNCUT), num_writers)


_UNCUT = Parallelism()
"""Of an array that is written in slices, statistics such as Adafactor's are those of the whole."""


def _num_writers(holding: Holding, parallelism: Parallelism) -> int:
    """The ranks that write an array: all of them, or those with the first copy of each shard."""
    local = _local_shape(holding, parallelism)
    shards = _array_size(holding) // math.prod(local)
    ranks = parallelism.ranks_per_stage
    copies = max(1, ranks // shards)
    return ranks if any(size % copies == 0 for size in local) else shards


def _array_size(holding: Holding) -> int:
    return holding.count * max(1, holding.experts) * math.prod(holding.shape)


def _local_shape(holding: Holding, parallelism: Parallelism) -> list[int]:
    """What one rank has of an array that holds the tensors of all layers.

    Tensor ranks cut the dimension that they cut elsewhere, the shard group the other one, after the experts. A vector
    is cut by tensor ranks alone. What does not divide stays whole.
    Source: MaxText, configs/base.yml, logical_axis_rules and scan_layers.
    """
    layers, experts, shape = holding.count, max(1, holding.experts), list(holding.shape)
    tensor, shard = min(parallelism.tensor, holding.pieces), parallelism.shard_ranks
    by_expert = math.gcd(experts, parallelism.expert, shard)
    shape[holding.cut] = _cut(shape[holding.cut], tensor)
    if len(shape) > 1:
        other = next(axis for axis in reversed(range(len(shape))) if axis != holding.cut)
        shape[other] = _cut(shape[other], shard // by_expert)
    return [layers, experts // by_expert, *shape]


def _cut(size: int, num_ranks: int) -> int:
    return size // num_ranks if size % num_ranks == 0 else size


def _files(pools: list[_Filled], rank: int) -> Iterator[File]:
    """Data files, and what says where each chunk is in them."""
    own = [filled for filled in pools if rank < filled.num_writers]
    dense = _added(shares(filled.dense, filled.num_writers, rank) for filled in own)
    expert = _added(shares(filled.expert, filled.num_writers, rank) for filled in own)
    num_bytes = sum(dense.values()) + sum(expert.values())
    num_arrays = sum(filled.num_arrays for filled in own)
    yield File(_DATA, dense, expert, num_arrays, max(1, -(-num_bytes // TARGET_FILE_BYTES)), holds="share")
    yield File(_MANIFEST, {}, {}, 0)
    yield File(_SHAPES, {}, {}, 0)


def _added(parts: Iterator[PartBytes]) -> PartBytes:
    total: PartBytes = defaultdict(int)
    for part_bytes in parts:
        for name, num_bytes in part_bytes.items():
            total[name] += num_bytes
    return dict(total)


ORBAX = Orbax(
    name="orbax",
    frameworks=("maxtext",),
    modes=("async", "sync"),
    takes=frozenset({"tensor", "expert", "shard_group"}),
    files="ocdbt.process_RANK/d/N of 2 GiB and manifest.ocdbt per process; _METADATA and a merged manifest on rank 0",
    writers="every rank; the copies of a shard write a slice of it each",
    gathers="nothing",
    reshards="everything",
    needs_distributed_optimizer=False,
    container=CONTAINERS["ocdbt"],
    planning=None,
    assumptions=(
        Assumption(
            field="checkpoint.compression",
            value="not counted",
            reason="Orbax compresses each chunk with zstd; normally distributed values take 0.92 of their bytes in "
            "fp32 and 0.78 in bf16 (measured, Orbax 0.12)",
        ),
        Assumption(
            field="layout.rank_classes",
            value="one process per GPU",
            reason="MaxText on GPUs; a TPU host has one process for all its chips, which writes what they would",
        ),
    ),
    source="Orbax, checkpoint/_src/serialization/replica_slices.py and tensorstore_utils.py; MaxText, "
    "common/checkpointing.py",
)
