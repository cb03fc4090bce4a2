"""A limit of requests that store at once: they hold few threads, however long the database makes its writers wait."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from anyio import CapacityLimiter
from fastapi import Request, Response
from starlette.concurrency import run_in_threadpool

_Row = TypeVar("_Row")

MAX_STORING = 8
"""Requests of one worker that store at once: fewer than it has threads (40) and connections to PostgreSQL (10)."""


def new_write_limiter() -> CapacityLimiter:
    """Make the limiter of one application."""
    return CapacityLimiter(MAX_STORING)


def limit_writes(
    handler: Callable[[Request], Awaitable[Response]],
) -> Callable[[Request], Coroutine[Any, Any, Response]]:
    """Make a handler wait for its turn to store."""

    async def handle(request: Request) -> Response:
        limiter: CapacityLimiter = request.app.state.write_limiter
        async with limiter:
            return await handler(request)

    return handle


async def store_in_turn(request: Request, store: Callable[[], _Row]) -> _Row:
    """Run `store` in a thread in its turn and return what it returns, for routes that store after longer work."""
    limiter: CapacityLimiter = request.app.state.write_limiter
    async with limiter:
        return await run_in_threadpool(store)
