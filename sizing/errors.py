"""Errors, as part of the interface.

    SizingError                 every error meant for the user
    ├── InvalidInput            the question cannot be answered as asked: one Problem per field
    │   └── NotInstalled        what is asked for needs a library that is not installed
    └── UnreadableFile          a file that is missing, unreadable, or not what it should be

A `Problem` says field, rule, value and remedy; its `sentence` is what a terminal shows and what a REST
client finds in `detail`. `explain` turns pydantic's errors into the same form, so that a mistake reads
alike whether a field or an equation found it.
"""

from __future__ import annotations

import functools
import json
import re
import types
import typing
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Self

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails, PydanticCustomError

from sizing.spelling import fitting, nearest

MAX_VALUE_CHARACTERS = 60
"""Characters: an error stays a line, whatever was sent."""
MAX_NAMES_SHOWN = 8
"""Names of a catalog in one sentence that can still be read."""

MAX_NAMES_LISTED = 20
"""Names of a catalog in one sentence where none is like the one that was given."""

EXIT_BAD_INPUT = 2
"""Exit code of every command line for input that breaks a rule."""


class SizingError(Exception):
    """Base of every error that a user should read."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Problem of one field of the input.

    `field` is a dotted path (empty for the whole document), `rule` what the field must be,
    `value` what was found (empty where nothing was), `remedy` what to do about it. Rule and remedy name other fields by
    dotted path, or by name alone where they stand in the same block. Each front end shows a field by the name that its
    reader knows: a flag, a path, a label.
    """

    field: str
    rule: str
    value: str
    remedy: str

    @property
    def sentence(self) -> str:
        """Problem as one sentence, for example for a terminal.

        >>> Problem("parallelism.tensor", "must be at least 1", "0", "give the tensor degree").sentence
        'parallelism.tensor must be at least 1, got 0: give the tensor degree.'
        """
        subject = self.field or "the input"
        value = f", got {self.value}" if self.value else ""
        return f"{subject} {self.rule}{value}: {self.remedy}."


class InvalidInput(SizingError):
    """Raised for input that breaks one or more rules.

    >>> str(InvalidInput.of("cluster.num_gpus", "must be 8", value=9, remedy="change a degree"))
    'cluster.num_gpus must be 8, got 9: change a degree.'
    """

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(problem.sentence for problem in self.problems))

    def __reduce__(self) -> tuple[type[InvalidInput], tuple[tuple[Problem, ...]]]:
        return type(self), (self.problems,)

    @classmethod
    def of(cls, field: str, rule: str, *, value: object, remedy: str) -> InvalidInput:
        """Return an InvalidInput of a single problem; `value` is None where nothing was found."""
        return cls([Problem(field, rule, "" if value is None else shown(value), remedy)])

    def within(self, path: str) -> Self:
        """Move the problems of an input to the dotted path where it stands in a larger one."""
        return type(self)(replace(p, field=f"{path}.{p.field}" if p.field else path) for p in self.problems)


class NotInstalled(InvalidInput):
    """Raised where a question needs a library that is not installed."""


class UnreadableFile(SizingError):
    """Raised where a file cannot be read as expected. The message names it and says why."""


def broken_rule(rule: str, remedy: str) -> PydanticCustomError:
    """Return the exception for a field validator to raise. `explain` gets rule and remedy back out of it."""
    return PydanticCustomError("broken_rule", "{rule}: {remedy}", {"rule": rule, "remedy": remedy})


_ONE_OF, _FOUND = "must have exactly one of ", ", found "


def require_one_of(block: BaseModel, names: tuple[str, ...]) -> None:
    """Refuse a block unless exactly one of some fields is given. For use in its validator."""
    given = [name for name in names if getattr(block, name) is not None]
    if len(given) != 1:
        rule = f"{_ONE_OF}{', '.join(names)}{_FOUND}{' and '.join(given) or 'none'}"
        raise broken_rule(rule, "keep one" if given else "give one")


def alternatives_in(rule: str) -> list[str]:
    """List the fields of which `require_one_of` wants exactly one, as its rule names them; none for other rules.

    >>> alternatives_in("must have exactly one of preset, tensors, found none")
    ['preset', 'tensors']
    """
    listed, found, _ = rule.removeprefix(_ONE_OF).partition(_FOUND)
    return listed.split(", ") if rule.startswith(_ONE_OF) and found else []


def found_in(rule: str) -> str:
    """Return the first field that stands there where `require_one_of` wants one; an empty text for other rules.

    >>> found_in("must have exactly one of preset, profile, found preset and profile"), found_in("must be 1")
    ('preset', '')
    """
    first = rule.partition(_FOUND)[2].split(" and ")[0]
    return first if alternatives_in(rule) and first != "none" else ""


def explain(error: ValidationError, model: type[BaseModel]) -> InvalidInput:
    """Convert the errors that pydantic found in `model` into an InvalidInput."""
    return explain_details(error.errors(include_url=False), model)


def explain_details(errors: Iterable[ErrorDetails], model: type[BaseModel], *, skip: int = 0) -> InvalidInput:
    """Convert pydantic's errors into an InvalidInput. The first `skip` parts of each location stand above `model`."""
    below: list[ErrorDetails] = [{**details, "loc": details["loc"][skip:]} for details in errors]
    return InvalidInput(
        _problem(details, model) for details in of_alternatives(below, model) if not follows_from_others(details)
    )


_ALTERNATIVE = re.compile(r"literal\[|constrained-|function-|(float|int|str)$")
"""Begins pydantic's name of an alternative that is no block, as no field's name does."""
_OF_ANOTHER_KIND = ("float_type", "float_parsing", "model_type", "string_type")


def of_alternatives(errors: Iterable[ErrorDetails], model: type[BaseModel]) -> Iterator[ErrorDetails]:
    """Yield the errors of `model`; of a field that is one of several things, the error of what it was meant to be.

    Pydantic has one for each alternative, whose name stands in its location.
    """
    found: dict[tuple[int | str, ...], list[ErrorDetails]] = {}
    for details in errors:
        path = details["loc"]
        for at, part in enumerate(path):
            owner = _model_at(path[:at], model)
            if isinstance(part, str) and (_ALTERNATIVE.match(part) or (owner and part == owner.__name__)):
                alternative: ErrorDetails = {**details, "loc": (*path[:at], *path[at + 1 :])}
                found.setdefault(path[:at], []).append(alternative)
                break
        else:
            yield details
    for alike in found.values():
        first, choices = alike[0], [each["ctx"]["expected"] for each in alike if each["type"] == "literal_error"]
        if len(choices) > 1:
            *most, last = [choice for each in choices for choice in re.findall(r"'[^']+'", each)]
            yield {**first, "ctx": {"expected": f"{', '.join(most)} or {last}"}}
        else:
            yield from [each for each in alike if each["type"] not in _OF_ANOTHER_KIND] or [first]


def unknown_name(field: str, name: str, *, known: Iterable[str], otherwise: str = "") -> InvalidInput:
    """Return the error for a name that a catalog lacks, with the names that fit or the nearest ones.

    `otherwise`: what to do where the catalog does not have what is meant.
    """
    names = sorted(known)
    fits = fitting(name, names)
    if len(fits) > 1:
        more = f" and {len(fits) - MAX_NAMES_SHOWN} more" if len(fits) > MAX_NAMES_SHOWN else ""
        remedy = f"choose one of {', '.join(fits[:MAX_NAMES_SHOWN])}{more}"
        return InvalidInput.of(field, f"fits {len(fits)} names of the catalog", value=name, remedy=remedy)
    close = list(dict.fromkeys([*fits, *nearest(name, names, max_names=3)]))[:3]
    if close:
        alike = f"the nearest of the {len(names)} names {'is' if len(close) == 1 else 'are'} {', '.join(close)}"
    elif len(names) <= MAX_NAMES_LISTED:
        alike = f"choose one of {', '.join(names)}"
    else:
        alike = f"none of the {len(names)} names is like it"
    remedy = "; ".join(filter(None, (alike, otherwise)))
    return InvalidInput.of(field, "must be a name of the catalog", value=name, remedy=remedy)


def shown(value: object) -> str:
    """Format a value for a message: short, a text in quotes, and anything else as in JSON.

    >>> shown({"a": None}), shown(True), shown("gpt3"), shown("x" * 100)[-3:]
    ('{"a": null}', 'true', "'gpt3'", 'xx…')
    """
    if isinstance(value, dict | list | tuple | bool | None):
        try:
            text = json.dumps(value, ensure_ascii=False, default=str)
            text = text if text.isprintable() else json.dumps(value, default=str)
        except (TypeError, ValueError):  # names of YAML that are no texts, and lists that hold themselves
            text = repr(value)
    else:
        text = repr(value.translate(_SPACES)) if isinstance(value, str) else str(value)
    text = printable(text)
    if len(text) <= MAX_VALUE_CHARACTERS:
        return text
    return text[: MAX_VALUE_CHARACTERS - 1].rstrip("'\"") + "…"


_SPACES = dict.fromkeys(map(ord, "\u00a0\u2009\u202f"), " ")
"""Spaces between the digits of a number, which look like any other."""


def printable(text: str) -> str:
    r"""Make text that every output can encode: lone surrogates, which JSON may hold, become escapes.

    >>> printable("a\ud800")
    'a\\ud800'
    """
    return text.encode("utf-8", "backslashreplace").decode()


def follows_from_others(details: ErrorDetails) -> bool:
    """Tell whether a list is too short only because its entries are wrong, each of which has an error of its own."""
    return details["type"] == "too_short" and len(details["input"]) >= details["ctx"]["min_length"]


REQUIRED = "is required"
"""Rule for a field that is missing."""

_KEY = "[key]"
"""Last part of pydantic's location of a name in a mapping that breaks a rule, behind the name itself."""

_RULES = {
    "missing": (REQUIRED, "add it"),
    "literal_error": ("must be one of {expected}", "choose one of these"),
    "enum": ("must be one of {expected}", "choose one of these"),
    "greater_than_equal": ("must be at least {ge}", "give {ge} or more"),
    "greater_than": ("must be more than {gt}", "give more than {gt}"),
    "less_than_equal": ("must be at most {le}", "give {le} or less"),
    "less_than": ("must be less than {lt}", "give less than {lt}"),
    "too_short": ("must have at least {min_length} entries", "add what is missing"),
    "too_long": ("must have at most {max_length} entries", "remove some"),
    "string_too_short": ("must have {min_length} or more characters", "give more characters"),
    "string_too_long": ("must have at most {max_length} characters", "give fewer characters"),
    "string_pattern_mismatch": ("must match {pattern}", "write it in this form"),
    "int_type": ("must be a whole number", "give a whole number"),
    "int_parsing": ("must be a whole number", "give a whole number"),
    "int_parsing_size": ("must be a whole number that is not as long", "give one of fewer digits"),
    "int_from_float": ("must be a whole number", "give a whole number"),
    "float_type": ("must be a number", "give a number"),
    "float_parsing": ("must be a number", "give a number"),
    "finite_number": ("must be a finite number", "give a number that is not NaN or infinite"),
    "string_type": ("must be text", "put it in quotes"),
    "string_unicode": ("must be Unicode text", "remove the invalid character"),
    "bool_type": ("must be true or false", "give true or false"),
    "bool_parsing": ("must be true or false", "give true or false"),
    "tuple_type": ("must be a list", "give a list"),
    "list_type": ("must be a list", "give a list"),
    "model_type": ("must be an object", "give an object with named fields"),
    "model_attributes_type": (
        "must be an object",
        "give an object with named fields, over HTTP as content-type application/json",
    ),
    "dict_type": ("must be an object", "give an object with named fields"),
    "bytes_type": ("must be base64 as text", "encode the bytes of the file, as base64 FILE does"),
    **dict.fromkeys(
        ("date_type", "date_parsing", "date_from_datetime_parsing", "date_from_datetime_inexact"),
        ("must be a date", "write it as in 2026-11-21"),
    ),
    "datetime_type": ("must be a date and time", "write it as in 2026-11-21T12:00:00Z"),
    "timezone_aware": ("must have a time zone", "write it as in 2026-11-21T12:00:00Z"),
    "datetime_parsing": ("must be a date and time", "write it as in 2026-11-21T12:00:00Z"),
    "datetime_from_date_parsing": ("must be a date and time", "write it as in 2026-11-21T12:00:00Z"),
    "uuid_parsing": ("must be an id", "copy the id as it was given"),
    "invalid_key": (
        "must be the name of a field",
        "correct what stands before it; inside braces a comma ends a value: write 1024, not 1,024",
    ),
    "json_invalid": ("must be valid JSON", "check quotes, commas and brackets"),
}
"""Rule and remedy by the type of a pydantic error, with what its context names."""


def _problem(details: ErrorDetails, model: type[BaseModel]) -> Problem:
    kind, context = details["type"], details.get("ctx", {})
    if kind in ("too_short", "too_long") and isinstance(text := details["input"], str):
        kind = f"string_{kind}" if context["actual_length"] == len(text) else kind  # or of entries that it lists
    if kind == "model_attributes_type" and details["loc"]:
        kind = "model_type"
    field = printable(".".join(str(part)[:MAX_VALUE_CHARACTERS] for part in details["loc"] if part != _KEY))
    is_whole_block = isinstance(details["input"], dict | list | tuple | BaseModel)
    names_value = is_whole_block and kind in ("broken_rule", "too_short", "too_long")  # such a rule says what it found
    is_empty = kind == "too_short" and not details["input"]
    value = "" if kind == "missing" or (names_value and not is_empty) else shown(details["input"])
    match kind:
        case "broken_rule":
            rule, remedy = context["rule"], context["remedy"]
        case "extra_forbidden":
            rule, remedy = "is not a known field", _did_you_mean(details["loc"], model)
        case "literal_error" if isinstance(details["input"], str) and (name := _nearest_choice(details)):
            rule, remedy = _RULES[kind][0].format_map(context), f"did you mean {name}"
        case "less_than" | "less_than_equal" if percent := _write_as_percent(details):
            rule, remedy = _RULES[kind][0].format_map(context), percent
        case "float_parsing" if _DECIMAL_COMMA.fullmatch(details["input"]):
            rule, remedy = _RULES[kind][0], with_point(details["input"])
        case "float_parsing" | "int_parsing" if remedy := without_points(details["input"]):
            rule = _RULES[kind][0]
        case _ if kind in _RULES:
            rule, remedy = (text.format_map(context) for text in _RULES[kind])
        case _:
            rule, remedy = f"is invalid ({details['msg']})", "correct it"
    return Problem(field, rule, value, remedy)


_DECIMAL_COMMA = re.compile(r"[^\w,]{0,3}[0-9]{1,20},[0-9]{1,20}[^\d,]{0,9}")


def with_point(number: str) -> str:
    """Say how to write a number whose commas separate no thousands.

    >>> with_point("20,5"), with_point("1.500,5")
    ('write a point before decimals: 20.5', 'write it without commas')
    """
    if _DECIMAL_COMMA.fullmatch(number):
        return f"write a point before decimals: {printable(number.strip().replace(',', '.'))}"
    return "write it without commas"


_POINTS = re.compile(r"[^\w.,]{0,3}([1-9][0-9]{0,2}(?:\.[0-9]{3}){2,6})(,[0-9]{1,20})?[^\d.,]{0,9}")


def without_points(number: str) -> str:
    """Say how to write a number whose points separate thousands; nothing of any other text.

    >>> without_points("€ 1.500.000,50"), without_points("1.500")
    ('write 1500000.50, as a point stands before decimals', '')
    """
    found = _POINTS.fullmatch(number)
    if found is None:
        return ""
    decimals = (found[2] or "").replace(",", ".")
    return f"write {found[1].replace('.', '')}{decimals}, as a point stands before decimals"


def _write_as_percent(details: ErrorDetails) -> str | None:
    """Say how to write a share that was given as a number of percent."""
    bound = min(details["ctx"].values())
    try:
        given = float(details["input"])
    except (TypeError, ValueError, OverflowError):  # the last of a whole number that no float holds
        return None
    return f"for {given:g} percent write {given:g}% or {given / 100:g}" if bound <= 1 < given < 100 else None


def _nearest_choice(details: ErrorDetails) -> str | None:
    """Return the first allowed name that contains what was given, or the nearest one."""
    choices = re.findall(r"'([^']+)'", details["ctx"]["expected"])
    return next(iter([*fitting(details["input"], choices), *nearest(details["input"], choices, max_names=1)]), None)


def _did_you_mean(location: tuple[int | str, ...], model: type[BaseModel]) -> str:
    owner = _model_at(location[:-1], model)
    if owner is None:
        return "remove it"
    name = str(location[-1])
    known = [field.alias or field_name for field_name, field in owner.model_fields.items()]
    block = "".join(
        f"{part}." for part in location[:-1]
    )  # in front of a path, which is else taken for one of the whole
    inside = (f"{block}{path}" for path in _paths_to(name, owner))
    if close := next(iter([*inside, *nearest(name, known, max_names=1)]), None):
        return f"did you mean {close}"
    return f"remove it; the fields here are {', '.join(known)}"


_DEEPEST = 2
"""Blocks inside each other that a name is looked for in: further inside, few write by hand."""


def _paths_to(name: str, model: type[BaseModel]) -> Iterator[str]:
    """Yield the paths of fields with this name, or this name and a unit, in a model's blocks, the outermost first."""
    for paths in fields_inside(model):
        yield from (f"{path}{field_name}" for path, field_name in paths if field_name == name)
        yield from (f"{path}{field_name}" for path, field_name in paths if field_name.startswith(f"{name}_"))


@functools.cache
def fields_inside(model: type[BaseModel]) -> tuple[tuple[tuple[str, str], ...], ...]:
    """List the paths and names of the fields of a model's blocks, level by level: 1 ms of a processor, so only once."""
    levels, level = [], [("", model)]
    for _ in range(_DEEPEST):
        level = [
            (f"{prefix}{field_name}.", inner)
            for prefix, block in level
            for field_name, field in block.model_fields.items()
            if (inner := model_in(field.annotation)) and not holds_list(field.annotation)  # whose blocks have no name
        ]
        levels.append(tuple((path, field_name) for path, block in level for field_name in block.model_fields))
    return tuple(levels)


def _model_at(location: tuple[int | str, ...], model: type[BaseModel]) -> type[BaseModel] | None:
    """Return the model class at a path inside `model`, or None."""
    owner: type[BaseModel] | None = model
    for part in location:
        if owner is None or isinstance(part, int):
            continue
        field = owner.model_fields.get(part)
        owner = model_in(field.annotation) if field else None
    return owner


def holds_list(annotation: Any) -> bool:
    """Tell whether a field's annotation takes a list."""
    return typing.get_origin(annotation) in (tuple, list) or any(map(holds_list, typing.get_args(annotation)))


def model_in(annotation: Any) -> type[BaseModel] | None:
    """Return the model class in a field's annotation, or None."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    if typing.get_origin(annotation) in (typing.Union, types.UnionType, tuple, list, typing.Annotated):
        return next(filter(None, map(model_in, typing.get_args(annotation))), None)
    return None


def has_field(model: type[BaseModel], path: str) -> bool:
    """Whether a document has a field, or a block, of this dotted name; no numbers of a list.

    >>> from sizing.scenario import Scenario
    >>> has_field(Scenario, "checkpoint.format"), has_field(Scenario, "checkpoint"), has_field(Scenario, "layout.node")
    (True, True, False)
    """
    block: type[BaseModel] | None = model
    for part in path.split("."):
        field = block.model_fields.get(part) if block else None
        if field is None:
            return False
        block = model_in(field.annotation)
    return True
