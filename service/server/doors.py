"""Who may connect, and how many connections there may be: in all, and from one client."""

from __future__ import annotations

from typing import Protocol

from service.access.client import client_at, trusted_by
from service.settings import Settings
from service.telemetry.metrics import Metrics

_LEAST_UNFAIR = 2
"""By so many more connections of a client, one of them gives way to a newcomer: less would only change seats."""


class Visitor(Protocol):
    """A connection, as the doors see it."""

    @property
    def is_waiting(self) -> bool:
        """Whether it has asked nothing that is being answered."""

    def give_way(self) -> None:
        """Close it."""


class Doors:
    """The connections of one server."""

    def __init__(self, settings: Settings, metrics: Metrics) -> None:
        self._metrics = metrics
        self._is_trusted = trusted_by(settings.trusted_proxies)
        self._max_of_all = settings.max_connections
        self._max_of_client = settings.client_connections
        self._proxies: list[Visitor] = []
        self._inside: dict[str, list[Visitor]] = {}

    def enter(self, host: str, visitor: Visitor) -> bool:
        """Whether a connection from there is let in; who is counts until it leaves. A trusted proxy is many clients.

        Where all places are taken, one that waits gives way, of the client with the most.
        """
        is_proxy, num_inside = self._is_trusted(host), len(self._inside.get(client_at(host), ()))
        is_full = len(self._proxies) + sum(map(len, self._inside.values())) >= self._max_of_all
        if (not is_proxy and num_inside >= self._max_of_client) or (is_full and not self._makes_room(num_inside)):
            self.note_end("too-many")
            return False
        self._place_of(host).append(visitor)
        self._metrics.client_connections.inc()
        return True

    def leave(self, host: str, visitor: Visitor) -> None:
        """One of those let in from there is closed."""
        self._metrics.client_connections.dec()
        place = self._place_of(host)
        place.remove(visitor)
        if not place:
            self._inside.pop(client_at(host), None)

    def note_end(self, reason: str) -> None:
        """Count a connection that was ended for what its client did, or left undone."""
        self._metrics.ended_connections.labels(reason).inc()

    def _place_of(self, host: str) -> list[Visitor]:
        return self._proxies if self._is_trusted(host) else self._inside.setdefault(client_at(host), [])

    def _makes_room(self, num_inside: int) -> bool:
        most = max(self._inside.values(), key=len, default=[])
        waiting = next((visitor for visitor in most if visitor.is_waiting), None)
        if waiting is None or len(most) - num_inside < _LEAST_UNFAIR:
            return False
        self.note_end("too-many")
        waiting.give_way()
        return True
