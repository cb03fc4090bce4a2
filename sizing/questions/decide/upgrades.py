"""Upgrades of an offer: the bandwidth that targets need, the bandwidth that costs least, and what else would save."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sizing.errors import InvalidInput
from sizing.field_paths import with_field
from sizing.questions.decide.ledger import bill_workload, make_cost_function
from sizing.questions.decide.offers import BANDWIDTH, PRICE_UNITS, Offer
from sizing.questions.decide.report import LOST, BandwidthCost, LedgerLine, Need, Worth
from sizing.questions.decide.request import DecisionRequest
from sizing.questions.decide.settings import TIERS, WorkloadAnswer, choose
from sizing.run.request import INTERVAL, READ_RATE, WRITE_RATE, RunRequest
from sizing.run.solver import all_targets, at_best_interval, known_targets, min_rates_below, solution_of_what_can_be_met
from sizing.scenario import Scenario
from sizing.storage.rates import DIRECTIONS, TERMS, document_name
from sizing.storage.storage import resolve_storage
from sizing.storage.transfer import Floats, Numbers, as_number
from sizing.units import BYTES_PER_GIGABYTE, rate_text

CAPACITY = "capacity_bytes"


def find_needed_rates(run: RunRequest, *, is_free: bool) -> Mapping[str, float]:
    """Find the min rates of storage that together meet all targets that are known, as `ckpt-size require` does.

    Every asynchronous save drains before the next one starts. Where no rates are enough at the run's interval, the
    best one is among the values if it `is_free`. Empty where no rates are enough, and where any are.
    """
    targets = known_targets(run)
    solution, beyond = solution_of_what_can_be_met(run, targets)
    if solution is None or beyond or (INTERVAL in solution.values and not is_free):
        return {}
    rates = solution.values
    if INTERVAL in rates:  # at which alone the pair may be another one, the one that `require` names there
        interval = {INTERVAL: rates[INTERVAL]}
        at_interval, _ = solution_of_what_can_be_met(run.with_values(interval), targets)
        if at_interval is not None and INTERVAL not in at_interval.values:
            rates = at_interval.values | interval
    for direction in DIRECTIONS:  # of which goodput may need the rates as offered, which a solution leaves out
        given = {path: rate for path in run.rate_paths(direction) if (rate := run.given(path)) is not None}
        if rates.keys().isdisjoint(given):
            alone = min_rates_below(run.with_values(rates), targets, direction, given)
            rates = rates | ({} if alone is None or alone.is_any else alone.values)
    return rates


def find_needs(offer: Offer, answer: WorkloadAnswer, rates: Mapping[str, float]) -> Iterator[Need]:
    """List the rates of `find_needed_rates` and the capacity, each beside what is offered."""
    for path, needed in rates.items():
        if path != INTERVAL:
            yield Need(field=path, offered=answer.run.given(path), needed=needed)
    yield Need(field=CAPACITY, offered=offer.capacity_bytes, needed=float(np.asarray(answer.bill.held_bytes)))


_WIDEST_CURVE = 64.0
"""Times the bandwidth offered, and as much less: nobody offers a system to be scaled further."""
_NUM_POINTS = 33
"""Points of the curve that is shown."""
_CURVE_ROUNDS = 4
"""Each narrows the place of the min to two of 32 sections: some 1e-4 of the bandwidth is left."""


@dataclass(frozen=True)
class BandwidthCurve:
    """The cost of an offer over its bandwidth, the lowest cost, and what 1 GB/s more saves of lost GPU time."""

    costs: list[BandwidthCost]
    cheapest: BandwidthCost | None
    further_bandwidth_saves: float | None


def trace_bandwidth_cost(
    request: DecisionRequest, offer: Offer, answers: Sequence[WorkloadAnswer], lines: Sequence[LedgerLine]
) -> BandwidthCurve:
    """Compute what other bandwidths that miss no target would cost, at the best interval of each where it is free.

    `lines` are the offer's ledger as it is; read and write rate change alike, and what others take stays.
    """
    rate = _find_write_rate(answers)
    hour = request.per_lost_gpu_hour
    if rate is None or not hour:
        return BandwidthCurve([], None, None)
    storage = resolve_storage(offer.storage)
    offered = storage.profile.write.file_system_bytes_per_second if storage else None
    taken = 0.0 if offered is None else float(offered) - rate
    unit = PRICE_UNITS[BANDWIDTH].words  # lines are told apart by it, as several may have one name
    price = sum(line.amount * line.times for line in lines if line.unit == unit)
    others = [line.cost for line in lines if line.kind != LOST and line.unit != unit]
    rest = None if None in others else sum(cost for cost in others if cost is not None)

    def price_lost_time(factors: Floats) -> tuple[Floats, npt.NDArray[np.bool_]]:
        losses = [_compute_loss(request, offer, answer, factors) for answer in answers]
        money: Floats = np.sum([loss.gpu_hours for loss in losses], axis=0) * hour
        return money, np.any([loss.is_target_missed for loss in losses], axis=0)

    (now, with_more), _ = price_lost_time(np.array([1.0, 1.0 + BYTES_PER_GIGABYTE / rate]))
    saves = float(now - with_more) if np.isfinite(now) and np.isfinite(with_more) else None
    if not price or rest is None:
        return BandwidthCurve([], None, saves)

    def compute_cost(factors: Floats) -> Floats:
        lost, is_missed = price_lost_time(factors)
        return np.where(is_missed, np.inf, rest + price * (factors * rate + taken) / BYTES_PER_GIGABYTE + lost)

    tried = np.geomspace(1 / _WIDEST_CURVE, _WIDEST_CURVE, _NUM_POINTS)
    costs = compute_cost(tried)
    if not np.any(np.isfinite(costs)):
        return BandwidthCurve([], None, saves)
    known = np.isfinite(costs)
    curve = [_point(*point) for point in zip((tried * rate + taken)[known], costs[known], strict=True)]
    for _ in range(_CURVE_ROUNDS):
        best = int(np.nanargmin(np.where(np.isfinite(costs), costs, np.nan)))
        tried = np.geomspace(tried[max(best - 1, 0)], tried[min(best + 1, _NUM_POINTS - 1)], _NUM_POINTS)
        costs = compute_cost(tried)
    best = int(np.nanargmin(costs))
    return BandwidthCurve(curve, _point(tried[best] * rate + taken, costs[best]), saves)


def _point(rate: float, cost: float) -> BandwidthCost:
    return BandwidthCost(write_bytes_per_second=float(rate), cost=float(cost))


def _find_write_rate(answers: Sequence[WorkloadAnswer]) -> float | None:
    """Find the write rate that is left to workloads; None where it is unknown, or no failures are known."""
    profiles = [answer.scenario.run_inputs.profile for answer in answers]
    rates = {as_number(profile.write.file_system_bytes_per_second) if profile else None for profile in profiles}
    has_failures = all(answer.scenario.reliability is not None for answer in answers)
    return min(rate for rate in rates if rate is not None) if None not in rates and rates and has_failures else None


class _Loss(NamedTuple):
    """GPU-hours that a workload loses at several rates, and whether it misses a target that is known at each."""

    gpu_hours: Floats
    is_target_missed: npt.NDArray[np.bool_]


def _compute_loss(request: DecisionRequest, offer: Offer, answer: WorkloadAnswer, factors: Floats) -> _Loss:
    """Compute what a workload loses with its read and write rate times each factor."""
    run = answer.run
    given = {path: run.given(path) for path in (WRITE_RATE, READ_RATE)}
    rates: dict[str, Numbers] = {path: rate * factors for path, rate in given.items() if rate is not None}
    figures = run.at(at_best_interval(run, rates, all_targets(run)) if request.chooses_interval else rates)
    bill = bill_workload(request, answer.workload, offer, run.workload, figures)
    hours = np.nan if bill.lost_gpu_hours is None else bill.lost_gpu_hours
    is_missed = np.zeros(factors.shape, dtype=bool)
    for check in figures.targets:
        is_missed |= np.equal(np.asarray(check.met, dtype=np.float64), 0.0)  # one that is not known is no number
    return _Loss(np.broadcast_to(np.asarray(hours, dtype=np.float64), factors.shape), is_missed)


_Document = dict[str, Any]

_FASTER = 2.0
"""Times the rates of reading: what twice the drives, links or servers give, and no page cache of a node."""
_NVME_BYTES_PER_SECOND = 5e9
"""Rate of a node, each way: below the 7.9 GB/s of the PCIe 4.0 x4 link of one drive. The row names it."""
_FIRST_INTERVAL_SECONDS = 300.0
"""Interval to begin the search with; intervals are chosen anew."""
_NVME = {
    "kind": "local-nvme",
    "interval_seconds": _FIRST_INTERVAL_SECONDS,
    "storage": {
        "profile": {
            "node_write_bytes_per_second": _NVME_BYTES_PER_SECOND,
            "node_read_bytes_per_second": _NVME_BYTES_PER_SECOND,
        }
    },
}


def value_additions(request: DecisionRequest, offer: Offer, answers: Sequence[WorkloadAnswer]) -> list[Worth]:
    """Compute what a faster restore, a tier in the nodes and a spare node would each save, before their price.

    Intervals are chosen anew where they may be. The idle GPUs of a spare node are subtracted. An addition without an
    answer for a workload is left out.
    """
    if not request.per_lost_gpu_hour or not answers:
        return []
    worths: list[Worth] = []
    for what, add in _ADDITIONS.items():
        saves = [_value_addition(request, offer, answer, add) for answer in answers]
        known = [each for each in saves if each is not None]
        if len(known) == len(saves):
            worths.append(Worth(what=what, saves=math.fsum(known)))
    return worths


def _value_addition(
    request: DecisionRequest, offer: Offer, answer: WorkloadAnswer, add: Callable[[Scenario], _Document | None]
) -> float | None:
    """Compute the money that an addition saves; None where the scenario with it has no answer."""
    changed = add(answer.scenario)
    if changed is None:
        return None

    costs = make_cost_function(request, answer.workload, offer, left_bytes=answer.bill.left_bytes)

    def at_best(document: Mapping[str, Any]) -> float:
        return choose(document, {}, costs=costs, is_free=request.chooses_interval).money

    try:
        saves = at_best(_write_document(answer.scenario)) - at_best(changed)
    except InvalidInput:
        return None
    return saves if math.isfinite(saves) else None


def _write_document(scenario: Scenario) -> _Document:
    document = scenario.model_dump(exclude_unset=True)
    tiers = [tier.model_dump(mode="json", exclude_unset=True) for tier in scenario.checkpoint.tiers]
    return with_field(document, TIERS, tiers) if tiers else document


def _double_read_rates(scenario: Scenario) -> _Document | None:
    profile = scenario.run_inputs.profile
    if profile is None:
        return None
    rates = profile.read.known("shared").items()
    faster = {document_name(name, "read"): _FASTER * rate for name, rate in rates if not TERMS[name].is_buffered}
    given = profile.model_dump(exclude_none=True)
    return with_field(_write_document(scenario), "storage", {"profile": given | faster}) if faster else None


def _add_nvme_tier(scenario: Scenario) -> _Document | None:
    document = _write_document(scenario)
    if scenario.checkpoint.front_tiers:
        return None
    return with_field(document, TIERS, [_NVME, *document.get("checkpoint", {}).get("tiers", ())])


def _add_spare_node(scenario: Scenario) -> _Document | None:
    """Add a node to the reserve; None where there is no reserve, for then another node is there at once."""
    reserve = scenario.reliability.reserve if scenario.reliability else None
    if reserve is None:
        return None
    more = reserve.model_copy(update={"num": reserve.num + 1})
    return with_field(_write_document(scenario), "reliability.spares", more.model_dump(exclude_unset=True))


_ADDITIONS: dict[str, Callable[[Scenario], _Document | None]] = {
    "reads at twice the rate": _double_read_rates,
    f"a local NVMe tier of {rate_text(_NVME_BYTES_PER_SECOND)} per node": _add_nvme_tier,
    "one more spare node": _add_spare_node,
}
