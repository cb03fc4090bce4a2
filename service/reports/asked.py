"""What a report says of the scenario that it answers: saved under a name, or sent once."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sizing.reports.page import moment_text


@dataclass(frozen=True, slots=True)
class Asked:
    """A scenario as a value that goes to another process; `document` as it was given."""

    document: dict[str, Any]
    name: str = ""
    id: UUID | None = None
    """Of one that is saved."""
    saved_at: datetime | None = None
    code_version: str | None = None
    """What answered it when it was saved; None of what was saved before that was kept."""
    figures: dict[str, Any] | None = None
    """Of that answer."""

    @property
    def origin(self) -> str:
        """Where it is kept, in words; nothing of one that was sent once."""
        return "" if self.saved_at is None else f"Saved {moment_text(self.saved_at)} as {self.id}"
