"""Delivery: what waits in the spool is sent, again and again with longer pauses, until the service has it."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http import HTTPStatus

from io_bench.publishing.destination import TOKEN_VARIABLE, Destination
from io_bench.publishing.spool import Spool
from service_client.client import Client
from service_client.errors import Refused, Unavailable

FIRST_PAUSE_SECONDS = 0.5
"""A service that restarts is back in a second or two."""
MAX_PAUSE_SECONDS = 30.0
"""So that a service which was away for an hour is not asked by a thousand nodes at once, and not much later than
needed."""

_WRONG_ADDRESS_OR_TOKEN = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND)


@dataclass(slots=True)
class Delivery:
    """How a delivery went, by run ids. `reason` says why something still waits."""

    published: list[str] = field(default_factory=list)
    already_there: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    waiting: list[str] = field(default_factory=list)
    reason: str = ""

    @property
    def is_complete(self) -> bool:
        """Whether the service keeps every run."""
        return not (self.refused or self.waiting)

    def sentences(self) -> Iterator[str]:
        """What a user wants to know of it."""
        if self.published:
            yield f"Published {', '.join(self.published)}."
        if self.already_there:
            yield f"Already published: {', '.join(self.already_there)}."
        yield from self.refused
        if self.waiting:
            yield f"{self.reason} Kept in the spool for the next ckpt-bench publish: {', '.join(self.waiting)}."


def deliver(
    spool: Spool,
    destination: Destination,
    *,
    token: str | None,
    patience_seconds: float,
    note: Callable[[str], None],
) -> Delivery:
    """Send everything that waits; what cannot be delivered within `patience_seconds` goes on waiting.

    `note` is told of every pause.
    """
    delivery = Delivery()
    with Client(destination.url, token=token) as client:
        service = _Patient(client, destination.system, time.monotonic() + patience_seconds, note)
        for run_id in spool.waiting():
            try:
                _deliver_one(run_id, spool, delivery, service)
            except Unavailable as error:
                delivery.reason = f"{error}."
                if error.status != HTTPStatus.INTERNAL_SERVER_ERROR:  # a defect may be met by this run alone
                    break
            except Refused as error:
                delivery.reason = f"{error} Check the token in {TOKEN_VARIABLE}."
                break
    if delivery.reason:
        delivery.waiting = spool.waiting()
    return delivery


@dataclass(frozen=True, slots=True)
class _Patient:
    """A client that tries again until a deadline."""

    client: Client
    system: str
    deadline: float
    note: Callable[[str], None]

    def publish(self, document: bytes) -> bool:
        """Whether the run is new. Raises Refused, or Unavailable at the deadline."""
        pause = FIRST_PAUSE_SECONDS
        while True:
            try:
                return self.client.publish(self.system, document)
            except Unavailable as error:
                # Nodes that failed together must not come back together.
                wait = max(error.retry_after_seconds, pause * random.uniform(0.5, 1.5))  # noqa: S311 - no secret
                if time.monotonic() + wait > self.deadline:
                    raise
                self.note(f"{error}. Retry in {wait:.0f} s.")
                time.sleep(wait)
                pause = min(2 * pause, MAX_PAUSE_SECONDS)


def _deliver_one(run_id: str, spool: Spool, delivery: Delivery, service: _Patient) -> None:
    document = spool.document(run_id)
    if document is None:
        return
    try:
        is_new = service.publish(document)
    except Refused as error:
        if _concerns_every_run(error):
            raise
        place = spool.set_aside(run_id, str(error))
        delivery.refused.append(f"The service refused {run_id}: {error} It was moved to {place}.")
        return
    spool.remove(run_id)
    (delivery.published if is_new else delivery.already_there).append(run_id)


def _concerns_every_run(error: Refused) -> bool:
    """Whether the refusal ends when somebody corrects link or token, or asks past who answers in the service's place.

    A proxy that redirects has no `code` of the service's. One that finds a run too large speaks of that run.
    """
    is_the_services = bool(error.code) or error.status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE
    return error.status in _WRONG_ADDRESS_OR_TOKEN or not is_the_services
