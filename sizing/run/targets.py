"""The `targets` block of a Scenario, and whether the answer meets them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Annotated, Any

import numpy as np
from pydantic import Field, JsonValue

from sizing.run.figures import Figures
from sizing.storage.transfer import Numbers
from sizing.strict_model import InputModel
from sizing.units import Fraction, OrText, PositiveSeconds

_OVERHEAD_SOURCE = "5 %, quoted by VAST Data 2024"


class Targets(InputModel):
    """What the storage must achieve."""

    max_overhead_fraction: OrText[Annotated[Fraction, Field(ge=1e-9, le=1, allow_inf_nan=False)]] = Field(
        0.05,
        json_schema_extra={"source": _OVERHEAD_SOURCE},
        description=f"Max fraction of the time for which saves may stall training. Default: {_OVERHEAD_SOURCE}.",
    )
    max_stall_seconds: PositiveSeconds | None = Field(
        None,
        description="Max seconds for which a save, and those to tiers at the same moment, may stall training. "
        "Default: no target.",
    )
    recovery_seconds: PositiveSeconds | None = Field(
        None,
        description="Max seconds from a failure to the first step (RTO): wait for a node, detection, relaunch, "
        "restore. Default: no target.",
    )
    min_goodput_fraction: OrText[Annotated[Fraction, Field(ge=1e-9, lt=1, allow_inf_nan=False)]] | None = Field(
        None,
        description="Min fraction of the time that must be useful work (goodput, ETTR). "
        "It is judged at the interval asked for. Default: no target.",
    )


class TargetCheck(Figures):
    """A target beside the figure that was found for it."""

    target: str = Field(description="Field of targets that was set, such as max_stall_seconds.")
    wanted: float = Field(description="Value of that field: a max, or a min for goodput.")
    found: float | None = Field(
        description="Figure that is compared with the target, in the same unit. Goodput is a max where "
        "interval.leaves_out_restore. Null when unknown."
    )
    met: bool | None = Field(
        description="Whether the figure is within the target. Null when unknown, "
        "as where goodput is within its target only as the restore is left out."
    )
    remedy: str | None = Field(
        None, description="What would meet the target, or why no storage does. Null when it is not missed."
    )
    found_interval: tuple[float, float] | None = Field(
        None,
        description="Least and largest value of the figure within the intervals of the calibration, which hold nine of "
        "ten measurements, in the same unit. Where only one of them is within the target, the measurements do not "
        "decide it. Null without a calibration, and where it does not move the figure.",
    )
    met_at_range_ends: bool | None = Field(
        None,
        description="Whether the target is also met at both ends of the range of each guess, and with each "
        "alternative. Null when it is not met as it stands.",
    )
    missed_with: dict[str, list[JsonValue]] = Field(
        default_factory=dict,
        description="Values of guesses with each of which the target is missed, by dotted path in the scenario. "
        "Empty when there are none, and when the target is missed as it stands.",
    )
    met_with: dict[str, list[JsonValue]] = Field(
        default_factory=dict,
        description="Values of guesses with each of which a target is met that is missed as it stands, by dotted path "
        "in the scenario. Empty when there are none.",
    )

    @property
    def is_decided(self) -> bool:
        """Whether the target is judged alike at both ends of the interval of its figure, where there is one."""
        if self.met is None or self.found_interval is None:
            return True
        low, high = (_is_within(self.target, wanted=self.wanted, found=end) for end in self.found_interval)
        return bool(low == high)


def check_targets(
    targets: Targets, found: Mapping[str, Numbers | None], *, bounded: Collection[str] = ()
) -> list[TargetCheck]:
    """Every target that was set, beside what was found for it; what is `bounded` may be missed, but not met."""
    checks = []
    for name, value in found.items():
        wanted = getattr(targets, name)
        if wanted is None:
            continue
        met: Any = None if value is None else _is_within(name, wanted=wanted, found=value)
        if value is not None and name in bounded:
            met = np.where(met, np.nan, 0.0)  # no number, in rows too, where it is not known to be met
        checks.append(TargetCheck.of(target=name, wanted=wanted, found=value, met=met))
    return checks


def judge(
    targets: Targets, found: Mapping[str, Numbers | None], *, bounded: Collection[str] = ()
) -> Iterator[tuple[str, Numbers, Numbers]]:
    """Every target that was set, with where it is known whether it is met, and where it is; as in `check_targets`."""
    for name, value in found.items():
        wanted = getattr(targets, name)
        if wanted is not None and value is not None:
            met = _is_within(name, wanted=wanted, found=value)
            yield name, np.isfinite(value) & (np.logical_not(met) | (name not in bounded)), met


def _is_within(name: str, *, wanted: Numbers, found: Numbers) -> Any:
    return np.greater_equal(found, wanted) if name.startswith("min_") else np.less_equal(found, wanted)
