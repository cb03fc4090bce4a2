"""Content negotiation: the media type that a client prefers, and gzip (RFC 9110, sections 12.5.1 and 12.5.3)."""

from __future__ import annotations

from collections.abc import Sequence

from service.errors import NotAcceptable

_ANYTHING = "*/*"


def choose_media_type(header: str | None, offers: Sequence[str]) -> str:
    """Choose the offered media type that an Accept header prefers; of equals, the first offered.

    Raises NotAcceptable where it allows none.

    >>> choose_media_type("text/html;q=0.8, application/*", ["text/html", "application/json", "application/pdf"])
    'application/json'
    >>> choose_media_type(None, ["application/json", "text/csv"])
    'application/json'
    """
    ranges = [_parse_range(text) for text in (header or _ANYTHING).split(",")]
    best = max(offers, key=lambda offer: _weight_of(offer, ranges))
    if _weight_of(best, ranges) == 0:
        raise NotAcceptable.of(
            "accept", f"must allow one of {', '.join(offers)}", value=header, remedy="accept one of these"
        )
    return best


def takes_gzip(accept_encoding: str | None) -> bool:
    """Tell whether a client names gzip. One that sends `*` or nothing may be a simple program.

    >>> takes_gzip("br, gzip;q=0.8"), takes_gzip("gzip;q=0"), takes_gzip(None)
    (True, False, False)
    """
    codings = [coding.strip().replace(" ", "") for coding in (accept_encoding or "").lower().split(",")]
    return any(coding.startswith("gzip") and not coding.endswith((";q=0", ";q=0.0")) for coding in codings)


def _parse_range(text: str) -> tuple[str, float]:
    """Parse a media range and its weight from 0 to 1. An invalid weight counts as 0."""
    media_range, *parameters = (part.strip().lower() for part in text.split(";"))
    weights = [parameter.removeprefix("q=") for parameter in parameters if parameter.startswith("q=")]
    try:
        return media_range, min(1.0, max(0.0, float(weights[0]))) if weights else 1.0
    except ValueError:
        return media_range, 0.0


def _weight_of(offer: str, ranges: Sequence[tuple[str, float]]) -> float:
    """Return the weight of the most specific range that covers the offer."""
    weights = dict(ranges)
    covering = (offer, f"{offer.partition('/')[0]}/*", _ANYTHING)
    return next((weights[media_range] for media_range in covering if media_range in weights), 0.0)
