"""Report on training techniques, as a document: what applies each of them, and which figures it moves."""

from __future__ import annotations

from pydantic import Field, JsonValue

from sizing.strict_model import StrictModel
from sizing.training.techniques import Kind


class FigureChange(StrictModel):
    """A figure of the report without and with the technique."""

    figure: str = Field(description="Dotted path of the figure in the report, whose name ends with its unit.")
    before: float | None = Field(description="Figure of the scenario as it is. Null when it is not known or not there.")
    after: float | None = Field(description="Figure with the technique. Null when it is not known or not there.")


class TechniqueEffect(StrictModel):
    """One technique on the scenario."""

    name: str = Field(description="What its paper calls it, as the catalog lists it.")
    kind: Kind = Field(description="What the technique changes, as in the catalog.")
    source: str = Field(description="Paper or documentation of the technique.")
    change: dict[str, JsonValue] = Field(
        description="Values of the scenario's fields that apply it, by dotted path. "
        "Empty where it does not apply, or is a plan by layers."
    )
    plan: str | None = Field(
        None,
        description="Plan by layers of that name in the answer of `rematerialize`, which lists the layers. "
        "Null when fields of the scenario apply it, or nothing does.",
    )
    reason: str | None = Field(description="Why it does not apply to this scenario. Null when it does.")
    effects: list[FigureChange] = Field(
        description="Figures that differ between the two answers. Empty where it does not apply or moves none of them."
    )


class TechniquesReport(StrictModel):
    """Each technique of the catalog on one scenario, in the order of the catalog."""

    model: str = Field(description="What is trained: a preset, a config, or what the model was described by.")
    num_gpus: int = Field(description="World size of the scenario as it is.")
    techniques: list[TechniqueEffect] = Field(description="Each technique: what applies it, or why it does not apply.")
    warnings: list[str] = Field(description="What a reader must know before believing the effects.")
