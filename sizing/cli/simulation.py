"""`ckpt-size simulate`: a Monte Carlo of the run beside the formula."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer
from pydantic import ValidationError

from sizing.cli.flags import flag_words, require_unit_of_time
from sizing.cli.report_files import REPORT_FILE, require_report_name, write_report
from sizing.cli.scenarios import asked_scenario
from sizing.cli.tables import summary_text
from sizing.cli.terminal import console, progress_bar
from sizing.errors import explain
from sizing.explore.scenario_simulation import ScenarioSimulation, simulated
from sizing.reports.document import simulation_document
from sizing.scenario import Scenario
from sizing.summary.simulation import goodput_bars, simulation_summary

SIMULATE_OPTIONS: dict[str, tuple[Any, Any]] = {
    "runs": (str, typer.Option("10000", "--runs", help="Runs to simulate, 100 to 1,000,000", metavar="N")),
    "lasting": (str, typer.Option("30d", "--lasting", help="Min length of a run", metavar="TIME")),
    "seed": (
        str,
        typer.Option("1", "--seed", help="Seed of the failures; the same one repeats the runs", metavar="N"),
    ),
    "report_file": REPORT_FILE,
    "as_json": (bool, typer.Option(False, "--json", help="Print the report as JSON")),
}


SIMULATE_FIELDS = {"runs": "num_runs", "lasting": "run_seconds", "seed": "seed"}
"""What the options set in a ScenarioSimulation."""


def simulate_verb(
    scenario: Path | None = None,
    *,
    storage: Path | None,
    hf_config: Path | None,
    checkpoint: Path | None,
    report_file: Path | None,
    as_json: bool,
    **given: Any,
) -> None:
    """Simulate the run with random failures: goodput (ETTR), its spread over runs, and the goodput by formula."""
    require_report_name(report_file)
    runs = {field: given.pop(option) for option, field in SIMULATE_FIELDS.items()}
    require_unit_of_time("--lasting", runs["run_seconds"])
    asked = asked_scenario(scenario, storage=storage, hf_config=hf_config, checkpoint=checkpoint, flags=given)
    question = _question(asked, runs)
    with progress_bar("Simulating") as progress:
        report = simulated(question, progress=progress)
    write_report(lambda: simulation_document(report), report_file)
    if as_json:
        print(report.model_dump_json(indent=2))
    else:
        summary = simulation_summary(report)
        with_bars = summary._replace(grids=(*summary.grids, goodput_bars(report)))
        console().print(summary_text(with_bars, flag_words(scenario, given)))


def _question(scenario: Scenario, runs: dict[str, str]) -> ScenarioSimulation:
    try:
        return ScenarioSimulation.model_validate({"scenario": scenario, **runs})
    except ValidationError as error:
        raise explain(error, ScenarioSimulation) from None
