"""Base class of every document and of every part of one."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class StrictModel(BaseModel):
    """A document or a part of one: frozen, and refused where it has a field that is not known.

    What validates it is built when it is first used: one answer uses a third of all documents.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)
