"""The odds of a decision, as part of its report."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class Spread(BaseModel):
    """How a figure is spread over the draws."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    p5: float = Field(description="Value that 5 % of the draws lie below, in the unit of the figure.")
    p50: float = Field(description="Value that half of the draws lie below, in the unit of the figure.")
    p95: float = Field(description="Value that 95 % of the draws lie below, in the unit of the figure.")


class TargetOdds(BaseModel):
    """One target of one workload under an offer."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    workload: str = Field(description="Name in the request of what runs when the target is held against it.")
    target: str = Field(description="Field of targets that was set, such as max_stall_seconds.")
    met_probability: float | None = Field(
        description="Probability that it is met, as a fraction of the draws. Null when that is not known in some."
    )


class GoodputOdds(BaseModel):
    """Goodput of one workload under an offer."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    workload: str = Field(description="Name in the request of what runs with this goodput.")
    goodput_fraction: Spread | None = Field(
        description="Spread of the fraction of the time that is useful work (ETTR). Null when unknown."
    )


class OfferOdds(BaseModel):
    """An offer over all draws, with the settings proposed for it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(description="Storage system that is offered.")
    enough_probability: float | None = Field(
        description="Probability that it meets every target of every workload, and holds what they keep. "
        "Null when that is not known in some draws."
    )
    cheapest_probability: float | None = Field(
        description="Probability that its total is the least of all offers, enough or not. Null when unknown."
    )
    best_probability: float | None = Field(
        description="Probability that it is enough, and the cheapest of those that are: by total, or by lost "
        "GPU-hours where nothing is priced. Null when it has no answer."
    )
    total: Spread | None = Field(
        description="Spread of the cost over the horizon, in the currency of the decision. Null when unknown."
    )
    targets: list[TargetOdds] = Field(description="Each target of each workload.")
    goodputs: list[GoodputOdds] = Field(description="Goodput of each workload.")


class DrawnInput(BaseModel):
    """An input that was drawn, and how much of what is not certain comes from it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

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


class Odds(BaseModel):
    """How sure a decision is, where its inputs are ranges."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    num_draws: int = Field(description="Draws that were answered, each with all inputs.")
    seed: int = Field(description="Start of the random numbers; the same one gives the same draws.")
    offers: list[OfferOdds] = Field(description="The offers, in the order of the decision.")
    variance_of: str = Field(description="Figure of whose variance the inputs have their shares, in words.")
    inputs: list[DrawnInput] = Field(description="Inputs that were drawn, the largest share of the variance first.")
    measure_next: DrawnInput | None = Field(
        description="Input that is worth measuring next: the largest total share. Null where nothing varies."
    )
    warnings: list[str] = Field(description="What a reader must know before relying on the odds.")
