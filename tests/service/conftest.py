"""A real server on a real SQLite file, started as its user starts it."""

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from service.database import open_database
from service.database.tokens import NewToken, create_token

PROGRAM = [sys.executable, "-c", "from service.cli import main; main()"]
SECONDS_TO_START = 30


def ckpt_serve(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*PROGRAM, *arguments], capture_output=True, text=True, timeout=60, check=False)


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
def database_url(tmp_path_factory: pytest.TempPathFactory) -> str:
    return f"sqlite:///{tmp_path_factory.mktemp('database')}/sizing.sqlite3"


def log_of(database_url: str) -> Path:
    """Where the server on that database prints to."""
    return Path(database_url.removeprefix("sqlite:///")).with_suffix(".log")


@pytest.fixture(scope="session")
def server(database_url: str) -> Iterator[str]:
    """The server's address."""
    with serving(log_of(database_url), "--port", "0", "--database-url", database_url) as (_, address):
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
