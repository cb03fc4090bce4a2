"""What is closed where a login is required, and how often one client may ask."""

import gzip
import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from fastapi.routing import APIRoute
from starlette.testclient import TestClient

from service.app import ROUTERS, create_app
from service.database.tokens import NewToken, create_token
from service.middleware import rate_limit
from service.settings import Settings
from sizing.scenario import REFERENCE_SCENARIO
from tests.service.conftest import bearer, connected, created_token, logged, serving
from tests.service.test_access import SOME
from tests.testbed.processes import SECONDS_UNTIL_STUCK

MIB = 1024**2


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    url = f"sqlite:///{tmp_path_factory.mktemp('closed')}/x.db"
    app = create_app(Settings(database_url=url, require_login=True, requests_per_second=0))
    with TestClient(app, raise_server_exceptions=False) as client:
        client.headers["x-token"] = create_token(app.state.database, NewToken(name="reader", scope="publish"))
        yield client


def test_where_a_login_is_required_every_route_but_health_and_the_api_pages_demands_a_token(
    closed: TestClient,
) -> None:
    routes = [route for router in ROUTERS for route in router.routes if isinstance(route, APIRoute)]
    asked = {(method, route.path) for route in routes for method in route.methods or set()}
    assert {("POST", "/v1/sizings"), ("GET", "/v1/models"), ("GET", "/metrics")} <= asked
    documented = {
        (method.upper(), path)
        for path, operations in closed.get("/openapi.json").json()["paths"].items()
        for method in operations
    }
    assert documented - asked == {("GET", "/healthz"), ("GET", "/readyz")}
    for method, path in asked:
        some = path.format_map(SOME | {"run_id": "x", "calibration_id": "x", "job_id": "x"})
        refused = closed.request(method, some, content=b"no json")
        assert (refused.status_code, refused.json()["code"]) == (401, "unauthorized"), (method, path)
    for path in ("/healthz", "/readyz", "/docs", "/openapi.json"):
        assert closed.get(path).status_code == 200


def test_any_token_opens_questions_and_lists(closed: TestClient) -> None:
    headers = bearer(closed.headers["x-token"])
    assert closed.post("/v1/sizings", json=REFERENCE_SCENARIO, headers=headers).status_code == 200
    assert closed.get("/v1/scenarios", headers=headers).status_code == 200
    assert "401" in closed.get("/openapi.json").json()["paths"]["/v1/sizings"]["post"]["responses"]


class Clock:
    """Time as the test has it."""

    now = 0.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(rate_limit, "time", clock)
    return clock


def test_a_client_that_asks_too_often_waits_and_others_do_not(tmp_path: Path, clock: Clock) -> None:
    app = create_app(
        Settings(database_url=f"sqlite:///{tmp_path}/x.db", requests_per_second=0.5, trusted_proxies="127.0.0.1")
    )
    with TestClient(app, client=("192.0.2.1", 1)) as client, TestClient(app, client=("192.0.2.2", 1)) as other:
        statuses = [client.get("/v1/nodes/dgx-h100").status_code for _ in range(6)]
        assert statuses == [200] * 5 + [429]
        refused = client.get("/v1/nodes/dgx-h100")
        assert refused.json()["code"] == "too-many-requests"
        assert refused.headers["retry-after"] == "2"
        assert refused.headers["x-content-type-options"] == "nosniff"
        assert refused.headers["x-request-id"]
        assert client.get("/healthz").status_code == 200
        assert other.get("/v1/nodes/dgx-h100").status_code == 200
        clock.now += 2
        assert client.get("/v1/nodes/dgx-h100").status_code == 200


@pytest.mark.usefixtures("clock")
def test_addresses_of_one_ipv6_network_are_one_client(tmp_path: Path) -> None:
    app = create_app(Settings(database_url=f"sqlite:///{tmp_path}/x.db", requests_per_second=0.1))
    statuses = []
    for host in ("2001:db8::1", "2001:db8::2", "2001:db8:0:1::1"):
        with TestClient(app, client=(host, 1)) as client:
            statuses.append(client.get("/v1/nodes/dgx-h100").status_code)
    assert statuses == [200, 429, 200]


def test_a_forwarded_address_is_believed_from_trusted_proxies_alone(
    tmp_path: Path, client: httpx.Client, server_log: Path
) -> None:
    """The service of the other tests trusts none."""
    forwarded = {"x-forwarded-for": "198.51.100.7", "x-request-id": "forwarded"}
    arguments = ("--port", "0", "--database-url", f"sqlite:///{tmp_path}/x.db", "--trusted-proxies", "127.0.0.1")
    with serving(tmp_path / "log", *arguments) as (_, address):
        httpx.get(f"{address}/v1/nodes", headers=forwarded, timeout=SECONDS_UNTIL_STUCK)
    client.get("/v1/nodes", headers=forwarded)
    seen = [logged(log, "forwarded")[0]["client"] for log in (tmp_path / "log", server_log)]
    assert seen == ["198.51.100.7", "127.0.0.1"]


def test_a_body_that_dribbles_in_is_given_up(tmp_path: Path) -> None:
    arguments = ("--port", "0", "--database-url", f"sqlite:///{tmp_path}/x.db", "--body-seconds", "500ms")
    with serving(tmp_path / "log", *arguments) as (_, address):
        head = "POST /v1/sizings HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"
        with connected(address) as connection:
            connection.sendall(head.encode())
            answer = b""
            while chunk := connection.recv(65536):
                answer += chunk
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b'"code":"too-slow"' in answer


def test_bombs_and_deep_and_oversized_bodies_take_hardly_more_memory_than_honest_ones(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/x.db"
    with (
        serving(tmp_path / "log", "--port", "0", "--database-url", url) as (process, address),
        httpx.Client(base_url=address, timeout=SECONDS_UNTIL_STUCK) as client,
    ):
        headers = bearer(created_token(url, "attacker", scope="publish")) | {"content-type": "application/json"}

        def status_of(body: bytes, **more: str) -> int:
            runs = "/v1/storage-systems/s/runs"
            return client.post(runs, content=body, headers=headers | more).status_code

        honest = b'{"warnings": ["' + b"x" * (15 * MIB) + b'"]}'
        assert status_of(gzip.compress(honest), **{"content-encoding": "gzip"}) == 422
        before = most_resident_bytes(process.pid)
        bomb = gzip.compress(bytes(300 * MIB))
        assert len(bomb) < MIB
        for _ in range(5):
            assert status_of(bomb, **{"content-encoding": "gzip"}) == 413
            assert status_of(b"[" * (15 * MIB)) == 400
            assert status_of(bytes(40 * MIB)) == 413
        assert most_resident_bytes(process.pid) - before < 64 * MIB, "four bodies of the limit"


def most_resident_bytes(pid: int) -> int:
    (found,) = re.findall(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    return int(found) * 1024
