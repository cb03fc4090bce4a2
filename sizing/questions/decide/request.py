"""The request of a decision: workloads, the background load beside them, offers, and settings that may be chosen."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Annotated, Any, NamedTuple, Self

from pydantic import (
    ConfigDict,
    Field,
    JsonValue,
    ModelWrapValidatorHandler,
    PrivateAttr,
    ValidationError,
    model_validator,
)

from sizing.errors import broken_rule, shown
from sizing.field_paths import value_at, with_fields
from sizing.printed_numbers import with_plain_numbers
from sizing.questions.decide.offers import Grows, Name, Offer, RefusedOffer, split_refused
from sizing.questions.decide.ranges import OddsRequest
from sizing.run.request import READ_RATE, WRITE_RATE
from sizing.scenario import REFERENCE_SCENARIO, Scenario, scenario_from
from sizing.sized_layout import size_layout
from sizing.spelling import AnySpelling
from sizing.strict_model import InputModel
from sizing.units import SECONDS_PER_YEAR, BytesPerSecond, Fraction, OrText, PositiveSeconds, rate_text

MAX_OFFERS = 20
"""Rows of a table that can still be read."""
MAX_WORKLOADS = 10
"""Each is answered with every setting under every offer."""
MAX_SETTINGS = 64
"""Combinations of settings per workload and offer: some 2 ms each."""
MAX_SIZES = 5
"""Each is answered as the decision itself."""
MAX_YEARS = 10
"""Years that grow; storage is written off sooner."""
_SHARES_ADD_UP = 1e-6
"""Rounding that is allowed where shares are typed as decimals."""

RUN_SECONDS = "retention.run_seconds"
BACKGROUND_RATES = {"write_bytes_per_second": WRITE_RATE, "read_bytes_per_second": READ_RATE}
"""Fields of the background load, and the rates of the storage that each takes from."""
HOURS_PER_DAY = 24
"""By the clock: what others take repeats from day to day."""


class SharedHours(InputModel):
    """What others take from one hour of the day to another."""

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


class PeakLoad(NamedTuple):
    """The highest background load of a rate, and its hours: None for all day."""

    bytes_per_second: float
    hours: SharedHours | None

    @property
    def sentence(self) -> str:
        """Rate and hours for a reader.

        >>> PeakLoad(3e9, SharedHours(from_hour=8, to_hour=18)).sentence
        '3.000 GB/s, from 08:00 to 18:00'
        """
        return rate_text(self.bytes_per_second) + (f", from {self.hours.text}" if self.hours else "")


class SharedStorage(InputModel):
    """What dataset reads and other jobs take of the storage while the workload runs."""

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

    def peak_load(self, name: str) -> PeakLoad | None:
        """Find the highest background load on a rate, `name` of `BACKGROUND_RATES`; None without any.

        In hours that give no load of the rate, that of the whole day counts.

        >>> day = [{"from_hour": 8, "to_hour": 18, "read_bytes_per_second": "3 GB/s"}]
        >>> SharedStorage(read_bytes_per_second="1 GB/s", over_the_day=day).peak_load("read_bytes_per_second").sentence
        '3.000 GB/s, from 08:00 to 18:00'
        """
        stated = [each for each in self.over_the_day if getattr(each, name) is not None]
        loads = [PeakLoad(getattr(each, name), each) for each in stated]
        base = getattr(self, name)
        if base is not None and sum(len(each.hours) for each in stated) < HOURS_PER_DAY:
            loads.append(PeakLoad(base, None))
        return max(loads, key=lambda each: each.bytes_per_second, default=None)


_WITHOUT_STORAGE = {name: block for name, block in REFERENCE_SCENARIO.items() if name != "storage"}

REFERENCE_DECISION: dict[str, Any] = {
    "currency": "USD",
    "horizon_seconds": "90d",
    "per_lost_gpu_hour": 2.5,
    "workloads": [{"name": "1T", "scenario": _WITHOUT_STORAGE}],
    "offers": [
        {
            "name": "parallel file system",
            "storage": {"profile": {"write_bytes_per_second": "100 GB/s", "read_bytes_per_second": "200 GB/s"}},
            "prices": [
                {"amount": 200, "per": "terabyte", "every": "once"},
                {"amount": 5000, "per": "gigabyte-per-second", "every": "once"},
            ],
        },
        {
            "name": "all flash",
            "storage": {"profile": {"write_bytes_per_second": "400 GB/s", "read_bytes_per_second": "800 GB/s"}},
            "prices": [
                {"amount": 400, "per": "terabyte", "every": "once"},
                {"amount": 5000, "per": "gigabyte-per-second", "every": "once"},
            ],
        },
    ],
}
"""The published run of 1T, for which two file systems are offered at assumed prices."""


_Times = Annotated[float, Field(gt=0, le=100, allow_inf_nan=False)]


class GrowthYear(NamedTuple):
    """One of the years in which workloads grow, from 0 on, which fraction of the horizon it is, and later ones are."""

    number: int
    fraction: float
    later_fraction: float = 0.0


class Workload(InputModel):
    """What runs on the storage, and for which share of the time."""

    name: Name = Field(description="What the decision calls it; no two have the same.")
    scenario: Scenario = Field(
        description="Model, layout, cluster, failures and targets; its storage and prices are left to the offers."
    )
    share_fraction: OrText[Annotated[Fraction, Field(gt=0, le=1, allow_inf_nan=False)]] = Field(
        1.0, description="Fraction of the horizon for which it runs; those of all workloads are at most 1. Default: 1."
    )
    shared: SharedStorage = Field(
        default_factory=SharedStorage,
        description="Rates that dataset reads and other jobs take of the storage meanwhile. Default: none.",
    )

    _year: GrowthYear = PrivateAttr(GrowthYear(0, 1.0))

    @property
    def year(self) -> GrowthYear:
        """The part of the horizon in which the cluster has this size; all of it without a growth per year."""
        return self._year

    @model_validator(mode="after")
    def _leaves_prices_to_the_offers(self) -> Self:
        if self.scenario.storage is not None or self.scenario.costs is not None:
            raise broken_rule("has a scenario with storage or costs", "move them into the offers")
        return self

    def grown(self, of: Grows, times: float) -> Workload:
        """Multiply the GPUs of a workload whose layout is complete, or the bytes of its checkpoints.

        More GPUs are more replicas of the model, each with its part of a larger batch, and fail as often each.
        """
        scenario = self.scenario
        if of == "model":
            written_bytes = size_layout(scenario).checkpoint_layout.size.written_bytes
            larger: dict[str, Any] = {"checkpoint.observed_bytes": round(written_bytes * times)}
        else:
            before = scenario.parallelism.data
            data = max(1, round(before * times))
            larger = {"parallelism.data": data}
            for path in ("training.global_batch_size", "cluster.num_gpus"):
                if (number := value_at(scenario, path)) is not None:
                    larger[path] = number * data // before
            if (kinds := scenario.cluster.nodes) is not None:
                counts = [kind.count and kind.count * data // before for kind in kinds]
                larger["cluster.nodes"] = [
                    {**kind.model_dump(exclude_unset=True), "count": count}
                    for kind, count in zip(kinds, counts, strict=True)
                ]
            if scenario.reliability is not None and scenario.reliability.mtbf_seconds is not None:
                larger["reliability.mtbf_seconds"] = scenario.reliability.mtbf_seconds * before / data
        document = with_fields(scenario.model_dump(exclude_unset=True), larger)
        return self.model_copy(update={"scenario": scenario_from(document)})

    def in_year(self, year: GrowthYear) -> Workload:
        """The workload in one year of a growth, of which it takes its share, as of the weights that a run keeps."""
        scenario, run_seconds = self.scenario, self.scenario.retention.run_seconds
        if run_seconds is not None:
            document = scenario.model_dump(exclude_unset=True)
            scenario = scenario_from(with_fields(document, {RUN_SECONDS: run_seconds * year.fraction}))
        share = self.share_fraction * year.fraction
        in_year = self.model_copy(update={"scenario": scenario, "share_fraction": share})
        in_year._year = year
        return in_year


class Growth(InputModel):
    """Sizes to which the workloads may grow: the offers are compared at each of them too."""

    of: AnySpelling[Grows] = Field(
        "gpus",
        description="What grows: the GPUs with the replicas and the batch, or the model on the same GPUs. "
        "Of a larger model nobody says that it fits them, and its exports and publications keep the size of today's. "
        "Default: gpus.",
    )
    times: Annotated[tuple[_Times, ...], Field(max_length=MAX_SIZES)] = Field(
        (), description="Sizes over that of the workloads, such as 2 and 3, each held for the whole period."
    )
    per_year: _Times | None = Field(
        None,
        description="Size over that of a year before, such as 1.5: each year of the period has its own. Default: none.",
    )

    @model_validator(mode="after")
    def _grows(self) -> Self:
        if not self.times and self.per_year is None:
            raise broken_rule("has neither times nor per_year", "give one of them, or remove growth")
        return self


class DecisionRequest(InputModel):
    """Which of some offers is enough, and which costs least with the GPU time that it loses."""

    model_config = ConfigDict(json_schema_extra={"examples": [REFERENCE_DECISION]})

    author: Annotated[str, Field(min_length=1, max_length=100)] | None = Field(
        None, description="Who answers for the recommendation, as its first page names them. Default: nobody is named."
    )
    currency: Annotated[str, Field(min_length=1, max_length=12)] = Field(
        description="Currency of all prices, such as USD."
    )
    horizon_seconds: PositiveSeconds = Field(
        description="Seconds over which costs are counted: the run, or the life of the storage."
    )
    per_lost_gpu_hour: Annotated[float, Field(ge=0, le=1e12, allow_inf_nan=False)] | None = Field(
        None,
        description="Price of one GPU-hour lost to stalls, repeated work and recovery. Default: not priced.",
    )
    workloads: Annotated[tuple[Workload, ...], Field(min_length=1, max_length=MAX_WORKLOADS)] = Field(
        description="What runs on the storage, one after the other over the horizon."
    )
    offers: Annotated[tuple[Offer, ...], Field(min_length=1, max_length=MAX_OFFERS)] = Field(
        description="Storage systems to choose from."
    )
    settings: dict[str, Annotated[list[JsonValue], Field(min_length=1)]] | None = Field(
        None,
        description="Fields of the scenario that may be chosen for each offer, each with its alternatives. "
        "Default: checkpoint.mode and checkpoint.restore, with all that fit.",
    )
    odds: OddsRequest | None = Field(
        None,
        description="Inputs that are not certain: the answer then has the odds of each offer and target. "
        "Default: every input is as given or assumed.",
    )
    growth: Growth | None = Field(
        None, description="Sizes to which the workloads may grow, at which the offers are compared too. Default: none."
    )
    chooses_interval: bool = Field(
        True,
        description="Whether intervals may be chosen too, those of tiers in front included. "
        "Default: true; false keeps them.",
    )

    _refused: tuple[RefusedOffer, ...] = PrivateAttr(())

    @property
    def refused_offers(self) -> tuple[RefusedOffer, ...]:
        """Offers that break rules, which `offers` lacks or has without their prices."""
        return self._refused

    def grown_requests(self) -> Iterator[tuple[float, bool, DecisionRequest]]:
        """Yield each size, whether it is that of a year over the year before, and the request with it.

        Layouts must be complete. Of a growth per year each year of the period is a workload of its own; the last one
        may be shorter.
        """
        if self.growth is None:
            return
        plain = {"growth": None, "odds": None}
        for times in self.growth.times:
            grown = tuple(workload.grown(self.growth.of, times) for workload in self.workloads)
            yield times, False, self.model_copy(update={**plain, "workloads": grown})
        if (per_year := self.growth.per_year) is not None:
            years = self.horizon_seconds / SECONDS_PER_YEAR
            parts = [
                GrowthYear(n, min(1.0, years - n) / years, max(0.0, min(years, MAX_YEARS) - n - 1) / years)
                for n in range(min(math.ceil(years), MAX_YEARS))
            ]
            grown = tuple(
                workload.grown(self.growth.of, per_year**year.number).in_year(year)
                for year in parts
                for workload in self.workloads
            )
            yield per_year, True, self.model_copy(update={**plain, "workloads": grown})

    @model_validator(mode="wrap")
    @classmethod
    def _answers_for_the_rest(cls, document: object, handler: ModelWrapValidatorHandler[Self]) -> Self:
        """Leave offers that break rules out, so that the others have an answer; numbers as printed break none."""
        try:
            return handler(document)
        except ValidationError as error:
            plain = with_plain_numbers(document, error)
            if plain is not None:
                return cls.model_validate(plain)
            rest = split_refused(document, error)
            if rest is None:
                raise
            request = handler(rest.document)
            request._refused = rest.refused
            return request

    @model_validator(mode="after")
    def _makes_sense(self) -> Self:
        for what, named in (("workloads", self.workloads), ("offers", self.offers)):
            names = [each.name for each in named]
            if (twice := next((name for name in names if names.count(name) > 1), None)) is not None:
                raise broken_rule(f"has two {what} of one name, {shown(twice)}", "name each of them differently")
        if sum(each.share_fraction for each in self.workloads) > 1 + _SHARES_ADD_UP:
            raise broken_rule("has workloads whose share_fraction add to more than 1", "give each its part of the time")
        return self
