"""Settings that may be chosen for an offer, and the one of them with which a workload misses least and costs least."""

from __future__ import annotations

import dataclasses
import itertools
import math
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from pydantic import TypeAdapter, ValidationError

from sizing.errors import InvalidInput
from sizing.explore.decisions.decision_request import MAX_SETTINGS
from sizing.guesses.fields import with_field
from sizing.run.checkpoint import Checkpoint
from sizing.run.demands.demands import Demands
from sizing.run.demands.readings import RestoreStrategy
from sizing.run.evaluation import RunReport
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

CostOf = Callable[[Demands, RunReport], Numbers]
"""What a workload costs with some figures; infinite where that is not known."""


@dataclass(frozen=True)
class Chosen:
    """A workload under an offer with its settings, the interval included, and what that costs."""

    settings: dict[str, Any]
    scenario: Scenario
    num_missed: float
    cost: float

    @property
    def rank(self) -> tuple[float, float]:
        """What is less for better settings: targets that they miss, then money."""
        return self.num_missed, self.cost


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


def choose(document: Mapping[str, Any], settings: Mapping[str, Any], *, cost: CostOf, is_free: bool) -> Chosen:
    """A scenario's document with some settings, at the intervals that miss least and cost least.

    At the intervals as given where they are not free. Those of the tiers in front change together.
    Raises InvalidInput where the settings have no answer.
    """
    changed = _with_fields(document, settings)
    if not is_free:
        return _chosen_at(changed, settings, cost=cost, is_free=False)
    given = _chosen_at(changed, settings, cost=cost, is_free=True)
    others = _better_tiers(given.scenario, cost)
    if not others:
        return given
    with_others = _with_fields(changed, others)
    return min(
        given, _chosen_at(with_others, {**settings, **others}, cost=cost, is_free=True), key=lambda one: one.rank
    )


def _with_fields(document: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    changed = dict(document)
    for path, value in values.items():
        changed = with_field(changed, path, value)
    return changed


def _chosen_at(document: Mapping[str, Any], settings: Mapping[str, Any], *, cost: CostOf, is_free: bool) -> Chosen:
    scenario = scenario_from(_in_step(document) if is_free else document)
    asked = Asked(sized(scenario).demands, scenario.run_inputs)
    given = float(scenario.checkpoint.interval_seconds)
    best = _Scored(given, *_score(asked, cost, given))
    if is_free:
        best = min(best, _cheapest(asked, cost), key=lambda one: (one.num_missed, one.cost))
    if best.interval != given:
        scenario = scenario_from(with_field(document, INTERVAL, best.interval))
    return Chosen({**settings, INTERVAL: best.interval}, scenario, best.num_missed, best.cost)


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


def _better_tiers(scenario: Scenario, cost: CostOf) -> dict[str, float]:
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
        best = tried[_least(*_scores(_with_scaled_tiers(asked, tried), cost, np.clip(intervals, 2 * step, None)))]
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
    num_missed: float
    cost: float


def _cheapest(asked: Asked, cost: CostOf) -> _Scored:
    """The interval with which fewest targets are missed, and of these the cheapest."""
    low, high = interval_bounds(asked)
    tried = np.geomspace(max(low, _MIN_INTERVAL_SECONDS), high, _SECTIONS + 1)
    for _ in range(_ROUNDS):
        best = _least(*_scores(asked, cost, tried))
        tried = np.geomspace(tried[max(best - 1, 0)], tried[min(best + 1, _SECTIONS)], _SECTIONS + 1)
    missed, money = _scores(asked, cost, tried)
    best = _least(missed, money)
    interval = float(np.asarray(asked.whole_interval_seconds(tried[best])))
    return _Scored(_as_it_is(asked, interval), float(missed[best]), float(money[best]))


def _as_it_is(asked: Asked, interval: float) -> float:
    """The interval that saves have, where they drain for longer than the one asked for."""
    effective = asked.at({INTERVAL: interval}).interval.effective_interval_seconds
    is_free = not asked.inputs.checkpoint.tiers
    return interval if effective is None or not is_free else max(interval, float(np.asarray(effective)))


def _least(missed: _Array, money: _Array) -> int:
    """Where fewest targets are missed, and of these the cheapest; of equals the longest, as short ones wait alike."""
    return len(money) - 1 - int(np.lexsort((money[::-1], missed[::-1]))[0])


def _score(asked: Asked, cost: CostOf, interval: float) -> tuple[float, float]:
    missed, money = _scores(asked, cost, np.array([interval, interval]))
    return float(missed[0]), float(money[0])


def _scores(asked: Asked, cost: CostOf, intervals: _Array) -> tuple[_Array, _Array]:
    """Of each interval how many targets are missed or unknown, and what it costs."""
    figures = asked.at({INTERVAL: intervals})
    missed = np.zeros(len(intervals))
    for check in figures.targets:
        missed += np.not_equal(np.asarray(check.met if check.met is not None else np.nan, dtype=np.float64), 1.0)
    money = np.nan_to_num(
        np.broadcast_to(np.asarray(cost(asked.demands, figures), dtype=np.float64), len(intervals)), nan=np.inf
    )
    return missed, money
