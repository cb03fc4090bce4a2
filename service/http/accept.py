"""Which of several media types a client prefers: RFC 9110, section 12.5.1."""

from __future__ import annotations

from collections.abc import Sequence

from service.errors import NotAcceptable

_ANYTHING = "*/*"


def preferred(header: str | None, offers: Sequence[str]) -> str:
    """The offered media type that an Accept header likes best; of equals, the first offered.

    Raises NotAcceptable where it likes none.

    >>> preferred("text/html;q=0.8, application/*", ["text/html", "application/json", "application/pdf"])
    'application/json'
    >>> preferred(None, ["application/json", "text/csv"])
    'application/json'
    """
    ranges = [_quality(text) for text in (header or _ANYTHING).split(",")]
    best = max(offers, key=lambda offer: _liking(offer, ranges))
    if _liking(best, ranges) == 0:
        raise NotAcceptable.of(
            "accept", f"must allow one of {', '.join(offers)}", value=header, remedy="accept one of these"
        )
    return best


def _quality(text: str) -> tuple[str, float]:
    """A media range and its weight from 0 to 1; what is no weight counts as 0."""
    media_range, *parameters = (part.strip().lower() for part in text.split(";"))
    weights = [parameter.removeprefix("q=") for parameter in parameters if parameter.startswith("q=")]
    try:
        return media_range, min(1.0, max(0.0, float(weights[0]))) if weights else 1.0
    except ValueError:
        return media_range, 0.0


def _liking(offer: str, ranges: Sequence[tuple[str, float]]) -> float:
    """The weight of the most specific range that covers the offer."""
    weights = dict(ranges)
    covering = (offer, f"{offer.partition('/')[0]}/*", _ANYTHING)
    return next((weights[media_range] for media_range in covering if media_range in weights), 0.0)
