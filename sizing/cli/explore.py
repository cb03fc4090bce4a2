"""The verbs that ask what if: the inverse questions, sweeps, comparisons, clusters of jobs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer
import yaml

from sizing.charts.comparisons import comparison_chart
from sizing.charts.decisions import decision_chart
from sizing.charts.files import require_chart_name, write_chart
from sizing.charts.sweeps import sweep_chart
from sizing.cli.console import fail
from sizing.cli.files import read_document
from sizing.cli.flags import flag_words
from sizing.cli.report_files import REPORT_FILE, ReportFile, require_report_name, write_report
from sizing.cli.scenarios import AS_JSON, asked_document, asked_scenario
from sizing.cli.sweep_output import varied_value, write_csv, write_sweep_csv
from sizing.cli.tables import summary_text
from sizing.cli.terminal import EXIT_MISSED, WIDE_WITHOUT_TERMINAL, console, progress_bar
from sizing.errors import InvalidInput
from sizing.explore.clusters.cluster_scenario import REFERENCE_CLUSTER
from sizing.explore.comparisons.comparison import compare
from sizing.explore.decisions.decision import decide
from sizing.explore.decisions.decision_request import REFERENCE_DECISION
from sizing.explore.requirements.solver import requirements_of
from sizing.explore.sweeps.figures import OBJECTIVES
from sizing.explore.sweeps.sweep import sweep
from sizing.reports.document import (
    cluster_document,
    comparison_document,
    decision_document,
    requirements_document,
    sweep_document,
)
from sizing.summary.comparisons import comparison_summary
from sizing.summary.decisions import decision_summary
from sizing.summary.requirements import requirements_summary
from sizing.summary.sweeps import sweep_summary

AsJson = Annotated[bool, typer.Option("--json", help="Print the report as JSON")]
ChartFile = Annotated[Path | None, typer.Option("--chart", help="Draw into FILE.html, .png, .svg or .json")]


def _example_flag(example: Mapping[str, Any]) -> Any:
    """The option that prints an example of a verb's file instead of reading one."""

    def printed(*, wanted: bool) -> None:
        if wanted:
            print(yaml.safe_dump(dict(example), sort_keys=False, allow_unicode=True), end="")
            raise typer.Exit

    return typer.Option(
        "--example", help="Print an example of the file, to begin with", callback=printed, is_eager=True
    )


SWEEP_OPTIONS: dict[str, tuple[Any, Any]] = {
    "objective": (
        list[str] | None,
        typer.Option(
            None, "--objective", metavar="NAME", help=f"Compared by the Pareto front: {', '.join(OBJECTIVES)}"
        ),
    ),
    "figure": (
        list[str] | None,
        typer.Option(None, "--figure", metavar="NAME", help="A figure of the report to show, such as write.seconds"),
    ),
    "zip_lists": (
        bool,
        typer.Option(False, "--zip", help="Combine first values with first, second with second, ..."),
    ),
    "front": (
        bool,
        typer.Option(False, "--front", help="Keep only the Pareto front"),
    ),
    "as_csv": (bool, typer.Option(False, "--csv", help="Print all rows as CSV, as they are computed")),
    "as_json": AS_JSON,
    "chart": (Path | None, typer.Option(None, "--chart", help="Draw into FILE.html, .png, .svg or .json")),
    "report_file": REPORT_FILE,
}


SWEEP_FIELDS = {"objective": "objectives", "figure": "figures"}
"""What the options set in a SweepRequest."""


class SweepOptions(NamedTuple):
    """What SWEEP_OPTIONS gives, by name."""

    objective: list[str] | None
    figure: list[str] | None
    zip_lists: bool
    front: bool
    as_csv: bool
    as_json: bool
    chart: Path | None
    report_file: Path | None

    @property
    def request(self) -> dict[str, Any]:
        """The fields of a SweepRequest that were given."""
        fields = {
            "objectives": self.objective,
            "figures": self.figure,
            "combine": "zip" if self.zip_lists else None,
            "rows": "front" if self.front else None,
        }
        return {name: value for name, value in fields.items() if value}


def require_verb(
    scenario: Path | None = None,
    *,
    storage: Path | None,
    hf_config: Path | None,
    checkpoint: Path | None,
    report_file: Path | None,
    as_json: bool,
    check: bool,
    **flags: str | None,
) -> None:
    """Solve for the min bandwidth and capacity, and the min and max interval, that meet a scenario's targets."""
    require_report_name(report_file)
    asked = asked_scenario(scenario, storage=storage, hf_config=hf_config, checkpoint=checkpoint, flags=flags)
    report = requirements_of(asked)
    write_report(lambda: requirements_document(report), report_file)
    if as_json:
        print(report.model_dump_json(indent=2))
    else:
        console().print(summary_text(requirements_summary(report), flag_words(scenario, flags)))
    if check and not report.met_as_given:
        raise typer.Exit(EXIT_MISSED)


def sweep_verb(
    scenario: Path | None = None,
    *,
    storage: Path | None,
    hf_config: Path | None,
    checkpoint: Path | None,
    **given: Any,
) -> None:
    """Answer every combination of the lists and ranges of a scenario, and find the Pareto front.

    On the command line a list is 1,2,4 and a range 20GB/s..1TB/s:10 or, in equal ratios, 20GB/s..1TB/s:10:log.
    """
    options = SweepOptions(**{name: given.pop(name) for name in SWEEP_OPTIONS})
    flags = {name: varied_value(value) for name, value in given.items() if value is not None}
    document = asked_document(scenario, storage=storage, hf_config=hf_config, checkpoint=checkpoint, flags=flags)
    request = (document if "scenario" in document else {"scenario": document}) | options.request
    _print_sweep(request, options)


def _print_sweep(request: dict[str, Any], options: SweepOptions) -> None:
    require_report_name(options.report_file)
    if options.chart is not None:
        require_chart_name(options.chart)
    if options.as_csv and not options.front and options.report_file is None:
        write_sweep_csv(request)
        return
    with progress_bar("Sweeping") as progress:
        report = sweep(request, progress=progress)
    if options.chart is not None:
        write_chart(sweep_chart(report), options.chart)
    write_report(lambda: sweep_document(report), options.report_file)
    if options.as_json:
        print(report.model_dump_json(indent=2))
    elif options.as_csv:
        write_csv(report.columns, report.rows)
    else:
        console(width_without_terminal=WIDE_WITHOUT_TERMINAL).print(summary_text(sweep_summary(report)))


def cluster_verb(
    jobs: Annotated[Path, typer.Argument(help="Groups of jobs and the storage they share, JSON or YAML")],
    *,
    example: Annotated[bool, _example_flag(REFERENCE_CLUSTER)] = False,  # noqa: ARG001 - answered by its callback
    chart: ChartFile = None,
    report_file: ReportFile = None,
    as_json: AsJson = False,
    check: Annotated[bool, typer.Option("--check", help="Exit with 1 where a target is missed")] = False,
) -> None:
    """Size shared storage for many jobs: collisions, stalls under contention, restore storms, what to buy."""
    from sizing.charts.clusters import cluster_chart  # noqa: PLC0415  the simulation is imported where it runs
    from sizing.explore.clusters.cluster_answer import answer_cluster  # noqa: PLC0415 - as above
    from sizing.summary.clusters import cluster_summary  # noqa: PLC0415 - as above

    require_report_name(report_file)
    if chart is not None:
        require_chart_name(chart)
    document = _with_scenario_files(read_document(jobs), beside=jobs, within="jobs")
    with progress_bar("Simulating") as progress:
        report = answer_cluster(document, progress=progress)
    if chart is not None:
        write_chart(cluster_chart(report), chart)
    write_report(lambda: cluster_document(report), report_file)
    if as_json:
        print(report.model_dump_json(indent=2))
    else:
        console(width_without_terminal=WIDE_WITHOUT_TERMINAL).print(summary_text(cluster_summary(report)))
    if check and not report.meets_targets:
        raise typer.Exit(EXIT_MISSED)


def compare_verb(
    scenarios: Annotated[list[Path], typer.Argument(help="Scenarios, JSON or YAML; or one file with `scenarios`")],
    *,
    chart: ChartFile = None,
    report_file: ReportFile = None,
    as_json: AsJson = False,
) -> None:
    """Compare scenarios: which inputs and figures differ, and which input makes which difference."""
    require_report_name(report_file)
    if chart is not None:
        require_chart_name(chart)
    documents = [read_document(path) for path in scenarios]
    if len(documents) == 1 and "scenarios" in documents[0]:
        request = documents[0]
    elif len(documents) == 1:
        remedy = "give a second scenario, or a file with a list of `scenarios`"
        raise InvalidInput.of("compare", "needs two scenarios or more", value=str(scenarios[0]), remedy=remedy)
    else:
        named = zip(scenarios, documents, strict=True)
        request = {"scenarios": [{"name": path.stem, "scenario": document} for path, document in named]}
    report = compare(request)
    if chart is not None:
        write_chart(comparison_chart(report), chart)
    write_report(lambda: comparison_document(report), report_file)
    if as_json:
        print(report.model_dump_json(indent=2))
    else:
        console().print(summary_text(comparison_summary(report)))


def decide_verb(
    offers: Annotated[Path, typer.Argument(help="Workloads, offers and prices, JSON or YAML")],
    *,
    example: Annotated[bool, _example_flag(REFERENCE_DECISION)] = False,  # noqa: ARG001 - answered by its callback
    odds: Annotated[
        int | None, typer.Option("--odds", metavar="N", help="Draw the inputs that are ranges N times, as 100000")
    ] = None,
    guesses: Annotated[
        bool, typer.Option("--guesses", help="Draw what nobody stated from its plausible range too")
    ] = False,
    chart: ChartFile = None,
    report_file: ReportFile = None,
    as_json: AsJson = False,
    check: Annotated[bool, typer.Option("--check", help="Exit with 1 where no offer is enough")] = False,
) -> None:
    """Decide which offer is enough and costs least, with the GPU time that it loses and its best settings."""
    require_report_name(report_file)
    if chart is not None:
        require_chart_name(chart)
    document = _with_scenario_files(read_document(offers), beside=offers, within="workloads")
    report = decide(_with_odds(document, odds, guesses=guesses))
    if chart is not None:
        write_chart(decision_chart(report), chart)
    write_report(lambda: decision_document(report), report_file)
    if as_json:
        print(report.model_dump_json(indent=2))
    else:
        console(width_without_terminal=WIDE_WITHOUT_TERMINAL).print(summary_text(decision_summary(report)))
    if report.refused_offers:
        fail(problem for offer in report.refused_offers for problem in offer.problems)
    if check and report.offers[0].verdict != "enough":
        raise typer.Exit(EXIT_MISSED)


def _with_odds(document: dict[str, Any], num_draws: int | None, *, guesses: bool) -> dict[str, Any]:
    """The document with what is asked of its odds; those of the file without a flag of them."""
    asked = ({} if num_draws is None else {"num_draws": num_draws}) | ({"guesses": True} if guesses else {})
    given = document.get("odds") or {}
    return document | {"odds": given | asked} if asked and isinstance(given, dict) else document


def _with_scenario_files(document: dict[str, Any], *, beside: Path, within: str) -> dict[str, Any]:
    """The document with each scenario of a list that is a file name replaced by what the file holds."""
    named = document.get(within)
    if not isinstance(named, list):
        return document
    return document | {within: [_with_scenario_file(each, beside) for each in named]}


def _with_scenario_file(job: Any, beside: Path) -> Any:
    if not isinstance(job, dict) or not isinstance(job.get("scenario"), str):
        return job
    scenario = read_document(beside.parent / job["scenario"])
    return job | {"scenario": {name: block for name, block in scenario.items() if name != "storage"}}
