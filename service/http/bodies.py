"""Request bodies as they arrive: within their limit of bytes and time, and unpacked.

A gzip body counts by what it unpacks to, and is unpacked no further than the limit: a bomb costs what an honest
body of the limit costs.
"""

from __future__ import annotations

import asyncio
import zlib
from typing import Protocol

from fastapi import Request
from starlette.requests import ClientDisconnect

from service.errors import BodyTooLarge, BodyTooSlow, InvalidJson, UnsupportedMediaType

_GZIP = zlib.MAX_WBITS | 16
"""zlib's flag for a gzip header."""


class _Unpacker(Protocol):
    def feed(self, chunk: bytes, *, max_bytes: int) -> bytes:
        """What the next bytes unpack to, cut at `max_bytes`."""

    def check_end(self) -> None:
        """Raise InvalidJson where the body ends too early."""


async def body_of(request: Request, *, max_bytes: int, max_seconds: float) -> bytes:
    """The body of a request, unpacked.

    Raises BodyTooLarge, BodyTooSlow, UnsupportedMediaType for what is packed otherwise than by gzip, or InvalidJson
    for a body that is not complete.
    """
    unpacker = _unpacker_for(request.headers.get("content-encoding", "identity").strip().lower())
    declared = request.headers.get("content-length", "0")
    _limit(int(declared) if declared.isdecimal() else 0, max_bytes)
    body = bytearray()
    try:
        async with asyncio.timeout(max_seconds):
            async for chunk in request.stream():
                body += unpacker.feed(chunk, max_bytes=max_bytes + 1 - len(body))
                _limit(len(body), max_bytes)
    except ClientDisconnect:
        raise _incomplete() from None
    except TimeoutError:
        rule = f"must arrive within {max_seconds:g} seconds"
        raise BodyTooSlow.of("body", rule, value=None, remedy="send it faster") from None
    unpacker.check_end()
    return bytes(body)


class _Plain:
    def feed(self, chunk: bytes, *, max_bytes: int) -> bytes:
        return chunk[:max_bytes]

    def check_end(self) -> None:
        pass


class _Gzip:
    def __init__(self) -> None:
        self._decompressor = zlib.decompressobj(_GZIP)
        self._started = False

    def feed(self, chunk: bytes, *, max_bytes: int) -> bytes:
        self._started = self._started or bool(chunk)
        try:
            unpacked = self._decompressor.decompress(chunk, max_bytes)
        except zlib.error as error:
            raise _no_gzip(str(error)) from None
        if self._decompressor.unused_data:
            raise _no_gzip("data after its end")
        return unpacked

    def check_end(self) -> None:
        if self._started and not self._decompressor.eof:
            raise _incomplete()


def _unpacker_for(encoding: str) -> _Unpacker:
    if encoding == "identity":
        return _Plain()
    if encoding == "gzip":
        return _Gzip()
    raise UnsupportedMediaType.of(
        "content-encoding", "must be gzip or identity", value=encoding, remedy="use one of these"
    )


def _limit(num_bytes: int, max_bytes: int) -> None:
    if num_bytes > max_bytes:
        raise BodyTooLarge.of(
            "body", f"must have at most {max_bytes:,} bytes", value=None, remedy="send a smaller document"
        )


def _incomplete() -> Exception:
    return InvalidJson.of("body", "must be complete", value=None, remedy="send the whole body")


def _no_gzip(reason: str) -> Exception:
    return InvalidJson.of(
        "body", f"must be gzip ({reason})", value=None, remedy="compress it again, or send it without compression"
    )
