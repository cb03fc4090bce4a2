"""Megatron's distributed checkpoint: whole shards dealt over the ranks that hold the same, each saved once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from sizing.layout.containers import CONTAINERS
from sizing.layout.files import WEIGHTS, File, Plan, WriterClass
from sizing.layout.formats.base import CheckpointFormat, Gathers, RankShare, Reshards
from sizing.layout.formats.dealt_stage import DealtStage
from sizing.layout.formats.planning import OF_A_SHARE
from sizing.layout.formats.readers import Readers, each_shard_once, every_replica
from sizing.layout.formats.tensor_copies import copies_in_a_replica
from sizing.layout.optimizer_sharding import OptimizerSharding
from sizing.layout.parallelism import Parallelism, Ranks
from sizing.layout.saving_ranks import SavingRank
from sizing.layout.sharding import Sharding
from sizing.layout.stages import StageSpan
from sizing.model import TensorGroup
from sizing.state import StatePart
from sizing.state.saved_state import PartName

_FILE = "__RANK_N.distcp"


@dataclass(frozen=True, kw_only=True, eq=False)
class TorchDist(CheckpointFormat):
    """PyTorch's distributed checkpoint, saved fully in parallel.

    `variants`: the same with a distributed optimizer; none in themselves.
    """

    variants: Mapping[OptimizerSharding, CheckpointFormat]

    @property
    def deals_shards(self) -> bool:
        """It does."""
        return True

    def saving(self, sharding: OptimizerSharding | None) -> CheckpointFormat:
        """An optimizer that is not distributed is saved tensor by tensor, as one that was gathered."""
        return self if sharding is None else self.variants[sharding]

    def writer_classes(self, plan: Plan) -> Iterator[WriterClass]:
        """Every rank that is dealt something."""
        for span in plan.spans:
            yield from _stage(plan, span, plan.parts, flat=()).writers(_FILE)

    def rank_share(self, saving: SavingRank) -> RankShare:
        """The file says what it holds."""
        return RankShare(([], []))

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
        """Each replica reads all that it holds, of a distributed optimizer too: it cuts out its share after reading."""
        return every_replica(parallelism.replicas)

    def num_shards(self, parallelism: Parallelism) -> Ranks:
        """Tensors are cut by the tensor degrees; stages and replicas cut nothing."""
        return Ranks(parallelism.tensor, parallelism.expert_tensor_degree)


class TorchDistOfShares(TorchDist):
    """The same where each rank saves its share of a distributed optimizer: flat buffers, which fix all but replicas."""

    def writer_classes(self, plan: Plan) -> Iterator[WriterClass]:
        """Every rank, with its share and the weights that it is dealt."""
        weights = tuple(part for part in plan.parts if part.name in WEIGHTS)
        flat = tuple(part for part in plan.parts if part.name not in WEIGHTS)
        for span in plan.spans:
            yield from _stage(plan, span, weights, flat=flat).writers(_FILE)

    def num_copies(self, group: TensorGroup, part: PartName, parallelism: Parallelism) -> int:
        """Of weights one. The buffers are those of a model-parallel rank: what several hold, several save."""
        return 1 if part in WEIGHTS else copies_in_a_replica(group, parallelism)

    def readers(self, part: PartName, parallelism: Parallelism, sharding: Sharding) -> Readers:
        """Weights by each replica, the optimizer by the ranks that share it."""
        return every_replica(parallelism.replicas) if part in WEIGHTS else each_shard_once(parallelism)


def _stage(plan: Plan, span: StageSpan, parts: tuple[StatePart, ...], *, flat: tuple[StatePart, ...]) -> DealtStage:
    """The stage with parts dealt whole, or where the plan leaves that open, divided evenly."""
    dealt, once = (parts, ()) if plan.deals_whole else ((), parts)
    return DealtStage(plan, span, dealt, flat, once)


def _made(
    kind: type[TorchDist],
    *,
    reshards: Reshards = "everything",
    gathers: Gathers = "nothing",
    variants: Mapping[OptimizerSharding, CheckpointFormat] | None = None,
) -> TorchDist:
    return kind(
        name="torch-dist",
        frameworks=("megatron",),
        modes=("sync", "async"),
        takes=frozenset(
            {
                "tensor",
                "pipeline",
                "virtual_pipeline",
                "expert",
                "expert_tensor",
                "files_per_rank",
                "distributed_optimizer",
                "optimizer_sharding",
            }
        ),
        files="__RANK_N.distcp per rank, .metadata on rank 0",
        writers="every rank: whole shards dealt over data x context ranks, and its share of a distributed optimizer",
        gathers=gathers,
        reshards=reshards,
        needs_distributed_optimizer=False,
        container=CONTAINERS["distcp"],
        planning=OF_A_SHARE,
        assumptions=(),
        source="Megatron-LM, core/dist_checkpointing, fully parallel save; PyTorch distributed checkpoint",
        variants=variants or {},
    )


TORCH_DIST = _made(
    TorchDist,
    variants={
        "dp-reshardable": _made(TorchDistOfShares, reshards="replicas"),
        "fully-reshardable": _made(TorchDist, gathers="optimizer on every rank"),
    },
)
"""Gathered on every rank: Megatron-LM, core/optimizer/distrib_optimizer.py, sharded_param_state_fully_reshardable,
unless distrib_optim_fully_reshardable_mem_efficient."""
