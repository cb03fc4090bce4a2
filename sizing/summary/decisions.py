"""A decision in words: which offer, its money, what each lacks, what to change, and what would change the ranking."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import JsonValue

from sizing.explore.decisions.decision_report import (
    Change,
    DecisionReport,
    Need,
    OfferDecision,
    RankingChange,
    WorkloadDecision,
)
from sizing.explore.decisions.ledger import LOST
from sizing.summary.decision_odds import odds_grids, odds_verdicts, odds_warnings
from sizing.summary.figure_names import figure_words
from sizing.summary.origins import source_text
from sizing.summary.purchase import amount_text, money_text
from sizing.summary.rows import UNKNOWN, Grid, Summary
from sizing.summary.targets import with_refusal
from sizing.units import counted_text, decimal_bytes_text, figure_text, percent_text, rate_text, seconds_text

_NOTHING = "-"
_CAPACITY = ("offer", "workload", "offered", "at the begin", "half way", "at the end", "full after")
_NEEDS = {
    "storage.profile.write_bytes_per_second": "write bandwidth",
    "storage.profile.read_bytes_per_second": "read bandwidth",
    "capacity_bytes": "capacity",
}
_METHOD = (
    "Method: each workload is answered under each offer with every combination of settings, as ckpt-size answer would; "
    "a line of the ledger is quantity x price x times, and GPU time without useful work is lost"
)
_SETTINGS = ("offer", "workload", "setting", "asked", "proposed", "saves", "rests on")
_WAY_BACK = ("offer", "workload", "setting", "recovery", "work done again")


def decision_summary(report: DecisionReport) -> Summary:
    """The verdict on the offers, the offers beside each other, ledgers, settings, and what would change the ranking."""
    first = report.offers[0]
    return Summary(
        headline=_headline(report),
        verdict=with_refusal(_cannot_run(first), "\n".join([*_verdicts(report), *odds_verdicts(report)])),
        misses=first.verdict != "enough" or _cannot_run(first) is not None,
        grids=tuple(_grids(report)),
        remarks=tuple(_remarks(report)),
        warnings=tuple(dict.fromkeys((*report.warnings, *odds_warnings(report), *_warnings(first)))),
    )


def _headline(report: DecisionReport) -> str:
    offers = counted_text(len(report.offers), "offer")
    return f"{offers} over {seconds_text(report.horizon_seconds)}, money in {report.currency}"


def _cannot_run(offer: OfferDecision) -> str | None:
    """Of the workloads whose layout cannot run, which storage does not change, why."""
    outcomes = [(workload.name, workload.proposed or workload.as_asked) for workload in offer.workloads]
    because = [f"{name}: {outcome.cannot_run}" for name, outcome in outcomes if outcome and outcome.cannot_run]
    return "; ".join(because) or None


def _verdicts(report: DecisionReport) -> Iterator[str]:
    """What to take and why, in at most four sentences."""
    first, *others = report.offers
    if first.verdict != "enough":
        yield f"No offer is {'enough' if first.verdict == 'not enough' else 'known to be enough'}."
    if first.total is None:
        yield f"{first.name} comes first; what it costs is not known."
        return
    cheaper = any(other.total is not None and other.total < first.total for other in others)
    least = "costs least of those that are enough" if cheaper and first.verdict == "enough" else "costs least"
    yield f"{first.name} {least}: {money_text(first.total, report.currency)}{_lost_share(first)}."
    yield from _beside_as_asked(first, first.total, report.currency)
    second = next((other for other in others if other.verdict == first.verdict and other.total is not None), None)
    if second is not None and second.total is not None:
        yield f"{second.name} costs {money_text(second.total - first.total, report.currency)} more."


def _beside_as_asked(offer: OfferDecision, total: float, currency: str) -> Iterator[str]:
    """Settings are chosen by the targets that they miss first, and then by lost time where it has no price."""
    asked, loses_more = offer.total_as_asked, "" if _has_priced_time(offer) else _lost_as_asked(offer)
    if asked is None:
        return
    before, difference = (money_text(amount, currency) for amount in (asked, abs(asked - total)))
    if loses_more:
        costs = f"cost {before}, {difference} {'more' if total < asked else 'less'}, and " if total != asked else ""
        yield f"As asked it would {costs}lose {loses_more} more."
    elif total < asked:
        yield f"As asked it would cost {before}; changed settings save {difference}."
    elif total > asked:
        yield f"As asked it would cost {before}, {difference} less, and miss more targets."


def _has_priced_time(offer: OfferDecision) -> bool:
    return any(line.name == LOST for line in offer.ledger)


def _lost_as_asked(offer: OfferDecision) -> str:
    """The GPU-hours that are lost as asked and not as proposed; empty where there are none, or nobody knows."""
    outcomes = [outcome for workload in offer.workloads for outcome in (workload.as_asked, workload.proposed)]
    lost = [None if outcome is None else outcome.lost_gpu_hours for outcome in outcomes]
    known = [hours for hours in lost if hours is not None]
    saved = sum(known[::2]) - sum(known[1::2]) if len(known) == len(lost) else 0.0
    return f"{amount_text(saved)} GPU-hours" if saved > 0 else ""


def _lost_share(offer: OfferDecision) -> str:
    lost = next((line.cost for line in offer.ledger if line.name == LOST), None)
    if lost is None or not offer.total:
        return ""
    return f", {percent_text(lost / offer.total)} of it lost GPU time"


def _grids(report: DecisionReport) -> Iterator[Grid]:
    yield _offers(report)
    yield from odds_grids(report)
    money = report.currency
    yield from (
        grid
        for grid in (
            Grid("Needed, and offered", ("offer", "workload", *_NEEDS.values()), tuple(_needs(report)), leads=True),
            Grid("Offers that break rules", ("offer", "what is wrong", "told of it"), tuple(_refused(report))),
            Grid("What is missing", ("offer", "what it lacks"), tuple(_missing(report))),
            Grid("Proposed settings", _SETTINGS, tuple(_changes(report))),
            Grid("Way back from a failure", _WAY_BACK, tuple(_ways_back(report))),
            Grid("Settings without an answer", ("offer", "workload", "settings", "why"), tuple(_unanswered(report))),
            Grid("Ledger", ("offer", "for", "quantity", "price of one", "times", money), tuple(_ledgers(report))),
            Grid("Capacity over time", _CAPACITY, tuple(_capacities(report))),
            Grid(
                "Bandwidth at its price per GB/s",
                ("offer", "offered", "cheapest", f"{money} then", "1 GB/s more saves"),
                tuple(_break_even(report)),
            ),
            Grid("What more would be worth", ("offer", "more", "saves"), tuple(_worths(report))),
            Grid("What would change the ranking", ("then first", "if"), tuple(_ranking(report))),
            Grid("Sources", ("workload", "kind", "source"), tuple(dict.fromkeys(_sources(report.offers[0])))),
        )
        if grid.rows
    )


def _needs(report: DecisionReport) -> Iterator[tuple[str, ...]]:
    for offer in report.offers:
        for workload in offer.workloads:
            found = {need.field: need for need in workload.needs}
            if found:
                yield offer.name, workload.name, *(_need_text(found.get(field)) for field in _NEEDS)


def _need_text(need: Need | None) -> str:
    if need is None:
        return _NOTHING
    needed, offered = figure_text(need.field, need.needed), need.offered
    return f"{needed} of {UNKNOWN if offered is None else figure_text(need.field, offered)}"


def _refused(report: DecisionReport) -> Iterator[tuple[str, ...]]:
    for offer in report.refused_offers:
        told = "all but its price" if offer.is_judged else "nothing"
        yield from ((offer.name, problem, told) for problem in offer.problems)


def _missing(report: DecisionReport) -> Iterator[tuple[str, ...]]:
    return ((offer.name, sentence) for offer in report.offers for sentence in offer.missing)


def _worths(report: DecisionReport) -> Iterator[tuple[str, ...]]:
    for offer in report.offers:
        if offer.further_bandwidth_saves is not None:
            yield offer.name, "1 GB/s more", amount_text(offer.further_bandwidth_saves)
        yield from ((offer.name, worth.what, amount_text(worth.saves)) for worth in offer.worths)


def _ranking(report: DecisionReport) -> Iterator[tuple[str, ...]]:
    return ((change.other, _change_text(change, report)) for change in report.ranking_changes)


def _offers(report: DecisionReport) -> Grid:
    rows = tuple(
        (
            offer.name,
            offer.verdict,
            _money(offer.total),
            _money(offer.total_as_asked),
            _goodputs(offer.workloads),
            "yes" if offer.is_dominated else "no",
        )
        for offer in report.offers
    )
    columns = ("offer", "verdict", f"total {report.currency}", "as asked", "goodput", "dominated")
    return Grid("Offers, the best first", columns, rows, frozenset({0}), leads=True)


def _money(amount: float | None) -> str:
    return UNKNOWN if amount is None else amount_text(amount)


def _goodputs(workloads: list[WorkloadDecision]) -> str:
    """Of each workload, by name where there are several."""
    if len(workloads) == 1:
        return _goodput(workloads[0])
    return ", ".join(f"{workload.name} {_goodput(workload)}" for workload in workloads)


def _goodput(workload: WorkloadDecision) -> str:
    fraction = workload.proposed.goodput_fraction if workload.proposed else None
    return _share(fraction)


def _changes(report: DecisionReport) -> Iterator[tuple[str, ...]]:
    for offer in report.offers:
        for workload in offer.workloads:
            for change in workload.changes:
                yield (
                    offer.name,
                    workload.name,
                    _field_words(change.field),
                    _setting(change.field, change.before) + (" (default)" if change.before_is_default else ""),
                    _setting(change.field, change.after),
                    _saved(change, offer),
                    f"{change.rests_on.kind} ({source_text(change.rests_on.source)})",
                )


def _saved(change: Change, offer: OfferDecision) -> str:
    """Money; where lost GPU time has no price, that time too."""
    money = UNKNOWN if change.saves is None else amount_text(change.saves)
    if change.gpu_hours_saved is None or _has_priced_time(offer):
        return money
    hours = f"{amount_text(change.gpu_hours_saved)} GPU-hours"
    return f"{hours}, {money}" if change.saves else hours


def _ways_back(report: DecisionReport) -> Iterator[tuple[str, ...]]:
    """What a change of interval does to the time until training goes on, and to the work that is done again."""
    for offer in report.offers:
        for workload in offer.workloads:
            for change in workload.changes:
                before, after = change.way_back_before, change.way_back_after
                if before is None or after is None:
                    continue
                yield (
                    offer.name,
                    workload.name,
                    _field_words(change.field),
                    f"{seconds_text(before.recovery_seconds)} to {seconds_text(after.recovery_seconds)}",
                    f"{_share(before.redone_fraction)} to {_share(after.redone_fraction)} of the time",
                )


def _share(fraction: float | None) -> str:
    return UNKNOWN if fraction is None else percent_text(fraction)


def _unanswered(report: DecisionReport) -> Iterator[tuple[str, ...]]:
    for offer in report.offers:
        for workload in offer.workloads:
            for none in workload.unanswered:
                yield offer.name, workload.name, "; ".join(map(_settings_text, none.settings)), none.why


def _settings_text(settings: dict[str, JsonValue]) -> str:
    words = (f"{_field_words(field)} {_setting(field, value)}" for field, value in settings.items())
    return ", ".join(words) or "as asked"


def _field_words(field: str) -> str:
    """A setting in words; of a tier with the place of the tier.

    >>> _field_words("checkpoint.interval_seconds"), _field_words("checkpoint.tiers.0.interval_seconds")
    ('interval', 'interval of tier 1')
    """
    words, place = figure_words(field), field.split(".")[-2]
    return f"{words} of tier {int(place) + 1}" if place.isdecimal() else words


def _setting(field: str, value: object) -> str:
    if isinstance(value, list) and all(isinstance(each, dict) and "kind" in each for each in value):
        return ", ".join(tier["kind"] for tier in value) or "none"
    return _NOTHING if value is None else figure_text(field, value)


def _ledgers(report: DecisionReport) -> Iterator[tuple[str, ...]]:
    for offer in report.offers:
        for line in offer.ledger:
            quantity = UNKNOWN if line.quantity is None else f"{_number_text(line.quantity)} {line.unit}"
            yield (
                offer.name,
                line.name,
                quantity,
                _number_text(line.amount),
                _number_text(line.times),
                _money(line.cost),
            )


def _number_text(number: float) -> str:
    """Four digits, and whole thousands and more with all of them.

    >>> _number_text(0.98563), _number_text(23486.6)
    ('0.9856', '23,487')
    """
    return f"{number:,.0f}" if abs(number) >= 1000 else f"{number:.4g}"


def _capacities(report: DecisionReport) -> Iterator[tuple[str, ...]]:
    for offer in report.offers:
        for workload in offer.workloads:
            held = workload.capacity_over_time
            if not held:
                continue
            half = next(at for at in held if at.at_seconds >= held[-1].at_seconds / 2)
            full = workload.capacity_full_seconds
            yield (
                offer.name,
                workload.name,
                _NOTHING if offer.capacity_bytes is None else decimal_bytes_text(offer.capacity_bytes),
                *(decimal_bytes_text(at.usable_bytes) for at in (held[0], half, held[-1])),
                "never" if full is None else seconds_text(full),
            )


def _break_even(report: DecisionReport) -> Iterator[tuple[str, ...]]:
    for offer in report.offers:
        if offer.cheapest_bandwidth is None:
            continue
        offered = next(line.quantity for line in offer.ledger if "GB/s" in line.unit) or 0.0
        saves = offer.further_bandwidth_saves
        yield (
            offer.name,
            rate_text(offered * 1e9),
            rate_text(offer.cheapest_bandwidth.write_bytes_per_second),
            amount_text(offer.cheapest_bandwidth.cost),
            UNKNOWN if saves is None else amount_text(saves),
        )


def _change_text(change: RankingChange, report: DecisionReport) -> str:
    first = report.offers[0].name
    than = "more" if change.direction == "above" else "less"
    match change.what:
        case "price":
            return f"{first} cost over {money_text(change.at, report.currency)} more"
        case "per_lost_gpu_hour":
            return f"a GPU-hour cost {than} than {money_text(change.at, report.currency)}"
        case "horizon_seconds":
            return f"costs were counted over {than} than {seconds_text(change.at)}"


def _sources(offer: OfferDecision) -> Iterator[tuple[str, ...]]:
    for workload in offer.workloads:
        yield from ((workload.name, origin.kind, origin.source) for origin in workload.provenance if origin.source)


def _remarks(report: DecisionReport) -> Iterator[str]:
    yield _METHOD
    rests = dict.fromkeys(figure_words(field) for workload in report.offers[0].workloads for field in workload.rests_on)
    if rests:
        yield f"Assumed, and moving the answer most: {', '.join(rests)}"


def _warnings(offer: OfferDecision) -> Iterator[str]:
    for workload in offer.workloads:
        if workload.proposed is not None:
            yield from (f"{workload.name}: {warning}" for warning in workload.proposed.warnings)
