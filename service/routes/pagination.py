"""Pagination of lists: how many items, and where the next page begins."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, TypeVar
from uuid import UUID

from pydantic import Field

from service_client.documents import Page
from sizing.strict_model import StrictModel

_Item = TypeVar("_Item")
_Row = TypeVar("_Row")
_Page = TypeVar("_Page", bound=Page[_Item])  # type: ignore[valid-type]  # mypy takes no generic bound

Limit = Annotated[int, Field(ge=1, le=200, description="Max entries on the page.")]


class PageQuery(StrictModel):
    """Which page of a list."""

    limit: Limit = 50
    cursor: UUID | None = Field(None, description="Value of `next` on the previous page. Default: the first page.")


def page_of(
    kind: type[_Page],
    rows: Sequence[_Row],
    limit: int,
    item: Callable[[_Row], object],
    cursor: Callable[[_Row], str],
) -> _Page:
    """Return the page of the first `limit` rows. One row more shows that another page follows."""
    shown = rows[:limit]
    return kind(items=[item(row) for row in shown], next=cursor(shown[-1]) if len(rows) > limit else None)
