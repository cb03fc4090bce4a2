"""What an offer would cost with more or less bandwidth at its own price: the curve, its min, the next GB/s."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sizing.explore.decisions.decision_report import BandwidthCost, LedgerLine
from sizing.explore.decisions.decision_request import DecisionRequest, Offer, Workload
from sizing.explore.decisions.ledger import LOST, bill_of
from sizing.explore.decisions.prices import BANDWIDTH, PRICE_UNITS
from sizing.run.requirements.asked import READ_RATE, WRITE_RATE, Asked
from sizing.run.requirements.joint import at_best_interval
from sizing.scenario import Scenario
from sizing.sized import sized
from sizing.storage.storage import resolve_storage
from sizing.storage.transfer import Numbers
from sizing.units import BYTES_PER_GIGABYTE

_Array = npt.NDArray[np.float64]

_WIDEST = 64.0
"""Times the bandwidth offered, and as much less: nobody offers a system to be scaled further."""
_NUM_POINTS = 33
"""Of the curve that is shown."""
_ROUNDS = 4
"""Each narrows the place of the min to two of 32 sections: some 1e-4 of the bandwidth is left."""


@dataclass(frozen=True)
class Break:
    """The curve, its lowest point, and what 1 GB/s more saves of lost GPU time."""

    costs: list[BandwidthCost]
    cheapest: BandwidthCost | None
    further_bandwidth_saves: float | None


UNKNOWN = Break([], None, None)


def break_even(
    request: DecisionRequest,
    offer: Offer,
    workloads: Sequence[tuple[Workload, Scenario]],
    lines: Sequence[LedgerLine],
) -> Break:
    """What other bandwidths would cost, at the best interval of each where it may be chosen.

    `lines` are the offer's ledger as it is; read and write rate change alike, and what others take stays.
    """
    rate = _rate(workloads)
    hour = request.per_lost_gpu_hour
    if rate is None or not hour:
        return UNKNOWN
    taken = _offered(offer, rate) - rate
    of_rate = {line.name: line for line in lines if line.unit == PRICE_UNITS[BANDWIDTH].words}
    price = sum(line.amount * line.times for line in of_rate.values())
    others = [line.cost for line in lines if line.name not in {LOST, *of_rate}]
    rest = None if None in others else sum(cost for cost in others if cost is not None)

    def lost(factors: _Array) -> _Array:
        found = [_lost_gpu_hours(request, offer, workload, scenario, factors) for workload, scenario in workloads]
        total: _Array = np.sum(found, axis=0) * hour
        return total

    more = lost(np.array([1.0, 1.0 + BYTES_PER_GIGABYTE / rate]))
    saves = float(more[0] - more[1]) if np.all(np.isfinite(more)) else None
    if not price or rest is None:
        return Break([], None, saves)

    def cost(factors: _Array) -> _Array:
        return rest + price * (factors * rate + taken) / BYTES_PER_GIGABYTE + lost(factors)

    tried = np.geomspace(1 / _WIDEST, _WIDEST, _NUM_POINTS)
    costs = cost(tried)
    if not np.any(np.isfinite(costs)):
        return Break([], None, saves)
    known = np.isfinite(costs)
    curve = [_point(*point) for point in zip((tried * rate + taken)[known], costs[known], strict=True)]
    for _ in range(_ROUNDS):
        best = int(np.nanargmin(np.where(np.isfinite(costs), costs, np.nan)))
        tried = np.geomspace(tried[max(best - 1, 0)], tried[min(best + 1, _NUM_POINTS - 1)], _NUM_POINTS)
        costs = cost(tried)
    best = int(np.nanargmin(costs))
    return Break(curve, _point(tried[best] * rate + taken, costs[best]), saves)


def _point(rate: float, cost: float) -> BandwidthCost:
    return BandwidthCost(write_bytes_per_second=float(rate), cost=float(cost))


def _offered(offer: Offer, rate: float) -> float:
    """The write rate that is bought, of which others may take a part."""
    storage = resolve_storage(offer.storage)
    offered = storage.profile.write_bytes_per_second if storage else None
    return rate if offered is None else float(offered)


def _rate(workloads: Sequence[tuple[Workload, Scenario]]) -> float | None:
    """The write rate that workloads have; None where it is unknown, or no failures are, for then nothing is lost."""
    profiles = [scenario.run_inputs.profile for _, scenario in workloads]
    rates = {profile.write_bytes_per_second if profile else None for profile in profiles}
    has_failures = all(scenario.reliability is not None for _, scenario in workloads)
    return min(rate for rate in rates if rate is not None) if None not in rates and rates and has_failures else None


def _lost_gpu_hours(
    request: DecisionRequest, offer: Offer, workload: Workload, scenario: Scenario, factors: _Array
) -> _Array:
    asked = Asked(sized(scenario).demands, scenario.run_inputs)
    given = {path: asked.given(path) for path in (WRITE_RATE, READ_RATE)}
    rates: dict[str, Numbers] = {path: rate * factors for path, rate in given.items() if rate is not None}
    figures = at_best_interval(asked, rates)[1] if request.chooses_interval else asked.at(rates)
    bill = bill_of(request, workload, offer, asked.demands, figures)
    hours = np.nan if bill.lost_gpu_hours is None else bill.lost_gpu_hours
    return np.broadcast_to(np.asarray(hours, dtype=np.float64), factors.shape)
