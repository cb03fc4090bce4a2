"""Changes of the same thing at the same moment: one of them wins, the other is told, and nobody gets a 500."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from service.database import Database, open_database
from service.database.storage_systems import find_system
from service.database.tables import AuditRow, RunDocumentRow, RunRow, ScenarioRow, TokenRow, new_id, now
from sizing.scenario import REFERENCE_SCENARIO
from tests.service.conftest import SQLITE_FIRST, bearer, gauge, result_document
from tests.testbed.processes import until

DATABASES = SQLITE_FIRST


@pytest.fixture
def other(database_url: str) -> Iterator[Database]:
    """The database, as another instance has it."""
    database = open_database(database_url)
    yield database
    database.close()


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as made:
        yield made


def until_one_waits(client: httpx.Client) -> None:
    """Wait until a change has reached the database, where it waits for another."""
    in_use = "ckpt_database_connections_in_use"
    until(lambda: all(gauge(client, in_use) for _ in range(3)))  # who only reads a token is done by then


def added(client: httpx.Client, token: str, name: str) -> str:
    made = client.post("/v1/storage-systems", json={"name": name}, headers=bearer(token))
    assert made.status_code == 201
    return made.headers["location"]


def test_a_storage_system_stays_for_a_run_that_arrives_while_it_is_deleted(
    client: httpx.Client, token: str, other: Database, pool: ThreadPoolExecutor
) -> None:
    link = added(client, token, "contested")
    with other.writing() as session:
        system, some_token = find_system(session, "contested"), session.query(TokenRow).first()
        assert some_token
        session.add(
            RunRow(
                id=new_id(),
                run_id="arrives",
                system=system,
                stored=RunDocumentRow(document="{}"),
                digest=b"",
                published_at=now(),
                token_id=some_token.id,
            )
        )
        session.flush()
        deleting = pool.submit(client.delete, link, headers=bearer(token))
        until_one_waits(client)
    refused = deleting.result()
    assert (refused.status_code, refused.json()["code"]) == (409, "conflict")
    assert client.get(f"{link}/runs").json()["items"][0]["run_id"] == "arrives"


def test_a_run_for_a_storage_system_that_is_being_deleted_has_none(
    client: httpx.Client, token: str, other: Database, pool: ThreadPoolExecutor
) -> None:
    link = added(client, token, "leaving")
    with other.writing() as session:
        session.delete(find_system(session, "leaving"))
        session.flush()
        publishing = pool.submit(client.post, f"{link}/runs", json=result_document("late"), headers=bearer(token))
        until_one_waits(client)
    refused = publishing.result()
    assert refused.status_code == 404
    assert "name must be the name of a storage system, got 'leaving'" in refused.json()["detail"]


def test_a_scenario_is_deleted_once(
    client: httpx.Client, token: str, other: Database, pool: ThreadPoolExecutor
) -> None:
    body = {"name": "one", "scenario": REFERENCE_SCENARIO}
    link = client.post("/v1/scenarios", json=body, headers=bearer(token)).headers["location"]
    scenario_id = link.rpartition("/")[2]
    with other.writing() as session:
        (row,) = [row for row in session.query(ScenarioRow) if str(row.id) == scenario_id]
        session.delete(row)
        session.flush()
        deleting = pool.submit(client.delete, link, headers=bearer(token))
        until_one_waits(client)
    assert deleting.result().status_code == 404
    with other.reading() as session:
        assert not session.query(AuditRow).filter_by(action="delete", subject=f"scenario {scenario_id}").all()
