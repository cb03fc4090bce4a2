"""The answer to the inverse questions, as a document."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from sizing.explore.requirements.capacity import CapacityNeed
from sizing.explore.requirements.free_interval import AtFreeInterval
from sizing.explore.requirements.questions import Sense

Status = Literal["solved", "any", "none"]


class Requirement(BaseModel):
    """The min or the max of one field that meets one target, all else as the scenario says."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    field: str = Field(description="Dotted path in the scenario of what is solved for.")
    sense: Sense = Field(description="Whether value is the min (least) or the max (most) that meets the target.")
    target: str = Field(
        description="Field of targets that must be met; interval_seconds means that a save drains before the next "
        "starts."
    )
    wanted: float = Field(description="What the target asks for, in its own unit.")
    status: Status = Field(
        description="Whether there is such a value: solved, any when every value meets the target, none when no value "
        "does."
    )
    value: float | None = Field(
        description="Solution, in the unit of the field. Null when every value or none meets the target."
    )
    found: float | None = Field(
        description="What the target then gets, in its unit; at the best possible value when none is enough. "
        "Null when unknown."
    )
    given: float | None = Field(
        description="What the scenario has, in the unit of the field; for the copy to host memory the line rate when "
        "not given. Null when the scenario has none."
    )
    binds: bool = Field(description="Whether it asks for more than the other targets of this field do.")
    reason: str = Field(description="Why it is so much, or what stands in the way, in words.")

    @property
    def met_as_given(self) -> bool:
        """Whether the field's value in the scenario is enough; one that is not given limits nothing."""
        if self.status == "none":
            return False
        if self.value is None or self.given is None:
            return True
        return self.given >= self.value if self.sense == "least" else self.given <= self.value


class Least(BaseModel):
    """What to buy, over all targets."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    write_bytes_per_second: float | None = Field(
        description="Min write rate of the file system, in bytes per second. "
        "Null when nothing asks for it or no rate is enough."
    )
    read_bytes_per_second: float | None = Field(
        description="Min read rate of the file system, in bytes per second. "
        "Null when nothing asks for it or no rate is enough."
    )
    capacity_bytes: int = Field(description="Bytes of all that is kept and being written.")
    shortest_interval_seconds: float | None = Field(
        description="Min seconds between starts of saves. Null when nothing asks for it or none is long enough."
    )
    longest_interval_seconds: float | None = Field(
        description="Max seconds between starts of saves. Null when nothing asks for it or none is short enough."
    )


class RequirementsReport(BaseModel):
    """What the targets of a scenario ask for."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    least: Least = Field(
        description="Min rates and capacity, and the range of intervals, that meet all targets together."
    )
    capacity: CapacityNeed = Field(description="Parts of the capacity, and the one that decides.")
    at_free_interval: AtFreeInterval | None = Field(
        description="Min write rate when the interval may be chosen too. "
        "Null without a goodput target or when no rate is enough."
    )
    requirements: list[Requirement] = Field(description="Every pair of field and target that was solved.")
    warnings: list[str] = Field(description="What a reader must know before buying.")

    @property
    def met_as_given(self) -> bool:
        """Whether the scenario as it is meets every requirement of a field that it gives."""
        return all(requirement.met_as_given for requirement in self.requirements)
