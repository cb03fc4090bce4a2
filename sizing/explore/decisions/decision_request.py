"""The question of a decision: workloads, offers with their prices, and which settings may be chosen."""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    ModelWrapValidatorHandler,
    PrivateAttr,
    ValidationError,
    model_validator,
)

from sizing.errors import broken_rule, explain
from sizing.explore.decisions.odds_request import OddsRequest, Ranges
from sizing.explore.decisions.prices import Price
from sizing.explore.decisions.refused import RefusedOffer, without_refused
from sizing.explore.decisions.shared import SharedStorage
from sizing.run.tier import Tier
from sizing.scenario import REFERENCE_SCENARIO, Scenario
from sizing.storage.storage import Storage
from sizing.units import ByteCount, Fraction, PositiveSeconds

MAX_OFFERS = 20
"""Rows of a table that can still be read."""
MAX_WORKLOADS = 10
"""Each is answered with every setting under every offer."""
MAX_SETTINGS = 64
"""Combinations of settings per workload and offer: some 2 ms each."""
_SHARES_ADD_UP = 1e-6
"""Rounding that is allowed where shares are typed as decimals."""

Name = Annotated[str, Field(min_length=1, max_length=60)]


def _without_storage(scenario: dict[str, Any]) -> dict[str, Any]:
    return {name: block for name, block in scenario.items() if name != "storage"}


REFERENCE_DECISION: dict[str, Any] = {
    "currency": "USD",
    "horizon_seconds": "90d",
    "per_lost_gpu_hour": 2.5,
    "workloads": [{"name": "1T", "scenario": _without_storage(REFERENCE_SCENARIO)}],
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


class Workload(BaseModel):
    """What runs on the storage, and for which share of the time."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Name = Field(description="What the decision calls it; no two have the same.")
    scenario: Scenario = Field(
        description="Model, layout, cluster, failures and targets; its storage and prices are left to the offers."
    )
    share_fraction: Annotated[Fraction, Field(gt=0, le=1, allow_inf_nan=False)] = Field(
        1.0, description="Fraction of the horizon for which it runs; those of all workloads are at most 1. Default: 1."
    )
    shared: SharedStorage = Field(
        default_factory=SharedStorage,
        description="Rates that dataset reads and other jobs take of the storage meanwhile. Default: none.",
    )

    @model_validator(mode="after")
    def _leaves_prices_to_the_offers(self) -> Self:
        if self.scenario.storage is not None or self.scenario.costs is not None:
            raise broken_rule("has a scenario with storage or costs", "move them into the offers")
        return self


class Offer(BaseModel):
    """A storage system that may be bought or rented: its rates, its capacity and what it costs."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Name = Field(description="What the decision calls it; no two have the same.")
    storage: Storage = Field(description="Rates: a published system, own figures, or a calibration.")
    capacity_bytes: ByteCount | None = Field(
        None, description="Usable capacity that is offered, in bytes. Default: as much as is needed."
    )
    tiers: tuple[Tier, ...] | None = Field(
        None,
        description="Tiers that come with it, in place of checkpoint.tiers. Default: those of the workload's scenario.",
    )
    tiers_are_optional: bool = Field(
        False,
        description="Whether a workload may do without the tiers in front of the main storage where that costs less. "
        "Default: false, it has them.",
    )
    power_kilowatts: Annotated[float, Field(ge=0, le=1e6, allow_inf_nan=False)] | None = Field(
        None, description="Electric power that it draws, in kW. Default: unknown."
    )
    prices: tuple[Price, ...] = Field(
        (), description="What it costs. Default: unknown, so only its verdict and the lost GPU time are told."
    )
    ranges: Ranges = Field(
        default_factory=dict,
        description="Ranges of this offer's inputs by dotted path, where the decision has odds: of storage.profile, of "
        "reliability, or prices.0.amount. Default: none beside the intervals of its calibration.",
    )


class DecisionRequest(BaseModel):
    """Which of some offers is enough, and which costs least with the GPU time that it loses."""

    model_config = ConfigDict(extra="forbid", frozen=True, json_schema_extra={"examples": [REFERENCE_DECISION]})

    currency: Annotated[str, Field(min_length=1, max_length=12)] = Field(
        description="Currency of all prices, such as USD."
    )
    horizon_seconds: PositiveSeconds = Field(
        description="Seconds over which costs are counted: the run, or the life of the storage."
    )
    per_lost_gpu_hour: Annotated[float, Field(ge=0, le=1e12, allow_inf_nan=False)] | None = Field(
        None,
        description="Price of one GPU-hour lost to stalls, rework and recovery. Default: lost time is not priced.",
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

    @model_validator(mode="wrap")
    @classmethod
    def _answers_for_the_rest(cls, document: object, handler: ModelWrapValidatorHandler[Self]) -> Self:
        """One bad offer does not keep the others from an answer."""
        try:
            return handler(document)
        except ValidationError as error:
            rest = without_refused(document, error, cls)
            if rest is None:
                raise
            request = handler(rest.document)
            request._refused = rest.refused
            return request

    @model_validator(mode="after")
    def _makes_sense(self) -> Self:
        for what, named in (("workloads", self.workloads), ("offers", self.offers)):
            if len({each.name for each in named}) < len(named):
                raise broken_rule(f"has two {what} of one name", "name each of them differently")
        if sum(each.share_fraction for each in self.workloads) > 1 + _SHARES_ADD_UP:
            raise broken_rule("has workloads whose share_fraction add to more than 1", "give each its part of the time")
        return self


def decision_request_from(document: object) -> DecisionRequest:
    """The DecisionRequest that a parsed JSON or YAML document describes.

    Raises InvalidInput with one problem for each field that breaks a rule.
    """
    try:
        return DecisionRequest.model_validate(document)
    except ValidationError as error:
        raise explain(error, DecisionRequest) from None
