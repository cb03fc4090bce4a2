"""What a format refuses, and which formats do not."""

from __future__ import annotations

from pydantic import BaseModel

from sizing.errors import InvalidInput
from sizing.layout.formats.base import CheckpointFormat, FormatField, Mode, Reshards
from sizing.layout.formats.registry import FORMATS, formats_of
from sizing.layout.optimizer_sharding import OptimizerSharding
from sizing.layout.parallelism import Parallelism
from sizing.layout.sharding import has_distributed_optimizer
from sizing.state import Training
from sizing.state.training import Framework

_RULES: dict[FormatField, str] = {
    "tensor": "must be 1 with format {name}",
    "pipeline": "must be 1 with format {name}",
    "virtual_pipeline": "must be 1 with format {name}",
    "expert": "must be 1 with format {name}",
    "expert_tensor": "must equal tensor {tensor} with format {name}",
    "zero_stage": "is a field of format {able}",
    "shard_group": "is a field of format {able}",
    "files_per_rank": "is a field of format {able}",
    "distributed_optimizer": "is a field of format {able}",
    "optimizer_sharding": "is a field of format {able}",
}

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
) -> None:
    """Refuse a format with a framework, a mode or a field of the scenario that it does not have.

    Raises InvalidInput.
    """
    _check_framework(saved_as, training.framework)
    _check_mode(saved_as, mode)
    _check_optimizer(saved_as, training)
    given: dict[FormatField, int | str | None] = {
        "files_per_rank": files_per_rank,
        "optimizer_sharding": optimizer_sharding,
        **_given(training, parallelism),
    }
    for field, value in given.items():
        if value is not None and field not in saved_as.takes:
            raise _not_taken(field, value, saved_as, training.framework, tensor=parallelism.tensor)
    refused = saved_as.refused_degrees(parallelism)
    if refused is not None:
        raise refused
    if optimizer_sharding is not None and not has_distributed_optimizer(training):
        raise InvalidInput.of(
            "checkpoint.optimizer_sharding",
            "is how a distributed optimizer is saved, and training.distributed_optimizer is not true",
            value=optimizer_sharding,
            remedy="set training.distributed_optimizer, or remove it",
        )


def check_resharding(saved_as: CheckpointFormat, saved: Parallelism, restored: Parallelism) -> None:
    """Refuse another layout that a format's files cannot be read into.

    Raises InvalidInput naming the first degree that differs.
    """
    for degree in _FIXED_DEGREES[saved_as.reshards]:
        before, after = getattr(saved, degree), getattr(restored, degree)
        if before != after:
            field = degree.removesuffix("_degree")
            raise InvalidInput.of(
                f"checkpoint.restore_parallelism.{field}",
                f"must equal parallelism.{field} {before} with format {saved_as.name}, whose files "
                "cannot be resharded over this degree",
                value=after,
                remedy=f"{_resharding(saved_as)}convert the checkpoint first",
            )


def _resharding(saved_as: CheckpointFormat) -> str:
    """The formats of the same frameworks that can be read into any layout, in words."""
    known = (each for framework in saved_as.frameworks for each in formats_of(framework))
    able = " or ".join(_reshardable(each) for each in known if each.reshards == "everything")
    return f"use {able}, or " if able else ""


def _reshardable(each: CheckpointFormat) -> str:
    with_field = " with optimizer_sharding fully-reshardable" if "optimizer_sharding" in each.takes else ""
    return f"{each.name}{with_field}"


def _check_framework(saved_as: CheckpointFormat, framework: Framework) -> None:
    if framework not in saved_as.frameworks:
        known = ", ".join(each.name for each in formats_of(framework))
        raise InvalidInput.of(
            "checkpoint.format",
            f"must be one of {known} with framework {framework}",
            value=saved_as.name,
            remedy="change checkpoint.format or training.framework",
        )


def _check_mode(saved_as: CheckpointFormat, mode: Mode) -> None:
    if mode not in saved_as.modes:
        able = ", ".join(name for name, each in FORMATS.items() if mode in each.modes)
        raise InvalidInput.of(
            "checkpoint.mode",
            f"must be {' or '.join(saved_as.modes)} with format {saved_as.name}",
            value=mode,
            remedy=f"use it with {able}",
        )


def _check_optimizer(saved_as: CheckpointFormat, training: Training) -> None:
    if saved_as.needs_distributed_optimizer and not has_distributed_optimizer(training):
        others = " or ".join(
            each.name for each in formats_of(training.framework) if not each.needs_distributed_optimizer
        )
        given = training.distributed_optimizer
        raise InvalidInput.of(
            "training.distributed_optimizer",
            f"must be true with format {saved_as.name}{', and the default is no' if given is None else ''}",
            value=given,
            remedy=f"set it (`--distributed-optimizer yes`), or use format {others}",
        )


def _given(training: Training, p: Parallelism) -> dict[FormatField, int | str | None]:
    """The fields that are not at their default; None of the others."""
    return {
        "zero_stage": p.zero_stage,
        "tensor": _unless(1, p.tensor),
        "pipeline": _unless(1, p.pipeline),
        "virtual_pipeline": _unless(1, p.virtual_pipeline),
        "expert": _unless(1, p.expert),
        "shard_group": p.shard_group,
        "expert_tensor": _unless(p.tensor, p.expert_tensor_degree),
        "distributed_optimizer": training.distributed_optimizer or None,
    }


def _unless(default: int, value: int) -> int | None:
    return None if value == default else value


def _not_taken(
    field: FormatField, value: int | str, saved_as: CheckpointFormat, framework: Framework, *, tensor: int
) -> InvalidInput:
    able = " or ".join(name for name, each in FORMATS.items() if field in each.takes)
    rule = _RULES[field].format(name=saved_as.name, able=able, tensor=tensor)
    return InvalidInput.of(_path(field), rule, value=value, remedy=_remedy(field, framework))


def _path(field: FormatField) -> str:
    blocks: dict[str, type[BaseModel]] = {"parallelism": Parallelism, "training": Training}
    block = next((name for name, fields in blocks.items() if field in fields.model_fields), "checkpoint")
    return f"{block}.{field}"


def _remedy(field: FormatField, framework: Framework) -> str:
    known = formats_of(framework)
    able = " or ".join(each.name for each in known if field in each.takes)
    if able:
        return f"remove it, or use format {able}"
    if field == "zero_stage" and any("distributed_optimizer" in each.takes for each in known):
        return "remove it: training.distributed_optimizer shards the optimizer"
    return "remove it, or change training.framework"
