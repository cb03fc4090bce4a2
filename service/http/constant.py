"""Answers that do not change while the service runs: with an ETag, and packed for who takes that."""

from __future__ import annotations

import functools
import gzip
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Header
from starlette.responses import Response

from service.http.etags import etag_of, is_among
from service.http.problems import Responses

_MIN_PACKED_BYTES = 1024
"""Less than that fits one packet anyway."""

NOT_MODIFIED: Responses = {304: {"description": "Not Modified"}}
"""What OpenAPI says of a route with such an answer."""


@dataclass(frozen=True)
class Constant:
    """Content that does not change, its media type and headers."""

    content: bytes
    media_type: str = "application/json"
    content_security_policy: str = ""
    """Of a page; empty for what no browser shows."""
    max_age_seconds: int = 0
    """For which a browser keeps it without asking again."""

    @functools.cached_property
    def etag(self) -> str:
        """The tag of this content."""
        return etag_of(self.content)

    @functools.cached_property
    def packed(self) -> bytes:
        """The content as gzip, made once."""
        return gzip.compress(self.content, mtime=0)

    def response(self, if_none_match: str | None, accept_encoding: str | None = None) -> Response:
        """The content, or 304 where the client has it."""
        freshness = f"max-age={self.max_age_seconds}" if self.max_age_seconds else "no-cache"
        headers = {"ETag": self.etag, "Cache-Control": freshness, "Vary": "Accept, Accept-Encoding"}
        if self.content_security_policy:
            headers["Content-Security-Policy"] = self.content_security_policy
        if is_among(self.etag, if_none_match):
            return Response(status_code=304, headers=headers)
        if len(self.content) >= _MIN_PACKED_BYTES and _takes_gzip(accept_encoding):
            return Response(self.packed, headers=headers | {"Content-Encoding": "gzip"}, media_type=self.media_type)
        return Response(self.content, headers=headers, media_type=self.media_type)


def _takes_gzip(accept_encoding: str | None) -> bool:
    """Whether a client takes gzip, by name: who says `*` or nothing may be a simple program.

    >>> _takes_gzip("br, gzip;q=0.8"), _takes_gzip("gzip;q=0"), _takes_gzip(None)
    (True, False, False)
    """
    codings = [coding.strip().replace(" ", "") for coding in (accept_encoding or "").lower().split(",")]
    return any(coding.startswith("gzip") and not coding.endswith((";q=0", ";q=0.0")) for coding in codings)


async def sender(
    if_none_match: Annotated[
        str | None, Header(description="ETag of an earlier answer. The answer is 304 when it has not changed.")
    ] = None,
    accept_encoding: Annotated[str | None, Header(include_in_schema=False)] = None,
) -> Callable[[Constant], Response]:
    """What sends constant content as the headers of a request ask for it."""
    return functools.partial(Constant.response, if_none_match=if_none_match, accept_encoding=accept_encoding)


Sender = Annotated[Callable[[Constant], Response], Depends(sender)]
