"""Parameters of the verbs that ask questions, as `verb_parameters.json` keeps them for help and the parser.

What help says of a flag is the description of the field that it sets. To read those takes every class of a scenario,
which is most of the time of an answer. `make generated` collects them; a test holds the file against the questions.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable
from importlib import resources
from typing import Any, NamedTuple

FILE_NAME = "verb_parameters.json"


class VerbParameter(NamedTuple):
    """A flag of a verb, or an argument where it has no `flags`."""

    name: str
    type: str
    help: str
    flags: tuple[str, ...] = ()
    """Its names; the first is today's."""
    metavar: str | None = None
    panel: str | None = None
    """Heading in help below which it stands."""
    default: str | None = None
    is_further: bool = False
    """Whether help leaves it out until all is asked for."""
    has_completions: bool = False
    prints_example: bool = False
    """Whether it prints the example of the question and ends."""


class VerbDescription(NamedTuple):
    """What the help of a verb that asks a question says: its parameters, and a paragraph more."""

    more_help: str
    takes_scenario: bool
    """Whether the flags of a scenario follow its own parameters."""
    first_flags: tuple[str, ...]
    """Names of those of a scenario that help shows first."""
    parameters: tuple[VerbParameter, ...]


class Described(NamedTuple):
    """What `verb_parameters.json` holds: the flags that set fields of a scenario, and each verb by its name."""

    flags: tuple[VerbParameter, ...]
    verbs: dict[str, VerbDescription]

    def as_json(self) -> str:
        """Write the file; what is as it is by default is left out."""
        verbs = {name: verb._asdict() | {"parameters": _rows(verb.parameters)} for name, verb in self.verbs.items()}
        return json.dumps({"flags": _rows(self.flags), "verbs": verbs}, indent=1, ensure_ascii=False)


def _rows(parameters: Iterable[VerbParameter]) -> list[dict[str, Any]]:
    defaults = VerbParameter._field_defaults
    return [
        {name: value for name, value in each._asdict().items() if name not in defaults or value != defaults[name]}
        for each in parameters
    ]


def _parameters(rows: Iterable[dict[str, Any]]) -> tuple[VerbParameter, ...]:
    return tuple(VerbParameter(**row | {"flags": tuple(row.get("flags", ()))}) for row in rows)


@functools.cache
def read_described() -> Described:
    """Read what `verb_parameters.json` says of the verbs that ask questions."""
    document = json.loads(resources.files(__package__).joinpath(FILE_NAME).read_text(encoding="utf-8"))
    verbs = {
        name: VerbDescription(
            **verb | {"first_flags": tuple(verb["first_flags"]), "parameters": _parameters(verb["parameters"])}
        )
        for name, verb in document["verbs"].items()
    }
    return Described(_parameters(document["flags"]), verbs)
