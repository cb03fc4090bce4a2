"""`ckpt-serve` at the terminal: where to look, clean stop, bad input in one sentence."""

import signal
import socket
import subprocess
from pathlib import Path

import httpx
import pytest

from service.settings import Settings
from tests.service.conftest import PROGRAM, ckpt_serve


def test_it_says_where_to_look_and_stops_cleanly_on_sigterm(tmp_path: Path) -> None:
    with subprocess.Popen([*PROGRAM, "--port", "0"], stdout=subprocess.PIPE, text=True, cwd=tmp_path) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "Database sqlite:///checkpoint-sizing.sqlite3\n"
        line = process.stdout.readline()
        assert line.startswith("API pages on http://127.0.0.1:")
        address = line.removeprefix("API pages on ").partition("/docs")[0]
        assert httpx.get(f"{address}/healthz").status_code == 200
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=10) in (0, -signal.SIGTERM)
    assert (tmp_path / "checkpoint-sizing.sqlite3").exists()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--database-url", "nonsense"], "--database-url must be a database that can be opened"),
        (["--database-url", "sqlite:////nowhere/x.sqlite3"], "unable to open database file"),
        (["--host", "256.1.1.1", "--port", "0"], "--host must be free to listen on"),
        (["token", "create", "--name", "a", "--scope", "root"], "--scope must be write, got 'root'"),
        (["token", "create", "--name", "a", "--expires", "soon"], "--expires must be a duration, got 'soon'"),
        (["token", "revoke", "--name", "nobody"], "--name must be a token's, got 'nobody'"),
    ],
)
def test_bad_input_ends_with_one_sentence_and_exit_code_2(tmp_path: Path, arguments: list[str], sentence: str) -> None:
    found = ckpt_serve(*arguments, cwd=tmp_path)
    assert found.returncode == 2
    assert sentence in found.stderr
    assert len(found.stderr.strip().splitlines()) == 1


def test_a_port_in_use_is_named(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        found = ckpt_serve("--port", port, cwd=tmp_path)
    assert found.returncode == 2
    assert f"--port must be free to listen on (Address already in use), got '{port}'" in found.stderr


def test_a_password_is_not_shown() -> None:
    found = ckpt_serve("--database-url", "postgresql+nodriver://user:secret@localhost/x")
    assert found.returncode == 2
    assert "secret" not in found.stderr


def test_two_tokens_cannot_have_one_name(tmp_path: Path) -> None:
    assert ckpt_serve("token", "create", "--name", "a", cwd=tmp_path).returncode == 0
    again = ckpt_serve("token", "create", "--name", "a", cwd=tmp_path)
    assert again.returncode == 2
    assert "--name must be new, got 'a'" in again.stderr


def test_every_setting_is_documented() -> None:
    text = (Path(__file__).parents[2] / "docs" / "rest.md").read_text()
    for name in Settings.model_fields:
        assert name.upper() in text
