"""Stored calibrations in requests: each id is replaced by its calibration before the request is answered."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, TypeVar

from pydantic import BaseModel

from service.database import Database
from service.database.calibrations import calibration_of_id
from sizing.errors import InvalidInput
from sizing.scenario import Scenario
from sizing.storage.calibration import Calibration

MAX_CALIBRATIONS = 100
"""Max calibrations of one sweep."""

_Request = TypeVar("_Request", bound=BaseModel)
_Find = Callable[[str, tuple[str, ...]], Calibration]
"""Finds a calibration by its id, which stands at a path of the request."""
SystemLimits = Callable[[], Collection[str] | None]
"""Names the storage systems whose calibrations who asks may read, or None for all. Called where one is named."""


def no_limits() -> None:
    """Let calibrations of all storage systems be read."""


def with_calibrations(
    database: Database, request: _Request, fields: Sequence[str], *, limits: SystemLimits = no_limits
) -> _Request:
    """Replace the calibration ids in a request by their calibrations. A request without one is returned itself.

    `fields` are those that may hold an id, as `Question.may_name_calibrations` has them. In a block that is a document,
    as that of a sweep, a field may hold a list of ids.
    Raises MissingScope for one beyond `limits`, InvalidInput where there is none of an id, and for more than
    MAX_CALIBRATIONS in a list, each of which may be large.
    """

    def find(named: str, at: tuple[str, ...]) -> Calibration:
        return calibration_of_id(database, named, field=".".join(at), among=limits())

    for field in fields:
        request = _replace(request, field.split("."), find)
    return request


def with_calibration(database: Database, scenario: Scenario, *, limits: SystemLimits = no_limits) -> Scenario:
    """Replace the calibration id in a scenario by its calibration. Raises as `with_calibrations`."""
    return with_calibrations(database, scenario, ("storage.calibration",), limits=limits)


def _replace(part: Any, path: Sequence[str], find: _Find, at: tuple[str, ...] = ()) -> Any:
    """Replace what the field at a path names in a part of a request. A part that names nothing is returned itself.

    `at`: path of the part in the request.
    """
    if not path:
        return find(part, at) if isinstance(part, str) else part
    name, rest = path[0], path[1:]
    if isinstance(part, dict):
        if name not in part:
            return part
        below = (*at, name)
        inner = _replace(part[name], rest, find, below) if rest else _as_documents(part[name], find, below)
        return part if inner is part[name] else part | {name: inner}
    if name == "*":
        found = tuple(_replace(each, rest, find, (*at, str(place))) for place, each in enumerate(part))
        return part if all(new is old for new, old in zip(found, part, strict=True)) else found
    if not isinstance(part, BaseModel):
        return part
    given = getattr(part, name)
    inner = _replace(given, rest, find, (*at, name))
    return part if inner is given else part.model_copy(update={name: inner})


def _as_documents(named: Any, find: _Find, at: tuple[str, ...]) -> Any:
    """Replace a calibration id, or each in a list, by its calibration as a JSON document."""
    if isinstance(named, str):
        return find(named, at).model_dump(mode="json")
    if not isinstance(named, list):
        return named
    ids = dict.fromkeys(each for each in named if isinstance(each, str))
    if len(ids) > MAX_CALIBRATIONS:
        raise InvalidInput.of(
            ".".join(at),
            f"must be at most {MAX_CALIBRATIONS} calibrations",
            value=len(ids),
            remedy="send fewer calibrations in one request",
        )
    documents = {each: find(each, (*at, str(named.index(each)))).model_dump(mode="json") for each in ids}
    return [documents[each] if isinstance(each, str) else each for each in named]
