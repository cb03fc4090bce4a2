"""Notices of storage that became slower: told to a webhook and by mail, after the request, and to nobody else."""

from __future__ import annotations

import json
import logging
import socketserver
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from service import notices
from service.app import create_app
from service.notices import Notice, Notices
from service.settings import Settings
from sizing.errors import InvalidInput
from sizing.scenario import REFERENCE_SCENARIO
from tests.service.conftest import NUM_EVEN_RUNS, bearer, created_token, result_document, stored
from tests.sizing.storage.calibration.simulation import FULL_SCAN, result
from tests.testbed.processes import until

HIDDEN = "of-the-webhook"
NOTICE = Notice("scratch", "slow", "scratch:\nSlower.", ("Run it again.",), ({"change": "loss"},), ("night",), None)


class _Mailbox(socketserver.StreamRequestHandler):
    """The server's side of RFC 5321, for one mail."""

    server: _MailServer

    def handle(self) -> None:
        self._say("220 test")
        for line in iter(self.rfile.readline, b""):
            verb = line[:4].upper()
            if verb == b"DATA":
                self._say("354 go on")
                self.server.mails.append(b"".join(iter(self.rfile.readline, b".\r\n")).decode())
            self._say("221 bye" if verb == b"QUIT" else "250 ok")

    def _say(self, text: str) -> None:
        self.wfile.write(f"{text}\r\n".encode())


class _MailServer(socketserver.ThreadingTCPServer):
    mails: list[str]


@contextmanager
def _served(server: socketserver.TCPServer) -> Iterator[str]:
    """Serve in a thread: the port."""
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield str(server.server_address[1])
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def _webhook(status: int = 200) -> Iterator[tuple[str, list[bytes]]]:
    """A receiver that answers with a status: its address, and what it was sent."""
    received: list[bytes] = []

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            received.append(self.rfile.read(int(self.headers["content-length"])))
            self.send_response(status)
            self.send_header("location", "http://192.0.2.1/")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with _served(HTTPServer(("127.0.0.1", 0), Receiver)) as port:
        yield f"http://127.0.0.1:{port}/{HIDDEN}", received


def _settings(**given: object) -> Settings:
    return Settings.model_validate({"database_url": "sqlite://", "notify_private": True, **given})


def _told(settings: Settings, logged: Callable[[], int]) -> None:
    """Tell one notice, and wait for as many lines of the log as come of it."""
    delivery = Notices(settings)
    delivery.start()
    delivery.tell(NOTICE)
    until(logged)
    delivery.close()


def test_a_run_that_became_slower_is_told_with_its_publisher_and_the_scenarios_that_rest_on_it(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/x.db"
    mail_server = _MailServer(("127.0.0.1", 0), _Mailbox)
    mail_server.mails = []
    with _webhook() as (webhook, received), _served(mail_server) as mail_port:
        settings = _settings(
            database_url=url, notify_webhook_url=webhook, notify_email_to="a@example.org,b@example.org",
            notify_email_from="sizing@example.org", notify_smtp_url=f"smtp://127.0.0.1:{mail_port}",
        )  # fmt: skip
        app = create_app(settings)
        with TestClient(app, headers=bearer(created_token(url, "night-bench"))) as client:
            stored(client, "/v1/storage-systems", {"name": "scratch", "description": ""})
            for number in range(NUM_EVEN_RUNS):
                document = result_document(f"even-{number}", seconds=2.0 + 0.01 * (number % 3))
                stored(client, "/v1/storage-systems/scratch/runs", document)
            scan = result(FULL_SCAN, run_id="scan").model_dump(mode="json")
            stored(client, "/v1/storage-systems/scratch/runs", scan)
            made = client.post("/v1/storage-systems/scratch/calibrations", json={}).json()
            rests = REFERENCE_SCENARIO | {"storage": {"calibration": made["id"]}}
            stored(client, "/v1/scenarios", {"name": "the night run", "scenario": rests})
            stored(client, "/v1/storage-systems/scratch/runs", result_document("slow", seconds=3.0))
            until(lambda: received and mail_server.mails)
            words = client.get(
                "/v1/storage-systems/scratch/trend",
                headers={"accept": "application/vnd.checkpoint-sizing.presentation+json"},
            ).json()
    (body,), (mail,) = received, mail_server.mails
    notice = json.loads(body)
    assert (notice["storage_system"], notice["run_id"], notice["scenarios"]) == ("scratch", "slow", ["the night run"])
    assert [change["run_id"] for change in notice["changes"]] == ["slow"]
    assert "by night-bench" in words["verdict"]
    assert "the night run" in words["remedies"][-1]
    for line in (*words["verdict"].split("\n"), *words["remedies"]):
        assert line in notice["text"]
    assert "To: a@example.org,b@example.org" in mail
    assert "Subject: Storage became slower: scratch" in mail


def test_a_receiver_that_fails_is_tried_three_times_and_no_secret_is_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(notices, "PAUSES_SECONDS", (0.0, 0.0))
    with _webhook(status=302) as (webhook, received), caplog.at_level(logging.INFO, logger="service.notices"):
        _told(_settings(notify_webhook_url=webhook), lambda: len(caplog.records) == 3)
    assert len(received) == 3
    logged = [vars(record) for record in caplog.records]
    assert {each["fields"]["reason"] for each in logged} == {"HTTPStatusError 302"}
    assert HIDDEN not in str(logged)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]"])
def test_an_address_that_is_not_public_is_told_nothing_unless_a_setting_allows_it(
    host: str, caplog: pytest.LogCaptureFixture
) -> None:
    with _webhook() as (webhook, received), caplog.at_level(logging.INFO, logger="service.notices"):
        address = webhook.replace("127.0.0.1", host)
        _told(_settings(notify_webhook_url=address, notify_private=False), lambda: len(caplog.records) == 1)
    assert caplog.messages == ["notice refused"]
    assert received == []


def test_a_notice_too_many_is_dropped_and_nobody_waits(caplog: pytest.LogCaptureFixture) -> None:
    delivery = Notices(_settings(notify_webhook_url="https://hooks.example.org/x"))
    for _ in range(notices.MAX_WAITING + 1):
        delivery.tell(NOTICE)
    assert caplog.messages == ["notice dropped"]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"notify_email_to": "a@example.org"}, "set CKPT_SERVE_NOTIFY_SMTP_URL, CKPT_SERVE_NOTIFY_EMAIL_FROM"),
        ({"notify_webhook_url": f"http://example.org/{HIDDEN}"}, "notify_webhook_url must begin with https://"),
        ({"notify_smtp_url": f"http://user:{HIDDEN}@mail"}, "must begin with smtp:// or smtps://"),
    ],
)
def test_settings_without_which_no_mail_is_sent_are_refused(given: dict[str, str], said: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        _settings(**given)
    assert said in str(refused.value)
    assert HIDDEN not in str(refused.value)
