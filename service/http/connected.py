"""Questions that end when their client is gone."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from fastapi import Request

from service.errors import ClientGone

_Answer = TypeVar("_Answer")


async def while_connected(request: Request, asking: Coroutine[Any, Any, _Answer]) -> _Answer:
    """What `asking` returns, cancelled when the client closes the connection. The body has been read before.

    Raises ClientGone, and what `asking` raises.
    """
    asked, gone = asyncio.ensure_future(asking), asyncio.ensure_future(_until_gone(request))
    try:
        await asyncio.wait((asked, gone), return_when=asyncio.FIRST_COMPLETED)
        if not asked.done():
            raise ClientGone
        return asked.result()
    finally:
        gone.cancel()
        if not asked.done():
            asked.cancel()
            await asyncio.wait((asked,))
            if not asked.cancelled():
                asked.exception()  # seen, though nobody asks


async def seen_through(asking: Coroutine[Any, Any, _Answer]) -> _Answer:
    """What `asking` returns. Who cancels waits until it has ended: for threads, which nothing stops."""
    asked = asyncio.ensure_future(asking)
    try:
        return await asyncio.shield(asked)
    except asyncio.CancelledError:
        await asyncio.wait((asked,))
        raise


async def _until_gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
