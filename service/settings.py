"""What can be set: by a flag of `ckpt-serve` or in the environment."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from sizing.units import ByteCount, PositiveSeconds

_BodyBytes = Annotated[ByteCount, Field(le=256 * 1024**2)]

DEFAULT_DATABASE = Path("checkpoint-sizing") / "service.sqlite3"


def default_database_url() -> str:
    """A SQLite file in the user's data directory, so that every command finds it from any directory."""
    data = os.environ.get("XDG_DATA_HOME") or Path("~/.local/share").expanduser()
    return f"sqlite:///{Path(data).absolute() / DEFAULT_DATABASE}"


class Settings(BaseSettings):
    """The settings of the service. A flag goes before the environment, which goes before the default."""

    model_config = SettingsConfigDict(
        env_prefix="CKPT_SERVE_", env_ignore_empty=True, extra="forbid", frozen=True, validate_by_name=True
    )

    host: str = Field("127.0.0.1", description="Address to listen on; 0.0.0.0 lets other machines in")
    port: Annotated[int, Field(ge=0, le=65535)] = Field(8000, description="Port to listen on; 0 takes a free one")
    workers: Annotated[int, Field(ge=1, le=256)] = Field(1, description="Processes that answer requests")
    database_url: str = Field(
        default_factory=default_database_url,
        validation_alias="DATABASE_URL",
        description="sqlite:///FILE or postgresql://USER:PASSWORD@HOST/NAME",
    )
    require_login: bool = Field(False, description="Whether questions, catalogs and lists need a token too")
    trusted_proxies: str = Field(
        "127.0.0.1", description="Addresses or networks whose X-Forwarded-For is believed, with commas; * for all"
    )
    max_body_bytes: _BodyBytes = Field(1024**2, description="Largest request body that is read, such as 1MiB")
    max_result_bytes: _BodyBytes = Field(
        16 * 1024**2, description="Largest result document that is taken, unpacked, such as 16MiB"
    )
    body_seconds: PositiveSeconds = Field(30, description="Time in which a body must arrive, such as 30s")
    requests_per_second: Annotated[float, Field(ge=0, le=1e6)] = Field(
        100, description="Requests of one client address to each worker, after a burst; 0 sets no limit"
    )
    compute_workers: Annotated[int, Field(ge=1, le=64)] = Field(
        1, description="Processes of each worker for heavy questions, such as sweeps"
    )
    compute_seconds: PositiveSeconds = Field(30, description="Time that one heavy question may take, such as 30s")
    compute_memory_bytes: Annotated[ByteCount, Field(ge=512 * 1024**2)] = Field(
        2 * 1024**3, description="Memory that one heavy question may take, such as 2GiB"
    )
