"""The parts of the training state that a framework keeps and a checkpoint holds, for a `training` block."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from typing import get_args

from sizing.errors import InvalidInput
from sizing.frameworks.framework import FP32, FP32_TWICE
from sizing.frameworks.registry import FRAMEWORKS
from sizing.frameworks.trainers import COLOCATED, TRAINERS
from sizing.state.optimizers import OPTIMIZERS, Dtype
from sizing.state.saved_state import RANK_PART, SCHEDULE_MOMENTS, PartName, SavedDtype, StatePart
from sizing.state.training import DOUBLE_QUANTIZED, Training

_PART_NAMES: frozenset[PartName] = frozenset(get_args(PartName)) - {RANK_PART}


def saved_parts(
    training: Training,
    *,
    has_weights_beside_master: bool = True,
    copies_fp32_weights: bool = False,
    has_frozen: bool = False,
    is_sharded: bool = True,
) -> tuple[StatePart, ...]:
    """List the parts that a checkpoint holds: what the framework keeps, unless `saved_state` says otherwise.

    Some formats save no low-precision weights where they save the master copy, of which the weights are a rounding.
    They still save the weights of frozen tensors, which have no master copy. Some optimizers keep no master copy of
    weights that are fp32 already. `is_sharded`: FSDP or ZeRO divides the weights. Raises InvalidInput where the
    framework does not train so, or nothing would be saved.

    >>> sum(part.tensor_bytes((1,), role="other") for part in saved_parts(Training()))
    14
    """
    override = training.saved_state
    dtypes: dict[PartName, SavedDtype | None] = {**_dtypes(training, copies_fp32_weights=copies_fp32_weights)}
    if override is not None and override.weights_alone:
        dtypes = {"weights": dtypes["weights"]}
    of_base = base_dtype(training)
    of_frozen_alone = "master" in dtypes and not has_weights_beside_master
    if of_frozen_alone and not (has_frozen and _keeps_frozen(training)):
        dtypes["weights"] = None
    if override is not None:
        dtypes |= {name: getattr(override, name) for name in _PART_NAMES & override.model_fields_set}
        if "weights" in override.model_fields_set:
            of_frozen_alone = False
            is_base_stated = training.adapters is not None and training.adapters.base_dtype is not None
            of_base = of_base if is_base_stated else None
    of_copies = copy_dtype(training, is_sharded=is_sharded)
    parts = _parts(dtypes, training, of_base=of_base, of_copies=of_copies, has_weights_of_trained=not of_frozen_alone)
    if not parts:
        raise nothing_to_save("null for every part")
    return parts


def base_dtype(training: Training) -> SavedDtype | None:
    """Return the dtype of the frozen weights under adapters; None without adapters, or where it is as of trained ones.

    Trainers load a model in 16 bits and train adapters in fp32 beside it (PEFT 0.21, autocast_adapter_dtype;
    transformers 5.23, from_pretrained, whose dtype is that of the published weights). `keeps_base_as_trained` has the
    exceptions.

    >>> from sizing.state.training import Adapters
    >>> base_dtype(Training(framework="fsdp2", adapters=Adapters(rank=16)))
    'bf16'
    >>> base_dtype(Training(framework="fsdp2", adapters=Adapters(rank=16, base_dtype="nf4")))
    'nf4-double'
    """
    adapters = training.adapters
    if adapters is None:
        return None
    if adapters.base_dtype is not None:
        doubled = DOUBLE_QUANTIZED.get(adapters.base_dtype) if adapters.double_quant is not False else None
        return doubled or adapters.base_dtype
    trainer = TRAINERS[training.trainer] if training.trainer else FRAMEWORKS[training.framework]
    if trainer.keeps_base_as_trained or not training.precision.endswith("-mixed"):
        return None
    return "fp16" if training.precision == "fp16-mixed" else "bf16"


def quantizes_experts(training: Training) -> bool:
    """Return whether the routed experts of a base in 8 or 4 bits are in 8 or 4 bits too.

    Source: `quantizes_experts` of the trainer, where `quantize_experts` is not given; no framework does.

    >>> from sizing.state.training import Adapters
    >>> base = Adapters(rank=16, base_dtype="nf4")
    >>> quantizes_experts(Training(framework="transformers", adapters=base))
    False
    >>> quantizes_experts(Training(framework="transformers", trainer="unsloth", adapters=base))
    True
    """
    given = training.adapters.quantize_experts if training.adapters is not None else None
    by_trainer = training.trainer is not None and TRAINERS[training.trainer].quantizes_experts
    return by_trainer if given is None else given


def copy_dtype(training: Training, *, is_sharded: bool) -> SavedDtype | None:
    """Return the dtype of modules that are trained whole beside adapters and of their moments; None if as of adapters.

    PEFT copies a module as it is loaded, and raises adapters alone to fp32, so that a copy from a base in bf16 stays in
    bf16. With FSDP, accelerate raises all trained weights to fp32; a base in 4 or 8 bits keeps its other modules in
    fp32. Source: PEFT 0.21, utils/other.py, ModulesToSaveWrapper and prepare_model_for_kbit_training, and
    tuners/tuners_utils.py, cast_adapter_dtype; accelerate 1.15, accelerator.py and utils/fsdp_utils.py; measured with
    PEFT 0.21.2 and a base in bf16.

    >>> from sizing.state.training import Adapters
    >>> training = Training(framework="transformers", adapters=Adapters(rank=16, modules_to_save=("lm_head",)))
    >>> copy_dtype(training, is_sharded=False), copy_dtype(training, is_sharded=True)
    ('bf16', None)
    """
    adapters = training.adapters
    if adapters is None or not adapters.modules_to_save or is_sharded:
        return None
    raises = training.trainer is not None and TRAINERS[training.trainer].raises_trained
    is_raised = raises or FRAMEWORKS[training.framework].keeps[training.precision].dtypes["weights"] != "fp32"
    return "bf16" if base_dtype(training) == "bf16" and not is_raised else None


def nothing_to_save(value: str) -> InvalidInput:
    """Return the error for a checkpoint without a byte."""
    remedy = "give at least one part a dtype"
    return InvalidInput.of("training.saved_state", "must leave something to save", value=value, remedy=remedy)


def resident_parts(training: Training, *, copies_fp32_weights: bool = False) -> tuple[StatePart, ...]:
    """List the parts that the framework keeps while it trains, without gradients; of copies as of adapters.

    Raises InvalidInput where the framework does not train so.
    """
    dtypes = _dtypes(training, copies_fp32_weights=copies_fp32_weights)
    return _parts(dtypes, training, of_base=base_dtype(training))


def resident_statistics(training: Training, *, is_sharded: bool) -> tuple[StatePart, ...]:
    """Return the moments that the framework keeps while it trains, if their bytes follow from shapes and roles.

    Empty where each parameter has equally many. `is_sharded`: FSDP or ZeRO divides the weights. Raises InvalidInput
    where the framework does not train so.

    >>> [len(resident_statistics(Training(optimizer=each), is_sharded=True)) for each in ("adamw", "muon", "sgd")]
    [0, 1, 0]
    """
    dtypes = _dtypes(training, copies_fp32_weights=False)
    parts = _parts(dtypes, training, of_base=None, of_copies=copy_dtype(training, is_sharded=is_sharded))
    return tuple(part for part in parts if part.name == "moments" and part.bytes_per_parameter is None)


def uncounted_state_warnings(training: Training) -> Iterator[str]:
    """Warn of parts whose saved dtype is not that in which GPU memory is counted, and of what it is counted without.

    >>> from sizing.state.training import SavedState
    >>> [each[:53] for each in uncounted_state_warnings(Training(saved_state=SavedState(moments="bf16")))]
    ['training.saved_state.moments changes the files alone:']
    """
    if training.reinforcement is not None or training.trainer in COLOCATED:
        yield (
            "GPU memory is that of training alone. An inference engine and a reference model on the same GPUs, as verl "
            "has them in reinforcement learning, are not counted: they need room beside it, or give theirs back while "
            "training runs"
        )
    override = training.saved_state
    if override is None:
        return
    for part in resident_parts(training):
        saved = getattr(override, part.name)
        if part.name != "weights" and saved not in (None, part.dtype):
            yield (
                f"training.saved_state.{part.name} changes the files alone: GPU memory is counted with {part.name} in "
                f"{part.dtype}, as {FRAMEWORKS[training.framework].title} keeps them by default. An optimizer that "
                f"keeps them in {saved} needs other memory"
            )
    if override.ema is not None:
        yield "GPU memory is counted without the average of the weights (training.saved_state.ema), wherever it stands"


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
    dtypes: Mapping[PartName, SavedDtype | None],
    training: Training,
    *,
    of_base: SavedDtype | None,
    of_copies: SavedDtype | None = None,
    has_weights_of_trained: bool = True,
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
            frozen_dtype=of_base if name == "weights" and of_base != dtype else None,
            copy_dtype=of_copies if name in ("weights", "moments") and dtype == "fp32" else None,
        )
        for name, dtype in dtypes.items()
        if dtype is not None and (name != "moments" or moments)
    )


def _keeps_frozen(training: Training) -> bool:
    """Return whether the weights of frozen tensors are saved: with adapters, only on request."""
    return training.adapters is None or training.adapters.save_base
