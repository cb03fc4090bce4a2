"""Megatron's distributed checkpoint: every rank writes a share of what its stage holds, each tensor once."""

from __future__ import annotations

from collections.abc import Iterator

from sizing.layout.cells import unique_content, unique_shards
from sizing.layout.containers import CONTAINERS
from sizing.layout.files import WEIGHTS, File, Plan, WriterClass, runs, shares
from sizing.layout.formats.base import CheckpointFormat, RankShare
from sizing.layout.formats.planning import OF_A_SHARE
from sizing.layout.formats.readers import Readers, each_shard_once, every_replica
from sizing.layout.parallelism import Parallelism, Ranks
from sizing.layout.saving_ranks import SavingRank
from sizing.layout.sharding import WHOLE, Sharding
from sizing.model import TensorGroup
from sizing.provenance import Assumption
from sizing.state.saved_state import PartName


class TorchDist(CheckpointFormat):
    """PyTorch's distributed checkpoint, saved fully in parallel."""

    def writer_classes(self, plan: Plan) -> Iterator[WriterClass]:
        """Every rank of a stage writes an equal share of its bytes."""
        ranks = plan.parallelism.ranks_per_stage
        for span in plan.spans:
            dense, expert = unique_content(span, plan.parallelism, plan.parts)
            for first, past in runs(ranks, (dense.part_bytes, ranks, 1), (expert.part_bytes, ranks, 1)):
                file = File(
                    "__RANK_N.distcp",
                    shares(dense.part_bytes, ranks, first),
                    shares(expert.part_bytes, ranks, first),
                    -(-(dense.num_tensors() + expert.num_tensors()) // ranks),
                    plan.files_per_rank,
                    holds="share",
                )
                yield WriterClass(span, range(first, past), ranks, range(1), (file,))

    def rank_share(self, saving: SavingRank) -> RankShare:
        """A share of the stage's tensors."""
        shards = unique_shards(saving.writer.span, saving.parallelism)
        return RankShare(shards, saving.inner, saving.writer.inner_size)

    def name_parts(self, file: File, number: int, saving: SavingRank) -> dict[str, str]:
        """Rank in the world, and which of its files."""
        return {"RANK": str(saving.rank), "N": str(number)}

    def num_copies(self, group: TensorGroup, part: PartName, parallelism: Parallelism) -> int:
        """One."""
        return 1

    def has_weights_beside_master(self, parallelism: Parallelism) -> bool:
        """Both are saved."""
        return True

    def readers(self, part: PartName, parallelism: Parallelism, sharding: Sharding) -> Readers:
        """Weights by each replica; the optimizer too, unless it is distributed: then by the ranks that share it."""
        is_shared = part not in WEIGHTS and sharding.optimizer != WHOLE
        return each_shard_once(parallelism) if is_shared else every_replica(parallelism.replicas)

    def num_shards(self, parallelism: Parallelism) -> Ranks:
        """Tensors are cut by the tensor degrees; stages and replicas cut nothing."""
        return Ranks(parallelism.tensor, parallelism.expert_tensor_degree)


TORCH_DIST = TorchDist(
    name="torch-dist",
    frameworks=("megatron",),
    modes=("sync", "async"),
    takes=frozenset(
        {"tensor", "pipeline", "virtual_pipeline", "expert", "expert_tensor", "files_per_rank", "distributed_optimizer"}
    ),
    files="__RANK_N.distcp per rank, .metadata on rank 0",
    writers="every rank its share; each tensor once",
    gathers="nothing",
    reshards="everything",
    needs_distributed_optimizer=False,
    container=CONTAINERS["distcp"],
    planning=OF_A_SHARE,
    assumptions=(
        Assumption(
            field="layout.rank_classes",
            value="equal shares",
            reason="the planner deals whole tensors, and shards of a distributed optimizer; equal shares of a stage "
            "are assumed",
        ),
    ),
    source="Megatron-LM, core/dist_checkpointing, fully parallel save; PyTorch distributed checkpoint",
)
