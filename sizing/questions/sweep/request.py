"""Request for a sweep: a scenario with lists and ranges, and what to show of the answers."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from sizing.errors import InvalidInput, has_field, unknown_name
from sizing.questions.sweep.figures import (
    DEFAULT_FIGURES,
    FIGURES,
    OBJECTIVES,
    SEARCHED_FIGURES,
    ObjectiveName,
)
from sizing.report import SizingReport
from sizing.strict_model import InputModel

Combination = Literal["product", "zip"]

REFERENCE_SWEEP: dict[str, Any] = {
    "scenario": {
        "model": {"preset": "megatron-1t"},
        "parallelism": {"tensor": 8, "pipeline": 64, "data": 6},
        "cluster": {"node": "dgx-a100"},
        "checkpoint": {
            "format": "megatron",
            "interval_seconds": {"from": "15min", "to": "4h", "num": 16, "scale": "log"},
        },
        "storage": {
            "profile": {
                "write_bytes_per_second": {"from": "20 GB/s", "to": "1 TB/s", "num": 18, "scale": "log"},
                "read_bytes_per_second": "1 TB/s",
            }
        },
        "reliability": {
            "failures_per_node_day": [0.00234, 0.0065],
            "detection_seconds": 0,
            "relaunch_seconds": 0,
        },
    },
    "objectives": ["bandwidth", "goodput"],
}
"""What write bandwidth buys in goodput for the published run of 1T, at two published failure rates."""


class SweepRequest(InputModel):
    """A scenario document with lists and ranges, and what to show of the answers."""

    model_config = ConfigDict(json_schema_extra={"examples": [REFERENCE_SWEEP]})

    scenario: dict[str, Any] = Field(
        description="Scenario in which any field may hold a list of values or a range {from, to, num, scale}."
    )
    combine: Combination = Field(
        "product",
        description="How fields combine: product answers every combination, zip the first values together, then the "
        "second.",
    )
    objectives: Annotated[tuple[ObjectiveName, ...], Field(max_length=len(OBJECTIVES))] = Field(
        (), description="What the Pareto front is judged by. Default: none, so no front is computed."
    )
    figures: Annotated[tuple[str, ...], Field(min_length=1, max_length=len(FIGURES))] = Field(
        DEFAULT_FIGURES,
        description="Dotted paths of the report to show. Default: times, goodput, required rate, capacity and cost.",
    )
    rows: Literal["all", "front"] = Field("all", description="Which rows to report: all, or the Pareto front alone.")

    @property
    def shown_figures(self) -> list[str]:
        """The figures asked for, and those of the objectives."""
        return list(dict.fromkeys([*self.figures, *(OBJECTIVES[name][0] for name in self.objectives)]))


def check_names(request: SweepRequest) -> None:
    """Refuse a request for a figure that there is not, or for a front of nothing. Raises InvalidInput."""
    for index, name in enumerate(request.figures):
        field = f"figures.{index}"
        if name in SEARCHED_FIGURES:
            rule = "comes from a search that a sweep does not make for each row"
            raise InvalidInput.of(field, rule, value=name, remedy="take training.fits, yes or no")
        if name not in FIGURES and has_field(SizingReport, name):
            rule = "is in the report of one scenario and not in the rows of a sweep"
            remedy = (
                "give a single figure of the checkpoint, its layout, training or run; or ask for one scenario as JSON"
            )
            raise InvalidInput.of(field, rule, value=name, remedy=remedy)
        if name not in FIGURES:
            all_names = "ckpt-size fields and docs/fields.md list the names of the report"
            raise unknown_name(field, name, known=FIGURES, otherwise=all_names)
    if request.rows == "front" and not request.objectives:
        raise InvalidInput.of(
            "objectives", "are required for a Pareto front", value=None, remedy="give stall and bandwidth"
        )
