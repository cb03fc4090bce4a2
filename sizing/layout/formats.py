"""Checkpoint formats, each defined by one row: its files, who writes them, who gathers, who reads back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from sizing.errors import InvalidInput
from sizing.layout.containers import ContainerName
from sizing.layout.parallelism import Parallelism
from sizing.state import Training
from sizing.state.training import Framework

FormatName = Literal[
    "megatron",
    "megatron-distributed-optimizer",
    "torch-dist",
    "deepspeed",
    "fsdp-sharded",
    "full",
]
Mode = Literal["sync", "async"]
Readers = Literal["every-replica", "each-shard-once", "every-shard-copy", "writers", "rank-0"]
"""`every-replica`: each replica reads it again. `each-shard-once`: every rank reads its own share. `every-shard-copy`:
each FSDP rank reads its shard. `writers`: the ranks that wrote it read it and deal it out. `rank-0`: it alone reads."""


Gathers = Literal["nothing", "optimizer", "everything"]
"""What writers gather from other ranks in their host memory first."""

Reshards = Literal["everything", "replicas", "nothing"]
"""`replicas`: data and context degrees, which only say how often the same files are read."""


@dataclass(frozen=True, slots=True)
class CheckpointFormat:
    """What defines a format.

    `model_parallel`: whether tensor, pipeline and expert degrees may exceed 1.
    `repeats_tensors`: a tensor stands in the file of every model-parallel rank that holds it.
    `expert_rank_files`: each expert rank writes, and reads back, a file with its dense weights too.
    `reshards`: which degrees may differ when it is read back.
    """

    files: str
    writers: str
    gathers: Gathers
    weights_read: Readers
    optimizer_read: Readers
    modes: tuple[Mode, ...]
    frameworks: tuple[Framework, ...]
    zero_stages: tuple[int, ...]
    model_parallel: bool
    shards_optimizer: bool
    repeats_tensors: bool
    expert_rank_files: bool
    reshards: Reshards
    container: ContainerName
    source: str


FORMATS: dict[FormatName, CheckpointFormat] = {
    "megatron": CheckpointFormat(
        files="mp_rank_TT[_PPP][_EEE]/model_optim_rng.pt, one per model-parallel rank",
        writers="model-parallel ranks of replica 0, with experts one per expert rank",
        gathers="nothing",
        weights_read="every-replica",
        optimizer_read="every-replica",
        modes=("sync",),
        frameworks=("megatron",),
        zero_stages=(),
        model_parallel=True,
        shards_optimizer=False,
        repeats_tensors=True,
        expert_rank_files=True,
        reshards="replicas",
        container="torch-zip",
        source="Megatron-LM, megatron/training/checkpointing.py, get_checkpoint_name, save_checkpoint",
    ),
    "megatron-distributed-optimizer": CheckpointFormat(
        files="model_optim_rng.pt with the weights and distrib_optim.pt, per model-parallel rank",
        writers="model-parallel ranks of replica 0, with experts one per expert rank",
        gathers="optimizer",
        weights_read="every-replica",
        optimizer_read="writers",
        modes=("sync",),
        frameworks=("megatron",),
        zero_stages=(),
        model_parallel=True,
        shards_optimizer=True,
        repeats_tensors=True,
        expert_rank_files=True,
        reshards="replicas",
        container="torch-zip",
        source="Megatron-LM, core/optimizer/distrib_optimizer.py, save_parameter_state",
    ),
    "torch-dist": CheckpointFormat(
        files="__RANK_N.distcp per rank, .metadata on rank 0",
        writers="every rank its share; each tensor once",
        gathers="nothing",
        weights_read="every-replica",
        optimizer_read="each-shard-once",
        modes=("sync", "async"),
        frameworks=("megatron",),
        zero_stages=(),
        model_parallel=True,
        shards_optimizer=True,
        repeats_tensors=False,
        expert_rank_files=False,
        reshards="everything",
        container="distcp",
        source="Megatron-LM, core/dist_checkpointing, fully parallel save; PyTorch distributed checkpoint",
    ),
    "deepspeed": CheckpointFormat(
        files="mp_rank_MM_model_states.pt and [bf16_]zero_pp_rank_D_mp_rank_MM_optim_states.pt; "
        "per layer where there is a pipeline, per expert where there are experts",
        writers="data-parallel rank 0 of each model-parallel rank the weights, every rank its optimizer shard",
        gathers="nothing",
        weights_read="every-replica",
        optimizer_read="each-shard-once",
        modes=("sync", "async"),
        frameworks=("deepspeed",),
        zero_stages=(0, 1, 2, 3),
        model_parallel=True,
        shards_optimizer=True,
        repeats_tensors=True,
        expert_rank_files=False,
        reshards="nothing",
        container="torch-zip",
        source="DeepSpeed, runtime/engine.py, save_checkpoint; measured in published/framework_checkpoints.json",
    ),
    "fsdp-sharded": CheckpointFormat(
        files="__RANK_0.distcp per rank, .metadata on rank 0",
        writers="every rank; the copies of a shard share its writing",
        gathers="nothing",
        weights_read="every-shard-copy",
        optimizer_read="every-shard-copy",
        modes=("sync", "async"),
        frameworks=("fsdp2",),
        zero_stages=(),
        model_parallel=False,
        shards_optimizer=True,
        repeats_tensors=False,
        expert_rank_files=False,
        reshards="everything",
        container="distcp",
        source="PyTorch, torch/distributed/checkpoint with FSDP2; measured in published/framework_checkpoints.json",
    ),
    "full": CheckpointFormat(
        files="one file",
        writers="rank 0",
        gathers="everything",
        weights_read="rank-0",
        optimizer_read="rank-0",
        modes=("sync",),
        frameworks=("fsdp2",),
        zero_stages=(),
        model_parallel=False,
        shards_optimizer=True,
        repeats_tensors=False,
        expert_rank_files=False,
        reshards="everything",
        container="torch-zip",
        source="PyTorch, get_model_state_dict with full_state_dict, torch.save",
    ),
}

FORMAT_OF_FRAMEWORK: dict[Framework, FormatName] = {
    "megatron": "megatron",
    "fsdp2": "fsdp-sharded",
    "deepspeed": "deepspeed",
}
"""The format that is taken where none is given."""

DEEPSPEED_ZERO_STAGE = 1
"""ZeRO stage of the deepspeed format where none is given."""


def check_format(
    name: FormatName, training: Training, parallelism: Parallelism, *, mode: Mode, files_per_rank: int | None
) -> None:
    """Refuse a format with a framework, mode, degree or ZeRO stage that it does not have.

    Raises InvalidInput.
    """
    row = FORMATS[name]
    if training.framework not in row.frameworks:
        known = [other for other, format_ in FORMATS.items() if training.framework in format_.frameworks]
        raise InvalidInput.of(
            "checkpoint.format",
            f"must be one of {', '.join(known)} with framework {training.framework}",
            value=name,
            remedy="change checkpoint.format or training.framework",
        )
    if mode not in row.modes:
        able = [other for other, format_ in FORMATS.items() if mode in format_.modes]
        raise InvalidInput.of(
            "checkpoint.mode",
            f"must be {' or '.join(row.modes)} with format {name}",
            value=mode,
            remedy=f"use it with {', '.join(able)}",
        )
    if parallelism.zero_stage is not None and not row.zero_stages:
        raise InvalidInput.of(
            "parallelism.zero_stage",
            "belongs to the format deepspeed",
            value=parallelism.zero_stage,
            remedy="remove it; megatron-distributed-optimizer and torch-dist shard the optimizer",
        )
    degrees = {"tensor": parallelism.tensor, "pipeline": parallelism.pipeline, "expert": parallelism.expert}
    for degree, value in degrees.items():
        if value > 1 and not row.model_parallel:
            raise InvalidInput.of(
                f"parallelism.{degree}",
                f"must be 1 with format {name}",
                value=value,
                remedy="change the format",
            )
    if parallelism.shard_group is not None and name != "fsdp-sharded":
        raise InvalidInput.of(
            "parallelism.shard_group",
            "belongs to the format fsdp-sharded",
            value=parallelism.shard_group,
            remedy="remove it",
        )
    if files_per_rank is not None and name != "torch-dist":
        raise InvalidInput.of(
            "checkpoint.files_per_rank", "belongs to the format torch-dist", value=files_per_rank, remedy="remove it"
        )
    _check_expert_tensor(name, parallelism)


def zero_stage_of(name: FormatName, parallelism: Parallelism) -> int:
    """The ZeRO stage in effect.

    Source: DEEPSPEED_ZERO_STAGE where the deepspeed format is given none.

    >>> zero_stage_of("deepspeed", Parallelism(data=4)), zero_stage_of("megatron", Parallelism(data=4))
    (1, 0)
    """
    if parallelism.zero_stage is not None:
        return parallelism.zero_stage
    return DEEPSPEED_ZERO_STAGE if name == "deepspeed" else 0


def _check_expert_tensor(name: FormatName, parallelism: Parallelism) -> None:
    if name != "torch-dist" and parallelism.expert_tensor_degree != parallelism.tensor:
        raise InvalidInput.of(
            "parallelism.expert_tensor",
            f"must equal tensor {parallelism.tensor} with format {name}",
            value=parallelism.expert_tensor_degree,
            remedy="remove it, or use format torch-dist",
        )
