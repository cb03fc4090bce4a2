"""Settings of a workload under an offer: the best of those that may be chosen, and what each change saves."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import math
import typing
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from pydantic import TypeAdapter, ValidationError

from sizing.errors import InvalidInput
from sizing.field_paths import value_at, with_field
from sizing.guesses.rows import number_at
from sizing.provenance import Origin, Provenance
from sizing.questions.decide.ledger import Bill, CostsOf
from sizing.questions.decide.offers import Offer
from sizing.questions.decide.report import Change, Unanswered, WayBack
from sizing.questions.decide.request import BACKGROUND_RATES, MAX_SETTINGS, Workload
from sizing.report import SizingReport
from sizing.run.checkpoint import ARCHIVE, Checkpoint, Tier, is_whole
from sizing.run.figures import with_arrays
from sizing.run.read_plan import RestoreStrategy
from sizing.run.request import INTERVAL, RunRequest, interval_bounds
from sizing.scenario import Scenario, scenario_from
from sizing.sized_layout import size_layout
from sizing.storage.transfer import Floats, Numbers
from sizing.units import PositiveSeconds

FREE_BY_DEFAULT: dict[str, list[Any]] = {
    "checkpoint.mode": ["sync", "async"],
    "checkpoint.restore": list(typing.get_args(RestoreStrategy)),
}
"""What a team changes by a flag of its framework, without buying anything."""
TIERS = "checkpoint.tiers"
_SECTIONS = 128
"""Intervals tried at once, as arrays cost little more than numbers."""
_SCALES = 40
"""Intervals of the tiers, and of the main storage, that are tried at once with each other."""
_ROUNDS = 4
"""Each narrows the bracket to two sections: of 12 decades some 1e-6 of the interval is left."""
_MIN_INTERVAL_SECONDS = 1.0
"""Below, no checkpoint of a training run is saved."""

_DEFAULT_SECONDS = Checkpoint.model_fields["interval_seconds"].default
_SECONDS: TypeAdapter[float] = TypeAdapter(PositiveSeconds)
_TIERS: TypeAdapter[tuple[Tier, ...]] = TypeAdapter(tuple[Tier, ...])


class Score(NamedTuple):
    """Score of settings under an offer: numbers, or arrays with one element for each interval.

    `money` is infinite and `lost_gpu_hours` None where they are not known. `change` is the distance of the interval
    from the one asked for; it counts where nobody knows what is lost. An exceeded capacity is a missed target.
    """

    num_missed: Numbers
    money: Numbers
    lost_gpu_hours: Numbers | None
    change: Numbers
    is_time_priced: bool

    @property
    def rank(self) -> tuple[Any, ...]:
        """Key that is less for better settings: targets missed, then money and lost time, what is priced first."""
        lost = np.zeros_like(self.money) if self.lost_gpu_hours is None else self.lost_gpu_hours
        costs = (self.money, lost) if self.is_time_priced else (lost, self.money)
        return self.num_missed, *costs, self.change

    def best(self) -> int:
        """Find the index of the best score of an array; of equals the longest interval, as short ones wait alike."""
        last_first = [key[::-1] for key in reversed(self.rank)]
        return len(last_first[0]) - 1 - int(np.lexsort(last_first)[0])

    def at(self, index: int) -> Score:
        """Take the score of one interval out of an array."""
        lost = None if self.lost_gpu_hours is None else _take_number(self.lost_gpu_hours, index)
        missed, money, change = (_take_number(each, index) for each in (self.num_missed, self.money, self.change))
        return Score(missed, money, lost, change, self.is_time_priced)


@dataclass(frozen=True)
class Choice:
    """A workload under an offer with chosen settings, the interval included, and their score."""

    settings: dict[str, Any]
    scenario: Scenario
    score: Score

    @property
    def money(self) -> float:
        """Cost of the workload under the offer; infinite where that is not known."""
        return float(self.score.money)

    @property
    def lost_gpu_hours(self) -> float | None:
        """GPU-hours lost over the horizon; None where that is not known."""
        return None if self.score.lost_gpu_hours is None else float(self.score.lost_gpu_hours)


def list_free_settings(
    settings: Mapping[str, list[Any]] | None, document: Mapping[str, Any], *, drops_tiers: bool
) -> Mapping[str, list[Any]]:
    """List the settings that may be chosen; with `drops_tiers` also a document's tiers without those in front.

    >>> tiers = [{"kind": "local-nvme", "interval_seconds": 60.0}, {"kind": "object-store", "interval_seconds": 3600.0}]
    >>> free = list_free_settings({}, {"checkpoint": {"tiers": tiers}}, drops_tiers=True)
    >>> [[tier["kind"] for tier in each] for each in free["checkpoint.tiers"]]
    [['local-nvme', 'object-store'], ['object-store']]
    """
    free = FREE_BY_DEFAULT if settings is None else settings
    tiers = list(document.get("checkpoint", {}).get("tiers", ()))
    behind = [tier for tier in tiers if tier["kind"] == ARCHIVE]
    return {**free, TIERS: [tiers, behind]} if drops_tiers and len(behind) < len(tiers) else free


def list_alternatives(free: Mapping[str, list[Any]]) -> Iterator[dict[str, Any]]:
    """List every combination of the settings that may be chosen.

    Raises InvalidInput for more than MAX_SETTINGS of them.

    >>> len(list(list_alternatives(FREE_BY_DEFAULT)))
    6
    """
    num = math.prod(len(values) for values in free.values())
    if num > MAX_SETTINGS:
        raise InvalidInput.of(
            "settings",
            f"must have at most {MAX_SETTINGS} combinations",
            value=num,
            remedy="leave some alternatives out",
        )
    return (dict(zip(free, values, strict=True)) for values in itertools.product(*free.values()))


def require_layout(scenario: Scenario, alternatives: Iterable[Mapping[str, Any]]) -> None:
    """Refuse a scenario that has no layout, neither as it is nor with any of the settings that may be chosen.

    Raises InvalidInput with what is wrong as it is.
    """
    try:
        size_layout(scenario)
    except InvalidInput:
        document = scenario.model_dump(exclude_unset=True)
        for settings in alternatives:
            with contextlib.suppress(InvalidInput):
                size_layout(scenario_from(_set_fields(document, settings)))
                return
        raise


def choose(document: Mapping[str, Any], settings: Mapping[str, Any], *, costs: CostsOf, is_free: bool) -> Choice:
    """Choose, for a scenario's document with some settings, the intervals that miss least and cost least.

    They stay as given where they are not free. Those of the tiers in front change together.
    Raises InvalidInput where the settings have no answer.
    """
    changed = _set_fields(document, settings)
    if not is_free:
        return _score_settings(changed, settings, costs=costs, is_free=False)
    given = _score_settings(changed, settings, costs=costs, is_free=True)
    others = _find_tier_intervals(given.scenario, costs)
    if not others:
        return given
    with_others = _set_fields(changed, others)
    return min(
        given,
        _score_settings(with_others, {**settings, **others}, costs=costs, is_free=True),
        key=lambda one: one.score.rank,
    )


def _set_fields(document: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    changed = dict(document)
    for path, value in values.items():
        changed = with_field(changed, path, value)
    return changed


def _score_settings(
    document: Mapping[str, Any], settings: Mapping[str, Any], *, costs: CostsOf, is_free: bool
) -> Choice:
    scenario = scenario_from(_fit_interval_to_tiers(document) if is_free else document)
    run = RunRequest(size_layout(scenario).workload, scenario.run_inputs)
    given = float(scenario.checkpoint.interval_seconds)
    best = _Candidate(given, _score(run, costs, np.array([given, given])).at(0))
    if is_free:
        best = min(best, _find_best_interval(run, costs), key=lambda one: one.score.rank)
    if best.interval != given:
        scenario = scenario_from(with_field(document, INTERVAL, best.interval))
    return Choice({**settings, INTERVAL: best.interval}, scenario, best.score)


def _fit_interval_to_tiers(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """Give a document an interval that goes with its tiers, to begin the search for a better one with.

    >>> tiers = [{"kind": "host-memory", "interval_seconds": 700.0}]
    >>> document = {"checkpoint": {"interval_seconds": 3600.0, "tiers": tiers}}
    >>> _fit_interval_to_tiers(document)["checkpoint"]["interval_seconds"]
    3500.0
    """
    checkpoint = document.get("checkpoint", {})
    try:
        given = _SECONDS.validate_python(checkpoint.get("interval_seconds", _DEFAULT_SECONDS))
        tiers = _TIERS.validate_python(checkpoint.get("tiers", ()))
    except ValidationError:
        return document  # who reads all of it says what is wrong
    front = [tier.interval_seconds for tier in tiers if tier.kind != ARCHIVE]
    if not front or (is_whole(given / front[-1]) and given > front[-1]):
        return document
    return with_field(document, INTERVAL, max(math.floor(given / front[-1]), 2) * front[-1])


def _find_tier_intervals(scenario: Scenario, costs: CostsOf) -> dict[str, float]:
    """Find, by path, intervals of the tiers in front with which fewest targets are missed, and of these the cheapest.

    They keep their ratios; all are tried shorter and longer, each with many intervals of the main storage. Empty
    without tiers in front.
    """
    front = [tier.interval_seconds for tier in scenario.checkpoint.front_tiers]
    if not front:
        return {}
    run = RunRequest(size_layout(scenario).workload, scenario.run_inputs)
    low, high = interval_bounds(run)
    scales = np.geomspace(_MIN_INTERVAL_SECONDS / front[0], high / (2 * front[-1]), _SCALES)
    for _ in range(_ROUNDS):
        tried, intervals = (each.ravel() for each in np.meshgrid(scales, np.geomspace(low, high, _SCALES)))
        step = tried * front[-1]
        score = _score(_scale_tiers(run, tried), costs, np.clip(intervals, 2 * step, None))
        best = tried[score.best()]
        index = int(np.searchsorted(scales, best))
        scales = np.geomspace(scales[max(index - 1, 0)], scales[min(index + 1, _SCALES - 1)], _SCALES)
    return {
        f"{TIERS}.{index}.interval_seconds": seconds for index, seconds in enumerate(_round_to_seconds(front, best))
    }


def _scale_tiers(run: RunRequest, scales: Floats) -> RunRequest:
    front = run.inputs.checkpoint.front_tiers
    arrays = {f"tiers.{index}.interval_seconds": tier.interval_seconds * scales for index, tier in enumerate(front)}
    checkpoint = with_arrays(run.inputs.checkpoint, arrays)
    return RunRequest(run.workload, dataclasses.replace(run.inputs, checkpoint=checkpoint))


def _round_to_seconds(front: Sequence[float], scale: float) -> Iterator[float]:
    """Round scaled intervals to whole seconds, where the first has some, that stay multiples of each other.

    >>> list(_round_to_seconds([60.0, 600.0], 1.23))
    [74.0, 740.0]
    """
    first = max(round(front[0] * scale), 1)
    return (first * (seconds / front[0]) for seconds in front)


class _Candidate(NamedTuple):
    interval: float
    score: Score


def _find_best_interval(run: RunRequest, costs: CostsOf) -> _Candidate:
    """Find the interval with the best score."""
    low, high = interval_bounds(run)
    tried = np.geomspace(max(low, _MIN_INTERVAL_SECONDS), high, _SECTIONS + 1)
    for _ in range(_ROUNDS):
        best = _score(run, costs, tried).best()
        tried = np.geomspace(tried[max(best - 1, 0)], tried[min(best + 1, _SECTIONS)], _SECTIONS + 1)
    score = _score(run, costs, tried)
    best = score.best()
    interval = float(np.asarray(run.whole_interval_seconds(tried[best])))
    effective = run.at({INTERVAL: interval}).interval.effective_interval_seconds
    if effective is not None and not run.inputs.checkpoint.tiers:
        interval = max(interval, float(np.asarray(effective)))  # a save that drains for longer delays the next
    return _Candidate(interval, score.at(best))


def _score(run: RunRequest, costs: CostsOf, intervals: Floats) -> Score:
    figures, num = run.at({INTERVAL: intervals}), len(intervals)
    missed = np.zeros(num)
    for check in figures.targets:
        missed += np.not_equal(np.asarray(check.met if check.met is not None else np.nan, dtype=np.float64), 1.0)
    setting_costs = costs(run.workload, figures)
    missed += setting_costs.is_too_large
    lost = None if setting_costs.lost_gpu_hours is None else _fill_unknown(setting_costs.lost_gpu_hours, num)
    given = float(np.ravel(run.inputs.checkpoint.interval_seconds)[0])
    change = np.abs(np.log(intervals / given)) if lost is None else np.zeros(num)
    return Score(missed, _fill_unknown(setting_costs.money, num), lost, change, setting_costs.is_time_priced)


def _fill_unknown(numbers: Numbers, num: int) -> Floats:
    return np.nan_to_num(np.broadcast_to(np.asarray(numbers, dtype=np.float64), num), nan=np.inf, posinf=np.inf)


def _take_number(array: Numbers, index: int) -> float:
    return float(np.asarray(array)[index])


_SAVES_BY = {
    "checkpoint.mode": "overhead",
    "checkpoint.restore": "restore",
    INTERVAL: "interval",
    TIERS: "tiers",
}
"""Figure of the answer by which a setting saves; of any other setting all figures, so the weakest input counts."""


@dataclass(frozen=True)
class Trials:
    """Settings that were tried for a workload under an offer: its own, the best, and those without an answer."""

    own: Choice | None
    best: Choice | None
    unanswered: list[Unanswered]


def explain_changes(
    document: Mapping[str, Any], scenario: Scenario, trials: Trials, costs: CostsOf, origins: Sequence[Provenance]
) -> Iterator[Change]:
    """Explain the way from a workload's own settings to the best, one change after the other, the interval last.

    `origins` are those of the answer with the best.
    """
    settings: dict[str, Any] = {}
    before = trials.own
    for field, after in (trials.best.settings if trials.best else {}).items():
        at_start = _find_start_value(document, scenario, field)
        if at_start.value == after:
            continue
        settings[field] = after
        now = _choose_with(document, settings, costs)
        money, gpu_hours = _find_savings(before, now)
        is_interval = field.endswith("interval_seconds")
        figure = _SAVES_BY.get(TIERS if field.startswith(f"{TIERS}.") else field, "")
        origin = next(each for name in (figure, "") for each in origins if name in each.figures)
        yield Change(
            field=field,
            before=at_start.value,
            after=after,
            saves=money,
            gpu_hours_saved=gpu_hours,
            needs_next_change=now is None,
            before_is_default=at_start.is_default,
            way_back_before=_find_way_back(before) if is_interval else None,
            way_back_after=_find_way_back(now) if is_interval else None,
            rests_on=Origin(kind=origin.kind, source=origin.source, runs=origin.runs),
        )
        before = now or before


def _choose_with(document: Mapping[str, Any], settings: Mapping[str, Any], costs: CostsOf) -> Choice | None:
    """Choose these settings; None where they have an answer only together with a later change."""
    try:
        return choose(document, settings, costs=costs, is_free=False)
    except InvalidInput:
        return None


def _find_savings(before: Choice | None, now: Choice | None) -> tuple[float | None, float | None]:
    """Find the money and the GPU-hours that a change of settings saves, each None where it is not known."""
    if before is None or now is None:
        return None, None
    money = before.money - now.money
    lost_before, lost_now = before.lost_gpu_hours, now.lost_gpu_hours
    gpu_hours = None if lost_before is None or lost_now is None else lost_before - lost_now
    return money if math.isfinite(money) else None, gpu_hours


def _find_way_back(choice: Choice | None) -> WayBack | None:
    if choice is None:
        return None
    timing = RunRequest(size_layout(choice.scenario).workload, choice.scenario.run_inputs).timing_at({})
    if timing.process is None:
        return None
    return WayBack(recovery_seconds=timing.process.recovery_seconds, redone_fraction=timing.shares.redone_fraction)


class _StartValue(NamedTuple):
    """The value of a field before any change."""

    value: Any
    is_default: bool


def _find_start_value(document: Mapping[str, Any], scenario: Scenario, field: str) -> _StartValue:
    """Find the value that a field is given under this offer, else its default; None where its block is left out."""
    if (given := value_at(document, field)) is not None:
        return _StartValue(given, is_default=False)
    default = [] if field == TIERS else value_at(scenario, field)
    return _StartValue(default, is_default=default is not None)


_MIN_RATE = 1.0
"""Bytes per second that are left where others take more than a draw offers: the min of any rate."""


@dataclass(frozen=True)
class WorkloadAnswer:
    """Answer for a workload under an offer with some settings, and the bill of all that prices count."""

    workload: Workload
    chosen: Choice
    report: SizingReport
    bill: Bill

    @property
    def scenario(self) -> Scenario:
        """The workload's scenario on the storage of the offer, with these settings."""
        return self.chosen.scenario

    @property
    def run(self) -> RunRequest:
        """Run with these settings, whose numbers may still be varied."""
        return RunRequest(size_layout(self.scenario).workload, self.scenario.run_inputs)

    def number(self, path: str) -> float | None:
        """Return a number of the scenario by its path, rates of its storage as a profile; None where it has none."""
        return number_at(self.scenario.run_inputs, path)

    def less_background_load(self, path: str, values: Floats) -> Floats:
        """Subtract the background load from values of a rate; values of any other field stay."""
        name = path.rsplit(".", 1)[1]
        taken = self.workload.shared.peak_load(name) if BACKGROUND_RATES.get(name) == path else None
        return values if taken is None else np.maximum(values - taken.bytes_per_second, _MIN_RATE)


@dataclass(frozen=True)
class OfferAnswer:
    """An offer with the answers of all its workloads, settings as proposed; empty where one workload has none."""

    offer: Offer
    workloads: Sequence[WorkloadAnswer]
