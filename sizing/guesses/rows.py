"""Inputs varied one at a time, in as few evaluations as there are ways to save: rows of arrays."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sizing.errors import InvalidInput
from sizing.guesses.alternatives import Alternative
from sizing.guesses.figures import Figures, figures_of
from sizing.layout.formats import Mode
from sizing.run.demands.demands import Demands
from sizing.run.demands.stacked import StackedDemands, stacked
from sizing.run.figures import with_arrays
from sizing.run.saving import saving_of
from sizing.scenario import Scenario
from sizing.storage.storage import Storage

NUM_ENDS = 2
"""Of a number: its lower and its upper one."""

Row = dict[str, float]
"""The figures of one row that are known; none where it has no answer."""


@dataclass(frozen=True, slots=True)
class Group:
    """Rows that are answered together: both ends of each number, then the alternatives that save in one mode."""

    mode: Mode
    numbers: tuple[str, ...]
    alternatives: tuple[Alternative, ...]
    demands: StackedDemands

    @property
    def num_rows(self) -> int:
        """Of both."""
        return NUM_ENDS * len(self.numbers) + len(self.alternatives)


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
        yield Group(mode, varied, tuple(members), stacked(rows))


def figures_of_group(
    scenario: Scenario, group: Group, ends: Mapping[str, tuple[float, float]]
) -> tuple[dict[str, list[Row]], list[Row]]:
    """The figures at both ends of each number, and those of each alternative.

    `scenario` has its rates in `storage.profile`, as `profile_in_scenario` puts them there.
    """
    checkpoint = scenario.checkpoint.model_copy(update={"mode": group.mode})
    arrays = {
        field: _column(group, place, ends[field], value_at(scenario, field))
        for place, field in enumerate(group.numbers)
    }
    varied = with_arrays(scenario.model_copy(update={"checkpoint": checkpoint}), arrays)
    rows = _rows(evaluated(varied, group.demands), group.num_rows)
    split = NUM_ENDS * len(group.numbers)
    pairs = {field: rows[NUM_ENDS * place : NUM_ENDS * (place + 1)] for place, field in enumerate(group.numbers)}
    return pairs, rows[split:]


def figures_at_ends(scenario: Scenario, demands: Demands, field: str, ends: tuple[float, float]) -> list[Row]:
    """The figures at both ends of a number that stands in the scenario or not."""
    return _rows(evaluated(with_arrays(scenario, {field: np.array(ends)}), demands), NUM_ENDS)


def evaluated(scenario: Scenario, demands: Demands) -> Figures:
    """The figures of a scenario with arrays; none where a rate is missing that saving needs."""
    inputs = scenario.run_inputs
    try:
        saving = saving_of(
            demands, checkpoint=inputs.checkpoint, profile=inputs.profile, reliability=inputs.reliability
        )
    except InvalidInput:
        return {}
    return figures_of(saving, demands)


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


def _column(group: Group, place: int, ends: tuple[float, float], value: float) -> npt.NDArray[np.float64]:
    """A number in every row: its ends in its own rows, what the scenario has in all others."""
    column = np.full(group.num_rows, value, dtype=np.float64)
    column[NUM_ENDS * place : NUM_ENDS * (place + 1)] = ends
    return column


def _rows(figures: Figures, num_rows: int) -> list[Row]:
    columns: Sequence[list[float]] = [np.broadcast_to(values, num_rows).tolist() for values in figures.values()]
    return [
        {path: value for path, value in zip(figures, row, strict=True) if value == value}  # noqa: PLR0124  not NaN
        for row in zip(*columns, strict=True)
    ] or [{} for _ in range(num_rows)]
