"""From a workload's own settings to those proposed: what each change saves, and what that rests on."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from sizing.errors import InvalidInput
from sizing.explore.decisions.choices import TIERS, Chosen, choose
from sizing.explore.decisions.decision_report import Change, Unanswered, WayBack
from sizing.explore.decisions.ledger import CostsOf
from sizing.provenance import Origin, Provenance
from sizing.report import answer
from sizing.run.requirements.asked import INTERVAL
from sizing.scenario import Scenario

_SAVES_BY = {
    "checkpoint.mode": "overhead",
    "checkpoint.restore": "restore",
    INTERVAL: "interval",
    TIERS: "tiers",
}
"""Figures of the answer by which a setting saves; of others all, so the weakest input counts."""


@dataclass(frozen=True)
class Tried:
    """All settings of a workload under an offer: its own, the best, and why others have no answer."""

    own: Chosen | None
    best: Chosen | None
    unanswered: list[Unanswered]


def changes_of(
    document: Mapping[str, Any], scenario: Scenario, tried: Tried, costs: CostsOf, origins: Sequence[Provenance]
) -> Iterator[Change]:
    """From the workload's own settings to the best, one after the other, the interval last.

    `origins` are those of the answer with the best.
    """
    settings: dict[str, Any] = {}
    before = tried.own
    for field, after in (tried.best.settings if tried.best else {}).items():
        at_start = _effective(document, scenario, field)
        if at_start.value == after:
            continue
        settings[field] = after
        now = _with(document, settings, costs)
        is_interval = field.endswith("interval_seconds")
        yield Change(
            field=field,
            before=at_start.value,
            after=after,
            saves=_saved(before, now),
            gpu_hours_saved=_gpu_hours_saved(before, now),
            before_is_default=at_start.is_default,
            way_back_before=_way_back(before) if is_interval else None,
            way_back_after=_way_back(now) if is_interval else None,
            rests_on=_origin(origins, _SAVES_BY.get(_root(field), "")),
        )
        before = now or before


def _with(document: Mapping[str, Any], settings: Mapping[str, Any], costs: CostsOf) -> Chosen | None:
    """None where the settings go with a later one alone."""
    try:
        return choose(document, settings, costs=costs, is_free=False)
    except InvalidInput:
        return None


def _saved(before: Chosen | None, now: Chosen | None) -> float | None:
    if before is None or now is None or not (math.isfinite(before.money) and math.isfinite(now.money)):
        return None
    return before.money - now.money


def _gpu_hours_saved(before: Chosen | None, now: Chosen | None) -> float | None:
    if before is None or now is None or before.lost_gpu_hours is None or now.lost_gpu_hours is None:
        return None
    return before.lost_gpu_hours - now.lost_gpu_hours


def _way_back(chosen: Chosen | None) -> WayBack | None:
    if chosen is None:
        return None
    report = answer(chosen.scenario)
    if report.interval.recovery_seconds is None:
        return None
    return WayBack(recovery_seconds=report.interval.recovery_seconds, redone_fraction=report.shares.redone_fraction)


def _root(field: str) -> str:
    """The tiers for a field of one of them.

    >>> _root("checkpoint.tiers.0.interval_seconds"), _root("checkpoint.mode")
    ('checkpoint.tiers', 'checkpoint.mode')
    """
    return TIERS if field.startswith(f"{TIERS}.") else field


def _origin(origins: Sequence[Provenance], figure: str) -> Origin:
    found = next(each for name in (figure, "") for each in origins if name in each.figures)
    return Origin(kind=found.kind, source=found.source, runs=found.runs)


class _Effective(NamedTuple):
    value: Any
    is_default: bool


def _effective(document: Mapping[str, Any], scenario: Scenario, field: str) -> _Effective:
    """What holds for a field, given under this offer or by default; None where a block of its path is left out."""
    given: Any = document
    default: Any = scenario
    for name in field.split("."):
        given = next(iter(given[int(name) :]), None) if isinstance(given, list) else (given or {}).get(name)
        default = getattr(default, name, None)
    if given is not None:
        return _Effective(given, is_default=False)
    return _Effective([], is_default=True) if field == TIERS else _Effective(default, is_default=default is not None)
