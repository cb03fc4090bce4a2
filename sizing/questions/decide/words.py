"""A decision in words: which offer, its money, what each lacks, what to change, and what would change the ranking."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

from sizing.present.figure_names import figure_name, figure_words
from sizing.present.grids import source_text
from sizing.present.purchase import amount_text, money_text
from sizing.present.rows import UNKNOWN, Grid, Summary
from sizing.present.targets import with_refusal
from sizing.questions.decide.ranking import add_known_costs, list_unknown_costs
from sizing.questions.decide.report import (
    LOST,
    DecisionReport,
    DrawnInput,
    GrownOffer,
    OfferDecision,
    RankingChange,
    Spread,
    WorkloadDecision,
)
from sizing.run.remedies import exact_seconds_text
from sizing.run.request import READ_RATE, WRITE_RATE
from sizing.units import (
    change_text,
    counted_text,
    decimal_bytes_text,
    figure_text,
    min_rate_text,
    percent_text,
    period_text,
    rate_text,
    seconds_text,
)

_NOTHING = "-"
_UNKNOWN_RANGE = "as measured"
_GPU_HOUR = "per_lost_gpu_hour"
_PRICES = "prices."
_SMALL_SHARE = 0.01
"""Shares below are within the error of their estimate."""
_METHOD = (
    "Method: each workload is answered under each offer with every combination of settings, as if it ran alone; "
    "a line of the ledger is quantity x price x times, and GPU time without useful work is lost"
)


def decision_summary(report: DecisionReport) -> Summary:
    """Put a decision into words: the verdict, the offers beside each other, and what would change their order."""
    first = report.offers[0]
    outcomes = [(workload.name, workload.proposed or workload.as_asked) for workload in first.workloads]
    refusals = [f"{name}: {outcome.cannot_run}" for name, outcome in outcomes if outcome and outcome.cannot_run]
    odds_warnings = report.odds.warnings if report.odds else ()
    settings_warnings = [
        f"{workload.name}: {warning}"
        for workload in first.workloads
        if workload.proposed is not None
        for warning in workload.proposed.warnings
    ]
    return Summary(
        headline=f"{counted_text(len(report.offers), 'offer')} over {period_text(report.horizon_seconds)}, "
        f"money in {report.currency}",
        verdict=with_refusal(
            "; ".join(refusals) or None, "\n".join([*_write_verdicts(report), *_write_probability_verdicts(report)])
        ),
        misses=first.verdict != "enough" or bool(refusals),
        grids=(
            _tabulate_offers(report),
            *_tabulate_odds(report),
            *(grid for grid in _list_details(report) if grid.rows),
        ),
        remarks=tuple(_write_remarks(report)),
        problems=tuple(
            (field, f"{offer.name}: {problem}")
            for offer in report.refused_offers
            for field, problem in zip(offer.fields, offer.problems, strict=True)
        ),
        warnings=tuple(dict.fromkeys((*report.warnings, *odds_warnings, *settings_warnings))),
    )


def decision_screen(report: DecisionReport) -> Summary:
    """Reduce the summary to what a decision is made by: verdict, offers, what they lack, and what to change."""
    grids = (
        _tabulate_offers(report),
        *_tabulate_odds(report),
        *(grid for grid in (*_list_gaps(report), tabulate_growth(report), _tabulate_changes(report)) if grid.rows),
    )
    return decision_summary(report)._replace(grids=grids, remarks=())


def _write_verdicts(report: DecisionReport) -> Iterator[str]:
    """Say which offer to take and why, in a few sentences."""
    first, *others = report.offers
    if first.verdict != "enough":
        yield f"No offer is {'enough' if first.verdict == 'not enough' else 'known to be enough'}."
    if first.total is None:
        yield from _compare_known_costs(first, others, report.currency)
    else:
        yield from _compare_totals(report, first.total)
    conditions: dict[str, list[str]] = {}
    for change in report.ranking_changes:
        conditions.setdefault(change.other, []).append(f"if {_write_condition(change, report)}")
    kept: list[str] = []
    for size in report.growth:
        if size.offers[0].verdict != "enough" and first.verdict == "enough":
            yield f"With {size.text} no offer is known to be enough."
        elif size.offers[0].name == first.name:
            kept.append(size.text)
        else:
            conditions.setdefault(size.offers[0].name, []).append(f"with {size.text}")
    yield from (f"{other} would come first {', or '.join(each)}." for other, each in conditions.items())
    if kept:
        yield f"{first.name} stays first with {' and '.join(kept)}."
    reasons = _list_not_judged(report)
    if reasons:
        yield f"Not judged: {'; '.join(reasons)}."


def _list_not_judged(report: DecisionReport) -> list[str]:
    """Name each offer that is not judged, or not whole, with the reason and what it would cost less."""
    because: list[tuple[str, list[str]]] = [
        (f"the price of {refused.name}" if refused.is_judged else refused.name, refused.problems)
        for refused in sorted(report.refused_offers, key=lambda refused: refused.is_judged)
    ]
    first, *others = report.offers
    for offer in others if first.verdict == "not known" else report.offers:
        if offer.verdict == "not known":
            less = (first.total or 0.0) - (offer.total or math.inf)
            cheaper = f", which would cost {money_text(less, report.currency)} less" if less > 0 else ""
            because.append((offer.name + cheaper, offer.missing or ["its targets are not known"]))
        elif offer.verdict == "enough" and offer.total is None and first.total is not None:
            because.append(
                (f"the cost of {offer.name}", [f"this is not known: {' and '.join(list_unknown_costs(offer))}"])
            )
    return [f"{name}, as {' and '.join(reason.rstrip('.') for reason in reasons)}" for name, reasons in because]


def _compare_totals(report: DecisionReport, total: float) -> Iterator[str]:
    """Say which offer costs least and by how much, with the settings proposed and with the current ones."""
    (first, *others), currency = report.offers, report.currency
    cheaper = any(other.total is not None and other.total < total for other in others)
    is_one_unknown = any(other.total is None and other.verdict == first.verdict for other in others)
    least = "costs least of those that are enough" if cheaper and first.verdict == "enough" else "costs least"
    if is_one_unknown:
        least = "costs least of the offers whose cost is known"
    lost = next((line.cost for line in first.ledger if line.kind == LOST), None)
    share = "" if lost is None or not total else f", {percent_text(lost / total)} of it lost GPU time"
    second = next((other.total for other in others if other.verdict == first.verdict and other.total is not None), None)
    name = next((other.name for other in others if other.verdict == first.verdict and other.total is not None), "")
    more = "" if second is None else f"; {name} costs {money_text(second - total, currency)} more"
    more = f"; {name} costs the same" if second == total else more
    yield f"{first.name} {least}: {money_text(total, currency)}{share}{more}."
    yield from _compare_with_current_settings(report, total)


def _compare_known_costs(first: OfferDecision, others: list[OfferDecision], currency: str) -> Iterator[str]:
    """Say what decides where a part of the first offer's cost is not known, and which part that is."""
    known = add_known_costs(first)
    if known is None:
        yield f"{first.name} comes first; what it costs is not known."
        return
    unknown = list_unknown_costs(first)
    alike = [other for other in others if other.verdict == first.verdict]
    compared = [other for other in alike if add_known_costs(other) is not None and list_unknown_costs(other) == unknown]
    yield (
        f"{first.name} costs least by the prices that are known: {money_text(known, currency)}. "
        f"Not known: {' and '.join(unknown)}."
    )
    more = add_known_costs(compared[0]) if compared else None
    if more is not None:
        yield f"{compared[0].name} costs {money_text(more - known, currency)} more, by those prices."
    less_known = [other.name for other in alike if other not in compared]
    if less_known:
        yield f"Of what {' and '.join(less_known)} would cost, less is known."


def _compare_with_current_settings(report: DecisionReport, total: float) -> Iterator[str]:
    """Say what the first offer would cost with the current settings, and which offer would then cost least.

    That may be less: the proposed settings are those that miss fewest targets, and where lost time has no price, of
    these the ones that lose least time.
    """
    offer, as_asked = report.offers[0], report.offers[0].total_as_asked
    if as_asked is None:
        return
    hours = 0.0 if _has_priced_time(offer) else _count_hours_saved(offer)
    before, difference = (money_text(amount, report.currency) for amount in (as_asked, abs(as_asked - total)))
    would = "With your current settings it would"
    if hours > 0:
        more = "more" if total < as_asked else "less"
        costs = f"cost {before}, {difference} {more}, and " if total != as_asked else ""
        yield f"{would} {costs}lose {amount_text(hours)} GPU-hours more."
    elif total < as_asked:
        yield f"{would} cost {before}; the best settings save {difference}."
    elif total > as_asked:
        asked = [workload.as_asked for workload in offer.workloads if workload.as_asked]
        has_missed = any(check.met is False for outcome in asked for check in outcome.targets)
        lacks = "miss more targets" if has_missed else "not hold what is kept"
        yield f"{would} cost {before}, {difference} less, and {lacks}."
    for workload in offer.workloads:
        outcomes = [outcome for outcome in (workload.proposed, workload.as_asked) if outcome]
        kept = [decimal_bytes_text(outcome.kept_weights_bytes) for outcome in outcomes]
        if len(set(kept)) > 1:
            yield f"{workload.name} keeps {kept[0]} of weights for good, and {kept[1]} with your current settings."
    for other in report.offers[1:]:
        if other.name == report.first_as_asked and other.total_as_asked is not None:
            least = money_text(other.total_as_asked, report.currency)
            enough = "enough" if other.verdict_as_asked == "not enough" else "known to be enough"
            none_is = "" if other.verdict_as_asked == "enough" else f"no offer is {enough}, and "
            yield f"With your current settings {none_is}{other.name} would come first, at {least}."


def _has_priced_time(offer: OfferDecision) -> bool:
    return any(line.kind == LOST for line in offer.ledger)


def _count_hours_saved(offer: OfferDecision) -> float:
    """Count the GPU-hours that are lost as asked and not as proposed; 0 where one of both is not known."""
    outcomes = [outcome for workload in offer.workloads for outcome in (workload.as_asked, workload.proposed)]
    lost = [None if outcome is None else outcome.lost_gpu_hours for outcome in outcomes]
    known = [hours for hours in lost if hours is not None]
    return sum(known[::2]) - sum(known[1::2]) if len(known) == len(lost) else 0.0


def _write_remarks(report: DecisionReport) -> Iterator[str]:
    yield _METHOD
    rests = dict.fromkeys(figure_words(field) for workload in report.offers[0].workloads for field in workload.rests_on)
    if rests:
        yield f"Assumed, and moving the answer most: {', '.join(rests)}"


def _tabulate_offers(report: DecisionReport) -> Grid:
    rows: list[tuple[str, ...]] = []
    for offer in report.offers:
        goodputs: list[str] = []
        for workload in offer.workloads:
            name = f"{workload.name} " if len(offer.workloads) > 1 else ""
            fraction = workload.proposed.goodput_fraction if workload.proposed else None
            goodputs.append(name + _known_text(fraction, percent_text))
        rows.append(
            (
                offer.name,
                offer.verdict,
                _known_text(offer.total, amount_text),
                _known_text(offer.total_as_asked, amount_text),
                ", ".join(goodputs),
                "yes" if offer.is_dominated else "no",
            )
        )
    columns = ("offer", "verdict", f"total {report.currency}", "current settings", "goodput", "worse in every way")
    return Grid("Offers, the best first", columns, tuple(rows), frozenset({0}), leads=True)


def _list_details(report: DecisionReport) -> Iterator[Grid]:
    """List the tables below the offers and their odds; those without a row are left out later."""
    sources = [
        (workload.name, origin.kind, source_text(origin.source))
        for workload in report.offers[0].workloads
        for origin in workload.provenance
        if origin.source
    ]
    yield _tabulate_needs(report)
    yield from _list_gaps(report)
    yield _tabulate_changes(report)
    yield _tabulate_ways_back(report)
    yield _tabulate_unanswered(report)
    yield _tabulate_ledgers(report)
    yield _tabulate_capacities(report)
    yield _tabulate_bandwidths(report)
    yield _tabulate_worths(report)
    yield _list_conditions(report)
    yield tabulate_growth(report)
    yield Grid("Sources", ("workload", "kind", "source"), tuple(dict.fromkeys(sources)))


def _list_gaps(report: DecisionReport) -> Iterator[Grid]:
    """List why offers are not judged, or not wholly: what breaks rules, and what is missing."""
    refused = [
        (offer.name, problem, "all but its price" if offer.is_judged else "nothing")
        for offer in report.refused_offers
        for problem in offer.problems
    ]
    missing = [(offer.name, sentence) for offer in report.offers for sentence in offer.missing]
    yield Grid("Incomplete offers", ("offer", "what is wrong", "told of it"), tuple(refused))
    yield Grid("What is missing", ("offer", "what it lacks"), tuple(missing))


def tabulate_growth(report: DecisionReport) -> Grid:
    """Tabulate the offers at each size of the workloads."""
    rows: list[tuple[str, ...]] = []
    for size in report.growth:
        first, *others = size.offers
        more = [f"{each.name}: {_known_text(each.total, amount_text)}, {verdict_text(each)}" for each in others]
        total = _known_text(first.total, amount_text)
        rows.append((size.text, f"{size.num_gpus:,}", first.name, verdict_text(first), total, "; ".join(more)))
    columns = ("size", "GPUs", "first", "verdict", f"total {report.currency}", "others")
    return Grid("Offers as the run grows", columns, tuple(rows))


def verdict_text(offer: GrownOffer) -> str:
    """Write a verdict with what is missed.

    >>> verdict_text(GrownOffer(name="disk", verdict="not enough", total=None, missed=["min_goodput_fraction"]))
    'not enough (misses min goodput)'
    """
    missed = ", ".join(map(figure_words, offer.missed))
    return f"{offer.verdict} (misses {missed})" if missed else offer.verdict


def _list_conditions(report: DecisionReport) -> Grid:
    """List what would put another offer first."""
    changes = [(change.other, _write_condition(change, report)) for change in report.ranking_changes]
    return Grid("What would change the ranking", ("then first", "if"), tuple(changes))


def _list_workloads(report: DecisionReport) -> Iterator[tuple[OfferDecision, WorkloadDecision]]:
    """List every workload under every offer."""
    return ((offer, workload) for offer in report.offers for workload in offer.workloads)


def _tabulate_needs(report: DecisionReport) -> Grid:
    """Tabulate what meets all targets together: of nodes and of writers too, where the offer has such rates."""
    fields = dict.fromkeys((WRITE_RATE, READ_RATE))
    fields |= dict.fromkeys(need.field for _, workload in _list_workloads(report) for need in workload.needs)
    rows: list[tuple[str, ...]] = []
    for offer, workload in _list_workloads(report):
        cells = dict.fromkeys(fields, _NOTHING)
        for need in workload.needs:
            offered = "(offer does not say)" if need.offered is None else f"of {figure_text(need.field, need.offered)}"
            cells[need.field] = f"{figure_text(f'required.{need.field}', need.needed)} {offered}"
        if workload.needs:
            interval = _known_text(workload.needs_interval_seconds, exact_seconds_text)
            rows.append((offer.name, workload.name, *cells.values(), interval))
    columns = ("offer", "workload", *map(figure_words, fields), "interval to take")
    return Grid("Needed together with the proposed settings, and offered", columns, tuple(rows), leads=True)


def _tabulate_changes(report: DecisionReport) -> Grid:
    """Tabulate changed settings and what each saves: money; where lost GPU time has no price, that time too."""
    rows: list[tuple[str, ...]] = []
    for offer, workload in _list_workloads(report):
        for number, change in enumerate(workload.changes):
            saves = _known_text(change.saves, amount_text)
            if change.needs_next_change:
                later = next(each for each in workload.changes[number:] if not each.needs_next_change)
                saves = f"with the {_field_words(later.field)} below"
            if change.gpu_hours_saved is not None and not _has_priced_time(offer):
                hours = f"{amount_text(change.gpu_hours_saved)} GPU-hours"
                saves = f"{hours}, {saves}" if change.saves else hours
            rows.append(
                (
                    offer.name,
                    workload.name,
                    _field_words(change.field),
                    _setting_text(change.field, change.before) + (" (default)" if change.before_is_default else ""),
                    _setting_text(change.field, change.after),
                    saves,
                    f"{change.rests_on.kind} ({source_text(change.rests_on.source)})",
                )
            )
    columns = ("offer", "workload", "setting", "current", "proposed", "saves", "rests on")
    return Grid("Proposed settings", columns, tuple(rows))


def _tabulate_ways_back(report: DecisionReport) -> Grid:
    """Tabulate how a changed interval changes the time until training goes on, and the work that is repeated."""
    rows: list[tuple[str, ...]] = []
    for offer, workload in _list_workloads(report):
        for change in workload.changes:
            before, after = change.way_back_before, change.way_back_after
            if before is None or after is None:
                continue
            redone = [_known_text(way_back.redone_fraction, percent_text) for way_back in (before, after)]
            recovery = [seconds_text(way_back.recovery_seconds) for way_back in (before, after)]
            rows.append(
                (
                    offer.name,
                    workload.name,
                    _field_words(change.field),
                    change_text(*recovery),
                    change_text(*redone, of=" of the time"),
                )
            )
    columns = ("offer", "workload", "setting", "recovery", "work repeated")
    return Grid("Way back from a failure", columns, tuple(rows))


def _tabulate_unanswered(report: DecisionReport) -> Grid:
    rows: list[tuple[str, ...]] = []
    for offer, workload in _list_workloads(report):
        for unanswered in workload.unanswered:
            combinations = [
                ", ".join(f"{_field_words(field)} {_setting_text(field, value)}" for field, value in settings.items())
                for settings in unanswered.settings
            ]
            settings_words = "; ".join(words or "current settings" for words in combinations)
            rows.append((offer.name, workload.name, settings_words, unanswered.why))
    return Grid("Settings without an answer", ("offer", "workload", "settings", "why"), tuple(rows))


def _field_words(field: str) -> str:
    """Name a setting in words; a setting of a tier with the place of the tier.

    >>> _field_words("checkpoint.interval_seconds"), _field_words("checkpoint.tiers.0.interval_seconds")
    ('interval', 'interval of tier 1')
    """
    words, place = figure_words(field), field.split(".")[-2]
    return f"{words} of tier {int(place) + 1}" if place.isdecimal() else words


def _setting_text(field: str, value: object) -> str:
    if isinstance(value, list) and all(isinstance(each, dict) and "kind" in each for each in value):
        return ", ".join(tier["kind"] for tier in value) or "none"
    return _NOTHING if value is None else figure_text(field, value)


def _tabulate_ledgers(report: DecisionReport) -> Grid:
    rows = tuple(
        (
            offer.name,
            line.name,
            UNKNOWN if line.quantity is None else f"{_number_text(line.quantity)} {line.unit}",
            _number_text(line.amount),
            _number_text(line.times),
            _known_text(line.cost, amount_text),
        )
        for offer in report.offers
        for line in offer.ledger
    )
    return Grid("Ledger", ("offer", "for", "quantity", "price of one", "times", report.currency), rows)


def _number_text(number: float) -> str:
    """Write a number with four digits; one of 1,000 or more with all whole digits.

    >>> _number_text(0.98563), _number_text(23486.6)
    ('0.9856', '23,487')
    """
    return f"{number:,.0f}" if abs(number) >= 1000 else f"{number:.4g}"


def _tabulate_capacities(report: DecisionReport) -> Grid:
    rows: list[tuple[str, ...]] = []
    for offer, workload in _list_workloads(report):
        capacities = workload.capacity_over_time
        if not capacities:
            continue
        half = next(at for at in capacities if at.at_seconds >= capacities[-1].at_seconds / 2)
        full = workload.capacity_full_seconds
        rows.append(
            (
                offer.name,
                workload.name,
                _NOTHING if offer.capacity_bytes is None else decimal_bytes_text(offer.capacity_bytes),
                *(decimal_bytes_text(at.usable_bytes) for at in (half, capacities[-1])),
                "never" if full is None else seconds_text(full),
            )
        )
    columns = ("offer", "workload", "offered", "half way", "at the end", "full after")
    return Grid("Capacity over time", columns, tuple(rows))


def _tabulate_bandwidths(report: DecisionReport) -> Grid:
    """Tabulate the bandwidth at which each offer misses no target and costs least, at its price per GB/s."""
    rows: list[tuple[str, ...]] = []
    for offer in report.offers:
        if offer.cheapest_bandwidth is None:
            continue
        offered = next(line.quantity for line in offer.ledger if "GB/s" in line.unit) or 0.0
        rows.append(
            (
                offer.name,
                rate_text(offered * 1e9),
                min_rate_text(offer.cheapest_bandwidth.write_bytes_per_second),
                amount_text(offer.cheapest_bandwidth.cost),
                _known_text(offer.further_bandwidth_saves, amount_text),
            )
        )
    columns = ("offer", "offered", "cheapest", f"{report.currency} then", "1 GB/s more saves")
    return Grid("Bandwidth at its price per GB/s", columns, tuple(rows))


def _tabulate_worths(report: DecisionReport) -> Grid:
    rows: list[tuple[str, ...]] = []
    for offer in report.offers:
        if offer.further_bandwidth_saves is not None:
            rows.append((offer.name, "1 GB/s more", amount_text(offer.further_bandwidth_saves)))
        rows += ((offer.name, worth.what, amount_text(worth.saves)) for worth in offer.worths)
    return Grid("What more would be worth", ("offer", "more", "saves"), tuple(rows))


def _write_condition(change: RankingChange, report: DecisionReport) -> str:
    """Write under which condition another offer would be first."""
    first = report.offers[0].name
    than = "more" if change.direction == "above" else "less"
    match change.what:
        case "price":
            return f"{first} cost over {money_text(change.at, report.currency)} more"
        case "per_lost_gpu_hour":
            return f"a GPU-hour cost {than} than {money_text(change.at, report.currency)}"
        case "horizon_seconds":
            return f"costs were counted over {than} than {period_text(change.at)}"


def _write_probability_verdicts(report: DecisionReport) -> Iterator[str]:
    """Say how sure the first offer is, in at most three sentences."""
    odds = report.odds
    if odds is None:
        return
    first = odds.offers[0]
    if first.best_probability is not None:
        draws = f"{odds.num_draws:,} draws"
        ends = first.best_interval
        interval = f" (95 % interval {percent_text(ends.low)} to {percent_text(ends.high)})" if ends else ""
        share = percent_text(first.best_probability)
        yield f"In {share} of {draws}{interval} it is enough and costs least of those that are."
    if first.total is not None:
        half, high = (money_text(amount, report.currency) for amount in (first.total.p50, first.total.p95))
        yield f"Half of the draws cost over {half}, one of twenty over {high}."
    if odds.measure_next is not None:
        share = percent_text(odds.measure_next.total_fraction or 0.0)
        name = _input_words(report, odds.measure_next)
        yield f"Worth measuring next: {name}, {share} of the variance of {odds.variance_of}."


def _tabulate_odds(report: DecisionReport) -> Iterator[Grid]:
    """Tabulate the odds of the offers and of their targets, goodput, and the inputs that were drawn."""
    odds = report.odds
    if odds is None:
        return
    offers: list[tuple[str, ...]] = []
    targets: list[tuple[str, ...]] = []
    goodputs: list[tuple[str, ...]] = []
    for offer in odds.offers:
        probabilities = (offer.enough_probability, offer.cheapest_probability, offer.best_probability)
        shares = (_known_text(probability, percent_text) for probability in probabilities)
        offers.append((offer.name, *shares, *_quantile_texts(offer.total, amount_text)))
        for target in offer.targets:
            met = _known_text(target.met_probability, percent_text)
            targets.append((offer.name, target.workload, figure_words(target.target), met))
        for goodput in offer.goodputs:
            quantiles = _quantile_texts(goodput.goodput_fraction, percent_text)
            goodputs.append((offer.name, goodput.workload, *quantiles))
    columns = ("offer", "enough", "cheapest", "best", f"total {report.currency}, 5 %", "half", "95 %")
    yield Grid(f"Odds in {odds.num_draws:,} draws", columns, tuple(offers), frozenset({0}))
    if targets:
        yield Grid("Odds of each target", ("offer", "workload", "target", "met"), tuple(targets))
    yield Grid("Goodput in these draws", ("offer", "workload", "5 %", "half", "95 %"), tuple(goodputs))
    yield _tabulate_inputs(report, odds.inputs, f"Shares of the variance of {odds.variance_of}")


def _tabulate_inputs(report: DecisionReport, inputs: list[DrawnInput], title: str) -> Grid:
    rows: list[tuple[str, ...]] = []
    for drawn in inputs:
        is_money = drawn.field.startswith((_PRICES, _GPU_HOUR))
        ends = [
            _UNKNOWN_RANGE if end is None else amount_text(end) if is_money else figure_text(drawn.field, end)
            for end in (drawn.low, drawn.high)
        ]
        shares = [_known_text(share, _variance_text) for share in (drawn.first_order_fraction, drawn.total_fraction)]
        rows.append((_input_words(report, drawn), *ends, *shares))
    return Grid(title, ("input", "from", "to", "alone", "with others"), tuple(rows))


def _input_words(report: DecisionReport, drawn: DrawnInput) -> str:
    """Name an input, and the offer that it belongs to."""
    if drawn.field == _GPU_HOUR:
        return "price of a GPU-hour"
    of_offer = f" of {drawn.offer}" if drawn.offer else ""
    if not drawn.field.startswith(_PRICES):
        return figure_name(drawn.field) + of_offer
    offer = next(each for each in report.offers if each.name == drawn.offer)
    place = int(drawn.field.removeprefix(_PRICES).split(".")[0])  # prices come first in a ledger, in their order
    return f"price {offer.ledger[place].name if offer.ledger else place}{of_offer}"


def _quantile_texts(spread: Spread | None, text: Callable[[float], str]) -> tuple[str, ...]:
    return (UNKNOWN,) * 3 if spread is None else tuple(map(text, (spread.p5, spread.p50, spread.p95)))


def _variance_text(fraction: float) -> str:
    return percent_text(fraction) if fraction >= _SMALL_SHARE else f"below {percent_text(_SMALL_SHARE)}"


def _known_text(figure: float | None, text: Callable[[float], str]) -> str:
    return UNKNOWN if figure is None else text(figure)
