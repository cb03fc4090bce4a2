"""From workloads and offers to a DecisionReport."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sizing.cluster.cluster import num_storage_nics
from sizing.errors import InvalidInput
from sizing.explore.decisions.bandwidth import break_even
from sizing.explore.decisions.changes import Tried, changes_of
from sizing.explore.decisions.choices import TIERS, Chosen, alternatives, choose, free_settings
from sizing.explore.decisions.decision_report import (
    Change,
    DecisionReport,
    LedgerLine,
    OfferDecision,
    Outcome,
    Unanswered,
    Verdict,
    WorkloadDecision,
)
from sizing.explore.decisions.decision_request import (
    DecisionRequest,
    Offer,
    Workload,
    decision_request_from,
)
from sizing.explore.decisions.ledger import LOST, Bill, CostsOf, bill_of, costs_of, ledger, total
from sizing.explore.decisions.needs import needs_of
from sizing.explore.decisions.odds import odds_of
from sizing.explore.decisions.ranking import is_dominated, ranked, ranking_changes
from sizing.explore.decisions.shared import SHARED
from sizing.explore.decisions.standing import Settled, Standing
from sizing.explore.decisions.worth import worths_of
from sizing.guesses.fields import with_field
from sizing.report import SizingReport, answer, laid_out
from sizing.run.capacity_over_time import Held, held_over_time
from sizing.run.requirements.asked import READ_RATE, WRITE_RATE
from sizing.run.tier import Tier
from sizing.sized import sized
from sizing.storage.storage import resolve_storage
from sizing.units import decimal_bytes_text, figure_text, rate_text

RUN_SECONDS = "retention.run_seconds"
_MAX_RESTS_ON = 3
"""Assumed inputs that are named: those that move the answer most."""


def decide(document: object) -> DecisionReport:
    """The DecisionReport of a parsed DecisionRequest document.

    Raises InvalidInput where the document breaks a rule, or a workload has no answer under any offer.
    """
    return decision_of(decision_request_from(document))


def decision_of(request: DecisionRequest) -> DecisionReport:
    """The same of a DecisionRequest.

    >>> from sizing.explore.decisions.decision_request import REFERENCE_DECISION
    >>> report = decide(REFERENCE_DECISION)
    >>> [(offer.name, offer.verdict) for offer in report.offers]
    [('parallel file system', 'enough'), ('all flash', 'enough')]
    """
    request, assumed = _laid_out(request)
    decided = [_decision(request, offer) for offer in request.offers]
    found = [decision for decision, _ in decided]
    offers = ranked([each.model_copy(update={"is_dominated": is_dominated(each, found)}) for each in found])
    standings = {standing.offer.name: standing for _, standing in decided}
    return DecisionReport(
        currency=request.currency,
        horizon_seconds=request.horizon_seconds,
        max_num_gpus=max(workload.scenario.parallelism.num_gpus for workload in request.workloads),
        offers=offers,
        refused_offers=list(request.refused_offers),
        ranking_changes=list(ranking_changes(request, offers)),
        odds=odds_of(request, [standings[offer.name] for offer in offers]),
        warnings=[*assumed, *_warnings(request)],
    )


def _laid_out(request: DecisionRequest) -> tuple[DecisionRequest, list[str]]:
    """The request with a layout for each workload that leaves it open, and which that is."""
    found = [laid_out(workload.scenario) for workload in request.workloads]
    pairs = list(zip(request.workloads, found, strict=True))
    workloads = tuple(workload.model_copy(update={"scenario": each.scenario}) for workload, each in pairs)
    assumed = [f"{workload.name}: assumed {used.sentence}" for workload, each in pairs for used in each.assumed]
    return request.model_copy(update={"workloads": workloads}), assumed


def _warnings(request: DecisionRequest) -> Iterator[str]:
    if request.per_lost_gpu_hour is None:
        yield (
            "Lost GPU time is not priced: settings are those that lose least of it, and the cheapest offer may be the "
            "slowest. Give per_lost_gpu_hour"
        )
    unpriced = [offer.name for offer in request.offers if not offer.prices]
    if unpriced:
        yield f"Offers without prices: {', '.join(unpriced)}. What they cost is not known; give prices"
    kinds = {tier.kind for tier in _all_tiers(request) if tier.cost_per_terabyte is not None}
    for kind in sorted(kinds):
        yield (
            f"Tier {kind}: its cost_per_terabyte counts once, however long the horizon. Of a rent give instead a price "
            f"per terabyte with tier {kind} and every: month"
        )
    for workload in request.workloads:
        yield from _busy_hours(workload)
        if num_storage_nics(workload.scenario.cluster, 1) is None and _prices_unknown_nics(request):
            yield (
                f"{workload.name}: nothing says how many NICs its nodes have for storage, so no total has their price. "
                "Give cluster.storage_nics, or per_node of the price"
            )
    share = sum(workload.share_fraction for workload in request.workloads)
    if share < 1 - 1e-9:
        yield f"Workloads fill {share:.0%} of the horizon; for the rest no GPU time is lost"


def _prices_unknown_nics(request: DecisionRequest) -> bool:
    """Whether a price counts NICs as the cluster states them."""
    return any(price.per == "nic" and price.per_node is None for offer in request.offers for price in offer.prices)


def _busy_hours(workload: Workload) -> Iterator[str]:
    """Which hours decide, where what others take changes over the day."""
    for name in SHARED if workload.shared.over_the_day else ():
        busiest = workload.shared.busiest(name)
        if busiest is not None and busiest.hours is not None:
            way = name.split("_", 1)[0]
            yield (
                f"{workload.name}: others {way} most, {busiest.sentence}; what they leave then decides targets and "
                "lost time all day"
            )


def _all_tiers(request: DecisionRequest) -> Iterator[Tier]:
    for offer in request.offers:
        yield from offer.tiers or ()
    for workload in request.workloads:
        yield from workload.scenario.checkpoint.tiers


@dataclass(frozen=True)
class _Answered:
    """A workload with some settings: the whole answer, what is counted, and what that costs."""

    workload: Workload
    chosen: Chosen
    report: SizingReport
    bill: Bill


@dataclass(frozen=True)
class _Held:
    """A workload held against an offer: with its own settings and with those proposed; None where these have no answer.

    `is_taken`: others take all of the storage.
    """

    workload: Workload
    as_asked: _Answered | None
    proposed: _Answered | None
    why_none: str
    is_taken: bool
    decision: WorkloadDecision


def _decision(request: DecisionRequest, offer: Offer) -> tuple[OfferDecision, Standing]:
    held = [_held(request, offer, workload) for workload in request.workloads]
    proposed, as_asked = _all([each.proposed for each in held]), _all([each.as_asked for each in held])
    missing = [sentence for each in held for sentence in _missing(offer, each)]
    unknown = [sentence for each in held for sentence in _unknown(each)]
    lines = list(ledger(request, offer, [each.bill for each in proposed])) if proposed else []
    curve = break_even(request, offer, [(each.workload, each.chosen.scenario) for each in proposed], lines)
    settled = [Settled(each.workload, each.chosen.scenario, each.report.assumptions) for each in proposed]
    decision = OfferDecision(
        name=offer.name,
        verdict=_verdict(missing, held),
        missing=[*missing, *unknown],
        capacity_bytes=offer.capacity_bytes,
        total=_total(lines),
        total_as_asked=_total(ledger(request, offer, [each.bill for each in as_asked])) if as_asked else None,
        lost_gpu_hours=total(each.bill.lost_hours for each in proposed),
        ledger=lines,
        workloads=[each.decision for each in held],
        is_dominated=False,
        bandwidth_costs=curve.costs,
        cheapest_bandwidth=curve.cheapest,
        further_bandwidth_saves=curve.further_bandwidth_saves,
        worths=worths_of(request, offer, settled),
    )
    return decision, Standing(offer, settled)


def _total(lines: Iterable[LedgerLine]) -> float | None:
    return total(line.cost for line in lines)


def _all(answered: Sequence[_Answered | None]) -> list[_Answered]:
    """Those of all workloads, or none where one has no answer."""
    known = [each for each in answered if each is not None]
    return known if len(known) == len(answered) else []


def _verdict(missing: Sequence[str], held: Sequence[_Held]) -> Verdict:
    """Not known where an input lacks without which there is no answer; not enough where others take all."""
    if any(each.proposed is None and not each.is_taken for each in held):
        return "not known"
    if missing:
        return "not enough"
    checks = [check for each in held if each.proposed for check in each.proposed.report.targets]
    return "enough" if all(check.met is not None for check in checks) else "not known"


def _missing(offer: Offer, held: _Held) -> Iterator[str]:
    """What the offer lacks for a workload, whatever the settings."""
    name, best = held.workload.name, held.proposed
    if best is None:
        yield f"{name}: no settings have an answer: {held.why_none}"
        return
    for check in best.report.targets:
        if check.met is False and check.found is not None:
            path = f"targets.{check.target}"
            found, wanted = figure_text(path, check.found), figure_text(path, check.wanted)
            yield f"{name}: {check.target} is {found}, asked {wanted}{f': {check.remedy}' if check.remedy else ''}"
    needed = best.report.capacity.usable_bytes
    if offer.capacity_bytes is not None and needed > offer.capacity_bytes:
        offered = decimal_bytes_text(offer.capacity_bytes)
        yield f"{name}: keeps {decimal_bytes_text(needed)}, and {offered} are offered"


def _unknown(held: _Held) -> Iterator[str]:
    """Targets of which nothing can be said, with the input that lacks."""
    best = held.proposed
    if best is None:
        return
    lacking = " and ".join(_lacking(best))
    without = f" without {lacking}" if lacking else ""
    unknown = [check.target for check in best.report.targets if check.met is None]
    for name in unknown or ([LOST] if best.bill.lost_gpu_hours is None and lacking else []):
        yield f"{held.workload.name}: {name} is not known{without}"


def _lacking(answered: _Answered) -> Iterator[str]:
    report, reliability = answered.report, answered.chosen.scenario.reliability
    if report.write is None:
        yield WRITE_RATE
    if report.restore.seconds is None and (reliability is None or reliability.restart_seconds is None):
        yield READ_RATE
    if reliability is None:
        yield "reliability"


def _held(request: DecisionRequest, offer: Offer, workload: Workload) -> _Held:
    """A workload with its own settings, and with those that miss fewest targets and cost least."""
    try:
        document = _document(request, offer, workload)
    except InvalidInput as error:
        taken = _workload_decision(request, offer, workload, None, None, [], [])
        return _Held(workload, None, None, str(error), True, taken)

    costs = costs_of(request, workload, offer)

    def answered(chosen: Chosen) -> _Answered:
        report, layout = answer(chosen.scenario), sized(chosen.scenario)
        return _Answered(workload, chosen, report, bill_of(request, workload, offer, layout.demands, report))

    tried = _tried(request, offer, document, costs)
    as_asked, proposed = (answered(one) if one is not None else None for one in (tried.own, tried.best))
    origins = proposed.report.provenance if proposed else []
    changes = list(changes_of(document, workload.scenario, tried, costs, origins))
    why_none = tried.unanswered[-1].why if tried.unanswered else ""
    found = _workload_decision(request, offer, workload, as_asked, proposed, changes, tried.unanswered)
    return _Held(workload, as_asked, proposed, why_none, False, found)


def _tried(request: DecisionRequest, offer: Offer, document: Mapping[str, Any], costs: CostsOf) -> Tried:
    why: dict[str, list[dict[str, Any]]] = {}

    def chosen(settings: dict[str, Any], *, is_free: bool) -> Chosen | None:
        try:
            return choose(document, settings, costs=costs, is_free=is_free)
        except InvalidInput as error:
            why.setdefault(str(error), []).append(settings)
            return None

    own = chosen({}, is_free=False)
    free = free_settings(request.settings, document, drops_tiers=offer.tiers_are_optional)
    found = [own, *(chosen(settings, is_free=request.chooses_interval) for settings in alternatives(free))]
    best = min(filter(None, found), key=lambda one: one.score.rank, default=None)
    return Tried(own, best, [Unanswered(settings=settings, why=because) for because, settings in why.items()])


def _document(request: DecisionRequest, offer: Offer, workload: Workload) -> dict[str, Any]:
    """The workload's scenario on the offer's storage, less what others take of it in their busiest hours.

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
    taken = {path: workload.shared.busiest(name) for name, path in SHARED.items()}
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


def _workload_decision(
    request: DecisionRequest,
    offer: Offer,
    workload: Workload,
    as_asked: _Answered | None,
    proposed: _Answered | None,
    changes: list[Change],
    unanswered: list[Unanswered],
) -> WorkloadDecision:
    held = _capacity(request, offer, proposed) if proposed else Held([], None)
    return WorkloadDecision(
        name=workload.name,
        as_asked=_outcome(as_asked, changes, "before"),
        proposed=_outcome(proposed, changes, "after"),
        needs=list(needs_of(request, offer, proposed.chosen.scenario, proposed.report)) if proposed else [],
        capacity_over_time=held.over_time,
        capacity_full_seconds=held.full_seconds,
        changes=changes,
        unanswered=unanswered,
        provenance=proposed.report.provenance if proposed else [],
        rests_on=[guess.field for guess in proposed.report.guesses[:_MAX_RESTS_ON]] if proposed else [],
    )


def _capacity(request: DecisionRequest, offer: Offer, proposed: _Answered) -> Held:
    """What the workload keeps over its part of the horizon, and when the offered capacity is full."""
    scenario, report = proposed.chosen.scenario, proposed.report
    return held_over_time(
        report.capacity,
        scenario.retention,
        interval_seconds=report.interval.effective_interval_seconds or report.interval.interval_seconds,
        run_seconds=scenario.retention.run_seconds or proposed.workload.share_fraction * request.horizon_seconds,
        offered_bytes=offer.capacity_bytes,
    )


def _outcome(answered: _Answered | None, changes: Sequence[Change], when: str) -> Outcome | None:
    if answered is None:
        return None
    report = answered.report
    return Outcome(
        settings={change.field: getattr(change, when) for change in changes},
        targets=report.targets,
        goodput_fraction=report.interval.goodput_at_interval_fraction,
        lost_gpu_hours=answered.bill.lost_hours,
        cannot_run=report.training.cannot_run,
        warnings=report.warnings,
    )
