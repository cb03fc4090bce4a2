"""How far off a guess may be: the plausible range of every value that is assumed where nobody states it.

One file, `ranges.toml`, holds them with their sources: defaults take the midpoint, and the report shows what either end
would make of the answer. Beside the ranges it has the choices, of which the alternatives are answered, and what is no
guess, with the reason.
"""

from __future__ import annotations

import functools
import tomllib
from importlib import resources
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, JsonValue


class PlausibleRange(BaseModel):
    """From where to where a value that nobody stated may lie."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    field: str = Field(description="Dotted path of the field in the scenario.")
    low: float = Field(description="Lower end, in the unit of the field, or a fraction where `fraction_of` says so.")
    high: float = Field(description="Upper end, in the unit of the field, or a fraction where `fraction_of` says so.")
    fraction_of: str | None = Field(
        None, description="Published value of which each end is a fraction. Default: they are values themselves."
    )
    source: str = Field(description="Where both ends were read.")

    @property
    def midpoint(self) -> float:
        """What is assumed: the mean of both ends.

        >>> plausible_range("reliability.detection_seconds").midpoint
        300.0
        """
        return (self.low + self.high) / 2

    @property
    def reason(self) -> str:
        """Why the midpoint is assumed, in words.

        >>> plausible_range("reliability.relaunch_seconds").reason.partition(":")[0]
        'midpoint of 300 to 600'
        """
        return f"midpoint of {self.low:g} to {self.high:g}: {self.source}"

    def ends(self, assumed: float) -> tuple[float, float]:
        """Both ends as values of the field, where the midpoint of a fraction is assumed.

        >>> half = PlausibleRange(field="a", low=0.4, high=0.8, fraction_of="line rate", source="b")
        >>> [round(end) for end in half.ends(600.0)]
        [400, 800]
        """
        scale = assumed / self.midpoint if self.fraction_of else 1.0
        return self.low * scale, self.high * scale


class PlausibleChoice(BaseModel):
    """A choice that nobody made: the alternatives that are as plausible as the one taken."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    field: str = Field(description="Dotted path of the field in the scenario.")
    among: tuple[JsonValue, ...] = Field(
        (), description="Values that are plausible. Default: every value that the field may have."
    )
    source: str = Field(description="Where these values were read, or why they are plausible.")


class Settled(BaseModel):
    """Fields whose defaults are no guesses that could move a headline, or hardly, with the reason."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    fields: tuple[str, ...] = Field(description="Dotted paths; a path stands for all fields below it too.")
    reason: str = Field(description="Why nothing is tried in their place.")


@functools.cache
def plausible_ranges() -> dict[str, PlausibleRange]:
    """Every range by its field, in the order of the file."""
    return {found.field: found for found in map(PlausibleRange.model_validate, _rows("range"))}


@functools.cache
def plausible_choices() -> dict[str, PlausibleChoice]:
    """Every choice by its field, in the order of the file."""
    return {found.field: found for found in map(PlausibleChoice.model_validate, _rows("choice"))}


@functools.cache
def settled() -> tuple[Settled, ...]:
    """What is no guess, in the order of the file."""
    return tuple(map(Settled.model_validate, _rows("settled")))


def plausible_range(field: str) -> PlausibleRange:
    """The range of one field. Raises KeyError where the file has none."""
    return plausible_ranges()[field]


def reason_settled(field: str) -> str | None:
    """Why a field is no guess; None where the file does not say so.

    >>> reason_settled("retention.keep_last"), reason_settled("checkpoint.mode")
    ('decides how much is kept, which moves capacity and its price alone', None)
    """
    above = {field[:place] for place, letter in enumerate(field) if letter == "."} | {field}
    return next((found.reason for found in settled() if above & set(found.fields)), None)


@functools.cache
def _document() -> dict[str, Any]:
    return tomllib.loads(resources.files("sizing").joinpath("ranges.toml").read_text(encoding="utf-8"))


def _rows(kind: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = _document()[kind]
    return rows
