"""What draws of the inputs make of each offer: the equations of one answer, on arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from sizing.explore.decisions.decision_request import DecisionRequest
from sizing.explore.decisions.distributions import Array
from sizing.explore.decisions.ledger import Bill, bill_of, lines_of
from sizing.explore.decisions.standing import Settled, Standing
from sizing.explore.decisions.uncertain import Uncertain
from sizing.guesses.rows import with_numbers
from sizing.run.evaluation import RunReport, evaluate
from sizing.run.figures import with_arrays
from sizing.run.targets import TargetCheck
from sizing.sized import sized
from sizing.storage.transfer import Numbers

_CHUNK = 8192
"""Draws answered at once: arrays of 64 kB each, so that memory does not grow with the draws."""


@dataclass(frozen=True)
class Outcomes:
    """An offer in each draw; no number where something is not known.

    `met` and `is_enough` are 1 where they hold and 0 where they do not; `met` by workload and target, `goodput` by
    workload.
    """

    total: Array
    lost_gpu_hours: Array
    is_enough: Array
    met: Mapping[tuple[str, str], Array]
    goodput: Mapping[str, Array]


def outcomes_of(
    request: DecisionRequest, standings: Sequence[Standing], inputs: Sequence[Uncertain], probabilities: Array
) -> list[Outcomes]:
    """What each offer becomes, its settings as proposed, in every draw.

    Args: `probabilities` of shape (inputs, draws), each between 0 and 1.
    """
    num_draws = probabilities.shape[1]
    pieces = [probabilities[:, start : start + _CHUNK] for start in range(0, num_draws, _CHUNK)]
    return [_joined([_outcomes(request, standing, inputs, piece) for piece in pieces]) for standing in standings]


def _outcomes(
    request: DecisionRequest, standing: Standing, inputs: Sequence[Uncertain], probabilities: Array
) -> Outcomes:
    num_draws = probabilities.shape[1]
    money = _drawn(standing, None, inputs, probabilities)
    offer = with_arrays(standing.offer, {path: drawn for path, drawn in money.items() if path.startswith("prices.")})
    request = with_arrays(request, {path: drawn for path, drawn in money.items() if not path.startswith("prices.")})
    bills: list[Bill] = []
    met: dict[tuple[str, str], Array] = {}
    goodput: dict[str, Array] = {}
    is_enough = np.full(num_draws, 1.0 if standing.workloads else np.nan)
    for settled in standing.workloads:
        name, demands = settled.workload.name, sized(settled.scenario).demands
        drawn = _drawn(standing, settled, inputs, probabilities)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):  # as where a draw leaves no rate
            figures = evaluate(demands, with_numbers(settled.scenario.run_inputs, drawn)).report
            bills.append(bill_of(request, settled.workload, offer, demands, figures))
        met |= {(name, check.target): _met(check, num_draws) for check in figures.targets}
        goodput[name] = _array(figures.interval.goodput_at_interval_fraction, num_draws)
        is_enough = is_enough * _holds(standing, figures, num_draws)
    for each in met.values():
        is_enough = np.where((is_enough == 0) | (each == 0), 0.0, is_enough * each)
    costs = [line.cost for line in lines_of(request, offer, bills)] if bills else []
    lost = _sum([bill.lost_gpu_hours for bill in bills], num_draws)
    return Outcomes(_sum(costs, num_draws), lost, is_enough, met, goodput)


def _drawn(
    standing: Standing, settled: Settled | None, inputs: Sequence[Uncertain], probabilities: Array
) -> dict[str, Array]:
    """Fields with their draws; of one field those of the last input."""
    found: dict[str, Array] = {}
    for each, probability in zip(inputs, probabilities, strict=True):
        found |= each.values(standing.offer, settled, probability)
    return found


def _met(check: TargetCheck, num_draws: int) -> Array:
    return _array(None if check.found is None else check.met, num_draws)


def _holds(standing: Standing, figures: RunReport, num_draws: int) -> Array:
    """Whether the capacity offered holds what is kept."""
    capacity = standing.offer.capacity_bytes
    if capacity is None:
        return np.ones(num_draws)
    return _array(np.less_equal(figures.capacity.usable_bytes, capacity), num_draws)


def _sum(amounts: Sequence[Numbers | None], num_draws: int) -> Array:
    """In the order of the ledger, so that the sum is the same to the last digit; no number where one is unknown."""
    if not amounts:
        return np.full(num_draws, np.nan)
    return np.asarray(sum((_array(amount, num_draws) for amount in amounts), start=np.zeros(num_draws)))


def _array(value: object, num_draws: int) -> Array:
    known = np.asarray(np.nan if value is None else value, dtype=np.float64)
    return np.broadcast_to(known, num_draws)


def _joined(pieces: Sequence[Outcomes]) -> Outcomes:
    first = pieces[0]
    return Outcomes(
        np.concatenate([piece.total for piece in pieces]),
        np.concatenate([piece.lost_gpu_hours for piece in pieces]),
        np.concatenate([piece.is_enough for piece in pieces]),
        {key: np.concatenate([piece.met[key] for piece in pieces]) for key in first.met},
        {key: np.concatenate([piece.goodput[key] for piece in pieces]) for key in first.goodput},
    )
