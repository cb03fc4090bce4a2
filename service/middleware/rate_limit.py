"""Rate limit of each client, so that no client takes the service from the others."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field

from starlette.types import ASGIApp, Receive, Scope, Send

from service.access.client import client_of
from service.errors import TooManyRequests
from service.http.problems import refusal

SECONDS_OF_BURST = 10
"""A client that has been quiet may ask as much at once as otherwise in this time."""

_MAX_CLIENTS = 10_000
"""Max clients that are remembered, in a megabyte. Those who may ask again are forgotten first."""
_UNLIMITED = ("/healthz", "/readyz", "/metrics")


@dataclass(slots=True)
class Allowance:
    """Rate of each client by the generic cell rate algorithm (ITU-T I.371, annex A): one time per client."""

    per_second: float
    _paid_until: dict[str, float] = field(default_factory=dict)

    def seconds_to_wait(self, client: str, now: float) -> float:
        """Count the request and return 0, or return how long the client must wait.

        >>> allowance = Allowance(per_second=0.1)
        >>> [allowance.seconds_to_wait("a", now) for now in (0, 0, 10)], allowance.seconds_to_wait("b", 0)
        ([0.0, 10.0, 0.0], 0.0)
        """
        paid_until = max(self._paid_until.get(client, now), now) + 1 / self.per_second
        wait = paid_until - now - max(SECONDS_OF_BURST, 1 / self.per_second)
        if wait > 0:
            return wait
        if len(self._paid_until) >= _MAX_CLIENTS:
            self._paid_until = {known: moment for known, moment in self._paid_until.items() if moment > now}
        self._paid_until[client] = paid_until
        return 0.0


class RateLimit:
    """Middleware that refuses requests beyond the rate of a client's address."""

    def __init__(self, app: ASGIApp, *, requests_per_second: float) -> None:
        self.app = app
        self.allowance = Allowance(requests_per_second)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        app = self.app
        if scope["type"] == "http" and scope["path"] not in _UNLIMITED:
            seconds = math.ceil(self.allowance.seconds_to_wait(client_of(scope), time.monotonic()))
            if seconds:
                rule = f"may send {self.allowance.per_second:g} requests per second"
                response = refusal(TooManyRequests.of("the client", rule, value=None, remedy=f"wait {seconds} s"))
                response.headers["Retry-After"] = str(seconds)
                app = response
        await app(scope, receive, send)
