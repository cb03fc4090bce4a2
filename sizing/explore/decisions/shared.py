"""What dataset reads and other jobs take of the storage, all day alike or by the hour."""

from __future__ import annotations

from typing import Annotated, NamedTuple, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from sizing.errors import broken_rule
from sizing.run.requirements.asked import READ_RATE, WRITE_RATE
from sizing.units import BytesPerSecond, rate_text

SHARED = {"write_bytes_per_second": WRITE_RATE, "read_bytes_per_second": READ_RATE}
"""Fields of what others take, and the rates that it is taken from."""
HOURS_PER_DAY = 24
"""By the clock: what others take repeats from day to day."""


class SharedHours(BaseModel):
    """What others take from one hour of the day to another."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    from_hour: Annotated[int, Field(ge=0, le=23)] = Field(description="Hour of the day at which it begins, 0 to 23.")
    to_hour: Annotated[int, Field(ge=1, le=24)] = Field(
        description="Hour of the day at which it ends, 1 to 24; one before from_hour is of the next day."
    )
    write_bytes_per_second: BytesPerSecond | None = Field(
        None, description="Write rate that others take meanwhile, in bytes per second. Default: as all day."
    )
    read_bytes_per_second: BytesPerSecond | None = Field(
        None, description="Read rate that others take meanwhile, in bytes per second. Default: as all day."
    )

    @model_validator(mode="after")
    def _lasts(self) -> Self:
        if self.from_hour == self.to_hour:
            raise broken_rule("ends at the hour at which it begins", "give to_hour an hour later or more")
        return self

    @property
    def hours(self) -> frozenset[int]:
        """The hours of the day that it fills, each by its begin.

        >>> sorted(SharedHours(from_hour=22, to_hour=2).hours)
        [0, 1, 22, 23]
        """
        length = (self.to_hour - self.from_hour) % HOURS_PER_DAY or HOURS_PER_DAY
        return frozenset((self.from_hour + each) % HOURS_PER_DAY for each in range(length))

    @property
    def text(self) -> str:
        """The hours for a reader.

        >>> SharedHours(from_hour=8, to_hour=18).text
        '08:00 to 18:00'
        """
        return f"{self.from_hour:02}:00 to {self.to_hour:02}:00"


class Busiest(NamedTuple):
    """The most that others take of a rate, and in which hours; None all day."""

    bytes_per_second: float
    hours: SharedHours | None

    @property
    def sentence(self) -> str:
        """Rate and hours for a reader.

        >>> Busiest(3e9, SharedHours(from_hour=8, to_hour=18)).sentence
        '3.000 GB/s, from 08:00 to 18:00'
        """
        return rate_text(self.bytes_per_second) + (f", from {self.hours.text}" if self.hours else "")


class SharedStorage(BaseModel):
    """What dataset reads and other jobs take of the storage while the workload runs."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    write_bytes_per_second: BytesPerSecond | None = Field(
        None, description="Write rate that others take of the file system, in bytes per second. Default: none."
    )
    read_bytes_per_second: BytesPerSecond | None = Field(
        None, description="Read rate that others take of the file system, in bytes per second. Default: none."
    )
    over_the_day: Annotated[tuple[SharedHours, ...], Field(max_length=HOURS_PER_DAY)] = Field(
        (),
        description="What others take at some hours of the day in place of that. "
        "The busiest hour of each rate decides. Default: all day alike.",
    )

    @model_validator(mode="after")
    def _has_each_hour_once(self) -> Self:
        if len(frozenset().union(*(each.hours for each in self.over_the_day))) < sum(
            len(each.hours) for each in self.over_the_day
        ):
            raise broken_rule("has an hour of the day twice", "end each of the hours where the next begin")
        return self

    def busiest(self, name: str) -> Busiest | None:
        """The most that others take of a rate, `name` of SHARED; None where they take nothing.

        Hours that say nothing of the rate are as all day.

        >>> day = [{"from_hour": 8, "to_hour": 18, "read_bytes_per_second": "3 GB/s"}]
        >>> SharedStorage(read_bytes_per_second="1 GB/s", over_the_day=day).busiest("read_bytes_per_second").sentence
        '3.000 GB/s, from 08:00 to 18:00'
        """
        stated = [each for each in self.over_the_day if getattr(each, name) is not None]
        found = [Busiest(getattr(each, name), each) for each in stated]
        base = getattr(self, name)
        if base is not None and sum(len(each.hours) for each in stated) < HOURS_PER_DAY:
            found.append(Busiest(base, None))
        return max(found, key=lambda each: each.bytes_per_second, default=None)
