"""What every field's description must be: a sentence with the field's unit that says more than its name."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Iterator
from types import ModuleType

from pydantic import BaseModel

from sizing.cli.flags import first_sentence

MAX_FIRST_SENTENCE_CHARACTERS = 170
MIN_WORDS_OF_ITS_OWN = 2

UNITS = {
    "bytes_per_second": r"bytes per second",
    "per_second": r"per second",
    "per_day": r"\b[Dd]ay\b",
    "bytes": r"\b[Bb]ytes\b(?! per second)",
    "seconds": r"\b[Ss]econds\b",
    "fraction": r"\b[Ff]raction\b",
    "hours": r"-hours\b",
}
"""What the first sentence says of a field that has the unit in its name; the first of several counts."""

OTHER_UNITS = r"\b(percent|minutes|(?<!GPU-)hours|milliseconds|[kMGTPE]i?B(/s)?|[GT]bit/s)\b"
"""What it must not say, as the field holds another unit."""

WITHOUT_IT = r"\bDefault: |\bRequired with |\bGive |\b[Nn]ull\b"
"""What is said of a field that may be left out: what holds then, or when it may not."""

WORDS_WITHOUT_SUBSTANCE = frozenset(
    "a all an and are as at be by count default field for from given has have how in is it its kind list many name null"
    " not number of on one or over per than that the their them there these they this to used value was what when which"
    " with whether".split()
)


def models_of(package: ModuleType) -> list[type[BaseModel]]:
    """Every model that a module of the package defines."""
    for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        importlib.import_module(found.name)
    return [model for model in _below(BaseModel) if model.__module__.split(".")[0] == package.__name__]


def flaws_of(model: type[BaseModel]) -> Iterator[str]:
    """What is wrong with the descriptions of a model's fields, each named `Class.field`."""
    for name, field in model.model_fields.items():
        is_optional = field.default is None
        flaw = flaw_of(name, field.description or "", class_name=model.__name__, is_optional=is_optional)
        if flaw:
            yield f"{model.__name__}.{name} {flaw}: {field.description}"


def flaw_of(name: str, description: str, *, class_name: str = "", is_optional: bool = False) -> str | None:
    """What is wrong with the description of a field of that name, if anything is."""
    if not description:
        return "has no description"
    if not re.fullmatch(r"[A-Z0-9`].*\.", description):
        return "has a description that is no sentence"
    first = first_sentence(description)
    if len(first) > MAX_FIRST_SENTENCE_CHARACTERS:
        return f"has a first sentence of more than {MAX_FIRST_SENTENCE_CHARACTERS} characters"
    if len(_own_words(name, description, class_name)) < MIN_WORDS_OF_ITS_OWN:
        return "says no more than its name"
    if is_optional and not re.search(WITHOUT_IT, description):
        return "does not say what holds without it"
    return _wrong_unit(name, first)


def _wrong_unit(name: str, sentence: str) -> str | None:
    unit = next((unit for unit in UNITS if f"_{unit}_" in f"_{name}_"), None)
    if unit is None:
        return None
    if not re.search(UNITS[unit], sentence):
        return f"does not say its unit, {unit}"
    other = re.search(OTHER_UNITS, sentence)
    return f"says {other[0]}, which is not its unit" if other else None


def _own_words(name: str, description: str, class_name: str) -> set[str]:
    """Words of substance that neither the field nor its class has in its name."""
    said = re.findall(r"[a-z0-9]+", description.lower())
    named = {*name.split("_"), *(word.lower() for word in re.findall(r"[A-Z][a-z]*", class_name))}
    return {_stem(word) for word in said if word not in WORDS_WITHOUT_SUBSTANCE} - {_stem(word) for word in named}


def _stem(word: str) -> str:
    return word.removesuffix("s")


def _below(model: type[BaseModel]) -> Iterator[type[BaseModel]]:
    for below in model.__subclasses__():
        yield below
        yield from _below(below)
