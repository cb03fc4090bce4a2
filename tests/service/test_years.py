"""A storage system over years: runs withdrawn, owners, retention, windows, keys of retries, limited tokens, trends."""

import copy
import json
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any
from uuid import uuid4

import httpx
import pytest
from sqlalchemy import select, update

from service.database import Database, open_database
from service.database.tables import AuditRow, IdempotencyKeyRow, RunRow, now
from service.database.trends import judge_trends
from service.reports import FORMS
from service_client.client import Client
from service_client.documents import RunSummary
from service_client.errors import Refused
from sizing.questions.registry import QUESTIONS
from sizing.scenario import REFERENCE_SCENARIO
from sizing.storage.calibration import calibrate
from sizing.storage.measurement import BenchmarkResult
from tests.service.conftest import SQLITE_FIRST, bearer, created_token, gauge, result_document, serving
from tests.sizing.storage.calibration.simulation import FULL_SCAN, result
from tests.sizing.storage.calibration.test_agreement import slowed
from tests.testbed.processes import SECONDS_UNTIL_STUCK

DATABASES = SQLITE_FIRST
SCENARIO = {"name": "1T", "scenario": REFERENCE_SCENARIO}


@pytest.fixture(scope="session")
def writer(server: str, token: str) -> Iterator[Client]:
    with Client(server, token=token) as made:
        yield made


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    made = open_database(database_url)
    yield made
    made.close()


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """The address of a service that requires a login, and its database."""
    folder = tmp_path_factory.mktemp("closed")
    url = f"sqlite:///{folder}/sizing.sqlite3"
    with serving(folder / "log", "--port", "0", "--database-url", url, "--require-login") as (_, address):
        with Client(address, token=created_token(url, "first")) as first:
            first.add_storage_system("closed")
        yield address, url


def holder(database_url: str, server: str, name: str, **token: Any) -> Client:
    return Client(server, token=created_token(database_url, name, **token))


def scan(run_id: str, seed: int = 0) -> BenchmarkResult:
    """A run that is soon fitted."""
    return result(FULL_SCAN[:4], run_id=run_id, seed=seed, outliers=0, operations=("write",))


def refused_with(status: int, code: str) -> Any:
    return pytest.raises(Refused, check=lambda error: (error.status, error.code) == (status, code))


def audited(database: Database, action: str) -> set[str]:
    with database.reading() as session:
        return set(session.scalars(select(AuditRow.subject).filter_by(action=action)))


def publish_rates(service: Client, system: str, *rates: float, start: int = 0) -> list[dict[str, Any]]:
    """Runs of these rates, in GB/s; what the service answers to each."""
    answers = []
    for number, rate in enumerate(rates, start):
        document = json.dumps(result_document(f"{system}-{number:03d}", seconds=1 / rate)).encode()
        answers.append(service._send("POST", f"/v1/storage-systems/{system}/runs", content=document,
                                     headers={"content-type": "application/json"}).json())  # fmt: skip
    return answers


def test_a_withdrawn_run_is_kept_with_the_reason_and_left_out(
    writer: Client, database_url: str, server: str, database: Database
) -> None:
    writer.add_storage_system("withdrawing")
    runs = [scan(f"withdrawing-{number}", seed=number) for number in range(2)]
    for run in runs:
        writer.publish("withdrawing", run)
    withdrawn = writer.withdraw_run("withdrawing", "withdrawing-1", "old switch")
    assert withdrawn.withdrawal is not None
    assert (withdrawn.withdrawal.reason, withdrawn.withdrawal.by, withdrawn.publisher) == (
        "old switch",
        "tests",
        "tests",
    )
    assert [run.withdrawal for run in writer.runs("withdrawing")] == [withdrawn.withdrawal, None]
    for asked, found in (("true", "withdrawing-1"), ("false", "withdrawing-0")):
        assert [run.run_id for run in writer.runs("withdrawing", withdrawn=asked)] == [found]
    assert writer.result("withdrawing", "withdrawing-1") == runs[1]
    calibration = writer.calibrate("withdrawing")
    assert calibration.run_ids == ["withdrawing-0"]
    assert [(left.run_id, left.reason) for left in calibration.left_out] == [
        ("withdrawing-1", "was withdrawn: old switch")
    ]
    assert writer.calibration("withdrawing", calibration.id) == calibration
    with holder(database_url, server, "stranger-to-runs") as stranger, refused_with(403, "missing-scope"):
        stranger.reinstate_run("withdrawing", "withdrawing-1")
    again = writer.withdraw_run("withdrawing", "withdrawing-1", "old cable")
    assert again.withdrawal is not None
    assert again.withdrawal.reason == "old cable"
    writer.reinstate_run("withdrawing", "withdrawing-1")
    assert [run.withdrawal for run in writer.runs("withdrawing")] == [None, None]
    assert "run withdrawing-1" in audited(database, "withdraw") & audited(database, "reinstate")


def test_one_foreign_run_does_not_block_a_calibration_and_a_window_leaves_out_the_old(writer: Client) -> None:
    writer.add_storage_system("windowed")
    runs = [scan(f"windowed-{number}", seed=number) for number in range(2)]
    foreign = slowed(scan("windowed-foreign"), 5.0)
    for run in (foreign, *runs):
        writer.publish("windowed", run)
    whole = writer.calibrate("windowed")
    assert whole.calibration == calibrate(runs[::-1])
    (left,) = whole.left_out
    assert (left.run_id, whole.num_left_out) == ("windowed-foreign", 1)
    assert left.reason.startswith("contradicts others: the ")
    oldest, *_, newest = reversed([run.published_at.isoformat() for run in writer.runs("windowed")])
    assert writer.calibrate("windowed", latest=1, published_since=newest).run_ids == ["windowed-1"]
    assert writer.calibrate("windowed", published_before=newest, latest=1).run_ids == ["windowed-0"]
    with pytest.raises(Refused, match="must have at least 3 configurations"):
        writer.calibrate("windowed", published_before=oldest)
    with pytest.raises(Refused, match="contradict each other"):
        writer.calibrate("windowed", ["windowed-0", "windowed-foreign"])
    with pytest.raises(Refused, match="must not have both run_ids and a window"):
        writer.calibrate("windowed", ["windowed-0"], latest=1)


def test_an_owner_changes_what_was_seen_and_nothing_else(writer: Client, database_url: str, server: str) -> None:
    made = writer.add_storage_system("owned", "Lustre")
    assert (made.owners, made.retention.max_runs) == (["tests"], None)
    with holder(database_url, server, "second-owner") as second:
        with refused_with(403, "missing-scope"):
            second.change_storage_system(made, description="mine")
        seen = writer.change_storage_system(made, owners=["second-owner"])
        assert seen.owners == ["second-owner"]
        mended = second.change_storage_system(seen, description="Lustre, hall 2")
        assert (mended.description, mended.owners) == ("Lustre, hall 2", ["second-owner"])
        with refused_with(412, "changed-meanwhile"):
            second.change_storage_system(seen, description="lost update")
        with refused_with(403, "missing-scope"):
            writer.delete_storage_system("owned")
        with pytest.raises(Refused, match="owners must be names of tokens, got 'nobody'"):
            second.change_storage_system(mended, owners=["nobody"])
        assert second.storage_system("owned") == mended
        second.delete_storage_system("owned")


def test_a_change_says_what_it_has_seen(client: httpx.Client, token: str) -> None:
    headers = bearer(token)
    link = client.post("/v1/storage-systems", json={"name": "seen"}, headers=headers).headers["location"]
    refused = client.patch(link, json={"description": "x"}, headers=headers)
    assert (refused.status_code, refused.json()["code"]) == (428, "no-precondition")
    assert refused.headers["content-type"] == "application/problem+json"
    etag = client.get(link).headers["etag"]
    changed = client.patch(link, json={"retention": {"max_age_seconds": "7d"}}, headers=headers | {"if-match": etag})
    assert (changed.status_code, changed.json()["retention"]["max_age_seconds"]) == (200, 7 * 86400)
    assert client.get(link).headers["etag"] == changed.headers["etag"] != etag


def test_runs_go_by_age_and_number_but_not_those_of_a_calibration(writer: Client, database: Database) -> None:
    made = writer.add_storage_system("retained")
    writer.publish("retained", scan("retained-scan"))
    writer.calibrate("retained")
    publish_rates(writer, "retained", 1.0, 1.0, 1.0, 1.0)
    with database.writing() as session:
        old = update(RunRow).where(RunRow.run_id.in_(["retained-scan", "retained-000"]))
        session.execute(old.values(published_at=now() - timedelta(days=30)))
    kept = writer.change_storage_system(made, retention={"max_age_seconds": "7d"})
    publish_rates(writer, "retained", 1.0, start=4)
    ids = [f"retained-{number:03d}" for number in range(6)]
    assert [run.run_id for run in writer.runs("retained")] == [*ids[4:0:-1], "retained-scan"]
    writer.change_storage_system(kept, retention={"max_runs": 2})
    publish_rates(writer, "retained", 1.0, start=5)
    assert [run.run_id for run in writer.runs("retained")] == [*ids[5:3:-1], "retained-scan"]
    with refused_with(404, "not-found"):
        writer.result("retained", "retained-000")
    assert audited(database, "retire") == {f"run {run_id}" for run_id in ids[:4]}


def test_a_token_for_some_systems_does_nothing_to_others(writer: Client, database_url: str, server: str) -> None:
    ours, others = (writer.add_storage_system(name) for name in ("limited-ours", "limited-others"))
    with holder(database_url, server, "limited", systems=["limited-ours", "limited-new"]) as limited:
        assert publish_rates(limited, "limited-ours", 1.0)[0]["publisher"] == "limited"
        limited.add_storage_system("limited-new")
        refusals: list[Callable[[], object]] = [
            lambda: publish_rates(limited, "limited-others", 1.0),
            lambda: limited.change_storage_system(others, description="x"),
            lambda: limited.calibrate("limited-others"),
            lambda: limited.add_storage_system("limited-third"),
            lambda: limited.save_scenario("x", REFERENCE_SCENARIO),
        ]
        for refusal in refusals:
            with pytest.raises(Refused, match="is limited to the storage systems limited-new, limited-ours") as error:
                refusal()
            assert (error.value.status, error.value.code) == (403, "missing-scope")
        writer.change_storage_system(ours, owners=["limited"])


def naming(document: Any, path: list[str], calibration: str) -> Any:
    """A document that names a calibration at a path, in a block that has nothing else."""
    if path[0] == "*":
        return [naming(each, path[1:], calibration) for each in document]
    inner = {path[1]: calibration} if len(path) == 2 else naming(document.get(path[0], {}), path[1:], calibration)
    return document | {path[0]: inner}


def test_a_token_for_some_systems_reads_no_calibration_of_others(
    writer: Client, client: httpx.Client, database_url: str
) -> None:
    ours, others = "reading-ours", "reading-others"
    calibrations = {}
    for name in (ours, others):
        writer.add_storage_system(name)
        writer.publish(name, scan(f"{name}-scan"))
        calibrations[name] = str(writer.calibrate(name).id)
    saved = {
        name: writer.save_scenario(name, {"model": {"preset": "gpt2"}, "storage": {"calibration": calibration}})
        for name, calibration in calibrations.items()
    }
    limited = bearer(created_token(database_url, "reading", scope="read", systems=[ours]))
    asked = [
        (f"/v1/{entry.question.route.path}", naming(entry.question.example, field.split("."), calibrations[others]))
        for entry in QUESTIONS.values()
        for field in entry.question.may_name_calibrations
    ]
    assert len(asked) > 10
    for path, question in asked:
        for prefer in ({}, {"prefer": "respond-async"}):
            refused = client.post(path, json=question, headers=limited | prefer)
            assert (refused.status_code, refused.json()["code"]) == (403, "missing-scope"), (path, refused.text)
            assert refused.json()["errors"][0]["value"] == f"'{calibrations[others]}'"
            assert others not in refused.text
    for path in ("report", "changes"):
        assert client.get(f"/v1/scenarios/{saved[others].id}/{path}", headers=limited).status_code == 403
        assert client.get(f"/v1/scenarios/{saved[ours].id}/{path}", headers=limited).status_code == 200
    for path in ("", "/runs", f"/runs/{others}-scan", "/trend", "/alarms", "/calibrations"):
        assert client.get(f"/v1/storage-systems/{others}{path}", headers=limited).status_code == 403, path
        assert client.get(f"/v1/storage-systems/{others}{path}").status_code == 200, path
    by_id = f"/v1/storage-systems/{others}/calibrations/{calibrations[others]}"
    assert client.get(by_id, headers=limited).status_code == 403
    assert client.get(by_id.replace(others, ours), headers=limited).status_code == 404
    listed = client.get("/v1/storage-systems", headers=limited).json()["items"]
    assert [system["name"] for system in listed] == [ours]
    names = {each["name"] for each in client.get("/v1/scenarios?limit=100", headers=limited).json()["items"]}
    assert (ours in names, others in names) == (True, False)
    own = naming(REFERENCE_SCENARIO, ["storage", "calibration"], calibrations[ours])
    assert client.post("/v1/sizings", json=own, headers=limited).status_code == 200


def test_a_scenario_is_saved_once_with_one_key(
    client: httpx.Client, token: str, database_url: str, database: Database
) -> None:
    headers = bearer(token) | {"idempotency-key": str(uuid4())}
    first = client.post("/v1/scenarios", json=SCENARIO, headers=headers)
    again = client.post("/v1/scenarios", json=SCENARIO, headers=headers)
    assert (first.status_code, again.status_code) == (201, 200)
    assert (again.json(), again.headers["location"]) == (first.json(), first.headers["location"])
    other = client.post("/v1/scenarios", json=SCENARIO | {"name": "2T"}, headers=headers)
    assert (other.status_code, other.json()["code"]) == (409, "conflict")
    stranger = headers | bearer(created_token(database_url, "same-key"))
    assert client.post("/v1/scenarios", json=SCENARIO, headers=stranger).status_code == 201
    assert client.post("/v1/scenarios", json=SCENARIO, headers=bearer(token)).status_code == 201
    client.delete(first.headers["location"], headers=bearer(token))
    gone = client.post("/v1/scenarios", json=SCENARIO, headers=headers)
    assert (gone.status_code, gone.json()["code"]) == (409, "conflict")
    assert client.post("/v1/scenarios", json=SCENARIO, headers=headers | {"idempotency-key": "a b"}).status_code == 422
    with database.writing() as session:
        session.execute(update(IdempotencyKeyRow).values(at=now() - timedelta(days=8)))
    assert client.post("/v1/scenarios", json=SCENARIO, headers=headers | {"idempotency-key": "new"}).status_code == 201
    assert client.post("/v1/scenarios", json=SCENARIO, headers=headers).status_code == 201


def test_a_loss_is_seen_when_it_is_published_and_shown_until_it_is_made_good(
    writer: Client, client: httpx.Client
) -> None:
    made = writer.add_storage_system("trending")
    calm = publish_rates(writer, made.name, *[1.0, 1.02, 0.99, 1.01, 0.98, 1.0])
    assert [answer["changes"] for answer in calm] == [[]] * 6
    assert writer.alarms(made.name) == []
    (lost,) = publish_rates(writer, made.name, 0.8, start=6)
    (change,) = lost["changes"]
    assert (change["change"], change["run_id"]) == ("loss", "trending-006")
    assert change["expected_bytes_per_second"] == pytest.approx(1e9, rel=0.01)
    assert gauge(client, 'ckpt_rate_changes_total\\{change="loss",system="trending"\\}') == 1
    assert [alarm.model_dump(mode="json") for alarm in writer.alarms(made.name)] == [change]
    (trend,) = writer.trend(made.name)
    assert [point.change for point in trend.points] == [None] * 6 + ["loss"]
    assert (trend.is_lost, trend.series) == (True, change["series"])
    since = trend.points[-1].published_at.isoformat()
    (shown,) = writer.trend(made.name, since=since, engine="torch-save", operation="write")
    assert shown.points == trend.points[-1:]
    assert writer.trend(made.name, engine="direct") == writer.trend(made.name, operation="restore") == []
    writer.withdraw_run(made.name, "trending-006", "another job was on it")
    assert writer.alarms(made.name) == []
    publish_rates(writer, made.name, 0.8, 0.8, start=7)
    assert [alarm.run_id for alarm in writer.alarms(made.name)] == ["trending-008"]
    publish_rates(writer, made.name, 1.0, 1.0, start=9)
    assert writer.alarms(made.name) == []


def test_a_token_that_floods_a_storage_system_neither_raises_nor_hides_its_alarm(
    writer: Client, server: str, database_url: str
) -> None:
    made = writer.add_storage_system("flooded-trend")
    publish_rates(writer, made.name, *[1.0, 1.02, 0.99, 1.01, 0.98, 1.0])
    with holder(database_url, server, "flooding", scope="publish", systems=["flooded-trend"]) as flooding:
        publish_rates(flooding, made.name, *[0.1] * 20, start=100)
    publish_rates(writer, made.name, 1.0, start=6)
    assert writer.alarms(made.name) == []
    publish_rates(writer, made.name, 0.5, start=7)
    assert [alarm.run_id for alarm in writer.alarms(made.name)] == ["flooded-trend-007"], writer.trend(made.name)


def test_where_a_token_floods_a_trend_the_runs_of_others_keep_their_places(
    writer: Client, server: str, database_url: str, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.database.trends.MAX_RUNS", 6)
    made = writer.add_storage_system("crowded")
    publish_rates(writer, made.name, *[1.0] * 4)
    with holder(database_url, server, "crowding", scope="publish", systems=["crowded"]) as crowding:
        publish_rates(crowding, made.name, *[0.1] * 20, start=100)
    (trend,) = judge_trends(database, made.name)
    assert [rated.bytes_per_second / 1e9 for rated in trend.whole.rates] == pytest.approx([1.0] * 3 + [0.1] * 3)


def test_a_loss_from_before_what_is_shown_is_still_told(writer: Client, client: httpx.Client) -> None:
    made = writer.add_storage_system("lost-before")
    publish_rates(writer, made.name, *[1.0, 1.02, 0.99, 1.01, 0.98, 1.0], 0.5, 0.5, 0.5)
    (trend,) = writer.trend(made.name)
    link, since = f"/v1/storage-systems/{made.name}/trend", trend.points[-1].published_at.isoformat()
    words = client.get(link, params={"since": since}, headers={"accept": FORMS["presentation"].media_type})
    assert words.status_code == 200
    assert "Slower since" in words.text


def test_a_run_that_was_published_before_the_service_kept_publishers_reads_as_ever(writer: Client) -> None:
    writer.add_storage_system("kept-name")
    (made,) = publish_rates(writer, "kept-name", 1.0)
    former = copy.deepcopy(made)
    for name in ("publisher", "withdrawal", "changes"):
        former.pop(name)
    assert RunSummary.model_validate(former).publisher is None


@pytest.mark.parametrize(
    ("scope", "reads", "publishes"),
    [("read", 200, 403), ("publish-only", 403, 201), ("publish", 200, 201), ("write", 200, 201)],
)
def test_where_a_login_is_required_scopes_say_who_reads_and_who_publishes(
    closed: tuple[str, str], scope: str, reads: int, publishes: int
) -> None:
    address, database_url = closed
    headers = bearer(created_token(database_url, f"closed-{scope}", scope=scope))
    with httpx.Client(base_url=address, headers=headers, timeout=SECONDS_UNTIL_STUCK) as http:
        assert http.get("/v1/storage-systems").status_code == reads
        assert http.post("/v1/sizings", json={"model": {"preset": "gpt2"}}).status_code == reads
        made = http.post("/v1/storage-systems/closed/runs", json=result_document(f"closed-{scope}"))
        assert made.status_code == publishes
        limited = bearer(created_token(database_url, f"limited-{scope}", scope=scope, systems=["other"]))
        assert http.get("/v1/storage-systems/closed", headers=limited).status_code == 403
