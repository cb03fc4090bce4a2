"""The order of the offers, and at what price, price of a GPU-hour or horizon another would be first."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sizing.questions.decide.offers import Offer
from sizing.questions.decide.report import LOST, UNPRICED, Factor, OfferDecision, RankingChange, Verdict
from sizing.questions.decide.request import DecisionRequest

_ORDER: tuple[Verdict, ...] = ("enough", "not known", "not enough")


def rank_offers(offers: Sequence[OfferDecision]) -> list[OfferDecision]:
    """Rank offers: enough first, then by total, by how much and what is known of it, and by lost GPU-hours."""
    return sorted(
        offers,
        key=lambda offer: (
            _ORDER.index(offer.verdict),
            _or_inf(offer.total),
            len(list_unknown_costs(offer)),
            _or_inf(add_known_costs(offer)),
            _or_inf(offer.lost_gpu_hours),
        ),
    )


def find_first_as_asked(offers: Sequence[OfferDecision]) -> str | None:
    """Find the offer that comes first with the workloads' own settings; None where its cost is not known with them."""
    first = min(offers, key=lambda offer: (_ORDER.index(offer.verdict_as_asked), _or_inf(offer.total_as_asked)))
    return None if first.total_as_asked is None else first.name


def add_known_costs(offer: OfferDecision) -> float | None:
    """Add the costs that are known in an offer's ledger; None where the storage has no prices, or nothing is known.

    Source: definition.

    >>> from sizing.questions.decide.report import LedgerLine
    >>> bought = LedgerLine(name="chassis", kind="capital", quantity=1, unit="offer", amount=2.0, times=1, cost=2.0)
    >>> hours = dict(quantity=None, unit="GPU-hours", amount=2.5, times=1, cost=None)
    >>> lost = LedgerLine(name=LOST, kind=LOST, **hours)
    >>> add_known_costs(OfferDecision.model_construct(ledger=[bought, lost]))
    2.0
    """
    known = [line.cost for line in offer.ledger if line.cost is not None]
    return sum(known) if known and not any(line.kind == UNPRICED for line in offer.ledger) else None


def list_unknown_costs(offer: OfferDecision) -> list[str]:
    """List the lines of an offer's ledger that have no cost, by name; with fewer of them, more of its cost is known."""
    return [line.name for line in offer.ledger if line.cost is None]


def is_dominated(offer: OfferDecision, others: Sequence[OfferDecision]) -> bool:
    """Return whether another offer costs no more and loses no more GPU time, and is better in one of both.

    Offers of which one of both is not known dominate none, and none dominates them.
    """
    if None in (offer.total, offer.lost_gpu_hours):
        return False
    merits = _list_merits(offer)
    for other in others:
        if other is offer or None in (other.total, other.lost_gpu_hours):
            continue
        other_merits = _list_merits(other)
        if other_merits != merits and all(a <= b for a, b in zip(other_merits, merits, strict=True)):
            return True
    return False


def _list_merits(offer: OfferDecision) -> tuple[float, float, float]:
    """List the place of the verdict, the total and the lost GPU-hours: less is better."""
    return _ORDER.index(offer.verdict), _or_inf(offer.total), _or_inf(offer.lost_gpu_hours)


@dataclass(frozen=True, slots=True)
class _Total:
    """Cost of an offer as a straight line over one factor: `fixed` at 0, and `slope` for each unit of the factor."""

    name: str
    fixed: float
    slope: float

    def crosses(self, other: _Total) -> float:
        """Compute the value of the factor at which both offers cost the same; no number where there is none."""
        slopes = self.slope - other.slope
        return (other.fixed - self.fixed) / slopes if math.isfinite(slopes) and slopes else math.nan


def find_ranking_changes(request: DecisionRequest, offers: Sequence[OfferDecision]) -> Iterator[RankingChange]:
    """Find the price, the price of a GPU-hour and the horizon at which another offer of the same verdict comes first.

    Settings stay as proposed. Source: definition of the total, solved for one of its factors. No horizon is told where
    a total is no straight line over it: a purchase is written off, or kept weights and the capacity for them grow.
    """
    compared = [offer for offer in offers if offer.verdict == offers[0].verdict and offer.total is not None]
    if len(compared) < 2 or compared[0] is not offers[0]:
        return
    more = _or_inf(compared[1].total) - _or_inf(compared[0].total)
    yield RankingChange(other=compared[1].name, what="price", at=more, direction="above")
    price = request.per_lost_gpu_hour
    if price is not None:
        hours = {offer.name: _or_inf(offer.lost_gpu_hours) for offer in compared}
        totals = [
            _Total(offer.name, _or_inf(offer.total) - price * hours[offer.name], hours[offer.name])
            for offer in compared
        ]
        yield from _find_crossings("per_lost_gpu_hour", totals, at=price)
    given = {offer.name: offer for offer in request.offers}
    is_written_off = any(price.life_seconds is not None for offer in compared for price in given[offer.name].prices)
    kept = [workload.scenario.retention for workload in request.workloads]
    if not is_written_off and all(each.keep_weights_every is None or each.run_seconds is not None for each in kept):
        totals = [_write_total_over_horizon(offer, given[offer.name], request.horizon_seconds) for offer in compared]
        yield from _find_crossings("horizon_seconds", totals, at=request.horizon_seconds)


def _find_crossings(what: Factor, totals: Sequence[_Total], *, at: float) -> Iterator[RankingChange]:
    """Find the nearest values below and above the present one at which another offer costs no more than the first."""
    first, *others = totals
    crossings = [(first.crosses(other), other.name) for other in others]
    below = max(((value, name) for value, name in crossings if 0 < value < at), default=None)
    above = min(((value, name) for value, name in crossings if at < value < math.inf), default=None)
    if below is not None:
        yield RankingChange(other=below[1], what=what, at=below[0], direction="below")
    if above is not None:
        yield RankingChange(other=above[1], what=what, at=above[0], direction="above")


def _write_total_over_horizon(decision: OfferDecision, offer: Offer, horizon_seconds: float) -> _Total:
    """Write a total over the horizon: what is paid once, tiers included, is fixed, all other costs grow with it."""
    grows = [price.every != "once" for price in offer.prices]
    grows += [line.kind == LOST for line in decision.ledger[len(offer.prices) :]]
    once = again = 0.0
    for line, is_again in zip(decision.ledger, grows, strict=True):
        if is_again:
            again += line.cost or 0.0
        else:
            once += line.cost or 0.0
    return _Total(decision.name, once, again / horizon_seconds)


def _or_inf(value: float | None) -> float:
    return math.inf if value is None else value
