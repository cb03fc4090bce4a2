"""The answer of a decision, as a document."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from sizing.explore.decisions.odds_report import Odds
from sizing.explore.decisions.refused import RefusedOffer
from sizing.provenance import Origin, Provenance
from sizing.run.capacity_over_time import CapacityAt
from sizing.run.targets import TargetCheck

Verdict = Literal["enough", "not enough", "not known"]


class LedgerLine(BaseModel):
    """One cost of an offer over the horizon."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(description="What is paid for: the price's name, the tier, or lost GPU time.")
    quantity: float | None = Field(description="How many units are counted over the horizon. Null when unknown.")
    unit: str = Field(description="Unit that is counted, in words.")
    amount: float = Field(description="Price of one unit, in the currency of the decision.")
    times: float = Field(
        description="How often the horizon bears the price: a share of a purchase, or a number of periods; 1 for use."
    )
    cost: float | None = Field(description="Quantity x amount x times. Null when the quantity is unknown.")


class Outcome(BaseModel):
    """A workload under an offer, with some settings."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    settings: dict[str, JsonValue] = Field(description="Fields of the scenario that may be chosen, as they are here.")
    targets: list[TargetCheck] = Field(description="Each target, with the figure that it is compared with.")
    goodput_fraction: float | None = Field(
        description="Fraction of the time that is useful work (ETTR). Null when unknown."
    )
    lost_gpu_hours: float | None = Field(description="GPU-hours without useful work over the horizon.")
    cannot_run: str | None = Field(
        description="Why its layout cannot run, whatever the storage. Null where it can, as far as is known."
    )
    warnings: list[str] = Field(description="What a reader must know before relying on the figures.")


class WayBack(BaseModel):
    """What a failure takes with an interval: the work that is done again, and the time until training goes on."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    recovery_seconds: float = Field(description="Mean seconds from a failure until training goes on.")
    redone_fraction: float | None = Field(
        description="Fraction of the wall time that failures undo: work done again. Null when unknown."
    )


class Change(BaseModel):
    """A setting that costs less than the one asked for, or, where lost GPU time has no price, loses less of it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    field: str = Field(description="Dotted path in the scenario.")
    before: JsonValue = Field(description="Value as asked for, or its default; null where the scenario leaves it open.")
    after: JsonValue = Field(description="Value that is better, as it may be put into the scenario.")
    saves: float | None = Field(
        description="Money that it saves over the horizon, with the changes before it. "
        "Null when a cost is unknown, and where it has an answer with the next change alone."
    )
    gpu_hours_saved: float | None = Field(
        None,
        description="GPU-hours that it keeps from being lost over the horizon, with the changes before it. "
        "Null when what is lost is unknown, and where it has an answer with the next change alone.",
    )
    before_is_default: bool = Field(
        description="Whether nobody asked for the value before: it is the default of the field."
    )
    way_back_before: WayBack | None = Field(
        None, description="Way back from a failure without this change. Null unless it is of an interval, and unknown."
    )
    way_back_after: WayBack | None = Field(
        None, description="Way back from a failure with this change. Null unless it is of an interval, and unknown."
    )
    rests_on: Origin = Field(description="Weakest origin of the figures by which it saves, with the settings proposed.")


class Unanswered(BaseModel):
    """Settings that have no answer under an offer."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    settings: list[dict[str, JsonValue]] = Field(
        description="Combinations of settings, each by dotted path; the empty one is the workload as asked."
    )
    why: str = Field(description="What stands against them, with what would help.")


class Need(BaseModel):
    """What a workload needs of one figure of an offer to meet all targets that storage decides."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    field: str = Field(description="Dotted path of the figure: a rate of storage.profile, or capacity_bytes.")
    offered: float | None = Field(
        description="What the offer has, less what others take of it. Null where it does not say."
    )
    needed: float = Field(
        description="Min that meets all targets with the settings proposed, the interval chosen anew where it may be "
        "and the other rate ample; of capacity what is kept."
    )


class WorkloadDecision(BaseModel):
    """A workload under an offer."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(description="Workload that is held against the offer.")
    as_asked: Outcome | None = Field(description="With its own settings. Null where these have no answer.")
    proposed: Outcome | None = Field(
        description="With the settings that miss fewest targets and cost least. Null where no settings have an answer."
    )
    needs: list[Need] = Field(
        description="Rates and capacity that the targets need, beside those offered. Empty where there is no answer."
    )
    capacity_over_time: list[CapacityAt] = Field(
        description="What the storage must hold as the workload trains, with the settings proposed. "
        "Empty where there is no answer."
    )
    capacity_full_seconds: float | None = Field(
        description="Seconds of training after which the offered capacity is full. "
        "Null where it never is, and where none is offered."
    )
    changes: list[Change] = Field(description="From its own settings to those proposed, one after the other.")
    unanswered: list[Unanswered] = Field(description="Settings that were tried and have no answer.")
    provenance: list[Provenance] = Field(
        description="Where the figures of the answer with the settings proposed come from. Empty where there is none."
    )
    rests_on: list[str] = Field(
        description="Assumed inputs that move the answer most, by dotted path, the largest first."
    )


class BandwidthCost(BaseModel):
    """What an offer would cost with another bandwidth at its prices."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    write_bytes_per_second: float = Field(
        description="Write rate of the file system in bytes per second; the read rate changes alike."
    )
    cost: float = Field(description="Total over the horizon, in the currency of the decision.")


class Worth(BaseModel):
    """What something that is not offered would be worth under an offer."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    what: str = Field(description="What would be there beside the offer, in words.")
    saves: float = Field(
        description="Money that it would save over the horizon, before its own price; less than 0 where it costs more "
        "GPU time than it saves."
    )


class OfferDecision(BaseModel):
    """An offer: whether it is enough, and what it costs."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(description="Storage system that is offered.")
    verdict: Verdict = Field(description="Whether it meets every target of every workload, and holds what they keep.")
    missing: list[str] = Field(description="What it lacks, a sentence each; empty when it is enough.")
    capacity_bytes: int | None = Field(
        description="Usable capacity that is offered, in bytes. Null where none is named."
    )
    total: float | None = Field(
        description="Cost over the horizon with the settings proposed, lost GPU time included where that is priced. "
        "Null when a part of it is unknown."
    )
    total_as_asked: float | None = Field(description="The same with the workloads' own settings. Null when unknown.")
    lost_gpu_hours: float | None = Field(
        description="GPU-hours without useful work over the horizon, of all workloads. Null when unknown."
    )
    ledger: list[LedgerLine] = Field(description="What the total is made of.")
    workloads: list[WorkloadDecision] = Field(description="Each workload under the offer.")
    is_dominated: bool = Field(
        description="Whether another offer costs no more and loses no more GPU time, and less of one of them."
    )
    bandwidth_costs: list[BandwidthCost] = Field(
        description="Total over other bandwidths at the offer's price per GB/s. Empty without that price."
    )
    cheapest_bandwidth: BandwidthCost | None = Field(
        description="Bandwidth at which this offer would cost least. Null without a price per GB/s or of GPU time."
    )
    worths: list[Worth] = Field(
        description="What a faster restore, a tier in the nodes and a spare node would save. "
        "Empty where GPU time has no price; left out is what has no answer."
    )
    further_bandwidth_saves: float | None = Field(
        description="Money that 1 GB/s more of write bandwidth would save of lost GPU time over the horizon. "
        "Null when unknown."
    )


Factor = Literal["price", "per_lost_gpu_hour", "horizon_seconds"]
"""What a ranking may turn on."""


class RankingChange(BaseModel):
    """Something at which the first offer would no longer be first."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    other: str = Field(description="The offer that would then be first.")
    what: Factor = Field(
        description="What would change: the first offer's own prices, the price of a GPU-hour, or the horizon."
    )
    at: float = Field(
        description="Value at which both cost the same: money that the first costs more, "
        "a price per GPU-hour, or seconds."
    )
    direction: Literal["above", "below"] = Field(description="Side of that value on which the other is cheaper.")


class DecisionReport(BaseModel):
    """Offers side by side, the best first: those that are enough before the others, then by their total."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    currency: str = Field(description="Unit of all prices and totals, as the request names it.")
    horizon_seconds: float = Field(description="Seconds over which costs are counted.")
    max_num_gpus: int = Field(description="GPUs of the largest workload.")
    offers: list[OfferDecision] = Field(description="The offers, the best first.")
    refused_offers: list[RefusedOffer] = Field(
        description="Offers with fields that break rules: left out, or judged without their prices."
    )
    ranking_changes: list[RankingChange] = Field(
        description="What would put another offer first. Empty where no total is known, or with one offer."
    )
    odds: Odds | None = Field(None, description="How sure the ranking is. Null where the request has no odds.")
    warnings: list[str] = Field(description="What a reader must know before relying on the ranking.")
