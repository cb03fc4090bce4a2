"""The ledger of an offer: every price times what it counts over the horizon, and the GPU time that is lost."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from sizing.cluster.cluster import num_storage_nics
from sizing.explore.decisions.decision_report import LedgerLine
from sizing.explore.decisions.decision_request import DecisionRequest, Offer, Workload
from sizing.explore.decisions.prices import Counted, Price
from sizing.run.costs import lost_gpu_hours
from sizing.run.demands.demands import Demands
from sizing.run.evaluation import RunReport
from sizing.run.tiers.rows import TierRow
from sizing.storage.storage import resolve_storage
from sizing.storage.transfer import Numbers

LOST = "lost GPU time"
UNPRICED = "prices of the storage"
_MAIN = "storage"
"""The kind of the row of the main storage among the tiers."""


@dataclass(frozen=True)
class Bill:
    """What one workload counts under an offer, and what else it costs: the GPU-hours that it loses, its tiers."""

    counted: Counted
    of_tiers: Mapping[str, Counted]
    lost_gpu_hours: Numbers | None
    tier_costs: tuple[tuple[str, Numbers], ...]

    @property
    def lost_hours(self) -> float | None:
        """GPU-hours that are lost, of figures that are no arrays."""
        return None if self.lost_gpu_hours is None else float(np.asarray(self.lost_gpu_hours))

    def quantity(self, price: Price) -> Numbers | None:
        """What a price counts, of its tier where it has one; None where that is not known."""
        counted = self.counted if price.tier is None else self.of_tiers.get(price.tier)
        return 0.0 if counted is None else price.unit.count(counted, price)

    def cost(self, request: DecisionRequest, offer: Offer) -> Numbers:
        """What this workload alone would cost under the offer; infinite where a part is unknown."""
        costs = [_times(self.quantity(price), price, request) for price in offer.prices]
        costs += [cost for _, cost in self.tier_costs]
        if request.per_lost_gpu_hour is not None:
            hours = self.lost_gpu_hours
            costs.append(None if hours is None else np.multiply(hours, request.per_lost_gpu_hour))
        known = [cost for cost in costs if cost is not None]
        return sum(known, start=0.0) if len(known) == len(costs) else np.inf


class Costs(NamedTuple):
    """What settings of a workload are judged by: money, infinite where a part is unknown, and what is lost.

    Where lost GPU time has no price, money would have a run that never saves: then what is lost comes first.
    """

    money: Numbers
    lost_gpu_hours: Numbers | None
    is_time_priced: bool


CostsOf = Callable[[Demands, RunReport], Costs]
"""The costs of a workload under an offer, of some figures."""


def costs_of(request: DecisionRequest, workload: Workload, offer: Offer) -> CostsOf:
    """By which the settings of a workload under an offer are chosen."""

    def costs(demands: Demands, figures: RunReport) -> Costs:
        bill = bill_of(request, workload, offer, demands, figures)
        return Costs(bill.cost(request, offer), bill.lost_gpu_hours, request.per_lost_gpu_hour is not None)

    return costs


def bill_of(request: DecisionRequest, workload: Workload, offer: Offer, demands: Demands, figures: RunReport) -> Bill:
    """What a workload asks of an offer, as prices count it; arrays where the figures are arrays."""
    storage = resolve_storage(offer.storage)
    interval, seconds = figures.interval, workload.share_fraction * request.horizon_seconds
    effective = interval.effective_interval_seconds
    every = interval.interval_seconds if effective is None else effective
    mtbf, goodput = interval.mtbf_seconds, interval.goodput_at_interval_fraction
    counted = Counted(
        horizon_seconds=request.horizon_seconds,
        share_seconds=seconds,
        usable_bytes=figures.capacity.usable_bytes if offer.capacity_bytes is None else float(offer.capacity_bytes),
        write_bytes_per_second=storage.profile.write_bytes_per_second if storage else None,
        num_nodes=demands.num_nodes,
        num_gpus=demands.num_gpus,
        num_storage_nics=num_storage_nics(workload.scenario.cluster, demands.num_nodes),
        power_kilowatts=offer.power_kilowatts,
        saves_per_second=np.divide(1.0, every),
        written_bytes_per_save=float(demands.written_bytes),
        files_per_save=int(demands.write.num_files),
        restores_per_second=None if mtbf is None else np.divide(_used_fraction(figures), mtbf),
        read_bytes_per_restore=float(figures.restore.read_bytes),
        files_per_restore=int(demands.write.num_files),
    )
    spare = figures.recovery.num_spare_gpus if figures.recovery else 0
    lost = (
        None
        if goodput is None or interval.leaves_out_restore  # less would be lost than there is
        else lost_gpu_hours(goodput, num_gpus=demands.num_gpus, run_seconds=seconds, num_spare_gpus=spare)
    )
    tiers = tuple((row.kind, row.cost) for row in figures.tiers if row.cost is not None)
    of_tiers: dict[str, Counted] = {
        row.kind: _of_tier(row, counted, mtbf) for row in figures.tiers if row.kind != _MAIN
    }
    return Bill(counted, of_tiers, lost, tiers)


def _used_fraction(figures: RunReport) -> Numbers:
    """Share of the failures after which the main storage is read: all where no tier stands in front."""
    main = next((row for row in figures.tiers if row.kind == _MAIN), None)
    return 1.0 if main is None or main.used_fraction is None else main.used_fraction


def _of_tier(row: TierRow, main: Counted, mtbf: Numbers | None) -> Counted:
    """What a tier holds and moves: its copies at its own interval, read after the failures that need it."""
    every = row.effective_interval_seconds
    used = 0.0 if row.used_fraction is None else row.used_fraction
    return dataclasses.replace(
        main,
        usable_bytes=row.stored_bytes,
        saves_per_second=np.divide(1.0, every),
        written_bytes_per_save=np.multiply(row.mean_bytes_per_second, every),
        files_per_save=main.files_per_save * row.replicas,
        restores_per_second=None if mtbf is None else np.divide(used, mtbf),
    )


def _times(quantity: Numbers | None, price: Price, request: DecisionRequest) -> Numbers | None:
    return None if quantity is None else np.multiply(quantity, price.amount * price.times(request.horizon_seconds))


class Line(NamedTuple):
    """What stands in a ledger's line; the quantity, and the amount where it is drawn, may be arrays."""

    name: str
    quantity: Numbers | None
    unit: str
    amount: Numbers
    times: float

    @property
    def cost(self) -> Numbers | None:
        """Quantity x amount x times."""
        return None if self.quantity is None else self.quantity * self.amount * self.times


def lines_of(request: DecisionRequest, offer: Offer, bills: Sequence[Bill]) -> Iterator[Line]:
    """A line for each price, each priced tier, and the lost GPU time of all workloads.

    Of what stands there, as capacity, the workload that needs most decides; what flows, as requests, adds up.
    """
    refused = {each.name for each in request.refused_offers}
    if not offer.prices and (offer.name in refused or any(other.prices for other in request.offers)):
        yield Line(UNPRICED, None, "not given", 0.0, 1.0)  # beside offers with a price it would cost nothing
    for price in offer.prices:
        quantity = _together([bill.quantity(price) for bill in bills], is_flow=price.unit.is_flow)
        times = price.times(request.horizon_seconds)
        yield Line(price.name or price.per, quantity, price.unit.words, price.amount, times)
    for name in dict.fromkeys(name for bill in bills for name, _ in bill.tier_costs):
        cost = _together([cost for bill in bills for kind, cost in bill.tier_costs if kind == name], is_flow=False)
        yield Line(f"tier {name}", cost, "by its own price per TB", 1.0, 1.0)
    if request.per_lost_gpu_hour is not None:
        lost = _together([bill.lost_gpu_hours for bill in bills], is_flow=True)
        yield Line(LOST, lost, "GPU-hours", request.per_lost_gpu_hour, 1.0)


def ledger(request: DecisionRequest, offer: Offer, bills: Sequence[Bill]) -> Iterator[LedgerLine]:
    """The same lines of figures that are no arrays, as they are reported."""
    for name, quantity, unit, amount, times in lines_of(request, offer, bills):
        number = None if quantity is None else float(np.asarray(quantity))
        cost = None if number is None else number * amount * times
        yield LedgerLine(name=name, quantity=number, unit=unit, amount=amount, times=times, cost=cost)


def _together(quantities: Sequence[Numbers | None], *, is_flow: bool) -> Numbers | None:
    """The sum of flows, else the max of stocks; None where one is unknown."""
    known = [quantity for quantity in quantities if quantity is not None]
    if not known or len(known) < len(quantities):
        return None
    return sum(known, start=0.0) if is_flow else functools.reduce(np.maximum, known)


def total(amounts: Iterable[float | None]) -> float | None:
    """The sum of amounts; None where one is unknown, or there is none.

    Source: definition.

    >>> total([2.0, 3.5]), total([2.0, None]), total([])
    (5.5, None, None)
    """
    found = list(amounts)
    known = [amount for amount in found if amount is not None]
    return sum(known) if known and len(known) == len(found) else None
