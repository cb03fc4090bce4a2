"""Verbs whose flags are the fields of a class of options: `io_bench.options` says what each flag is."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Annotated, Any, cast

import typer
from pydantic.fields import FieldInfo

from io_bench.options import TargetOptions

Flags = Mapping[str, Any]
"""The flags of a command as they were spelled, with their values."""


def takes(options: type[TargetOptions]) -> Callable[[Callable[[Flags], None]], Callable[..., None]]:
    """Make a verb of a function of `Flags`: with a flag for each field of `options`.

    Values arrive as text, since `options` reads them and says what is wrong. The target is the first flag, then come
    those of the verb itself, then those that it shares with others.
    """
    classes = [each for each in options.__mro__ if issubclass(each, TargetOptions) and each is not TargetOptions]
    names = dict.fromkeys(name for each in (TargetOptions, *classes) for name in each.__annotations__)
    fields = options.model_fields
    parameters = {f"{fields[name].alias}": _parameter(fields[name]) for name in names if name in fields}
    further = {parameters[f"{each.alias}"].name for each in fields.values() if _shown(each)["is_further"]}

    def decorate(verb: Callable[[Flags], None]) -> Callable[..., None]:
        @functools.wraps(verb)
        def called(**values: Any) -> None:
            verb({flag: values[parameter.name] for flag, parameter in parameters.items()})

        called.__signature__ = inspect.Signature(list(parameters.values()))  # type: ignore[attr-defined]  # typer reads it
        called.further = further  # type: ignore[attr-defined]  # `FewFlags` reads it
        return called

    return decorate


def _shown(field: FieldInfo) -> dict[str, Any]:
    return cast("dict[str, Any]", field.json_schema_extra)


def _parameter(field: FieldInfo) -> inspect.Parameter:
    """One flag of a verb as typer reads it: a switch, a text, or a text that may be given several times."""
    flag, shown = f"{field.alias}", _shown(field)
    default: Any = shown["default"]
    if field.annotation is bool:
        kind: Any = bool
        default = False
    elif field.default == ():
        kind = list[str] | None
    else:
        kind = str if field.is_required() or default is not None else str | None
    option = typer.Option(flag, metavar=shown["metavar"], help=field.description)
    return inspect.Parameter(
        f"of_{flag.removeprefix('--').replace('-', '_')}",  # no word of Python, as `from` is
        inspect.Parameter.KEYWORD_ONLY,
        default=inspect.Parameter.empty if field.is_required() else default,
        annotation=Annotated[kind, option],
    )
