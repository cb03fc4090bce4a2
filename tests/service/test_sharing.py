"""Sharing links: they read one scenario without a token, until they end or are withdrawn, and nothing else."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi.routing import APIRoute
from sqlalchemy import select, update

from service.app import ROUTERS
from service.database import open_database
from service.database.sharing_links import MAX_LINKS_OF_A_SCENARIO
from service.database.tables import Base, SharingLinkRow, now
from service.routes.sharing import shared
from sizing.report import answer
from sizing.scenario import REFERENCE_SCENARIO, scenario_from
from tests.service.conftest import SQLITE_FIRST, bearer, created_token, logged, serving
from tests.service.test_access import SOME
from tests.testbed.processes import SECONDS_UNTIL_STUCK

DATABASES = SQLITE_FIRST

BODY = {"name": "to share", "scenario": REFERENCE_SCENARIO}


@pytest.fixture
def saved(client: httpx.Client, token: str) -> str:
    """The path of a saved scenario."""
    return client.post("/v1/scenarios", json=BODY, headers=bearer(token)).headers["location"]


def made(client: httpx.Client, saved: str, token: str, **wanted: Any) -> dict[str, Any]:
    answered = client.post(f"{saved}/links", json=wanted, headers=bearer(token))
    assert answered.status_code == 201, answered.text
    link: dict[str, Any] = answered.json()
    return link


def status(client: httpx.Client, key: str, path: str = "/v1/shared") -> int:
    return client.get(path, headers=bearer(key)).status_code


@pytest.fixture(scope="module")
def closed(database_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """The service on the same database, where all needs a token."""
    arguments = ("--port", "0", "--database-url", database_url, "--require-login", "--requests-per-second", "0")
    with (
        serving(tmp_path_factory.mktemp("closed") / "log", *arguments) as (_, address),
        httpx.Client(base_url=address, timeout=SECONDS_UNTIL_STUCK) as client,
    ):
        yield client


def test_a_link_reads_its_scenario_and_report_where_all_else_needs_a_token(
    client: httpx.Client, closed: httpx.Client, saved: str, token: str
) -> None:
    key = made(client, saved, token)["key"]
    assert closed.get(saved).status_code == 401
    assert closed.get("/v1/shared", headers=bearer(key)).json() == client.get(saved).json()
    report = closed.get("/v1/shared/report", headers=bearer(key))
    assert report.json() == answer(scenario_from(REFERENCE_SCENARIO)).model_dump(mode="json")
    page = closed.get("/v1/shared/report?form=html", headers=bearer(key))
    assert page.text.startswith("<!doctype html>")


def test_a_link_gives_no_other_right(client: httpx.Client, closed: httpx.Client, saved: str, token: str) -> None:
    key = made(client, saved, token)["key"]
    some = SOME | {"calibration_id": "x", "job_id": "x", "scenario_id": saved.rpartition("/")[2]}
    routes = [route for router in ROUTERS if router is not shared for route in router.routes]
    tried = 0
    for route in (route for route in routes if isinstance(route, APIRoute)):
        for method in route.methods or ():
            refused = closed.request(method, route.path.format_map(some), content=b"no json", headers=bearer(key))
            assert (refused.status_code, refused.json()["code"]) == (401, "unauthorized"), (method, route.path)
            tried += 1
    assert tried > 40
    assert closed.get(saved).status_code == 401
    assert client.get(saved).status_code == 200


def test_a_link_ends_by_itself(client: httpx.Client, saved: str, token: str, database_url: str) -> None:
    ending = made(client, saved, token, valid_seconds="1h")
    assert status(client, ending["key"]) == 200
    database = open_database(database_url)
    with database.writing() as session:
        session.execute(update(SharingLinkRow).where(SharingLinkRow.expires_at.is_not(None)).values(expires_at=now()))
    database.close()
    assert [status(client, ending["key"], path) for path in ("/v1/shared", "/v1/shared/report")] == [401, 401]
    made(client, saved, token)
    listed = client.get(f"{saved}/links", headers=bearer(token)).json()
    assert ending["id"] not in [link["id"] for link in listed], "what has ended is forgotten"


def test_a_link_is_withdrawn_and_the_others_hold(client: httpx.Client, saved: str, token: str) -> None:
    first, second = made(client, saved, token), made(client, saved, token)
    listed = client.get(f"{saved}/links", headers=bearer(token)).json()
    assert [link["id"] for link in listed] == [second["id"], first["id"]]
    assert all("key" not in link and link["made_by"] == "tests" for link in listed)
    path = f"{saved}/links/{first['id']}"
    assert client.delete(path, headers=bearer(token)).status_code == 204
    assert (status(client, first["key"]), status(client, second["key"])) == (401, 200)
    assert client.delete(path, headers=bearer(token)).status_code == 404


def test_only_its_owner_and_admins_share_a_scenario(
    client: httpx.Client, saved: str, token: str, database_url: str
) -> None:
    link = made(client, saved, token)
    stranger = bearer(created_token(database_url, "stranger-of-links"))
    for method, path in (("POST", "/links"), ("GET", "/links"), ("DELETE", f"/links/{link['id']}")):
        refused = client.request(method, saved + path, json={} if method == "POST" else None, headers=stranger)
        assert (refused.status_code, refused.json()["code"]) == (403, "missing-scope"), method
        assert "must be admin to share an entry of another token" in refused.json()["detail"]
    admin = created_token(database_url, "admin-of-links", scope="admin")
    assert made(client, saved, admin)["made_by"] == "admin-of-links"


def test_a_link_goes_with_its_scenario_and_withdraws_none_of_another(
    client: httpx.Client, saved: str, token: str, database_url: str
) -> None:
    other = client.post("/v1/scenarios", json=BODY, headers=bearer(token)).headers["location"]
    link = made(client, saved, token)
    assert client.delete(f"{other}/links/{link['id']}", headers=bearer(token)).status_code == 404
    assert status(client, link["key"]) == 200
    assert client.delete(saved, headers=bearer(token)).status_code == 204
    assert status(client, link["key"]) == 401
    database = open_database(database_url)
    with database.reading() as session:
        ids = [str(each) for each in session.scalars(select(SharingLinkRow.id))]
    database.close()
    assert link["id"] not in ids


@pytest.mark.parametrize("key", ["ckptlink", "ckptlink_x_y", "ckptlink_ID_", "ckptlink_ID_wrong", "ckpt_ID_SECRET"])
def test_what_is_no_key_is_refused(client: httpx.Client, saved: str, token: str, key: str) -> None:
    link = made(client, saved, token)
    secret = link["key"].partition("_")[2].partition("_")[2]
    assert status(client, key.replace("ID", link["id"]).replace("SECRET", secret)) == 401
    assert status(client, token) == 401, "a token is no link"


def test_the_secret_of_one_link_does_not_open_another(client: httpx.Client, saved: str, token: str) -> None:
    first, second = made(client, saved, token), made(client, saved, token)
    assert status(client, first["key"].replace(first["id"], second["id"])) == 401


def test_a_key_is_kept_as_a_hash_shown_once_and_not_logged(
    client: httpx.Client, saved: str, token: str, database_url: str, server_log: Path
) -> None:
    link = made(client, saved, token)
    assert link["page"] == f"/shared#{link['key']}"
    client.get("/v1/shared", headers=bearer(link["key"]) | {"x-request-id": "shared-read"})
    (line,) = logged(server_log, "shared-read")
    assert (line["path"], line["status"]) == ("/v1/shared", 200)
    secret = link["key"].partition("_")[2].partition("_")[2]
    database = open_database(database_url)
    with database.reading() as session:
        rows = {table.name: session.execute(table.select()).all() for table in Base.metadata.sorted_tables}
    database.close()
    assert rows["sharing_links"]
    assert secret not in repr(rows) + server_log.read_text()


def test_sharing_is_in_the_audit_log(client: httpx.Client, saved: str, token: str, database_url: str) -> None:
    admin = bearer(created_token(database_url, "auditor-of-links", scope="admin"))
    link = made(client, saved, token)
    client.delete(f"{saved}/links/{link['id']}", headers=bearer(token))
    scenario = saved.rpartition("/")[2]
    entries = client.get("/v1/audit-log?limit=2", headers=admin).json()["items"]
    assert [(entry["token"], entry["action"], entry["subject"]) for entry in entries] == [
        ("tests", "withdraw", f"link {link['id']} of scenario {scenario}"),
        ("tests", "share", f"scenario {scenario} by link {link['id']}"),
    ]


def test_a_scenario_has_a_bounded_number_of_links(client: httpx.Client, saved: str, token: str) -> None:
    for _ in range(MAX_LINKS_OF_A_SCENARIO - 1):
        made(client, saved, token)
    statuses: list[int] = []

    def share() -> None:
        statuses.append(client.post(f"{saved}/links", json={}, headers=bearer(token)).status_code)

    together = [threading.Thread(target=share) for _ in range(4)]
    for thread in together:
        thread.start()
    for thread in together:
        thread.join()
    assert sorted(statuses) == [201, 409, 409, 409]


@pytest.mark.parametrize("seconds", [0, -1, "11y", "soon"])
def test_a_link_holds_for_a_time_that_is_one(client: httpx.Client, saved: str, token: str, seconds: object) -> None:
    refused = client.post(f"{saved}/links", json={"valid_seconds": seconds}, headers=bearer(token))
    assert (refused.status_code, refused.json()["errors"][0]["field"]) == (422, "valid_seconds")
