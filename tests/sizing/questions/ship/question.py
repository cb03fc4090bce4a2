"""How long a checkpoint takes to another site: what is asked, its answer, its words and its chart."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from sizing.present.chart import Chart, chart, quantity
from sizing.present.rows import Grid, Summary
from sizing.questions.chunks import Progress
from sizing.questions.question import Option, Question, RestRoute, ScenarioFlags
from sizing.report import answer
from sizing.scenario import REFERENCE_SCENARIO, Scenario
from sizing.units import BytesPerSecond, bytes_text, rate_text, seconds_text

EXAMPLE: dict[str, Any] = {"scenario": REFERENCE_SCENARIO, "link_bytes_per_second": "100 Gb/s"}


class ShipRequest(BaseModel):
    """A scenario, and the link to the other site."""

    model_config = ConfigDict(extra="forbid", frozen=True, json_schema_extra={"examples": [EXAMPLE]})

    scenario: Scenario = Field(description="What is saved.")
    link_bytes_per_second: Annotated[BytesPerSecond, Field(gt=0)] = Field(
        description="Rate of the link in bytes per second, of which the checkpoint has all."
    )


class ShipReport(BaseModel):
    """How long a checkpoint takes over a link."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    checkpoint_bytes: int = Field(description="Bytes of one checkpoint.")
    link_bytes_per_second: float = Field(description="Rate of the link in bytes per second.")
    seconds: float = Field(description="Seconds from the first byte to the last.")


def shipped(request: ShipRequest, _: Progress) -> ShipReport:
    """Divide the bytes of a checkpoint by the rate of the link."""
    num_bytes, rate = answer(request.scenario).checkpoint.written_bytes, request.link_bytes_per_second
    return ShipReport(checkpoint_bytes=num_bytes, link_bytes_per_second=rate, seconds=num_bytes / rate)


def ship_summary(report: ShipReport) -> Summary:
    """Put the time, the bytes and the rate into words."""
    rows = (("checkpoint", bytes_text(report.checkpoint_bytes)), ("link", rate_text(report.link_bytes_per_second)))
    return Summary(f"Shipped in {seconds_text(report.seconds)}", grids=(Grid("", ("what", "figure"), rows),))


def ship_charts(report: ShipReport) -> list[Chart]:
    """Draw the time as a bar."""
    rows = [{"what": "checkpoint", "seconds": report.seconds}]
    encoding = {"x": quantity("seconds", "time"), "y": {"field": "what", "type": "nominal", "title": None}}
    return [chart("Time to the other site", rows=rows, mark="bar", encoding=encoding)]


QUESTION = Question[ShipRequest, ShipReport](
    title="A checkpoint on its way",
    request=ShipRequest,
    report=ShipReport,
    example=EXAMPLE,
    route=RestRoute(
        path="shipments",
        name="create_shipment",
        summary="Ship a checkpoint to another site",
        description="How long one checkpoint takes over a link.",
        example="1T over 100 Gb/s",
    ),
    answer=shipped,
    summary=ship_summary,
    charts=ship_charts,
    command_line=ScenarioFlags(layout="found"),
    options=(Option("link", "link_bytes_per_second", "Rate of the link", metavar="RATE"),),
    draggable=lambda request: request.scenario,
)
