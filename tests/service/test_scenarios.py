"""Saved scenarios: stored by token holders, shared by link, kept in the database."""

import sqlite3
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from sizing.scenario import REFERENCE_SCENARIO
from tests.service.conftest import ckpt_serve

BODY = {"name": "1T", "scenario": REFERENCE_SCENARIO}


def bearer(secret: str) -> dict[str, str]:
    return {"authorization": f"Bearer {secret}"}


def test_a_scenario_is_saved_found_answered_and_deleted(client: httpx.Client, token: str) -> None:
    made = client.post("/v1/scenarios", json=BODY, headers=bearer(token))
    assert made.status_code == 201
    link = made.headers["location"]
    found = client.get(link).json()
    assert found["scenario"]["model"] == REFERENCE_SCENARIO["model"]
    assert client.get(f"{link}/report").json() == client.post("/v1/sizings", json=found["scenario"]).json()
    assert client.delete(link, headers=bearer(token)).status_code == 204
    assert client.get(link).status_code == 404


def test_pages_of_scenarios_cover_all_of_them_once(client: httpx.Client, token: str) -> None:
    for number in range(5):
        client.post("/v1/scenarios", json=BODY | {"name": f"page {number}"}, headers=bearer(token))
    names, cursor = [], ""
    while cursor is not None:
        page = client.get("/v1/scenarios", params={"limit": 2} | ({"cursor": cursor} if cursor else {})).json()
        names += [item["name"] for item in page["items"]]
        cursor = page["next"]
    assert [name for name in names if name.startswith("page")] == [f"page {number}" for number in (4, 3, 2, 1, 0)]


def test_a_scenario_that_cannot_be_answered_is_not_saved(client: httpx.Client, token: str) -> None:
    impossible = {"model": {"preset": "gpt2"}, "parallelism": {"tensor": 5}}
    refused = client.post("/v1/scenarios", json={"name": "x", "scenario": impossible}, headers=bearer(token))
    assert refused.status_code == 422
    assert "parallelism.tensor must divide" in refused.json()["detail"]


@pytest.mark.parametrize("headers", [{}, {"authorization": "Bearer wrong"}, {"authorization": "Basic abc"}])
def test_storing_without_a_valid_token_is_refused(client: httpx.Client, headers: dict[str, str]) -> None:
    refused = client.post("/v1/scenarios", json=BODY, headers=headers)
    assert refused.status_code == 401
    assert refused.headers["www-authenticate"] == "Bearer"
    assert refused.json()["code"] == "unauthorized"


def test_a_revoked_and_an_expired_token_are_of_no_use(client: httpx.Client, database_url: str) -> None:
    def made(name: str, *more: str) -> str:
        arguments = ("token", "create", "--name", name, "--database-url", database_url, *more)
        return ckpt_serve(*arguments).stdout.strip()

    revoked, expired = made("revoked"), made("expired", "--expires", "1ms")
    assert ckpt_serve("token", "revoke", "--name", "revoked", "--database-url", database_url).returncode == 0
    for secret in (revoked, expired):
        assert client.post("/v1/scenarios", json=BODY, headers=bearer(secret)).status_code == 401
    listed = ckpt_serve("token", "list", "--database-url", database_url).stdout
    assert "revoked" in listed
    assert revoked not in listed


def test_only_a_hash_of_the_secret_is_in_the_database(token: str, database_url: str) -> None:
    path = Path(database_url.removeprefix("sqlite:///"))
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    assert token.encode() not in path.read_bytes()


def test_every_route_that_stores_demands_a_token(client: httpx.Client) -> None:
    calculations = {"/v1/sizings"}
    storing = {
        (method, path)
        for path, operations in client.get("/openapi.json").json()["paths"].items()
        for method in operations
        if method not in ("get", "head") and path not in calculations
    }
    assert storing == {("post", "/v1/scenarios"), ("delete", "/v1/scenarios/{scenario_id}")}
    for method, path in storing:
        assert client.request(method, path.replace("{scenario_id}", "0"), json=BODY).status_code == 401, path


def test_several_processes_may_open_a_new_database_at_once(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/new.sqlite3"

    def create(number: int) -> subprocess.CompletedProcess[str]:
        return ckpt_serve("token", "create", "--name", f"t{number}", "--database-url", url)

    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(create, range(4)))
    assert [result.returncode for result in results] == [0] * 4, results
    assert len({result.stdout for result in results}) == 4
