"""Tokens: made at the terminal, demanded by every route that stores, of no use once expired or revoked."""

from pathlib import Path

import httpx
import pytest
from fastapi.routing import APIRoute
from sqlalchemy import select

from service.app import ROUTERS
from service.database import TokenRow, open_database
from service.database.tables import Base
from sizing.questions.registry import QUESTIONS
from sizing.scenario import REFERENCE_SCENARIO
from tests.service.conftest import SQLITE_FIRST, bearer, ckpt_serve, created_token, logged

DATABASES = SQLITE_FIRST

BODY = {"name": "1T", "scenario": REFERENCE_SCENARIO}
SOME = {
    "scenario_id": "01a1fda6-c9fb-7539-b154-418eb9e9d223",
    "link_id": "01a1fda6-c9fb-7539-b154-418eb9e9d224",
    "name": "scratch",
    "run_id": "r",
}
STATELESS = {
    ("POST", f"/v1/{plural}")
    for plural in (
        *(entry.question.route.path for entry in QUESTIONS.values()),
        "imports",
        "inspections",
        "offer-tables",
    )
} | {("DELETE", "/v1/jobs/{job_id}")}
"""The routes that take a body and store nothing, and the one for who has the id of a job.

Any other method than GET demands a token."""


def refusal(client: httpx.Client, headers: dict[str, str]) -> tuple[int, str]:
    response = client.post("/v1/scenarios", json=BODY, headers=headers)
    return response.status_code, response.json()["code"]


def storing_routes() -> set[tuple[str, str]]:
    """By the route table, so that a new one is among them."""
    routes = [route for router in ROUTERS for route in router.routes if isinstance(route, APIRoute)]
    changing = {(method, route.path) for route in routes for method in (route.methods or set()) - {"GET", "HEAD"}}
    return changing - STATELESS


def test_every_route_that_stores_demands_a_token(client: httpx.Client) -> None:
    storing = storing_routes()
    assert {("POST", "/v1/scenarios"), ("DELETE", "/v1/scenarios/{scenario_id}")} <= storing
    assert storing >= {
        (method.upper(), path)
        for path, operations in client.get("/openapi.json").json()["paths"].items()
        for method in operations
        if method != "get" and (method.upper(), path) not in STATELESS
    }
    for method, path in storing:
        refused = client.request(method, path.format_map(SOME))
        assert (refused.status_code, refused.json()["code"]) == (401, "unauthorized"), (method, path)
        assert refused.headers["www-authenticate"] == "Bearer"


def test_a_token_to_publish_opens_no_other_route_that_stores(client: httpx.Client, database_url: str) -> None:
    publisher = bearer(created_token(database_url, "publisher-of-access", scope="publish"))
    open_to_it = {("POST", "/v1/storage-systems/{name}/runs")}
    assert open_to_it < storing_routes()
    for method, path in storing_routes() - open_to_it:
        refused = client.request(method, path.format_map(SOME), headers=publisher)
        assert (refused.status_code, refused.json()["code"]) == (403, "missing-scope"), (method, path)


def test_a_token_stores(client: httpx.Client, token: str) -> None:
    assert client.post("/v1/scenarios", json=BODY, headers=bearer(token)).status_code == 201


@pytest.mark.parametrize(
    "authorization",
    [
        "",
        "Bearer",
        "Bearer wrong",
        "Bearer ckpt_1_",
        "Bearer ckpt_1_wrong",
        "Bearer ckpt_99999999999999999999_wrong",
        "Bearer ckpt_²_wrong",
        "Basic Y2twdDpja3B0",
    ],
)
def test_what_is_no_token_is_refused(client: httpx.Client, token: str, authorization: str) -> None:
    assert token.startswith("ckpt_")
    assert refusal(client, {"authorization": authorization.encode("utf-8")}) == (401, "unauthorized")  # type: ignore[dict-item]  # bytes, as a client may send


def test_the_secret_of_one_token_does_not_open_another(client: httpx.Client, token: str, database_url: str) -> None:
    other = created_token(database_url, "other")
    mixed = "_".join([*token.split("_", 2)[:2], other.split("_", 2)[2]])
    assert refusal(client, bearer(mixed)) == (401, "unauthorized")
    assert refusal(client, bearer(token + "x")) == (401, "unauthorized")


def test_a_token_is_of_no_use_once_it_has_expired(client: httpx.Client, database_url: str) -> None:
    lasting = created_token(database_url, "lasting", expires="90d")
    assert client.post("/v1/scenarios", json=BODY, headers=bearer(lasting)).status_code == 201
    brief = created_token(database_url, "brief", expires="1ms")
    assert refusal(client, bearer(brief)) == (401, "unauthorized")


def test_a_token_is_of_no_use_once_it_is_revoked(client: httpx.Client, database_url: str) -> None:
    token = created_token(database_url, "lost")
    assert client.post("/v1/scenarios", json=BODY, headers=bearer(token)).status_code == 201
    assert ckpt_serve("token", "revoke", "--name", "lost", "--database-url", database_url).returncode == 0
    assert refusal(client, bearer(token)) == (401, "unauthorized")
    listed = ckpt_serve("token", "list", "--database-url", database_url).stdout
    assert next(line.split()[:3] for line in listed.splitlines() if "lost" in line) == ["lost", "write", "revoked"]
    assert token not in listed


def test_only_scope_admin_deletes_what_others_saved(client: httpx.Client, token: str, database_url: str) -> None:
    link = client.post("/v1/scenarios", json=BODY, headers=bearer(token)).headers["location"]
    stranger = created_token(database_url, "stranger")
    refused = client.delete(link, headers=bearer(stranger))
    assert (refused.status_code, refused.json()["code"]) == (403, "missing-scope")
    assert 'error="insufficient_scope"' in refused.headers["www-authenticate"]
    assert client.get(link).status_code == 200
    admin = created_token(database_url, "admin", scope="admin")
    assert client.delete(link, headers=bearer(admin)).status_code == 204


def test_only_a_hash_of_the_secret_is_kept(token: str, database_url: str, client: httpx.Client) -> None:
    assert client.post("/v1/scenarios", json=BODY, headers=bearer(token)).status_code == 201
    secret = token.split("_", 2)[2]
    database = open_database(database_url)
    with database.reading() as session:
        rows = {table.name: session.execute(table.select()).all() for table in reversed(Base.metadata.sorted_tables)}
        (kept,) = session.scalars(select(TokenRow.secret_hash).filter_by(name="tests"))
    database.close()
    assert rows["tokens"]
    assert rows["audit_log"]
    assert secret not in repr(rows)
    assert len(kept) == 32


def test_no_secret_is_in_the_log(client: httpx.Client, token: str, server_log: Path) -> None:
    headers = bearer(token) | {"x-request-id": "no-secret"}
    refused = client.post("/v1/scenarios?token=" + token, json=BODY, headers=headers)
    (line,) = logged(server_log, "no-secret")
    assert (line["path"], line["status"]) == ("/v1/scenarios", 422)
    assert token.split("_", 2)[2] not in refused.text
    assert token.split("_", 2)[2] not in server_log.read_text()


def test_tokens_are_random(database_url: str) -> None:
    made = {created_token(database_url, f"random-{number}").split("_", 2)[2] for number in range(2)}
    assert len(made) == 2
    assert all(len(secret) >= 256 / 6 for secret in made)
