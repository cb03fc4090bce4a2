"""Prices of an offer, and what each of them counts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Literal, Self

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, model_validator

from sizing.cluster.adapters import MAX_ADAPTERS
from sizing.errors import broken_rule
from sizing.run.tier import TierKind
from sizing.spelling import AnySpelling
from sizing.storage.transfer import Numbers
from sizing.units import (
    BYTES_PER_GIGABYTE,
    BYTES_PER_TERABYTE,
    SECONDS_PER_HOUR,
    SECONDS_PER_YEAR,
    ByteCount,
    PositiveSeconds,
)

Per = Literal[
    "offer",
    "terabyte",
    "gigabyte-per-second",
    "node",
    "gpu",
    "kilowatt-hour",
    "million-requests",
    "million-writes",
    "million-reads",
    "terabyte-written",
    "terabyte-read",
    "nic",
    "nvme-drive",
]
Every = Literal["once", "month", "year"]
BANDWIDTH: Per = "gigabyte-per-second"
_REQUESTS: tuple[Per, ...] = ("million-requests", "million-writes", "million-reads")
_IN_NODES: tuple[Per, ...] = ("nic", "nvme-drive")
"""Parts of the nodes: so many in each."""

SECONDS_PER_PERIOD: dict[Every, float] = {"month": SECONDS_PER_YEAR / 12, "year": SECONDS_PER_YEAR}
_MILLION = 1_000_000
"""Of requests: object stores price them by the thousand or the million."""
_ROUNDED = 1 - 1e-12
"""The rounding of a rate times a time adds no request."""


@dataclass(frozen=True, slots=True)
class Counted:
    """What one workload asks of an offer, which prices count; numbers, or arrays with one element per setting.

    `share_seconds` of the horizon are this workload's; the storage stands there for all of it. None is not known.
    """

    horizon_seconds: float
    share_seconds: float
    usable_bytes: Numbers
    write_bytes_per_second: float | None
    num_nodes: int
    num_gpus: int
    num_storage_nics: int | None
    power_kilowatts: float | None
    saves_per_second: Numbers
    written_bytes_per_save: Numbers
    files_per_save: int
    restores_per_second: Numbers | None
    read_bytes_per_restore: float
    files_per_restore: int


@dataclass(frozen=True, slots=True)
class PriceUnit:
    """Something that is counted: how many a workload needs; of flows, how many in its seconds of the horizon.

    What is paid `by_use` has no period.
    """

    words: str
    count: Callable[[Counted, Price], Numbers | None]
    is_flow: bool = False
    by_use: bool = False


def _requests(counted: Counted, price: Price) -> Numbers | None:
    """Writes and reads, each file in one request, or in parts of `request_bytes`."""
    reads = _reads(counted, price)
    return None if reads is None else np.add(_writes(counted, price), reads)


def _writes(counted: Counted, price: Price) -> Numbers:
    """Class A of object stores: a PUT or POST for each part of each file of a save."""
    parts = _parts(counted.written_bytes_per_save, counted.files_per_save, price.request_bytes)
    return _millions(np.multiply(counted.saves_per_second, parts), counted)


def _reads(counted: Counted, price: Price) -> Numbers | None:
    """Class B of object stores: a GET for each part of each file of a restore."""
    if counted.restores_per_second is None:
        return None
    parts = _parts(counted.read_bytes_per_restore, counted.files_per_restore, price.request_bytes)
    return _millions(np.multiply(counted.restores_per_second, parts), counted)


def _millions(per_second: Numbers, counted: Counted) -> Numbers:
    millions: Numbers = np.divide(np.multiply(per_second, counted.share_seconds), _MILLION)
    return millions


def _parts(num_bytes: Numbers, num_files: int, request_bytes: ByteCount | None) -> Numbers:
    if request_bytes is None or not num_files:
        return num_files
    parts: Numbers = num_files * np.ceil(np.divide(num_bytes, num_files * request_bytes) * _ROUNDED)
    return parts


def _written(counted: Counted, _: Price) -> Numbers:
    seconds = np.multiply(counted.saves_per_second, counted.share_seconds)
    return np.multiply(seconds, np.divide(counted.written_bytes_per_save, BYTES_PER_TERABYTE))


def _read(counted: Counted, _: Price) -> Numbers | None:
    if counted.restores_per_second is None:
        return None
    restores = np.multiply(counted.restores_per_second, counted.share_seconds)
    return np.multiply(restores, counted.read_bytes_per_restore / BYTES_PER_TERABYTE)


def _energy(counted: Counted, _: Price) -> float | None:
    if counted.power_kilowatts is None:
        return None
    return counted.power_kilowatts * counted.horizon_seconds / SECONDS_PER_HOUR


def _rate(counted: Counted, _: Price) -> float | None:
    rate = counted.write_bytes_per_second
    return None if rate is None else rate / BYTES_PER_GIGABYTE


def _nics(counted: Counted, price: Price) -> float | None:
    """As many as the price says each node has, else as the cluster does."""
    num = counted.num_storage_nics if price.per_node is None else price.per_node * counted.num_nodes
    return None if num is None else float(num)


def _drives(counted: Counted, price: Price) -> float | None:
    return None if price.per_node is None else float(price.per_node * counted.num_nodes)


PRICE_UNITS: Mapping[Per, PriceUnit] = {
    "offer": PriceUnit("offer", lambda *_: 1.0),
    "terabyte": PriceUnit("TB of usable capacity", lambda counted, _: counted.usable_bytes / BYTES_PER_TERABYTE),
    "gigabyte-per-second": PriceUnit("GB/s of write bandwidth", _rate),
    "node": PriceUnit("nodes of the cluster", lambda counted, _: float(counted.num_nodes)),
    "gpu": PriceUnit("GPUs of the cluster", lambda counted, _: float(counted.num_gpus)),
    "kilowatt-hour": PriceUnit("kWh of the storage's power", _energy, by_use=True),
    "million-requests": PriceUnit("million requests", _requests, is_flow=True, by_use=True),
    "million-writes": PriceUnit("million write requests", _writes, is_flow=True, by_use=True),
    "million-reads": PriceUnit("million read requests", _reads, is_flow=True, by_use=True),
    "terabyte-written": PriceUnit("TB written", _written, is_flow=True, by_use=True),
    "terabyte-read": PriceUnit("TB read back", _read, is_flow=True, by_use=True),
    "nic": PriceUnit("NICs of the nodes for storage", _nics),
    "nvme-drive": PriceUnit("NVMe drives of the nodes", _drives),
}
"""What prices may be per. Of stocks the workload that needs most decides, flows of all workloads add up."""


_OF_MAIN_STORAGE: tuple[Per, ...] = (BANDWIDTH, "kilowatt-hour")
"""An offer states these of its main storage alone."""


class Price(BaseModel):
    """An amount of money for each of something, once or again in each period."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    amount: Annotated[float, Field(ge=0, le=1e15, allow_inf_nan=False)] = Field(
        description="Money for each one, in the currency of the decision."
    )
    per: AnySpelling[Per] = Field(
        description="What it is paid for: the offer as a whole, or each of a unit that is counted. "
        "The capacity and the rate are those offered, else those needed."
    )
    every: AnySpelling[Every] | None = Field(
        None,
        description="Once at the purchase, or again in each month or year. "
        "Default: paid by use, as a kilowatt-hour, a request or a terabyte moved; with other units it must be given.",
    )
    name: Annotated[str, Field(min_length=1, max_length=60)] | None = Field(
        None, description="What the ledger calls it, such as support. Default: what it is per."
    )
    life_seconds: PositiveSeconds | None = Field(
        None,
        description="Seconds over which a purchase is written off; the horizon bears its share of it, at most all. "
        "Default: the horizon bears all of it.",
    )
    request_bytes: Annotated[ByteCount, Field(ge=1)] | None = Field(
        None,
        description="Bytes of one request, as object stores count the parts of a large object. "
        "Default: one request per file.",
    )
    per_node: Annotated[int, Field(ge=1, le=MAX_ADAPTERS)] | None = Field(
        None,
        description="How many NICs or NVMe drives each node has. Required per nvme-drive. "
        "Default: per nic those of the cluster's node for storage.",
    )
    tier: AnySpelling[TierKind] | None = Field(
        None,
        description="Tier whose capacity, bytes and requests it counts; nothing where a workload does without that "
        "tier. Default: the main storage.",
    )

    @model_validator(mode="after")
    def _makes_sense(self) -> Self:
        by_use = PRICE_UNITS[self.per].by_use
        if self.every is None and not by_use:
            raise broken_rule(f"has a price per {self.per} without a period", "give every: once, month or year")
        if self.every is not None and by_use:
            raise broken_rule(f"has every with a price per {self.per}, which is paid by use", "remove every")
        if self.life_seconds is not None and self.every != "once":
            raise broken_rule("has life_seconds, but is no purchase", "give every: once, or remove life_seconds")
        if self.tier is not None and self.per in _OF_MAIN_STORAGE:
            raise broken_rule(f"has a tier with a price per {self.per}", "price the tier per terabyte, node or offer")
        return self

    @model_validator(mode="after")
    def _counts_what_it_is_per(self) -> Self:
        if self.request_bytes is not None and self.per not in _REQUESTS:
            raise broken_rule(f"has request_bytes, but is not per {' or '.join(_REQUESTS)}", "remove request_bytes")
        if self.per_node is not None and self.per not in _IN_NODES:
            raise broken_rule(f"has per_node, but is not per {' or '.join(_IN_NODES)}", "remove per_node")
        if self.per_node is None and self.per == "nvme-drive":
            raise broken_rule("has a price per nvme-drive without per_node", "give the drives of one node as per_node")
        return self

    @property
    def unit(self) -> PriceUnit:
        """What it counts."""
        return PRICE_UNITS[self.per]

    def times(self, horizon_seconds: float) -> float:
        """How often the horizon bears the amount: a share of a purchase, or the number of periods; 1 for use.

        >>> Price(amount=1, per="offer", every="once", life_seconds="5y").times(SECONDS_PER_YEAR)
        0.2
        >>> Price(amount=1, per="offer", every="month").times(SECONDS_PER_YEAR)
        12.0
        """
        if self.every is None:
            return 1.0
        if self.every == "once":
            return 1.0 if self.life_seconds is None else min(1.0, horizon_seconds / self.life_seconds)
        return horizon_seconds / SECONDS_PER_PERIOD[self.every]
