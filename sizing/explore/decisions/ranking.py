"""The order of the offers, and at what price, price of a GPU-hour or horizon another would be first."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sizing.explore.decisions.decision_report import Factor, LedgerLine, OfferDecision, RankingChange, Verdict
from sizing.explore.decisions.decision_request import DecisionRequest, Offer
from sizing.explore.decisions.ledger import LOST

_ORDER: tuple[Verdict, ...] = ("enough", "not known", "not enough")


def ranked(offers: Sequence[OfferDecision]) -> list[OfferDecision]:
    """Those that are enough first, then by total, then by lost GPU-hours; what is unknown last."""
    return sorted(
        offers, key=lambda offer: (_ORDER.index(offer.verdict), _or_inf(offer.total), _or_inf(offer.lost_gpu_hours))
    )


def is_dominated(offer: OfferDecision, others: Sequence[OfferDecision]) -> bool:
    """Whether another costs no more and loses no more GPU time, and is better in one; where both are known."""
    return any(_dominates(other, offer) for other in others if other is not offer)


def _dominates(one: OfferDecision, other: OfferDecision) -> bool:
    if None in (one.total, one.lost_gpu_hours, other.total, other.lost_gpu_hours):
        return False
    better, worse = _merits(one), _merits(other)
    return all(a <= b for a, b in zip(better, worse, strict=True)) and better != worse


def _merits(offer: OfferDecision) -> tuple[float, float, float]:
    """Verdict, total, lost GPU-hours: less is better."""
    return _ORDER.index(offer.verdict), _or_inf(offer.total), _or_inf(offer.lost_gpu_hours)


@dataclass(frozen=True, slots=True)
class _Total:
    """What an offer costs as a line over one factor of it: what does not depend on the factor, and what each adds."""

    name: str
    fixed: float
    slope: float

    def crosses(self, other: _Total) -> float:
        """Value of the factor at which both cost the same; no number where there is none."""
        slopes = self.slope - other.slope
        return (other.fixed - self.fixed) / slopes if math.isfinite(slopes) and slopes else math.nan


def ranking_changes(request: DecisionRequest, offers: Sequence[OfferDecision]) -> Iterator[RankingChange]:
    """What would put another offer of the same verdict first: the nearest break-evens of the totals.

    Settings stay as proposed. Source: definition of the total, solved for one of its factors.
    """
    held = [offer for offer in offers if offer.verdict == offers[0].verdict and offer.total is not None]
    if len(held) < 2 or held[0] is not offers[0]:
        return
    more = _or_inf(held[1].total) - _or_inf(held[0].total)
    yield RankingChange(other=held[1].name, what="price", at=more, direction="above")
    hour = request.per_lost_gpu_hour
    if hour is not None:
        yield from _turns("per_lost_gpu_hour", [_by_hour(offer, hour) for offer in held], at=hour)
    given = {offer.name: offer for offer in request.offers}
    if not any(price.life_seconds is not None for offer in held for price in given[offer.name].prices):
        lines = [_by_horizon(offer, given[offer.name], request.horizon_seconds) for offer in held]
        yield from _turns("horizon_seconds", lines, at=request.horizon_seconds)


def _turns(what: Factor, totals: Sequence[_Total], *, at: float) -> Iterator[RankingChange]:
    """The nearest values below and above the present one at which another costs no more than the first."""
    first, *others = totals
    found = [(first.crosses(other), other.name) for other in others]
    below = max(((value, name) for value, name in found if 0 < value < at), default=None)
    above = min(((value, name) for value, name in found if at < value < math.inf), default=None)
    if below is not None:
        yield RankingChange(other=below[1], what=what, at=below[0], direction="below")
    if above is not None:
        yield RankingChange(other=above[1], what=what, at=above[0], direction="above")


def _by_hour(offer: OfferDecision, price: float) -> _Total:
    hours = _or_inf(offer.lost_gpu_hours)
    return _Total(offer.name, _or_inf(offer.total) - price * hours, hours)


def _by_horizon(found: OfferDecision, offer: Offer, horizon_seconds: float) -> _Total:
    once, again = _once_and_again(found, offer)
    return _Total(found.name, once, again / horizon_seconds)


def _once_and_again(found: OfferDecision, offer: Offer) -> tuple[float, float]:
    """What is paid once, tiers included, and what grows with the horizon."""
    num_prices = len(offer.prices)
    again = [price.every != "once" for price in offer.prices]
    again += [line.name == LOST for line in found.ledger[num_prices:]]
    once_and_again = {False: 0.0, True: 0.0}
    for line, grows in zip(found.ledger, again, strict=True):
        once_and_again[grows] += _cost(line)
    return once_and_again[False], once_and_again[True]


def _cost(line: LedgerLine) -> float:
    return line.cost or 0.0


def _or_inf(value: float | None) -> float:
    return math.inf if value is None else value
