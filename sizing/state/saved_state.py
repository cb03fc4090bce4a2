"""The parts of the training state, and the bytes that each part keeps of a tensor.

Gradients are never part of a checkpoint. The 16, 18 and 20 bytes per parameter of the literature include them and are
memory figures.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal, TypeGuard, cast

from sizing.model.inventory import COPY, TensorRole
from sizing.state.optimizers import BYTES_PER_VALUE, Dtype, Moment, moment_bytes
from sizing.state.scaled_dtypes import QuantizedDtype, ScaledDtype, scaled_bytes
from sizing.state.training import Schedule

PartName = Literal["weights", "master", "moments", "ema", "errors"]
RANK_PART: PartName = "errors"
"""Part that each data-parallel rank keeps for itself: the errors of compressed gradients. No format knows it."""

SavedDtype = Dtype | ScaledDtype | QuantizedDtype
"""Dtype of a part; only weights can have scales beside their values, and only frozen ones can be quantised."""


@dataclass(frozen=True)
class StatePart:
    """One part of the training state.

    `moments`: the optimizer's statistics, empty for the other parts. `is_kept_of_frozen`: the part is also kept of
    tensors that are not trained. `is_kept_of_trained`: false for weights that are saved of frozen tensors only.
    `frozen_dtype`: dtype of tensors that are not trained, where it is another; `copy_dtype`: that of copies that are
    trained whole beside adapters. `of` returns the part of each kind.
    """

    name: PartName
    dtype: SavedDtype
    moments: tuple[Moment, ...] = ()
    is_kept_of_frozen: bool = False
    is_kept_of_trained: bool = True
    frozen_dtype: SavedDtype | None = None
    copy_dtype: SavedDtype | None = None

    def of(self, *, is_trained: bool, name: str = "") -> StatePart | None:
        """Return the part as it is kept of a trained tensor, a frozen one or a copy; None if it is not kept of it."""
        if not self.is_kept_of(is_trained=is_trained):
            return None
        if not is_trained:
            return self.of_frozen
        return self.of_copies if name.endswith(COPY) else self.of_trained

    @functools.cached_property
    def of_trained(self) -> StatePart:
        """The part in the dtype of trained tensors alone."""
        return self._in_one_dtype(self.dtype)

    @functools.cached_property
    def of_frozen(self) -> StatePart:
        """The part in the dtype of frozen tensors alone."""
        return self._in_one_dtype(self.frozen_dtype or self.dtype)

    @functools.cached_property
    def of_copies(self) -> StatePart:
        """The part in the dtype of copies alone."""
        return self._in_one_dtype(self.copy_dtype or self.dtype)

    def _in_one_dtype(self, dtype: SavedDtype) -> StatePart:
        if self.frozen_dtype is None and self.copy_dtype is None:
            return self
        return replace(self, dtype=dtype, frozen_dtype=None, copy_dtype=None)

    def is_kept_of(self, *, is_trained: bool) -> bool:
        """Return whether the part is kept of a tensor that is trained, or of one that is not."""
        return self.is_kept_of_trained if is_trained else self.is_kept_of_frozen

    @property
    def dtype_text(self) -> str:
        """Dtype of what is kept of trained tensors, and those of copies and of frozen ones where they are others."""
        of_trained = f"{self.dtype}, of modules_to_save {self.copy_dtype}" if self.copy_dtype else self.dtype
        if self.frozen_dtype is None or not self.is_kept_of_frozen:
            return of_trained
        return f"{of_trained}, of frozen tensors {self.frozen_dtype}" if self.is_kept_of_trained else self.frozen_dtype

    @property
    def is_of_rank(self) -> bool:
        """Whether each rank has its own version of the part, which no other rank holds."""
        return self.name == RANK_PART

    @functools.cached_property
    def num_statistics(self) -> int:
        """Number of tensors that the part keeps for each tensor of the model."""
        return sum(moment.copies for moment in self.moments) if self.name == "moments" else 1

    @functools.cached_property
    def bytes_per_parameter(self) -> int | None:
        """Bytes of every parameter, or None if they depend on the tensor."""
        if not is_plain(self.dtype) or self.frozen_dtype is not None or self.copy_dtype is not None:
            return None
        if self.name != "moments":
            return BYTES_PER_VALUE[self.dtype]
        if any(moment.rule != "value" or moment.tensors != "all" for moment in self.moments):
            return None
        return sum(moment.copies for moment in self.moments) * BYTES_PER_VALUE[self.dtype]

    def tensor_bytes(self, shape: tuple[int, ...], *, role: TensorRole) -> int:
        """Count the bytes that the part keeps of one tensor of this shape."""
        per_parameter = self.bytes_per_parameter
        if per_parameter is not None:
            return math.prod(shape) * per_parameter
        return sum(num_bytes for _, num_bytes in self.statistics(shape, role=role))

    def statistics(self, shape: tuple[int, ...], *, role: TensorRole) -> Iterator[tuple[Moment, int]]:
        """List the statistics that the part keeps of one tensor of this shape, each with the bytes of its copies."""
        for moment in self.kept:
            yield moment, self.kept_bytes(moment, shape, role=role)

    @property
    def kept(self) -> tuple[Moment, ...]:
        """Statistics that the part keeps of each tensor: moments, or values, with scales where the dtype has them."""
        return self.moments or (_VALUES if is_plain(self.dtype) else _SCALED,)

    def kept_bytes(self, moment: Moment, shape: tuple[int, ...], *, role: TensorRole) -> int:
        """Count the bytes of all copies of one of `kept`, for a tensor of this shape."""
        if is_plain(self.dtype):
            return moment_bytes(moment, shape, dtype=self.dtype, role=role)
        return scaled_bytes(cast("ScaledDtype | QuantizedDtype", self.dtype), shape, role=role)


_VALUES = Moment()
_SCALED = Moment("scaled")
"""Statistic that a part other than the moments keeps of a tensor."""


def is_plain(dtype: SavedDtype) -> TypeGuard[Dtype]:
    """Return whether a dtype has a fixed number of bytes per value, without scales."""
    return dtype in BYTES_PER_VALUE


SCHEDULE_MOMENTS: dict[Schedule, tuple[Moment, ...]] = {"pipemare": (Moment(),)}
"""State that a pipeline schedule keeps of every trained value beside the optimizer, as a moment. PipeMare keeps the
running mean of the weights' steps, with which a backward pass reconstructs the weights of its forward pass.

Source: Yang et al. 2021, arXiv 1910.05124, section 3.2; a checkpoint without it would begin that mean anew.
"""
