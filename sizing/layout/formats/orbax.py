"""Orbax's format, as MaxText saves: every process writes its slices of all arrays into an OCDBT database of its own.

A shard that is on R ranks is cut into R slices along its first dimension that R divides, and each rank writes one. If R
divides no dimension, the first rank writes the shard whole.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace

from sizing.layout.containers import CONTAINERS
from sizing.layout.files import File, PartBytes, Plan, SavingRank, WriterClass, runs, shares
from sizing.layout.formats.base import CheckpointFormat, HostLoading, RankShare, Readers
from sizing.layout.holders import Shards, content_of, unique_shards
from sizing.layout.parallelism import Parallelism, Ranks
from sizing.layout.sharding import Sharding
from sizing.layout.stages import Holding, StageSpan
from sizing.model import TensorGroup
from sizing.provenance import Assumption
from sizing.state.saved_state import PartName

TARGET_FILE_BYTES = 2 * 1024**3
"""Size at which Orbax closes a data file. Source: MaxText, configs/base.yml,
checkpoint_storage_target_data_file_size_bytes; on file systems Orbax takes the same where none is given
(checkpoint/_src/serialization/tensorstore_utils.py, _DEFAULT_OCDBT_TARGET_DATA_FILE_SIZE)."""

_DATA, _MANIFEST, _SHAPES = (
    "ocdbt.process_RANK/d/N",
    "ocdbt.process_RANK/manifest.ocdbt",
    "array_metadatas/process_RANK",
)


class Orbax(CheckpointFormat):
    """Orbax's format. Arrays cover all ranks: FSDP ranks and tensor ranks cut one dimension each, in equal parts."""

    def writer_classes(self, plan: Plan) -> Iterator[WriterClass]:
        """List the ranks, each with its share of each pool; ranks in a row with equal shares are one class."""
        ranks = plan.parallelism.ranks_per_stage
        span = plan.spans[0]
        pools = [_PoolBytes.of(pool, plan) for pool in _pools(span, plan.parallelism)]
        shared = ((part_bytes, each.num_writers, 1) for each in pools for part_bytes in (each.dense, each.expert))
        for first, past in runs(ranks, *shared, extra=[each.num_writers for each in pools]):
            yield WriterClass(span, range(first, past), ranks, range(1), tuple(_files(pools, first)))

    def rank_share(self, saving: SavingRank) -> RankShare:
        """A rank writes a share of each pool that it is a writer of."""
        shares = [
            RankShare(pool.shards, saving.inner, pool.num_writers)
            for pool in _pools(saving.writer.span, saving.parallelism)
            if saving.inner < pool.num_writers
        ]
        return replace(shares[0], more=tuple(shares[1:]))

    def name_parts(self, file: File, number: int, saving: SavingRank) -> dict[str, str]:
        """Files are named by process, one for each rank, and numbered; real ones have a random name."""
        return {"RANK": str(saving.rank), "N": str(number)}

    def small_files(self, *, files_per_rank: int) -> tuple[str, ...]:
        """Return the tree, its sharding, the merged index and the marks of a whole save.

        Source: listed after a real save of Orbax 0.12 by two processes. Beside its data each process also wrote two to
        four index files, as commits happened to gather writes; they are not counted.
        """
        return ("_METADATA", "_sharding", "manifest.ocdbt", "d/0", "_CHECKPOINT_METADATA", "commit_success.txt")

    def num_copies(self, group: TensorGroup, part: PartName, parallelism: Parallelism) -> int:
        return 1

    def has_weights_beside_master(self, parallelism: Parallelism) -> bool:
        return True

    def readers(self, part: PartName, parallelism: Parallelism, sharding: Sharding) -> Readers:
        shards, replicas = sharding.weights, parallelism.replicas
        copies = Ranks(*(max(1, n // held) for n, held in zip(replicas, shards, strict=True)))
        return Readers("every-shard-copy", "everyone", copies, shards)

    def num_shards(self, parallelism: Parallelism) -> Ranks:
        """Count the chunks of an array: each is compressed by itself, and so read whole."""
        shards = parallelism.tensor * parallelism.shard_ranks
        return Ranks(shards, shards)

    def num_cuts(self, holding: Holding, parallelism: Parallelism) -> tuple[int, ...]:
        """Return the cuts of the array of all layers: tensor ranks and the shard group each cut a dimension."""
        if holding.is_spread:
            return super().num_cuts(holding, parallelism)
        whole = (holding.count, max(1, holding.experts), *holding.shape)
        return tuple(size // part for size, part in zip(whole, _local_shape(holding, parallelism), strict=True))


@dataclass(frozen=True, slots=True)
class _Pool:
    """Arrays whose bytes the first `num_writers` ranks share equally."""

    shards: Shards
    num_writers: int


@dataclass(frozen=True, slots=True)
class _PoolBytes:
    """A pool with the bytes of each saved part in it."""

    dense: PartBytes
    expert: PartBytes
    num_arrays: int
    num_writers: int

    @classmethod
    def of(cls, pool: _Pool, plan: Plan) -> _PoolBytes:
        """Count the bytes of the parts that a plan saves; a tensor of all layers is one array."""
        dense, expert = (content_of(shards, plan.parts).part_bytes for shards in pool.shards)
        num_arrays = sum(map(len, pool.shards)) * sum(part.num_statistics for part in plan.parts)
        return cls(dense, expert, num_arrays, pool.num_writers)


def _pools(span: StageSpan, parallelism: Parallelism) -> Iterator[_Pool]:
    """Group the arrays of a model by the number of ranks that write each, the largest number first."""
    by_writers: dict[int, list[Holding]] = defaultdict(list)
    for holding in span.holdings:
        by_writers[_num_writers(holding, parallelism)].append(holding)
    for num_writers, holdings in sorted(by_writers.items(), reverse=True):
        yield _Pool(unique_shards(replace(span, holdings=tuple(holdings)), _UNCUT), num_writers)


_UNCUT = Parallelism()
"""Degrees of an array that is written in slices: its statistics, such as Adafactor's, are those of the whole array."""


def _num_writers(holding: Holding, parallelism: Parallelism) -> int:
    """Count the ranks that write an array: all of them, or those with the first copy of each shard."""
    local = _local_shape(holding, parallelism)
    num_values = holding.count * max(1, holding.experts) * math.prod(holding.shape)
    shards = num_values // math.prod(local)
    ranks = parallelism.ranks_per_stage
    copies = max(1, ranks // shards)
    return ranks if any(size % copies == 0 for size in local) else shards


def _local_shape(holding: Holding, parallelism: Parallelism) -> list[int]:
    """Return the shape that one rank has of an array with the tensors of all layers.

    Tensor ranks cut the same dimension as elsewhere. The shard group cuts the experts first, then the other dimension.
    Only tensor ranks cut a vector. A dimension that cannot be divided stays whole. Source: MaxText, configs/base.yml,
    logical_axis_rules and scan_layers.
    """
    layers, experts, shape = holding.count, max(1, holding.experts), list(holding.shape)
    tensor, shard = min(parallelism.tensor, holding.pieces), parallelism.shard_ranks
    by_expert = math.gcd(experts, parallelism.expert, shard)
    shape[holding.cut] = _cut_size(shape[holding.cut], tensor)
    if len(shape) > 1:
        other = next(axis for axis in reversed(range(len(shape))) if axis != holding.cut)
        shape[other] = _cut_size(shape[other], shard // by_expert)
    return [layers, experts // by_expert, *shape]


def _cut_size(size: int, num_ranks: int) -> int:
    return size // num_ranks if size % num_ranks == 0 else size


def _files(pools: list[_PoolBytes], rank: int) -> Iterator[File]:
    """List a rank's data files, and the files that say where each chunk is in them."""
    own = [pool for pool in pools if rank < pool.num_writers]
    dense, expert = Counter[PartName](), Counter[PartName]()
    for pool in own:
        dense.update(shares(pool.dense, pool.num_writers, rank))
        expert.update(shares(pool.expert, pool.num_writers, rank))
    num_bytes = sum(dense.values()) + sum(expert.values())
    num_arrays = sum(pool.num_arrays for pool in own)
    yield File(_DATA, dict(dense), dict(expert), num_arrays, max(1, -(-num_bytes // TARGET_FILE_BYTES)), holds="share")
    yield File(_MANIFEST, {}, {}, 0)
    yield File(_SHAPES, {}, {}, 0)


ORBAX = Orbax(
    name="orbax",
    frameworks=("maxtext",),
    modes=("async", "sync"),
    takes=frozenset({"tensor", "expert", "shard_group", "stored_fraction"}),
    files="ocdbt.process_RANK/d/N of 2 GiB and manifest.ocdbt per process; _METADATA and a merged manifest on rank 0",
    writers="every rank; the copies of a shard write a slice of it each",
    gathers="nothing",
    reshards="everything",
    needs_distributed_optimizer=False,
    container=CONTAINERS["ocdbt"],
    planning=None,
    stored_fractions={4: (0.918 + 0.943) / 2, 2: (0.78 + 0.795) / 2},  # midpoints of what ranges.toml has sources for
    host_loading=HostLoading(
        budget_bytes=96_000_000_000,
        source="Orbax 0.12.8, checkpoint/_src/handlers/pytree_checkpoint_handler.py, DEFAULT_CONCURRENT_GB; MaxText, "
        "checkpoint_storage_concurrent_gb 96; measured: 1.19 of a state that is read beside another, on CPUs",
    ),
    assumptions=(
        Assumption(
            field="layout.rank_classes",
            value="one process per GPU",
            reason="MaxText on GPUs; a TPU host has one process for all its chips, which writes what they would",
        ),
    ),
    source="Orbax, checkpoint/_src/serialization/replica_slices.py and tensorstore_utils.py; MaxText, "
    "common/checkpointing.py",
)
