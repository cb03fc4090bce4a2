"""The commands about backups: make one, and put it back."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from service.cli.flags import DatabaseUrl, database_url_of
from service.database import backup as database_backup


def backup(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A new file.")],
    database_url: DatabaseUrl = None,
) -> None:
    """Copy a SQLite database as it is at this moment, also while it is served."""
    database_backup.back_up(database_url_of(context, database_url), file.absolute())
    typer.echo(f"Backed up to {file}.")


def restore(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A file of ckpt-serve backup.")],
    database_url: DatabaseUrl = None,
) -> None:
    """Put a backup in the place of a SQLite database; what was there is backed up beside it first."""
    before = database_backup.restore(database_url_of(context, database_url), file.absolute())
    typer.echo(f"Restored from {file}." + (f" What was there before is in {before}." if before else ""))
