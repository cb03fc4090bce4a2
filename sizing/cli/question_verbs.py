"""The verbs that ask questions, as typer takes them. Help and the parser do without the question."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import typer

from sizing.cli.verb_parameters import VerbDescription, VerbParameter, read_described
from sizing.loading import loading
from sizing.questions.registry import QuestionEntry

_ANNOTATIONS: dict[str, Any] = {
    "text": str | None,
    "texts": list[str] | None,
    "number": int | None,
    "switch": bool,
    "open switch": bool | None,
    "file": Path | None,
    "files": list[Path] | None,
    "required file": Path,
    "required files": list[Path],
}
"""By which typer takes a parameter, by the word for its type."""


def question_verb(entry: QuestionEntry[Any, Any]) -> tuple[Callable[..., None], str]:
    """Make the verb that asks a question, with the signature that typer reads, and its help."""
    described = read_described()
    description = described.verbs.get(entry.name) or _describe(entry)
    parameters = description.parameters + (described.flags if description.takes_scenario else ())
    taken = {each.name: (_ANNOTATIONS[each.type], _typer_parameter(each, entry)) for each in parameters}
    further = {each.name for each in description.parameters if each.is_further}
    further |= {each.name for each in parameters[len(description.parameters) :]} - set(description.first_flags)

    def verb(**given: Any) -> None:
        with loading():
            from sizing.cli.questions import ask  # noqa: PLC0415 - help needs no question

            question = entry.question
        ask(question, given)

    verb.further = further  # type: ignore[attr-defined]  # `FewFlags` reads it
    verb.__signature__ = inspect.Signature(  # type: ignore[attr-defined]  # inspect reads it, no stub has it
        [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=option, annotation=annotation)
            for name, (annotation, option) in taken.items()
        ]
    )
    return verb, f"{entry.help}\n\n{description.more_help}" if description.more_help else entry.help


def _describe(entry: QuestionEntry[Any, Any]) -> VerbDescription:
    """Describe a question that the file does not have yet."""
    from sizing.cli.questions import describe_verb  # noqa: PLC0415 - as above

    return describe_verb(entry.question)


def _typer_parameter(parameter: VerbParameter, entry: QuestionEntry[Any, Any]) -> Any:
    default: Any = parameter.default
    if parameter.type.startswith("required"):
        default = ...
    elif parameter.type == "switch":
        default = False
    shown: Any = {"help": parameter.help, "metavar": parameter.metavar, "rich_help_panel": parameter.panel}
    if not parameter.flags:
        return typer.Argument(default, **shown)
    return typer.Option(
        default,
        *parameter.flags,
        **shown,
        autocompletion=_completions_of(parameter.flags[0]) if parameter.has_completions else None,
        callback=_example_printer(entry) if parameter.prints_example else None,
        is_eager=parameter.prints_example,
    )


def _example_printer(entry: QuestionEntry[Any, Any]) -> Callable[..., None]:
    def print_example(*, is_given: bool) -> None:
        if is_given:
            from sizing.cli.questions import example_text  # noqa: PLC0415 - as above

            print(example_text(entry.question), end="")
            raise typer.Exit

    return print_example


def _completions_of(name: str) -> Callable[[str], list[str]]:
    def completions(begun: str) -> list[str]:
        from sizing.cli.flags import FLAGS  # noqa: PLC0415 - as above

        return next(flag for flag in FLAGS if flag.name == name).completions(begun)

    return completions
