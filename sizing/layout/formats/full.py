"""Formats in which rank 0 writes whole tensors: in one file, or in one of weights and one of the optimizer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from sizing.layout.containers import CONTAINERS
from sizing.layout.files import OPTIMIZER, WEIGHTS, File, Plan, SavingRank, WriterClass
from sizing.layout.formats.base import RANK_0, CheckpointFormat, Copies, RankShare, Readers, every_replica
from sizing.layout.holders import Content, unique_content, unique_shards
from sizing.layout.parallelism import Parallelism, Ranks
from sizing.layout.sharding import Sharding
from sizing.model import TensorGroup
from sizing.state.saved_state import PartName

_ON_ONE_RANK = Parallelism()
"""Degrees of the file: tensors are whole in it, however many ranks cut them."""


class Full(CheckpointFormat):
    """Full state dict of FSDP2, saved by `torch.save`."""

    @property
    def is_by_rank_0(self) -> bool:
        return True

    def writer_classes(self, plan: Plan) -> Iterator[WriterClass]:
        """List rank 0, which writes all tensors, each whole."""
        span = plan.spans[0]
        dense, expert = unique_content(span, _ON_ONE_RANK, plan.parts)
        files = tuple(file for file in self.files_of_rank_0(plan, dense, expert) if file.num_bytes)
        yield WriterClass(span, range(1), 1, range(1), files)

    def files_of_rank_0(self, plan: Plan, dense: Content, expert: Content) -> Iterator[File]:
        """List the file, which holds everything."""
        yield _file("checkpoint.pt", (*WEIGHTS, *OPTIMIZER), dense, expert)

    def rank_share(self, saving: SavingRank) -> RankShare:
        return RankShare(unique_shards(saving.writer.span, _ON_ONE_RANK))

    def name_parts(self, file: File, number: int, saving: SavingRank) -> dict[str, str]:
        return {}

    def num_copies(self, group: TensorGroup, part: PartName, parallelism: Parallelism) -> int:
        return 1

    def has_weights_beside_master(self, parallelism: Parallelism) -> bool:
        return True

    def readers(self, part: PartName, parallelism: Parallelism, sharding: Sharding) -> Readers:
        return RANK_0

    def num_shards(self, parallelism: Parallelism) -> Ranks:
        return Ranks()


@dataclass(frozen=True, kw_only=True, eq=False)
class OfTrainer(Full):
    """Files that rank 0 writes for a trainer: with DDP it has all of them, with FSDP it gathers them.

    `weights_file`, `optimizer_file`: their names; None if one file, `weights_file`, holds both. `of_fsdp`: names of the
    two with FSDP, where the weights may have a second file, which alone is read back. `read_by_all`: parts that every
    rank reads whole with FSDP; the others rank 0 reads, and sends each rank its shards. `shard_bytes`: max bytes of a
    file of weights.
    """

    weights_file: str
    optimizer_file: str | None
    of_fsdp: tuple[tuple[str, ...], str | None]
    read_by_all: tuple[PartName, ...] = ()
    shard_bytes: int | None = None

    def files_of_rank_0(self, plan: Plan, dense: Content, expert: Content) -> Iterator[File]:
        """List the files of weights, and that of the optimizer."""
        weights, optimizer = self._names(plan.parallelism)
        for name in weights:
            file = _file(name, WEIGHTS if optimizer else (*WEIGHTS, *OPTIMIZER), dense, expert)
            count = -(-file.num_bytes // self.shard_bytes) if self.shard_bytes and name == self.weights_file else 1
            yield replace(file, name=name.replace(".", "-NNNNN-of-MMMMM."), count=count) if count > 1 else file
        if optimizer:
            yield _file(optimizer, OPTIMIZER, dense, expert)

    def _names(self, parallelism: Parallelism) -> tuple[tuple[str, ...], str | None]:
        return self.of_fsdp if _has_fsdp(parallelism) else ((self.weights_file,), self.optimizer_file)

    def name_parts(self, file: File, number: int, saving: SavingRank) -> dict[str, str]:
        """Files of weights are numbered from 1, if there are several."""
        return {"NNNNN": f"{number + 1:05d}", "MMMMM": f"{file.count:05d}"}

    def num_copies(self, group: TensorGroup, part: PartName, parallelism: Parallelism) -> int:
        return len(self._names(parallelism)[0]) if part in WEIGHTS else 1

    def gathered_parts(self, sharding: Sharding) -> tuple[PartName, ...]:
        """With DDP nothing is gathered."""
        return () if sharding.shard_group == 1 else super().gathered_parts(sharding)

    def readers(self, part: PartName, parallelism: Parallelism, sharding: Sharding) -> Readers:
        """With DDP every rank reads everything, with FSDP each what all read; rank 0 reads the rest, from one file."""
        if sharding.shard_group == 1 or part in self.read_by_all:
            return every_replica(parallelism.replicas)
        copies = 1 / len(self._names(parallelism)[0]) if part in WEIGHTS else 1.0
        return replace(RANK_0, copies=Copies(copies, copies))


def _has_fsdp(parallelism: Parallelism) -> bool:
    return (parallelism.shard_group or 1) > 1


def _file(name: str, names: tuple[PartName, ...], dense: Content, expert: Content) -> File:
    """Make a file of some parts, each tensor whole."""
    return File(name, dense.of(names), expert.of(names), dense.num_tensors(names) + expert.num_tensors(names))


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

TORCH_SAVE = OfTrainer(
    name="torch-save",
    frameworks=("ddp",),
    modes=("sync",),
    takes=frozenset(),
    files="one file",
    writers="rank 0",
    gathers="nothing",
    reshards="everything",
    needs_distributed_optimizer=False,
    container=CONTAINERS["torch-zip"],
    planning=None,
    assumptions=(),
    weights_file="checkpoint.pt",
    optimizer_file=None,
    of_fsdp=(("checkpoint.pt",), None),
    source="PyTorch tutorials, Getting Started with Distributed Data Parallel; torch.save",
)

LIGHTNING = OfTrainer(
    name="lightning",
    frameworks=("lightning",),
    modes=("sync",),
    takes=frozenset({"shard_group"}),
    files="one file, epoch=E-step=S.ckpt",
    writers="rank 0",
    gathers="everything",
    reshards="everything",
    needs_distributed_optimizer=False,
    container=CONTAINERS["torch-zip"],
    planning=None,
    assumptions=(),
    weights_file="last.ckpt",
    optimizer_file=None,
    of_fsdp=(("last.ckpt",), None),
    read_by_all=(*WEIGHTS, *OPTIMIZER),
    source="Lightning 2.6, trainer/connectors/checkpoint_connector.py, dump_checkpoint; strategies/fsdp.py with "
    "state_dict_type full, its default, whose load_checkpoint opens the file on every rank, with rank0_only off",
)

_MODEL = "model.safetensors"
_FSDP_MODEL, _OPTIMIZER_BIN = "pytorch_model_fsdp.bin", "optimizer.bin"

HF_TRAINER = OfTrainer(
    name="hf-trainer",
    frameworks=("transformers",),
    modes=("sync",),
    takes=frozenset({"shard_group"}),
    files="model.safetensors, in files of up to 50 GB, and optimizer.pt; with FSDP pytorch_model_fsdp.bin beside it, "
    "which has the weights again, and optimizer.bin",
    writers="rank 0",
    gathers="everything",
    reshards="everything",
    needs_distributed_optimizer=False,
    container=CONTAINERS["torch-zip"],
    planning=None,
    assumptions=(),
    weights_file=_MODEL,
    optimizer_file="optimizer.pt",
    of_fsdp=((_MODEL, _FSDP_MODEL), _OPTIMIZER_BIN),
    shard_bytes=50_000_000_000,
    source="transformers 5.23, trainer.py, save_model, _save_optimizer_and_scheduler and _load_from_checkpoint, which "
    "with FSDP reads pytorch_model_fsdp.bin alone; training_args.py, _process_fsdp_args, with FSDP2 and "
    "FULL_STATE_DICT as its defaults; modeling_utils.py, max_shard_size of save_pretrained; accelerate 1.15, "
    "utils/fsdp_utils.py, where the main process alone reads them",
)

ACCELERATE = OfTrainer(
    name="accelerate",
    frameworks=("accelerate",),
    modes=("sync",),
    takes=frozenset({"shard_group"}),
    files="model.safetensors and optimizer.bin; with FSDP pytorch_model_fsdp.bin and optimizer.bin",
    writers="rank 0",
    gathers="everything",
    reshards="everything",
    needs_distributed_optimizer=False,
    container=CONTAINERS["torch-zip"],
    planning=None,
    assumptions=(),
    weights_file=_MODEL,
    optimizer_file=_OPTIMIZER_BIN,
    of_fsdp=((_FSDP_MODEL,), _OPTIMIZER_BIN),
    read_by_all=WEIGHTS,
    source="accelerate 1.15, checkpointing.py, save_accelerator_state; utils/fsdp_utils.py with FULL_STATE_DICT, which "
    "is the default with FSDP1 alone: there load_fsdp_model reads on every rank, load_fsdp_optimizer on rank 0",
)
