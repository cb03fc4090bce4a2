"""Plausible ranges of every value that is assumed where nobody states it.

One file, `ranges.toml`, holds them with their sources: defaults take the midpoint where they have no source of their
own, and the report shows what either end would make of the answer. Beside the ranges it has the choices, of
which the alternatives are answered, and what is no guess, with the reason.
"""

from __future__ import annotations

import functools
import math
import tomllib
from importlib import resources
from typing import Any

from pydantic import Field, JsonValue

from sizing.strict_model import StrictModel
from sizing.units import figure_text


class PlausibleRange(StrictModel):
    """From where to where a value that nobody stated may lie."""

    field: str = Field(description="Dotted path of the field in the scenario.")
    low: float = Field(description="Lower end, in the unit of the field, or a fraction where `fraction_of` says so.")
    high: float | None = Field(
        None,
        description="Upper end, in the unit of the field, or a fraction where `fraction_of` says so. "
        "Default: what is assumed, which has a source of its own.",
    )
    fraction_of: str | None = Field(
        None, description="Published value of which each end is a fraction. Default: they are values themselves."
    )
    is_of_scale: bool = Field(
        False,
        description="Whether the ends are a large factor apart, so that their geometric mean is the midpoint: it is "
        "the same for a rate and for its inverse.",
    )
    source: str = Field(description="Where both ends were read.")

    @property
    def midpoint(self) -> float:
        """Assumed value: the mean of both ends, or the geometric mean.

        >>> plausible_range("reliability.relaunch_seconds").midpoint
        450.0
        """
        assert self.high is not None  # noqa: S101  else what is assumed has another source
        return math.sqrt(self.low * self.high) if self.is_of_scale else (self.low + self.high) / 2

    @property
    def reason(self) -> str:
        """Reason for the midpoint, in words.

        >>> plausible_range("reliability.relaunch_seconds").reason.partition(":")[0]
        'midpoint of 5.0 min to 10.0 min'
        """
        low, high = (figure_text(self.field, end) for end in (self.low, self.high))
        mean = "geometric mean" if self.is_of_scale else "midpoint"
        return f"{mean} of {low} to {high}: {self.source}"

    @property
    def is_of_values(self) -> bool:
        """Whether both ends are values of the field, independent of the assumed value."""
        return self.fraction_of is None and self.high is not None

    def holds(self, value: float) -> bool:
        """Tell whether a value lies between ends that are values of the field.

        >>> plausible_range("reliability.detection_seconds").holds(60.0)
        True
        """
        return self.is_of_values and self.low <= value <= (self.high or 0.0)

    def ends(self, assumed: float) -> tuple[float, float]:
        """Return both ends as values of the field, where the midpoint of a fraction, or the upper end, is assumed.

        >>> half = PlausibleRange(field="a", low=0.4, high=0.8, fraction_of="line rate", source="b")
        >>> [round(end) for end in half.ends(600.0)]
        [400, 800]
        >>> PlausibleRange(field="a", low=8.0, source="b").ends(5.0)
        (5.0, 5.0)
        """
        if self.high is None:
            return min(self.low, assumed), assumed
        scale = assumed / self.midpoint if self.fraction_of else 1.0
        return self.low * scale, self.high * scale


class PlausibleChoice(StrictModel):
    """A choice that nobody made: the alternatives that are as plausible as the one taken."""

    field: str = Field(description="Dotted path of the field in the scenario.")
    among: tuple[JsonValue, ...] = Field(
        (), description="Values that are plausible. Default: every value that the field may have."
    )
    of_assumed: bool = Field(False, description="Whether the values are fractions of what is assumed.")
    source: str = Field(description="Where these values were read, or why they are plausible.")

    @property
    def midpoint(self) -> float:
        """Assumed value of a choice among numbers: the mean of the least and the largest.

        >>> round(plausible_choice("checkpoint.reduction.compression.master_fraction").midpoint, 6)
        0.82
        """
        return (min(self._numbers) + max(self._numbers)) / 2

    @property
    def reason(self) -> str:
        """Reason for the midpoint, in words.

        >>> plausible_choice("checkpoint.reduction.compression.master_fraction").reason.partition(":")[0]
        'midpoint of 79.0 % to 85.0 %'
        """
        low, high = (figure_text(self.field, end) for end in (min(self._numbers), max(self._numbers)))
        return f"midpoint of {low} to {high}: {self.source}"

    @property
    def _numbers(self) -> list[float]:
        return [value for value in self.among if isinstance(value, int | float)]


class Settled(StrictModel):
    """Fields whose defaults are no guesses that could move a headline, or hardly, with the reason."""

    fields: tuple[str, ...] = Field(description="Dotted paths; a path stands for all fields below it too.")
    reason: str = Field(description="Why nothing is tried in their place.")


@functools.cache
def plausible_ranges() -> dict[str, PlausibleRange]:
    """Read every range by its field, in the order of the file."""
    return {each.field: each for each in map(PlausibleRange.model_validate, _read_rows("range"))}


@functools.cache
def plausible_choices() -> dict[str, PlausibleChoice]:
    """Read every choice by its field, in the order of the file."""
    return {each.field: each for each in map(PlausibleChoice.model_validate, _read_rows("choice"))}


@functools.cache
def settled() -> tuple[Settled, ...]:
    """Read the fields that are no guess, in the order of the file."""
    return tuple(map(Settled.model_validate, _read_rows("settled")))


def plausible_range(field: str) -> PlausibleRange:
    """Return the range of one field. Raises KeyError where the file has none."""
    return plausible_ranges()[field]


def range_text(field: str, value: float, *, per: str = "") -> str:
    """What was assumed of a field, and from where to where it may lie; `per` says of what it is counted.

    >>> range_text("reliability.detection_seconds", 300.0)
    ' (assumed 5.0 min, may be 0 s to 10.0 min)'
    """
    low, high = (figure_text(field, end) for end in plausible_range(field).ends(value))
    return f" (assumed {figure_text(field, value)}{per}, may be {low} to {high})"


def plausible_choice(field: str) -> PlausibleChoice:
    """Return the choice of one field. Raises KeyError where the file has none."""
    return plausible_choices()[field]


def reason_settled(field: str) -> str | None:
    """Return the reason why a field is no guess; None where the file does not say so.

    >>> reason_settled("retention.keep_last"), reason_settled("checkpoint.mode")
    ('decides how much is kept, which moves capacity and its price alone', None)
    """
    above = {field[:place] for place, letter in enumerate(field) if letter == "."} | {field}
    return next((each.reason for each in settled() if above & set(each.fields)), None)


@functools.cache
def _read_document() -> dict[str, Any]:
    return tomllib.loads(resources.files("sizing").joinpath("ranges.toml").read_text(encoding="utf-8"))


def _read_rows(kind: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = _read_document()[kind]
    return rows
