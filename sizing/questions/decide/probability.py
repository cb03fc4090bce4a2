"""How sure a decision is: probability of each verdict, spread of costs, and the input to measure next."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from sizing.errors import InvalidInput
from sizing.guesses.rows import with_numbers
from sizing.questions.decide.ledger import Bill, bill_workload, list_lines
from sizing.questions.decide.ranges import Array
from sizing.questions.decide.report import DrawnInput, GoodputOdds, Odds, OfferOdds, Spread, TargetOdds
from sizing.questions.decide.request import DecisionRequest
from sizing.questions.decide.settings import OfferAnswer, WorkloadAnswer
from sizing.questions.decide.uncertain_inputs import Ranged, Uncertain, find_uncertain_inputs
from sizing.run.evaluation import evaluate
from sizing.run.figures import with_arrays
from sizing.sized_layout import size_layout
from sizing.storage.transfer import Numbers
from sizing.units import figure_text

_QUANTILES = (0.05, 0.5, 0.95)
"""The ends that leave as much out as intervals of calibrations do, and the middle."""


def estimate_probabilities(request: DecisionRequest, answers: Sequence[OfferAnswer]) -> Odds | None:
    """Estimate how sure the verdict on each offer is, the best first; None where the request does not ask for it.

    Settings stay as proposed. Raises InvalidInput where nothing is drawn, or a range is of no input.
    """
    odds = request.odds
    if odds is None:
        return None
    inputs = find_uncertain_inputs(request, answers)
    if not inputs:
        raise InvalidInput.of(
            "odds",
            "must have something that is not certain",
            value=None,
            remedy="give ranges here or in an offer, or guesses: true",
        )
    probabilities = np.random.default_rng(odds.seed).random((len(inputs), odds.num_draws))
    outcomes = compute_outcomes(request, answers, inputs, probabilities)
    figure_words, rows = _attribute_variance(request, answers, inputs, outcomes)
    by_share = sorted(rows, key=lambda row: -(row.total_fraction or 0.0))
    return Odds(
        num_draws=odds.num_draws,
        seed=odds.seed,
        offers=_report_offers(answers, outcomes),
        variance_of=figure_words,
        inputs=by_share,
        measure_next=by_share[0] if by_share[0].total_fraction else None,
        warnings=list(_warn_of_ranges(answers, inputs)),
    )


def _report_offers(answers: Sequence[OfferAnswer], outcomes: Sequence[Outcomes]) -> list[OfferOdds]:
    totals, lost = (np.array([getattr(each, name) for each in outcomes]) for name in ("total", "lost_gpu_hours"))
    enough = np.array([each.is_enough == 1 for each in outcomes])
    is_priced = ~np.all(np.isnan(totals))
    cheapest = _find_least(totals)
    best = _find_least(np.where(enough, totals if is_priced else lost, np.nan))
    return [
        OfferOdds(
            name=answer.offer.name,
            enough_probability=_average(each.is_enough),
            cheapest_probability=None if np.all(np.isnan(each.total)) else float(np.mean(cheapest == place)),
            best_probability=float(np.mean(best == place)) if answer.workloads else None,
            total=_measure_spread(each.total),
            targets=[
                TargetOdds(workload=workload, target=target, met_probability=_average(met))
                for (workload, target), met in each.met.items()
            ],
            goodputs=[
                GoodputOdds(workload=workload, goodput_fraction=_measure_spread(goodput))
                for workload, goodput in each.goodput.items()
            ],
        )
        for place, (answer, each) in enumerate(zip(answers, outcomes, strict=True))
    ]


def _find_least(amounts: Array) -> Array:
    """Find the index of the least amount in each draw, of equals the first; -1 where no amount is known."""
    known = np.nan_to_num(amounts, nan=np.inf)
    return np.where(np.isfinite(known.min(axis=0)), known.argmin(axis=0), -1)


def _average(holds: Array) -> float | None:
    """Average 1 and 0 over all draws to a probability; None where one of them is not known."""
    return None if np.any(np.isnan(holds)) else float(np.mean(holds))


def _measure_spread(figures: Array) -> Spread | None:
    """Measure the quantiles of a figure; None where it is not known in every draw."""
    if not np.all(np.isfinite(figures)):
        return None
    low, middle, high = np.quantile(figures, _QUANTILES)
    return Spread(p5=float(low), p50=float(middle), p95=float(high))


def _attribute_variance(
    request: DecisionRequest,
    answers: Sequence[OfferAnswer],
    inputs: Sequence[Uncertain],
    outcomes: Sequence[Outcomes],
) -> tuple[str, list[DrawnInput]]:
    """Attribute the variance of the figure that decides to the inputs; return that figure in words, and the inputs."""
    priced = [answer for answer, each in zip(answers, outcomes, strict=True) if np.all(np.isfinite(each.total))]
    compared = priced[:2] or [answer for answer in answers if answer.workloads][:1]
    name = "total" if priced else "lost_gpu_hours"

    def figure(probabilities: Array) -> Array:
        drawn = [getattr(each, name) for each in compute_outcomes(request, compared, inputs, probabilities)]
        difference: Array = drawn[-1] - drawn[0] if len(drawn) > 1 else drawn[0]
        return difference

    rows = [each.drawn for each in inputs]
    if not compared:
        return "nothing that is known", rows
    shares = variance_shares(figure, len(inputs), seed=request.odds.seed if request.odds else 0)
    return _name_figure(compared, is_priced=bool(priced)), [
        row.model_copy(update={"first_order_fraction": _known(first), "total_fraction": _known(total)})
        for row, first, total in zip(rows, shares.first_order, shares.total, strict=True)
    ]


def _name_figure(compared: Sequence[OfferAnswer], *, is_priced: bool) -> str:
    first, *others = [answer.offer.name for answer in compared]
    if not is_priced:
        return f"lost GPU time with {first}"
    return f"what {others[0]} costs more than {first}" if others else f"cost of {first}"


def _known(share: float) -> float | None:
    return float(share) if np.isfinite(share) else None


def _warn_of_ranges(answers: Sequence[OfferAnswer], inputs: Sequence[Uncertain]) -> Iterator[str]:
    """Warn of ranges that leave out the number with which the decision was made: its settings are best for that one."""
    for each in inputs:
        if not isinstance(each, Ranged) or each.ends.is_money:
            continue
        path, ends = each.ends.field, np.array([each.ends.low, each.ends.high])
        for answer in answers:
            for workload_answer in answer.workloads if each.offer in (None, answer.offer.name) else ():
                number, (low, high) = workload_answer.number(path), workload_answer.less_background_load(path, ends)
                if number is not None and not low <= number <= high:
                    yield (
                        f"{path} of {workload_answer.workload.name} under {answer.offer.name} is "
                        f"{figure_text(path, number)}, outside of its range: settings are chosen for what it is"
                    )


_CHUNK = 8192
"""Draws answered at once: arrays of 64 kB each, so that memory does not grow with the draws."""


@dataclass(frozen=True)
class Outcomes:
    """Outcomes of an offer, with one element for each draw; no number where something is not known.

    `met` and `is_enough` are 1 where they hold, else 0. `met` is by workload and target, `goodput` by workload.
    """

    total: Array
    lost_gpu_hours: Array
    is_enough: Array
    met: Mapping[tuple[str, str], Array]
    goodput: Mapping[str, Array]


def compute_outcomes(
    request: DecisionRequest, answers: Sequence[OfferAnswer], inputs: Sequence[Uncertain], probabilities: Array
) -> list[Outcomes]:
    """Compute the outcomes of each offer in every draw, its settings as proposed.

    Args: `probabilities` of shape (inputs, draws), each between 0 and 1.
    """
    num_draws = probabilities.shape[1]
    pieces = [probabilities[:, start : start + _CHUNK] for start in range(0, num_draws, _CHUNK)]
    return [_concatenate([_draw_outcomes(request, answer, inputs, piece) for piece in pieces]) for answer in answers]


def _draw_outcomes(
    request: DecisionRequest, answer: OfferAnswer, inputs: Sequence[Uncertain], probabilities: Array
) -> Outcomes:
    num_draws = probabilities.shape[1]
    money = _draw_fields(answer, None, inputs, probabilities)
    offer = with_arrays(answer.offer, {path: drawn for path, drawn in money.items() if path.startswith("prices.")})
    request = with_arrays(request, {path: drawn for path, drawn in money.items() if not path.startswith("prices.")})
    bills: list[Bill] = []
    met: dict[tuple[str, str], Array] = {}
    goodput: dict[str, Array] = {}
    is_enough = np.full(num_draws, 1.0 if answer.workloads else np.nan)
    for workload_answer in answer.workloads:
        name, checkpoint_workload = workload_answer.workload.name, size_layout(workload_answer.scenario).workload
        drawn = _draw_fields(answer, workload_answer, inputs, probabilities)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):  # as where a draw leaves no rate
            figures = evaluate(checkpoint_workload, with_numbers(workload_answer.scenario.run_inputs, drawn)).report
            bills.append(bill_workload(request, workload_answer.workload, offer, checkpoint_workload, figures))
        met |= {
            (name, check.target): _as_draws(None if check.found is None else check.met, num_draws)
            for check in figures.targets
        }
        goodput[name] = _as_draws(figures.interval.goodput_at_interval_fraction, num_draws)
        if offer.capacity_bytes is not None:
            is_enough = is_enough * np.less_equal(figures.capacity.usable_bytes, offer.capacity_bytes)
    for each in met.values():
        is_enough = np.where((is_enough == 0) | (each == 0), 0.0, is_enough * each)
    costs = [line.cost for line in list_lines(request, offer, bills)] if bills else []
    lost = _sum([bill.lost_gpu_hours for bill in bills], num_draws)
    return Outcomes(_sum(costs, num_draws), lost, is_enough, met, goodput)


def _draw_fields(
    answer: OfferAnswer, workload_answer: WorkloadAnswer | None, inputs: Sequence[Uncertain], probabilities: Array
) -> dict[str, Array]:
    """Draw the fields that inputs set; where two set one field, the last holds."""
    fields: dict[str, Array] = {}
    for each, probability in zip(inputs, probabilities, strict=True):
        fields |= each.values(answer.offer, workload_answer, probability)
    return fields


def _sum(amounts: Sequence[Numbers | None], num_draws: int) -> Array:
    """Add amounts in the order of the ledger, so that sums equal to the last digit; no number where one is unknown."""
    if not amounts:
        return np.full(num_draws, np.nan)
    return np.asarray(sum((_as_draws(amount, num_draws) for amount in amounts), start=np.zeros(num_draws)))


def _as_draws(value: object, num_draws: int) -> Array:
    known = np.asarray(np.nan if value is None else value, dtype=np.float64)
    return np.broadcast_to(known, num_draws)


def _concatenate(pieces: Sequence[Outcomes]) -> Outcomes:
    first = pieces[0]
    return Outcomes(
        np.concatenate([piece.total for piece in pieces]),
        np.concatenate([piece.lost_gpu_hours for piece in pieces]),
        np.concatenate([piece.is_enough for piece in pieces]),
        {key: np.concatenate([piece.met[key] for piece in pieces]) for key in first.met},
        {key: np.concatenate([piece.goodput[key] for piece in pieces]) for key in first.goodput},
    )


_ROWS = 8192
"""A power of two, as the sequence needs: the tests find shares within 0.01 of those worked by hand."""


class VarianceShares(NamedTuple):
    """First-order and total share of each input; no numbers where nothing varies."""

    first_order: Array
    total: Array


def variance_shares(figure: Callable[[Array], Array], num_inputs: int, *, seed: int) -> VarianceShares:
    """First-order and total Sobol indices of a figure y: V(E(y|x)) / V(y), and 1 - V(E(y|all but x)) / V(y).

    Args: `figure` of probabilities of shape (inputs, draws), each between 0 and 1, gives one number a draw.
    Source: Saltelli et al. 2010, Computer Physics Communications 181, equations (b) and (f), as scipy has them; points
    of a Sobol sequence, each shifted by one draw modulo 1 (Cranley and Patterson 1976).

    >>> shares = variance_shares(lambda x: x[0] + 2 * x[1], 2, seed=0)  # variances as 1 to 4, and nothing between them
    >>> shares.first_order.round(2).tolist(), shares.total.round(2).tolist()
    ([0.2, 0.8], [0.2, 0.8])
    """
    from scipy.stats import qmc, sobol_indices  # noqa: PLC0415 - it takes a second to import

    shift = np.random.default_rng(seed).random(2 * num_inputs)
    points = np.mod(qmc.Sobol(2 * num_inputs, scramble=False).random(_ROWS) + shift, 1.0).T
    one, other = points[:num_inputs], points[num_inputs:]
    of_one, of_other = figure(one), figure(other)
    crossed = np.empty((num_inputs + 1, 1, _ROWS))
    crossed[num_inputs, 0] = of_one  # an input that moves nothing: scipy fails where there is only one
    for place in range(num_inputs):
        mixed = one.copy()
        mixed[place] = other[place]
        crossed[place, 0] = figure(mixed)
    known = np.isfinite(of_one) & np.isfinite(of_other) & np.all(np.isfinite(crossed), axis=(0, 1))
    if not np.all(known) or np.ptp(of_one) == 0 == np.ptp(of_other):
        unknown = np.full(num_inputs, np.nan)
        return VarianceShares(unknown, unknown)
    indices = sobol_indices(func={"f_A": of_one[np.newaxis], "f_B": of_other[np.newaxis], "f_AB": crossed}, n=_ROWS)
    first, total = (each.ravel()[:num_inputs] for each in (indices.first_order, indices.total_order))
    return VarianceShares(np.clip(first, 0.0, 1.0), np.clip(total, 0.0, None))
