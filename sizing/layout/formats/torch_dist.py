"""Megatron's distributed checkpoint: whole shards are assigned to ranks that hold the same, and each is saved once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from sizing.frameworks.framework import OptimizerSharding
from sizing.layout.containers import CONTAINERS, METADATA, WITH_PLANS_OF_FLAT_SHARES
from sizing.layout.files import WEIGHTS, File, Plan, SavingRank, WriterClass
from sizing.layout.formats.assigned_stage import AssignedStage
from sizing.layout.formats.base import (
    OF_A_SHARE,
    TENSOR_BY_TENSOR,
    CheckpointFormat,
    Gathers,
    Planning,
    RankShare,
    Readers,
    Reshards,
    copies_in_a_replica,
    each_shard_once,
    every_replica,
)
from sizing.layout.parallelism import Parallelism, Ranks
from sizing.layout.sharding import Sharding
from sizing.layout.stages import StageSpan
from sizing.model import TensorGroup
from sizing.state import StatePart
from sizing.state.saved_state import PartName

_FILE = "__RANK_N.distcp"


@dataclass(frozen=True, kw_only=True, eq=False)
class TorchDist(CheckpointFormat):
    """PyTorch's distributed checkpoint, saved fully in parallel.

    `variants`: the format with each form of a distributed optimizer; a variant has no further ones.
    """

    variants: Mapping[OptimizerSharding, CheckpointFormat]

    @property
    def assigns_shards(self) -> bool:
        return True

    def saving(self, sharding: OptimizerSharding | None) -> CheckpointFormat:
        """Return the variant for this form of a distributed optimizer; any other optimizer is saved by tensor."""
        return self if sharding is None else self.variants[sharding]

    def writer_classes(self, plan: Plan) -> Iterator[WriterClass]:
        """List the ranks that are assigned something."""
        for span in plan.spans:
            yield from _stage(plan, span, plan.parts, flat=()).writers(_FILE)

    def rank_share(self, saving: SavingRank) -> RankShare:
        """No shards are named here: each file says what it holds."""
        return RankShare(([], []))

    def name_parts(self, file: File, number: int, saving: SavingRank) -> dict[str, str]:
        return {"RANK": str(saving.rank), "N": str(number)}

    def small_files(self, *, files_per_rank: int) -> tuple[str, ...]:
        """Return the index, the name of the format and, beside several files per rank, the state of no tensor.

        Source: Megatron-LM, core/dist_checkpointing/serialization.py, save; since its pull request 5160 `common.pt` is
        an object in the shards (modelscope/ms-swift pull request 9908). Versions with several files per rank wrote it.
        """
        return (METADATA, "metadata.json", *(("common.pt",) if files_per_rank > 1 else ()))

    def num_copies(self, group: TensorGroup, part: PartName, parallelism: Parallelism) -> int:
        return 1

    def has_weights_beside_master(self, parallelism: Parallelism) -> bool:
        return True

    def readers(self, part: PartName, parallelism: Parallelism, sharding: Sharding) -> Readers:
        """Return every replica: each reads all that it holds, and cuts out its share of the optimizer afterwards."""
        return every_replica(parallelism.replicas)

    def num_shards(self, parallelism: Parallelism) -> Ranks:
        """Return the tensor degrees, which cut tensors; stages and replicas cut nothing."""
        return Ranks(parallelism.tensor, parallelism.expert_tensor_degree)


class TorchDistOfShares(TorchDist):
    """Variant in which a rank saves its share of a distributed optimizer.

    Its flat buffers fix all degrees except data and context.
    """

    def writer_classes(self, plan: Plan) -> Iterator[WriterClass]:
        """List the ranks, each with its share and the weights that it is assigned."""
        weights = tuple(part for part in plan.parts if part.name in WEIGHTS)
        flat = tuple(part for part in plan.parts if part.name not in WEIGHTS)
        for span in plan.spans:
            yield from _stage(plan, span, weights, flat=flat).writers(_FILE)

    def num_copies(self, group: TensorGroup, part: PartName, parallelism: Parallelism) -> int:
        """Weights are saved once. The buffers are those of a model-parallel rank: what several hold, several save."""
        return 1 if part in WEIGHTS else copies_in_a_replica(group, parallelism)

    def readers(self, part: PartName, parallelism: Parallelism, sharding: Sharding) -> Readers:
        """Return every replica for weights, and the ranks that share it for the optimizer."""
        return every_replica(parallelism.replicas) if part in WEIGHTS else each_shard_once(parallelism)


def _stage(plan: Plan, span: StageSpan, parts: tuple[StatePart, ...], *, flat: tuple[StatePart, ...]) -> AssignedStage:
    """Make a stage with parts assigned whole, or divided evenly if the plan leaves that open."""
    assigned, once = (parts, ()) if plan.assigns_whole else ((), parts)
    return AssignedStage(plan, span, assigned, flat, once)


def _make_format(
    kind: type[TorchDist],
    *,
    reshards: Reshards = "everything",
    gathers: Gathers = "nothing",
    planning: Planning = OF_A_SHARE,
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
        files="__RANK_N.distcp per rank; .metadata, metadata.json and formerly common.pt on rank 0",
        writers="every rank: whole shards dealt over data x context ranks, and its share of a distributed optimizer",
        gathers=gathers,
        reshards=reshards,
        needs_distributed_optimizer=False,
        container=CONTAINERS["distcp"],
        planning=planning,
        host_loading=TENSOR_BY_TENSOR,
        stages_always=True,  # FileSystemWriterAsync.preload_tensors, which AsyncRequest.execute_sync calls too
        assumptions=(),
        source="Megatron-LM, core/dist_checkpointing, fully parallel save; PyTorch distributed checkpoint",
        variants=variants or {},
    )


TORCH_DIST = _make_format(
    TorchDist,
    variants={
        "dp-reshardable": _make_format(
            TorchDistOfShares, reshards="replicas", planning=replace(OF_A_SHARE, metadata=WITH_PLANS_OF_FLAT_SHARES)
        ),
        "fully-reshardable": _make_format(TorchDist, gathers="optimizer on every rank"),
    },
)
"""Gathered on every rank: Megatron-LM, core/optimizer/distrib_optimizer.py, sharded_param_state_fully_reshardable,
unless distrib_optim_fully_reshardable_mem_efficient."""
