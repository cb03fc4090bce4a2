"""Lists in pages: how many items, and where the next page begins."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Generic, Self, TypeVar
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

_Item = TypeVar("_Item")
_Row = TypeVar("_Row")

Limit = Annotated[int, Field(ge=1, le=200, description="items on a page")]


class PageWanted(BaseModel):
    """Which page of a list."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    limit: Limit = 50
    cursor: UUID | None = Field(None, description="`next` of the page before")


class Page(BaseModel, Generic[_Item]):
    """Some items of a list, the newest first."""

    items: list[_Item]
    next: UUID | None = Field(description="the cursor of the page that follows; null on the last")

    @classmethod
    def of(
        cls, rows: Sequence[_Row], limit: int, item: Callable[[_Row], _Item], row_id: Callable[[_Row], UUID]
    ) -> Self:
        """The page of `limit` rows; one row more says that another page follows."""
        shown = rows[:limit]
        return cls(items=[item(row) for row in shown], next=row_id(shown[-1]) if len(rows) > limit else None)
