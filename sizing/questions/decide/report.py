"""The answer of a decision, as a document."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, JsonValue

from sizing.provenance import Origin, Provenance
from sizing.questions.decide.offers import Grows, RefusedOffer
from sizing.report import SizingReport
from sizing.run.retention import CapacityAt
from sizing.run.simulation import ProbabilityInterval
from sizing.run.targets import TargetCheck
from sizing.strict_model import StrictModel


class Spread(StrictModel):
    """How a figure is spread over the draws."""

    p5: float = Field(description="Value that 5 % of the draws lie below, in the unit of the figure.")
    p50: float = Field(description="Value that half of the draws lie below, in the unit of the figure.")
    p95: float = Field(description="Value that 95 % of the draws lie below, in the unit of the figure.")


class TargetOdds(StrictModel):
    """One target of one workload under an offer."""

    workload: str = Field(description="Name in the request of what runs when the target is held against it.")
    target: str = Field(description="Field of targets that was set, such as max_stall_seconds.")
    met_probability: float | None = Field(
        description="Probability that it is met, as a fraction of the draws. Null when that is not known in some."
    )
    met_interval: ProbabilityInterval | None = Field(
        None, description="Exact 95 % interval of met_probability, for the chance of the draws alone. Null with it."
    )


class GoodputOdds(StrictModel):
    """Goodput of one workload under an offer."""

    workload: str = Field(description="Name in the request of what runs with this goodput.")
    goodput_fraction: Spread | None = Field(
        description="Spread of the fraction of the time that is useful work (ETTR). Null when unknown."
    )


class OfferOdds(StrictModel):
    """An offer over all draws, with the settings proposed for it."""

    name: str = Field(description="Storage system that is offered.")
    enough_probability: float | None = Field(
        description="Probability that it meets every target of every workload, and holds what they keep. "
        "Null when that is not known in some draws."
    )
    enough_interval: ProbabilityInterval | None = Field(
        None, description="Exact 95 % interval of enough_probability, for the chance of the draws alone. Null with it."
    )
    cheapest_probability: float | None = Field(
        description="Probability that its total is the least of all offers, enough or not. Null when unknown."
    )
    cheapest_interval: ProbabilityInterval | None = Field(
        None,
        description="Exact 95 % interval of cheapest_probability, for the chance of the draws alone. Null with it.",
    )
    best_probability: float | None = Field(
        description="Probability that it is enough, and the cheapest of those that are: by total, or by lost "
        "GPU-hours where nothing is priced. Null when it has no answer."
    )
    best_interval: ProbabilityInterval | None = Field(
        None, description="Exact 95 % interval of best_probability, for the chance of the draws alone. Null with it."
    )
    total: Spread | None = Field(
        description="Spread of the cost over the horizon, in the currency of the decision. Null when unknown."
    )
    targets: list[TargetOdds] = Field(description="Each target of each workload.")
    goodputs: list[GoodputOdds] = Field(description="Goodput of each workload.")


class DrawnInput(StrictModel):
    """An input that was drawn, and how much of what is not certain comes from it."""

    field: str = Field(description="Dotted path of the input in the scenario, or in the offer.")
    offer: str | None = Field(description="Offer that it belongs to. Null where it is the same for all.")
    low: float | None = Field(description="Lower end, in the unit of the field. Null for the draws of a calibration.")
    high: float | None = Field(description="Upper end, in the unit of the field. Null for the draws of a calibration.")
    source: str = Field(description="Where the range comes from.")
    first_order_fraction: float | None = Field(
        description="Fraction of the variance that would go if this input alone were known (first-order Sobol index). "
        "Null where nothing varies."
    )
    total_fraction: float | None = Field(
        description="Fraction of the variance that would stay if all others were known (total Sobol index). "
        "Null where nothing varies."
    )


class Odds(StrictModel):
    """How sure a decision is, where its inputs are ranges."""

    num_draws: int = Field(description="Draws that were answered, each with all inputs.")
    seed: int = Field(description="Start of the random numbers; the same one gives the same draws.")
    offers: list[OfferOdds] = Field(description="The offers, in the order of the decision.")
    variance_of: str = Field(description="Figure of whose variance the inputs have their shares, in words.")
    inputs: list[DrawnInput] = Field(description="Inputs that were drawn, the largest share of the variance first.")
    measure_next: DrawnInput | None = Field(
        description="Input that is worth measuring next: the largest total share. Null where nothing varies."
    )
    warnings: list[str] = Field(description="What a reader must know before relying on the odds.")


Verdict = Literal["enough", "not enough", "not known"]
CostKind = Literal["capital", "operation", "lost GPU time", "prices of the storage"]
"""What is bought once, what is paid again or by use, GPU time without useful work; the last where no price is given."""
LOST: CostKind = "lost GPU time"
UNPRICED: CostKind = "prices of the storage"


class LedgerLine(StrictModel):
    """One cost of an offer over the horizon."""

    name: str = Field(description="What is paid for: the price's name, the tier, or lost GPU time.")
    kind: CostKind = Field(
        description="Whether it is bought once, paid again or by use, or GPU time without useful work; prices of the "
        "storage where none is given."
    )
    quantity: float | None = Field(description="How many units are counted over the horizon. Null when unknown.")
    unit: str = Field(description="Unit that is counted, in words.")
    amount: float = Field(description="Price of one unit, in the currency of the decision.")
    times: float = Field(
        description="How often the horizon bears the price: a share of a purchase, or a number of periods; 1 for use."
    )
    cost: float | None = Field(description="Quantity x amount x times. Null when the quantity is unknown.")


class Outcome(StrictModel):
    """A workload under an offer, with some settings."""

    settings: dict[str, JsonValue] = Field(description="Fields of the scenario that may be chosen, as they are here.")
    targets: list[TargetCheck] = Field(description="Each target, with the figure that it is compared with.")
    goodput_fraction: float | None = Field(
        description="Fraction of the time that is useful work (ETTR). Null when unknown."
    )
    lost_gpu_hours: float | None = Field(description="GPU-hours without useful work over the horizon.")
    kept_weights_bytes: int = Field(
        description="Bytes of weights that stay for good by the end of its part of the horizon; 0 when none are kept. "
        "A longer interval keeps fewer of them."
    )
    cannot_run: str | None = Field(
        description="Why its layout cannot run, whatever the storage. Null where it can, as far as is known."
    )
    warnings: list[str] = Field(description="What a reader must know before relying on the figures.")


class WayBack(StrictModel):
    """What a failure takes with an interval: the work that is done again, and the time until training goes on."""

    recovery_seconds: float = Field(description="Mean seconds from a failure until training goes on.")
    redone_fraction: float | None = Field(
        description="Fraction of the wall time that failures undo: work done again. Null when unknown."
    )


class Change(StrictModel):
    """A setting that costs less than the one asked for, or, where lost GPU time has no price, loses less of it."""

    field: str = Field(description="Dotted path in the scenario.")
    before: JsonValue = Field(description="Value as asked for, or its default; null where the scenario leaves it open.")
    after: JsonValue = Field(description="Value that is better, as it may be put into the scenario.")
    saves: float | None = Field(
        description="Money that it saves over the horizon, with the changes before it. "
        "Null when a cost is unknown, and where needs_next_change."
    )
    gpu_hours_saved: float | None = Field(
        None,
        description="GPU-hours that it keeps from being lost over the horizon, with the changes before it. "
        "Null when what is lost is unknown, and where needs_next_change.",
    )
    needs_next_change: bool = Field(
        False,
        description="Whether it has an answer only together with the next change, which then saves what both do. "
        "The intervals of tiers and of the main storage are such, as each is a multiple of the one in front.",
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


class Unanswered(StrictModel):
    """Settings that have no answer under an offer."""

    settings: list[dict[str, JsonValue]] = Field(
        description="Combinations of settings, each by dotted path; the empty one is the workload as asked."
    )
    why: str = Field(description="What stands against them, with what would help.")


class Need(StrictModel):
    """What a workload needs of one figure of an offer, together with its other needs, to meet all targets."""

    field: str = Field(description="Dotted path of the figure: a rate of storage.profile, or capacity_bytes.")
    offered: float | None = Field(
        description="What the offer has, less what others take of it. Null where it does not say."
    )
    needed: float = Field(
        description="Min that meets all targets together with the workload's other needs, at the settings proposed and "
        "needs_interval_seconds; of capacity what is kept. Every asynchronous save drains before the next one starts."
    )


class WorkloadDecision(StrictModel):
    """A workload under an offer."""

    name: str = Field(description="Workload that is held against the offer.")
    as_asked: Outcome | None = Field(description="With its own settings. Null where these have no answer.")
    proposed: Outcome | None = Field(
        description="With the settings that miss fewest targets and cost least. Null where no settings have an answer."
    )
    needs: list[Need] = Field(
        description="Rates that together meet the targets, and the capacity, beside those offered. Only the capacity "
        "where no rates are enough or any are; empty where there is no answer."
    )
    needs_interval_seconds: float | None = Field(
        None,
        description="Interval that goes with needs, in seconds: the proposed one or, where no rates are enough at it "
        "and it may be chosen, the best one for them. Null where needs have no rate.",
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


class BandwidthCost(StrictModel):
    """What an offer would cost with another bandwidth at its prices."""

    write_bytes_per_second: float = Field(
        description="Write rate of the file system in bytes per second; the read rate changes alike."
    )
    cost: float = Field(description="Total over the horizon, in the currency of the decision.")


class Worth(StrictModel):
    """What something that is not offered would be worth under an offer."""

    what: str = Field(description="What would be there beside the offer, in words.")
    saves: float = Field(
        description="Money that it would save over the horizon, before its own price; less than 0 where it costs more "
        "GPU time than it saves."
    )


class OfferDecision(StrictModel):
    """An offer: whether it is enough, and what it costs."""

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
    verdict_as_asked: Verdict = Field(description="Verdict with the workloads' own settings.")
    total_as_asked: float | None = Field(
        description="The same total with the workloads' own settings. Null when unknown."
    )
    lost_gpu_hours: float | None = Field(
        description="GPU-hours without useful work over the horizon, of all workloads. Null when unknown."
    )
    ledger: list[LedgerLine] = Field(description="What the total is made of.")
    workloads: list[WorkloadDecision] = Field(description="Each workload under the offer.")
    is_dominated: bool = Field(
        description="Whether another offer costs no more and loses no more GPU time, and less of one of them."
    )
    bandwidth_costs: list[BandwidthCost] = Field(
        description="Total over other bandwidths that miss no target, at the offer's price per GB/s. Empty without "
        "that price."
    )
    cheapest_bandwidth: BandwidthCost | None = Field(
        description="Bandwidth at which this offer would miss no target and cost least. Null without a price per GB/s "
        "or of GPU time, and where no bandwidth meets all targets."
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


class RankingChange(StrictModel):
    """Something at which the first offer would no longer be first."""

    other: str = Field(description="The offer that would then be first.")
    what: Factor = Field(
        description="What would change: the first offer's own prices, the price of a GPU-hour, or the horizon."
    )
    at: float = Field(
        description="Value at which both cost the same: money that the first costs more, "
        "a price per GPU-hour, or seconds."
    )
    direction: Literal["above", "below"] = Field(description="Side of that value on which the other is cheaper.")


class GrownOffer(StrictModel):
    """An offer at another size of the workloads, with the settings that are best there."""

    name: str = Field(description="Storage system that is offered.")
    verdict: Verdict = Field(description="Whether it meets every target at this size, and holds what is kept.")
    total: float | None = Field(description="Cost over the horizon at this size. Null when a part of it is unknown.")
    missed: list[str] = Field(
        default_factory=list,
        description="Targets that some workload misses at this size, by their fields, and capacity_bytes where the "
        "offer does not hold what is kept.",
    )


class GrowthOutcome(StrictModel):
    """The offers at another size of the workloads."""

    of: Grows = Field(description="What grows: the GPUs, or the bytes of a model's checkpoints.")
    times: float = Field(description="Size over that of the workloads, or over that of a year before.")
    is_per_year: bool = Field(description="Whether it grows so in each year of the horizon.")
    num_gpus: int = Field(description="GPUs of the largest workload at this size, at the end of a growth per year.")
    offers: list[GrownOffer] = Field(description="The offers, the best first.")

    @property
    def text(self) -> str:
        """Size for a reader.

        >>> GrowthOutcome(of="gpus", times=1.5, is_per_year=True, num_gpus=4608, offers=[]).text
        'GPUs x1.5 per year'
        """
        what = "GPUs" if self.of == "gpus" else "model"
        return f"{what} x{self.times:g}{' per year' if self.is_per_year else ''}"


class Subject(StrictModel):
    """What runs on the storage, by its size."""

    workload: str = Field(description="What the request calls the run whose size this is.")
    model: str = Field(description="Name of the preset or of the config; otherwise what the model was described by.")
    num_parameters: int = Field(description="Size of what is trained, a tied embedding counted once.")
    node: str = Field(description="Name of the catalog's entry, or how the machines are described.")
    num_nodes: int = Field(description="Machines with GPUs over which the layout is spread.")
    num_gpus: int = Field(description="World size of the layout.")

    @classmethod
    def of(cls, workload: str, report: SizingReport) -> Subject:
        """Return the size of what a workload's answer is about."""
        return cls(
            workload=workload,
            model=report.model.name,
            num_parameters=report.model.num_parameters,
            node=report.layout.node,
            num_nodes=report.layout.num_nodes,
            num_gpus=report.layout.num_gpus,
        )


class DecisionReport(StrictModel):
    """Offers side by side, the best first: those that are enough before the others, then by their total."""

    author: str | None = Field(None, description="Who answers for the recommendation. Null where nobody is named.")
    per_lost_gpu_hour: float | None = Field(
        None, description="Price of one lost GPU-hour, in the currency of the decision. Null where it has none."
    )
    subjects: list[Subject] = Field(
        description="Model and cluster of each workload that has an answer under some offer."
    )
    currency: str = Field(description="Unit of all prices and totals, as the request names it.")
    horizon_seconds: float = Field(description="Seconds over which costs are counted.")
    max_num_gpus: int = Field(description="GPUs of the largest workload.")
    offers: list[OfferDecision] = Field(description="The offers, the best first.")
    first_as_asked: str | None = Field(
        description="Offer that would come first with the workloads' own settings. Null where its cost is not known."
    )
    refused_offers: list[RefusedOffer] = Field(
        description="Offers with fields that break rules: left out, or judged without their prices."
    )
    ranking_changes: list[RankingChange] = Field(
        description="What would put another offer first. Empty where no total is known, or with one offer; without a "
        "horizon where purchases are written off, or kept weights grow with it."
    )
    growth: list[GrowthOutcome] = Field(
        default_factory=list,
        description="The offers at each size that the request names. Empty where it names none.",
    )
    odds: Odds | None = Field(None, description="How sure the ranking is. Null where the request has no odds.")
    warnings: list[str] = Field(description="What a reader must know before relying on the ranking.")
