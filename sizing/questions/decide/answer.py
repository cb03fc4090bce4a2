"""The answer of a decision: each workload under each offer with its best settings, and the offers in order."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sizing.cluster.cluster import num_storage_nics
from sizing.errors import InvalidInput
from sizing.field_paths import with_field
from sizing.questions.chunks import ItemRange, Progress
from sizing.questions.decide.draws import Draws, DrawsPart
from sizing.questions.decide.ledger import CostsOf, add_known, bill_workload, make_cost_function, report_ledger
from sizing.questions.decide.offers import Offer
from sizing.questions.decide.probability import report_odds
from sizing.questions.decide.ranking import find_first_as_asked, find_ranking_changes, is_dominated, rank_offers
from sizing.questions.decide.report import (
    LOST,
    Change,
    DecisionReport,
    GrownOffer,
    GrowthOutcome,
    OfferDecision,
    Outcome,
    Subject,
    Unanswered,
    Verdict,
    WorkloadDecision,
)
from sizing.questions.decide.request import (
    BACKGROUND_RATES,
    RUN_SECONDS,
    DecisionRequest,
    Workload,
)
from sizing.questions.decide.settings import (
    TIERS,
    Choice,
    OfferAnswer,
    Trials,
    WorkloadAnswer,
    choose,
    explain_changes,
    list_alternatives,
    list_free_settings,
    require_layout,
)
from sizing.questions.decide.upgrades import (
    CAPACITY,
    find_needed_rates,
    find_needs,
    trace_bandwidth_cost,
    value_additions,
)
from sizing.report import answer, find_layout
from sizing.run.request import INTERVAL, READ_RATE, WRITE_RATE
from sizing.run.retention import Held, held_over_time
from sizing.sized_layout import size_layout
from sizing.storage.storage import resolve_storage
from sizing.units import decimal_bytes_text, figure_text, rate_text

_MAX_RESTS_ON = 3
"""Assumed inputs that are named: those that move the answer most."""


class DecisionWork:
    """A decision, whose draws are cut into chunks where it has some. Raises InvalidInput where it has no answer.

    >>> from sizing.questions.decide.request import REFERENCE_DECISION
    >>> from sizing.questions.registry import DECIDE
    >>> report = DECIDE.answer(REFERENCE_DECISION)
    >>> [(offer.name, offer.verdict) for offer in report.offers]
    [('parallel file system', 'enough'), ('all flash', 'enough')]
    """

    part = DrawsPart

    def __init__(self, request: DecisionRequest) -> None:
        self._request, self._assumed = _lay_out(request)
        decisions, self._answers = [], {}
        for offer in self._request.offers:
            decision, self._answers[offer.name] = _decide_offer(self._request, offer)
            decisions.append(decision)
        self._offers = rank_offers(
            [each.model_copy(update={"is_dominated": is_dominated(each, decisions)}) for each in decisions]
        )
        odds, ranked = self._request.odds, [self._answers[offer.name] for offer in self._offers]
        self._draws = Draws(self._request, ranked, num_draws=odds.num_draws, seed=odds.seed) if odds else None

    @property
    def chunks(self) -> Sequence[ItemRange]:
        """Ranges of draws; one range of nothing where nothing is drawn."""
        return self._draws.chunks if self._draws else [ItemRange(0, 0)]

    def compute(self, items: ItemRange, progress: Progress) -> DrawsPart:
        """Answer the draws of a range, with the settings that are proposed."""
        return self._draws.count(items, progress) if self._draws else DrawsPart(num_draws=0, offers=[])

    def merge(self, parts: Iterable[DrawsPart]) -> DecisionReport:
        """Report the decision, and how sure it is."""
        counted = functools.reduce(DrawsPart.plus, parts)
        request, offers = self._request, self._offers
        reports = {each.workload.name: each.report for offer in self._answers.values() for each in offer.workloads}
        names = [workload.name for workload in request.workloads]
        return DecisionReport(
            author=request.author,
            per_lost_gpu_hour=request.per_lost_gpu_hour,
            subjects=[Subject.of(name, reports[name]) for name in names if name in reports],
            first_as_asked=find_first_as_asked(offers),
            currency=request.currency,
            horizon_seconds=request.horizon_seconds,
            max_num_gpus=max(workload.scenario.parallelism.num_gpus for workload in request.workloads),
            offers=offers,
            refused_offers=list(request.refused_offers),
            ranking_changes=list(find_ranking_changes(request, offers)),
            growth=list(compare_grown(request)),
            odds=report_odds(self._draws, counted) if self._draws else None,
            warnings=[*self._assumed, *_list_warnings(request)],
        )


def compare_grown(request: DecisionRequest) -> Iterator[GrowthOutcome]:
    """Rank the offers at each size to which the workloads may grow; their layouts must be complete."""
    for times, is_per_year, grown in request.grown_requests():
        offers = rank_offers([_decide_offer(grown, offer)[0] for offer in grown.offers])
        yield GrowthOutcome(
            of=request.growth.of if request.growth else "gpus",
            times=times,
            is_per_year=is_per_year,
            num_gpus=max(workload.scenario.parallelism.num_gpus for workload in grown.workloads),
            offers=[
                GrownOffer(name=each.name, verdict=each.verdict, total=each.total, missed=list_missed(each))
                for each in offers
            ],
        )


def list_missed(offer: OfferDecision) -> list[str]:
    """List the targets that some workload misses, and capacity_bytes where the offer does not hold what is kept."""
    outcomes = [workload.proposed for workload in offer.workloads if workload.proposed]
    missed = [check.target for outcome in outcomes for check in outcome.targets if check.met is False]
    needs = [need for workload in offer.workloads for need in workload.needs if need.field == CAPACITY]
    short = [need.field for need in needs if need.offered is not None and need.needed > need.offered]
    return list(dict.fromkeys((*missed, *short)))


def _lay_out(request: DecisionRequest) -> tuple[DecisionRequest, list[str]]:
    """Find a layout for each workload that leaves it open, and say which that is.

    Raises InvalidInput for a workload that has no layout, whatever the settings and the offer.
    """
    alternatives = list(list_alternatives(list_free_settings(request.settings, {}, drops_tiers=False)))
    workloads: list[Workload] = []
    assumed: list[str] = []
    for place, workload in enumerate(request.workloads):
        try:
            with_layout = find_layout(workload.scenario)
            require_layout(with_layout.scenario, alternatives)
        except InvalidInput as error:
            raise error.within(f"workloads.{place}.scenario") from None
        workloads.append(workload.model_copy(update={"scenario": with_layout.scenario}))
        assumed += (f"{workload.name}: assumed {assumption.sentence}" for assumption in with_layout.assumed)
    return request.model_copy(update={"workloads": tuple(workloads)}), assumed


def _list_warnings(request: DecisionRequest) -> Iterator[str]:
    if request.per_lost_gpu_hour is None:
        yield (
            "Lost GPU time is not priced: settings are those that lose least of it, and the cheapest offer may be the "
            "slowest. Give per_lost_gpu_hour"
        )
    with_wrong_prices = {offer.name for offer in request.refused_offers}
    unpriced = [offer.name for offer in request.offers if not offer.prices and offer.name not in with_wrong_prices]
    if unpriced:
        yield f"Offers without prices: {', '.join(unpriced)}. What they cost is not known; give prices"
    rented = [
        offer.name
        for offer in request.offers
        if offer.capacity_bytes is None
        and any(price.per == "terabyte" and price.every != "once" and not price.tier for price in offer.prices)
    ]
    if rented and any(each.scenario.retention.keep_weights_every is not None for each in request.workloads):
        yield (
            f"Rented by the terabyte: {', '.join(rented)}. Each month or year is counted with the capacity at the end "
            "of the horizon; weights that are kept for good grow until then, so a bill for what is held from month to "
            "month is less"
        )
    tiers = [tier for offer in request.offers for tier in offer.tiers or ()]
    tiers += [tier for workload in request.workloads for tier in workload.scenario.checkpoint.tiers]
    for kind in sorted({tier.kind for tier in tiers if tier.cost_per_terabyte is not None}):
        yield (
            f"Tier {kind}: its cost_per_terabyte counts once, however long the horizon. Of a rent give instead a price "
            f"per terabyte with tier {kind} and every: month"
        )
    prices = [price for offer in request.offers for price in offer.prices]
    counts_nics_of_cluster = any(price.per == "nic" and price.per_node is None for price in prices)
    for workload in request.workloads:
        yield from _warn_of_busy_hours(workload)
        if counts_nics_of_cluster and num_storage_nics(workload.scenario.cluster, 1) is None:
            yield (
                f"{workload.name}: nothing says how many NICs its nodes have for storage, so no total has their price. "
                "Give cluster.storage_nics, or per_node of the price"
            )
    share = sum(workload.share_fraction for workload in request.workloads)
    if share < 1 - 1e-9:
        yield f"Workloads fill {share:.0%} of the horizon; for the rest no GPU time is lost"


def _warn_of_busy_hours(workload: Workload) -> Iterator[str]:
    """Say which hours decide, where the background load changes over the day."""
    for name in BACKGROUND_RATES if workload.shared.over_the_day else ():
        busiest = workload.shared.peak_load(name)
        if busiest is not None and busiest.hours is not None:
            way = name.split("_", 1)[0]
            yield (
                f"{workload.name}: others {way} most, {busiest.sentence}; what they leave then decides targets and "
                "lost time all day"
            )


@dataclass(frozen=True)
class _Pair:
    """A workload under an offer, answered with its own settings and with those proposed; None without an answer.

    `is_taken`: the background load takes all of the storage.
    """

    workload: Workload
    as_asked: WorkloadAnswer | None
    proposed: WorkloadAnswer | None
    why_none: str
    is_taken: bool
    decision: WorkloadDecision


def _decide_offer(request: DecisionRequest, offer: Offer) -> tuple[OfferDecision, OfferAnswer]:
    pairs: list[_Pair] = []
    for workload in request.workloads:
        pairs.append(_decide_workload(request, offer, workload, pairs))
    proposed = _require_all([each.proposed for each in pairs])
    as_asked = _require_all([each.as_asked for each in pairs])
    missing = [sentence for each in pairs for sentence in _list_missing(offer, each)]
    unknown = [sentence for each in pairs for sentence in _list_unknown(each)]
    own = [dataclasses.replace(each, proposed=each.as_asked) for each in pairs]
    lines = list(report_ledger(request, offer, [each.bill for each in proposed])) if proposed else []
    curve = trace_bandwidth_cost(request, offer, proposed, lines)
    decision = OfferDecision(
        name=offer.name,
        verdict=_judge(missing, pairs),
        missing=[*missing, *unknown],
        capacity_bytes=offer.capacity_bytes,
        total=add_known(line.cost for line in lines),
        verdict_as_asked=_judge([sentence for each in own for sentence in _list_missing(offer, each)], own),
        total_as_asked=add_known(line.cost for line in report_ledger(request, offer, [each.bill for each in as_asked])),
        lost_gpu_hours=add_known(each.bill.lost_hours for each in proposed),
        ledger=lines,
        workloads=[each.decision for each in pairs],
        is_dominated=False,
        bandwidth_costs=curve.costs,
        cheapest_bandwidth=curve.cheapest,
        further_bandwidth_saves=curve.further_bandwidth_saves,
        worths=value_additions(request, offer, proposed),
    )
    return decision, OfferAnswer(offer, proposed)


def _require_all(answered: Sequence[WorkloadAnswer | None]) -> list[WorkloadAnswer]:
    """Return the answers of all workloads; an empty list where one of them has no answer."""
    known = [each for each in answered if each is not None]
    return known if len(known) == len(answered) else []


def _judge(missing: Sequence[str], pairs: Sequence[_Pair]) -> Verdict:
    """Judge whether an offer is enough.

    That is not known where an input lacks for an answer. The offer is not enough where the background load takes all.
    """
    if any(each.proposed is None and not each.is_taken for each in pairs):
        return "not known"
    if missing:
        return "not enough"
    checks = [check for each in pairs if each.proposed for check in each.proposed.report.targets]
    return "enough" if all(check.met is not None for check in checks) else "not known"


def _list_missing(offer: Offer, pair: _Pair) -> Iterator[str]:
    """Say what the offer lacks for a workload, whatever the settings."""
    name, best = pair.workload.name, pair.proposed
    if best is None:
        yield f"{name}: no settings have an answer: {pair.why_none}"
        return
    for check in best.report.targets:
        if check.met is False and check.found is not None:
            path = f"targets.{check.target}"
            found, wanted = figure_text(path, check.found), figure_text(path, check.wanted)
            yield f"{name}: {check.target} is {found}, asked {wanted}{f': {check.remedy}' if check.remedy else ''}"
    needed, left = (float(np.asarray(number)) for number in (best.bill.held_bytes, best.bill.left_bytes))
    if offer.capacity_bytes is not None and needed > offer.capacity_bytes:
        offered = decimal_bytes_text(offer.capacity_bytes)
        beside = f" beside {decimal_bytes_text(left)} of weights kept before" if left else ""
        yield f"{name}: keeps {decimal_bytes_text(needed - left)}{beside}, and {offered} are offered"


def _list_unknown(pair: _Pair) -> Iterator[str]:
    """Say which targets cannot be judged, and which input lacks."""
    best = pair.proposed
    if best is None:
        return
    report, reliability = best.report, best.scenario.reliability
    inputs: list[str] = []
    if report.write is None:
        inputs.append(WRITE_RATE)
    if report.restore.seconds is None and (reliability is None or reliability.restart_seconds is None):
        inputs.append(READ_RATE)
    if reliability is None:
        inputs.append("reliability")
    without = f" without {' and '.join(inputs)}" if inputs else ""
    unknown = [check.target for check in report.targets if check.met is None]
    for name in unknown or ([LOST] if best.bill.lost_gpu_hours is None and inputs else []):
        yield f"{pair.workload.name}: {name} is not known{without}"


def _decide_workload(request: DecisionRequest, offer: Offer, workload: Workload, earlier: Sequence[_Pair]) -> _Pair:
    """Answer a workload with its own settings, and with those that miss fewest targets and cost least.

    Weights that earlier workloads keep for good are on the storage too.
    """
    try:
        document = _write_document(request, offer, workload)
    except InvalidInput as error:
        taken = _report_workload(request, offer, workload, None, None, [], [])
        return _Pair(workload, None, None, str(error), True, taken)

    left_bytes = _add_kept_bytes(each.proposed for each in earlier)
    costs = make_cost_function(request, workload, offer, left_bytes=left_bytes)

    def answer_with(choice: Choice | None, left_bytes: float) -> WorkloadAnswer | None:
        if choice is None:
            return None
        report, layout = answer(choice.scenario), size_layout(choice.scenario)
        bill = bill_workload(request, workload, offer, layout.workload, report, left_bytes=left_bytes)
        return WorkloadAnswer(workload, choice, report, bill)

    trials = _try_settings(request, offer, document, costs)
    as_asked = answer_with(trials.own, _add_kept_bytes(each.as_asked for each in earlier))
    proposed = answer_with(trials.best, left_bytes)
    origins = proposed.report.provenance if proposed else []
    changes = list(explain_changes(document, workload.scenario, trials, costs, origins))
    why_none = trials.unanswered[-1].why if trials.unanswered else ""
    decision = _report_workload(request, offer, workload, as_asked, proposed, changes, trials.unanswered)
    return _Pair(workload, as_asked, proposed, why_none, False, decision)


def _add_kept_bytes(answers: Iterable[WorkloadAnswer | None]) -> float:
    return sum(float(np.asarray(each.bill.kept_bytes)) for each in answers if each)


def _try_settings(request: DecisionRequest, offer: Offer, document: Mapping[str, Any], costs: CostsOf) -> Trials:
    """Answer a workload with each combination of the settings that may be chosen."""
    why: dict[str, list[dict[str, Any]]] = {}

    def try_to_choose(settings: dict[str, Any], *, is_free: bool) -> Choice | None:
        try:
            return choose(document, settings, costs=costs, is_free=is_free)
        except InvalidInput as error:
            why.setdefault(str(error), []).append(settings)
            return None

    own = try_to_choose({}, is_free=False)
    free = list_free_settings(request.settings, document, drops_tiers=offer.tiers_are_optional)
    choices = [try_to_choose(settings, is_free=request.chooses_interval) for settings in list_alternatives(free)]
    best = min(filter(None, [own, *choices]), key=lambda choice: choice.score.rank, default=None)
    return Trials(own, best, [Unanswered(settings=settings, why=because) for because, settings in why.items()])


def _write_document(request: DecisionRequest, offer: Offer, workload: Workload) -> dict[str, Any]:
    """Write the workload's scenario on the offer's storage, less the background load in its busiest hours.

    Weights that are kept for good grow over the workload's part of the horizon, where it says no length of the run.
    Raises InvalidInput where others take all of it.
    """
    document = workload.scenario.model_dump(exclude_unset=True)
    retention = workload.scenario.retention
    if retention.keep_weights_every is not None and retention.run_seconds is None:
        document = with_field(document, RUN_SECONDS, workload.share_fraction * request.horizon_seconds)
    document["storage"] = offer.storage.model_dump(exclude_unset=True)
    tiers = workload.scenario.checkpoint.tiers if offer.tiers is None else offer.tiers
    if tiers or offer.tiers is not None:
        document = with_field(document, TIERS, [tier.model_dump(mode="json", exclude_unset=True) for tier in tiers])
    taken = {path: workload.shared.peak_load(name) for name, path in BACKGROUND_RATES.items()}
    if not any(taken.values()):
        return document
    storage = resolve_storage(offer.storage)
    profile = storage.profile.model_dump(exclude_none=True) if storage else {}
    for path, busiest in taken.items():
        name = path.rsplit(".", 1)[1]
        if busiest is None or name not in profile:
            continue
        if busiest.bytes_per_second >= profile[name]:
            raise InvalidInput.of(
                f"shared.{name}",
                f"must be less than the {rate_text(profile[name])} of {offer.name}",
                value=busiest.sentence,
                remedy="leave checkpoints a part of it, or offer more",
            )
        profile[name] -= busiest.bytes_per_second
    document["storage"] = {"profile": profile} | ({"io": storage.io} if storage else {})
    return document


def _report_workload(
    request: DecisionRequest,
    offer: Offer,
    workload: Workload,
    as_asked: WorkloadAnswer | None,
    proposed: WorkloadAnswer | None,
    changes: list[Change],
    unanswered: list[Unanswered],
) -> WorkloadDecision:
    held, interval = Held([], None), None
    rates: Mapping[str, float] = {}
    if proposed:
        rates = find_needed_rates(proposed.run, is_free=request.chooses_interval)
        interval = rates.get(INTERVAL, proposed.scenario.checkpoint.interval_seconds) if rates else None
        retention, answered = proposed.scenario.retention, proposed.report
        left_bytes = float(np.asarray(proposed.bill.left_bytes))
        held = held_over_time(
            answered.capacity,
            retention,
            interval_seconds=answered.interval.effective_interval_seconds or answered.interval.interval_seconds,
            run_seconds=retention.run_seconds or workload.share_fraction * request.horizon_seconds,
            offered_bytes=None if offer.capacity_bytes is None else offer.capacity_bytes - left_bytes,
        )
        with_left = [at.model_copy(update={"usable_bytes": at.usable_bytes + left_bytes}) for at in held.over_time]
        held = held._replace(over_time=with_left)
    return WorkloadDecision(
        name=workload.name,
        as_asked=_report_outcome(as_asked, changes, "before"),
        proposed=_report_outcome(proposed, changes, "after"),
        needs=list(find_needs(offer, proposed, rates)) if proposed else [],
        needs_interval_seconds=interval,
        capacity_over_time=held.over_time,
        capacity_full_seconds=held.full_seconds,
        changes=changes,
        unanswered=unanswered,
        provenance=proposed.report.provenance if proposed else [],
        rests_on=[guess.field for guess in proposed.report.guesses[:_MAX_RESTS_ON]] if proposed else [],
    )


def _report_outcome(answered: WorkloadAnswer | None, changes: Sequence[Change], when: str) -> Outcome | None:
    if answered is None:
        return None
    report = answered.report
    return Outcome(
        settings={change.field: getattr(change, when) for change in changes},
        targets=report.targets,
        goodput_fraction=report.interval.goodput_at_interval_fraction,
        lost_gpu_hours=answered.bill.lost_hours,
        kept_weights_bytes=report.capacity.kept_weights_bytes,
        cannot_run=report.training.cannot_run,
        warnings=report.warnings,
    )
