"""Limits of connections: how many there may be in all, and from one client."""

from __future__ import annotations

from typing import Protocol

from service.access.client import client_at, trusted_by
from service.settings import Settings
from service.telemetry import Metrics

_LEAST_UNFAIR = 2
"""A client with so many more connections than a newcomer loses one to it. Less would only exchange the two."""


class LimitedConnection(Protocol):
    """A connection, as far as its limits need to know it."""

    @property
    def is_waiting(self) -> bool:
        """Whether no request of the connection is being answered."""

    def give_way(self) -> None:
        """Close the connection."""


class ConnectionLimits:
    """The connections of one server, and how many more it takes."""

    def __init__(self, settings: Settings, metrics: Metrics) -> None:
        self._metrics = metrics
        self._is_trusted = trusted_by(settings.trusted_proxies)
        self._max_of_all = settings.max_connections
        self._max_of_client = settings.client_connections
        self._proxies: list[LimitedConnection] = []
        self._inside: dict[str, list[LimitedConnection]] = {}

    def enter(self, host: str, connection: LimitedConnection) -> bool:
        """Count a connection from `host` until it leaves, and tell whether it is let in.

        A trusted proxy is many clients. Where all places are taken, one that waits gives way, of the client with the
        most.
        """
        is_proxy, num_inside = self._is_trusted(host), len(self._inside.get(client_at(host), ()))
        is_full = len(self._proxies) + sum(map(len, self._inside.values())) >= self._max_of_all
        if (not is_proxy and num_inside >= self._max_of_client) or (is_full and not self._makes_room(num_inside)):
            self.note_end("too-many")
            return False
        self._place_of(host).append(connection)
        self._metrics.client_connections.inc()
        return True

    def leave(self, host: str, connection: LimitedConnection) -> None:
        """Count a connection no longer that was let in."""
        self._metrics.client_connections.dec()
        place = self._place_of(host)
        place.remove(connection)
        if not place:
            self._inside.pop(client_at(host), None)

    def note_end(self, reason: str) -> None:
        """Count a connection that was ended for what its client did, or failed to do."""
        self._metrics.ended_connections.labels(reason).inc()

    def _place_of(self, host: str) -> list[LimitedConnection]:
        return self._proxies if self._is_trusted(host) else self._inside.setdefault(client_at(host), [])

    def _makes_room(self, num_inside: int) -> bool:
        most = max(self._inside.values(), key=len, default=[])
        waiting = next((connection for connection in most if connection.is_waiting), None)
        if waiting is None or len(most) - num_inside < _LEAST_UNFAIR:
            return False
        self.note_end("too-many")
        waiting.give_way()
        return True
