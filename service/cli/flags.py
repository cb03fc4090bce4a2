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
from sizing.errors import InvalidInput
from sizing.terminal.program import Version

FIRST_SETTINGS = (
    "host",
    "port",
    "workers",
    "database_url",
    "require_login",
    "trusted_proxies",
    "public_url",
    "oidc_issuer",
    "oidc_client_id",
    "oidc_client_secret",
    "notify_webhook_url",
    "notify_email_to",
    "compute_workers",
    "job_workers",
    "dask",
    "tracing",
)
"""Settings whose flags help shows first; `--help-all` has those of all others."""


def as_given(error: InvalidInput, words: Sequence[str]) -> InvalidInput:
    """Name problems by the flags of the command line, or by environment variables where a value came from one."""
    return InvalidInput(replace(problem, field=_name_given(problem.field, words)) for problem in error.problems)


def _name_given(field: str, words: Sequence[str]) -> str:
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
    metavars = {
        "bytes": "SIZE",
        "seconds": "TIME",
        "url": "URL",
        "host": "ADDRESS",
        "proxies": "ADDRESSES",
        "to": "ADDRESSES",
    }
    metavars |= {
        "issuer": "URL",
        "from": "ADDRESS",
        **dict.fromkeys(("id", "secret", "scopes", "claim", "groups", "key"), "TEXT"),
    }
    is_flag = Settings.model_fields[setting].annotation is bool
    return typer.Option(
        None, _flag_of(setting), metavar=None if is_flag else metavars.get(ending, "N"), help=_help(setting)
    )


DatabaseUrl = Annotated[str | None, typer.Option("--database-url", metavar="URL", help=_help("database_url"))]


def with_settings(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the signature that typer reads: a flag for each setting."""
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
    command.further = flags.keys() - set(FIRST_SETTINGS)  # type: ignore[attr-defined]  # `FewFlags` reads it
    return command


def settings_of(**flags: str | bool | None) -> Settings:
    """Build the settings from the flags that were given. Raises InvalidInput."""
    require_known_variables()
    given: dict[str, Any] = {name: value for name, value in flags.items() if value is not None}
    return validated(Settings, lambda: Settings(**given))


def database_url_of(context: typer.Context, url: str | None) -> str:
    """Return the database URL of a command, of `ckpt-serve` before it, or of the settings. Raises InvalidInput."""
    return settings_of(database_url=context.obj if url is None else url).database_url
