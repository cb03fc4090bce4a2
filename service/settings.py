"""Settings of the service, from flags of `ckpt-serve` and the environment."""

from __future__ import annotations

import difflib
import ipaddress
import os
from pathlib import Path
from typing import Annotated, Self, get_args
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, model_validator
from pydantic_core import PydanticCustomError
from pydantic_settings import BaseSettings, SettingsConfigDict

from executors.dask import check_scheduler
from service_client.terms import DEFAULT_MAX_RESULT_BYTES, TokenScope
from sizing.errors import InvalidInput, NotInstalled, broken_rule
from sizing.units import ByteCount, PositiveSeconds, binary_bytes_text

_PREFIX = "CKPT_SERVE_"
_BodyBytes = Annotated[ByteCount, Field(le=256 * 1024**2)]
_Limit = Annotated[PositiveSeconds, Field(le=24 * 3600)]

MAX_ISSUER_CHARACTERS = 255
MIN_KEY_CHARACTERS = 32
"""Min length of a key: 128 bits as hex digits."""
_BODIES_OF_A_WORKER = 32
"""Of the largest body a worker holds eight at most while they wait, and what is made of one takes ten times as much;
answers that are not taken have a quarter of its memory, and the program a fifth of a GiB."""
OTHER_MEMORY_BYTES = 1024**3
"""Beside the limits of processes, which count what they allocate: their libraries, their supervisor, and /tmp."""
_LOOPBACK = ("127.0.0.1", "::1", "localhost")

DEFAULT_DATABASE = Path("checkpoint-sizing") / "service.sqlite3"


def default_database_url() -> str:
    """Return the URL of a SQLite file in the user's data directory, the same from any working directory."""
    data = os.environ.get("XDG_DATA_HOME") or Path("~/.local/share").expanduser()
    return f"sqlite:///{Path(data).absolute() / DEFAULT_DATABASE}"


def _require_networks(text: str) -> str:
    """Check addresses and networks, as an invalid one would silently trust nobody."""
    try:
        for part in () if text in ("", "*") else text.split(","):
            ipaddress.ip_network(part.strip())
    except ValueError as error:
        raise broken_rule(f"must be addresses or networks ({error})", "give for example 10.0.0.0/8,192.0.2.7") from None
    return text


def _require_web_address(text: str) -> str:
    """Check the address of a web server, which must be safe from changes on the way."""
    parts = urlsplit(text)
    if not text or (parts.scheme == "https" and parts.hostname) or parts.hostname in _LOOPBACK:
        return text
    raise broken_rule("must begin with https://, or name this machine", "give for example https://sizing.example.org")


def require_webhook(text: str) -> str:
    """Check the address of a webhook. An error does not show the value, which may hold a secret."""
    try:
        return _require_web_address(text)
    except PydanticCustomError:
        rule, remedy = "must begin with https://, or name this machine", "give for example https://hooks.example.org/ID"
        raise InvalidInput.of("notify_webhook_url", rule, value=None, remedy=remedy) from None


def require_mail_server(text: str) -> str:
    """Check the address of a mail server. An error does not show the value, which may hold a password."""
    parts = urlsplit(text)
    if text and (parts.scheme not in {"smtp", "smtps"} or not parts.hostname):
        remedy = "give for example smtps://USER:PASSWORD@mail.example.org"
        raise InvalidInput.of("notify_smtp_url", "must begin with smtp:// or smtps://", value=None, remedy=remedy)
    return text


def _require_long_keys(text: str) -> str:
    """Check that nobody can guess one of the secrets. An error does not show the value."""
    if any(len(key.strip()) < MIN_KEY_CHARACTERS for key in text.split(",") if text):
        rule = f"must be secrets of at least {MIN_KEY_CHARACTERS} characters, separated by commas"
        raise InvalidInput.of("session_key", rule, value=None, remedy="make one with openssl rand -hex 32")
    return text


def _require_groups(text: str) -> str:
    """Check the scopes of groups, as `service.access.provider` reads them."""
    for pair in filter(None, text.split(",")):
        group, _, scope = pair.rpartition("=")
        if not group.strip() or scope.strip() not in get_args(TokenScope):
            rule = f"must be groups with one of the scopes {', '.join(get_args(TokenScope))}"
            raise broken_rule(rule, "give for example storage-team=write,storage-admins=admin,*=read")
    return text


def require_scheduler(text: str) -> str:
    """Check the address of a scheduler, and that what speaks to it is installed."""
    if text:
        check_scheduler(text, "dask")
    return text


def require_tracing(is_on: bool) -> bool:
    """Check that what sends traces is installed, where they are switched on."""
    if is_on:
        try:
            import opentelemetry.exporter.otlp.proto.http.trace_exporter  # noqa: PLC0415 - an extra
            import opentelemetry.sdk.trace  # noqa: F401, PLC0415 - an extra
        except ModuleNotFoundError:
            remedy = "pip install 'checkpoint-sizing[tracing]'"
            raise NotInstalled.of("tracing", "needs the OpenTelemetry SDK", value=None, remedy=remedy) from None
    return is_on


_WebAddress = Annotated[str, AfterValidator(_require_web_address)]


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
    trusted_proxies: Annotated[str, AfterValidator(_require_networks)] = Field(
        "",
        description="Addresses or networks of proxies, whose X-Forwarded-For is trusted, separated by commas; "
        "127.0.0.1 for one on this machine, * for all",
    )
    public_url: _WebAddress = Field(
        "", description="Address at which browsers reach the service, such as https://sizing.example.org; for logins"
    )
    oidc_issuer: _WebAddress = Field(
        "",
        max_length=MAX_ISSUER_CHARACTERS,
        description="Issuer of the OpenID Connect provider that people log in at, as it names itself; none, no login",
    )
    oidc_client_id: str = Field("", description="Id of this service at the provider")
    oidc_client_secret: str = Field("", description="Secret of this service at the provider; none for a public client")
    oidc_scopes: str = Field("openid profile email", description="Scopes that the provider is asked for")
    oidc_groups_claim: str = Field(
        "groups", min_length=1, description="Claim of the provider that names a person's groups"
    )
    oidc_groups: Annotated[str, AfterValidator(_require_groups)] = Field(
        "",
        description="Scope of each group, such as storage-team=write,storage-admins=admin,*=read; * is everybody who "
        "logs in, and the largest scope counts",
    )
    session_key: Annotated[str, AfterValidator(_require_long_keys)] = Field(
        "",
        description="Secrets that sign the cookies of logins, the newest first, separated by commas; the same for all "
        "instances",
    )
    session_seconds: Annotated[PositiveSeconds, Field(le=30 * 24 * 3600)] = Field(
        8 * 3600, description="Time after which people log in again, such as 8h"
    )
    notify_webhook_url: Annotated[str, AfterValidator(require_webhook)] = Field(
        "", description="Address that is told of storage that became slower, as JSON by POST; none, nobody is told"
    )
    notify_email_to: str = Field(
        "", description="Mail addresses that are told of storage that became slower, separated by commas"
    )
    notify_email_from: str = Field("", description="Mail address that notices come from")
    notify_smtp_url: Annotated[str, AfterValidator(require_mail_server)] = Field(
        "", description="Mail server, such as smtps://USER:PASSWORD@mail.example.org or smtp://mail.example.org:587"
    )
    notify_private: bool = Field(
        False, description="Whether the webhook and the mail server may have addresses that are not public"
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
    worker_memory_bytes: Annotated[ByteCount, Field(ge=512 * 1024**2, le=1024**5)] = Field(
        1024**3, description="Max memory of a worker itself, such as 1GiB"
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
    dask: Annotated[str, AfterValidator(require_scheduler)] = Field(
        "",
        validation_alias="CKPT_DASK",
        description="Scheduler of Dask whose workers compute jobs that are cut into chunks, tcp:// or tls://HOST:PORT; "
        "none, the process of the job",
    )
    tracing: Annotated[bool, AfterValidator(require_tracing)] = Field(
        False,
        description="Whether traces of requests, jobs and chunks are sent by OpenTelemetry (OTLP/HTTP); the OTEL_* "
        "variables say where to",
    )

    @property
    def max_memory_bytes(self) -> int:
        """Memory that all processes together may take: the workers, the processes beside each, and what stays."""
        beside = (self.compute_workers + self.job_workers) * self.compute_memory_bytes
        return self.workers * (self.worker_memory_bytes + beside) + OTHER_MEMORY_BYTES

    @model_validator(mode="after")
    def _has_room_for_the_largest_body(self) -> Self:
        least = _BODIES_OF_A_WORKER * max(self.max_body_bytes, self.max_result_bytes)
        if self.worker_memory_bytes < least:
            remedy = f"set at least {binary_bytes_text(least)}, or allow smaller bodies and results"
            rule = f"must be {_BODIES_OF_A_WORKER} times the largest body"
            raise InvalidInput.of(
                "worker_memory_bytes", rule, value=binary_bytes_text(self.worker_memory_bytes), remedy=remedy
            )
        return self

    @model_validator(mode="after")
    def _has_all_that_others_need(self) -> Self:
        needs = {
            "oidc_issuer": ("public_url", "oidc_client_id", "oidc_groups", "session_key"),
            "notify_email_to": ("notify_smtp_url", "notify_email_from"),
        }
        for setting, needed in needs.items():
            value = getattr(self, setting)
            missing = [variable_of(name) for name in needed if not getattr(self, name)]
            if value and missing:
                remedy = f"set {', '.join(missing)}"
                raise InvalidInput.of(setting, "needs more settings", value=value, remedy=remedy)
        return self


def variable_of(setting: str) -> str:
    """Return the environment variable of a setting.

    >>> variable_of("port"), variable_of("database_url")
    ('CKPT_SERVE_PORT', 'DATABASE_URL')
    """
    return str(Settings.model_fields[setting].validation_alias or f"{_PREFIX}{setting.upper()}")


def require_known_variables() -> None:
    """Refuse a variable of the environment that sets nothing: a misspelt login would be required of nobody.

    Raises InvalidInput.
    """
    known = {variable_of(setting): setting for setting in Settings.model_fields}
    for variable in os.environ:
        if variable.upper().startswith(_PREFIX) and variable.upper() not in known:
            name = variable.lower().removeprefix(_PREFIX.lower())
            nearest = difflib.get_close_matches(name, known.values(), n=1, cutoff=0)
            raise InvalidInput.of(
                "the environment",
                "has a variable that is not a setting",
                value=variable,
                remedy=f"the closest setting is {variable_of(nearest[0])}",
            )
