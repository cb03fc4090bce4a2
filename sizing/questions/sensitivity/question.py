"""Question: which inputs move the answer most, how it is asked and shown."""

from __future__ import annotations

from sizing.errors import InvalidInput
from sizing.guesses.figures import headline_words
from sizing.present.chart import Chart
from sizing.present.guesses import swing_rows
from sizing.present.rows import Grid, Summary
from sizing.present.tornado import tornado
from sizing.questions.question import RATE_FIELDS, SAVE_FIELDS, SIZE_FIELDS, Option, Question, RestRoute, ScenarioFlags
from sizing.questions.sensitivity.answer import answer_sensitivity
from sizing.questions.sensitivity.request import (
    DEFAULT_FRACTION,
    REFERENCE_SENSITIVITY,
    SensitivityReport,
    SensitivityRequest,
)
from sizing.units import figure_text


def _read_ranges(texts: list[str]) -> dict[str, dict[str, str]]:
    """Read the ends of each field that is given as `interval=15min..4h`. Raises InvalidInput."""
    ranges = {}
    for text in texts:
        name, _, ends = text.partition("=")
        low, dots, high = ends.partition("..")
        if not (name and low and dots and high):
            remedy = "write it as in interval=15min..4h"
            raise InvalidInput.of("ranges", "must be FIELD=LOW..HIGH", value=text, remedy=remedy)
        ranges[name] = {"low": low, "high": high}
    return ranges


def sensitivity_summary(report: SensitivityReport) -> Summary:
    """Put the headline into words, and each input into a row."""
    figure = report.headline.figure
    columns = ("input", "given", "varied", f"{headline_words(report.headline)} then", "why so far")
    return Summary(
        headline=f"{headline_words(report.headline).capitalize()} {figure_text(figure, report.headline.value)}",
        grids=(Grid("", columns, tuple(swing_rows(report.inputs, figure))),),
        warnings=tuple(report.warnings),
    )


def sensitivity_chart(report: SensitivityReport) -> Chart:
    """Draw a bar for each given input, from the headline at its lower end to that at its upper end."""
    return tornado("Inputs by how far they move", report.headline, report.inputs)


QUESTION = Question[SensitivityRequest, SensitivityReport](
    title="Sensitivity of the answer",
    request=SensitivityRequest,
    report=SensitivityReport,
    example=REFERENCE_SENSITIVITY,
    route=RestRoute(
        path="sensitivities",
        name="create_sensitivity",
        summary="Find the inputs that move the answer most",
        description="Each given input varied alone over its range, and what the headline figure becomes; the largest "
        "swing first.",
        example="Lost time of 1T",
    ),
    answer=lambda request, _: answer_sensitivity(request),
    summary=sensitivity_summary,
    charts=lambda report: [sensitivity_chart(report)] if report.inputs else [],
    command_line=ScenarioFlags(
        layout="found",
        may_be_request=True,
        first_fields=(
            *SIZE_FIELDS,
            *SAVE_FIELDS,
            *RATE_FIELDS,
            "training.framework",
            "reliability.mtbf_seconds",
            "storage.preset",
        ),
    ),
    options=(
        Option(
            "range",
            "ranges",
            "Vary a field, by its dotted name or its flag, between two values (e.g. interval=15min..4h)",
            metavar="FIELD=LOW..HIGH",
            repeats=True,
            read=_read_ranges,
            has_fields=True,
        ),
        Option(
            "fraction",
            "fraction",
            f"Vary other numbers so far down and up (default: {DEFAULT_FRACTION:g})",
            metavar="N",
        ),
    ),
    chart=sensitivity_chart,
    needs_answer=lambda request: request.scenario,
)
