"""From the agent to the service and back: nothing is lost, nothing is there twice."""

import gzip
import json
import os
import re
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pytest

from io_bench.commands.main import main
from io_bench.results import publishing
from service_client.client import Client
from tests.service.conftest import created_token, result_document, serving
from tests.testbed.processes import SECONDS_UNTIL_STUCK
from tests.testbed.terminal import typed


def write_result(folder: Path, run_id: str, *, seconds: float = 2.0) -> Path:
    path = folder / f"{run_id}.json"
    path.write_text(json.dumps(result_document(run_id, seconds=seconds)))
    return path


class Agent:
    """Somebody who publishes runs of a storage system from a spool."""

    def __init__(self, folder: Path, address: str, token: str, system: str) -> None:
        self.address, self.token, self.system = address, token, system
        self.spool = folder / "spool"

    @property
    def link(self) -> str:
        return f"{self.address}/v1/storage-systems/{self.system}"

    def publish(
        self, *results: Path, patience: str = "20s", token: str | None = None, system: str | None = None
    ) -> subprocess.CompletedProcess[str]:
        to = None if system is None else f"{self.address}/v1/storage-systems/{system}"
        command = self._command(*results, patience=patience, to=to)
        return typed(main, "ckpt-bench", *command, environment={"CKPT_TOKEN": self.token if token is None else token})

    def publishing(self, *results: Path) -> subprocess.Popen[str]:
        """The same in a process of its own, which has all the patience there is."""
        command = [sys.executable, "-m", "io_bench", *self._command(*results, patience="10min")]
        environment = os.environ | {"CKPT_TOKEN": self.token}
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)

    def _command(self, *results: Path, patience: str, to: str | None = None) -> list[str]:
        flags = ("--to", to or self.link, "--spool", str(self.spool), "--patience", patience)
        return ["publish", *map(str, results), *flags]

    def published(self) -> list[str]:
        with Client(self.address) as client:
            return sorted(run.run_id for run in client.runs(self.system))

    def waiting(self) -> list[str]:
        return sorted(path.stem for path in self.spool.glob("*/*.json"))


@pytest.fixture(scope="session")
def agents_token(database_url: str, server: str) -> str:
    assert server
    return created_token(database_url, "agents-that-publish")


@pytest.fixture
def agent(server: str, agents_token: str, tmp_path: Path) -> Agent:
    system = tmp_path.name.lower().replace("_", "-")
    with Client(server, token=agents_token) as client:
        client.add_storage_system(system)
    return Agent(tmp_path, server, agents_token, system)


def test_results_are_published_once_and_leave_the_spool(agent: Agent, tmp_path: Path) -> None:
    results = [write_result(tmp_path, f"run-{number}") for number in range(3)]
    done = agent.publish(*results)
    assert (done.returncode, done.stdout) == (0, "Published run-0, run-1, run-2.\n")
    again = agent.publish(*results)
    assert (again.returncode, again.stdout) == (0, "Already published: run-0, run-1, run-2.\n")
    assert agent.published() == ["run-0", "run-1", "run-2"]
    assert agent.waiting() == []
    with Client(agent.address) as client:
        assert client.result(agent.system, "run-1").model_dump(mode="json", exclude_unset=True) == result_document(
            "run-1"
        )


def test_what_cannot_be_sent_waits_and_a_publisher_outlasts_a_restart(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/sizing.sqlite3"
    with serving(tmp_path / "log", "--port", "0", "--database-url", url) as (process, address):
        agent = Agent(tmp_path, address, created_token(url, "agents"), "scratch")
        with Client(address, token=agent.token) as client:
            client.add_storage_system("scratch")
        process.kill()
    kept = agent.publish(write_result(tmp_path, "early"), patience="1s")
    assert kept.returncode == 1
    assert "cannot be reached" in kept.stdout
    assert "Kept in the spool for the next ckpt-bench publish: early." in kept.stdout
    assert agent.waiting() == ["early"]
    publishing = agent.publishing(write_result(tmp_path, "late"))
    assert any("Retry in" in line for line in publishing.stderr or ())
    with serving(tmp_path / "log", "--port", address.rpartition(":")[2], "--database-url", url):
        said, _ = publishing.communicate(timeout=SECONDS_UNTIL_STUCK)
        assert agent.published() == ["early", "late"]
    assert (publishing.returncode, said) == (0, "Published early, late.\n")
    assert agent.waiting() == []


def test_agents_that_share_a_spool_send_each_result_once(agent: Agent, tmp_path: Path) -> None:
    results = [write_result(tmp_path, f"shared-{number}") for number in range(5)]
    agents = [agent.publishing(*results) for _ in range(2)]
    said = [each.communicate(timeout=SECONDS_UNTIL_STUCK) for each in agents]
    assert [each.returncode for each in agents] == [0, 0], said
    assert agent.published() == [f"shared-{number}" for number in range(5)]
    assert agent.waiting() == []


def test_a_result_that_the_service_never_takes_is_set_aside(agent: Agent, tmp_path: Path) -> None:
    assert agent.publish(write_result(tmp_path, "twice")).returncode == 0
    done = agent.publish(write_result(tmp_path, "twice", seconds=3.0), write_result(tmp_path, "good"))
    assert done.returncode == 1
    assert "Published good." in done.stdout
    assert "The service refused twice: run_id was already published with different content" in done.stdout
    (aside,) = agent.spool.glob("*/refused/*.json")
    assert json.loads(aside.read_text())["measurements"][0]["seconds"] == [3.0]
    assert agent.waiting() == []


def test_a_result_that_is_large_for_a_service_is_named_before_it_is_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody listens at the link; the limit of a service is that of a small document here."""
    path = write_result(tmp_path, "large")
    said: list[str] = []
    flags: dict[str, object] = {
        "--to": "http://127.0.0.1:9/v1/storage-systems/x",
        "--spool": tmp_path / "spool",
        "--patience": "1ms",
    }
    options = publishing.PublishOptions.of(**flags)
    publishing.publish_files([path], options, said.append)
    assert said == []
    monkeypatch.setattr(publishing, "DEFAULT_MAX_RESULT_BYTES", 100)
    publishing.publish_files([path], options, said.append)
    (sentence,) = said
    assert re.fullmatch(
        r"large has .*B, and a service takes 100 B unless its --max-result-bytes is larger: \w+ has .*B of it, which "
        "fewer repetitions or configurations in one result reduce.",
        sentence,
    )


@pytest.mark.parametrize(
    ("token", "system", "sentence"),
    [
        ("", "scratch", "must be a bearer token"),
        ("ckpt_1_x", "scratch", "CKPT_TOKEN"),
        (None, "none", "storage system"),
    ],
)
def test_a_wrong_token_or_link_loses_nothing(
    agent: Agent, tmp_path: Path, token: str | None, system: str | None, sentence: str
) -> None:
    done = agent.publish(write_result(tmp_path, "kept"), token=token, system=system)
    assert done.returncode == 1
    assert sentence in done.stdout
    assert ("Check the token" in done.stdout) == (system != "none")
    corrected = "Correct the name none in the link and give the results again, or create that storage system."
    assert (corrected in " ".join(done.stdout.split())) == (system == "none")
    assert agent.waiting() == ["kept"]


class InBetween(BaseHTTPRequestHandler):
    """What answers in the service's place: a status for the start of each path, 201 for other runs than `early`."""

    answers: ClassVar = {"/redirects": 301, "/limits": 413, "/fails": 500}

    def do_POST(self) -> None:
        document = json.loads(gzip.decompress(self.rfile.read(int(self.headers["content-length"]))))
        status = next(status for path, status in self.answers.items() if self.path.startswith(path))
        self.send_response(status if document["run_id"] == "early" else 201)
        self.send_header("location", "https://elsewhere/login")
        self.send_header("content-length", "0")
        self.end_headers()


@pytest.mark.parametrize(
    ("path", "waiting", "sentence"),
    [
        ("redirects", ["early", "late"], "the service answered with status 301 and leads to 'https://elsewhere/login'"),
        ("limits", [], "The service refused early: the service answered with status 413"),
        ("fails", ["early"], "Published late."),
    ],
)
def test_what_is_said_of_one_run_holds_up_no_other_and_a_proxy_refuses_none(
    tmp_path: Path, path: str, waiting: list[str], sentence: str
) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), InBetween) as proxy:
        threading.Thread(target=proxy.serve_forever, daemon=True).start()
        agent = Agent(tmp_path, f"http://127.0.0.1:{proxy.server_port}/{path}", "token", "scratch")
        done = agent.publish(write_result(tmp_path, "early"), write_result(tmp_path, "late"), patience="1s")
        proxy.shutdown()
    assert done.returncode == 1
    assert sentence in done.stdout
    assert agent.waiting() == waiting


@pytest.mark.parametrize(
    ("link", "sentence"),
    [
        ("http://h/v1/scenarios", "--to must be the link of a storage system, got 'http://h/v1/scenarios'"),
        ("http://u:secret@h/v1/storage-systems/a", "--to must be the link of a storage system: give"),
        ("file:///etc/v1/storage-systems/a", "--to must be the link of a storage system"),
    ],
)
def test_a_link_that_is_none_is_bad_input(link: str, sentence: str) -> None:
    done = typed(main, "ckpt-bench", "publish", "--to", link)
    assert done.returncode == 2
    assert sentence in done.stderr
    assert "secret" not in done.stderr


def test_a_file_that_is_no_result_is_bad_input_and_nothing_is_sent(agent: Agent, tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text("{}")
    done = agent.publish(write_result(tmp_path, "fine"), tmp_path / "x.json")
    assert done.returncode == 2
    assert f"{tmp_path}/x.json is not a result document of ckpt-bench" in done.stderr
    assert agent.waiting() == []


def test_a_run_publishes_its_own_result(agent: Agent, tmp_path: Path) -> None:
    arguments = ["--target", str(tmp_path), "--bytes-per-rank", "1MiB", "--repetitions", "1"]
    arguments += [
        "--output",
        str(tmp_path / "result.json"),
        "--publish",
        agent.link,
    ]
    environment = {"CKPT_TOKEN": agent.token, "XDG_STATE_HOME": str(tmp_path)}
    done = typed(main, "ckpt-bench", "run", *arguments, environment=environment)
    assert done.returncode == 0, done.stderr
    (run_id,) = agent.published()
    assert f"Published {run_id}." in done.stderr
    assert json.loads((tmp_path / "result.json").read_text())["run_id"] == run_id
