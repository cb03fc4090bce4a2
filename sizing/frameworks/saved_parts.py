"""The parts of the training state that a framework keeps and a checkpoint holds, for a `training` block."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import get_args

from sizing.errors import InvalidInput
from sizing.frameworks.framework import FP32, FP32_TWICE
from sizing.frameworks.registry import FRAMEWORKS
from sizing.state.optimizers import OPTIMIZERS, Dtype
from sizing.state.saved_state import RANK_PART, SCHEDULE_MOMENTS, PartName, SavedDtype, StatePart
from sizing.state.training import Training

_PART_NAMES: frozenset[PartName] = frozenset(get_args(PartName)) - {RANK_PART}


def saved_parts(
    training: Training,
    *,
    has_weights_beside_master: bool = True,
    copies_fp32_weights: bool = False,
    has_frozen: bool = False,
) -> tuple[StatePart, ...]:
    """List the parts that a checkpoint holds: what the framework keeps, unless `saved_state` says otherwise.

    Some formats save no low-precision weights where they save the master copy, of which the weights are a rounding.
    They still save the weights of frozen tensors, which have no master copy. Some optimizers keep no master copy of
    weights that are fp32 already. Raises InvalidInput where the framework does not train so, or nothing would be saved.

    >>> sum(part.tensor_bytes((1,), role="other") for part in saved_parts(Training()))
    14
    """
    override = training.saved_state
    dtypes: dict[PartName, SavedDtype | None] = {**_dtypes(training, copies_fp32_weights=copies_fp32_weights)}
    if override is not None and override.weights_alone:
        dtypes = {"weights": dtypes["weights"]}
    of_frozen_alone = "master" in dtypes and not has_weights_beside_master
    if of_frozen_alone and not (has_frozen and _keeps_frozen(training)):
        dtypes["weights"] = None
    if override is not None:
        dtypes |= {name: getattr(override, name) for name in _PART_NAMES & override.model_fields_set}
        of_frozen_alone = of_frozen_alone and "weights" not in override.model_fields_set
    parts = _parts(dtypes, training, has_weights_of_trained=not of_frozen_alone)
    if not parts:
        raise nothing_to_save("null for every part")
    return parts


def nothing_to_save(value: str) -> InvalidInput:
    """Return the error for a checkpoint without a byte."""
    remedy = "give at least one part a dtype"
    return InvalidInput.of("training.saved_state", "must leave something to save", value=value, remedy=remedy)


def resident_parts(training: Training, *, copies_fp32_weights: bool = False) -> tuple[StatePart, ...]:
    """List the parts that the framework keeps while it trains, without gradients.

    Raises InvalidInput where the framework does not train so.
    """
    return _parts(_dtypes(training, copies_fp32_weights=copies_fp32_weights), training)


def _dtypes(training: Training, *, copies_fp32_weights: bool) -> Mapping[PartName, Dtype]:
    """Return the dtype of each part that the framework keeps.

    Raises InvalidInput if the framework does not train in this precision.
    """
    keeps = FRAMEWORKS[training.framework].keeps
    if training.precision not in keeps:
        raise InvalidInput.of(
            "training.precision",
            f"must be one of {', '.join(keeps)} with framework {training.framework}",
            value=training.precision,
            remedy="change precision or framework",
        )
    dtypes = keeps[training.precision].dtypes
    return FP32_TWICE if copies_fp32_weights and dtypes == FP32 else dtypes


_part = functools.lru_cache(maxsize=256)(StatePart)
"""Cached constructor: there are few parts, and each then counts its bytes once."""


def _parts(
    dtypes: Mapping[PartName, SavedDtype | None], training: Training, *, has_weights_of_trained: bool = True
) -> tuple[StatePart, ...]:
    """Make a part of each dtype that is not None; moments are those of the optimizer and of the schedule."""
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
    """Return whether the weights of frozen tensors are saved: with adapters, only on request."""
    return training.adapters is None or training.adapters.save_base
