"""Settings, from the environment and the command line."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

DEFAULT_DATABASE = Path("checkpoint-sizing.sqlite3")


class Settings(BaseSettings):
    """What the service can be told; `docs/rest.md` lists the same."""

    model_config = SettingsConfigDict(frozen=True, extra="ignore")

    database_url: str = Field(
        f"sqlite:///{DEFAULT_DATABASE}", description="SQLAlchemy URL; SQLite in the current folder where not given"
    )
    max_body_bytes: int = Field(1024**2, ge=1024, le=1024**3, description="largest request body")
