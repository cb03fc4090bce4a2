"""Variation of inputs, one at a time: rows of arrays, evaluated together for each save mode."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt
from pydantic import JsonValue

from sizing.errors import InvalidInput
from sizing.field_paths import value_at
from sizing.guesses.alternatives import Alternative
from sizing.guesses.figures import figures_of, figures_without_storage
from sizing.guesses.guess import VISIBLE_FRACTION, WIDE_FRACTION
from sizing.layout.formats import Mode
from sizing.run.checkpoint import Checkpoint
from sizing.run.evaluation import RunInputs
from sizing.run.figures import with_arrays
from sizing.run.targets import judge
from sizing.run.timing import timing_of
from sizing.run.workload import CheckpointWorkload, stack_workloads
from sizing.storage.transfer import Numbers

NUM_ENDS = 2
"""Ends of the range of a number: the lower and the upper one."""

_BLOCKS = {"checkpoint.": "checkpoint", "storage.profile.": "profile", "reliability.": "reliability"}
"""Where the inputs have the numbers of a scenario."""

_DETECTION = "reliability.detection_seconds"

Ends = Mapping[str, tuple[float, float]]
"""The lower and the upper end of numbers, by field."""


class VariedRow(NamedTuple):
    """Input at another value, with the headline and the other figures of the answer.

    `is_wide` says of each figure whether it moves by more than WIDE_FRACTION. `figures` has what each becomes, NaN
    where it is not known. `met` says of each target that is known whether it is met.
    """

    field: str
    value: JsonValue
    headline: float
    is_wide: Sequence[bool] = ()
    met: Mapping[str, bool] = MappingProxyType({})
    figures: Sequence[float] = ()

    def moves_from(self, headline: float) -> bool:
        """Tell whether the headline differs in the digits that are shown."""
        return abs(self.headline - headline) > VISIBLE_FRACTION * abs(headline)


@dataclass(frozen=True, slots=True)
class Group:
    """Group of rows that are evaluated together: both ends of each number, then the alternatives of one save mode.

    `workload` are arrays of all rows, or those of the one layout that all have.
    """

    mode: Mode
    numbers: tuple[str, ...]
    alternatives: tuple[Alternative, ...]
    workload: CheckpointWorkload

    def parts(self, own: CheckpointWorkload) -> Iterator[Group]:
        """Yield a group for each input alone, to find those that have an answer. Numbers vary in `own` workload."""
        yield from (Group(self.mode, (name,), (), own) for name in self.numbers)
        for each in self.alternatives:
            yield Group(self.mode, (), (each,), stack_workloads([(each.workload, each.strategy)]))

    @property
    def num_rows(self) -> int:
        """Number of rows: both ends of each number, and the alternatives."""
        return NUM_ENDS * len(self.numbers) + len(self.alternatives)

    def values(self, ends: Ends) -> Iterator[tuple[str, JsonValue]]:
        """Yield the field and the value of each row."""
        for name in self.numbers:
            yield from ((name, end) for end in ends[name])
        yield from ((each.field, each.value) for each in self.alternatives)


def groups_of(
    own: Checkpoint, workload: CheckpointWorkload, numbers: tuple[str, ...], alternatives: Iterable[Alternative]
) -> Iterator[Group]:
    """Group rows by their save mode. Numbers vary in the mode of the scenario itself."""
    by_mode: dict[Mode, list[Alternative]] = {own.mode: []} if numbers else {}
    for each in alternatives:
        by_mode.setdefault(each.mode, []).append(each)
    for mode, members in by_mode.items():
        own_numbers = numbers if mode == own.mode else ()
        rows = [(workload, own.restore)] * (NUM_ENDS * len(own_numbers))
        rows += [(each.workload, each.strategy) for each in members]
        yield Group(mode, own_numbers, tuple(members), stack_workloads(rows) if members else workload)


def answer_group(
    inputs: RunInputs, group: Group, ends: Ends, *, own: CheckpointWorkload, figures: Mapping[str, float], headline: str
) -> Iterator[VariedRow]:
    """Yield the rows of a group that have an answer, compared with the unchanged `figures`.

    `own` is the workload of the scenario itself. Where one input is refused, the others still get their answers.
    """
    try:
        table, met = _evaluate(inputs, group, ends, figures)
    except InvalidInput:
        if len(group.numbers) + len(group.alternatives) > 1:
            for part in group.parts(own):
                yield from answer_group(inputs, part, ends, own=own, figures=figures, headline=headline)
        return
    unchanged = np.array(list(figures.values()))[:, np.newaxis]
    is_wide = ~(np.abs(table - unchanged) <= WIDE_FRACTION * np.abs(unchanged))  # so is one that is no longer known
    headlines = table[list(figures).index(headline)].tolist()
    rows = zip(group.values(ends), headlines, is_wide.T.tolist(), met, table.T.tolist(), strict=True)
    for (name, value), row_headline, wide, row_met, row_figures in rows:
        if row_headline == row_headline:  # noqa: PLR0124  only NaN differs from itself
            yield VariedRow(name, value, row_headline, wide, row_met, row_figures)


def extremes(unchanged: VariedRow, others: Iterable[VariedRow]) -> tuple[VariedRow, VariedRow]:
    """Return the rows of min and max headline, or the unchanged row where no other differs visibly."""
    by_headline = sorted(others, key=lambda row: row.headline) or [unchanged]
    low, high = by_headline[0], by_headline[-1]
    headline = unchanged.headline
    return (
        low if low.headline < headline and low.moves_from(headline) else unchanged,
        high if high.headline > headline and high.moves_from(headline) else unchanged,
    )


def has_block(inputs: RunInputs, path: str) -> bool:
    """Tell whether the inputs have the block of a number: without storage, for example, no rate of it matters.

    Numbers of other blocks move no headline.
    """
    is_of_run = path.startswith(tuple(_BLOCKS))
    return is_of_run and getattr(inputs, _block_and_rest(path)[0]) is not None


def number_at(inputs: RunInputs, path: str) -> float | None:
    """Return a number of the inputs by its dotted path in the scenario; None where it or its block is missing."""
    name, rest = _block_and_rest(path)
    return cast("float | None", value_at(getattr(inputs, name), rest))


def with_numbers(inputs: RunInputs, arrays: Mapping[str, npt.NDArray[np.float64]]) -> RunInputs:
    """Copy the inputs with arrays in place of numbers, by dotted path in the scenario. Their blocks must exist."""
    blocks: dict[str, Any] = {}
    for path, column in arrays.items():
        name, rest = _block_and_rest(path)
        blocks[name] = with_arrays(blocks.get(name, getattr(inputs, name)), {rest: column})
    return replace(inputs, **blocks)


def _evaluate(
    inputs: RunInputs, group: Group, ends: Ends, figures: Mapping[str, float]
) -> tuple[npt.NDArray[np.float64], list[dict[str, bool]]]:
    """Return figures by row, NaN where a row has no answer, and whether each row meets each target that is known."""
    num_rows = group.num_rows
    arrays: dict[str, npt.NDArray[np.float64]] = {}
    for place, name in enumerate(group.numbers):  # both ends in its own rows, the scenario's value in all others
        value = number_at(inputs, name)
        arrays[name] = np.full(num_rows, np.nan if value is None else value)
        arrays[name][NUM_ENDS * place : NUM_ENDS * (place + 1)] = ends[name]
    arrays |= _detection_of_alternatives(inputs, group, arrays)
    if group.mode != inputs.checkpoint.mode:
        inputs = replace(inputs, checkpoint=inputs.checkpoint.model_copy(update={"mode": group.mode}))
    values, judgements = _figures(with_numbers(inputs, arrays), group.workload)
    table = np.empty((len(figures), num_rows))
    for line, path in enumerate(figures):
        table[line] = values.get(path, np.nan)
    met: list[dict[str, bool]] = [{} for _ in range(num_rows)]
    for target, is_known, is_met in judgements:
        for row in np.flatnonzero(np.broadcast_to(is_known, num_rows)):
            met[row][target] = bool(np.broadcast_to(is_met, num_rows)[row])
    return table, met


def _block_and_rest(path: str) -> tuple[str, str]:
    prefix = next(prefix for prefix in _BLOCKS if path.startswith(prefix))
    return _BLOCKS[prefix], path.removeprefix(prefix)


def _figures(
    inputs: RunInputs, workload: CheckpointWorkload
) -> tuple[Mapping[str, Numbers], list[tuple[str, Numbers, Numbers]]]:
    """Return the known figures, and for each target the rows in which it is known, and met.

    Raises InvalidInput where one of the rows has no answer, such as a save that needs a missing rate.
    """
    if inputs.profile is None:
        return figures_without_storage(workload, inputs), []
    with np.errstate(divide="ignore", invalid="ignore"):  # a rank may have nothing to read
        timing = timing_of(
            workload, checkpoint=inputs.checkpoint, profile=inputs.profile, reliability=inputs.reliability
        )
        return figures_of(timing, workload, inputs), list(
            judge(inputs.targets, timing.of_targets, bounded=timing.bounded_targets)
        )


def _detection_of_alternatives(
    inputs: RunInputs, group: Group, arrays: Mapping[str, npt.NDArray[np.float64]]
) -> dict[str, npt.NDArray[np.float64]]:
    """Return the detection time of each row where an alternative changes it, else nothing."""
    if all(each.detection_seconds is None for each in group.alternatives):
        return {}
    own = number_at(inputs, _DETECTION)
    column = arrays.get(_DETECTION, np.full(group.num_rows, own, dtype=np.float64))
    first = group.num_rows - len(group.alternatives)
    column[first:] = [own if each.detection_seconds is None else each.detection_seconds for each in group.alternatives]
    return {_DETECTION: column}
