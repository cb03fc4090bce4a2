"""One safetensors file per pipeline stage: the first rank of the stage gathers what the stage holds and writes it."""

from __future__ import annotations

from collections.abc import Iterator

from sizing.layout.containers import CONTAINERS
from sizing.layout.files import File, Plan, SavingRank, WriterClass
from sizing.layout.formats.base import CheckpointFormat, RankShare, Readers, every_replica
from sizing.layout.holders import unique_content, unique_shards
from sizing.layout.parallelism import Parallelism, Ranks
from sizing.layout.sharding import Sharding
from sizing.model import TensorGroup
from sizing.state.saved_state import PartName


class StageFiles(CheckpointFormat):
    """Each tensor whole in the file of its stage."""

    def writer_classes(self, plan: Plan) -> Iterator[WriterClass]:
        """The first rank of each stage."""
        for span in plan.spans:
            dense, expert = unique_content(span, plan.parallelism, plan.parts)
            num_tensors = dense.num_tensors() + expert.num_tensors()
            file = File("stage_SSS.safetensors", dense.part_bytes, expert.part_bytes, num_tensors)
            yield WriterClass(span, range(1), 1, range(1), (file,))

    def rank_share(self, saving: SavingRank) -> RankShare:
        """All tensors of the stage."""
        return RankShare(unique_shards(saving.writer.span, saving.parallelism))

    def name_parts(self, file: File, number: int, saving: SavingRank) -> dict[str, str]:
        """The stage."""
        return {"SSS": f"{saving.stage:03d}"}

    def num_copies(self, group: TensorGroup, part: PartName, parallelism: Parallelism) -> int:
        """One."""
        return 1

    def has_weights_beside_master(self, parallelism: Parallelism) -> bool:
        """Both are saved."""
        return True

    def readers(self, part: PartName, parallelism: Parallelism, sharding: Sharding) -> Readers:
        """Each rank the rows that it holds."""
        return every_replica(parallelism.replicas)

    def num_shards(self, parallelism: Parallelism) -> Ranks:
        """Tensors are whole, and safetensors gives any slice of them."""
        return Ranks()


STAGE_FILES = StageFiles(
    name="stage-files",
    frameworks=("megatron",),
    modes=("sync",),
    takes=frozenset({"tensor", "pipeline", "expert"}),
    files="stage_SSS.safetensors, one per pipeline stage",
    writers="the first rank of each stage",
    gathers="everything",
    reshards="everything",
    needs_distributed_optimizer=False,
    container=CONTAINERS["safetensors"],
    planning=None,
    assumptions=(),
    source="an example for this project's documentation",
)
