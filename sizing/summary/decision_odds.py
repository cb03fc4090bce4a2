"""The odds of a decision in words: how sure each verdict is, how far costs are spread, what to measure next."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from sizing.explore.decisions.decision_report import DecisionReport
from sizing.explore.decisions.odds_report import DrawnInput, Odds, Spread
from sizing.summary.figure_names import figure_name, figure_words
from sizing.summary.purchase import amount_text, money_text
from sizing.summary.rows import UNKNOWN, Grid
from sizing.units import figure_text, percent_text

_UNKNOWN_RANGE = "as measured"
_GPU_HOUR = "per_lost_gpu_hour"
_PRICES = "prices."
_SMALL_SHARE = 0.01
"""Shares below are within the error of their estimate."""


def odds_verdicts(report: DecisionReport) -> Iterator[str]:
    """How sure the first offer is, in at most three sentences."""
    odds = report.odds
    if odds is None:
        return
    first = odds.offers[0]
    if first.best_probability is not None:
        draws = f"{odds.num_draws:,} draws"
        yield f"In {percent_text(first.best_probability)} of {draws} it is enough and costs least of those that are."
    if first.total is not None:
        half, high = (money_text(amount, report.currency) for amount in (first.total.p50, first.total.p95))
        yield f"Half of the draws cost over {half}, one of twenty over {high}."
    if odds.measure_next is not None:
        share = percent_text(odds.measure_next.total_fraction or 0.0)
        name = _input(report, odds.measure_next)
        yield f"Worth measuring next: {name}, {share} of the variance of {odds.variance_of}."


def odds_warnings(report: DecisionReport) -> Sequence[str]:
    """What a reader must know before relying on the odds."""
    return report.odds.warnings if report.odds else ()


def odds_grids(report: DecisionReport) -> Iterator[Grid]:
    """Offers, their targets, and the inputs that were drawn."""
    odds = report.odds
    if odds is None:
        return
    columns = ("offer", "enough", "cheapest", "best", f"total {report.currency}, 5 %", "half", "95 %")
    yield Grid(f"Odds in {odds.num_draws:,} draws", columns, tuple(_offers(odds)), frozenset({0}))
    targets = tuple(_targets(odds))
    if targets:
        yield Grid("Odds of each target", ("offer", "workload", "target", "met"), targets)
    yield Grid("Goodput in these draws", ("offer", "workload", "5 %", "half", "95 %"), tuple(_goodputs(odds)))
    heads = ("input", "from", "to", "alone", "with others")
    yield Grid(f"Shares of the variance of {odds.variance_of}", heads, tuple(_inputs(report, odds)))


def _offers(odds: Odds) -> Iterator[tuple[str, ...]]:
    for offer in odds.offers:
        probabilities = (offer.enough_probability, offer.cheapest_probability, offer.best_probability)
        yield (offer.name, *map(_percent, probabilities), *_quantiles(offer.total, amount_text))


def _targets(odds: Odds) -> Iterator[tuple[str, ...]]:
    for offer in odds.offers:
        for found in offer.targets:
            yield offer.name, found.workload, figure_words(found.target), _percent(found.met_probability)


def _goodputs(odds: Odds) -> Iterator[tuple[str, ...]]:
    for offer in odds.offers:
        for found in offer.goodputs:
            yield (offer.name, found.workload, *_quantiles(found.goodput_fraction, percent_text))


def _inputs(report: DecisionReport, odds: Odds) -> Iterator[tuple[str, ...]]:
    for found in odds.inputs:
        ends = (_UNKNOWN_RANGE if end is None else _end(found.field, end) for end in (found.low, found.high))
        yield (_input(report, found), *ends, _share(found.first_order_fraction), _share(found.total_fraction))


def _end(field: str, end: float) -> str:
    return amount_text(end) if field.startswith((_PRICES, _GPU_HOUR)) else figure_text(field, end)


def _input(report: DecisionReport, found: DrawnInput) -> str:
    """An input, and the offer that it belongs to."""
    if found.field == _GPU_HOUR:
        return "price of a GPU-hour"
    of_offer = f" of {found.offer}" if found.offer else ""
    if not found.field.startswith(_PRICES):
        return figure_name(found.field) + of_offer
    offer = next(each for each in report.offers if each.name == found.offer)
    place = int(found.field.removeprefix(_PRICES).split(".")[0])  # prices come first in a ledger, in their order
    return f"price {offer.ledger[place].name if offer.ledger else place}{of_offer}"


def _quantiles(spread: Spread | None, text: Callable[[float], str]) -> tuple[str, ...]:
    return (UNKNOWN,) * 3 if spread is None else tuple(map(text, (spread.p5, spread.p50, spread.p95)))


def _share(fraction: float | None) -> str:
    if fraction is None:
        return UNKNOWN
    return percent_text(fraction) if fraction >= _SMALL_SHARE else f"below {percent_text(_SMALL_SHARE)}"


def _percent(fraction: float | None) -> str:
    return UNKNOWN if fraction is None else percent_text(fraction)
