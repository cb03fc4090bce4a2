"""Question: what random failures make of a run, how it is asked, simulated and shown."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from pydantic import ConfigDict, Field

from sizing.present.rows import Summary
from sizing.questions.chunks import ItemRange, Progress, cut, ignore_progress
from sizing.questions.question import (
    RATE_FIELDS,
    SAVE_FIELDS,
    SIZE_FIELDS,
    Option,
    Question,
    RestRoute,
    ScenarioFlags,
    TerminalStyle,
)
from sizing.questions.simulate.charts import simulation_chart
from sizing.questions.simulate.request import REFERENCE_SIMULATION, ScenarioSimulation
from sizing.questions.simulate.words import goodput_bars, simulation_summary
from sizing.report import find_layout
from sizing.run.evaluation import evaluate
from sizing.run.monte_carlo import SimulatedRuns
from sizing.run.simulation import (
    RUNS_PER_BLOCK,
    SimulationReport,
    failure_process_to_simulate,
    failures_per_run,
    report_runs,
    simulate_runs,
)
from sizing.sized_layout import size_layout
from sizing.strict_model import StrictModel

_FAILURES_PER_CHUNK = 4_000_000
"""Failures of a chunk, as far as whole blocks allow: 1.4 s of one core with one level, at 0.35 us each."""


class SimulationPart(StrictModel):
    """What became of the runs of a chunk, as arrays of little-endian numbers of 64 bits, in base64."""

    model_config = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")

    seconds: bytes = Field(description="Wall, useful, saving and recovering seconds of each run, and its goodput.")
    num_by_level: bytes = Field(description="Failures of each run by the level that each of them needs.")
    num_reads: bytes = Field(description="Reads of each run that are begun of each level.")

    @classmethod
    def of(cls, runs: SimulatedRuns) -> SimulationPart:
        """Make the part of the runs of a chunk."""
        seconds = [
            runs.wall_seconds,
            runs.useful_seconds,
            runs.saving_seconds,
            runs.recovering_seconds,
            runs.run_goodput_fractions,
        ]
        return cls(
            seconds=np.array(seconds, dtype="<f8").tobytes(),
            num_by_level=runs.num_by_level.astype("<i8").tobytes(),
            num_reads=runs.num_reads.astype("<i8").tobytes(),
        )

    @property
    def runs(self) -> SimulatedRuns:
        """The runs of the chunk, as they were simulated."""
        wall, useful, saving, recovering, goodput = np.frombuffer(self.seconds, dtype="<f8").reshape(5, -1)
        num_by_level, num_reads = (
            np.frombuffer(counts, dtype="<i8").reshape(-1, len(wall)) for counts in (self.num_by_level, self.num_reads)
        )
        return SimulatedRuns(wall, useful, saving, recovering, num_by_level, num_reads, goodput)


class SimulationWork:
    """Simulation of a scenario's run as chunks of whole blocks of runs.

    Raises InvalidInput where the scenario has no answer, no write rate or no reliability, or the failures are too many.
    """

    part = SimulationPart

    def __init__(self, request: ScenarioSimulation) -> None:
        scenario = find_layout(request.scenario).scenario
        self.request, self._run = request, evaluate(size_layout(scenario).workload, scenario.run_inputs)
        self._process = failure_process_to_simulate(self._run, request)
        per_block = RUNS_PER_BLOCK * failures_per_run(request.run_seconds, float(self._process.mtbf_seconds))
        blocks = max(1, int(_FAILURES_PER_CHUNK / per_block))
        self.chunks = cut([0, request.num_runs], max_items=blocks * RUNS_PER_BLOCK)

    def compute(self, items: ItemRange, progress: Progress = ignore_progress) -> SimulationPart:
        """Simulate the runs of a range."""
        return SimulationPart.of(simulate_runs(self._process, self.request, range(*items), progress))

    def merge(self, parts: Iterable[SimulationPart]) -> SimulationReport:
        """Report all runs. Sums and quantiles are of all runs in their order, wherever these were cut."""
        return report_runs(self._run, self.request, SimulatedRuns.join([part.runs for part in parts]))


def _refuse(request: ScenarioSimulation) -> None:
    """Raise as the simulation, without the work of it."""
    SimulationWork(request)


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
    work=SimulationWork,
    summary=simulation_summary,
    charts=lambda report: [simulation_chart(report)],
    terminal_summary=_terminal_summary,
    command_line=ScenarioFlags(
        layout="found",
        first_fields=(
            *SIZE_FIELDS,
            *SAVE_FIELDS,
            *RATE_FIELDS,
            "reliability.mtbf_seconds",
            "reliability.restart_seconds",
            "reliability.spares.num",
        ),
    ),
    options=(
        Option("runs", "num_runs", "Runs to simulate, 100 to 1,000,000", metavar="N", default="10000"),
        Option("lasting", "run_seconds", "Min length of a run", metavar="TIME", default="30d"),
        Option(
            "seed",
            "seed",
            "Seed of the failures; the same one repeats the runs",
            metavar="N",
            default="1",
            is_further=True,
        ),
    ),
    chart=simulation_chart,
    working="Simulating",
    needs_answer=lambda request: request.scenario,
    refuse=_refuse,
    draggable=lambda request: request.scenario,
)
