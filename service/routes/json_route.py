"""Routes that take JSON: they check the token, read the body within its limits, and wait for the write limiter."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request, Response
from fastapi.routing import APIRoute
from starlette.concurrency import run_in_threadpool

from service.access.client import client_of
from service.access.scopes import TokenWith
from service.access.write_limiter import limit_writes
from service.compute.fair_turns import FairTurns
from service.compute.pool import SECONDS_TO_WAIT
from service.http.bodies import JsonRequest
from service.http.connected import see_through, while_connected
from service.settings import Settings


class JsonRoute(APIRoute):
    """Route that takes its body as a JsonRequest, after the token has been checked.

    Where it stores, it waits for its turn before it takes a thread.
    """

    is_open = False
    """Whether it demands no token where a login is required."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the handler, which runs after the body has been read and parsed."""
        handler = super().get_route_handler()
        demands = [needed.call for needed in self.dependant.dependencies if isinstance(needed.call, TokenWith)]
        if any(demand.stores for demand in demands) and not inspect.iscoroutinefunction(self.endpoint):
            handler = limit_writes(handler)
        if self.body_field is None:
            return handler

        async def handle(request: Request) -> Response:
            settings: Settings = request.app.state.settings
            for demand in demands or ([TokenWith("read")] if settings.require_login and not self.is_open else []):
                await run_in_threadpool(demand, request)
            json_request, room = JsonRequest(request.scope, request.receive), request.app.state.body_room
            max_bytes = self.max_bytes(settings)
            with room.of(client_of(request.scope)) as take:
                await json_request.read(max_bytes=max_bytes, max_seconds=settings.body_seconds, take=take)
                await self._parse_in_turn(json_request, max_bytes, take)
                return await handler(json_request)

        return handle

    async def _parse_in_turn(self, request: JsonRequest, max_bytes: int, take: Callable[[int], None]) -> None:
        """Parse and validate the document of a request in its client's turn, a large one in a thread.

        Where the document breaks a rule of FastAPI's, nothing is noted, and the route reports what is wrong.
        Raises InvalidInput.
        """
        client, state = client_of(request.scope), request.app.state
        loop_turns: FairTurns = state.loop_turns
        body_turns: FairTurns = state.body_turns

        def parse() -> None:
            request.parse(max_bytes=max_bytes, take=take)
            if self.body_field is not None:
                request.validated, _ = self.body_field.validate(request.document)

        async def parse_in_thread() -> None:
            async with body_turns.turn(client, max_seconds=SECONDS_TO_WAIT):
                await see_through(run_in_threadpool(parse))

        if request.is_large:
            await while_connected(request, parse_in_thread())
        else:
            async with loop_turns.step(client, max_seconds=SECONDS_TO_WAIT):
                parse()

    def max_bytes(self, settings: Settings) -> int:
        """Return the max bytes of a body that the route reads."""
        return settings.max_body_bytes


class OpenJsonRoute(JsonRoute):
    """Route for clients that have no token yet."""

    is_open = True


class ResultRoute(JsonRoute):
    """Route that takes benchmark results, which are larger than questions."""

    def max_bytes(self, settings: Settings) -> int:
        """Return the max bytes of a result document."""
        return settings.max_result_bytes
