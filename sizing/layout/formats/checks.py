"""Checks that refuse a scenario's format, and name formats that fit."""

from __future__ import annotations

from collections.abc import Callable

from pydantic import BaseModel

from sizing.errors import InvalidInput
from sizing.frameworks import FRAMEWORKS
from sizing.frameworks.framework import OptimizerSharding
from sizing.layout.formats.base import CheckpointFormat, FormatField, Mode, Reshards
from sizing.layout.formats.registry import FORMATS, formats_of
from sizing.layout.parallelism import Parallelism
from sizing.layout.sharding import has_distributed_optimizer
from sizing.state import Training
from sizing.state.optimizers import needs_whole_matrices
from sizing.state.training import FrameworkName

_RULES: dict[FormatField, str] = {
    "tensor": "must be 1 with format {name}",
    "pipeline": "must be 1 with format {name}",
    "virtual_pipeline": "must be 1 with format {name}",
    "expert": "must be 1 with format {name}",
    "expert_tensor": "must equal tensor {tensor} with format {name}",
    "zero_stage": "is a field of format {able}",
    "shard_group": "is a field of format {able}",
    "table_sharding": "is a field of format {able}",
    "files_per_rank": "is a field of format {able}",
    "distributed_optimizer": "is a field of format {able}",
    "optimizer_sharding": "is a field of format {able}",
    "stored_fraction": "is a field of format {able}",
}

_Fields = dict[FormatField, float | str | None]
"""Values of fields that only some formats take."""

_BLOCKS: dict[str, type[BaseModel]] = {"parallelism": Parallelism, "training": Training}
"""Blocks of a scenario that have such fields; the others are of `checkpoint`."""

_DEGREES = ("tensor", "pipeline", "virtual_pipeline", "expert", "expert_tensor_degree")
_COPYING_DEGREES = ("data", "context", "zero_stage", "shard_group")
_FIXED_DEGREES: dict[Reshards, tuple[str, ...]] = {
    "everything": (),
    "replicas": _DEGREES,
    "nothing": (*_DEGREES, *_COPYING_DEGREES),
}


def check_format(
    saved_as: CheckpointFormat,
    training: Training,
    parallelism: Parallelism,
    *,
    mode: Mode,
    files_per_rank: int | None,
    optimizer_sharding: OptimizerSharding | None,
    stored_fraction: float | None = None,
) -> None:
    """Refuse a format that does not fit the framework, the mode or a field of the scenario.

    Raises InvalidInput.
    """
    of_checkpoint: _Fields = {
        "files_per_rank": files_per_rank,
        "optimizer_sharding": optimizer_sharding,
        "stored_fraction": stored_fraction,
    }
    fields = of_checkpoint | _fields_in_effect(training, parallelism)

    def use_others() -> str:
        formats = formats_of(training.framework)
        able = [other.name for other in formats if _takes_all(other, training, parallelism, mode, fields)]
        return f", or use format {' or '.join(able)}" if able else ""

    _check_framework(saved_as, training, mode, use_others)
    for field, value in fields.items():
        if value is not None and field not in saved_as.takes:
            able = " or ".join(name for name, each in FORMATS.items() if field in each.takes)
            rule = _RULES[field].format(name=saved_as.name, able=able, tensor=parallelism.tensor)
            block = next((name for name, kind in _BLOCKS.items() if field in kind.model_fields), "checkpoint")
            remedy = f"{_remedy(field, training.framework)}{use_others()}"
            raise InvalidInput.of(f"{block}.{field}", rule, value=value, remedy=remedy)
    refused = saved_as.refused_degrees(parallelism)
    if refused is not None:
        raise refused
    mesh = saved_as.sharding(training, parallelism).mesh
    has_dtensors = mesh is not None or FRAMEWORKS[training.framework].shards == "fsdp"
    num_cuts = parallelism.tensor * parallelism.shard_ranks
    if has_dtensors and num_cuts > 1 and needs_whole_matrices(training.optimizer):
        raise InvalidInput.of(
            "training.optimizer",
            f"must be one that takes parts of matrices, which FSDP2 cuts over {num_cuts} ranks",
            value=training.optimizer,
            remedy="choose shampoo, muon or adamw, or training.framework megatron or ddp, which keep matrices whole",
        )
    if optimizer_sharding is not None and not has_distributed_optimizer(training):
        raise InvalidInput.of(
            "checkpoint.optimizer_sharding",
            "is how a distributed optimizer is saved, and training.distributed_optimizer is not true",
            value=optimizer_sharding,
            remedy="set training.distributed_optimizer, or remove it",
        )


def is_allowed(saved_as: CheckpointFormat, training: Training, parallelism: Parallelism) -> bool:
    """Tell whether a format fits the framework, the optimizer and the degrees, in one of its modes."""
    fields = _fields_in_effect(training, parallelism)
    return _takes_all(saved_as, training, parallelism, saved_as.modes[0], fields)


def _takes_all(
    saved_as: CheckpointFormat, training: Training, parallelism: Parallelism, mode: Mode, fields: _Fields
) -> bool:
    return (
        saved_as in formats_of(training.framework)
        and mode in saved_as.modes
        and (has_distributed_optimizer(training) or not saved_as.needs_distributed_optimizer)
        and all(value is None or field in saved_as.takes for field, value in fields.items())
        and saved_as.refused_degrees(parallelism) is None
    )


def _fields_in_effect(training: Training, parallelism: Parallelism) -> _Fields:
    """Fields that only some formats take, None where they have their default."""
    p = parallelism
    return {
        "zero_stage": p.zero_stage,
        "tensor": _unless(1, p.tensor),
        "pipeline": _unless(1, p.pipeline),
        "virtual_pipeline": _unless(1, p.virtual_pipeline),
        "expert": _unless(1, p.expert),
        "shard_group": p.shard_group,
        "table_sharding": p.table_sharding,
        "expert_tensor": _unless(p.tensor, p.expert_tensor_degree),
        "distributed_optimizer": training.distributed_optimizer or None,
    }


def check_resharding(saved_as: CheckpointFormat, saved: Parallelism, restored: Parallelism) -> None:
    """Refuse a layout into which a format's files cannot be read.

    Raises InvalidInput naming the first degree that differs.
    """
    of_frameworks = (each for name in saved_as.frameworks for each in formats_of(name))
    able = " or ".join(
        each.name + (" with optimizer_sharding fully-reshardable" if "optimizer_sharding" in each.takes else "")
        for each in of_frameworks
        if each.reshards == "everything"
    )
    use = f"use {able}, or " if able else ""
    for degree in _FIXED_DEGREES[saved_as.reshards]:
        before, after = getattr(saved, degree), getattr(restored, degree)
        if before != after:
            field = degree.removesuffix("_degree")
            raise InvalidInput.of(
                f"checkpoint.restore_parallelism.{field}",
                f"must equal parallelism.{field} {before} with format {saved_as.name}, whose files "
                "cannot be resharded over this degree",
                value=after,
                remedy=f"{use}convert the checkpoint first",
            )


def _check_framework(saved_as: CheckpointFormat, training: Training, mode: Mode, use_others: Callable[[], str]) -> None:
    """Refuse a format that the framework does not save, or not in this mode, or not with its optimizer."""
    names = [each.name for each in formats_of(training.framework)]
    if saved_as.name not in names:
        raise InvalidInput.of(
            "checkpoint.format",
            f"must be one of {', '.join(names)} with framework {training.framework}",
            value=saved_as.name,
            remedy="change checkpoint.format or training.framework",
        )
    if mode not in saved_as.modes:
        raise InvalidInput.of(
            "checkpoint.mode",
            f"must be {' or '.join(saved_as.modes)} with format {saved_as.name}",
            value=mode,
            remedy=f"set it to {saved_as.modes[0]}{use_others()}",
        )
    if saved_as.needs_distributed_optimizer and not has_distributed_optimizer(training):
        given = training.distributed_optimizer
        raise InvalidInput.of(
            "training.distributed_optimizer",
            f"must be true with format {saved_as.name}{', and the default is no' if given is None else ''}",
            value=given,
            remedy=f"set it (`training.distributed_optimizer yes`){use_others()}",
        )


def _unless(default: int, value: int) -> int | None:
    """Return a value in effect; None for the default."""
    return None if value == default else value


def _remedy(field: FormatField, framework: FrameworkName) -> str:
    """Say what to do about a field that the format does not take."""
    formats = formats_of(framework)
    if any(field in each.takes for each in formats):
        return "remove it"
    if field == "zero_stage" and any("distributed_optimizer" in each.takes for each in formats):
        return "remove it: training.distributed_optimizer shards the optimizer"
    beside = FRAMEWORKS[framework].described_by.get(field, "change training.framework")
    return f"remove it, or {beside}"
