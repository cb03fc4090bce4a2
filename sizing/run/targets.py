"""The `targets` block of a Scenario, and whether the answer meets them."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from sizing.run.figures import Figures
from sizing.storage.transfer import Numbers
from sizing.units import Fraction, PositiveSeconds

_OVERHEAD_SOURCE = "5 %, quoted by VAST Data 2024"


class Targets(BaseModel):
    """What the storage must achieve."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    max_overhead_fraction: Annotated[Fraction, Field(ge=1e-9, le=1, allow_inf_nan=False)] = Field(
        0.05,
        json_schema_extra={"source": _OVERHEAD_SOURCE},
        description=f"Max fraction of the time for which saves may stall training. Default: {_OVERHEAD_SOURCE}.",
    )
    max_stall_seconds: PositiveSeconds | None = Field(
        None, description="Max seconds for which one save may stall training. Default: no target."
    )
    recovery_seconds: PositiveSeconds | None = Field(
        None,
        description="Max seconds from a failure to the first step (RTO): detection, relaunch, restore. "
        "Default: no target.",
    )
    min_goodput_fraction: Annotated[Fraction, Field(ge=1e-9, lt=1, allow_inf_nan=False)] | None = Field(
        None,
        description="Min fraction of the time that must be useful work (goodput, ETTR). "
        "It is judged at the interval asked for. Default: no target.",
    )


class TargetCheck(Figures):
    """One target and what was found."""

    target: str = Field(description="Field of targets that was set, such as max_stall_seconds.")
    wanted: float = Field(description="Value of that field: a max, or a min for goodput.")
    found: float | None = Field(
        description="Figure that is compared with the target, in the same unit. Null when unknown."
    )
    met: bool | None = Field(description="Whether the figure is within the target. Null when unknown.")


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
