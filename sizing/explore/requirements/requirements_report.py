"""The answer to the inverse questions, as a document."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from sizing.explore.requirements.capacity import CapacityNeed
from sizing.explore.requirements.free_interval import AtFreeInterval
from sizing.explore.requirements.questions import Sense

Status = Literal["solved", "any", "none"]


class Requirement(BaseModel):
    """The least or the most of one field that meets one target, all else as the scenario says.

    `status` is `any` where the target is met whatever the field, `none` where no value is enough.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    field: str
    sense: Sense
    target: str
    wanted: float = Field(description="what the target asks for")
    status: Status
    value: float | None = Field(description="of the field; None where any or none will do")
    found: float | None = Field(description="what the target then gets; at the best value where none is enough")
    given: float | None = Field(
        description="the field's value in the scenario; of copies to the host the GPU link's line rate where not given"
    )
    binds: bool = Field(description="asks for more than the other targets of this field do")
    reason: str

    @property
    def met_as_given(self) -> bool:
        """Whether the field's value in the scenario is enough; one that is not given limits nothing."""
        if self.status == "none":
            return False
        if self.value is None or self.given is None:
            return True
        return self.given >= self.value if self.sense == "least" else self.given <= self.value


class Least(BaseModel):
    """What to buy, over all targets. None where nothing asks for it, or no value is enough."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    write_bytes_per_second: float | None
    read_bytes_per_second: float | None
    capacity_bytes: int
    shortest_interval_seconds: float | None
    longest_interval_seconds: float | None


class RequirementsReport(BaseModel):
    """What the targets of a scenario ask for."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    least: Least
    capacity: CapacityNeed
    at_free_interval: AtFreeInterval | None = Field(
        description="None without a goodput target, or where none is enough"
    )
    requirements: list[Requirement]
    warnings: list[str]

    @property
    def met_as_given(self) -> bool:
        """Whether the scenario as it is meets every requirement of a field that it gives."""
        return all(requirement.met_as_given for requirement in self.requirements)
