"""Cancellation of questions whose client has closed the connection."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from fastapi import Request

from service.errors import ClientGone

_Answer = TypeVar("_Answer")


async def while_connected(request: Request, asking: Coroutine[Any, Any, _Answer]) -> _Answer:
    """Return what `asking` returns, cancelled when the client disconnects. The body must be read before.

    Raises ClientGone, and what `asking` raises.
    """

    async def wait_for_end() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    answer, end = asyncio.ensure_future(asking), asyncio.ensure_future(wait_for_end())
    try:
        await asyncio.wait((answer, end), return_when=asyncio.FIRST_COMPLETED)
        if not answer.done():
            raise ClientGone
        return answer.result()
    finally:
        end.cancel()
        if not answer.done():
            answer.cancel()
            await asyncio.wait((answer,))
            if not answer.cancelled():
                answer.exception()  # seen, though nobody asks


async def see_through(asking: Coroutine[Any, Any, _Answer]) -> _Answer:
    """Return what `asking` returns. Cancellation waits until it has ended: for threads, which nothing stops."""
    answer = asyncio.ensure_future(asking)
    try:
        return await asyncio.shield(answer)
    except asyncio.CancelledError:
        await asyncio.wait((answer,))
        raise
