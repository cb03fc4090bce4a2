"""What can be set: by a flag of `ckpt-serve` or in the environment."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from sizing.units import ByteCount

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
    database_url: str = Field(
        default_factory=default_database_url,
        validation_alias="DATABASE_URL",
        description="sqlite:///FILE or postgresql://USER:PASSWORD@HOST/NAME",
    )
    max_body_bytes: ByteCount = Field(1024**2, description="Largest request body that is read, such as 1MiB")
