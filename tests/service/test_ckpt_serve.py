"""`ckpt-serve` at the terminal: where to look, clean stop, bad input in one sentence."""

import json
import signal
import socket
import sqlite3
import subprocess
import sys
from pathlib import Path

import httpx
import psutil
import pytest

from sizing import __version__
from sizing.scenario import REFERENCE_SCENARIO
from tests.service.conftest import Terminal, ckpt_serve, connected, listens, serving
from tests.testbed.processes import SECONDS_UNTIL_STUCK, until


def test_it_says_where_to_look_and_stops_cleanly_on_sigterm(tmp_path: Path) -> None:
    log = tmp_path / "log"
    url = f"sqlite:///{tmp_path}/new/folder/sizing.sqlite3"
    with serving(log, "--port", "0", "--database-url", url) as (process, address):
        assert log.read_text().startswith(f"Database {url}\nAPI pages on http://127.0.0.1:")
        assert httpx.get(f"{address}/healthz", timeout=SECONDS_UNTIL_STUCK).status_code == 200
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=SECONDS_UNTIL_STUCK) in (0, -signal.SIGTERM)
    assert "Traceback" not in log.read_text()


def test_a_request_in_progress_is_finished_when_it_stops(tmp_path: Path) -> None:
    body = json.dumps(REFERENCE_SCENARIO).encode()
    head = (
        "POST /v1/sizings HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\nExpect: 100-continue\r\n\r\n"
    )
    arguments = ("--port", "0", "--database-url", f"sqlite:///{tmp_path}/x.db")
    with serving(tmp_path / "log", *arguments) as (process, address), connected(address) as connection:
        connection.sendall(head.encode())
        assert connection.recv(1024).startswith(b"HTTP/1.1 100 "), "the route waits for its body"
        process.send_signal(signal.SIGTERM)
        until(lambda: not listens(psutil.Process(process.pid)))
        connection.sendall(body)
        assert connection.recv(1024).startswith(b"HTTP/1.1 200 ")
        assert process.wait(timeout=SECONDS_UNTIL_STUCK) in (0, -signal.SIGTERM)


def test_a_request_that_does_not_end_in_time_is_refused_when_it_stops(tmp_path: Path) -> None:
    head = "POST /v1/sizings HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 2\r\n"
    log, arguments = tmp_path / "log", ("--port", "0", "--database-url", f"sqlite:///{tmp_path}/x.db")
    with serving(log, *arguments) as (process, address), connected(address) as connection:
        connection.sendall(f"{head}Expect: 100-continue\r\n\r\n".encode())
        assert connection.recv(1024).startswith(b"HTTP/1.1 100 "), "the route waits for its body"
        process.send_signal(signal.SIGTERM)
        answer = connection.makefile("rb").read().decode()
        assert process.wait(timeout=SECONDS_UNTIL_STUCK) in (0, -signal.SIGTERM)
    assert answer.startswith("HTTP/1.1 503 ")
    for said in ("retry-after: 5", "application/problem+json", "the service is stopping"):
        assert said in answer
    assert "Traceback" not in log.read_text()


def test_the_default_database_is_in_the_data_directory_of_the_user(
    terminal: Terminal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", "")
    monkeypatch.setenv("HOME", str(tmp_path))
    for data in (str(tmp_path), ""):
        monkeypatch.setenv("XDG_DATA_HOME", data)
        assert terminal("token", "list")[0] == 0
    files = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.sqlite3")}
    assert files == {"checkpoint-sizing/service.sqlite3", ".local/share/checkpoint-sizing/service.sqlite3"}


def test_a_flag_goes_before_the_environment(
    terminal: Terminal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", f"sqlite:///{tmp_path}/environment.db")
    flag = ("--database-url", f"sqlite:///{tmp_path}/flag.db")
    assert terminal("token", "create", "--name", "a")[0] == 0
    assert terminal("token", "create", "--name", "b", *flag)[0] == 0
    assert terminal(*flag, "token", "create", "--name", "c")[0] == 0
    assert {path.name for path in tmp_path.iterdir() if path.suffix == ".db"} == {"environment.db", "flag.db"}
    _, listed, _ = terminal("token", "list", *flag)
    assert [line.split()[0] for line in listed.splitlines() if " write " in line] == ["b", "c"]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--database-url", "nonsense"], "--database-url must be the URL of a SQLite or PostgreSQL database"),
        (["--database-url", "mysql://a/b"], "--database-url must be the URL of a SQLite or PostgreSQL database"),
        (["--database-url", "sqlite://"], "--database-url must name a file"),
        (["--database-url", "sqlite:///a%00b"], "--database-url must name a file"),
        (["--database-url", "sqlite:////proc/nowhere/x.sqlite3"], "is in a directory that cannot be created"),
        (["--database-url", "sqlite:////proc/x.sqlite3"], "unable to open database file"),
        (["--database-url", ""], "--database-url must have 1 or more characters, got ''"),
        (["token", "list", "--database-url", ""], "--database-url must have 1 or more characters, got ''"),
        (["--host", "256.1.1.1"], "cannot be used to listen"),
        (["--host", ""], "--host must have 1 or more characters, got ''"),  # which would be every address there is
        (
            ["--trusted-proxies", "10.0.0.1/8"],
            "--trusted-proxies must be addresses or networks (10.0.0.1/8 has host bits",
        ),
        (["--trusted-proxies", "10.0.0.1,proxy"], "--trusted-proxies must be addresses or networks"),
        (["--compute-seconds", "30d"], "--compute-seconds must be at most"),
        (["--port", "70000"], "--port must be at most 65535, got '70000'"),
        (["--max-result-bytes", "64MiB"], "--worker-memory-bytes must be 32 times the largest body, got '1.000 GiB'"),
        (["--max-body-bytes", "much"], "--max-body-bytes is not a size, got 'much'"),
        (
            ["token", "create", "--name", "a", "--scope", "root"],
            "--scope must be one of 'read', 'publish-only', 'publish', 'write' or 'admin', got 'root'",
        ),
        (["token", "create", "--name", "a", "--expires", "soon"], "--expires is not a duration, got 'soon'"),
        (["token", "create", "--name", " "], "--name must be one line"),
        (["token", "revoke", "--name", "nobody"], "--name must be the name of a token, got 'nobody'"),
    ],
)
def test_bad_input_ends_with_one_sentence_and_exit_code_2(
    terminal: Terminal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], sentence: str
) -> None:
    monkeypatch.setenv("DATABASE_URL", f"sqlite:///{tmp_path}/x.db")
    monkeypatch.setenv("CKPT_SERVE_PORT", "0")
    code, _, errors = terminal(*arguments)
    assert code == 2
    assert errors.startswith("error: ")
    assert sentence in errors
    assert len(errors.splitlines()) == 1


def test_a_bad_environment_is_bad_input_too(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CKPT_SERVE_PORT", "high")
    assert terminal() == (2, "", "error: CKPT_SERVE_PORT must be a whole number, got 'high': give a whole number.\n")


@pytest.mark.parametrize(
    ("variable", "nearest"),
    [
        ("CKPT_SERVE_REQUIRE_LOGN", "CKPT_SERVE_REQUIRE_LOGIN"),
        ("ckpt_serve_hosts", "CKPT_SERVE_HOST"),
        ("CKPT_SERVE_DATABASE_URL", "DATABASE_URL"),
    ],
)
def test_a_variable_that_sets_nothing_is_refused(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch, variable: str, nearest: str
) -> None:
    monkeypatch.setenv(variable, "true")
    sentence = (
        f"the environment has a variable that is not a setting, got '{variable}': the closest setting is {nearest}."
    )
    assert terminal() == (2, "", f"error: {sentence}\n")


def test_what_is_no_database_is_named(terminal: Terminal, tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("not a database" * 100)
    code, _, errors = terminal("token", "list", "--database-url", f"sqlite:///{path}")
    assert code == 2
    assert "file is not a database" in errors
    assert path.read_text() == "not a database" * 100


def test_a_port_in_use_is_named(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        found = ckpt_serve("--port", port, "--database-url", f"sqlite:///{tmp_path}/x.db")
    assert found.returncode == 2
    assert f"cannot be used to listen (Address already in use), got '127.0.0.1 port {port}'" in found.stderr


@pytest.mark.parametrize("url", ["postgresql+nodriver://u:secret@h:1/x", "postgresql://u:secret@h:port/x"])
def test_a_password_is_not_shown(terminal: Terminal, url: str) -> None:
    code, output, errors = terminal("token", "list", "--database-url", url)
    assert code == 2
    assert "secret" not in output + errors


def test_a_database_that_fails_is_one_sentence_too(terminal: Terminal, tmp_path: Path) -> None:
    flag = ("--database-url", f"sqlite:///{tmp_path}/x.db")
    assert terminal("token", "list", *flag)[0] == 0
    connection = sqlite3.connect(tmp_path / "x.db")
    connection.execute("CREATE TRIGGER full BEFORE INSERT ON tokens BEGIN SELECT RAISE(ABORT, 'no space'); END")
    connection.close()
    found = terminal("token", "create", "--name", "a", *flag)
    assert found == (
        2,
        "",
        "error: the database failed (no space): check that it exists, is undamaged and has free space.\n",
    )


@pytest.mark.parametrize("scope", ["publish", "publish-only"])
def test_a_token_to_publish_says_for_which_storage_systems(terminal: Terminal, tmp_path: Path, scope: str) -> None:
    database = f"sqlite:///{tmp_path}/d.sqlite3"
    create = ("token", "create", "--scope", scope, "--database-url", database, "--name")
    code, _, errors = terminal(*create, "none")
    assert code == 2
    assert f"--systems must be given with scope {scope}: give --systems scratch,home, or --systems '*' for all" in (
        " ".join(errors.split())
    )
    assert [terminal(*create, name, "--systems", name)[0] for name in ("scratch", "*")] == [0, 0]
    listed = terminal("token", "list", "--database-url", database)[1]
    assert [line.split()[-1] for line in listed.splitlines() if scope in line] == ["scratch", "all"]


def test_two_tokens_cannot_have_one_name(terminal: Terminal, tmp_path: Path) -> None:
    arguments = ("token", "create", "--name", "a", "--database-url", f"sqlite:///{tmp_path}/x.db")
    assert terminal(*arguments)[0] == 0
    code, _, errors = terminal(*arguments)
    assert (code, errors) == (2, "error: --name is already the name of a token, got 'a': choose another name.\n")


def test_the_limit_of_a_body_can_be_set(tmp_path: Path) -> None:
    arguments = ("--port", "0", "--database-url", f"sqlite:///{tmp_path}/x.db", "--max-body-bytes", "10B")
    with serving(tmp_path / "log", *arguments) as (_, address):
        refused = httpx.post(f"{address}/v1/sizings", json={"model": {"preset": "gpt2"}}, timeout=SECONDS_UNTIL_STUCK)
    assert (refused.status_code, refused.json()["code"]) == (413, "too-large")


def test_the_version_is_that_of_the_package(terminal: Terminal) -> None:
    assert terminal("--version") == (0, f"ckpt-serve {__version__}\n", "")


def test_the_service_needs_no_torch() -> None:
    code = "import sys, service.app; assert not {'torch', 'io_bench'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=SECONDS_UNTIL_STUCK)
