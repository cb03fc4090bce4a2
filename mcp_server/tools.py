"""The tools: one for each question of the registry, and three that tell what a question may hold."""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from mcp_server.schemas import Schema, find_fields, input_schema
from sizing.errors import InvalidInput
from sizing.importers import ImportRequest, import_config_files
from sizing.present.catalogs import CATALOGS
from sizing.present.document import Document
from sizing.present.markdown import markdown_of
from sizing.printed_numbers import validate_as_printed
from sizing.questions.chunks import Progress
from sizing.questions.question import Question
from sizing.questions.registry import QUESTIONS, QuestionEntry

DETAIL = "detail"
"""Argument of every question beside the fields of its request."""
DETAILS = ("short", "tables", "report")
MAX_ROWS = 30
"""Rows of a table in a short answer."""

INSTRUCTIONS = """Sizes storage for the checkpoints of training clusters: bytes by rank and file, times to write and to
restore, lost time, best interval, what to buy. Begin with `answer`; `config_files` makes its scenario of a training's
own config files. `catalog` lists the names of models, nodes and storage, `fields` describes the fields of a scenario.
Sizes, rates and times may be texts with a unit: "13.8 TB", "273 GB/s", "4h".
Say what an answer marks as a guess (~)."""


class Result(NamedTuple):
    """What a tool says: a text to read and, where it was asked for, the whole answer as a document."""

    text: str
    document: dict[str, Any] | None = None


class QuestionTool(NamedTuple):
    """A tool under the name by which programs call it."""

    name: str
    title: str
    description: str
    schema: Callable[[], Schema]
    call: Callable[[Mapping[str, Any], Progress], Result]
    """Answers arguments. Raises InvalidInput where they break a rule."""


def _question_tool(entry: QuestionEntry[Any, Any], *, is_first_with_request: bool) -> QuestionTool:
    """Make the tool of a question; what it takes is described at length where no tool before it takes the same."""

    def describe() -> Schema:
        schema = input_schema(entry.question.request, depth=2 if is_first_with_request else 1)
        schema["properties"][DETAIL] = {
            "enum": list(DETAILS),
            "default": "short",
            "description": "`short`: verdict and main figures. `tables`: all tables. `report`: every figure, as JSON.",
        }
        return schema

    def call(arguments: Mapping[str, Any], progress: Progress) -> Result:
        document = dict(arguments)
        detail = document.pop(DETAIL, "short")
        if detail not in DETAILS:
            raise InvalidInput.of(
                DETAIL, "must be known", value=str(detail), remedy=f"give one of {', '.join(DETAILS)}"
            )
        question: Question[Any, Any] = entry.question
        answer = question.answer_request(question.parse_request(document), progress)
        shown = answer.document()
        text = markdown_of(
            shown if detail == "tables" else _shortened(shown, has_first_screen=question.has_first_screen)
        )
        return Result(text, answer.report.model_dump(mode="json") if detail == "report" else None)

    return QuestionTool(entry.name, entry.question.title, entry.help, describe, call)


def _shortened(document: Document, *, has_first_screen: bool) -> Document:
    """Keep the first page and the tables that belong to it; of an answer without a first page, the first rows."""
    if has_first_screen:
        grids = tuple(grid for grid in document.grids if grid.leads)
        return dataclasses.replace(document, sections=(), grids=grids, remarks=())
    left_out = sum(max(len(grid.rows) - MAX_ROWS, 0) for grid in document.grids)
    grids = tuple(grid._replace(rows=grid.rows[:MAX_ROWS]) for grid in document.grids)
    remarks = (f"{left_out:,} more rows stand in the answer with {DETAIL} `tables`.",) if left_out else ()
    return dataclasses.replace(document, grids=grids, remarks=(*document.remarks, *remarks))


def _list_catalog(arguments: Mapping[str, Any], _progress: Progress) -> Result:
    catalogs = {each.verb: each for each in CATALOGS}
    name = arguments.get("catalog")
    if name not in catalogs:
        raise InvalidInput.of("catalog", "must be known", value=str(name), remedy=f"give one of {', '.join(catalogs)}")
    entries = catalogs[name].search(arguments.get("words") or None)
    lines = [" | ".join(entry.cells).replace("\n", " ") for entry in entries[:MAX_ROWS]]
    if len(entries) > MAX_ROWS:
        names = ", ".join(entry.name for entry in entries[MAX_ROWS:])
        lines.append(f"{len(entries) - MAX_ROWS:,} more, which `words` finds: {names}")
    return Result("\n".join([" | ".join(catalogs[name].columns), *lines]))


def _describe_fields(arguments: Mapping[str, Any], _progress: Progress) -> Result:
    words = arguments.get("words")
    if not isinstance(words, str) or not words.strip():
        raise InvalidInput.of("words", "must be a text", value=str(words), remedy="give words such as: write bandwidth")
    return Result("\n".join(field.line for field in find_fields(words)))


def _import(arguments: Mapping[str, Any], _progress: Progress) -> Result:
    report = import_config_files(validate_as_printed(ImportRequest, dict(arguments)))
    needs = [f"{each.field} is needed: {each.why}" for each in report.needed]
    strange = [f"{each.setting} in {each.file} is not understood: {each.note}" for each in report.not_understood]
    scenario = json.dumps(report.scenario, indent=1)
    text = "\n".join(["The scenario, for `answer`:", scenario, *needs, *strange])
    return Result(text, report.model_dump(mode="json"))


_WORDS: Schema = {"type": "string", "description": "Words that must stand in the name, or else in the line."}


@functools.cache
def tools() -> dict[str, QuestionTool]:
    """Return every tool by its name, those that people need first before the others."""
    requests = [entry.question.request for entry in QUESTIONS.values()]
    of_questions = [
        _question_tool(entry, is_first_with_request=requests.index(request) == number)
        for number, (entry, request) in enumerate(zip(QUESTIONS.values(), requests, strict=True))
    ]
    catalog: Schema = {
        "type": "object",
        "properties": {"catalog": {"enum": [each.verb for each in CATALOGS]}, "words": _WORDS},
        "required": ["catalog"],
    }
    fields: Schema = {"type": "object", "properties": {"words": _WORDS}, "required": ["words"]}
    others = [
        QuestionTool(
            "config_files",
            "Config files as a scenario",
            "Read a training's config files (torchtitan, Megatron, DeepSpeed, Trainer, verl and others) as a scenario.",
            lambda: input_schema(ImportRequest),
            _import,
        ),
        QuestionTool(
            "catalog",
            "Catalogs",
            "List models, nodes, storage, failure rates, formats, frameworks or techniques that a scenario may name.",
            lambda: catalog,
            _list_catalog,
        ),
        QuestionTool(
            "fields",
            "Fields",
            "Find fields of a scenario by words, with unit and default.",
            lambda: fields,
            _describe_fields,
        ),
    ]
    return {tool.name: tool for tool in (*of_questions, *others)}
