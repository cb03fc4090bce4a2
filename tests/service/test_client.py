"""The typed client: a method for every route, and each brings what the service answers."""

import csv
import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from service_client.client import Client
from service_client.errors import Refused
from sizing.checkpoint_files.sent import REFERENCE_FILE
from sizing.importers.request import REFERENCE_IMPORT
from sizing.offer_tables import REFERENCE_OFFER_TABLE
from sizing.questions.cluster.request import REFERENCE_CLUSTER
from sizing.questions.compare.request import REFERENCE_COMPARISON
from sizing.questions.decide.request import REFERENCE_DECISION
from sizing.questions.layouts.request import REFERENCE_SEARCH
from sizing.questions.manifest.request import REFERENCE_MANIFEST
from sizing.questions.registry import SIMULATE, SWEEP
from sizing.questions.rematerialize.request import REFERENCE_REMATERIALIZATION
from sizing.questions.sensitivity.request import REFERENCE_SENSITIVITY
from sizing.questions.simulate.request import REFERENCE_SIMULATION, ScenarioSimulation
from sizing.questions.stages.request import REFERENCE_STAGES
from sizing.questions.sweep.report import SweepReport
from sizing.questions.sweep.request import REFERENCE_SWEEP
from sizing.questions.techniques.request import REFERENCE_TECHNIQUES
from sizing.report import answer
from sizing.scenario import FIRST_SCENARIO, REFERENCE_SCENARIO, scenario_from
from sizing.validation import validation
from tests.service.conftest import created_token
from tests.sizing.storage.calibration.simulation import FULL_SCAN, result
from tests.testbed.processes import SECONDS_UNTIL_STUCK

SYSTEM = "of-the-client"
RUN = result(FULL_SCAN, run_id="of-the-client")
QUESTIONS: dict[str, Any] = {
    "answer": REFERENCE_SCENARIO,
    "requirements": REFERENCE_SCENARIO,
    "sweep": REFERENCE_SWEEP,
    "sweep_csv": REFERENCE_SWEEP,
    "comparison": REFERENCE_COMPARISON,
    "decision": REFERENCE_DECISION,
    "layouts": REFERENCE_SEARCH,
    "rematerialization": REFERENCE_REMATERIALIZATION,
    "stages": REFERENCE_STAGES,
    "sensitivity": REFERENCE_SENSITIVITY,
    "technique_effects": REFERENCE_TECHNIQUES,
    "cluster": REFERENCE_CLUSTER | {"horizon_seconds": "1d"},
    "simulation": REFERENCE_SIMULATION,
    "manifest": REFERENCE_MANIFEST,
    "manifest_csv": REFERENCE_MANIFEST,
    "inspection": REFERENCE_FILE,
    "import_config_files": REFERENCE_IMPORT,
    "offer_table": REFERENCE_OFFER_TABLE,
}


class Recording(httpx.HTTPTransport):
    """The network, and what was asked over it."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: set[tuple[str, str]] = set()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        self.asked.add((request.method, request.url.path))
        return super().handle_request(request)


class Calls:
    """Calls methods of a client by name, and remembers which."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.names: set[str] = set()

    def __getattr__(self, name: str) -> Callable[..., Any]:
        self.names.add(name)
        method: Callable[..., Any] = getattr(self.client, name)
        return method


@pytest.fixture(scope="module")
def admin(database_url: str, server: str) -> Iterator[tuple[Client, Recording]]:
    recording = Recording()
    with Client(
        server,
        token=created_token(database_url, "client", scope="admin"),
        transport=recording,
        seconds_to_answer=SECONDS_UNTIL_STUCK,
    ) as client:
        yield client, recording


def ask_everything(client: Calls) -> None:
    """Every question, every catalog, and the whole life of what is stored."""
    for name, question in QUESTIONS.items():
        getattr(client, name)(question)
    assert client.ask(SWEEP, REFERENCE_SWEEP) == client.sweep(REFERENCE_SWEEP)
    assert client.ask_csv(SWEEP, REFERENCE_SWEEP) == client.sweep_csv(REFERENCE_SWEEP)
    for many, one in (
        ("models", "model"),
        ("nodes", "node"),
        ("storage_profiles", "storage_profile"),
        ("failure_rates", "failure_rate"),
    ):
        first = getattr(client, many)()[0]
        assert getattr(client, one)(first.name) == first
    assert client.schema("scenario")["examples"] == [FIRST_SCENARIO]
    assert {technique.kind for technique in client.techniques()} > {"pipeline-schedule", "activations"}
    system = client.add_storage_system(SYSTEM)
    assert client.storage_system(SYSTEM) == system
    assert SYSTEM in [found.name for found in client.storage_systems()]
    assert client.whoami().name == "client"
    assert "torch-dist" in {saved_as.name for saved_as in client.formats()}
    assert "megatron" in {framework.name for framework in client.frameworks()}
    assert client.publish(SYSTEM, RUN)
    assert [run.run_id for run in client.runs(SYSTEM, engine=RUN.measurements[0].engine)] == [RUN.run_id]
    assert client.result(SYSTEM, RUN.run_id) == RUN
    trend, *_ = client.trend(SYSTEM)
    assert [point.run_id for point in trend.points] == [RUN.run_id]
    assert client.alarms(SYSTEM) == []
    assert client.withdraw_run(SYSTEM, RUN.run_id, "to see").withdrawal is not None
    client.reinstate_run(SYSTEM, RUN.run_id)
    assert client.change_storage_system(system, description="changed").description == "changed"
    calibration = client.calibrate(SYSTEM, [RUN.run_id], engine=RUN.measurements[0].engine)
    assert client.calibration(SYSTEM, calibration.id) == calibration
    assert [found.id for found in client.calibrations(SYSTEM)] == [calibration.id]
    saved = client.save_scenario("of the client", scenario_from(REFERENCE_SCENARIO))
    assert client.scenario(saved.id) == saved
    assert saved.id in [found.id for found in client.scenarios()]
    assert client.report(saved.id) == answer(scenario_from(REFERENCE_SCENARIO))
    assert client.changes(saved.id).figures == []
    assert client.report_file(saved.id, "csv").startswith(b"field,value")
    link = client.share_scenario(saved.id, valid_seconds="30d")
    assert [found.id for found in client.sharing_links(saved.id)] == [link.id]
    assert client.shared_scenario(link.key) == saved
    assert client.shared_report_file(link.key, "csv") == client.report_file(saved.id, "csv")
    client.withdraw_sharing_link(saved.id, link.id)
    client.delete_scenario(saved.id)
    client.add_storage_system("brief")
    client.delete_storage_system("brief")
    job = client.wait_for_job(client.start_job("sweeps", REFERENCE_SWEEP).id)
    assert (job.state, client.job(job.id)) == ("done", job)
    assert next(client.jobs()) == job
    assert SweepReport.model_validate_json(client.job_result(job.id)) == client.sweep(REFERENCE_SWEEP)
    client.cancel_job(job.id)
    assert next(client.audit_log(subject="storage")).subject == "storage system brief"
    assert "ckpt_sizings_total" in client.metrics()
    client.check_alive()
    client.check_ready()


@pytest.mark.long
def test_the_client_reads_how_well_predictions_hold(admin: tuple[Client, Recording]) -> None:
    client, _ = admin
    assert client.validation() == validation()


def test_every_route_has_a_method_and_every_method_a_route(admin: tuple[Client, Recording], server: str) -> None:
    client, recording = admin
    calls = Calls(client)
    ask_everything(calls)
    calls.names.add("validation")  # asked in the test above, which takes longer
    recording.asked.add(("GET", "/v1/validation"))
    document = httpx.get(f"{server}/openapi.json", timeout=SECONDS_UNTIL_STUCK).json()
    assert never_asked(document, asked=recording.asked) == set(), "a route without a method of the client"
    unknown = {asked for asked in recording.asked if not any(_is_of(asked[1], path) for path in document["paths"])}
    assert not unknown
    methods = {name for name, _ in inspect.getmembers(Client, inspect.isfunction) if not name.startswith("_")}
    assert calls.names == methods, "a method that this test forgets"


def never_asked(document: dict[str, Any], *, asked: set[tuple[str, str]]) -> set[tuple[str, str]]:
    """The routes of a document that are not among those that were asked."""
    return {
        (method.upper(), path)
        for path, operations in document["paths"].items()
        for method in operations
        if not any(known == method.upper() and _is_of(target, path) for known, target in asked)
    }


def _is_of(path: str, template: str) -> bool:
    return re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", template), path) is not None


def test_questions_are_taken_as_types_too(admin: tuple[Client, Recording]) -> None:
    client, _ = admin
    question = ScenarioSimulation.model_validate(REFERENCE_SIMULATION)
    assert client.simulation(question) == SIMULATE.answer(question)
    heading, *rows = csv.reader(client.sweep_csv(REFERENCE_SWEEP).splitlines())
    report = client.sweep(REFERENCE_SWEEP)
    assert (heading, len(rows)) == (report.columns, report.num_rows)


@pytest.mark.parametrize(("form", "start"), [("html", b"<!doctype html>"), ("pdf", b"%PDF-"), ("json", b"{")])
def test_a_report_comes_as_a_file(admin: tuple[Client, Recording], form: Any, start: bytes) -> None:
    client, _ = admin
    saved = client.save_scenario("as a file", REFERENCE_SCENARIO)
    assert client.report_file(saved.id, form).lower().startswith(start.lower())


def test_a_name_stays_one_part_of_the_path(admin: tuple[Client, Recording]) -> None:
    client, _ = admin
    for name in ("../healthz", "a/b", "a?b", "a#b", "%2e%2e"):
        with pytest.raises(Refused) as refused:
            client.storage_system(name)
        assert (refused.value.status, refused.value.code) == (404, "not-found")
