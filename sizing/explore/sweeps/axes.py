"""Which fields of a document are to vary, and over which values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from sizing.errors import InvalidInput, explain, holds_list, model_in
from sizing.scenario import Scenario

MAX_VALUES = 1_000_000
"""Of one field; MAX_ROWS bounds their product."""

RUN_BLOCKS = ("storage", "reliability", "retention", "targets", "costs")
"""Of a scenario: what changes neither its layout nor the bytes of its checkpoint."""
_INTERVAL = "checkpoint.interval_seconds"
"""Judged against the tiers of each scenario, where there are any."""
_RUN_FIELDS = (_INTERVAL, "checkpoint.observed_write_bytes_per_second")


class Range(BaseModel):
    """Values from a first to a last one."""

    model_config = ConfigDict(extra="forbid", frozen=True)

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


def axes_of(document: dict[str, Any]) -> list[Axis]:
    """The fields of a scenario document that hold a list or a range, in its order.

    A field whose value is a list anyway, such as `parallelism.layers_per_stage`, varies over a list of lists.
    Raises InvalidInput where a list is empty, a value breaks the field's rule, or a range is none.
    """
    axes = list(_axes(document, Scenario, ""))
    checkpoint = document.get("checkpoint")
    if isinstance(checkpoint, dict) and checkpoint.get("tiers"):
        return [replace(axis, is_array=axis.is_array and axis.path != _INTERVAL) for axis in axes]
    return axes


def _axes(block: dict[str, Any], model: type[BaseModel], prefix: str) -> Iterator[Axis]:
    for name, value in block.items():
        path, field = f"{prefix}{name}", model.model_fields.get(str(name))
        if field is None:
            continue
        if isinstance(value, dict) and {"from", "to"} & value.keys():
            yield _axis(path, _spread(path, value, field))
        elif isinstance(value, list) and (not holds_list(field.annotation) or _lists_alone(value)):
            yield _axis(path, _valid(path, enumerate(_some(path, value)), field))
        elif (inner := model_in(field.annotation)) is not None:
            for place, each in _objects(value):
                yield from _axes(each, inner, f"{path}.{place}")


def _objects(value: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """An object, or those of a list, with what stands before their fields' names."""
    if isinstance(value, dict):
        yield "", value
    elif isinstance(value, list):
        yield from ((f"{place}.", each) for place, each in enumerate(value) if isinstance(each, dict))


def _axis(path: str, values: Sequence[Any]) -> Axis:
    numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)
    in_run = path.split(".", maxsplit=1)[0] in RUN_BLOCKS or path in _RUN_FIELDS
    return Axis(path, values, is_array=in_run and numbers)


def _some(path: str, values: list[Any]) -> list[Any]:
    if not 1 <= len(values) <= MAX_VALUES:
        raise InvalidInput.of(
            path, f"must have 1 to {MAX_VALUES:,} values", value=f"{len(values):,}", remedy="give a shorter list"
        )
    return values


def _valid(path: str, values: Iterable[tuple[object, Any]], field: FieldInfo) -> list[Any]:
    """Values, each with its place, as their field holds them: text with a unit becomes a number, an object stays."""
    adapter: TypeAdapter[Any] = TypeAdapter(Annotated[field.annotation, field])  # type: ignore[arg-type]  # a type known only when it runs
    valid = []
    for place, value in values:
        try:
            parsed = adapter.validate_python(value)
        except ValidationError as error:
            raise explain(error, model_in(field.annotation) or Scenario).within(f"{path}.{place}") from None
        valid.append(value if isinstance(parsed, BaseModel) else parsed)
    return valid


def _spread(path: str, value: dict[str, Any], field: FieldInfo) -> list[Any]:
    try:
        asked = Range.model_validate(value)
    except ValidationError as error:
        raise explain(error, Range).within(path) from None
    start, stop = _valid(path, (("from", asked.start), ("to", asked.stop)), field)
    if not all(isinstance(end, int | float) for end in (start, stop)):
        raise InvalidInput.of(path, "must be a number to have a range", value=value, remedy="give a list of values")
    if asked.scale == "log" and min(start, stop) <= 0:
        raise InvalidInput.of(path, "must be more than 0 on the log scale", value=value, remedy="start above 0")
    spread = np.geomspace if asked.scale == "log" else np.linspace
    values = spread(float(start), float(stop), asked.num)
    if isinstance(start, int) and isinstance(stop, int):
        return list(dict.fromkeys(round(each) for each in values.tolist()))
    ends: list[Any] = [start, *values[1:-1].tolist(), stop]
    return ends


def _lists_alone(values: list[Any]) -> bool:
    return bool(values) and all(isinstance(value, list) for value in values)
