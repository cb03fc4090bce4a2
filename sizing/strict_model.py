"""Base class of every document and of every part of one."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class StrictModel(BaseModel):
    """A document or a part of one: frozen, and refused where it has a field that is not known."""

    model_config = ConfigDict(extra="forbid", frozen=True)
