"""A decision for those who pay: the recommendation, three costs of each offer, what would change it, one caveat.

Every word is one that a reader knows who has never trained a model.
"""

from __future__ import annotations

from collections.abc import Iterator

from sizing.present.document import Briefing
from sizing.present.purchase import amount_text, money_text
from sizing.present.rows import UNKNOWN, Grid
from sizing.questions.decide.report import (
    LOST,
    UNPRICED,
    CostKind,
    DecisionReport,
    GrowthOutcome,
    OfferDecision,
    RankingChange,
    Subject,
    Verdict,
)
from sizing.units import counted_text, percent_text, period_text

_COSTS: dict[CostKind, str] = {"capital": "Capital", "operation": "Operation", LOST: "Lost GPU time"}
_DOES_IT: dict[Verdict, str] = {"enough": "yes", "not enough": "no", "not known": UNKNOWN}
_MAX_OFFERS = 5
"""Offers that a page holds beside the rest, the best ones."""
_SCALES = ((1e12, " trillion"), (1e9, " billion"), (1e6, " million"))


def brief_decision(report: DecisionReport) -> Briefing:
    """Brief those who pay on a decision."""
    return Briefing(
        recommendation=f"Recommendation: {recommend(report.offers[0])}",
        reasons=(*list_reasons(report), *name_others(report)),
        facts=tuple(list_facts(report)),
        grids=tuple(grid for grid in (tabulate_costs(report), tabulate_conditions(report)) if grid.rows),
        caveat=write_caveat(report),
    )


def recommend(first: OfferDecision) -> str:
    """Recommend the offer that comes first, where it does what is required."""
    outcomes = [workload.proposed or workload.as_asked for workload in first.workloads]
    if any(outcome is not None and outcome.cannot_run for outcome in outcomes):
        return "wait, as the training cannot run as it is planned"
    if first.verdict == "enough":
        return f"choose {first.name}"
    if first.verdict == "not enough":
        return "choose none of these offers as they are"
    return "wait, as no offer is known to do what is required"


def list_reasons(report: DecisionReport) -> Iterator[str]:
    """Say what the first offer costs, by how much it wins, and the same with the settings of today."""
    first, currency, period = report.offers[0], report.currency, period_text(report.horizon_seconds)
    total, as_asked = first.total, first.total_as_asked
    if total is None:
        yield f"What {first.name} costs over {period} is not known in full: the table says which part is missing."
        return
    lead = ""
    for other in report.offers[1:]:
        if other.verdict == first.verdict and other.total and not lead:
            less = other.total - total
            percent = percent_text(less / other.total)
            lead = f", {money_text(less, currency)} ({percent}) less than {other.name}"
            lead = lead if less else f", as much as {other.name}"
    yield f"{first.name} costs {money_text(total, currency)} over {period}{lead}."
    if as_asked is None or as_asked == total:
        return
    saves = "save" if total < as_asked else "cost"
    amount = money_text(abs(as_asked - total), currency)
    yield f"That is with the best settings, which {saves} {amount} against your current settings."
    for other in report.offers[1:]:
        if other.name == report.first_as_asked and other.total_as_asked is not None:
            least = money_text(other.total_as_asked, currency)
            yield f"With your current settings {other.name} would cost least, {least}."


def name_others(report: DecisionReport) -> Iterator[str]:
    """Name the offers that are not compared, each with its reason, in one sentence."""
    reasons = [f"{each.name}, as its entries break rules" for each in report.refused_offers if not each.is_judged]
    for offer in report.offers:
        if any(line.kind == UNPRICED for line in offer.ledger):
            reasons.append(f"{offer.name}, as no price of it is known")
        elif offer.verdict == "not known":
            reasons.append(f"{offer.name}, as figures are missing that say what it can do")
        elif offer.total is None and offer is not report.offers[0]:
            reasons.append(f"{offer.name}, as a part of its cost is not known")
    if reasons:
        yield f"Not compared: {'; '.join(reasons)}. The next page says what is missing."


def list_facts(report: DecisionReport) -> Iterator[tuple[str, str]]:
    """List author, period, currency, and the clusters and models of the workloads."""
    if report.author:
        yield "Author", report.author
    yield "Period", period_text(report.horizon_seconds)
    yield "Currency", report.currency
    clusters = dict.fromkeys(
        f"{counted_text(each.num_gpus, 'GPU')} in {counted_text(each.num_nodes, 'node')}, {each.node}"
        for each in report.subjects
    )
    yield from (("Cluster", text) for text in clusters)
    yield from (("Model", text) for text in dict.fromkeys(map(model_text, report.subjects)))


def model_text(subject: Subject) -> str:
    """Name a model and its size.

    >>> sizes = dict(workload="run", node="dgx-h200", num_nodes=1, num_gpus=8)
    >>> model_text(Subject(model="llama-3.1-405b", num_parameters=405_853_388_800, **sizes))
    'llama-3.1-405b, 406 billion parameters'
    """
    count = subject.num_parameters
    scale, word = next(((scale, word) for scale, word in _SCALES if count >= scale), (1, ""))
    size = f"{count / scale:.3g}{word} parameters"
    return size if "parameters" in subject.model else f"{subject.model}, {size}"


def tabulate_costs(report: DecisionReport) -> Grid:
    """Tabulate capital, operation and lost GPU time of each offer over the period."""
    kinds = [kind for kind in _COSTS if kind != LOST or report.per_lost_gpu_hour is not None]
    rows: list[tuple[str, ...]] = []
    for offer in report.offers[:_MAX_OFFERS]:
        costs = {
            kind: [line.cost for line in offer.ledger if line.kind in {kind, UNPRICED if kind != LOST else kind}]
            for kind in kinds
        }
        amounts = [None if None in each or not offer.ledger else sum(filter(None, each)) for each in costs.values()]
        amounts += [offer.total, offer.total_as_asked]
        texts = [UNKNOWN if amount is None else amount_text(amount, of=offer.total or 0.0) for amount in amounts]
        rows.append((offer.name, *texts, _DOES_IT[offer.verdict]))
    columns = ("Offer", *(_COSTS[kind] for kind in kinds), "Total", "With current settings", "Sufficient")
    num_further = len(report.offers) - _MAX_OFFERS
    further = f"; {counted_text(num_further, 'further offer')} on the next pages" if num_further > 0 else ""
    title = f"Cost over {period_text(report.horizon_seconds)}, {report.currency}{further}"
    return Grid(title, columns, tuple(rows), frozenset({0}))


def tabulate_conditions(report: DecisionReport) -> Grid:
    """Tabulate from which price and period on another offer would cost less, and which is best as the run grows."""
    rows = [condition_row(change, report) for change in report.ranking_changes]
    for size in report.growth:
        best = size.offers[0]
        cost = "" if best.total is None else f", {money_text(best.total, report.currency)}"
        rows.append((*size_cells(size, report), f"{best.name}{cost}" if best.verdict == "enough" else "none"))
    columns = ("If this changes", "from", "to", "best offer")
    return Grid("When prices change or the run grows", columns, tuple(rows))


def size_cells(size: GrowthOutcome, report: DecisionReport) -> tuple[str, str, str]:
    """Write what grows, from which size to which."""
    each_year = f", x{size.times:g} in each year" if size.is_per_year else ""
    if size.of == "gpus":
        return f"GPUs{each_year}", f"{report.max_num_gpus:,}", f"{size.num_gpus:,}"
    return (
        f"Size of the model{each_year}",
        "as now",
        f"x{size.times:g}" if not each_year else "at the end of the period",
    )


def condition_row(change: RankingChange, report: DecisionReport) -> tuple[str, ...]:
    """Write what would have to change, from which value to which, and the offer that would then be best."""
    first, currency = report.offers[0], report.currency
    match change.what:
        case "price":
            name = f"Price of {first.name}"
            now = sum(line.cost or 0.0 for line in first.ledger if line.kind != LOST)
            texts = [money_text(amount, currency) for amount in (now, now + change.at)]
        case "per_lost_gpu_hour":
            name = "Price of a GPU-hour"
            texts = [money_text(amount, currency) for amount in (report.per_lost_gpu_hour or 0.0, change.at)]
        case "horizon_seconds":
            name = "Period"
            texts = [period_text(seconds) for seconds in (report.horizon_seconds, change.at)]
    side = "or more" if change.direction == "above" else "or less"
    return name, texts[0], f"{texts[1]} {side}", change.other


def write_caveat(report: DecisionReport) -> str:
    """Say the one thing that a reader must know before relying on the page."""
    rests = "The next pages say what the figures rest on."
    if report.per_lost_gpu_hour is None:
        return f"Caveat: GPU time that is lost has no price here, so what costs least may be the slowest. {rests}"
    price = money_text(report.per_lost_gpu_hour, report.currency)
    return (
        f"Caveat: these are estimates. Lost GPU time is what GPUs cost, {price} for an hour of each, while they wait, "
        f"save their work, or repeat work that a failure undid; how often failures come is an estimate too. {rests}"
    )
