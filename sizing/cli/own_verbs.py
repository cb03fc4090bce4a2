"""The verbs that ask no question: inspect a checkpoint, print a profile or the fields, validate what is predicted."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sizing.checkpoint_files import contents_of
from sizing.cli.field_reference import field_reference
from sizing.cli.flags import naming_flags
from sizing.cli.inspection_table import inspection_table
from sizing.cli.validation_table import WIDTH, validation_text
from sizing.terminal.files import read_storage_profile
from sizing.terminal.output import EXIT_MISSED, console
from sizing.validation import validation


def inspect_verb(
    path: Annotated[Path, typer.Argument(help="A safetensors, torch DCP or torch.save file, or a folder")],
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print the contents as JSON")] = False,
) -> None:
    """Read the sizes off an existing checkpoint, without loading its tensors or running its pickles."""
    with naming_flags():
        contents = contents_of(path)
    if as_json:
        print(contents.model_dump_json(indent=2))
    else:
        console().print(inspection_table(contents, path))


def profile_verb(result: Annotated[Path, typer.Argument(help="A result of ckpt-bench run")]) -> None:
    """Print the storage profile of a benchmark result, to put into a scenario."""
    print(read_storage_profile(result).model_dump_json(indent=2, exclude_none=True))


def validate_verb(
    *, as_json: Annotated[bool, typer.Option("--json", help="Print the comparisons as JSON")] = False
) -> None:
    """Compare with what is published, in three parts. Exit with 1 where a miss is not explained."""
    report = validation()
    if as_json:
        print(report.model_dump_json(indent=2))
    else:
        console(width_without_terminal=WIDTH).print(validation_text(report))
    if not report.as_expected:
        raise typer.Exit(EXIT_MISSED)


def fields_verb() -> None:
    """Print every field of a scenario and of its report: unit, default and what it is, as Markdown."""
    print(field_reference())
