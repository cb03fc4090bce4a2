"""How sure a decision is: the probability of each verdict, the spread of costs, and the input to measure next."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from sizing.errors import InvalidInput
from sizing.explore.decisions.decision_request import DecisionRequest
from sizing.explore.decisions.distributions import Array
from sizing.explore.decisions.odds_report import DrawnInput, GoodputOdds, Odds, OfferOdds, Spread, TargetOdds
from sizing.explore.decisions.outcomes import Outcomes, outcomes_of
from sizing.explore.decisions.standing import Standing
from sizing.explore.decisions.uncertain import Ranged, Uncertain, uncertain_inputs
from sizing.explore.decisions.variance import variance_shares
from sizing.units import figure_text

_QUANTILES = (0.05, 0.5, 0.95)
"""The ends that leave as much out as intervals of calibrations do, and the middle."""


def odds_of(request: DecisionRequest, standings: Sequence[Standing]) -> Odds | None:
    """The odds of offers as they were decided, the best first; None where the request asks for none.

    Settings stay as proposed. Raises InvalidInput where nothing is drawn, or a range is of no input.
    """
    asked = request.odds
    if asked is None:
        return None
    inputs = uncertain_inputs(request, standings)
    if not inputs:
        raise InvalidInput.of(
            "odds",
            "must have something that is not certain",
            value=None,
            remedy="give ranges here or in an offer, or guesses: true",
        )
    probabilities = np.random.default_rng(asked.seed).random((len(inputs), asked.num_draws))
    found = outcomes_of(request, standings, inputs, probabilities)
    words, rows = _shared_variance(request, standings, inputs, found)
    by_share = sorted(rows, key=lambda row: -(row.total_fraction or 0.0))
    return Odds(
        num_draws=asked.num_draws,
        seed=asked.seed,
        offers=_offers(standings, found),
        variance_of=words,
        inputs=by_share,
        measure_next=by_share[0] if by_share[0].total_fraction else None,
        warnings=list(_warnings(standings, inputs)),
    )


def _offers(standings: Sequence[Standing], found: Sequence[Outcomes]) -> list[OfferOdds]:
    totals, lost = (np.array([getattr(each, name) for each in found]) for name in ("total", "lost_gpu_hours"))
    enough = np.array([each.is_enough == 1 for each in found])
    is_priced = ~np.all(np.isnan(totals))
    cheapest = _least(totals)
    best = _least(np.where(enough, totals if is_priced else lost, np.nan))
    return [
        OfferOdds(
            name=standing.offer.name,
            enough_probability=_probability(each.is_enough),
            cheapest_probability=None if np.all(np.isnan(each.total)) else float(np.mean(cheapest == place)),
            best_probability=float(np.mean(best == place)) if standing.workloads else None,
            total=_spread(each.total),
            targets=[
                TargetOdds(workload=workload, target=target, met_probability=_probability(met))
                for (workload, target), met in each.met.items()
            ],
            goodputs=[
                GoodputOdds(workload=workload, goodput_fraction=_spread(goodput))
                for workload, goodput in each.goodput.items()
            ],
        )
        for place, (standing, each) in enumerate(zip(standings, found, strict=True))
    ]


def _least(amounts: Array) -> Array:
    """The place of the least amount in each draw, of equals the first; -1 where none is known."""
    known = np.nan_to_num(amounts, nan=np.inf)
    return np.where(np.isfinite(known.min(axis=0)), known.argmin(axis=0), -1)


def _probability(holds: Array) -> float | None:
    return None if np.any(np.isnan(holds)) else float(np.mean(holds))


def _spread(figures: Array) -> Spread | None:
    """Of figures that are known in every draw."""
    if not np.all(np.isfinite(figures)):
        return None
    low, middle, high = np.quantile(figures, _QUANTILES)
    return Spread(p5=float(low), p50=float(middle), p95=float(high))


def _shared_variance(
    request: DecisionRequest, standings: Sequence[Standing], inputs: Sequence[Uncertain], found: Sequence[Outcomes]
) -> tuple[str, list[DrawnInput]]:
    """The figure that decides, in words, and the inputs with their shares of its variance."""
    priced = [standing for standing, each in zip(standings, found, strict=True) if np.all(np.isfinite(each.total))]
    compared = priced[:2] or [standing for standing in standings if standing.workloads][:1]
    name = "total" if priced else "lost_gpu_hours"

    def figure(probabilities: Array) -> Array:
        drawn = [getattr(each, name) for each in outcomes_of(request, compared, inputs, probabilities)]
        difference: Array = drawn[-1] - drawn[0] if len(drawn) > 1 else drawn[0]
        return difference

    rows = [each.drawn for each in inputs]
    if not compared:
        return "nothing that is known", rows
    shares = variance_shares(figure, len(inputs), seed=request.odds.seed if request.odds else 0)
    return _words(compared, is_priced=bool(priced)), [
        row.model_copy(update={"first_order_fraction": _known(first), "total_fraction": _known(total)})
        for row, first, total in zip(rows, shares.first_order, shares.total, strict=True)
    ]


def _words(compared: Sequence[Standing], *, is_priced: bool) -> str:
    first, *others = [standing.offer.name for standing in compared]
    if not is_priced:
        return f"lost GPU time with {first}"
    return f"what {others[0]} costs more than {first}" if others else f"cost of {first}"


def _known(share: float) -> float | None:
    return float(share) if np.isfinite(share) else None


def _warnings(standings: Sequence[Standing], inputs: Sequence[Uncertain]) -> Iterator[str]:
    """Ranges beside what the decision was made with: its settings are the best for that."""
    for each in inputs:
        if not isinstance(each, Ranged) or each.ends.is_money:
            continue
        path, ends = each.ends.field, np.array([each.ends.low, each.ends.high])
        for standing in standings:
            for settled in standing.workloads if each.offer in (None, standing.offer.name) else ():
                number, (low, high) = settled.number(path), settled.left(path, ends)
                if number is not None and not low <= number <= high:
                    yield (
                        f"{path} of {settled.workload.name} under {standing.offer.name} is "
                        f"{figure_text(path, number)}, outside of its range: settings are chosen for what it is"
                    )
