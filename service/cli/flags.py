"""Flags from settings: each setting is a flag of `ckpt-serve`, with the setting's description as help."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Annotated, Any

import typer

from service.database.tokens import NewToken
from service.errors import validated
from service.settings import Settings, require_known_variables, variable_of
from sizing.cli.console import Version
from sizing.errors import InvalidInput


def as_given(error: InvalidInput, words: Sequence[str]) -> InvalidInput:
    """The problems in the words of the command line, or of the environment where the value came from there."""
    return InvalidInput(replace(problem, field=_given_as(problem.field, words)) for problem in error.problems)


def _given_as(field: str, words: Sequence[str]) -> str:
    if field not in (*Settings.model_fields, *NewToken.model_fields):
        return field
    flag = _flag_of(field)
    is_typed = any(word.partition("=")[0] == flag for word in words)
    if field in Settings.model_fields and not is_typed and variable_of(field) in os.environ:
        return variable_of(field)
    return flag


def _flag_of(field: str) -> str:
    return f"--{field.replace('_', '-')}"


def _help(setting: str) -> str:
    field = Settings.model_fields[setting]
    default = "a file in the data directory" if field.default_factory else field.default
    default = "none" if default == "" else default
    return f"{field.description}. Environment: {variable_of(setting)}. Default: {default}."


def _option(setting: str) -> Any:
    ending = setting.rpartition("_")[2]
    metavars = {"bytes": "SIZE", "seconds": "TIME", "url": "URL", "host": "ADDRESS", "proxies": "ADDRESSES"}
    metavars |= {"issuer": "URL", **dict.fromkeys(("id", "secret", "scopes", "claim", "groups", "key"), "TEXT")}
    is_flag = Settings.model_fields[setting].annotation is bool
    return typer.Option(
        None, _flag_of(setting), metavar=None if is_flag else metavars.get(ending, "N"), help=_help(setting)
    )


DatabaseUrl = Annotated[str | None, typer.Option("--database-url", metavar="URL", help=_help("database_url"))]


def with_settings(command: Callable[..., None]) -> Callable[..., None]:
    """The command with the signature that typer reads: a flag for each setting."""
    flags: dict[str, tuple[Any, Any]] = {
        name: (bool | None if field.annotation is bool else str | None, _option(name))
        for name, field in Settings.model_fields.items()
    }
    command.__signature__ = inspect.Signature(  # type: ignore[attr-defined]  # inspect reads it, no stub has it
        [
            inspect.Parameter("context", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context),
            *(
                inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=option, annotation=annotation)
                for name, (annotation, option) in flags.items()
            ),
            inspect.Parameter("version", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=Version),
        ]
    )
    return command


def settings_of(**flags: str | bool | None) -> Settings:
    """The settings by the flags that were given. Raises InvalidInput."""
    require_known_variables()
    given: dict[str, Any] = {name: value for name, value in flags.items() if value is not None}
    return validated(Settings, lambda: Settings(**given))


def database_url_of(context: typer.Context, url: str | None) -> str:
    """The database that a command names, or `ckpt-serve` before it, or else the settings. Raises InvalidInput."""
    before = context.find_root().params["database_url"]
    return settings_of(database_url=before if url is None else url).database_url
