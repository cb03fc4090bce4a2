"""Traces that a collector gets: one from the request through its job to each chunk, whoever computes it; none by default."""

from __future__ import annotations

import gzip
import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.service import conftest, steps
from tests.service.conftest import Terminal, serving
from tests.service.steps import begun, let_go
from tests.service.test_jobs import asked, in_state
from tests.service.test_jobs_by_dask import MANY_SCENARIOS
from tests.testbed.dask import cluster
from tests.testbed.processes import SECONDS_UNTIL_STUCK, until

TRACE, CALLER = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
TRACEPARENT = f"00-{TRACE}-{CALLER}-01"
"""Of a client that traces, as in the example of W3C Trace Context, section 3.2.3."""


class Received(NamedTuple):
    """A span, with the process that sent it."""

    name: str
    trace: str
    id: str
    parent: str
    attributes: dict[str, Any]
    sender: dict[str, Any]
    nanoseconds: int


def values(attributes: Any) -> dict[str, Any]:
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in attributes}


class Collector(ThreadingHTTPServer):
    """A receiver of OTLP/HTTP on loopback."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Export)
        self.bodies: list[bytes] = []

    def spans(self) -> list[Received]:
        exports = map(ExportTraceServiceRequest.FromString, self.bodies)
        return [
            Received(
                *(span.name, span.trace_id.hex(), span.span_id.hex(), span.parent_span_id.hex()),
                *(values(span.attributes), values(each.resource.attributes)),
                span.end_time_unix_nano - span.start_time_unix_nano,
            )
            for export in exports
            for each in export.resource_spans
            for scope in each.scope_spans
            for span in scope.spans
        ]

    def in_trace(self) -> dict[str, list[Received]]:
        """The spans of the client's trace, by name."""
        found: dict[str, list[Received]] = {}
        for span in self.spans():
            if span.trace == TRACE:
                found.setdefault(span.name, []).append(span)
        return found


class _Export(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        assert self.path == "/v1/traces"
        self.server.bodies.append(gzip.decompress(body) if self.headers["content-encoding"] == "gzip" else body)
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Nobody reads it."""


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    with Collector() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
        yield server
        server.shutdown()
        thread.join()


@contextmanager
def traced(folder: Path, *flags: str, log: str = "log") -> Iterator[tuple[subprocess.Popen[bytes], httpx.Client]]:
    """A server that sends traces, and a client of it."""
    database = ["--database-url", f"sqlite:///{folder}/service.db", "--port", "0", "--tracing"]
    with (
        serving(folder / log, *database, *flags) as (process, address),
        httpx.Client(base_url=address, timeout=SECONDS_UNTIL_STUCK) as client,
    ):
        yield process, client


def test_one_trace_has_the_request_its_job_its_process_and_each_chunk(collector: Collector, tmp_path: Path) -> None:
    with traced(tmp_path) as (process, client):
        for path in ("/healthz", "/readyz", "/metrics", "/", "/docs"):
            assert client.get(path).status_code == 200
        assert client.get("/v1/scenarios?secret=chalk").status_code == 422
        job = asked(client, "/v1/sweeps", MANY_SCENARIOS, traceparent=TRACEPARENT)
        in_state(client, job, "done")
    lines = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines() if line.startswith("{")]
    assert [line["path"] for line in lines if line.get("trace_id") == TRACE] == ["/v1/sweeps"]
    spans = collector.in_trace()
    assert {name: len(found) for name, found in spans.items()} == {
        "POST /v1/sweeps": 1,
        "job sweeps": 1,
        "compute": 1,
        "chunk": 2,
    }
    (request,), (whole,), (compute,) = (spans[name] for name in ("POST /v1/sweeps", "job sweeps", "compute"))
    assert (request.parent, whole.parent, compute.parent) == (CALLER, request.id, whole.id)
    assert {span.parent for span in spans["chunk"]} == {compute.id}
    ranges = [(span.attributes["ckpt.chunk.start"], span.attributes["ckpt.chunk.stop"]) for span in spans["chunk"]]
    assert sorted(ranges) == [(0, 256), (256, 257)]
    places = {(span.attributes["host.name"], span.attributes["process.pid"]) for span in [compute, *spans["chunk"]]}
    assert len(places) == 1
    assert (request.sender["process.pid"], request.sender["service.name"]) == (process.pid, "ckpt-serve")
    assert places.pop()[1] != process.pid
    assert sum(span.nanoseconds for span in spans["chunk"]) <= compute.nanoseconds <= whole.nanoseconds
    assert whole.attributes["ckpt.job.state"] == "done"
    assert {span.name for span in collector.spans()} == {*spans, "GET /v1/jobs/{job_id}", "GET /v1/scenarios"}
    sent = b"".join(collector.bodies)
    assert not [word for word in (b"gpt2", b"chalk", job.rpartition("/")[2].encode()) if word in sent]


@pytest.mark.long
def test_a_job_that_another_server_takes_over_goes_on_in_the_trace(
    collector: Collector, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conftest, "PROGRAM", steps.PROGRAM)
    let_go(tmp_path, 0)
    with traced(tmp_path) as (first, client):
        job = asked(client, "/v1/steps", {"folder": str(tmp_path)}, traceparent=TRACEPARENT)
        until(lambda: len(begun(tmp_path)) == 2)
        first.send_signal(signal.SIGTERM)
        first.wait(timeout=SECONDS_UNTIL_STUCK)
    with traced(tmp_path, log="log of another") as (second, client):
        let_go(tmp_path, 1, 2, 3)
        in_state(client, job, "done")
    spans = collector.in_trace()
    (request,) = spans["POST /v1/steps"]
    by = {each.sender["process.pid"]: each for each in spans["job steps"]}
    assert {pid: each.parent for pid, each in by.items()} == dict.fromkeys((first.pid, second.pid), request.id)
    states = [by[server.pid].attributes.get("ckpt.job.state") for server in (first, second)]
    assert (states, by[first.pid].attributes["error.type"]) == ([None, "done"], "CancelledError")
    steps_by = sorted((span.attributes["ckpt.chunk.start"], span.sender["process.pid"]) for span in spans["chunk"])
    assert steps_by == [(0, first.pid), (1, second.pid), (2, second.pid), (3, second.pid)]


@pytest.mark.long
def test_what_a_process_is_killed_in_and_a_refusal_are_errors_without_their_sentences(
    collector: Collector, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conftest, "PROGRAM", steps.PROGRAM)
    with traced(tmp_path) as (_, client):
        job = asked(client, "/v1/steps", {"folder": str(tmp_path), "kills": True}, traceparent=TRACEPARENT)
        in_state(client, job, "failed")
    spans = collector.in_trace()
    assert [span.attributes["error.type"] for span in spans["compute"]] == ["ProcessEnded"] * 3
    assert [span.attributes["ckpt.job.state"] for span in spans["job steps"]] == ["failed"]
    assert b"was not answered" not in b"".join(collector.bodies)


def test_by_default_nothing_is_sent_or_loaded_whatever_variables_say(
    collector: Collector, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FASTAPI_OTEL_AUTO_CONFIGURE", "true")
    program = (
        "import sys; from starlette.testclient import TestClient; from service.app import create_app; "
        "from service.settings import Settings\n"
        f"with TestClient(create_app(Settings(database_url='sqlite:///{tmp_path}/x.db'))) as client:\n"
        f"    client.get('/v1/catalogs/models', headers={{'traceparent': '{TRACEPARENT}'}})\n"
        "print([name for name in sys.modules if name.startswith(('opentelemetry.sdk', 'opentelemetry.exporter'))])"
    )
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert (answer.stdout, collector.bodies) == ("[]\n", [])


def test_a_collector_that_is_away_holds_up_neither_answers_nor_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Collector() as server:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
    with traced(tmp_path) as (process, client):
        assert client.get("/v1/jobs/none").status_code == 404
        start = time.monotonic()
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=SECONDS_UNTIL_STUCK)
        assert time.monotonic() - start < 10


def test_without_the_extra_a_sentence_says_what_to_install(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    sentence = "needs the OpenTelemetry SDK: pip install 'checkpoint-sizing[tracing]'."
    assert terminal("--tracing") == (2, "", f"error: --tracing {sentence}\n")
    monkeypatch.setenv("CKPT_SERVE_TRACING", "true")
    assert terminal() == (2, "", f"error: CKPT_SERVE_TRACING {sentence}\n")


@pytest.mark.long
def test_chunks_of_dask_name_the_processes_of_its_workers(collector: Collector, tmp_path: Path) -> None:
    with cluster(tmp_path) as running, traced(tmp_path, "--dask", running.address) as (process, client):
        job = asked(client, "/v1/sweeps", MANY_SCENARIOS, traceparent=TRACEPARENT)
        in_state(client, job, "done")
    spans = collector.in_trace()
    (compute,) = spans["compute"]
    assert len(spans["chunk"]) == 2
    assert {span.parent for span in spans["chunk"]} == {compute.id}
    computed_by = {span.attributes["process.pid"] for span in spans["chunk"]}
    assert computed_by.isdisjoint({process.pid, compute.attributes["process.pid"]})
