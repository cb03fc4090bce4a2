"""The commands about backups: make one, and put it back."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from service.cli.flags import DatabaseUrl, database_url_of
from service.database import backup as database_backup


def backup(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="File to create.")],
    database_url: DatabaseUrl = None,
) -> None:
    """Back up a SQLite database to a new file, also while the service runs."""
    database_backup.back_up(database_url_of(context, database_url), file.absolute())
    typer.echo(f"Backed up to {file}.")


def restore(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Backup file, made by ckpt-serve backup.")],
    database_url: DatabaseUrl = None,
) -> None:
    """Replace a SQLite database by a backup; the previous database is backed up first."""
    before = database_backup.restore(database_url_of(context, database_url), file.absolute())
    typer.echo(f"Restored from {file}." + (f" The previous database is in {before}." if before else ""))
