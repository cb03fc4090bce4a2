"""`ckpt-size techniques`: the catalog, or what each technique of it would change in a scenario."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import typer
from pydantic import JsonValue

from sizing.cli.catalogs import catalog_json, catalog_table
from sizing.cli.flags import FLAGS
from sizing.cli.report_files import REPORT_FILE, require_report_name, write_report
from sizing.cli.scenarios import asked_scenario
from sizing.cli.tables import summary_text
from sizing.cli.terminal import console
from sizing.explore.techniques.techniques_report import TechniquesReport, TechniquesRequest, techniques_of
from sizing.reports.document import techniques_document
from sizing.summary.catalogs import CATALOGS, Catalog
from sizing.summary.techniques import as_field, techniques_summary

VERB = "techniques"

TECHNIQUES_OPTIONS: dict[str, tuple[Any, Any]] = {
    "word": (
        str | None,
        typer.Argument(None, metavar="WORD", help="Only what has it in its name, or else in its line"),
    ),
    "scenario": (Path | None, typer.Option(None, "--scenario", help="Try each on a scenario, JSON or YAML")),
    "report_file": REPORT_FILE,
    "as_json": (bool, typer.Option(False, "--json", help="Print as JSON, with all that is known")),
}


def techniques_verb(
    word: str | None,
    *,
    scenario: Path | None,
    storage: Path | None,
    hf_config: Path | None,
    checkpoint: Path | None,
    report_file: Path | None,
    as_json: bool,
    **flags: str | None,
) -> None:
    """List the techniques of training; with a scenario or its flags, try each on it and show what that changes."""
    require_report_name(report_file)
    catalog = next(each for each in CATALOGS if each.verb == VERB)
    found = {entry.name for entry in catalog.having(word)}
    files = (scenario, storage, hf_config, checkpoint)
    if not any(files) and not any(flags.values()):
        _list(catalog, word, as_json=as_json)
        return
    asked = asked_scenario(scenario, storage=storage, hf_config=hf_config, checkpoint=checkpoint, flags=flags)
    report = techniques_of(TechniquesRequest(scenario=asked))
    report = report.model_copy(update={"techniques": [each for each in report.techniques if each.name in found]})
    write_report(lambda: techniques_document(report), report_file)
    _show(report, as_json=as_json)


def _list(catalog: Catalog, word: str | None, *, as_json: bool) -> None:
    entries = catalog.having(word)
    if as_json:
        print(catalog_json(entries))
    else:
        console().print(catalog_table(catalog, entries))


def _show(report: TechniquesReport, *, as_json: bool) -> None:
    if as_json:
        print(report.model_dump_json(indent=2))
    else:
        console().print(summary_text(techniques_summary(report, spelled=as_flag)))


_FLAG_OF_FIELD = {flag.field: flag.name for flag in FLAGS}


def as_flag(path: str, value: JsonValue) -> str:
    """A field and its value as they are typed, or as a file has them where no flag sets the field.

    >>> as_flag("training.optimizer", "adam-8bit"), as_flag("training.sequence_parallel", False)
    ('--optimizer adam-8bit', 'training.sequence_parallel: false')
    """
    flag = _FLAG_OF_FIELD.get(path)
    if flag is None:
        return as_field(path, value)
    return f"{flag} {shlex.quote(value if isinstance(value, str) else json.dumps(value))}"
