"""Catalogs: published entries by name, each with its source, read from a TOML file of one table."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from datetime import date
from importlib import resources
from typing import TypeVar

from pydantic import AfterValidator, Field

from sizing.errors import unknown_name
from sizing.spelling import known_spelling
from sizing.strict_model import StrictModel


class CatalogEntry(StrictModel):
    """A published entry, with the source and the date on which it was read."""

    name: str = Field(description="Name under which a scenario asks for the entry.")
    source: str = Field(description="Publication from which the figures were read.")
    read_on: date = Field(description="Date on which the source was read.")

    @property
    def names(self) -> tuple[str, ...]:
        """Every name of the entry, its own first."""
        return (self.name,)


_Entry = TypeVar("_Entry", bound=CatalogEntry)


def entries(kind: type[_Entry], *, package: str, file: str) -> dict[str, _Entry]:
    """Read every entry of a file in a package, by name."""
    (rows,) = tomllib.loads(resources.files(package).joinpath(file).read_text(encoding="utf-8")).values()
    return {entry.name: entry for entry in map(kind.model_validate, rows)}


def entry_named(name: str, known: Mapping[str, _Entry], *, field: str, otherwise: str = "") -> _Entry:
    """Return the entry of a name, in any spelling.

    Raises InvalidInput of `field`, with the names that it fits or the nearest ones, and what to do `otherwise`, where
    there is none.
    """
    spelled = _own_name(name, known)
    if spelled is None:
        raise unknown_name(field, name, known=known, otherwise=otherwise)
    return known[spelled]


def _own_name(name: str, known: Mapping[str, CatalogEntry]) -> str | None:
    """Return the entry's own name for one of its names, in any spelling; None for none or several."""
    if name in known:
        return name
    own = {each: entry.name for entry in known.values() for each in entry.names}
    spelled = known_spelling(name, own)
    return None if spelled is None else own[spelled]


def catalog_name(catalog: Callable[[], Mapping[str, CatalogEntry]]) -> AfterValidator:
    """Annotate a name with its catalog, whose spelling it gets. An unknown name stays, to be explained later."""

    def spelled(name: str) -> str:
        return _own_name(name, catalog()) or name

    return AfterValidator(spelled)
