"""The parts of the training state and the bytes that each keeps of a tensor.

Gradients are never part of a checkpoint: the 16, 18 and 20 bytes per parameter of the literature count
them and are memory figures.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, TypeGuard, cast, get_args

from sizing.errors import InvalidInput
from sizing.state.optimizers import BYTES_PER_VALUE, OPTIMIZERS, Dtype, Moment, moment_bytes
from sizing.state.scaled_dtypes import ScaledDtype, scaled_bytes
from sizing.state.training import Framework, Precision, Schedule, Training

PartName = Literal["weights", "master", "moments", "ema", "errors"]
RANK_PART: PartName = "errors"
"""What each data-parallel rank keeps of its own: the errors of compressed gradients. No format knows it."""
_PART_NAMES: frozenset[PartName] = frozenset(get_args(PartName)) - {RANK_PART}

Habit = Mapping[PartName, Dtype]
SavedDtype = Dtype | ScaledDtype
"""Of a part; only weights have scales beside their values."""


@dataclass(frozen=True)
class StatePart:
    """One part of the state; `moments` are what the optimizer keeps, empty for the other parts.

    `is_kept_of_frozen`: also of tensors that are not trained. `is_kept_of_trained` is false of weights that are saved
    of frozen tensors alone.
    """

    name: PartName
    dtype: SavedDtype
    moments: tuple[Moment, ...] = ()
    is_kept_of_frozen: bool = False
    is_kept_of_trained: bool = True

    def is_kept_of(self, *, is_trained: bool) -> bool:
        """Whether the part is kept of a tensor that is trained or not."""
        return self.is_kept_of_trained if is_trained else self.is_kept_of_frozen

    @property
    def is_of_rank(self) -> bool:
        """Whether each rank has its own, which no other holds."""
        return self.name == RANK_PART

    @functools.cached_property
    def num_statistics(self) -> int:
        """Tensors that the part keeps of one tensor."""
        return sum(moment.copies for moment in self.moments) if self.name == "moments" else 1

    @functools.cached_property
    def bytes_per_parameter(self) -> int | None:
        """Bytes of every parameter, or None where they depend on the tensor."""
        if not is_plain(self.dtype):
            return None
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
        return sum(num_bytes for _, num_bytes in self.statistics(shape, is_hidden_matrix=is_hidden_matrix))

    def statistics(self, shape: tuple[int, ...], *, is_hidden_matrix: bool) -> Iterator[tuple[Moment, int]]:
        """What the part keeps of one tensor of that shape, with the bytes of all copies of each."""
        for moment in self.kept:
            yield moment, self.kept_bytes(moment, shape, is_hidden_matrix=is_hidden_matrix)

    @property
    def kept(self) -> tuple[Moment, ...]:
        """What the part keeps of each tensor: moments, or else its values, with scales where the dtype has them."""
        return self.moments or (_VALUES if is_plain(self.dtype) else _SCALED,)

    def kept_bytes(self, moment: Moment, shape: tuple[int, ...], *, is_hidden_matrix: bool) -> int:
        """Bytes of all copies of one of `kept` for a tensor of that shape."""
        if is_plain(self.dtype):
            return moment_bytes(moment, shape, dtype=self.dtype, is_hidden_matrix=is_hidden_matrix)
        return scaled_bytes(cast("ScaledDtype", self.dtype), shape, is_hidden_matrix=is_hidden_matrix)


_VALUES = Moment()
_SCALED = Moment("scaled")
"""What a part other than the moments keeps of a tensor."""


def is_plain(dtype: SavedDtype) -> TypeGuard[Dtype]:
    """Whether a dtype has a fixed number of bytes for each value, without scales."""
    return dtype in BYTES_PER_VALUE


_MIXED: dict[PartName, Dtype] = {"master": "fp32", "moments": "fp32"}
_FP32: dict[PartName, Dtype] = {"weights": "fp32", "moments": "fp32"}
_FP32_TWICE: dict[PartName, Dtype] = {"weights": "fp32", **_MIXED}
"""Where the optimizer has a copy of weights that are fp32 already."""
_BF16: dict[PartName, Dtype] = {"weights": "bf16", "moments": "bf16"}
_WITH_BF16: dict[PartName, Dtype] = {"weights": "bf16", **_MIXED}
_WITH_FP16: dict[PartName, Dtype] = {"weights": "fp16", **_MIXED}

HABITS: dict[tuple[Framework, Precision], Habit] = {
    ("megatron", "bf16-mixed"): _WITH_BF16,
    ("megatron", "fp16-mixed"): _WITH_FP16,
    ("megatron", "fp8-mixed"): _WITH_BF16,
    ("megatron", "mxfp8-mixed"): _WITH_BF16,
    ("megatron", "nvfp4-mixed"): _WITH_BF16,
    ("megatron", "fp32"): _FP32,
    ("deepspeed", "bf16-mixed"): _WITH_BF16,
    ("deepspeed", "fp16-mixed"): _WITH_FP16,
    ("deepspeed", "fp32"): _FP32,
    ("fsdp2", "bf16-mixed"): _FP32,
    ("fsdp2", "fp16-mixed"): _FP32,
    ("fsdp2", "fp8-mixed"): _FP32,
    ("fsdp2", "mxfp8-mixed"): _FP32,
    ("fsdp2", "nvfp4-mixed"): _FP32,
    ("fsdp2", "fp32"): _FP32,
    ("fsdp2", "bf16"): _BF16,
    ("torchtitan", "bf16-mixed"): _FP32,
    ("torchtitan", "fp8-mixed"): _FP32,
    ("torchtitan", "mxfp8-mixed"): _FP32,
    ("torchtitan", "nvfp4-mixed"): _FP32,
    ("torchtitan", "fp32"): _FP32,
    ("torchtitan", "bf16"): _BF16,
    ("maxtext", "bf16-mixed"): _FP32,
    ("maxtext", "fp32"): _FP32,
    ("maxtext", "bf16"): _BF16,
}
"""What a framework saves: with mixed precision, Megatron and DeepSpeed keep 16-bit weights beside an fp32 master
copy, FSDP2 and MaxText keep fp32 parameters alone; pure bf16 has bf16 moments. fp8, MXFP8 and NVFP4 are formats of
matrix products: Megatron saves weights that Transformer Engine holds in fp8 as bf16, torchao converts the weights of
FSDP2 for each product.

Source: Megatron-LM, dist_checkpointing/strategies/filesystem_async.py, which dequantizes; torchao,
float8/README.md and prototype/mx_formats/README.md;
`weight_dtype` and `mu_dtype` of MaxText in `published/framework_defaults.json`;
otherwise measured in `published/framework_checkpoints.json`; Megatron's 14 bytes per parameter with Adam in
`published/published_checkpoints.json`.
"""


def saved_parts(
    training: Training,
    *,
    has_weights_beside_master: bool = True,
    copies_fp32_weights: bool = False,
    has_frozen: bool = False,
) -> tuple[StatePart, ...]:
    """The parts that a checkpoint holds: the framework's habit, where `saved_state` does not say otherwise.

    Not every format saves low-precision weights, which are the rounded master copy, where it saves that; of frozen
    tensors, which have none, it saves them. Not every optimizer has a master copy of weights that are fp32 already.
    Raises InvalidInput where the framework does not train so, or nothing would be saved.

    >>> sum(part.tensor_bytes((1,), is_hidden_matrix=False) for part in saved_parts(Training()))
    14
    """
    dtypes: dict[PartName, SavedDtype | None] = {**_habit(training, copies_fp32_weights=copies_fp32_weights)}
    of_frozen_alone = "master" in dtypes and not has_weights_beside_master
    if of_frozen_alone and not (has_frozen and _keeps_frozen(training)):
        dtypes["weights"] = None
    override = training.saved_state
    if override is not None:
        dtypes |= {name: getattr(override, name) for name in _PART_NAMES & override.model_fields_set}
        of_frozen_alone = of_frozen_alone and "weights" not in override.model_fields_set
    parts = _parts(dtypes, training, has_weights_of_trained=not of_frozen_alone)
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


SCHEDULE_MOMENTS: dict[Schedule, tuple[Moment, ...]] = {"pipemare": (Moment(),)}
"""What a pipeline schedule keeps of every trained value beside the optimizer, as a moment: PipeMare the running mean of
the weights' steps, with which a backward pass finds the weights of its forward pass.

Source: Yang et al. 2021, arXiv 1910.05124, section 3.2; a checkpoint without it would begin that mean anew.
"""


def _parts(
    dtypes: Mapping[PartName, SavedDtype | None], training: Training, *, has_weights_of_trained: bool = True
) -> tuple[StatePart, ...]:
    of_schedule = SCHEDULE_MOMENTS.get(training.schedule, ()) if training.schedule else ()
    moments = (*OPTIMIZERS[training.optimizer], *of_schedule)
    keeps_frozen = _keeps_frozen(training)
    return tuple(
        _part(
            name,
            dtype,
            moments if name == "moments" else (),
            is_kept_of_frozen=name == "weights" and keeps_frozen,
            is_kept_of_trained=name != "weights" or has_weights_of_trained,
        )
        for name, dtype in dtypes.items()
        if dtype is not None and (name != "moments" or moments)
    )


def _keeps_frozen(training: Training) -> bool:
    """Whether the weights of frozen tensors are saved: beside adapters only where asked."""
    return training.adapters is None or training.adapters.save_base
