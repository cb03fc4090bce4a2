"""The answer to the inverse questions, as a document."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, computed_field, model_validator

from sizing.former_names import with_new_names
from sizing.questions.require.searches import Sense
from sizing.strict_model import StrictModel

Status = Literal["solved", "any", "none"]
CapacityCause = Literal[
    "keep_last",
    "keep_best",
    "in-flight",
    "keep_weights_every",
    "export",
    "publication",
    "free_fraction",
    "redundancy_fraction",
]

_FORMER_INTERVALS = {
    "min_interval_seconds": "shortest_interval_seconds",
    "max_interval_seconds": "longest_interval_seconds",
}


class CapacityPart(StrictModel):
    """What one field of `retention`, the checkpoint being written, exports or publications ask for."""

    cause: CapacityCause = Field(
        description="Field of retention that asks for it; in-flight is the checkpoint being written, export those of "
        "checkpoint.export, and publication the newest one over storage."
    )
    bytes: float = Field(description="Bytes of drives that it asks for.")
    fraction: float = Field(description="Fraction of raw_bytes that it makes.")


class CapacityNeed(StrictModel):
    """The min capacity for what is kept, and what makes it up."""

    capacity_bytes: int = Field(description="Bytes of all that is kept and being written, without what stays free.")
    usable_bytes: float = Field(description="Size of the file system in bytes, with the fraction that stays free.")
    raw_bytes: float = Field(description="Bytes of drives to buy, with redundancy.")
    parts: list[CapacityPart] = Field(description="What makes up raw_bytes, part by part.")
    binds: CapacityCause = Field(description="Largest of the parts.")
    reason: str = Field(description="The largest part in words, with its share of the drives.")


class AtFreeInterval(StrictModel):
    """Rates that meet every target that storage can meet, none above those needed, and the interval to take."""

    write_bytes_per_second: float = Field(
        description="Write rate of the file system, in bytes per second. With it, together_with and interval_seconds "
        "all targets are met but those of targets_beyond_storage. No rate is above that of needed; all are equal where "
        "another interval saves nothing."
    )
    interval_seconds: float = Field(description="Interval to take with it, in seconds from start to start.")
    together_with: dict[str, float] = Field(
        default_factory=dict,
        description="Other rates that go with it, in bytes per second, by dotted path in the scenario.",
    )
    stall_seconds: float = Field(description="Seconds for which training then waits in each save.")
    overhead_fraction: float = Field(description="Fraction of the time for which saves then stall training.")
    goodput_fraction: float = Field(description="Fraction of the time that is then useful work (goodput, ETTR).")


class Requirement(StrictModel):
    """The min or the max of one field that meets one target, with what must go with it."""

    field: str = Field(description="Dotted path in the scenario of what is solved for.")
    sense: Sense = Field(description="Whether value is the min or the max that meets the target.")
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
        description="Solution, in the unit of the field, with together_with set beside it; for goodput the min with "
        "the interval and all other rates as in needed, so it is never above needed. Null when every value or none "
        "meets the target."
    )
    found: float | None = Field(
        description="What the target then gets, in its unit; at the best possible value when none is enough. "
        "Null when unknown."
    )
    given: float | None = Field(
        description="What the scenario has, in the unit of the field; for the copy to host memory the line rate when "
        "not given. Null when the scenario has none."
    )
    together_with: dict[str, float] = Field(
        default_factory=dict,
        description="What goes with the value, by dotted path in the scenario: rates of the other limits, and "
        "checkpoint.interval_seconds when it must change.",
    )
    met_in_scenario: bool | None = Field(
        default=None,
        description="Whether the scenario as it is meets the target, for rates. Null when unknown, and for the others.",
    )
    binds: bool = Field(description="Whether it is the strictest of the targets of this field.")
    reason: str = Field(description="Why this value is needed, or what prevents one, in words.")

    @property
    def met_as_given(self) -> bool:
        """Whether the scenario meets the target; where unknown, whether its value of the field, if any, is enough."""
        if self.met_in_scenario is not None:
            return self.met_in_scenario
        if self.status == "none" or "checkpoint.interval_seconds" in self.together_with:
            return False
        if self.value is None or self.given is None:
            return True
        return self.given >= self.value if self.sense == "min" else self.given <= self.value


class Needed(StrictModel):
    """What to buy, over all targets."""

    @model_validator(mode="before")
    @classmethod
    def _of_former_names(cls, document: object) -> object:
        return with_new_names(document, {former: name for name, former in _FORMER_INTERVALS.items()})

    write_bytes_per_second: float | None = Field(
        description="Min write rate of the file system, in bytes per second. "
        "Null when nothing asks for it or no rate is enough."
    )
    read_bytes_per_second: float | None = Field(
        description="Min read rate of the file system, in bytes per second. "
        "Null when nothing asks for it or no rate is enough."
    )
    together_with: dict[str, float] = Field(
        default_factory=dict,
        description="What goes with these rates, by dotted path in the scenario: rates of nodes and writers, and "
        "checkpoint.interval_seconds when it must change. All set together meet every target but those of "
        "targets_beyond_storage.",
    )
    capacity_bytes: int = Field(description="Bytes of all that is kept and being written, without what stays free.")
    min_interval_seconds: float | None = Field(
        description="Min seconds between starts of saves. It holds at the rates given where some interval then reaches "
        "the goodput asked for, else at the rates needed, which the rows have in together_with. Null when nothing asks "
        "for it or none is long enough."
    )
    max_interval_seconds: float | None = Field(
        description="Max seconds between starts of saves, at the same rates as min_interval_seconds. Null when "
        "nothing asks for it or none is short enough."
    )


class RequirementsReport(StrictModel):
    """What the targets of a scenario ask for."""

    needed: Needed = Field(
        description="Min rates and capacity, and the range of intervals, that meet all targets together but those of "
        "targets_beyond_storage."
    )
    targets_beyond_storage: list[str] = Field(
        default_factory=list,
        description="Targets that no storage meets at any interval, which needed leaves out.",
    )
    capacity: CapacityNeed = Field(description="Parts of the capacity, and the one that decides.")
    at_free_interval: AtFreeInterval | None = Field(
        description="Rates when the interval may be chosen too, none above those needed. "
        "Null without a goodput target or when no rate is enough."
    )
    requirements: list[Requirement] = Field(description="Every pair of field and target that was solved.")
    warnings: list[str] = Field(description="What a reader must know before buying.")

    @model_validator(mode="before")
    @classmethod
    def _of_former_names(cls, document: object) -> object:
        return with_new_names(document, {"least": "needed"})

    @computed_field(  # type: ignore[prop-decorator]  # of a property, which mypy does not know
        description="Former name of `needed`; read that instead.", json_schema_extra={"deprecated": True}
    )
    @property
    def least(self) -> dict[str, float | None]:
        """`needed` with the names of its fields before they changed."""
        return {_FORMER_INTERVALS.get(name, name): value for name, value in self.needed if name != "together_with"}

    @property
    def met_as_given(self) -> bool:
        """Whether the scenario as it is meets every requirement of a field that it gives."""
        return all(requirement.met_as_given for requirement in self.requirements)
