"""Ranges of a request as numbers: of which inputs there may be one, and both ends in the unit of the field."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sizing.errors import InvalidInput
from sizing.explore.decisions.decision_request import DecisionRequest
from sizing.explore.decisions.odds_request import OddsRange
from sizing.explore.decisions.standing import Settled, Standing
from sizing.guesses.fields import field_at, with_field
from sizing.guesses.rows import number_at
from sizing.scenario import scenario_from
from sizing.spelling import nearest

GPU_HOUR = "per_lost_gpu_hour"
_DRAWABLE = ("reliability.", "storage.profile.")
"""What the world decides, and not the team: settings are chosen, and bytes follow from them."""


@dataclass(frozen=True)
class Ends:
    """Both ends of a range and its peak, in the unit of the field; `is_money` of a price."""

    field: str
    low: float
    high: float
    peak: float
    is_money: bool


def ends_of(
    at: str, path: str, given: OddsRange, request: DecisionRequest, standings: Sequence[Standing]
) -> Ends | None:
    """The ends of a range that stands `at` a path of the request; None where no offer of it has an answer.

    Raises InvalidInput where it names no input that may be drawn, or one that a scenario does not have, where an end
    breaks a rule of the field, and for low above high.
    """
    settled = [each for standing in standings for each in standing.workloads]
    prices = _prices(request, standings, is_shared=at.startswith("odds."))
    if path not in prices and not settled:
        return None
    _check_input(at, path, settled, prices)
    given_ends = {"low": given.low, "high": given.high, "most_likely": given.most_likely}
    document = _document(settled[0]) if path not in prices else {}
    low, high, peak = (
        _amount(f"{at}.{name}", end) if path in prices else _number(f"{at}.{name}", path, end, document)
        for name, end in given_ends.items()
    )
    _check_order(at, given, low, high, peak)
    return Ends(path, low, high, peak, is_money=path in prices)


def _prices(request: DecisionRequest, standings: Sequence[Standing], *, is_shared: bool) -> list[str]:
    if is_shared:
        return [GPU_HOUR] if request.per_lost_gpu_hour is not None else []
    return [f"prices.{place}.amount" for standing in standings for place in range(len(standing.offer.prices))]


def _check_input(at: str, path: str, settled: Sequence[Settled], prices: Sequence[str]) -> None:
    if path in prices:
        return
    if path.startswith(_DRAWABLE) and _is_field(path):
        lacking = next((each for each in settled if each.number(path) is None), None)
        if lacking is None:
            return
        raise InvalidInput.of(
            at,
            f"must be of a number that the scenario of {lacking.workload.name} has",
            value=None,
            remedy="give the field a value there, or remove the range",
        )
    known = [*prices, *dict.fromkeys(name for each in settled for name in _numbers(each))]
    close = nearest(path, known, max_names=1) or known[:1]
    raise InvalidInput.of(
        at,
        "must name an input that may turn out otherwise: of reliability, storage.profile, or a price",
        value=path,
        remedy=f"did you mean {close[0]}" if close else "remove it",
    )


def _numbers(settled: Settled) -> Iterator[str]:
    inputs = settled.scenario.run_inputs
    for prefix, block in zip(_DRAWABLE, (inputs.reliability, inputs.profile), strict=True):
        if block is not None:
            yield from _floats(prefix, block.model_dump(exclude_none=True))


def _floats(prefix: str, block: Any) -> Iterator[str]:
    for name, value in block.items() if isinstance(block, dict) else enumerate(block):
        if isinstance(value, dict | list | tuple):
            yield from _floats(f"{prefix}{name}.", value)
        elif isinstance(value, float):
            yield f"{prefix}{name}"


def _is_field(path: str) -> bool:
    try:
        return field_at(path) is not None
    except KeyError:
        return False


def _document(settled: Settled) -> dict[str, Any]:
    """The scenario with the rates of its storage as a profile, whatever they come from."""
    document = settled.scenario.model_dump(exclude_unset=True)
    profile = settled.scenario.run_inputs.profile
    return document | {"storage": {"profile": profile.model_dump(exclude_none=True)}} if profile else document


def _number(at: str, path: str, end: float | str | None, document: Mapping[str, Any]) -> float:
    if end is None:
        return 0.0
    try:
        changed = scenario_from(with_field(document, path, end))
    except InvalidInput as error:
        raise InvalidInput(replace(problem, field=at) for problem in error.problems) from None
    value = number_at(changed.run_inputs, path)
    assert value is not None  # noqa: S101 - it was just set
    return float(value)


def _amount(at: str, end: float | str | None) -> float:
    try:
        amount = 0.0 if end is None else float(end)
    except ValueError:
        amount = -1.0
    if not 0 <= amount < float("inf"):
        raise InvalidInput.of(at, "must be an amount of 0 or more", value=end, remedy="give it without its currency")
    return amount


def _check_order(at: str, given: OddsRange, low: float, high: float, peak: float) -> None:
    if low > high:
        raise InvalidInput.of(
            at, "must have low at most high", value=f"{given.low} to {given.high}", remedy="swap them"
        )
    if given.shape.has_peak and not low <= peak <= high:
        raise InvalidInput.of(
            f"{at}.most_likely", "must lie between low and high", value=given.most_likely, remedy="move it between them"
        )
    if given.shape.is_of_ratios and low <= 0:
        raise InvalidInput.of(
            f"{at}.low", f"must be above 0 where it is {given.distribution}", value=given.low, remedy="use uniform"
        )
