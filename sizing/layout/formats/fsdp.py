"""The sharded format of FSDP2 and HSDP: every rank writes its rows, and the copies of a shard divide the writing."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from sizing.layout.containers import CONTAINERS
from sizing.layout.files import File, Plan, WriterClass, runs, shares
from sizing.layout.formats.base import CheckpointFormat, RankShare
from sizing.layout.formats.planning import OF_EVERY_TENSOR
from sizing.layout.formats.readers import Readers, every_shard_copy
from sizing.layout.fsdp_shards import fsdp_edges, fsdp_shards
from sizing.layout.parallelism import Parallelism, Ranks
from sizing.layout.saving_ranks import SavingRank
from sizing.layout.sharding import Sharding
from sizing.layout.shards import content_of
from sizing.model import TensorGroup
from sizing.state.saved_state import PartName


class FsdpSharded(CheckpointFormat):
    """PyTorch's distributed checkpoint of tensors that FSDP2 shards by rows."""

    def writer_classes(self, plan: Plan) -> Iterator[WriterClass]:
        """Each of the ranks with equal rows writes an equal share of the shard that it holds with its copies."""
        ranks = plan.parallelism.shard_ranks
        copies = plan.parallelism.num_replicas // ranks
        span = plan.spans[0]
        for first, past in pairwise(fsdp_edges(span, num_ranks=ranks)):
            dense, expert = (content_of(s, plan.parts) for s in fsdp_shards(span, num_ranks=ranks, rank=first))
            for copy, copy_past in runs(copies, (dense.part_bytes, copies, 1), (expert.part_bytes, copies, 1)):
                file = File(
                    "__RANK_0.distcp",
                    shares(dense.part_bytes, copies, copy),
                    shares(expert.part_bytes, copies, copy),
                    -(-(dense.num_tensors() + expert.num_tensors()) // copies),
                    holds="share",
                )
                yield WriterClass(span, range(first, past), ranks, range(copy, copy_past), (file,))

    def rank_share(self, saving: SavingRank) -> RankShare:
        """A share of the rank's shard."""
        parallelism, ranks = saving.parallelism, saving.parallelism.shard_ranks
        shards = fsdp_shards(saving.writer.span, num_ranks=ranks, rank=saving.inner)
        return RankShare(shards, saving.outer, parallelism.num_replicas // ranks)

    def name_parts(self, file: File, number: int, saving: SavingRank) -> dict[str, str]:
        """Rank in the world."""
        return {"RANK": str(saving.rank)}

    def num_copies(self, group: TensorGroup, part: PartName, parallelism: Parallelism) -> int:
        """One."""
        return 1

    def has_weights_beside_master(self, parallelism: Parallelism) -> bool:
        """Whatever is kept is saved."""
        return True

    def readers(self, part: PartName, parallelism: Parallelism, sharding: Sharding) -> Readers:
        """Every rank its shard."""
        return every_shard_copy(parallelism)

    def num_shards(self, parallelism: Parallelism) -> Ranks:
        """Tensors are cut by the shard group; its copies cut nothing."""
        return Ranks(parallelism.shard_ranks, parallelism.shard_ranks)


FSDP_SHARDED = FsdpSharded(
    name="fsdp-sharded",
    frameworks=("fsdp2",),
    modes=("sync", "async"),
    takes=frozenset({"shard_group"}),
    files="__RANK_0.distcp per rank, .metadata on rank 0",
    writers="every rank; the copies of a shard share its writing",
    gathers="nothing",
    reshards="everything",
    needs_distributed_optimizer=False,
    container=CONTAINERS["distcp"],
    planning=OF_EVERY_TENSOR,
    assumptions=(),
    source="PyTorch, torch/distributed/checkpoint with FSDP2; measured in published/framework_checkpoints.json",
)
