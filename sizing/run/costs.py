"""The `costs` block of a Scenario: prices of storage and of lost GPU time. No price has a default."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Self

import numpy as np
from pydantic import Field, model_validator

from sizing.errors import broken_rule
from sizing.run.figures import Figures
from sizing.run.interval import Interval
from sizing.run.recovery import Recovery
from sizing.run.retention import Capacity
from sizing.run.tier_rows import TierRow
from sizing.run.workload import CheckpointWorkload
from sizing.storage.profile import StorageProfile
from sizing.storage.transfer import Numbers
from sizing.strict_model import InputModel
from sizing.units import BYTES_PER_GIGABYTE, BYTES_PER_TERABYTE, SECONDS_PER_HOUR, PositiveSeconds

_Price = Annotated[float, Field(ge=0, le=1e12, allow_inf_nan=False)]
_PRICES = ("per_terabyte", "per_gigabyte_per_second", "per_lost_gpu_hour")


class Costs(InputModel):
    """Prices, all in one currency."""

    per_terabyte: _Price | None = Field(
        None, description="Price of one terabyte (10^12 bytes) of usable capacity. Default: not priced."
    )
    per_gigabyte_per_second: _Price | None = Field(
        None, description="Price of a write rate of 10^9 bytes per second on the file system. Default: not priced."
    )
    per_lost_gpu_hour: _Price | None = Field(
        None, description="Price of one GPU-hour lost to stalls, repeated work and restarts. Default: not priced."
    )
    run_seconds: PositiveSeconds | None = Field(
        None, description="Seconds of training over which lost GPU-hours are counted. Required with per_lost_gpu_hour."
    )

    @model_validator(mode="after")
    def _prices_something(self) -> Self:
        if all(getattr(self, name) is None for name in _PRICES):
            raise broken_rule(f"must have at least one of {', '.join(_PRICES)}", "give a price, or remove costs")
        if self.per_lost_gpu_hour is not None and self.run_seconds is None:
            raise broken_rule("has per_lost_gpu_hour without run_seconds", "give run_seconds, such as 90d")
        return self


class Cost(Figures):
    """The `cost` block of the report, in the currency of the prices."""

    capacity: float | None = Field(
        description="Price of the usable capacity, in the currency of costs. Null without per_terabyte."
    )
    bandwidth: float | None = Field(
        description="Price of the file system's write rate. Null without per_gigabyte_per_second or a write rate."
    )
    tiers: float | None = Field(
        None, description="Price of what the tiers beside it store. Null where none has a cost_per_terabyte."
    )
    lost_gpu_hours: float | None = Field(
        description="GPU-hours of costs.run_seconds without useful work, those of spares included. "
        "Null when goodput or run_seconds is unknown."
    )
    lost_gpu_time: float | None = Field(
        description="Price of these GPU-hours. Null without per_lost_gpu_hour, or when they are unknown."
    )
    total: float | None = Field(description="Sum of all that is priced. Null when a part of it is unknown.")


def lost_gpu_hours(
    goodput_fraction: Numbers, *, num_gpus: Numbers, run_seconds: Numbers, num_spare_gpus: Numbers = 0
) -> Numbers:
    """GPU-hours of a run that are not useful work: ((1 - g) n + s) t, s GPUs in reserve.

    Source: definition, with g from `interval.goodput_fraction`.

    >>> round(float(lost_gpu_hours(0.95, num_gpus=3072, run_seconds=86400)), 1)
    3686.4
    """
    lost: Numbers = (np.subtract(1.0, goodput_fraction) * num_gpus + num_spare_gpus) * np.divide(
        run_seconds, SECONDS_PER_HOUR
    )
    return lost


def cost_of(
    costs: Costs | None,
    *,
    profile: StorageProfile | None,
    capacity: Capacity,
    tiers: Sequence[TierRow],
    interval: Interval,
    recovery: Recovery | None,
    workload: CheckpointWorkload,
) -> Cost | None:
    """What the storage, its tiers, and the GPU time lost over the run cost; None without prices."""
    if costs is None:
        return None
    rate = profile.write.file_system_bytes_per_second if profile else None
    goodput = interval.goodput_at_interval_fraction
    lost = (
        None
        if goodput is None or costs.run_seconds is None
        else lost_gpu_hours(
            goodput,
            num_gpus=workload.num_gpus,
            run_seconds=costs.run_seconds,
            num_spare_gpus=recovery.num_spare_gpus if recovery else 0,
        )
    )
    priced = {
        "capacity": (costs.per_terabyte, np.divide(capacity.usable_bytes, BYTES_PER_TERABYTE)),
        "bandwidth": (costs.per_gigabyte_per_second, None if rate is None else np.divide(rate, BYTES_PER_GIGABYTE)),
        "lost_gpu_time": (costs.per_lost_gpu_hour, lost),
    }
    amounts: dict[str, Numbers | None] = {
        name: None if amount is None else np.multiply(price, amount)
        for name, (price, amount) in priced.items()
        if price is not None
    }
    of_tiers = [row.cost for row in tiers if row.cost is not None]
    if of_tiers:
        amounts["tiers"] = sum(of_tiers, start=0.0)
    known = [amount for amount in amounts.values() if amount is not None]
    return Cost.of(
        capacity=amounts.get("capacity"),
        bandwidth=amounts.get("bandwidth"),
        tiers=amounts.get("tiers"),
        lost_gpu_hours=lost,
        lost_gpu_time=amounts.get("lost_gpu_time"),
        total=sum(known, start=0.0) if len(known) == len(amounts) else None,
    )
