"""`ckpt-size simulate`: a Monte Carlo of the run beside the formula."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer
from pydantic import ValidationError
from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from sizing.cli.scenarios import asked_scenario
from sizing.cli.terminal import console, progress_bar
from sizing.errors import explain
from sizing.explore.scenario_simulation import ScenarioSimulation, simulated
from sizing.run.simulation.simulation_report import SimulationReport
from sizing.scenario import Scenario
from sizing.units import percent_text, seconds_text

BAR_WIDTH = 40
"""Columns of the longest bar, so that a row fits a terminal of 80."""

SIMULATE_OPTIONS: dict[str, tuple[Any, Any]] = {
    "runs": (str, typer.Option("10000", "--runs", help="Runs to simulate, 100 to 1,000,000", metavar="N")),
    "lasting": (str, typer.Option("30d", "--lasting", help="Min length of a run", metavar="TIME")),
    "seed": (
        str,
        typer.Option("1", "--seed", help="Seed of the failures; the same one repeats the runs", metavar="N"),
    ),
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
    runs: str,
    lasting: str,
    seed: str,
    as_json: bool,
    **flags: str | None,
) -> None:
    """Simulate the run with random failures: goodput (ETTR), its spread over runs, and the goodput by formula."""
    asked = asked_scenario(scenario, storage=storage, hf_config=hf_config, checkpoint=checkpoint, flags=flags)
    question = _question(asked, runs, lasting, seed)
    with progress_bar("Simulating") as progress:
        report = simulated(question, progress=progress)
    if as_json:
        print(report.model_dump_json(indent=2))
    else:
        console().print(simulation_text(report))


def simulation_text(report: SimulationReport) -> RenderableType:
    """Simulated and computed goodput, where the time goes, and how many runs had which goodput."""
    return Group(
        _goodput(report), _shares(report), _histogram(report), *(Text(f"note: {note}") for note in report.notes)
    )


def _question(scenario: Scenario, runs: str, lasting: str, seed: str) -> ScenarioSimulation:
    asked = {"scenario": scenario, "num_runs": runs, "run_seconds": lasting, "seed": seed}
    try:
        return ScenarioSimulation.model_validate(asked)
    except ValidationError as error:
        raise explain(error, ScenarioSimulation) from None


def _goodput(report: SimulationReport) -> Table:
    title = (
        f"{report.num_runs:,} runs of {seconds_text(report.run_seconds)}, MTBF {seconds_text(report.mtbf_seconds)}, "
        f"{report.mean_failures:.1f} failures per run (seed {report.seed})"
    )
    table = Table(title=title, title_justify="left", title_style="bold cyan", box=None, show_header=False)
    table.add_column(style="dim", min_width=18)
    table.add_column(justify="right", min_width=12)
    table.add_column()
    error = f"+- {100 * report.standard_error_fraction:.4f} % standard error"
    table.add_row("goodput, simulated", _percent(report.goodput_fraction), error)
    away = f"differs by {abs(report.difference_in_standard_errors):.1f} standard errors"
    table.add_row("goodput, formula", _percent(report.formula_goodput_fraction), away)
    low, high = percent_text(report.p5_goodput_fraction), percent_text(report.p95_goodput_fraction)
    table.add_row("median run", _percent(report.p50_goodput_fraction), f"90 % of the runs between {low} and {high}")
    return table


def _shares(report: SimulationReport) -> Table:
    table = Table("share of the wall time", "simulated", "formula", box=box.SIMPLE_HEAD)
    formula = report.formula_shares.by_name
    for name, fraction in report.shares.by_name.items():
        table.add_row(name, _percent(fraction), _percent(formula[name]))
    return table


def _histogram(report: SimulationReport) -> Table:
    table = Table("goodput of a run", "runs", "", box=box.SIMPLE_HEAD)
    highest = max(one.num_runs for one in report.histogram)
    for one in report.histogram:
        span = f"{100 * one.from_fraction:.2f} to {100 * one.to_fraction:.2f} %"
        table.add_row(span, f"{one.num_runs:,}", "#" * round(BAR_WIDTH * one.num_runs / highest))
    return table


def _percent(fraction: float) -> str:
    """A fraction with the digits that its standard error justifies."""
    return f"{100 * fraction:.3f} %"
