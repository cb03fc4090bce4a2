"""The parts of the training state and their bytes per parameter.

Gradients are never part of a checkpoint: the 16, 18 and 20 bytes per parameter of the literature count
them and are memory figures.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from sizing.errors import InvalidInput
from sizing.state.training import BYTES_PER_VALUE, MOMENTS, Dtype, Framework, Precision, Training

PartName = Literal["weights", "master", "moments", "ema"]
_PART_NAMES: frozenset[PartName] = frozenset(get_args(PartName))


@dataclass(frozen=True, slots=True)
class StatePart:
    """One part of the state: `copies` values of `dtype` per parameter."""

    name: PartName
    dtype: Dtype
    copies: int

    @property
    def bytes_per_parameter(self) -> int:
        """Bytes that the part takes per parameter."""
        return self.copies * BYTES_PER_VALUE[self.dtype]


WEIGHTS_AND_MASTER: dict[tuple[Framework, Precision], dict[PartName, Dtype]] = {
    ("megatron", "bf16-mixed"): {"weights": "bf16", "master": "fp32"},
    ("megatron", "fp16-mixed"): {"weights": "fp16", "master": "fp32"},
    ("megatron", "fp32"): {"weights": "fp32"},
}
"""What a framework keeps beside the optimizer's moments, which are fp32 in each of these rows.

Source: Megatron-LM's optimizers with full-precision and with 16-bit parameters; 14 bytes per parameter
with Adam is confirmed by `published/published_checkpoints.json` and `published/optimizer_state_bytes.json`.
"""


def resident_parts(training: Training) -> tuple[StatePart, ...]:
    """The state that the framework keeps while it trains, gradients aside."""
    return _parts(_habit(training), training)


def saved_parts(training: Training) -> tuple[StatePart, ...]:
    """The parts that a checkpoint holds: the framework's habit, where `saved_state` does not say otherwise.

    Raises InvalidInput where nothing would be saved.

    >>> sum(part.bytes_per_parameter for part in saved_parts(Training()))
    14
    """
    dtypes = _habit(training)
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


def _habit(training: Training) -> dict[PartName, Dtype | None]:
    moments: Dtype | None = "fp32" if MOMENTS[training.optimizer] else None
    return {**WEIGHTS_AND_MASTER[training.framework, training.precision], "moments": moments}


def _parts(dtypes: Mapping[PartName, Dtype | None], training: Training) -> tuple[StatePart, ...]:
    copies: dict[PartName, int] = {"moments": MOMENTS[training.optimizer]}
    return tuple(
        StatePart(name, dtype, copies.get(name, 1)) for name, dtype in dtypes.items() if dtype is not None
    )
