"""Settings that may be chosen for an offer, and the one of them with which a workload misses least and costs least."""

from __future__ import annotations

import dataclasses
import itertools
import math
import typing
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from pydantic import TypeAdapter, ValidationError

from sizing.errors import InvalidInput
from sizing.explore.decisions.decision_request import MAX_SETTINGS
from sizing.explore.decisions.ledger import CostsOf
from sizing.guesses.fields import with_field
from sizing.run.checkpoint import Checkpoint
from sizing.run.demands.readings import RestoreStrategy
from sizing.run.figures import with_arrays
from sizing.run.requirements.asked import INTERVAL, Asked, interval_bounds
from sizing.run.tier import ARCHIVE, Tier, is_whole
from sizing.scenario import Scenario, scenario_from
from sizing.sized import sized
from sizing.storage.transfer import Numbers
from sizing.units import PositiveSeconds

_Array = npt.NDArray[np.float64]

FREE_BY_DEFAULT: dict[str, list[Any]] = {
    "checkpoint.mode": ["sync", "async"],
    "checkpoint.restore": list(typing.get_args(RestoreStrategy)),
}
"""What a team changes by a flag of its framework, without buying anything."""
TIERS = "checkpoint.tiers"
_SECTIONS = 128
"""Intervals tried at once, as arrays cost little more than numbers."""
_SCALES = 40
"""Of the tiers' intervals and of the main storage's, tried at once with each other."""
_ROUNDS = 4
"""Each narrows the bracket to two sections: of 12 decades some 1e-6 of the interval is left."""
_MIN_INTERVAL_SECONDS = 1.0
"""Below, no checkpoint of a training run is saved."""

_DEFAULT_SECONDS = Checkpoint.model_fields["interval_seconds"].default
_SECONDS: TypeAdapter[float] = TypeAdapter(PositiveSeconds)
_TIERS: TypeAdapter[tuple[Tier, ...]] = TypeAdapter(tuple[Tier, ...])


class Score(NamedTuple):
    """How settings do under an offer: numbers, or arrays of many intervals.

    `money` is infinite and `lost_gpu_hours` None where they are not known; `change` is how far the interval is from the
    one asked for, which counts where nobody knows what is lost.
    """

    num_missed: Numbers
    money: Numbers
    lost_gpu_hours: Numbers | None
    change: Numbers
    is_time_priced: bool

    @property
    def rank(self) -> tuple[Any, ...]:
        """What is less for better settings: targets that they miss, then money and lost time, what is priced first."""
        lost = np.zeros_like(self.money) if self.lost_gpu_hours is None else self.lost_gpu_hours
        costs = (self.money, lost) if self.is_time_priced else (lost, self.money)
        return self.num_missed, *costs, self.change

    def best(self) -> int:
        """The place of the best of an array; of equals the longest interval, as short ones wait alike."""
        last_first = [key[::-1] for key in reversed(self.rank)]
        return len(last_first[0]) - 1 - int(np.lexsort(last_first)[0])

    def at(self, index: int) -> Score:
        """That of one interval of an array."""
        lost = None if self.lost_gpu_hours is None else _number(self.lost_gpu_hours, index)
        missed, money, change = (_number(each, index) for each in (self.num_missed, self.money, self.change))
        return Score(missed, money, lost, change, self.is_time_priced)


@dataclass(frozen=True)
class Chosen:
    """A workload under an offer with its settings, the interval included, and how these do."""

    settings: dict[str, Any]
    scenario: Scenario
    score: Score

    @property
    def money(self) -> float:
        """What it costs; infinite where that is not known."""
        return float(self.score.money)

    @property
    def lost_gpu_hours(self) -> float | None:
        """None where it is not known."""
        return None if self.score.lost_gpu_hours is None else float(self.score.lost_gpu_hours)


def free_settings(
    settings: Mapping[str, list[Any]] | None, document: Mapping[str, Any], *, drops_tiers: bool
) -> Mapping[str, list[Any]]:
    """The settings that may be chosen; with `drops_tiers` also a document's tiers without those in front.

    >>> tiers = [{"kind": "local-nvme", "interval_seconds": 60.0}, {"kind": "object-store", "interval_seconds": 3600.0}]
    >>> found = free_settings({}, {"checkpoint": {"tiers": tiers}}, drops_tiers=True)
    >>> [[tier["kind"] for tier in each] for each in found["checkpoint.tiers"]]
    [['local-nvme', 'object-store'], ['object-store']]
    """
    free = FREE_BY_DEFAULT if settings is None else settings
    tiers = list(document.get("checkpoint", {}).get("tiers", ()))
    behind = [tier for tier in tiers if tier["kind"] == ARCHIVE]
    return {**free, TIERS: [tiers, behind]} if drops_tiers and len(behind) < len(tiers) else free


def alternatives(free: Mapping[str, list[Any]]) -> Iterator[dict[str, Any]]:
    """Every combination of the settings that may be chosen.

    Raises InvalidInput for more than MAX_SETTINGS of them.

    >>> len(list(alternatives(FREE_BY_DEFAULT)))
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


def choose(document: Mapping[str, Any], settings: Mapping[str, Any], *, costs: CostsOf, is_free: bool) -> Chosen:
    """A scenario's document with some settings, at the intervals that miss least and cost least.

    At the intervals as given where they are not free. Those of the tiers in front change together.
    Raises InvalidInput where the settings have no answer.
    """
    changed = _with_fields(document, settings)
    if not is_free:
        return _chosen_at(changed, settings, costs=costs, is_free=False)
    given = _chosen_at(changed, settings, costs=costs, is_free=True)
    others = _better_tiers(given.scenario, costs)
    if not others:
        return given
    with_others = _with_fields(changed, others)
    return min(
        given,
        _chosen_at(with_others, {**settings, **others}, costs=costs, is_free=True),
        key=lambda one: one.score.rank,
    )


def _with_fields(document: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    changed = dict(document)
    for path, value in values.items():
        changed = with_field(changed, path, value)
    return changed


def _chosen_at(document: Mapping[str, Any], settings: Mapping[str, Any], *, costs: CostsOf, is_free: bool) -> Chosen:
    scenario = scenario_from(_in_step(document) if is_free else document)
    asked = Asked(sized(scenario).demands, scenario.run_inputs)
    given = float(scenario.checkpoint.interval_seconds)
    best = _Scored(given, _score(asked, costs, np.array([given, given])).at(0))
    if is_free:
        best = min(best, _best(asked, costs), key=lambda one: one.score.rank)
    if best.interval != given:
        scenario = scenario_from(with_field(document, INTERVAL, best.interval))
    return Chosen({**settings, INTERVAL: best.interval}, scenario, best.score)


def _in_step(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """A document with an interval that goes with its tiers, to begin the search for a better one with.

    >>> tiers = [{"kind": "host-memory", "interval_seconds": 700.0}]
    >>> _in_step({"checkpoint": {"interval_seconds": 3600.0, "tiers": tiers}})["checkpoint"]["interval_seconds"]
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


def _better_tiers(scenario: Scenario, costs: CostsOf) -> dict[str, float]:
    """By path, intervals of the tiers in front with which fewest targets are missed, and of these the cheapest.

    They keep their ratios; all are tried shorter and longer, each with many intervals of the main storage. Empty
    without tiers in front.
    """
    front = [tier.interval_seconds for tier in scenario.checkpoint.front_tiers]
    if not front:
        return {}
    asked = Asked(sized(scenario).demands, scenario.run_inputs)
    low, high = interval_bounds(asked)
    scales = np.geomspace(_MIN_INTERVAL_SECONDS / front[0], high / (2 * front[-1]), _SCALES)
    for _ in range(_ROUNDS):
        tried, intervals = (each.ravel() for each in np.meshgrid(scales, np.geomspace(low, high, _SCALES)))
        step = tried * front[-1]
        score = _score(_with_scaled_tiers(asked, tried), costs, np.clip(intervals, 2 * step, None))
        best = tried[score.best()]
        index = int(np.searchsorted(scales, best))
        scales = np.geomspace(scales[max(index - 1, 0)], scales[min(index + 1, _SCALES - 1)], _SCALES)
    return {f"{TIERS}.{index}.interval_seconds": seconds for index, seconds in enumerate(_whole(front, best))}


def _with_scaled_tiers(asked: Asked, scales: _Array) -> Asked:
    front = asked.inputs.checkpoint.front_tiers
    arrays = {f"tiers.{index}.interval_seconds": tier.interval_seconds * scales for index, tier in enumerate(front)}
    checkpoint = with_arrays(asked.inputs.checkpoint, arrays)
    return Asked(asked.demands, dataclasses.replace(asked.inputs, checkpoint=checkpoint))


def _whole(front: Sequence[float], scale: float) -> Iterator[float]:
    """Scaled intervals in whole seconds, where the first has some, that stay multiples of each other.

    >>> list(_whole([60.0, 600.0], 1.23))
    [74.0, 740.0]
    """
    first = max(round(front[0] * scale), 1)
    return (first * (seconds / front[0]) for seconds in front)


class _Scored(NamedTuple):
    interval: float
    score: Score


def _best(asked: Asked, costs: CostsOf) -> _Scored:
    """The interval with the best score."""
    low, high = interval_bounds(asked)
    tried = np.geomspace(max(low, _MIN_INTERVAL_SECONDS), high, _SECTIONS + 1)
    for _ in range(_ROUNDS):
        best = _score(asked, costs, tried).best()
        tried = np.geomspace(tried[max(best - 1, 0)], tried[min(best + 1, _SECTIONS)], _SECTIONS + 1)
    score = _score(asked, costs, tried)
    best = score.best()
    interval = float(np.asarray(asked.whole_interval_seconds(tried[best])))
    return _Scored(_as_it_is(asked, interval), score.at(best))


def _as_it_is(asked: Asked, interval: float) -> float:
    """The interval that saves have, where they drain for longer than the one asked for."""
    effective = asked.at({INTERVAL: interval}).interval.effective_interval_seconds
    is_free = not asked.inputs.checkpoint.tiers
    return interval if effective is None or not is_free else max(interval, float(np.asarray(effective)))


def _score(asked: Asked, costs: CostsOf, intervals: _Array) -> Score:
    figures, num = asked.at({INTERVAL: intervals}), len(intervals)
    missed = np.zeros(num)
    for check in figures.targets:
        missed += np.not_equal(np.asarray(check.met if check.met is not None else np.nan, dtype=np.float64), 1.0)
    found = costs(asked.demands, figures)
    lost = None if found.lost_gpu_hours is None else _known(found.lost_gpu_hours, num)
    given = float(np.ravel(asked.inputs.checkpoint.interval_seconds)[0])
    change = np.abs(np.log(intervals / given)) if lost is None else np.zeros(num)
    return Score(missed, _known(found.money, num), lost, change, found.is_time_priced)


def _known(numbers: Numbers, num: int) -> _Array:
    return np.nan_to_num(np.broadcast_to(np.asarray(numbers, dtype=np.float64), num), nan=np.inf, posinf=np.inf)


def _number(array: Numbers, index: int) -> float:
    return float(np.asarray(array)[index])
