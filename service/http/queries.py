"""Query parameters that a route does not take, or that occur twice: refused, as unknown fields of a body are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from fastapi import Request
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from pydantic import BaseModel

from service.errors import MAX_PROBLEMS
from sizing.errors import MAX_VALUE_CHARACTERS, InvalidInput, Problem, printable
from sizing.spelling import nearest


async def refuse_unknown_query(request: Request) -> None:
    """Raise InvalidInput where the query has a parameter that the route does not take, or one twice."""
    if not request.query_params:
        return
    route = request.scope["route"]
    known = set(_list_names(route.dependant)) if isinstance(route, APIRoute) else set[str]()
    given = Counter(name for name, _ in request.query_params.multi_items())
    rule, twice = "is not a query parameter of this address", "must not occur twice in the query"
    known_here = f"{', '.join(sorted(known))} are known here" if known else "there is none here"
    problems = []
    for name in (name for name in given if name not in known):
        close = nearest(name, known, max_names=1)
        remedy = f"did you mean {close[0]}" if close else f"remove it; {known_here}"
        problems.append(Problem(printable(name[:MAX_VALUE_CHARACTERS]), rule, "", remedy))
    problems += [Problem(name, twice, "", "keep one of them") for name in given.keys() & known if given[name] > 1]
    if problems:
        raise InvalidInput(problems[:MAX_PROBLEMS])


def _list_names(dependant: Dependant) -> Iterator[str]:
    """Yield the query parameters of an endpoint and of all that it depends on; a model stands for its fields."""
    for parameter in dependant.query_params:
        annotation = parameter.field_info.annotation
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            yield from annotation.model_fields
        else:
            yield parameter.alias
    for needed in dependant.dependencies:
        yield from _list_names(needed)
