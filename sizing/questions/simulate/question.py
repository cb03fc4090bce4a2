"""Question: what random failures make of a run, how it is asked, simulated and shown."""

from __future__ import annotations

from sizing.present.rows import Summary
from sizing.questions.chunks import Progress
from sizing.questions.question import Option, Question, RestRoute, ScenarioFlags, TerminalStyle
from sizing.questions.simulate.charts import simulation_chart
from sizing.questions.simulate.request import REFERENCE_SIMULATION, ScenarioSimulation
from sizing.questions.simulate.words import goodput_bars, simulation_summary
from sizing.report import find_layout
from sizing.run.evaluation import RunFigures, evaluate
from sizing.run.simulation import SimulationReport, failure_process_to_simulate, simulation_report
from sizing.sized_layout import size_layout


def _answer(request: ScenarioSimulation, progress: Progress) -> SimulationReport:
    """Simulate a scenario's run, beside the formula.

    Raises InvalidInput where the scenario has no answer, no write rate or no reliability, or the failures are too many.
    """
    return simulation_report(_evaluate_run(request), request, progress=progress)


def _refuse(request: ScenarioSimulation) -> None:
    """Raise as `_answer`, without the work of a simulation."""
    failure_process_to_simulate(_evaluate_run(request), request)


def _evaluate_run(request: ScenarioSimulation) -> RunFigures:
    scenario = find_layout(request.scenario).scenario
    return evaluate(size_layout(scenario).workload, scenario.run_inputs)


def _terminal_summary(report: SimulationReport, _: TerminalStyle) -> Summary:
    """Show the spread of goodput as bars, which a page has as a chart."""
    summary = simulation_summary(report)
    return summary._replace(grids=(*summary.grids, goodput_bars(report)))


QUESTION = Question[ScenarioSimulation, SimulationReport](
    title="Simulation of a run",
    request=ScenarioSimulation,
    report=SimulationReport,
    example=REFERENCE_SIMULATION,
    route=RestRoute(
        path="simulations",
        name="create_simulation",
        summary="Simulate a run with random failures",
        description="Goodput under random failures, its standard error and its spread over runs, next to the "
        "formula's.",
        example="A thousand months of 1T",
    ),
    answer=_answer,
    summary=simulation_summary,
    charts=lambda report: [simulation_chart(report)],
    terminal_summary=_terminal_summary,
    command_line=ScenarioFlags(layout="found"),
    options=(
        Option("runs", "num_runs", "Runs to simulate, 100 to 1,000,000", metavar="N", default="10000"),
        Option("lasting", "run_seconds", "Min length of a run", metavar="TIME", default="30d"),
        Option("seed", "seed", "Seed of the failures; the same one repeats the runs", metavar="N", default="1"),
    ),
    chart=simulation_chart,
    working="Simulating",
    needs_answer=lambda request: request.scenario,
    refuse=_refuse,
    draggable=lambda request: request.scenario,
)
