"""Axes of a sweep: the fields that vary, over which values, and the rows that these combine to, in blocks."""

from __future__ import annotations

import itertools
import math
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BaseModel, Field, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from sizing.errors import InvalidInput, explain, holds_list, model_in
from sizing.field_paths import value_at
from sizing.questions.chunks import ItemRange, cut
from sizing.questions.sweep.request import Combination
from sizing.questions.sweep.table import Column
from sizing.scenario import Scenario
from sizing.strict_model import InputModel, StrictTruth

MAX_VALUES = 1_000_000
"""Max values of one field; MAX_ROWS bounds their product."""

RUN_BLOCKS = ("storage", "reliability", "retention", "targets", "costs")
"""Blocks of a scenario that change neither its layout nor the bytes of its checkpoint."""
_INTERVAL = "checkpoint.interval_seconds"
"""Judged against the tiers of each scenario, where there are any."""
_LINK = "storage.profile.device_to_host_bytes_per_second"
"""Rate at which state that training keeps on the host moves too, which is part of each step."""
_RUN_FIELDS = (_INTERVAL, "checkpoint.observed_write_bytes_per_second")


class Range(InputModel):
    """Values from a first to a last one."""

    start: Any = Field(alias="from", description="First value, in any unit that the field takes.")
    stop: Any = Field(alias="to", description="Last value, included.")
    num: Annotated[int, Field(ge=2, le=MAX_VALUES)] = Field(
        description="How many values, both ends included; whole numbers are rounded and repeated ones dropped."
    )
    scale: Literal["linear", "log"] = Field(
        "linear", description="How they are spaced: evenly, or on the log scale in equal ratios."
    )


@dataclass(frozen=True, slots=True)
class Axis:
    """A field and its values, validated as the field's. `is_array`: the equations take them all at once."""

    path: str
    values: Sequence[Any]
    is_array: bool


def find_axes(document: dict[str, Any]) -> list[Axis]:
    """Find the fields of a scenario document that hold a list or a range, in its order.

    A field whose value is a list anyway, such as `parallelism.layers_per_stage`, varies over a list of lists.
    Raises InvalidInput where a list is empty, a value breaks the field's rule, or a range is none.
    """
    axes = list(_find_axes(document, Scenario, ""))
    deciding = [(_INTERVAL, "checkpoint.tiers"), (_LINK, "training.offload")]
    of_scenario = [path for path, beside in deciding if value_at(document, beside)]
    return [replace(axis, is_array=axis.is_array and axis.path not in of_scenario) for axis in axes]


def _find_axes(block: dict[str, Any], model: type[BaseModel], prefix: str) -> Iterator[Axis]:
    for name, value in block.items():
        path, field = f"{prefix}{name}", model.model_fields.get(str(name))
        if field is None:
            continue
        is_list_of_lists = isinstance(value, list) and value and all(isinstance(each, list) for each in value)
        if isinstance(value, dict) and {"from", "to"} & value.keys():
            yield _make_axis(path, _spread_range(path, value, field))
        elif isinstance(value, list) and (not holds_list(field.annotation) or is_list_of_lists):
            _check_num_values(path, value)
            yield _make_axis(path, _validate(path, enumerate(value), field))
        elif (inner := model_in(field.annotation)) is None:
            continue
        elif isinstance(value, dict):
            yield from _find_axes(value, inner, f"{path}.")
        elif isinstance(value, list):
            for place, each in enumerate(value):
                if isinstance(each, dict):
                    yield from _find_axes(each, inner, f"{path}.{place}.")


def _make_axis(path: str, values: Sequence[Any]) -> Axis:
    numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)
    in_run = path.split(".", maxsplit=1)[0] in RUN_BLOCKS or path in _RUN_FIELDS
    return Axis(path, values, is_array=in_run and numbers)


def _check_num_values(path: str, values: list[Any]) -> None:
    if not values:
        remedy = "give one value or more, or leave the field out"
        raise InvalidInput.of(path, "must have a value to vary over", value=values, remedy=remedy)
    if len(values) > MAX_VALUES:
        rule = f"must have at most {MAX_VALUES:,} values, and has {len(values):,}"
        raise InvalidInput.of(path, rule, value=None, remedy="give a shorter list")


def _validate(path: str, values: Iterable[tuple[object, Any]], field: FieldInfo) -> list[Any]:
    """Validate values, each with its place: text with a unit becomes a number, an object stays."""
    adapter: TypeAdapter[Any] = TypeAdapter(Annotated[field.annotation, field, StrictTruth()])  # type: ignore[arg-type]  # a type known only when it runs
    valid = []
    for place, value in values:
        try:
            parsed = adapter.validate_python(value)
        except ValidationError as error:
            raise explain(error, model_in(field.annotation) or Scenario).within(f"{path}.{place}") from None
        valid.append(value if isinstance(parsed, BaseModel) else parsed)
    return valid


def _spread_range(path: str, value: dict[str, Any], field: FieldInfo) -> list[Any]:
    try:
        given = Range.model_validate(value)
    except ValidationError as error:
        found = explain(error, Range).within(path)
        bounds = [each.field == f"{path}.num" and each.rule.startswith("must be at ") for each in found.problems]
        raise InvalidInput(
            replace(each, rule=f"{each.rule} as the number of values") if is_bound else each
            for each, is_bound in zip(found.problems, bounds, strict=True)
        ) from None
    start, stop = _validate(path, (("from", given.start), ("to", given.stop)), field)
    if not all(isinstance(end, int | float) for end in (start, stop)):
        raise InvalidInput.of(path, "must be a number to have a range", value=value, remedy="give a list of values")
    if given.scale == "log" and min(start, stop) <= 0:
        raise InvalidInput.of(path, "must be more than 0 on the log scale", value=value, remedy="start above 0")
    spread = np.geomspace if given.scale == "log" else np.linspace
    values = spread(float(start), float(stop), given.num)
    if isinstance(start, int) and isinstance(stop, int):
        return list(dict.fromkeys(round(each) for each in values.tolist()))
    ends: list[Any] = [start, *values[1:-1].tolist(), stop]
    return ends


MAX_ROWS = 1_000_000_000
"""Max rows: a quarter of an hour of one core for arrays alone. Only the front of so many is ever kept."""
MAX_SCENARIOS = 20_000
"""Scenarios that differ in more than numbers of storage, run and failures, each of which is parsed and laid out."""

_ROWS_PER_BLOCK = 8_192
"""Arrays of 64 KiB stay in a core's cache; smaller blocks pay more for Python, larger ones for memory."""
_ROWS_PER_CHUNK = 256 * _ROWS_PER_BLOCK
"""Two million rows of one scenario are 1 to 5 s of work."""
_SCENARIOS_PER_CHUNK = 256
"""Scenarios of a few milliseconds each."""
_SEARCHES_PER_CHUNK = 16
"""Scenarios whose layouts are searched, in 0.3 to 1 s each."""


@dataclass(frozen=True, slots=True)
class RowBlock:
    """Rows of one scenario: `fixed` fields are the same for all, `arrays` differ."""

    fixed: dict[str, Any]
    first: dict[str, Any]
    """What the fields of `arrays` are in the first row of the scenario, be it in this block or before."""
    arrays: dict[str, Column]
    num_rows: int


def count_rows(axes: Sequence[Axis], combine: Combination) -> int:
    """Count the rows that axes make: the product of their lengths, or their common length.

    Source: definition.
    Raises InvalidInput where there are none, too many, or lists of unlike lengths to zip.

    >>> axes = [Axis("parallelism.data", [1, 2], is_array=False), Axis("costs.per_terabyte", [3, 4], is_array=True)]
    >>> count_rows(axes, "product"), count_rows(axes, "zip")
    (4, 2)
    """
    lengths = [len(axis.values) for axis in axes]
    if not lengths:
        raise InvalidInput.of(
            "the scenario", "must have a list or a range somewhere", value=None, remedy="give [1, 2] for a field"
        )
    if combine == "zip" and len(set(lengths)) > 1:
        found = ", ".join(f"{axis.path} {len(axis.values):,}" for axis in axes)
        raise InvalidInput.of("combine", "zip needs lists of one length", value=found, remedy="make them equally long")
    total = lengths[0] if combine == "zip" else math.prod(lengths)
    if total > MAX_ROWS:
        raise InvalidInput.of(
            "the sweep", f"must have at most {MAX_ROWS:,} rows", value=f"{total:,}", remedy="take fewer values"
        )
    return total


class Rows:
    """The rows that axes combine to: fields that change the scenario vary slowest, of the others the last fastest.

    Raises InvalidInput as `count_rows`, and for more than 20,000 scenarios.
    """

    def __init__(self, axes: Sequence[Axis], combine: Combination) -> None:
        self._is_zip = combine == "zip"
        self._fixed = [axis for axis in axes if not axis.is_array]
        self._arrays = {axis.path: np.array(axis.values, dtype=np.float64) for axis in axes if axis.is_array}
        self.num_rows = count_rows(axes, combine)
        self._shape = tuple(len(values) for values in self._arrays.values())
        num_alike = math.prod(self._shape)
        _check_num_scenarios(1 if self._is_zip else self.num_rows // num_alike)
        self._firsts = self._changes() if self._is_zip else range(0, self.num_rows, num_alike)
        """The first row of each scenario."""
        _check_num_scenarios(len(self._firsts))

    def chunks(self, *, are_searched: bool) -> list[ItemRange]:
        """Ranges of rows, of some seconds of work each, also where the layout of each scenario is searched."""
        num_scenarios = _SEARCHES_PER_CHUNK if are_searched else _SCENARIOS_PER_CHUNK
        return cut([*self._firsts[::num_scenarios], self.num_rows], max_items=_ROWS_PER_CHUNK)

    def blocks(self, rows: ItemRange) -> Iterator[RowBlock]:
        """The rows of a range, in blocks of one scenario each."""
        scenario = bisect_right(self._firsts, rows.start) - 1
        for first, last in itertools.pairwise([*self._firsts[scenario:], self.num_rows]):
            if first >= rows.stop:
                return
            common = self._fixed_values(first, scenario)
            in_first = {path: each.item() for path, each in self._array_values(first, first + 1, first=first).items()}
            for start, stop in cut([max(first, rows.start), min(last, rows.stop)], max_items=_ROWS_PER_BLOCK):
                yield RowBlock(common, in_first, self._array_values(start, stop, first=first), stop - start)
            scenario += 1

    def _changes(self) -> list[int]:
        """The rows of a zip at which another scenario begins."""
        values = [axis.values for axis in self._fixed]
        changes = (row for row in range(1, self.num_rows) if any(each[row] != each[row - 1] for each in values))
        return [0, *changes]

    def _fixed_values(self, row: int, scenario: int) -> dict[str, Any]:
        """The values of the scenario that begins at a row."""
        lengths = tuple(len(axis.values) for axis in self._fixed)
        if self._is_zip or not lengths:
            return {axis.path: axis.values[row] for axis in self._fixed}
        places = np.unravel_index(scenario, lengths)
        return {axis.path: axis.values[int(place)] for axis, place in zip(self._fixed, places, strict=True)}

    def _array_values(self, start: int, stop: int, *, first: int) -> dict[str, Column]:
        """The values of rows of the scenario that begins at row `first`."""
        if self._is_zip or not self._shape:
            return {path: values[start:stop] for path, values in self._arrays.items()}
        places = np.unravel_index(np.arange(start, stop) - first, self._shape)
        return {path: values[at] for (path, values), at in zip(self._arrays.items(), places, strict=True)}


def _check_num_scenarios(num_scenarios: int) -> None:
    if num_scenarios > MAX_SCENARIOS:
        raise InvalidInput.of(
            "the sweep",
            f"must have at most {MAX_SCENARIOS:,} scenarios that differ in more than numbers of storage, interval, "
            "failures, retention, targets and costs",
            value=f"{num_scenarios:,}",
            remedy="take fewer values of the other fields",
        )
