"""ETags: which state of a document a client has seen (RFC 9110, section 8.8.3)."""

from __future__ import annotations

import hashlib

from service.errors import ChangedMeanwhile, NoPrecondition

_DIGITS = 32
"""128 bits: no two states of a document have the same by chance."""


def etag_of(content: bytes) -> str:
    """The strong ETag of a document.

    >>> etag_of(b"{}")
    '"44136fa355b3678a1146ad16f7e8649e"'
    """
    return f'"{hashlib.sha256(content).hexdigest()[:_DIGITS]}"'


def is_among(etag: str, header: str | None) -> bool:
    """Whether the header If-Match or If-None-Match names an ETag, or `*`.

    >>> is_among('"a"', 'W/"b", "a"'), is_among('"a"', "*"), is_among('"a"', None)
    (True, True, False)
    """
    known = [tag.strip().removeprefix("W/") for tag in (header or "").split(",")]
    return etag in known or "*" in known


def require_match(etag: str, if_match: str | None) -> None:
    """Refuse a change of what the client has not seen as it is. Raises NoPrecondition or ChangedMeanwhile."""
    if if_match is None:
        raise NoPrecondition.of(
            "if-match", "is missing", value=None, remedy="send the ETag that GET answers, so that no change is lost"
        )
    if not is_among(etag, if_match):
        raise ChangedMeanwhile.of(
            "if-match", "must be the present ETag", value=if_match, remedy="get it again, and then decide"
        )
