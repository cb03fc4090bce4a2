"""Text of what config files became: a table of their settings, and what an answer still needs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from sizing.cli.flags import FLAG_OF_FIELD
from sizing.config_files.reader import ImportedSetting, MissingField
from sizing.errors import Problem
from sizing.importers import ImportReport

MAX_NAMES_SHOWN = 12
"""Settings without effect that are named; a trainer has a hundred."""


def import_table(report: ImportReport) -> RenderableType:
    """Show what each file is, which setting became which field, and which did not."""
    files = (f"{each.name}: {each.read_as}, as of {each.version}" for each in report.files)
    table = Table(box=box.SIMPLE_HEAD, title="Read from config files", title_justify="left", pad_edge=False)
    for heading in ("setting", "value", "field", "became"):
        table.add_column(heading, overflow="fold")
    for each in report.understood:
        became = _text(each.became) if each.field else each.note
        table.add_row(each.setting, _text(each.value), each.field, became)
    for each in report.defaults:
        table.add_row(f"{each.setting} (default)", _text(each.value), each.field, _text(each.became), style="dim")
    return Group(*map(Text, files), table, *(Text(line, style="yellow") for line in import_notes(report)), Text())


def import_notes(report: ImportReport) -> Iterator[str]:
    """Yield a line for each setting that is not understood, one for those without effect, and one for each need."""
    for each in report.not_understood:
        yield f"not understood: {each.file}: {each.setting} {each.note}"
    if report.no_matter:
        yield f"without effect here: {_names(report.no_matter)}"
    for need in report.needed:
        if not need.is_required:
            yield f"still needed: {FLAG_OF_FIELD.get(need.field, need.field)} ({need.why})"


def missing_problems(report: ImportReport) -> list[Problem]:
    """List what must be given beside the files before there is an answer."""
    return [_missing(need) for need in report.needed if need.is_required]


def _missing(need: MissingField) -> Problem:
    if need.field == "cluster.num_gpus":
        ways = FLAG_OF_FIELD[need.field]
    else:
        ways = "--model NAME, --parameters N, or the model's config.json to --from"
    return Problem(need.field, f"is missing, as {need.why}", "", f"add {ways}")


def _names(settings: Iterable[ImportedSetting]) -> str:
    names = list(dict.fromkeys(each.setting for each in settings))
    more = f" and {len(names) - MAX_NAMES_SHOWN} more" if len(names) > MAX_NAMES_SHOWN else ""
    return f"{', '.join(names[:MAX_NAMES_SHOWN])}{more}"


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)
