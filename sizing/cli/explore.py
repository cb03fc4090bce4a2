"""The verbs that ask what if: the inverse questions, many jobs on one storage system."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from sizing.charts.files import require_chart_name, write_chart
from sizing.cli.files import read_document
from sizing.cli.requirements_text import requirements_text
from sizing.cli.scenarios import asked_scenario
from sizing.cli.terminal import EXIT_MISSED, console, progress_bar
from sizing.explore.requirements.answer import requirements_of

_CLUSTER_WIDTH = 200

AsJson = Annotated[bool, typer.Option("--json", help="Print the report as JSON")]
ChartFile = Annotated[Path | None, typer.Option("--chart", help="Draw into FILE.html, .png, .svg or .json")]


def require_verb(
    scenario: Path | None = None,
    *,
    storage: Path | None,
    hf_config: Path | None,
    checkpoint: Path | None,
    as_json: bool,
    check: bool,
    **flags: str | None,
) -> None:
    """Solve for the least bandwidth and capacity, and the intervals, that meet a scenario's targets."""
    asked = asked_scenario(scenario, storage=storage, hf_config=hf_config, checkpoint=checkpoint, flags=flags)
    report = requirements_of(asked)
    if as_json:
        print(report.model_dump_json(indent=2))
    else:
        console().print(requirements_text(report))
    if check and not report.met_as_given:
        raise typer.Exit(EXIT_MISSED)


def cluster_verb(
    jobs: Annotated[Path, typer.Argument(help="Groups of jobs and the storage they share, JSON or YAML")],
    *,
    chart: ChartFile = None,
    as_json: AsJson = False,
    check: Annotated[bool, typer.Option("--check", help="Exit with 1 where a target is missed")] = False,
) -> None:
    """Size shared storage for many jobs: collisions, stalls under contention, restore storms, what to buy."""
    from sizing.charts.clusters import cluster_chart  # noqa: PLC0415  the simulation is imported where it runs
    from sizing.cli.cluster_text import cluster_text  # noqa: PLC0415
    from sizing.explore.clusters.answer import answer_cluster  # noqa: PLC0415

    if chart is not None:
        require_chart_name(chart)
    document = _with_scenario_files(read_document(jobs), beside=jobs)
    with progress_bar("Simulating") as progress:
        report = answer_cluster(document, progress=progress)
    if chart is not None:
        write_chart(cluster_chart(report), chart)
    if as_json:
        print(report.model_dump_json(indent=2))
    else:
        console(width_without_terminal=_CLUSTER_WIDTH).print(cluster_text(report))
    if check and not report.meets_targets:
        raise typer.Exit(EXIT_MISSED)


def _with_scenario_files(document: dict[str, Any], *, beside: Path) -> dict[str, Any]:
    """The document with each job's scenario that is a file name replaced by what the file holds."""
    jobs = document.get("jobs")
    if not isinstance(jobs, list):
        return document
    return document | {"jobs": [_with_scenario_file(job, beside) for job in jobs]}


def _with_scenario_file(job: Any, beside: Path) -> Any:
    if not isinstance(job, dict) or not isinstance(job.get("scenario"), str):
        return job
    scenario = read_document(beside.parent / job["scenario"])
    return job | {"scenario": {name: block for name, block in scenario.items() if name != "storage"}}
