"""How sure a decision is: probability of each verdict, spread of costs, and the input to measure next."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from sizing.questions.decide.draws import Draws, DrawsPart, OfferCounts, compute_outcomes
from sizing.questions.decide.report import DrawnInput, GoodputOdds, Odds, OfferOdds, Spread, TargetOdds
from sizing.questions.decide.settings import OfferAnswer
from sizing.questions.decide.tally import FigureCounts
from sizing.run.simulation import ProbabilityInterval, proportion_interval
from sizing.storage.transfer import Floats

_QUANTILES = (0.05, 0.5, 0.95)
"""The ends that leave as much out as intervals of calibrations do, and the middle."""


def report_odds(draws: Draws, counted: DrawsPart) -> Odds:
    """Report how sure the verdict on each offer is, in the order of the answers, of what all draws came to."""
    figure_words, rows = _attribute_variance(draws, counted)
    offers = zip(draws.answers, counted.offers, strict=True)
    by_share = sorted(rows, key=lambda row: -(row.total_fraction or 0.0))
    return Odds(
        num_draws=counted.num_draws,
        seed=draws.seed,
        offers=[_report_offer(answer, counts, counted) for answer, counts in offers],
        variance_of=figure_words,
        inputs=by_share,
        measure_next=by_share[0] if by_share[0].total_fraction else None,
        warnings=list(draws.warnings()),
    )


def _report_offer(answer: OfferAnswer, counts: OfferCounts, counted: DrawsPart) -> OfferOdds:
    def probability(num: int | None) -> float | None:
        return None if num is None else num / counted.num_draws

    def interval(num: int | None) -> ProbabilityInterval | None:
        return None if num is None else proportion_interval(num, counted.num_draws)

    num_best = (
        (counts.num_best_by_total if counted.is_priced else counts.num_best_by_lost) if answer.workloads else None
    )
    num_cheapest = counts.num_cheapest if counts.num_priced else None
    return OfferOdds(
        name=answer.offer.name,
        enough_probability=probability(counts.num_enough),
        enough_interval=interval(counts.num_enough),
        cheapest_probability=probability(num_cheapest),
        cheapest_interval=interval(num_cheapest),
        best_probability=probability(num_best),
        best_interval=interval(num_best),
        total=_report_spread(counts.total),
        targets=[
            TargetOdds(workload=workload, target=target, met_probability=probability(num), met_interval=interval(num))
            for workload, by_target in counts.num_met.items()
            for target, num in by_target.items()
        ],
        goodputs=[
            GoodputOdds(workload=workload, goodput_fraction=_report_spread(goodput))
            for workload, goodput in counts.goodput.items()
        ],
    )


def _report_spread(figures: FigureCounts | None) -> Spread | None:
    if figures is None:
        return None
    low, middle, high = figures.quantiles(_QUANTILES)
    return Spread(p5=low, p50=middle, p95=high)


def _attribute_variance(draws: Draws, counted: DrawsPart) -> tuple[str, list[DrawnInput]]:
    """Attribute the variance of the figure that decides to the inputs; return that figure in words, and the inputs."""
    priced = [answer for answer, each in zip(draws.answers, counted.offers, strict=True) if each.total]
    compared = priced[:2] or [answer for answer in draws.answers if answer.workloads][:1]
    name = "total" if priced else "lost_gpu_hours"

    def figure(probabilities: Floats) -> Floats:
        outcomes = compute_outcomes(draws.request, compared, draws.inputs, [probabilities])
        drawn = [getattr(each, name) for each in outcomes]
        difference: Floats = drawn[-1] - drawn[0] if len(drawn) > 1 else drawn[0]
        return difference

    rows = [each.drawn for each in draws.inputs]
    if not compared:
        return "nothing that is known", rows
    shares = variance_shares(figure, len(rows), seed=draws.seed)
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


_ROWS = 8192
"""A power of two, as the sequence needs: the tests find shares within 0.01 of those worked by hand."""


class VarianceShares(NamedTuple):
    """First-order and total share of each input; no numbers where nothing varies."""

    first_order: Floats
    total: Floats


def variance_shares(figure: Callable[[Floats], Floats], num_inputs: int, *, seed: int) -> VarianceShares:
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
