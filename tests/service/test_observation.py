"""What the operator sees: a line of JSON for each request, its id everywhere, figures for Prometheus."""

import re
from pathlib import Path

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from sizing import __version__
from tests.service.conftest import SQLITE_FIRST, bearer, connected, created_token, logged, result_document
from tests.testbed.processes import SECONDS_UNTIL_STUCK

DATABASES = SQLITE_FIRST
MIB = 1024**2


def value(client: httpx.Client, name: str, **labels: str) -> float:
    families = text_string_to_metric_families(client.get("/metrics").text)
    samples = [sample for family in families for sample in family.samples if sample.name == name]
    return sum(sample.value for sample in samples if labels.items() <= sample.labels.items())


def test_a_request_is_one_line_of_json_with_its_id(client: httpx.Client, server_log: Path) -> None:
    answer = client.get("/v1/models/gpt2", headers={"x-request-id": "from-the-client.1"})
    assert answer.headers["x-request-id"] == "from-the-client.1"
    (line,) = logged(server_log, "from-the-client.1")
    assert {"method": "GET", "path": "/v1/models/gpt2", "status": 200, "client": "127.0.0.1"}.items() <= line.items()
    assert 0 < line["seconds"] < SECONDS_UNTIL_STUCK
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\+00:00", line["time"])


@pytest.mark.parametrize("given", ["", "a b", "x" * 65, "<script>", 'a"}'])
def test_an_id_that_cannot_be_logged_is_replaced(client: httpx.Client, given: str) -> None:
    made = client.get("/v1/models/gpt2", headers={"x-request-id": given}).headers["x-request-id"]
    assert re.fullmatch(r"[0-9a-f]{16}", made)


def test_a_path_cannot_forge_a_line_of_the_log(client: httpx.Client, server_log: Path) -> None:
    client.get('/v1/models/%0A{"level": "error"}', headers={"x-request-id": "forged"})
    (line,) = logged(server_log, "forged")
    assert line["path"] == '/v1/models/\n{"level": "error"}'
    assert line["status"] == 404


def test_a_change_is_in_the_audit_log_with_token_and_request(
    client: httpx.Client, token: str, database_url: str
) -> None:
    admin = bearer(created_token(database_url, "auditor", scope="admin"))
    headers = bearer(token) | {"x-request-id": "audited"}
    client.post("/v1/storage-systems", json={"name": "audited"}, headers=headers)
    client.post("/v1/storage-systems/audited/runs", json=result_document("audited"), headers=headers)
    entries = client.get("/v1/audit-log", headers=admin).json()["items"]
    mine = [
        (entry["token"], entry["action"], entry["subject"]) for entry in entries if entry["request_id"] == "audited"
    ]
    assert mine == [("tests", "publish", "run audited"), ("tests", "create", "storage system audited")]
    made = next(entry for entry in entries if entry["subject"] == "auditor")
    assert (made["token"], made["action"]) == (None, "create token with scope admin")
    assert client.get("/v1/audit-log", headers=bearer(token)).json()["code"] == "missing-scope"


@pytest.mark.parametrize(
    ("wanted", "num"),
    [
        ("token=auditable", 3),
        ("token=auditable&action=delete", 1),
        ("token=auditable&action=del", 1),
        ("subject=storage system filtered-1", 2),
        ("subject=storage system filtered", 3),
        ("subject=storage%25filtered", 0),
        ("token=nobody", 0),
        ("token=auditable&since=2020-01-01T00:00:00%2B09:00", 3),
        ("token=auditable&before=2020-01-01T00:00Z", 0),
    ],
)
def test_the_audit_log_is_filtered(
    client: httpx.Client, database_url: str, audited: str, wanted: str, num: int
) -> None:
    assert audited
    admin = bearer(created_token(database_url, f"filtering {wanted}"[:100], scope="admin"))
    found = client.get(f"/v1/audit-log?limit=10&{wanted}", headers=admin)
    assert len(found.json()["items"]) == num


@pytest.fixture(scope="module")
def audited(client: httpx.Client, database_url: str) -> str:
    """A token that has made three changes."""
    token = created_token(database_url, "auditable")
    for name in ("filtered-1", "filtered-2"):
        client.post("/v1/storage-systems", json={"name": name}, headers=bearer(token))
    client.delete("/v1/storage-systems/filtered-1", headers=bearer(token))
    return token


@pytest.mark.parametrize(
    ("moment", "status"),
    [
        ("0001-01-01T00:00:00%2B23:59", 422),
        ("9999-12-31T23:59:59-23:59", 422),
        ("0001-01-01T00:00:00Z", 200),
        ("9999-12-31T23:59:59Z", 200),
    ],
)
def test_a_moment_that_has_no_date_in_utc_is_refused(
    client: httpx.Client, database_url: str, moment: str, status: int
) -> None:
    headers = bearer(created_token(database_url, f"calendar {moment}", scope="admin"))
    for bound in ("since", "before"):
        answer = client.get(f"/v1/audit-log?{bound}={moment}", headers=headers)
        assert answer.status_code == status
        assert status == 200 or "must lie in the years 1 to 9999 of UTC" in answer.json()["detail"]


def test_what_is_refused_is_not_in_the_audit_log(client: httpx.Client, token: str, database_url: str) -> None:
    admin = bearer(created_token(database_url, "auditor-2", scope="admin"))
    before = client.get("/v1/audit-log", headers=admin).json()["items"]
    client.post("/v1/storage-systems/nothing/runs", json=result_document("none"), headers=bearer(token))
    client.post("/v1/scenarios", json={}, headers=bearer(token))
    assert client.get("/v1/audit-log", headers=admin).json()["items"] == before


def test_requests_sizings_and_ingests_are_counted(client: httpx.Client, token: str) -> None:
    def counted() -> list[float]:
        route = {"route": "/v1/sizings", "status": "200"}
        return [
            value(client, "ckpt_http_request_duration_seconds_count", **route),
            value(client, "ckpt_sizings_total"),
            value(client, "ckpt_ingested_runs_total", result="new"),
            value(client, "ckpt_ingested_runs_total", result="repeated"),
        ]

    before = counted()
    client.post("/v1/sizings", json={"model": {"preset": "gpt2"}})
    client.post("/v1/storage-systems", json={"name": "counted"}, headers=bearer(token))
    for _ in range(3):
        client.post("/v1/storage-systems/counted/runs", json=result_document("counted"), headers=bearer(token))
    assert [after - earlier for after, earlier in zip(counted(), before, strict=True)] == [1, 1, 1, 2]
    assert value(client, "ckpt_ingested_bytes_total") > 0
    assert value(client, "ckpt_http_requests_in_progress") == 1
    assert value(client, "ckpt_database_connections_in_use") == 0


def test_memory_build_connections_and_refused_tokens_are_shown(client: httpx.Client) -> None:
    refused = {"route": "/v1/audit-log", "status": "401"}
    before = value(client, "ckpt_http_request_duration_seconds_count", **refused)
    assert client.get("/v1/audit-log", headers=bearer("guessed")).status_code == 401
    assert value(client, "ckpt_http_request_duration_seconds_count", **refused) == before + 1
    assert value(client, "ckpt_build_info", version=__version__) == 1
    assert value(client, "ckpt_http_connections_open") >= 1
    assert 10 * MIB < value(client, "ckpt_resident_memory_bytes", process="worker") < 4096 * MIB
    client.post("/v1/requirements", json={"model": {"preset": "gpt2"}})
    assert value(client, "ckpt_resident_memory_bytes", process="compute") > 10 * MIB


def test_a_connection_that_is_ended_is_counted_by_its_reason(client: httpx.Client) -> None:
    before = value(client, "ckpt_http_connections_ended_total", reason="no-http")
    with connected(str(client.base_url)) as connection:
        connection.sendall(b"SSH-2.0-x\r\n")
        while connection.recv(65536):
            pass
    assert value(client, "ckpt_http_connections_ended_total", reason="no-http") == before + 1


@pytest.mark.parametrize("header", ["X-Forwarded-For", "Forwarded"])
def test_figures_are_not_for_who_comes_through_a_proxy(client: httpx.Client, header: str) -> None:
    refused = client.get("/metrics", headers={header: "for=192.0.2.1"})
    assert (refused.status_code, refused.json()["code"]) == (404, "not-found")
    assert "ckpt_" not in refused.text


def test_paths_of_clients_make_no_series(client: httpx.Client) -> None:
    client.get("/v1/models/nothing-like-it")
    client.get("/nothing-like-it")
    text = client.get("/metrics").text
    assert "nothing-like-it" not in text
    assert 'route="/v1/models/{name}",status="404"' in text
    assert 'route="none",status="404"' in text
