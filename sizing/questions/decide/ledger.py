"""The ledger of an offer: every price times what it counts over the horizon, and the GPU time that is lost."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from sizing.cluster.cluster import num_storage_nics
from sizing.questions.decide.offers import Flow, Offer, Price, WorkloadUse
from sizing.questions.decide.report import LOST, UNPRICED, CostKind, LedgerLine
from sizing.questions.decide.request import DecisionRequest, GrowthYear, Workload
from sizing.run.checkpoint import MAIN
from sizing.run.costs import lost_gpu_hours
from sizing.run.evaluation import RunReport
from sizing.run.tier_rows import TierRow
from sizing.run.workload import CheckpointWorkload
from sizing.storage.storage import resolve_storage
from sizing.storage.transfer import Numbers, as_number
from sizing.units import SECONDS_PER_DAY


@dataclass(frozen=True)
class Bill:
    """Bill of one workload under an offer: what prices count, the GPU-hours that it loses, and its tiers.

    `year` is the part of the horizon in which the workload's cluster stands. `left_bytes` are the weights that earlier
    workloads keep for good, `held_bytes` the capacity with these, and `kept_bytes` what this workload adds to them.
    """

    counted: WorkloadUse
    of_tiers: Mapping[str, WorkloadUse]
    lost_gpu_hours: Numbers | None
    tier_costs: tuple[tuple[str, Numbers], ...]
    year: GrowthYear
    left_bytes: Numbers
    held_bytes: Numbers
    kept_bytes: Numbers

    @property
    def lost_hours(self) -> float | None:
        """GPU-hours that are lost, of figures that are no arrays."""
        return None if self.lost_gpu_hours is None else float(np.asarray(self.lost_gpu_hours))

    def quantity(self, price: Price) -> Numbers | None:
        """Count what a price is per, in its tier where it has one; None where that is not known."""
        counted = self.of_tiers.get(price.tier) if price.tier else self.counted
        return 0.0 if counted is None else price.unit.count(counted, price)

    def cost(self, request: DecisionRequest, offer: Offer) -> Numbers:
        """Compute what this workload alone would cost under the offer; infinite where a part is unknown."""
        costs: list[Numbers | None] = []
        for price in offer.prices:
            quantity, amount = self.quantity(price), price.amount * price.times(request.horizon_seconds)
            costs.append(None if quantity is None else np.multiply(quantity, amount))
        costs += [cost for _, cost in self.tier_costs]
        if request.per_lost_gpu_hour is not None:
            hours = self.lost_gpu_hours
            costs.append(None if hours is None else np.multiply(hours, request.per_lost_gpu_hour))
        known = [cost for cost in costs if cost is not None]
        return sum(known, start=0.0) if len(known) == len(costs) else np.inf


class SettingCosts(NamedTuple):
    """Costs by which settings of a workload are judged: money, infinite where a part is unknown, and lost GPU-hours.

    Where lost GPU time has no price, a run that never saves would cost least: then lost GPU-hours come first.
    `is_too_large` where more is kept than the offer holds.
    """

    money: Numbers
    lost_gpu_hours: Numbers | None
    is_time_priced: bool
    is_too_large: Numbers


CostsOf = Callable[[CheckpointWorkload, RunReport], SettingCosts]
"""Computes the costs of a workload under an offer from its figures."""


def make_cost_function(request: DecisionRequest, workload: Workload, offer: Offer, *, left_bytes: Numbers) -> CostsOf:
    """Make the function that prices settings of a workload under an offer, where earlier ones left bytes for good.

    Of a growth, later years get room for as many weights a day as this one keeps.
    """
    year = workload.year

    def costs(checkpoint_workload: CheckpointWorkload, figures: RunReport) -> SettingCosts:
        bill = bill_workload(request, workload, offer, checkpoint_workload, figures, left_bytes=left_bytes)
        of_later_years = np.multiply(bill.kept_bytes, year.later_fraction / year.fraction)
        room = np.inf if offer.capacity_bytes is None else offer.capacity_bytes
        return SettingCosts(
            bill.cost(request, offer),
            bill.lost_gpu_hours,
            request.per_lost_gpu_hour is not None,
            np.greater(np.add(bill.held_bytes, of_later_years), room),
        )

    return costs


def bill_workload(
    request: DecisionRequest,
    workload: Workload,
    offer: Offer,
    checkpoint_workload: CheckpointWorkload,
    figures: RunReport,
    *,
    left_bytes: Numbers = 0.0,
) -> Bill:
    """Count the use that a workload makes of an offer, as prices count it; arrays where the figures are arrays.

    Capacity, of workloads one after the other: H_n = U_n + sum over m < n of W_m, usable bytes U of a workload, and
    W those among them of the weights that stay for good. Source: definition. A run deletes its older checkpoints,
    exports and publications, so that these count for one workload at a time.
    """
    capacity = figures.capacity
    held_bytes = np.add(capacity.usable_bytes, left_bytes)
    kept_bytes = np.multiply(capacity.kept_weights_bytes, np.divide(capacity.usable_bytes, capacity.capacity_bytes))
    storage = resolve_storage(offer.storage)
    interval, seconds = figures.interval, workload.share_fraction * request.horizon_seconds
    effective = interval.effective_interval_seconds
    every = interval.interval_seconds if effective is None else effective
    goodput, recovery = interval.goodput_at_interval_fraction, figures.recovery
    saves = recovery.saves_per_day / SECONDS_PER_DAY if recovery else np.divide(1.0, every)
    restores = recovery.restores_per_day / SECONDS_PER_DAY if recovery else None
    writes = [Flow(saves, float(checkpoint_workload.written_bytes), int(checkpoint_workload.write.num_files))]
    restoring = [
        Flow(restores, float(step.total_bytes), max(int(step.num_files), int(step.num_streams)))
        for step in checkpoint_workload.restores[figures.restore.strategy].steps
    ]  # every rank opens the files that it reads, at least one
    reads = list(restoring)
    if (export := figures.export) is not None:
        exports = np.divide(saves, export.every)
        writes.append(Flow(exports, export.written_bytes, export.written_files))
        reads.append(Flow(exports, export.read_bytes, export.read_files))
    if (published := checkpoint_workload.publications) is not None:
        per_second = np.divide(1.0, published.interval_seconds)
        writes.append(Flow(per_second, published.written_bytes, published.written_files))
        reads.append(Flow(per_second, published.read_bytes, published.read_files))
    counted = WorkloadUse(
        horizon_seconds=request.horizon_seconds,
        share_seconds=seconds,
        usable_bytes=held_bytes if offer.capacity_bytes is None else float(offer.capacity_bytes),
        write_bytes_per_second=as_number(storage.profile.write.file_system_bytes_per_second) if storage else None,
        num_nodes=checkpoint_workload.num_nodes,
        num_gpus=checkpoint_workload.num_gpus,
        num_storage_nics=num_storage_nics(workload.scenario.cluster, checkpoint_workload.num_nodes),
        power_kilowatts=offer.power_kilowatts,
        writes=tuple(writes),
        reads=tuple(reads),
    )
    spare = recovery.num_spare_gpus if recovery else 0
    lost = (
        None
        if goodput is None or interval.leaves_out_restore  # less would be lost than there is
        else lost_gpu_hours(goodput, num_gpus=checkpoint_workload.num_gpus, run_seconds=seconds, num_spare_gpus=spare)
    )
    tiers = tuple((row.kind, row.cost) for row in figures.tiers if row.cost is not None)
    of_tiers: dict[str, WorkloadUse] = {
        row.kind: _count_tier(row, counted, restoring, fails=recovery is not None)
        for row in figures.tiers
        if row.kind != MAIN
    }
    return Bill(counted, of_tiers, lost, tiers, workload.year, left_bytes, held_bytes, kept_bytes)


def _count_tier(row: TierRow, main: WorkloadUse, restoring: Sequence[Flow], *, fails: bool) -> WorkloadUse:
    """Count the bytes that a tier holds and moves: copies at its own interval, read after the failures that need it."""
    interval_seconds, save = row.effective_interval_seconds, main.writes[0]
    saves = np.divide(1.0, interval_seconds) if row.saves_per_day is None else row.saves_per_day / SECONDS_PER_DAY
    restores = 0.0 if row.restores_per_day is None else row.restores_per_day / SECONDS_PER_DAY
    return dataclasses.replace(
        main,
        usable_bytes=row.stored_bytes,
        writes=(Flow(saves, np.multiply(row.mean_bytes_per_second, interval_seconds), save.num_files * row.replicas),),
        reads=tuple(step._replace(per_second=restores if fails else None) for step in restoring),
    )


class Line(NamedTuple):
    """Line of a ledger; the quantity, and the amount where it is drawn, may be arrays."""

    name: str
    kind: CostKind
    quantity: Numbers | None
    unit: str
    amount: Numbers
    times: float

    @property
    def cost(self) -> Numbers | None:
        """Quantity x amount x times."""
        return None if self.quantity is None else self.quantity * self.amount * self.times


def list_lines(request: DecisionRequest, offer: Offer, bills: Sequence[Bill]) -> Iterator[Line]:
    """List a line for each price, each priced tier, and the lost GPU time of all workloads.

    Of a stock, as capacity, the workload that needs most decides, with the weights that earlier ones keep. Flows, as
    requests, add up. What is paid in each period for nodes and their parts is paid in each year of a growth for those
    that stand then, as their mean.
    """
    refused = {each.name for each in request.refused_offers}
    if not offer.prices and (offer.name in refused or any(other.prices for other in request.offers)):
        yield Line(UNPRICED, UNPRICED, None, "not given", 0.0, 1.0)  # beside offers with a price it would cost nothing
    for price in offer.prices:
        quantity = _count_over_years(price, bills)
        times = price.times(request.horizon_seconds)
        kind: CostKind = "capital" if price.every == "once" else "operation"
        yield Line(price.name or price.per, kind, quantity, price.unit.words, price.amount, times)
    for name in dict.fromkeys(name for bill in bills for name, _ in bill.tier_costs):
        cost = _combine([cost for bill in bills for kind, cost in bill.tier_costs if kind == name], is_flow=False)
        yield Line(f"tier {name}", "capital", cost, "by its own price per TB", 1.0, 1.0)
    if request.per_lost_gpu_hour is not None:
        lost = _combine([bill.lost_gpu_hours for bill in bills], is_flow=True)
        yield Line(LOST, LOST, lost, "GPU-hours", request.per_lost_gpu_hour, 1.0)


def report_ledger(request: DecisionRequest, offer: Offer, bills: Sequence[Bill]) -> Iterator[LedgerLine]:
    """Report the lines of the ledger, of figures that are no arrays."""
    for name, kind, quantity, unit, amount, times in list_lines(request, offer, bills):
        number = None if quantity is None else float(np.asarray(quantity))
        cost = None if number is None else number * amount * times
        yield LedgerLine(name=name, kind=kind, quantity=number, unit=unit, amount=amount, times=times, cost=cost)


def _count_over_years(price: Price, bills: Sequence[Bill]) -> Numbers | None:
    """Count what a price is per: of what is paid again for nodes the mean over years, of the rest all years at once."""
    if not price.unit.of_nodes or price.every == "once":
        return _combine([bill.quantity(price) for bill in bills], is_flow=price.unit.is_flow)
    years = dict.fromkeys(bill.year for bill in bills)
    each = [_combine([bill.quantity(price) for bill in bills if bill.year == year], is_flow=False) for year in years]
    return _combine(
        [
            None if number is None else np.multiply(number, year.fraction)
            for number, year in zip(each, years, strict=True)
        ],
        is_flow=True,
    )


def _combine(quantities: Sequence[Numbers | None], *, is_flow: bool) -> Numbers | None:
    """Add flows, or take the max of stocks; None where one is unknown."""
    known = [quantity for quantity in quantities if quantity is not None]
    if not known or len(known) < len(quantities):
        return None
    return sum(known, start=0.0) if is_flow else functools.reduce(np.maximum, known)


def add_known(amounts: Iterable[float | None]) -> float | None:
    """Add amounts; None where one is unknown, or there is none.

    Source: definition.

    >>> add_known([2.0, 3.5]), add_known([2.0, None]), add_known([])
    (5.5, None, None)
    """
    amounts = list(amounts)
    known = [amount for amount in amounts if amount is not None]
    return sum(known) if known and len(known) == len(amounts) else None
