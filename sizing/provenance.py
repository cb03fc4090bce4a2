"""Provenance of a figure: counted, calibrated, published, given, or assumed because nobody said otherwise."""

from __future__ import annotations

import functools
from collections.abc import Hashable, Iterator, Mapping
from datetime import date
from typing import Literal, cast, get_args

from pydantic import BaseModel, Field, JsonValue

from sizing.strict_model import StrictModel
from sizing.units import figure_text

Kind = Literal["exact", "calibrated", "measured", "published", "given", "assumed", "unknown"]
"""`exact`: counted from what the scenario says. `calibrated`: by limits fitted to many runs. `measured`: by the rates
of one run. `published`: by figures that a source states. `given`: by figures that the scenario states. `assumed`: by
defaults that nobody has confirmed. `unknown`: no figure, as an input is missing. The most reliable come first."""

_WEAKNESS: dict[Kind, int] = {kind: place for place, kind in enumerate(get_args(Kind))}


class Runs(StrictModel):
    """The benchmark runs that figures rest on."""

    run_ids: tuple[str, ...] = Field(description="Ids of the benchmark runs that the figures rest on.")
    measured_on: date | None = Field(None, description="Date of the latest of these runs. Null when no run states one.")
    error_fraction: float | None = Field(
        None,
        description="Median prediction error as a fraction of the measured time, for configurations that the fit has "
        "not seen. Null when nothing was fitted.",
    )


class Origin(StrictModel):
    """Where a figure comes from."""

    kind: Kind = Field(
        description="How reliable the figures are, the most reliable first: exact, calibrated, measured, published, "
        "given, assumed, unknown. Exact is counted; calibrated rests on many "
        "benchmark runs, measured on one, assumed on defaults; unknown "
        "lacks an input."
    )
    source: str = Field(description="Input, publication or calibration that the figures rest on, in words.")
    runs: Runs | None = Field(None, description="Benchmark runs behind the figures. Null when nothing was measured.")


class Provenance(Origin):
    """Where some figures of the report come from."""

    figures: tuple[str, ...] = Field(
        description="Dotted paths in the report. "
        "The longest matching path counts; the empty path stands for all others."
    )

    @property
    def sentence(self) -> str:
        """Provenance as a line of text.

        >>> Provenance(figures=("write", "restore"), kind="given", source="storage.profile").sentence
        'write, restore: given (storage.profile)'
        """
        return f"{', '.join(name or 'others' for name in self.figures)}: {self.kind} ({self.source})"


def weakest(*origins: Origin) -> Origin:
    """Return the origin of a figure that rests on several others: the least reliable one.

    >>> weakest(Origin(kind="exact", source="a"), Origin(kind="assumed", source="b")).source
    'b'
    """
    return max(origins, key=lambda origin: _WEAKNESS[origin.kind])


def group_by_origin(origins: Mapping[str, Origin]) -> list[Provenance]:
    """Join the figures of each origin; `origins` are by dotted path of the figure."""
    figures: dict[Origin, list[str]] = {}
    known: dict[int, list[str]] = {}  # most are the same object, which is found faster than an equal one
    for path, origin in origins.items():
        if (paths := known.get(id(origin))) is None:
            paths = known[id(origin)] = figures.setdefault(origin, [])
        paths.append(path)
    return [
        Provenance(figures=tuple(paths), kind=origin.kind, source=origin.source, runs=origin.runs)
        for origin, paths in figures.items()
    ]


CHOSEN = "chosen for you"
"""Words beside a value that nobody gave and that the product chose among several, as the best layout."""
LAYOUT = "parallelism"
"""Field of the assumption that the degrees were chosen, all in one."""


class Assumption(StrictModel):
    """A value that the answer rests on and that the scenario did not state."""

    field: str = Field(description="Dotted path in the scenario of the value that was assumed.")
    value: JsonValue = Field(description="What the answer uses, in the unit of the field.")
    reason: str = Field(description="Why this value: a default with its source, or what it follows from.")

    @property
    def sentence(self) -> str:
        """Assumption as a line of text.

        >>> Assumption(field="checkpoint.mode", value="sync", reason="default").sentence
        'checkpoint.mode = sync (default)'
        """
        return f"{self.field} = {self.value_text} ({self.reason})"

    @property
    def value_text(self) -> str:
        """Value as text, with its unit.

        >>> Assumption(field="parallelism.rank_order", value=["tensor", "data"], reason="default").value_text
        'tensor, data'
        >>> Assumption(field="checkpoint.interval_seconds", value=14400, reason="default").value_text
        '4.00 h'
        """
        return figure_text(self.field, self.value)

    @property
    def is_chosen(self) -> bool:
        """Whether the value was chosen among several that fit, and is no default."""
        return CHOSEN in self.reason


def defaults_used(block: BaseModel, path: str = "") -> Iterator[Assumption]:
    """Yield every default that took effect because its field was not given, block by block.

    Fields whose default is None state nothing and are left out; so are those that do not count beside a given one,
    which their schema names as `unless`.
    """
    given, kind = block.model_fields_set, type(block)
    unless = _overruling_fields(kind)
    for name, value in vars(block).items():
        if value is None:
            continue
        if isinstance(value, BaseModel):
            yield from defaults_used(value, f"{path}{name}.")
        elif name not in given and unless.get(name) not in given:
            yield _assumed_default(kind, name, value, path)


@functools.cache
def _overruling_fields(block: type[BaseModel]) -> Mapping[str, JsonValue]:
    """Return the fields of a block that do not count beside another field that is given, with that field."""
    others = {name: _schema_extra(block, name).get("unless") for name in block.model_fields}
    return {name: other for name, other in others.items() if other is not None}


def _schema_extra(block: type[BaseModel], name: str) -> dict[str, JsonValue]:
    """Return the entries of a field's schema beside its type."""
    extra = block.model_fields[name].json_schema_extra
    return extra if isinstance(extra, dict) else {}


@functools.lru_cache(maxsize=1024, typed=True)
def _assumed_default(block: type[BaseModel], name: str, value: Hashable, path: str) -> Assumption:
    source = _schema_extra(block, name).get("source")
    json_value = cast("JsonValue", list(value) if isinstance(value, tuple) else value)
    return Assumption(field=f"{path}{name}", value=json_value, reason=f"default: {source}" if source else "default")
