"""Names as people type them: case and separators do not count. The nearest names are suggested for an unknown one."""

from __future__ import annotations

import difflib
import functools
import re
from collections.abc import Collection
from typing import Annotated, Any, TypeVar, get_args

from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

_Name = TypeVar("_Name")

MAX_NAME_CHARACTERS = 200
"""Max length of a text that may spell a name: the longest have 60 characters. To hold a text of 60,000 against every
name of a catalog takes a fifth of a second."""
_SEPARATORS = r"[\s._-]+"
_KEYS_KEPT = 1024
"""Names of all catalogs and registries, twice over: an answer holds what it is given against the same ones."""


def known_spelling(name: str, known: Collection[str]) -> str | None:
    """Return the one known name that differs from `name` only in case and separators; None for none or several.

    An organisation before a slash, as model hubs write it, does not count either.

    >>> known_spelling("meta-llama/Llama-3.1_405B", ["llama-3.1-405b", "llama-2-7b"])
    'llama-3.1-405b'
    """
    if name in known:
        return name
    if len(name) > MAX_NAME_CHARACTERS:
        return None
    key = _key(_without_organisation(name))
    matches = [candidate for candidate in known if _key(candidate) == key]
    return matches[0] if len(matches) == 1 else None


def fitting(name: str, known: Collection[str]) -> list[str]:
    """List the known names that have every part of `name`. A number right behind letters is a part of its own.

    >>> fitting("Llama 8b", ["llama-3-8b", "llama-3.1-8b", "llama-3-70b"])
    ['llama-3-8b', 'llama-3.1-8b']
    >>> fitting("llama4", ["llama-4-scout", "llama-2-7b"])
    ['llama-4-scout']
    """
    parts = _parts(_without_organisation(name)) if len(name) <= MAX_NAME_CHARACTERS else set()
    return [candidate for candidate in known if parts and parts <= _parts(candidate)]


def has_all_of(words: str, text: str) -> bool:
    """Tell whether each of some words, separated by spaces, stands somewhere in a text.

    >>> has_all_of("Llama 405", "llama-3.1-405b"), has_all_of("opt13", "opt-1.3b")
    (True, False)
    """
    return all(_key(word) in _key(text) for word in words.split())


def nearest(name: str, known: Collection[str], *, max_names: int, min_alike: float = 0.6) -> list[str]:
    """List the known names most like `name`, the nearest first; empty where none is like it.

    Letters that only changed places are nearer than any that are missing. Args: `min_alike`, the fraction of the
    letters of both that must stand in the same order.

    >>> nearest("modles", ["models", "nodes", "storage"], max_names=1), nearest("modle", ["mode", "model"], max_names=1)
    (['models'], ['model'])
    """
    if len(name) > MAX_NAME_CHARACTERS:
        return []
    by_key, own_key = {_key(candidate): candidate for candidate in known}, _key(_without_organisation(name))
    swapped = [key for key in by_key if sorted(key) == sorted(own_key)]
    alike = dict.fromkeys(swapped + difflib.get_close_matches(own_key, by_key, n=max_names, cutoff=min_alike))
    return [by_key[key] for key in alike][:max_names]


class _AnySpelling:
    """Annotation of a Literal of names: a text that spells one of them otherwise becomes that name."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        names = get_args(source)

        def spelled(value: Any) -> Any:
            return (known_spelling(value, names) or value) if isinstance(value, str) else value

        return core_schema.no_info_before_validator_function(spelled, handler(source))


AnySpelling = Annotated[_Name, _AnySpelling()]
"""Input: one of the names of a Literal, in any case, with any separators."""


@functools.lru_cache(maxsize=_KEYS_KEPT)
def _key(name: str) -> str:
    """Return what two spellings of a name have in common. Digits stay apart: opt-1.3b is not opt-13b.

    >>> _key("OPT 1.3B"), _key("opt-13b"), _key("DGX-H200")
    ('opt1.3b', 'opt13b', 'dgxh200')
    """
    digits_apart = re.sub(rf"(?<=\d){_SEPARATORS}(?=\d)", ".", name.strip().casefold())
    return re.sub(rf"(?<!\d){_SEPARATORS}|{_SEPARATORS}(?!\d)", "", digits_apart)


def _parts(name: str) -> set[str]:
    apart = (re.sub(r"^([^\W\d_]+)(?=\d)", r"\1 ", part) for part in re.split(_SEPARATORS, name.casefold()))
    return {part for parts in apart for part in parts.split(" ") if part}


def _without_organisation(name: str) -> str:
    return name.rpartition("/")[2]
