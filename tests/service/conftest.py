"""A real server on a real SQLite file, started as its user starts it."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

PROGRAM = [sys.executable, "-c", "from service.cli import main; main()"]
Serve = Callable[..., subprocess.CompletedProcess[str]]


def ckpt_serve(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*PROGRAM, *arguments], capture_output=True, text=True, timeout=60, check=False, cwd=cwd)


@pytest.fixture(scope="module")
def database_url(tmp_path_factory: pytest.TempPathFactory) -> str:
    return f"sqlite:///{tmp_path_factory.mktemp('database')}/sizing.sqlite3"


@pytest.fixture(scope="module")
def server(database_url: str) -> Iterator[str]:
    """The server's address."""
    command = [*PROGRAM, "--port", "0", "--database-url", database_url]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("Database sqlite:///")
        address = process.stdout.readline().removeprefix("API pages on ").partition("/docs")[0]
        yield address
        process.terminate()
        process.wait(timeout=10)


@pytest.fixture(scope="module")
def client(server: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server, timeout=30) as made:
        yield made


@pytest.fixture(scope="module")
def token(database_url: str, server: str) -> str:
    """A bearer token, made at the terminal while the server runs."""
    assert server
    created = ckpt_serve("token", "create", "--name", "tests", "--database-url", database_url)
    assert created.returncode == 0, created.stderr
    return created.stdout.strip()
