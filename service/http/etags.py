"""ETags (RFC 9110, section 8.8.3): which state of a document a client has seen, and answers that do not change.

Content that does not change while the service runs is sent with an ETag, and packed for who takes that.
"""

from __future__ import annotations

import functools
import gzip
import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Header
from starlette.responses import Response

from service.errors import ChangedMeanwhile, NoPrecondition
from service.http.accept import takes_gzip
from service.http.problems import Responses, described_headers

_DIGITS = 32
"""128 bits: no two states of a document have the same by chance."""
_WEAK = "W/"


def etag_of(content: bytes) -> str:
    """Return the strong ETag of a document.

    >>> etag_of(b"{}")
    '"44136fa355b3678a1146ad16f7e8649e"'
    """
    return f'"{hashlib.sha256(content).hexdigest()[:_DIGITS]}"'


def weak_etag_of(content: bytes) -> str:
    """Return the weak ETag of content that is sent in several forms, such as compressed, under one address.

    >>> weak_etag_of(b"{}")
    'W/"44136fa355b3678a1146ad16f7e8649e"'
    """
    return f"{_WEAK}{etag_of(content)}"


def is_among(etag: str, header: str | None) -> bool:
    """Tell whether the header If-None-Match names an ETag, or `*`; weak and strong tags compare equal.

    >>> is_among('"a"', 'W/"b", "a"'), is_among('W/"a"', '"a"'), is_among('"a"', "*"), is_among('"a"', None)
    (True, True, True, False)
    """
    known = [tag.strip().removeprefix(_WEAK) for tag in (header or "").split(",")]
    return etag.removeprefix(_WEAK) in known or "*" in known


def require_match(etag: str, if_match: str | None) -> None:
    """Refuse a change to a state that the client has not seen. Raises NoPrecondition or ChangedMeanwhile."""
    if if_match is None:
        raise NoPrecondition.of(
            "if-match", "is missing", value=None, remedy="send the ETag that GET answers, so that no change is lost"
        )
    if if_match.strip() != "*" and etag not in [tag.strip() for tag in if_match.split(",")]:  # weak ones never match
        raise ChangedMeanwhile.of(
            "if-match", "must be the present ETag", value=if_match, remedy="get it again, and then decide"
        )


_MIN_PACKED_BYTES = 1024
"""Min size of what is packed: less fits one packet anyway."""

NOT_MODIFIED: Responses = {
    200: described_headers("ETag"),
    304: {"description": "Not Modified"} | described_headers("ETag"),
}
"""OpenAPI description of a route that sends an ETag, and no content to who has it."""


@dataclass(frozen=True)
class Constant:
    """Content that does not change, with its media type and headers."""

    content: bytes
    media_type: str = "application/json"
    content_security_policy: str = ""
    """Content-Security-Policy of a page; empty for what no browser shows."""
    max_age_seconds: int = 0
    """Time for which a browser keeps it without asking again."""

    @functools.cached_property
    def etag(self) -> str:
        """ETag of the content: weak, as the plain and the gzip form have different bytes."""
        return weak_etag_of(self.content)

    @functools.cached_property
    def packed(self) -> bytes:
        """Content as gzip, made once."""
        return gzip.compress(self.content, mtime=0)

    def response(self, if_none_match: str | None, accept_encoding: str | None = None) -> Response:
        """Return the content, or 304 where the client has it."""
        freshness = f"max-age={self.max_age_seconds}" if self.max_age_seconds else "no-cache"
        headers = {"ETag": self.etag, "Cache-Control": freshness, "Vary": "Accept, Accept-Encoding"}
        if self.content_security_policy:
            headers["Content-Security-Policy"] = self.content_security_policy
        if is_among(self.etag, if_none_match):
            return Response(status_code=304, headers=headers)
        if len(self.content) >= _MIN_PACKED_BYTES and takes_gzip(accept_encoding):
            return Response(self.packed, headers=headers | {"Content-Encoding": "gzip"}, media_type=self.media_type)
        return Response(self.content, headers=headers, media_type=self.media_type)


IfNoneMatch = Annotated[
    str | None, Header(description="ETag of an earlier answer. The answer is 304 when it has not changed.")
]


async def sender(
    if_none_match: IfNoneMatch = None,
    accept_encoding: Annotated[str | None, Header(include_in_schema=False)] = None,
) -> Callable[[Constant], Response]:
    """Return a function that sends constant content as the headers of the request ask for it."""
    return functools.partial(Constant.response, if_none_match=if_none_match, accept_encoding=accept_encoding)


Sender = Annotated[Callable[[Constant], Response], Depends(sender)]
