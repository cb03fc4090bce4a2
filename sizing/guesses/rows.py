"""Inputs varied one at a time, in as few evaluations as there are ways to save: rows of arrays."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt
from pydantic import JsonValue

from sizing.errors import InvalidInput
from sizing.guesses.alternatives import Alternative
from sizing.guesses.figures import figures_of, figures_without_storage
from sizing.guesses.guess import VISIBLE_FRACTION, WIDE_FRACTION
from sizing.layout.formats import Mode
from sizing.run.checkpoint import Checkpoint
from sizing.run.demands.demands import Demands
from sizing.run.demands.stacked import stacked
from sizing.run.evaluation import RunInputs
from sizing.run.figures import with_arrays
from sizing.run.saving import saving_of
from sizing.run.targets import misses
from sizing.storage.transfer import Numbers

NUM_ENDS = 2
"""Of a number: its lower and its upper one."""

_BLOCKS = {"checkpoint.": "checkpoint", "storage.profile.": "profile", "reliability.": "reliability"}
"""Where the inputs have the numbers of a scenario."""

Ends = Mapping[str, tuple[float, float]]
"""The lower and the upper end of numbers, by field."""


class Answered(NamedTuple):
    """An input at another value, and the headline then.

    `is_wide` says of each figure whether it moves by more than WIDE_FRACTION, `missed` which targets are missed.
    """

    field: str
    value: JsonValue
    headline: float
    is_wide: Sequence[bool] = ()
    missed: Sequence[str] = ()

    def moves_from(self, headline: float) -> bool:
        """Whether the headline is another one in the digits that are shown."""
        return abs(self.headline - headline) > VISIBLE_FRACTION * abs(headline)


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
    own: Checkpoint, demands: Demands, numbers: tuple[str, ...], alternatives: Iterable[Alternative]
) -> Iterator[Group]:
    """Rows by the mode in which they save; numbers are varied in the scenario's `own`."""
    by_mode: dict[Mode, list[Alternative]] = {own.mode: []} if numbers else {}
    for each in alternatives:
        by_mode.setdefault(each.mode, []).append(each)
    for mode, members in by_mode.items():
        varied = numbers if mode == own.mode else ()
        rows = [(demands, own.restore)] * (NUM_ENDS * len(varied)) + [(each.demands, each.strategy) for each in members]
        yield Group(mode, varied, tuple(members), stacked(rows) if members else demands)


def answered(
    inputs: RunInputs, group: Group, ends: Ends, *, figures: Mapping[str, float], headline: str
) -> Iterator[Answered]:
    """The rows of a group that have an answer, beside the `figures` as they stand."""
    found, missed = _table(inputs, group, ends, figures)
    standing = np.array(list(figures.values()))[:, np.newaxis]
    is_wide = ~(np.abs(found - standing) <= WIDE_FRACTION * np.abs(standing))  # so is one that is no longer known
    headlines = found[list(figures).index(headline)].tolist()
    rows = zip(group.values(ends), headlines, is_wide.T.tolist(), missed, strict=True)
    for (name, value), becomes, wide, targets in rows:
        if becomes == becomes:  # noqa: PLR0124  only NaN differs from itself
            yield Answered(name, value, becomes, wide, targets)


def extremes(as_it_stands: Answered, others: Iterable[Answered]) -> tuple[Answered, Answered]:
    """Those with the min and the max headline; what stands as it is, where no other differs visibly from it."""
    by_headline = sorted(others, key=lambda row: row.headline)
    ends = (by_headline[0], by_headline[-1]) if by_headline else (as_it_stands, as_it_stands)
    standing = as_it_stands.headline
    low = ends[0] if ends[0].headline < standing and ends[0].moves_from(standing) else as_it_stands
    high = ends[1] if ends[1].headline > standing and ends[1].moves_from(standing) else as_it_stands
    return low, high


def has_block(inputs: RunInputs, path: str) -> bool:
    """Whether the block is there in which a number stands: without storage, no rate of it matters."""
    return getattr(inputs, _block_and_rest(path)[0]) is not None


def number_at(inputs: RunInputs, path: str) -> float | None:
    """A number of the inputs by its dotted path in the scenario; None where it, or its block, is not there."""
    name, rest = _block_and_rest(path)
    value: Any = getattr(inputs, name)
    for part in rest.split("."):
        value = value[int(part)] if isinstance(value, tuple) else getattr(value, part, None)
    return cast("float | None", value)


def with_numbers(inputs: RunInputs, arrays: Mapping[str, npt.NDArray[np.float64]]) -> RunInputs:
    """The inputs with arrays for numbers, by their dotted paths in the scenario; their blocks must be there."""
    blocks: dict[str, Any] = {}
    for path, column in arrays.items():
        name, rest = _block_and_rest(path)
        blocks[name] = with_arrays(blocks.get(name, getattr(inputs, name)), {rest: column})
    return replace(inputs, **blocks)


def _table(
    inputs: RunInputs, group: Group, ends: Ends, figures: Mapping[str, float]
) -> tuple[npt.NDArray[np.float64], list[list[str]]]:
    """A line for each figure, a column for each row, no number where a row has no answer; each row's missed targets."""
    arrays = {
        name: _column(group, place, ends[name], number_at(inputs, name)) for place, name in enumerate(group.numbers)
    }
    found, missing = _figures(_varied(inputs, group.mode, arrays), group.demands)
    table = np.empty((len(figures), group.num_rows))
    for line, path in enumerate(figures):
        table[line] = found.get(path, np.nan)
    return table, _missed(missing, group.num_rows)


def _missed(missing: Iterable[tuple[str, Numbers]], num_rows: int) -> list[list[str]]:
    """The targets that each row misses."""
    missed: list[list[str]] = [[] for _ in range(num_rows)]
    for target, is_missed in missing:
        for place in np.flatnonzero(np.broadcast_to(is_missed, num_rows)):
            missed[place].append(target)
    return missed


def _varied(inputs: RunInputs, mode: Mode, arrays: Mapping[str, npt.NDArray[np.float64]]) -> RunInputs:
    """The inputs with arrays for numbers, saved in a mode."""
    if mode != inputs.checkpoint.mode:
        inputs = replace(inputs, checkpoint=inputs.checkpoint.model_copy(update={"mode": mode}))
    return with_numbers(inputs, arrays)


def _block_and_rest(path: str) -> tuple[str, str]:
    prefix = next(prefix for prefix in _BLOCKS if path.startswith(prefix))
    return _BLOCKS[prefix], path.removeprefix(prefix)


def _figures(inputs: RunInputs, demands: Demands) -> tuple[Mapping[str, Numbers], list[tuple[str, Numbers]]]:
    """The figures that are known, none where saving needs a missing rate; and for each target where it is missed."""
    if inputs.profile is None:
        return figures_without_storage(demands, inputs), []
    try:
        with np.errstate(divide="ignore", invalid="ignore"):  # a rank may have nothing to read
            saving = saving_of(
                demands, checkpoint=inputs.checkpoint, profile=inputs.profile, reliability=inputs.reliability
            )
            return figures_of(saving, demands, inputs), list(misses(inputs.targets, saving.of_targets))
    except InvalidInput:
        return {}, []


def _column(group: Group, place: int, ends: tuple[float, float], value: float | None) -> npt.NDArray[np.float64]:
    """A number in every row: its ends in its own rows, what the scenario has in all others."""
    column = np.full(group.num_rows, np.nan if value is None else value)
    column[NUM_ENDS * place : NUM_ENDS * (place + 1)] = ends
    return column
