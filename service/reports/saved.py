"""What a report says of the saved scenario that it answers."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID


@dataclass(frozen=True, slots=True)
class Saved:
    """A saved scenario as a value that goes to another process; `document` as it was given."""

    id: UUID
    name: str
    created_at: datetime
    document: dict[str, Any]
