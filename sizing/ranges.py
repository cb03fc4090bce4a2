"""How far off a guess may be: the plausible range of every value that is assumed where nobody states it.

One file, `ranges.toml`, holds them with their sources: defaults take the midpoint, and the report shows what either end
would make of the answer.
"""

from __future__ import annotations

import functools
import tomllib
from importlib import resources

from pydantic import BaseModel, ConfigDict, Field


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


@functools.cache
def plausible_ranges() -> dict[str, PlausibleRange]:
    """Every range by its field, in the order of the file."""
    rows = tomllib.loads(resources.files("sizing").joinpath("ranges.toml").read_text(encoding="utf-8"))["range"]
    return {found.field: found for found in map(PlausibleRange.model_validate, rows)}


def plausible_range(field: str) -> PlausibleRange:
    """The range of one field. Raises KeyError where the file has none."""
    return plausible_ranges()[field]
