"""Routes that take JSON: first the token, then the body within its limits, then a turn to store."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request, Response
from fastapi.routing import APIRoute
from starlette.concurrency import run_in_threadpool

from service.access.client import client_of
from service.access.scopes import TokenWith
from service.access.storing_turns import in_turn
from service.compute.fair_turns import FairTurns
from service.compute.pool import SECONDS_TO_WAIT
from service.http.connected import seen_through
from service.http.json_bodies import JsonRequest
from service.settings import Settings


class JsonRoute(APIRoute):
    """A route that takes its body as a JsonRequest, once the token that it needs has been seen.

    Where it stores, it waits for its turn before it takes a thread.
    """

    is_open = False
    """Whether it demands no token where a login is required."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The handler, after the body has been read and parsed."""
        handler = super().get_route_handler()
        demands = [needed.call for needed in self.dependant.dependencies if isinstance(needed.call, TokenWith)]
        if any(demand.stores for demand in demands) and not inspect.iscoroutinefunction(self.endpoint):
            handler = in_turn(handler)
        if self.body_field is None:
            return handler

        async def handle(request: Request) -> Response:
            settings: Settings = request.app.state.settings
            for demand in demands or ([TokenWith("read")] if settings.require_login and not self.is_open else []):
                await run_in_threadpool(demand, request)
            json_request = JsonRequest(request.scope, request.receive)
            await json_request.read_document(max_bytes=self.max_bytes(settings), max_seconds=settings.body_seconds)
            if json_request.is_large:
                await self._validate(json_request)
            return await handler(json_request)

        return handle

    async def _validate(self, request: JsonRequest) -> None:
        """Validate a large document in a thread, in the client's turn. Raises InvalidInput."""
        turns: FairTurns = request.app.state.validation_turns
        async with turns.turn(client_of(request.scope), max_seconds=SECONDS_TO_WAIT):
            request.validated = await seen_through(run_in_threadpool(self._validated, request.document))

    def _validated(self, document: Any) -> Any:
        """What a document stands for; nothing where the route has to say what is wrong."""
        return self.body_field.validate(document)[0] if self.body_field else None

    def max_bytes(self, settings: Settings) -> int:
        """The largest body that the route reads."""
        return settings.max_body_bytes


class OpenJsonRoute(JsonRoute):
    """A route for who has no token yet."""

    is_open = True


class ResultRoute(JsonRoute):
    """A route that takes benchmark results, which are larger than questions."""

    def max_bytes(self, settings: Settings) -> int:
        """The largest result document that is read."""
        return settings.max_result_bytes
