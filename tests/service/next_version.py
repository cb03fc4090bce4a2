"""The next version of the service, made of this one's source: it renames a column, in two migrations.

The first only adds the new column, and a trigger that fills either column from the other, as the versions write only
one of them. The second drops the old one, once no version runs that writes it.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import service
from service.database.schema import known_to

EXPANDED, CONTRACTED = "r9001", "r9002"

_EXPANSION = '''
"""Titles of scenarios, beside their names."""

import sqlalchemy as sa
from alembic import op

revision, down_revision = "EXPANDED", "PRESENT"


def upgrade():
    op.add_column("scenarios", sa.Column("title", sa.String(100)))
    op.execute("UPDATE scenarios SET title = name")
    op.execute(
        "CREATE FUNCTION fill_both() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        " NEW.title = COALESCE(NEW.title, NEW.name); NEW.name = COALESCE(NEW.name, NEW.title); RETURN NEW; END $$"
    )
    op.execute("CREATE TRIGGER fill_both BEFORE INSERT ON scenarios FOR EACH ROW EXECUTE FUNCTION fill_both()")
'''
_CONTRACTION = '''
"""No names of scenarios."""

from alembic import op

revision, down_revision, serves_from = "CONTRACTED", "EXPANDED", "EXPANDED"


def upgrade():
    op.execute("DROP TRIGGER fill_both ON scenarios")
    op.execute("DROP FUNCTION fill_both")
    op.drop_column("scenarios", "name")
    op.alter_column("scenarios", "title", nullable=False)
'''


def source_of_next_version(folder: Path) -> Path:
    """The folder to start its processes in."""
    package = folder / "service"
    shutil.copytree(Path(service.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    tables = package / "database" / "tables.py"
    before, scenarios, after = tables.read_text().partition("class ScenarioRow(")
    renamed = after.replace("name: Mapped[str] = mapped_column(", 'name: Mapped[str] = mapped_column("title", ', 1)
    tables.write_text(before + scenarios + renamed)
    versions = package / "database" / "migrations" / "versions"
    for revision, text in ((EXPANDED, _EXPANSION), (CONTRACTED, _CONTRACTION)):
        filled = text.replace("PRESENT", known_to()).replace("EXPANDED", EXPANDED).replace("CONTRACTED", CONTRACTED)
        (versions / f"{revision}_next.py").write_text(filled.lstrip())
    return folder
