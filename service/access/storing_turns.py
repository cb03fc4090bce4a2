"""Turns for requests that store: they hold few threads, however long the database makes its writers wait."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from anyio import CapacityLimiter
from fastapi import Request, Response
from starlette.concurrency import run_in_threadpool

_Stored = TypeVar("_Stored")

MAX_STORING = 8
"""Requests of one worker that store at once: fewer than it has threads (40) and connections to PostgreSQL (10)."""


def storing_turns() -> CapacityLimiter:
    """The turns of one application."""
    return CapacityLimiter(MAX_STORING)


def in_turn(handler: Callable[[Request], Awaitable[Response]]) -> Callable[[Request], Coroutine[Any, Any, Response]]:
    """The handler, which first waits for its turn to store."""

    async def handle(request: Request) -> Response:
        turns: CapacityLimiter = request.app.state.storing_turns
        async with turns:
            return await handler(request)

    return handle


async def stored(request: Request, storing: Callable[[], _Stored]) -> _Stored:
    """What `storing` returns, done in a thread in its turn: for routes that store at the end of longer work."""
    turns: CapacityLimiter = request.app.state.storing_turns
    async with turns:
        return await run_in_threadpool(storing)
