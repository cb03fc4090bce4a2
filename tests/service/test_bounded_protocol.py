"""Bounds at the socket: what a client sends, keeps waiting or does not take, without a proxy in front."""

import asyncio
import re
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
import uvicorn

from service.server import bounded_protocol
from service.server.bounded_protocol import MAX_HEAD_BYTES, MAX_REQUESTS_AHEAD, protocol_of
from service.settings import Settings
from service.telemetry import REASONS_TO_END, Metrics
from tests.service.conftest import connected, serving
from tests.testbed.processes import SECONDS_UNTIL_STUCK, until

MIB = 1024**2
GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
LARGE = b"x" * (8 * MIB)
"""More than the buffers of two sockets hold."""


class Held:
    """A request whose answer begins when the test says so."""

    def __init__(self) -> None:
        self.come, self.begin, self.gone = (threading.Event() for _ in range(3))


HELD = Held()


async def app(scope: Any, receive: Any, send: Any) -> None:
    """Answers at once, with much for who asks for it; never, or when the test says so, where that is asked."""
    is_held = scope["path"] == "/held"
    if scope["path"] == "/never":
        while (await receive())["type"] != "http.disconnect":
            pass
    body = LARGE if scope["path"] == "/large" else b"here"
    headers = [(b"content-length", str(len(body)).encode())]
    while is_held and not HELD.begin.is_set():
        HELD.come.set()
        await asyncio.sleep(0.01)
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    for _ in range(10 * is_held):  # rounds of the event loop, in which the server notices that nobody is there
        await asyncio.sleep(0.01)
    try:
        await send({"type": "http.response.body", "body": body})
    finally:
        if is_held:
            HELD.gone.set()


@contextmanager
def listening(**settings: Any) -> Iterator[str]:
    """The address of a server of this protocol in a thread."""
    listener = socket.create_server(("127.0.0.1", 0))
    metrics = Metrics()
    protocol = protocol_of(Settings(database_url="sqlite:///none", **settings), metrics)
    config = uvicorn.Config(app, http=protocol, ws="none", lifespan="off", log_config=None, timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        until(lambda: server.started)
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(SECONDS_UNTIL_STUCK)
        listener.close()


@pytest.fixture
def address() -> Iterator[str]:
    with listening() as found:
        yield found


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Makes one phase short, and all others so long that no test sees their end."""
    monkeypatch.setattr(bounded_protocol, "_SECONDS_BETWEEN_LOOKS", 0.02)

    def hurry(phase: str) -> None:
        others = dict.fromkeys(bounded_protocol.SECONDS_OF, 2 * SECONDS_UNTIL_STUCK)
        monkeypatch.setattr(bounded_protocol, "SECONDS_OF", others | {phase: 0.1})

    return hurry


def all_from(connection: socket.socket) -> bytes:
    """What comes until the server closes, which it must."""
    received = b""
    with suppress(ConnectionError):
        while chunk := connection.recv(MIB):
            received += chunk
    return received


def status_of(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1])


def test_every_phase_that_ends_is_shown_from_the_start() -> None:
    slow = {reason.removeprefix("slow-") for reason in REASONS_TO_END if reason.startswith("slow-")}
    assert slow == set(bounded_protocol.SECONDS_OF)


def test_a_plain_request_is_answered_and_its_connection_kept(address: str) -> None:
    with httpx.Client(base_url=address) as client:
        for _ in range(3):
            assert client.get("/").text == "here"
        assert client.post("/", content=b"y" * (3 * MIB)).text == "here"
        assert client.post("/", content=(b"y" * 10_000 for _ in range(100))).text == "here"


@pytest.mark.parametrize(
    "pieces",
    [
        pytest.param([b"GET / HTTP/1.1\r\nX: ", b"y" * (4 * MAX_HEAD_BYTES)], id="one header without end"),
        pytest.param([b"GET / HTTP/1.1\r\n", b"X: y\r\n" * MAX_HEAD_BYTES], id="headers without end"),
        pytest.param([b"GET /" + b"y" * (4 * MAX_HEAD_BYTES)], id="a target without end"),
        pytest.param(
            [b"GET / HTTP/1.1\r\nHost: x\r\n" + b"X: yyy\r\n" * (MAX_HEAD_BYTES // 4) + b"\r\n"], id="a whole head"
        ),
        pytest.param(
            [
                b"POST /never HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n",
                b"X: y\r\n" * MAX_HEAD_BYTES,
            ],
            id="trailers without end",
        ),
        pytest.param([b"\r\n" * MAX_HEAD_BYTES], id="empty lines"),
    ],
)
def test_a_head_that_is_too_large_is_refused(address: str, pieces: list[bytes]) -> None:
    with connected(address) as connection:
        with suppress(ConnectionError):
            for piece in pieces:
                connection.sendall(piece)
        answer = all_from(connection)
    assert answer == b"" or status_of(answer) == 431
    assert httpx.get(address).text == "here"


def test_a_head_of_almost_the_limit_is_read(address: str) -> None:
    headers = {f"x-{n}": "y" * 1000 for n in range(MAX_HEAD_BYTES // 1100)}
    assert httpx.get(address, headers=headers).text == "here"


def test_a_head_that_is_too_large_is_refused_with_a_problem_document(address: str) -> None:
    with connected(address) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nX: " + b"y" * MAX_HEAD_BYTES)
        answer = all_from(connection)
    head, body = answer.split(b"\r\n\r\n")
    assert status_of(answer) == 431
    assert b"content-type: application/problem+json" in head
    assert b"connection: close" in head
    assert b'"code":"head-too-large"' in body


def test_what_is_no_http_is_refused_with_a_problem_document(address: str) -> None:
    with connected(address) as connection:
        connection.sendall(b"SSH-2.0-OpenSSH_9.2\r\n")
        answer = all_from(connection)
    assert status_of(answer) == 400
    assert b'"code":"invalid-http"' in answer


@pytest.mark.parametrize(
    ("version", "headers", "status"),
    [
        ("1.1", ["Host: a:80"], 200),
        ("1.1", ["Host: [::1]:8000"], 200),
        ("1.1", ["Host:"], 200),
        ("1.0", [], 200),
        ("1.1", [], 400),
        ("1.1", ["Host: a", "host: b"], 400),
        ("1.0", ["Host: a", "Host: a"], 400),
        ("1.1", ["Host: a b"], 400),
        ("1.1", ["Host: a/b"], 400),
        ("1.1", ["Host: user@a"], 400),
        ("1.1", ["Host: a", "Authorization: Bearer a", "Authorization: Bearer b"], 400),
        ("1.1", ["Host: a", "Content-Type: a/b", "Content-Type: c/d"], 400),
        ("1.1", ["Host: a", "Accept: a/b", "Accept: c/d"], 200),
    ],
)
def test_what_a_proxy_may_read_in_two_ways_is_refused(
    address: str, version: str, headers: list[str], status: int
) -> None:
    with closing(connected(address)) as connection:
        connection.sendall("\r\n".join([f"GET / HTTP/{version}", *headers, "Connection: close", "", ""]).encode())
        answer = all_from(connection)
    assert status_of(answer) == status
    assert status == 200 or b'"code":"invalid-http"' in answer


def test_each_request_of_a_connection_has_its_own_host(address: str) -> None:
    with closing(connected(address)) as connection:
        connection.sendall(GET + GET.replace(b"Host: x", b"Connection: close\r\nHost: x"))
        assert all_from(connection).count(b"200 OK") == 2


def test_a_client_that_leaves_while_requests_wait_ahead_leaves_no_trace(
    address: str, caplog: pytest.LogCaptureFixture
) -> None:
    with closing(connected(address)) as connection:
        connection.sendall(GET.replace(b"/", b"/held", 1) + GET)
        assert HELD.come.wait(SECONDS_UNTIL_STUCK)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # it leaves by a reset
    HELD.begin.set()
    assert HELD.gone.wait(SECONDS_UNTIL_STUCK)
    assert httpx.get(address).text == "here"  # which comes behind whatever was logged
    assert [record.getMessage() for record in caplog.records if record.exc_info] == []


def test_requests_far_ahead_of_their_answers_close_the_connection(address: str) -> None:
    with connected(address) as connection:
        connection.sendall(GET * (MAX_REQUESTS_AHEAD - 1) + GET.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
        assert all_from(connection).count(b"here") == MAX_REQUESTS_AHEAD
    with connected(address) as connection:
        connection.sendall(GET.replace(b"/", b"/never", 1) + GET * (MAX_REQUESTS_AHEAD + 1))
        assert all_from(connection) == b""


@pytest.mark.parametrize(
    ("phase", "sent"),
    [
        pytest.param("head", b"", id="no first byte"),
        pytest.param("head", b"GET / HTTP/1.1\r\nHost", id="no last header"),
        pytest.param("head", GET + b"GET / HTTP/1.1\r\nHost", id="no last header of the second request"),
        pytest.param(
            "body", b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n1", id="no end of a body that is answered"
        ),
        pytest.param("idle", GET + b"\r\n", id="an empty line instead of a further request"),
    ],
)
def test_who_sends_nothing_more_is_left(hurried: Callable[[str], None], phase: str, sent: bytes) -> None:
    hurried(phase)
    with listening() as address, connected(address) as connection:
        connection.sendall(sent)
        answered = all_from(connection)
    assert answered.count(b"here") == (0 if phase == "head" and GET not in sent else 1)


def test_a_head_that_dribbles_in_is_left(hurried: Callable[[str], None]) -> None:
    hurried("head")
    with listening() as address, connected(address) as connection, suppress(ConnectionError):
        connection.sendall(b"GET / HTTP/1.1\r\n")
        while True:  # until it is closed
            connection.sendall(b"X: y\r\n")
            connection.settimeout(0.01)
            with suppress(TimeoutError):
                assert connection.recv(1) == b""
                break


def test_who_takes_no_answer_is_left(hurried: Callable[[str], None]) -> None:
    hurried("write")
    with listening() as address, connected(address) as connection:
        connection.sendall(GET.replace(b"/", b"/large", 1))
        assert connection.recv(1, socket.MSG_PEEK), "the answer has begun"
        until(lambda: port_of(connection) not in served_ports())
        assert len(all_from(connection)) < len(LARGE)


def served_ports() -> set[int]:
    """Ports of the clients that this process has connections of."""
    return {found.raddr[1] for found in psutil.Process().net_connections() if found.raddr}


def port_of(connection: socket.socket) -> int:
    port: int = connection.getsockname()[1]
    return port


def test_an_answer_has_the_time_of_its_route(hurried: Callable[[str], None]) -> None:
    hurried("idle")
    with listening() as address, connected(address) as connection:
        connection.sendall(GET.replace(b"/", b"/never", 1))
        connection.settimeout(0.5)
        with pytest.raises(TimeoutError):
            connection.recv(1)


def test_connections_of_one_client_and_in_all_are_bounded() -> None:
    with listening(client_connections=3, max_connections=5) as address, ExitStack() as stack:

        def asked(host: str) -> bytes:
            """What a connection from there is told first; it stays open."""
            target = address.rpartition("//")[2].split(":")
            connection = socket.create_connection((target[0], int(target[1])), SECONDS_UNTIL_STUCK, (host, 0))
            stack.enter_context(closing(connection))
            with suppress(ConnectionError):
                connection.sendall(GET)
                return connection.recv(MIB)
            return b""

        assert [status_of(asked("127.0.0.2")) for _ in range(3)] == [200] * 3
        assert b"200 OK" not in asked("127.0.0.2")
        assert [status_of(asked("127.0.0.3")) for _ in range(2)] == [200] * 2
        stack.close()
        until(lambda: b"200 OK" in asked("127.0.0.2"))


def test_where_all_connections_are_taken_one_that_waits_gives_way_to_another_client() -> None:
    with listening(client_connections=9, max_connections=4) as address, ExitStack() as stack:

        def opened(host: str, request: bytes) -> socket.socket:
            connection = stack.enter_context(connected(address, host=host))
            connection.sendall(request)
            return connection

        busy = opened("127.0.0.2", GET.replace(b"/", b"/never", 1))
        waiting = [opened("127.0.0.2", GET) for _ in range(3)]
        assert all(b"200 OK" in connection.recv(MIB) for connection in waiting)
        for _ in range(2):
            assert b"200 OK" in opened("127.0.0.3", GET).recv(MIB)
        assert b"200 OK" not in all_from(opened("127.0.0.3", GET)), "both have two"
        assert [all_from(connection) for connection in waiting[:2]] == [b"", b""]
        waiting[2].sendall(GET)
        assert b"200 OK" in waiting[2].recv(MIB)
        busy.settimeout(0.01)
        with pytest.raises(TimeoutError):
            busy.recv(1)


def test_a_trusted_proxy_is_many_clients() -> None:
    with listening(client_connections=1, trusted_proxies="127.0.0.0/8") as address, ExitStack() as stack:
        for _ in range(3):
            client = stack.enter_context(httpx.Client(base_url=address))
            assert client.get("/").text == "here"


@pytest.mark.exhaustive
def test_no_flood_grows_the_process(tmp_path: Path) -> None:
    """Headers, requests ahead of their answers, and answers that nobody takes: 100 MiB of each are refused."""
    floods = [
        (b"GET /healthz HTTP/1.1\r\n", b"X: y\r\n" * 4096),
        (b"GET /healthz HTTP/1.1\r\nX: ", b"y" * 65536),
        (b"", b"GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n" * 1000),
    ]
    url = f"sqlite:///{tmp_path}/x.db"
    arguments = ("--port", "0", "--database-url", url, "--requests-per-second", "0")
    with serving(tmp_path / "log", *arguments) as (process, address):
        assert httpx.get(f"{address}/openapi.json", timeout=SECONDS_UNTIL_STUCK).status_code == 200
        before = most_resident_bytes(process.pid)
        for start, flood in floods:
            for _ in range(20):
                with connected(address) as connection, suppress(ConnectionError):
                    connection.sendall(start)
                    for _ in range(100 * MIB // len(flood)):
                        connection.sendall(flood)
                    pytest.fail("the flood was read to its end")
        assert httpx.get(f"{address}/healthz", timeout=SECONDS_UNTIL_STUCK).status_code == 200
        grown = most_resident_bytes(process.pid) - before
    assert grown < 32 * MIB, f"{grown:,} bytes"


def most_resident_bytes(pid: int) -> int:
    (found,) = re.findall(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    return int(found) * 1024
