"""Lists of what a run measured, which strangers may send in any length."""

from __future__ import annotations

from typing import Annotated, TypeAlias, TypeVar

from pydantic import Field

_Item = TypeVar("_Item")

MeasuredList: TypeAlias = Annotated[list[_Item], Field(fail_fast=True)]
"""A list of which the first wrong item alone is named: a program wrote it, so the others are wrong alike.

To keep the faults of 15 MB of wrong items takes more than 3 GB.
"""
