"""Offers of which fields break rules: told by name beside an answer to all others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails

from sizing.errors import explain_details, follows_from_others

_OFFERS, _PRICES, _RANGES = "offers", "prices", "ranges"


class RefusedOffer(BaseModel):
    """An offer that breaks rules."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(description="Offer as the request names it, or where it stands there.")
    problems: list[str] = Field(description="What is wrong with it, a sentence each.")
    is_judged: bool = Field(description="Whether only its prices are wrong: it is then judged without them.")


class Sorted(NamedTuple):
    """A request's document without what breaks rules, and what that is."""

    document: dict[str, Any]
    refused: tuple[RefusedOffer, ...]


def without_refused(document: object, error: ValidationError, model: type[BaseModel]) -> Sorted | None:
    """The document without the offers, or without the prices of those, that an error is about.

    None where it is about anything else too, or about all offers.
    """
    found = [details for details in error.errors(include_url=False) if not follows_from_others(details)]
    if not isinstance(document, Mapping) or not all(_is_of_an_offer(details) for details in found):
        return None
    by_place: dict[int, list[ErrorDetails]] = {}
    for details in found:
        by_place.setdefault(int(details["loc"][1]), []).append(details)
    offers = document[_OFFERS]
    refused = {place: _refused(offers[place], place, by_place[place], model) for place in by_place}
    kept = [
        _without_prices(offer) if place in refused else offer
        for place, offer in enumerate(offers)
        if place not in refused or refused[place].is_judged
    ]
    return Sorted({**document, _OFFERS: kept}, tuple(refused.values())) if kept else None


def _is_of_an_offer(details: ErrorDetails) -> bool:
    return details["loc"][:1] == (_OFFERS,) and len(details["loc"]) > 1


def _without_prices(offer: Mapping[str, Any]) -> dict[str, Any]:
    ranges = {path: drawn for path, drawn in (offer.get(_RANGES) or {}).items() if not path.startswith(f"{_PRICES}.")}
    return {**offer, _PRICES: [], _RANGES: ranges}


def _refused(offer: object, place: int, found: list[ErrorDetails], model: type[BaseModel]) -> RefusedOffer:
    name = offer.get("name") if isinstance(offer, Mapping) else None
    return RefusedOffer(
        name=name if isinstance(name, str) and name else f"{_OFFERS}.{place}",
        problems=[problem.sentence for problem in explain_details(found, model).problems],
        is_judged=all(_PRICES in details["loc"][2:3] for details in found),
    )
