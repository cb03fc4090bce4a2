"""The model catalog: data with a source per entry, read from `catalog.toml` beside this file."""

from __future__ import annotations

import functools
import tomllib
from datetime import date
from importlib import resources

from pydantic import BaseModel, ConfigDict

from sizing.errors import unknown_name
from sizing.model.architecture import Architecture


class CatalogModel(BaseModel):
    """A published model: its architecture, and where its fields were read.

    `num_parameters` is an integer that somebody else published, where there is one.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    source: str
    read_on: date
    num_parameters: int | None = None
    num_parameters_source: str | None = None
    architecture: Architecture


@functools.cache
def catalog() -> dict[str, CatalogModel]:
    """Every model of the catalog by name."""
    text = resources.files(__package__).joinpath("catalog.toml").read_text(encoding="utf-8")
    models = [CatalogModel.model_validate(entry) for entry in tomllib.loads(text)["model"]]
    return {model.name: model for model in models}


def model_named(name: str) -> CatalogModel:
    """The catalog's model of that name.

    Raises InvalidInput, with the nearest names, where there is none.
    """
    model = catalog().get(name)
    if model is None:
        raise unknown_name("model.preset", name, known=catalog())
    return model
