"""Notices of storage that became slower, to a webhook and by mail. No request waits: a thread delivers them."""

from __future__ import annotations

import ipaddress
import logging
import queue
import smtplib
import socket
import ssl
import threading
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from email.message import EmailMessage
from typing import Any
from urllib.parse import unquote, urlsplit

import httpx2

from service.settings import Settings

MAX_WAITING = 100
"""Notices that wait for delivery. A choice: more than one hour of a service whose every run is a loss."""
SECONDS_TO_ANSWER = 10
"""Max silence of a webhook or a mail server."""
PAUSES_SECONDS = (2.0, 20.0)
"""Before the second and the third attempt, which is the last. A choice: a restart of the receiver takes seconds."""
_SUBMISSION_PORTS = {"smtp": 587, "smtps": 465}
"""RFC 6409 and RFC 8314."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Notice:
    """Storage that became slower: what changed, since which run, who published it, what rests on it, what to do."""

    storage_system: str
    run_id: str
    text: str
    """The whole notice in words, under the name that chat programs read."""
    remedies: tuple[str, ...]
    changes: tuple[Mapping[str, Any], ...]
    scenarios: tuple[str, ...]
    page: str | None


class PrivateAddress(OSError):
    """Raised for a receiver on an address that is not public, where the settings do not allow it."""


class Notices:
    """Delivery of notices to where the settings say. Those that wait are lost where the process ends."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._channels: dict[str, Callable[[Notice], None]] = {}
        if settings.notify_webhook_url:
            self._channels["webhook"] = self.post
        if settings.notify_email_to:
            self._channels["mail"] = self.mail
        self._waiting: queue.Queue[Notice] = queue.Queue(MAX_WAITING)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self.deliver_all, name="notices", daemon=True)

    @property
    def has_receivers(self) -> bool:
        """Whether anybody is told."""
        return bool(self._channels)

    def tell(self, notice: Notice) -> None:
        """Let a notice be delivered later; one too many is dropped, which the log says."""
        try:
            self._waiting.put_nowait(notice)
        except queue.Full:
            self._report(logging.WARNING, "notice dropped", notice, reason=f"{MAX_WAITING} others wait")

    def start(self) -> None:
        """Start the thread that delivers, where anybody is to be told."""
        if self._channels:
            self._thread.start()

    def close(self) -> None:
        """Deliver no more; an attempt under way is left to itself."""
        self._ended.set()

    def deliver_all(self) -> None:
        """Deliver what waits, one after the other, until the end."""
        while not self._ended.is_set():
            try:
                notice = self._waiting.get(timeout=1)
            except queue.Empty:
                continue
            for channel, send in self._channels.items():
                self.deliver(channel, send, notice)

    def deliver(self, channel: str, send: Callable[[Notice], None], notice: Notice) -> None:
        """Deliver a notice by one channel, in as many attempts as there are pauses and one more."""
        for pause in (0.0, *PAUSES_SECONDS):
            if self._ended.wait(pause):
                return
            try:
                send(notice)
            except PrivateAddress:
                self._report(logging.WARNING, "notice refused", notice, channel, reason="its address is not public")
                return
            except (OSError, httpx2.HTTPError, smtplib.SMTPException) as error:  # what they say may hold secrets
                status = getattr(error, "smtp_code", None) or getattr(
                    getattr(error, "response", None), "status_code", ""
                )
                reason = f"{type(error).__name__} {status}".strip()
                self._report(logging.WARNING, "notice not delivered", notice, channel, reason=reason)
            else:
                self._report(logging.INFO, "notice delivered", notice, channel)
                return

    def post(self, notice: Notice) -> None:
        """Post a notice to the webhook, at the address that was checked. Raises HTTPError or OSError."""
        url = httpx2.URL(self._settings.notify_webhook_url)
        family = socket.getaddrinfo(url.host, url.port or url.scheme, type=socket.SOCK_STREAM)
        address = str(family[0][4][0])
        self._require_allowed(address)
        client = httpx2.Client(timeout=SECONDS_TO_ANSWER, trust_env=False, follow_redirects=False)
        with client:  # to the address that was checked: a name may have another one the next moment
            client.post(
                url.copy_with(host=address),
                json=asdict(notice),
                headers={"host": url.netloc.decode()},
                extensions={"sni_hostname": url.host},
            ).raise_for_status()

    def mail(self, notice: Notice) -> None:
        """Mail a notice, its password only under TLS. Raises SMTPException or OSError."""
        server, message = urlsplit(self._settings.notify_smtp_url), EmailMessage()
        message["Subject"] = f"Storage became slower: {' '.join(notice.storage_system.split())}"
        message["From"], message["To"] = self._settings.notify_email_from, self._settings.notify_email_to
        message.set_content(notice.text)
        host, port = server.hostname or "", server.port or _SUBMISSION_PORTS[server.scheme]
        tls, is_encrypted = ssl.create_default_context(), server.scheme == "smtps"
        with (
            smtplib.SMTP_SSL(host, port, timeout=SECONDS_TO_ANSWER, context=tls)
            if is_encrypted
            else smtplib.SMTP(host, port, timeout=SECONDS_TO_ANSWER)
        ) as connection:
            if connection.sock is None:  # it is there once connected, which both are
                raise smtplib.SMTPServerDisconnected
            self._require_allowed(connection.sock.getpeername()[0])
            if not is_encrypted and connection.ehlo() and connection.has_extn("starttls"):
                is_encrypted = bool(connection.starttls(context=tls))
            if server.username and not is_encrypted:
                raise smtplib.SMTPNotSupportedError
            if server.username:
                connection.login(unquote(server.username), unquote(server.password or ""))
            connection.send_message(message)

    def _require_allowed(self, address: str) -> None:
        parsed = ipaddress.ip_address(address.partition("%")[0])
        plain = getattr(parsed, "ipv4_mapped", None) or parsed
        if not self._settings.notify_private and (not plain.is_global or plain.is_multicast):
            raise PrivateAddress

    def _report(self, level: int, message: str, notice: Notice, channel: str = "", **fields: str) -> None:
        told = {"storage_system": notice.storage_system, "run_id": notice.run_id, "channel": channel, **fields}
        _log.log(level, message, extra={"fields": told})
