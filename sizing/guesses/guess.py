"""Blocks `headline` and `guesses` of the report."""

from __future__ import annotations

from pydantic import Field, JsonValue

from sizing.strict_model import StrictModel

WIDE_FRACTION = 0.1
"""Share of a figure: a guess that moves it by more is named beside it. A choice: runs of one system differ by less."""

VISIBLE_FRACTION = 5e-4
"""Share of the headline: figures are shown with four digits at most, so what moves it by less does not show."""


class Headline(StrictModel):
    """The one figure that guesses are weighed by."""

    figure: str = Field(
        description="Dotted path of the figure in the report: the first that is known of lost fraction of the run, "
        "overhead fraction, bytes of a checkpoint."
    )
    value: float = Field(description="That figure as it stands, in its unit.")
    leaves_out_restore: bool = Field(
        False,
        description="Whether it is a loss without the time of restores, which is not known: at least that is lost.",
    )


class Swing(StrictModel):
    """What the headline becomes at the two ends of what an input may be."""

    field: str = Field(description="Dotted path of the input in the scenario.")
    low: JsonValue = Field(
        description="Lower end of its range, in the unit of the field; of a choice, the value with the min headline."
    )
    high: JsonValue = Field(
        description="Upper end of its range, in the unit of the field; of a choice, the value with the max headline."
    )
    headline_low: float = Field(description="Headline figure when the input is `low`, all others as they are.")
    headline_high: float = Field(description="Headline figure when the input is `high`, all others as they are.")
    source: str = Field(description="Where the range or the alternatives were read.")

    def span(self, headline: float) -> float:
        """Return how far the headline moves, from its smallest to its largest value."""
        values = (headline, self.headline_low, self.headline_high)
        return max(values) - min(values)


class Guess(Swing):
    """A value that nobody stated, and what the headline becomes at either end of its plausible range."""

    assumed: JsonValue = Field(description="What the answer uses, in the unit of the field.")
    moves: list[str] = Field(
        description=f"Dotted paths of figures that its range moves by more than {WIDE_FRACTION:g} of themselves."
    )


class InputSwing(Swing):
    """An input that the scenario gives, and what the headline becomes at either end of its range."""

    given: JsonValue = Field(description="What the scenario has, in the unit of the field.")
