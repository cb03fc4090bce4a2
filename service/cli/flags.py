"""Flags from settings: each setting is a flag of `ckpt-serve`, with the setting's description as help."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Annotated, Any

import typer

from service.errors import validated
from service.settings import Settings, require_known_variables, variable_of


def _help(setting: str) -> str:
    field = Settings.model_fields[setting]
    default = "a file in the data directory" if field.default_factory else field.default
    return f"{field.description}  [env: {variable_of(setting)}; default: {default}]"


def _option(setting: str) -> Any:
    ending = setting.rpartition("_")[2]
    metavars = {"bytes": "SIZE", "seconds": "TIME", "url": "URL", "host": "ADDRESS", "proxies": "ADDRESSES"}
    is_flag = Settings.model_fields[setting].annotation is bool
    flag = f"--{setting.replace('_', '-')}"
    return typer.Option(None, flag, metavar=None if is_flag else metavars.get(ending, "N"), help=_help(setting))


DatabaseUrl = Annotated[str | None, typer.Option("--database-url", metavar="URL", help=_help("database_url"))]


def with_settings(command: Callable[..., None]) -> Callable[..., None]:
    """The command with the signature that typer reads: a flag for each setting."""
    flags: dict[str, tuple[Any, Any]] = {
        name: (bool | None if field.annotation is bool else str | None, _option(name))
        for name, field in Settings.model_fields.items()
    }
    version = (bool, typer.Option(False, "--version", help="Print the version."))
    command.__signature__ = inspect.Signature(  # type: ignore[attr-defined]  # inspect reads it, no stub has it
        [
            inspect.Parameter("context", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context),
            *(
                inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=option, annotation=annotation)
                for name, (annotation, option) in (flags | {"version": version}).items()
            ),
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
