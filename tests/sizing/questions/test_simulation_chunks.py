"""A simulation in chunks is the simulation: whoever computes them, in whichever order, and wherever it is cut."""

import copy
import random
from typing import Any

import pytest

from executors.local import LocalWorkers
from sizing.questions.chunks import ItemRange, ignore_progress
from sizing.questions.registry import SIMULATE
from sizing.questions.simulate import question
from sizing.questions.simulate.question import SimulationPart, SimulationWork
from sizing.questions.simulate.request import REFERENCE_SIMULATION, ScenarioSimulation
from sizing.run.evaluation import evaluate
from sizing.run.simulation import RUNS_PER_BLOCK, SimulationReport, simulation_report
from sizing.scenario import scenario_from
from sizing.sized_layout import size_layout

QUESTION = SIMULATE.question


def request(*, num_runs: int, run_seconds: str, **reliability: object) -> ScenarioSimulation:
    scenario = copy.deepcopy(REFERENCE_SIMULATION["scenario"])
    scenario["reliability"] |= reliability
    return QUESTION.request.model_validate({"scenario": scenario, "num_runs": num_runs, "run_seconds": run_seconds})


def plain(asked: ScenarioSimulation) -> SimulationReport:
    scenario = scenario_from(asked.scenario.model_dump(exclude_unset=True))
    return simulation_report(evaluate(size_layout(scenario).workload, scenario.run_inputs), asked)


SHORT: dict[str, Any] = {"num_runs": 3 * RUNS_PER_BLOCK + 100, "run_seconds": "1d"}
REQUESTS = {
    "restart": request(**SHORT),
    "spares": request(**SHORT, strategy="spares", spares={"num": 2}, repair_seconds="25h"),
}


@pytest.mark.parametrize("name", REQUESTS)
def test_parts_simulated_apart_and_sent_as_json_make_the_report_of_the_plain_function(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(question, "_FAILURES_PER_CHUNK", 1)
    work = SimulationWork(REQUESTS[name])
    assert [chunk.stop for chunk in work.chunks] == [8192, 16384, 24576, 24676]
    sent: dict[ItemRange, str] = {}
    for chunk in random.Random(1).sample(work.chunks, len(work.chunks)):  # noqa: S311 - any order
        sent[chunk] = SimulationWork(REQUESTS[name]).compute(chunk, ignore_progress).model_dump_json()
    assert len(set(sent.values())) == 4, "no block repeats the random numbers of another"
    report = work.merge(SimulationPart.model_validate_json(sent[chunk]) for chunk in work.chunks)
    assert report == plain(REQUESTS[name])


def test_one_worker_and_two_give_the_report_of_the_plain_function() -> None:
    asked = request(num_runs=20_000, run_seconds="90d")
    assert len(SimulationWork(asked).chunks) > 1
    one, two = (
        QUESTION.answer_request(asked, computer=LocalWorkers(number).compute).report.model_dump_json()
        for number in (1, 2)
    )
    assert one == two == plain(asked).model_dump_json()
