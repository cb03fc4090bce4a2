"""The `targets` block of a Scenario, and whether the answer meets them."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from sizing.run.figures import Figures
from sizing.storage.transfer import Numbers
from sizing.units import Fraction, PositiveSeconds


class Targets(BaseModel):
    """What the storage must achieve."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    max_overhead_fraction: Annotated[Fraction, Field(ge=1e-9, le=1, allow_inf_nan=False)] = Field(
        0.05, json_schema_extra={"source": "5 %, quoted by VAST Data 2024"}
    )
    max_stall_seconds: PositiveSeconds | None = None
    recovery_seconds: PositiveSeconds | None = Field(
        None, description="from a failure to the first step: detection, relaunch, restore"
    )
    min_goodput_fraction: Annotated[Fraction, Field(ge=1e-9, lt=1, allow_inf_nan=False)] | None = Field(
        None, description="of the time, that is to be useful at the interval asked for"
    )


class TargetCheck(Figures):
    """One target and what was found; `met` is None where the answer cannot tell."""

    target: str
    wanted: float
    found: float | None
    met: bool | None


def check_targets(
    targets: Targets,
    *,
    overhead_fraction: Numbers | None,
    stall_seconds: Numbers | None,
    recovery_seconds: Numbers | None,
    goodput_fraction: Numbers | None,
) -> list[TargetCheck]:
    """Every target that was set, beside what was found."""
    found = {
        "max_overhead_fraction": overhead_fraction,
        "max_stall_seconds": stall_seconds,
        "recovery_seconds": recovery_seconds,
        "min_goodput_fraction": goodput_fraction,
    }
    return [
        TargetCheck.of(target=name, wanted=wanted, found=value, met=_met(name, wanted=wanted, found=value))
        for name, value in found.items()
        if (wanted := getattr(targets, name)) is not None
    ]


def _met(name: str, *, wanted: Numbers, found: Numbers | None) -> Any:
    if found is None:
        return None
    return np.greater_equal(found, wanted) if name.startswith("min_") else np.less_equal(found, wanted)
