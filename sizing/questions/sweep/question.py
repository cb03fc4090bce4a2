"""Question: what every combination of the values of some fields gives, how it is asked and shown."""

from __future__ import annotations

from sizing.questions.question import (
    RATE_FIELDS,
    SAVE_FIELDS,
    SIZE_FIELDS,
    CsvTable,
    Option,
    Question,
    RestRoute,
    ScenarioFlags,
)
from sizing.questions.sweep.answer import stream_sweep, sweep_to_report
from sizing.questions.sweep.charts import sweep_chart
from sizing.questions.sweep.figures import OBJECTIVES
from sizing.questions.sweep.report import SweepReport
from sizing.questions.sweep.request import REFERENCE_SWEEP, SweepRequest
from sizing.questions.sweep.words import sweep_summary

QUESTION = Question[SweepRequest, SweepReport](
    title="Sweep of checkpoint storage",
    request=SweepRequest,
    report=SweepReport,
    example=REFERENCE_SWEEP,
    route=RestRoute(
        path="sweeps",
        name="create_sweep",
        summary="Sweep fields of a scenario",
        description="A scenario in which any field is a list or a range: a row for each combination, and the Pareto "
        "front.",
        example="What bandwidth buys in goodput",
        csv="the rows",
    ),
    work=sweep_to_report,
    summary=sweep_summary,
    terminal_summary=lambda report, style: sweep_summary(report, all_rows=style.all_rows),
    charts=lambda report: [sweep_chart(report)] if len(report.objectives) > 1 else [],
    table=lambda report: CsvTable(report.columns, report.rows),
    command_line=ScenarioFlags(
        may_be_request=True,
        varies=True,
        first_fields=(*SIZE_FIELDS, *SAVE_FIELDS, *RATE_FIELDS, "reliability.mtbf_seconds"),
    ),
    options=(
        Option(
            "objective",
            "objectives",
            f"Compared by the Pareto front: {', '.join(OBJECTIVES)}",
            metavar="NAME",
            repeats=True,
        ),
        Option(
            "figure",
            "figures",
            "A figure of the report to show, such as write.seconds",
            metavar="NAME",
            repeats=True,
        ),
        Option(
            "zip", "combine", "Combine first values with first, second with second, ...", value="zip", is_further=True
        ),
        Option("front", "rows", "Keep only the Pareto front", value="front"),
    ),
    more_help="On the command line a list is 1,2,4 and a range 20GB/s..1TB/s:10 or, in equal ratios, "
    "20GB/s..1TB/s:10:log.",
    stream=stream_sweep,
    csv_help="Print all rows as CSV, as they are computed",
    chart=sweep_chart,
    working="Sweeping",
    is_wide=True,
    schema_name="sweep",
)
