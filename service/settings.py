"""What can be set: by a flag of `ckpt-serve` or in the environment."""

from __future__ import annotations

import difflib
import ipaddress
import os
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from service_client.documents import DEFAULT_MAX_RESULT_BYTES
from sizing.errors import InvalidInput, broken_rule
from sizing.units import ByteCount, PositiveSeconds

_PREFIX = "CKPT_SERVE_"
_BodyBytes = Annotated[ByteCount, Field(le=256 * 1024**2)]
_Limit = Annotated[PositiveSeconds, Field(le=24 * 3600)]

DEFAULT_DATABASE = Path("checkpoint-sizing") / "service.sqlite3"


def default_database_url() -> str:
    """A SQLite file in the user's data directory, so that every command finds it from any directory."""
    data = os.environ.get("XDG_DATA_HOME") or Path("~/.local/share").expanduser()
    return f"sqlite:///{Path(data).absolute() / DEFAULT_DATABASE}"


def _networks(text: str) -> str:
    """Addresses and networks, each of which is one: what is none would trust nobody without a word."""
    try:
        for part in () if text in ("", "*") else text.split(","):
            ipaddress.ip_network(part.strip())
    except ValueError as error:
        raise broken_rule(f"must be addresses or networks ({error})", "give for example 10.0.0.0/8,192.0.2.7") from None
    return text


class Settings(BaseSettings):
    """The settings of the service. A flag goes before the environment, which goes before the default."""

    model_config = SettingsConfigDict(
        env_prefix=_PREFIX, env_ignore_empty=True, extra="forbid", frozen=True, validate_by_name=True
    )

    host: str = Field(
        "127.0.0.1", min_length=1, description="Address to listen on; 0.0.0.0 for access from other machines"
    )
    port: Annotated[int, Field(ge=0, le=65535)] = Field(8000, description="Port to listen on; 0 chooses a free one")
    workers: Annotated[int, Field(ge=1, le=256)] = Field(1, description="Processes that answer requests")
    database_url: str = Field(
        min_length=1,
        default_factory=default_database_url,
        validation_alias="DATABASE_URL",
        description="sqlite:///FILE or postgresql://USER:PASSWORD@HOST/NAME",
    )
    require_login: bool = Field(False, description="Whether questions, catalogs and lists also need a token")
    trusted_proxies: Annotated[str, AfterValidator(_networks)] = Field(
        "",
        description="Addresses or networks of proxies, whose X-Forwarded-For is trusted, separated by commas; "
        "127.0.0.1 for one on this machine, * for all",
    )
    max_body_bytes: _BodyBytes = Field(1024**2, description="Max size of a request body, such as 1MiB")
    max_result_bytes: _BodyBytes = Field(
        DEFAULT_MAX_RESULT_BYTES, description="Max size of a result document, uncompressed, such as 16MiB"
    )
    body_seconds: _Limit = Field(30, description="Timeout for the arrival of a body, such as 30s")
    requests_per_second: Annotated[float, Field(ge=0, le=1e6)] = Field(
        100, description="Max request rate of one client address to each worker, after a burst; 0 is no limit"
    )
    max_connections: Annotated[int, Field(ge=1, le=100_000)] = Field(800, description="Max connections of each worker")
    client_connections: Annotated[int, Field(ge=1, le=100_000)] = Field(
        200, description="Max connections of one client address to each worker; trusted proxies have no such limit"
    )
    compute_workers: Annotated[int, Field(ge=1, le=64)] = Field(
        1, description="Processes per worker for heavy questions, such as sweeps"
    )
    compute_seconds: _Limit = Field(30, description="Timeout of one heavy question, such as 30s")
    compute_memory_bytes: Annotated[ByteCount, Field(ge=512 * 1024**2, le=1024**5)] = Field(
        2 * 1024**3, description="Max memory of one heavy question, such as 2GiB"
    )
    job_workers: Annotated[int, Field(ge=1, le=64)] = Field(1, description="Processes per worker for jobs")
    job_seconds: _Limit = Field(600, description="Timeout of one job, such as 10min")


def variable_of(setting: str) -> str:
    """The variable of the environment that sets it.

    >>> variable_of("port"), variable_of("database_url")
    ('CKPT_SERVE_PORT', 'DATABASE_URL')
    """
    return str(Settings.model_fields[setting].validation_alias or f"{_PREFIX}{setting.upper()}")


def require_known_variables() -> None:
    """Refuse a variable of the environment that sets nothing: a misspelt login would be required of nobody.

    Raises InvalidInput.
    """
    known = [variable_of(setting) for setting in Settings.model_fields]
    for variable in os.environ:
        if variable.upper().startswith(_PREFIX) and variable.upper() not in known:
            nearest = difflib.get_close_matches(variable.upper(), known, n=1, cutoff=0)
            raise InvalidInput.of(
                "the environment",
                "has a variable that is not a setting",
                value=variable,
                remedy=f"the closest setting is {nearest[0]}",
            )
