"""Inputs varied one at a time, in as few evaluations as there are ways to save: rows of arrays."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from pydantic import JsonValue

from sizing.errors import InvalidInput
from sizing.guesses.alternatives import Alternative
from sizing.guesses.figures import figures_of, figures_of_layout
from sizing.guesses.guess import ROUNDING, WIDE_FRACTION
from sizing.layout.formats import Mode
from sizing.run.demands.demands import Demands
from sizing.run.demands.stacked import stacked
from sizing.run.evaluation import RunInputs
from sizing.run.figures import with_arrays
from sizing.run.saving import saving_of
from sizing.scenario import Scenario
from sizing.storage.storage import Storage
from sizing.storage.transfer import Numbers

NUM_ENDS = 2
"""Of a number: its lower and its upper one."""

Ends = Mapping[str, tuple[float, float]]
"""The lower and the upper end of numbers, by field."""


@dataclass(frozen=True, slots=True)
class Answered:
    """An input at another value: the headline then, and the figures that it moves by more than WIDE_FRACTION."""

    field: str
    value: JsonValue
    headline: float
    moves: tuple[str, ...]

    def moves_from(self, headline: float) -> bool:
        """Whether the headline is another one, beyond rounding."""
        return abs(self.headline - headline) > ROUNDING * abs(headline)


@dataclass(frozen=True, slots=True)
class Group:
    """Rows that are answered together: both ends of each number, then the alternatives that save in one mode.

    `demands` are arrays of all rows, or those of the one layout that all have.
    """

    mode: Mode
    numbers: tuple[str, ...]
    alternatives: tuple[Alternative, ...]
    demands: Demands

    @property
    def num_rows(self) -> int:
        """Of both."""
        return NUM_ENDS * len(self.numbers) + len(self.alternatives)

    def values(self, ends: Ends) -> Iterator[tuple[str, JsonValue]]:
        """The field and its value of each row."""
        for name in self.numbers:
            yield from ((name, end) for end in ends[name])
        yield from ((each.field, each.value) for each in self.alternatives)


def groups_of(
    scenario: Scenario, demands: Demands, numbers: tuple[str, ...], alternatives: Iterable[Alternative]
) -> Iterator[Group]:
    """Rows by the mode in which they save; numbers are varied in the scenario's own."""
    own = scenario.checkpoint
    by_mode: dict[Mode, list[Alternative]] = {own.mode: []} if numbers else {}
    for each in alternatives:
        by_mode.setdefault(each.mode, []).append(each)
    for mode, members in by_mode.items():
        varied = numbers if mode == own.mode else ()
        rows = [(demands, own.restore)] * (NUM_ENDS * len(varied)) + [(each.demands, each.strategy) for each in members]
        yield Group(mode, varied, tuple(members), stacked(rows) if members else demands)


def answered(
    scenario: Scenario, group: Group, ends: Ends, *, figures: Mapping[str, float], headline: str
) -> Iterator[Answered]:
    """The rows of a group that have an answer, beside the `figures` as they stand.

    `scenario` has its rates in `storage.profile`, as `profile_in_scenario` puts them there.
    """
    found = _table(scenario, group, ends, figures)
    standing = np.array(list(figures.values()))[:, np.newaxis]
    is_wide = np.abs(found - standing) > WIDE_FRACTION * np.abs(standing)
    paths = list(figures)
    headlines = found[paths.index(headline)].tolist()
    for (name, value), becomes, wide in zip(group.values(ends), headlines, is_wide.T.tolist(), strict=True):
        if becomes == becomes:  # noqa: PLR0124  only NaN differs from itself
            yield Answered(name, value, becomes, tuple(path for path, moved in zip(paths, wide, strict=True) if moved))


def extremes(rows: Iterable[Answered]) -> tuple[Answered, Answered]:
    """Those with the min and the max headline."""
    by_headline = sorted(rows, key=lambda row: row.headline)
    return by_headline[0], by_headline[-1]


def profile_in_scenario(scenario: Scenario) -> Scenario:
    """The scenario with the rates of its storage in `storage.profile`, whatever they come from."""
    profile = scenario.run_inputs.profile
    storage = None if profile is None else Storage.model_construct(profile=profile)
    return scenario.model_copy(update={"storage": storage})


def value_at(scenario: Scenario, path: str) -> Any:
    """The value of a field in effect; None where a block on its path is missing."""
    value: Any = scenario
    for name in path.split("."):
        value = value[int(name)] if isinstance(value, tuple) else getattr(value, name, None)
    return value


def _table(scenario: Scenario, group: Group, ends: Ends, figures: Mapping[str, float]) -> npt.NDArray[np.float64]:
    """A line for each figure, a column for each row; no number where a row has no answer."""
    checkpoint = scenario.checkpoint.model_copy(update={"mode": group.mode})
    arrays = {
        name: _column(group, place, ends[name], value_at(scenario, name)) for place, name in enumerate(group.numbers)
    }
    inputs = with_arrays(scenario.model_copy(update={"checkpoint": checkpoint}), arrays).run_inputs
    found = _figures(inputs, group.demands)
    table = np.empty((len(figures), group.num_rows))
    for line, path in enumerate(figures):
        table[line] = found.get(path, np.nan)
    return table


def _figures(inputs: RunInputs, demands: Demands) -> Mapping[str, Numbers]:
    """The figures that are known: without storage those of the layout, none where saving needs a missing rate."""
    if inputs.profile is None:
        return figures_of_layout(demands)
    try:
        saving = saving_of(
            demands, checkpoint=inputs.checkpoint, profile=inputs.profile, reliability=inputs.reliability
        )
    except InvalidInput:
        return {}
    return figures_of(saving, demands)


def _column(group: Group, place: int, ends: tuple[float, float], value: float | None) -> npt.NDArray[np.float64]:
    """A number in every row: its ends in its own rows, what the scenario has in all others."""
    column = np.full(group.num_rows, np.nan if value is None else value)
    column[NUM_ENDS * place : NUM_ENDS * (place + 1)] = ends
    return column
