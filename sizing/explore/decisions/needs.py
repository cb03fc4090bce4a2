"""What a workload needs of an offer to meet its targets, beside what is offered."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from sizing.explore.decisions.decision_report import Need
from sizing.explore.decisions.decision_request import DecisionRequest, Offer
from sizing.report import SizingReport
from sizing.run.requirements.asked import INTERVAL, READ_RATE, WRITE_RATE, Asked, interval_bounds
from sizing.scenario import Scenario
from sizing.sized import sized

_Array = npt.NDArray[np.float64]

CAPACITY = "capacity_bytes"
_WIDEST = 1e3
"""Times the rate offered, and as much less: what is needed beyond is no question of this offer."""
_NUM_RATES = 64
_NUM_INTERVALS = 96
"""Tried with each other, as arrays cost little more than numbers."""
_ROUNDS = 2
"""The second between two rates of the first: some 0.4 % is left."""


def needs_of(request: DecisionRequest, offer: Offer, scenario: Scenario, report: SizingReport) -> Iterator[Need]:
    """The rates of the file system and the capacity, for a workload with the settings proposed and their answer.

    Each rate is the min with which all targets are met at one interval, where that may be chosen, while the other rate
    is ample. A rate that is not offered, or that no target needs, is left out.
    """
    asked = Asked(sized(scenario).demands, scenario.run_inputs)
    for path, other in ((WRITE_RATE, READ_RATE), (READ_RATE, WRITE_RATE)):
        offered = asked.given(path)
        needed = None if offered is None else _min_rate(asked, path, other, offered, is_free=request.chooses_interval)
        if needed is not None:
            yield Need(field=path, offered=offered, needed=needed)
    yield Need(field=CAPACITY, offered=offer.capacity_bytes, needed=report.capacity.usable_bytes)


def _min_rate(asked: Asked, path: str, other: str, offered: float, *, is_free: bool) -> float | None:
    """None where no rate is enough, and where any is."""
    given = asked.given(other)
    ample = {} if given is None else {other: np.array([given * _WIDEST])}
    bounds = interval_bounds(asked)
    intervals = np.geomspace(*bounds, _NUM_INTERVALS) if is_free else _given_interval(asked)
    rates = offered * np.geomspace(1 / _WIDEST, _WIDEST, _NUM_RATES)
    for _ in range(_ROUNDS):
        first = int(np.argmax(met := _all_met(asked, path, rates, intervals, ample)))
        if not met[first] or first == 0:
            return None
        rates = np.geomspace(rates[first - 1], rates[first], _NUM_RATES)
    return float(rates[first])


def _given_interval(asked: Asked) -> _Array:
    return np.array([asked.inputs.checkpoint.interval_seconds], dtype=np.float64)


def _all_met(
    asked: Asked, path: str, rates: _Array, intervals: _Array, ample: dict[str, _Array]
) -> npt.NDArray[np.bool_]:
    """Of each rate whether some interval meets all targets that are known."""
    tried, every = (each.ravel() for each in np.meshgrid(rates, intervals, indexing="ij"))
    fixed = {name: np.broadcast_to(rate, tried.shape) for name, rate in ample.items()}
    missed = np.zeros(tried.shape)
    for check in asked.at({path: tried, INTERVAL: every, **fixed}).targets:
        if check.met is not None:
            missed += np.not_equal(np.asarray(check.met, dtype=np.float64), 1.0)
    found: npt.NDArray[np.bool_] = (missed == 0).reshape(len(rates), len(intervals)).any(axis=1)
    return found
