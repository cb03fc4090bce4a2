"""The parts of the training state and the bytes that each keeps of a tensor.

Gradients are never part of a checkpoint: the 16, 18 and 20 bytes per parameter of the literature count
them and are memory figures.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from sizing.errors import InvalidInput
from sizing.state.optimizers import BYTES_PER_VALUE, OPTIMIZERS, Dtype, Moment, moment_bytes
from sizing.state.training import Framework, Precision, Training

PartName = Literal["weights", "master", "moments", "ema"]
_PART_NAMES: frozenset[PartName] = frozenset(get_args(PartName))

Habit = Mapping[PartName, Dtype]


@dataclass(frozen=True)
class StatePart:
    """One part of the state; `moments` are what the optimizer keeps, empty for the other parts.

    `is_kept_of_frozen`: also of tensors that are not trained.
    """

    name: PartName
    dtype: Dtype
    moments: tuple[Moment, ...] = ()
    is_kept_of_frozen: bool = False

    @functools.cached_property
    def num_statistics(self) -> int:
        """Tensors that the part keeps of one tensor."""
        return sum(moment.copies for moment in self.moments) if self.name == "moments" else 1

    @functools.cached_property
    def bytes_per_parameter(self) -> int | None:
        """Bytes of every parameter, or None where they depend on the tensor."""
        if self.name != "moments":
            return BYTES_PER_VALUE[self.dtype]
        if any(moment.rule != "value" or moment.tensors != "all" for moment in self.moments):
            return None
        return sum(moment.copies for moment in self.moments) * BYTES_PER_VALUE[self.dtype]

    def tensor_bytes(self, shape: tuple[int, ...], *, is_hidden_matrix: bool) -> int:
        """Bytes that the part keeps of one tensor of that shape."""
        per_parameter = self.bytes_per_parameter
        if per_parameter is not None:
            return math.prod(shape) * per_parameter
        return sum(
            moment_bytes(moment, shape, dtype=self.dtype, is_hidden_matrix=is_hidden_matrix) for moment in self.moments
        )


_MIXED: dict[PartName, Dtype] = {"master": "fp32", "moments": "fp32"}
_FP32: dict[PartName, Dtype] = {"weights": "fp32", "moments": "fp32"}
_FP32_TWICE: dict[PartName, Dtype] = {"weights": "fp32", **_MIXED}
"""Where the optimizer has a copy of weights that are fp32 already."""
_WITH_BF16: dict[PartName, Dtype] = {"weights": "bf16", **_MIXED}
_WITH_FP16: dict[PartName, Dtype] = {"weights": "fp16", **_MIXED}

HABITS: dict[tuple[Framework, Precision], Habit] = {
    ("megatron", "bf16-mixed"): _WITH_BF16,
    ("megatron", "fp16-mixed"): _WITH_FP16,
    ("megatron", "fp32"): _FP32,
    ("deepspeed", "bf16-mixed"): _WITH_BF16,
    ("deepspeed", "fp16-mixed"): _WITH_FP16,
    ("deepspeed", "fp32"): _FP32,
    ("fsdp2", "bf16-mixed"): _FP32,
    ("fsdp2", "fp16-mixed"): _FP32,
    ("fsdp2", "fp32"): _FP32,
    ("fsdp2", "bf16"): {"weights": "bf16", "moments": "bf16"},
}
"""What a framework saves: with mixed precision, Megatron and DeepSpeed keep 16-bit weights beside an fp32 master
copy, FSDP2 keeps fp32 parameters alone; pure bf16 has bf16 moments.

Source: measured in `published/framework_checkpoints.json`; Megatron's 14 bytes per parameter with Adam in
`published/published_checkpoints.json`.
"""


def saved_parts(
    training: Training, *, has_weights_beside_master: bool = True, copies_fp32_weights: bool = False
) -> tuple[StatePart, ...]:
    """The parts that a checkpoint holds: the framework's habit, where `saved_state` does not say otherwise.

    Not every format saves low-precision weights, which are the rounded master copy, where it saves that. Not every
    optimizer has a master copy of weights that are fp32 already.
    Raises InvalidInput where the framework does not train so, or nothing would be saved.

    >>> sum(part.tensor_bytes((1,), is_hidden_matrix=False) for part in saved_parts(Training()))
    14
    """
    dtypes: dict[PartName, Dtype | None] = {**_habit(training, copies_fp32_weights=copies_fp32_weights)}
    if "master" in dtypes and not has_weights_beside_master:
        dtypes["weights"] = None
    override = training.saved_state
    if override is not None:
        dtypes |= {name: getattr(override, name) for name in _PART_NAMES & override.model_fields_set}
    parts = _parts(dtypes, training)
    if not parts:
        raise InvalidInput.of(
            "training.saved_state",
            "must leave something to save",
            value="null for every part",
            remedy="give at least one part a dtype",
        )
    return parts


def resident_parts(training: Training, *, copies_fp32_weights: bool = False) -> tuple[StatePart, ...]:
    """The state that the framework keeps while it trains, gradients aside.

    Raises InvalidInput where the framework does not train so.
    """
    return _parts(_habit(training, copies_fp32_weights=copies_fp32_weights), training)


def _habit(training: Training, *, copies_fp32_weights: bool) -> Habit:
    habit = HABITS.get((training.framework, training.precision))
    if habit is None:
        known = [precision for framework, precision in HABITS if framework == training.framework]
        raise InvalidInput.of(
            "training.precision",
            f"must be one of {', '.join(known)} with framework {training.framework}",
            value=training.precision,
            remedy="change precision or framework",
        )
    return _FP32_TWICE if copies_fp32_weights and habit == _FP32 else habit


_part = functools.lru_cache(maxsize=256)(StatePart)
"""Parts are few, and each then counts its bytes once."""


def _parts(dtypes: Mapping[PartName, Dtype | None], training: Training) -> tuple[StatePart, ...]:
    moments = OPTIMIZERS[training.optimizer]
    adapters = training.adapters
    keeps_frozen = adapters is None or adapters.save_base
    return tuple(
        _part(name, dtype, moments if name == "moments" else (), name == "weights" and keeps_frozen)
        for name, dtype in dtypes.items()
        if dtype is not None and (name != "moments" or moments)
    )
