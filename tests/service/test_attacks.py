"""What one client does to others: health and small sizings are answered while it lasts, by a server without a proxy."""

import contextlib
import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from sizing.scenario import REFERENCE_SCENARIO
from tests.service.conftest import connected, gauge, serving
from tests.testbed.processes import SECONDS_UNTIL_STUCK, until

pytestmark = pytest.mark.long

ATTACKER = "127.0.0.2"
NUM_ATTACKERS = 12
TENSORS = [{"name": f"w{n}", "shape": [1000 + n, 64], "dtype": "bf16"} for n in range(5000)]
"""A list that takes 2 s to size, and 15 s over 2,000 ranks: eight of them outlast what is asked beside them."""


@pytest.fixture
def client(tmp_path: Path) -> Iterator[httpx.Client]:
    arguments = ("--port", "0", "--database-url", f"sqlite:///{tmp_path}/x.db", "--requests-per-second", "0")
    with (
        serving(tmp_path / "log", *arguments, "--compute-seconds", "1h") as (_, address),
        httpx.Client(base_url=address, timeout=SECONDS_UNTIL_STUCK) as made,
    ):
        for _ in range(2):
            assert made.post("/v1/sizings", json=REFERENCE_SCENARIO).status_code == 200
        yield made


def ask_beside(client: httpx.Client) -> None:
    """What others ask: health, a sizing of a layout that is known, and of some that are not."""
    for number in range(1, 6):
        assert client.get("/healthz").status_code == 200
        assert client.post("/v1/sizings", json=REFERENCE_SCENARIO).status_code == 200
        other: dict[str, Any] = {"model": {"preset": "llama-3.1-8b"}, "parallelism": {"data": number}}
        assert client.post("/v1/sizings", json=other).status_code == 200


@contextmanager
def attacked(attack: Callable[[int, threading.Event], None]) -> Iterator[Callable[[], bool]]:
    """Many attacks at once, until the block ends; whether each goes on."""
    over = threading.Event()
    with ThreadPoolExecutor(NUM_ATTACKERS) as pool:
        attacks = [pool.submit(attack, number, over) for number in range(NUM_ATTACKERS)]
        try:
            yield lambda: not any(each.done() for each in attacks)
        finally:
            over.set()
    for each in attacks:
        each.result()


def test_costly_sizings_hold_up_nobody_and_end_with_their_clients(client: httpx.Client) -> None:
    def attack(number: int, over: threading.Event) -> None:
        document = {"model": {"tensors": TENSORS}, "parallelism": {"data": 2000 + number}}
        body = json.dumps(document).encode()
        head = b"POST /v1/sizings HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
        with connected(str(client.base_url), host=ATTACKER) as connection:
            connection.sendall(head % len(body) + body)
            over.wait(SECONDS_UNTIL_STUCK)

    with attacked(attack) as goes_on:
        until(lambda: gauge(client, "ckpt_compute_tasks_running") == 1)
        ask_beside(client)
        assert gauge(client, "ckpt_compute_tasks_waiting") > 1, "the attack lasts"
        assert goes_on()
    until(lambda: gauge(client, "ckpt_compute_tasks_waiting") == 0)
    assert client.post("/v1/requirements", json=REFERENCE_SCENARIO).status_code == 200


def test_heads_without_end_hold_up_nobody(client: httpx.Client) -> None:
    def attack(number: int, over: threading.Event) -> None:
        while not over.is_set():
            with connected(str(client.base_url), host=ATTACKER) as connection, contextlib.suppress(OSError):
                connection.sendall(b"GET /healthz HTTP/1.1\r\n")
                while not over.wait(0.01):
                    connection.sendall(b"X-%d: y\r\n" % number * 1000)

    with attacked(attack) as goes_on:
        ask_beside(client)
        assert goes_on()


def test_connections_that_say_nothing_hold_up_nobody(client: httpx.Client) -> None:
    def attack(_: int, over: threading.Event) -> None:
        while not over.is_set():  # those that the server closed are opened again
            with contextlib.ExitStack() as connections:
                for _ in range(30):  # 360 in all, of which 200 are let in
                    connections.enter_context(connected(str(client.base_url), host=ATTACKER))
                over.wait(10)

    with attacked(attack) as goes_on:
        until(lambda: is_refused(str(client.base_url)))
        ask_beside(client)
        assert goes_on()


def is_refused(address: str) -> bool:
    """Whether a further connection of the attacker is answered before it asks anything."""
    with connected(address, host=ATTACKER) as connection:
        connection.settimeout(2)
        try:
            return b" 503 " in connection.recv(65536)
        except (TimeoutError, ConnectionResetError):
            return False


def test_three_clients_that_ask_what_takes_long_deny_nobody_a_heavy_question(client: httpx.Client) -> None:
    """What has had its turn becomes a job, where others wait; whoever asks less is answered meanwhile."""
    statuses: list[int] = []

    def attack(number: int) -> None:
        transport = httpx.HTTPTransport(local_address=f"127.0.0.{10 + number}")
        with httpx.Client(transport=transport, base_url=client.base_url, timeout=SECONDS_UNTIL_STUCK) as other:
            document = {"model": {"tensors": TENSORS}, "parallelism": {"data": 4000 + number}}
            statuses.append(other.post("/v1/sizings", json=document).status_code)

    with ThreadPoolExecutor(3) as pool:
        attacks = [pool.submit(attack, number) for number in range(3)]
        until(
            lambda: (
                gauge(client, "ckpt_compute_tasks_running") == 1 and gauge(client, "ckpt_compute_tasks_waiting") == 3
            )
        )
        assert client.post("/v1/requirements", json=REFERENCE_SCENARIO).status_code == 200
        for each in attacks:
            each.result()
    assert statuses.count(202) >= 2
