"""Offers to choose from: their storage, their prices and what each price counts; and offers that break rules."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple, Self

import numpy as np
from pydantic import Field, ValidationError, model_validator
from pydantic_core import ErrorDetails

from sizing.cluster.adapters import MAX_ADAPTERS
from sizing.errors import broken_rule, explain_details, follows_from_others, found_in
from sizing.questions.decide.ranges import Ranges
from sizing.run.checkpoint import Tier, TierKind
from sizing.spelling import AnySpelling
from sizing.storage.storage import Storage
from sizing.storage.transfer import Numbers
from sizing.strict_model import InputModel, StrictModel
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
Grows = Literal["gpus", "model"]
"""What of the workloads may grow."""
BANDWIDTH: Per = "gigabyte-per-second"
_REQUESTS: tuple[Per, ...] = ("million-requests", "million-writes", "million-reads")
_IN_NODES: tuple[Per, ...] = ("nic", "nvme-drive")
"""Units that are parts of the nodes: so many in each."""

SECONDS_PER_PERIOD: dict[Every, float] = {"month": SECONDS_PER_YEAR / 12, "year": SECONDS_PER_YEAR}
_MILLION = 1_000_000
"""Requests in a price: object stores price them by the thousand or the million."""
_ROUNDED = 1 - 1e-12
"""Factor below 1, so that the rounding of a rate times a time adds no request."""


class Flow(NamedTuple):
    """What is moved again and again: `num_bytes` in `num_files`, so often in a second; None is not known."""

    per_second: Numbers | None
    num_bytes: Numbers
    num_files: Numbers


@dataclass(frozen=True, slots=True)
class WorkloadUse:
    """Use that one workload makes of an offer, which prices count; numbers, or arrays with one element per setting.

    `share_seconds` of the horizon are this workload's; the storage stands there for all of it. None is not known.
    `writes` are those of saves, then of exports and publications, and `reads` those of restores, then of the same.
    """

    horizon_seconds: float
    share_seconds: float
    usable_bytes: Numbers
    write_bytes_per_second: float | None
    num_nodes: int
    num_gpus: int
    num_storage_nics: int | None
    power_kilowatts: float | None
    writes: tuple[Flow, ...]
    reads: tuple[Flow, ...]


@dataclass(frozen=True, slots=True)
class PriceUnit:
    """Unit that a price is per. `count` says how many a workload needs; of a flow, in its seconds of the horizon.

    A price that is paid `by_use` has no period. Units that are `of_nodes` come with the nodes of the cluster.
    """

    words: str
    count: Callable[[WorkloadUse, Price], Numbers | None]
    is_flow: bool = False
    by_use: bool = False
    of_nodes: bool = False


def _count_requests(use: WorkloadUse, price: Price) -> Numbers | None:
    """Count requests that write and that read, one for each file or for each part of `request_bytes`."""
    writes, reads = _count_writes(use, price), _count_reads(use, price)
    return None if writes is None or reads is None else np.add(writes, reads)


def _count_writes(use: WorkloadUse, price: Price) -> Numbers | None:
    """Count class A of object stores: a PUT or POST for each part of each file that is written."""
    return _add_flows(use, use.writes, lambda flow: _count_parts(flow, price.request_bytes), each=_MILLION)


def _count_reads(use: WorkloadUse, price: Price) -> Numbers | None:
    """Count class B of object stores: a GET for each part of each file, by each rank that reads it."""
    return _add_flows(use, use.reads, lambda flow: _count_parts(flow, price.request_bytes), each=_MILLION)


def _count_parts(flow: Flow, request_bytes: ByteCount | None) -> Numbers:
    if request_bytes is None or not flow.num_files:
        return flow.num_files
    parts: Numbers = np.ceil(np.divide(flow.num_bytes, flow.num_files * request_bytes) * _ROUNDED)
    return flow.num_files * parts


def _count_terabytes_written(use: WorkloadUse, _: Price) -> Numbers | None:
    return _add_flows(use, use.writes, lambda flow: flow.num_bytes, each=BYTES_PER_TERABYTE)


def _count_terabytes_read(use: WorkloadUse, _: Price) -> Numbers | None:
    return _add_flows(use, use.reads, lambda flow: flow.num_bytes, each=BYTES_PER_TERABYTE)


def _add_flows(
    use: WorkloadUse, flows: Sequence[Flow], count: Callable[[Flow], Numbers], *, each: float
) -> Numbers | None:
    """Add what is counted of flows over the workload's seconds, as a number of `each`; None where one is not known."""
    total: Numbers = 0.0
    for flow in flows:
        if flow.per_second is None:
            return None
        total = np.add(total, np.multiply(flow.per_second, np.divide(count(flow), each)))
    return np.multiply(total, use.share_seconds)


def _count_kilowatt_hours(use: WorkloadUse, _: Price) -> float | None:
    if use.power_kilowatts is None:
        return None
    return use.power_kilowatts * use.horizon_seconds / SECONDS_PER_HOUR


def _count_gigabytes_per_second(use: WorkloadUse, _: Price) -> float | None:
    rate = use.write_bytes_per_second
    return None if rate is None else rate / BYTES_PER_GIGABYTE


def _count_nics(use: WorkloadUse, price: Price) -> float | None:
    """Count NICs for storage: as many as the price says each node has, else as the cluster does."""
    num = use.num_storage_nics if price.per_node is None else price.per_node * use.num_nodes
    return None if num is None else float(num)


def _count_drives(use: WorkloadUse, price: Price) -> float | None:
    return None if price.per_node is None else float(price.per_node * use.num_nodes)


PRICE_UNITS: Mapping[Per, PriceUnit] = {
    "offer": PriceUnit("offer", lambda *_: 1.0),
    "terabyte": PriceUnit("TB of usable capacity", lambda use, _: use.usable_bytes / BYTES_PER_TERABYTE),
    "gigabyte-per-second": PriceUnit("GB/s of write bandwidth", _count_gigabytes_per_second),
    "node": PriceUnit("nodes of the cluster", lambda use, _: float(use.num_nodes), of_nodes=True),
    "gpu": PriceUnit("GPUs of the cluster", lambda use, _: float(use.num_gpus), of_nodes=True),
    "kilowatt-hour": PriceUnit("kWh of the storage's power", _count_kilowatt_hours, by_use=True),
    "million-requests": PriceUnit("million requests", _count_requests, is_flow=True, by_use=True),
    "million-writes": PriceUnit("million write requests", _count_writes, is_flow=True, by_use=True),
    "million-reads": PriceUnit("million read requests", _count_reads, is_flow=True, by_use=True),
    "terabyte-written": PriceUnit("TB written", _count_terabytes_written, is_flow=True, by_use=True),
    "terabyte-read": PriceUnit("TB read back", _count_terabytes_read, is_flow=True, by_use=True),
    "nic": PriceUnit("NICs of the nodes for storage", _count_nics, of_nodes=True),
    "nvme-drive": PriceUnit("NVMe drives of the nodes", _count_drives, of_nodes=True),
}
"""Units that prices may be per. Of stocks the workload that needs most decides; flows of all workloads add up."""


_OF_MAIN_STORAGE: tuple[Per, ...] = (BANDWIDTH, "kilowatt-hour")
"""Units that an offer states of its main storage alone."""


class Price(InputModel):
    """An amount of money for each of something, once or again in each period."""

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
        if self.tier and self.per in _OF_MAIN_STORAGE:
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
        """What the price counts."""
        return PRICE_UNITS[self.per]

    def times(self, horizon_seconds: float) -> float:
        """Count how often the horizon bears the amount: a share of a purchase, or the number of periods; 1 for use.

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


Name = Annotated[str, Field(min_length=1, max_length=60)]


class Offer(InputModel):
    """A storage system that may be bought or rented: its rates, its capacity and what it costs."""

    name: Name = Field(description="What the decision calls it; no two have the same.")
    storage: Storage = Field(description="Rates: a published system, own figures, or a calibration.")
    capacity_bytes: ByteCount | None = Field(
        None, description="Usable capacity that is offered, in bytes. Default: as much as is needed."
    )
    tiers: tuple[Tier, ...] | None = Field(
        None,
        description="Tiers that come with it, in place of checkpoint.tiers. Default: those of the workload's scenario.",
    )
    tiers_are_optional: bool = Field(
        False,
        description="Whether a workload may do without the tiers in front of the main storage where that costs less. "
        "Default: false, it has them.",
    )
    power_kilowatts: Annotated[float, Field(ge=0, le=1e6, allow_inf_nan=False)] | None = Field(
        None, description="Electric power that it draws, in kW. Default: unknown."
    )
    prices: tuple[Price, ...] = Field(
        (), description="What it costs. Default: unknown, so only its verdict and the lost GPU time are told."
    )
    ranges: Ranges = Field(
        default_factory=dict,
        description="Ranges of this offer's inputs by dotted path, where the decision has odds: of storage.profile, of "
        "reliability, or prices.0.amount. Default: none beside the intervals of its calibration.",
    )


_OFFERS, _PRICES, _RANGES = "offers", "prices", "ranges"


class RefusedOffer(StrictModel):
    """An offer that breaks rules."""

    name: str = Field(description="Offer as the request names it, or its number there, as offer 3.")
    problems: list[str] = Field(description="What is wrong with it, a sentence each; fields by their paths within it.")
    fields: list[str] = Field(
        description="Path in the request of the field of each problem; of fields of which one must go, of the first."
    )
    is_judged: bool = Field(description="Whether only its prices are wrong: it is then judged without them.")


class Split(NamedTuple):
    """A request's document without the offers or prices that break rules, and what is wrong with these."""

    document: dict[str, Any]
    refused: tuple[RefusedOffer, ...]


def split_refused(document: object, error: ValidationError) -> Split | None:
    """Split the offers that break rules from a document, or only their prices where these alone break rules.

    None where the error is about anything else too, or about all offers.
    """
    errors = [details for details in error.errors(include_url=False) if not follows_from_others(details)]
    if not isinstance(document, Mapping) or not all(
        details["loc"][:1] == (_OFFERS,) and len(details["loc"]) > 1 for details in errors
    ):
        return None
    by_place: dict[int, list[ErrorDetails]] = {}
    for details in errors:
        by_place.setdefault(int(details["loc"][1]), []).append(details)
    offers = document[_OFFERS]
    refused = {place: _explain_refusal(offers[place], place, by_place[place]) for place in by_place}
    kept = []
    for place, offer in enumerate(offers):
        if place not in refused:
            kept.append(offer)
        elif refused[place].is_judged:
            ranges = offer.get(_RANGES) or {}
            others = {path: given for path, given in ranges.items() if not path.startswith(f"{_PRICES}.")}
            kept.append({**offer, _PRICES: [], _RANGES: others})
    return Split({**document, _OFFERS: kept}, tuple(refused.values())) if kept else None


def _explain_refusal(offer: object, place: int, errors: list[ErrorDetails]) -> RefusedOffer:
    name = offer.get("name") if isinstance(offer, Mapping) else None
    problems = explain_details(errors, Offer, skip=2).problems
    return RefusedOffer(
        name=name if isinstance(name, str) and name else f"offer {place + 1}",
        problems=[problem.sentence for problem in problems],
        fields=[
            ".".join(filter(None, (_OFFERS, str(place), problem.field, found_in(problem.rule)))) for problem in problems
        ],
        is_judged=all(_PRICES in details["loc"][2:3] for details in errors),
    )
