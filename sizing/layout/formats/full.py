"""One file: rank 0 gathers everything and writes it."""

from __future__ import annotations

from collections.abc import Iterator

from sizing.layout.cells import unique_content, unique_shards
from sizing.layout.containers import CONTAINERS
from sizing.layout.files import File, Plan, WriterClass
from sizing.layout.formats.base import CheckpointFormat, RankShare
from sizing.layout.formats.readers import RANK_0, Readers
from sizing.layout.parallelism import Parallelism, Ranks
from sizing.layout.saving_ranks import SavingRank
from sizing.layout.sharding import Sharding
from sizing.model import TensorGroup
from sizing.state.saved_state import PartName

_ON_ONE_RANK = Parallelism()
"""Tensors stand whole in the file, over however many ranks they were cut."""


class Full(CheckpointFormat):
    """FSDP2's full state dict, saved by `torch.save`."""

    def writer_classes(self, plan: Plan) -> Iterator[WriterClass]:
        """Rank 0 with all tensors, each whole."""
        span = plan.spans[0]
        dense, expert = unique_content(span, _ON_ONE_RANK, plan.parts)
        file = File("checkpoint.pt", dense.part_bytes, expert.part_bytes, dense.num_tensors() + expert.num_tensors())
        yield WriterClass(span, range(1), 1, range(1), (file,))

    def rank_share(self, saving: SavingRank) -> RankShare:
        """All tensors."""
        return RankShare(unique_shards(saving.writer.span, _ON_ONE_RANK))

    def name_parts(self, file: File, number: int, saving: SavingRank) -> dict[str, str]:
        """None: there is one file."""
        return {}

    def num_copies(self, group: TensorGroup, part: PartName, parallelism: Parallelism) -> int:
        """One."""
        return 1

    def has_weights_beside_master(self, parallelism: Parallelism) -> bool:
        """Whatever is kept is saved."""
        return True

    def readers(self, part: PartName, parallelism: Parallelism, sharding: Sharding) -> Readers:
        """Rank 0 alone."""
        return RANK_0

    def num_shards(self, parallelism: Parallelism) -> Ranks:
        """Nothing is cut."""
        return Ranks()


FULL = Full(
    name="full",
    frameworks=("fsdp2",),
    modes=("sync",),
    takes=frozenset({"tensor", "expert", "expert_tensor", "shard_group"}),
    files="one file",
    writers="rank 0",
    gathers="everything",
    reshards="everything",
    needs_distributed_optimizer=False,
    container=CONTAINERS["torch-zip"],
    planning=None,
    assumptions=(),
    source="PyTorch, get_model_state_dict with full_state_dict, torch.save",
)
