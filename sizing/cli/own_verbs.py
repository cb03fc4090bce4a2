"""The verbs that ask no question: tensors, inspect, profile, validate and fields.

Each imports what it needs when it runs: help needs its flags alone.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from sizing.loading import loading


def tensors_verb(
    path: Annotated[
        Path | None,
        typer.Argument(help="A checkpoint's file or folder, a safetensors header or index, or a scenario with tensors"),
    ] = None,
    *,
    hf_config: Annotated[
        Path | None,
        typer.Option("--hf-config", help="A Hugging Face config.json, built by transformers (extra hf) without memory"),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", help="Write the list into this file, a scenario: ckpt-size FILE --tensor 8"),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the list as JSON, a scenario of the model alone")
    ] = False,
) -> None:
    """List a model's tensors with the roles that the rules give them, equal ones together."""
    with loading():
        from sizing.cli.tensor_lists import print_tensors  # noqa: PLC0415 - see above

    print_tensors(path, hf_config=hf_config, output=output, as_json=as_json)


def inspect_verb(
    path: Annotated[Path, typer.Argument(help="A safetensors, torch DCP or torch.save file, or a folder")],
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print the contents as JSON")] = False,
) -> None:
    """Read the sizes off an existing checkpoint, without loading its tensors or running its pickles."""
    with loading():
        from sizing.checkpoint_files import contents_of  # noqa: PLC0415 - see above
        from sizing.cli.flags import naming_flags  # noqa: PLC0415 - see above
        from sizing.cli.inspection_table import inspection_table  # noqa: PLC0415 - see above
        from sizing.terminal.output import console  # noqa: PLC0415 - see above

    with naming_flags():
        contents = contents_of(path)
    if as_json:
        print(contents.model_dump_json(indent=2))
    else:
        console().print(inspection_table(contents, path))


def profile_verb(result: Annotated[Path, typer.Argument(help="A result of ckpt-bench run")]) -> None:
    """Print the storage profile of a benchmark result, to put into a scenario."""
    with loading():
        from sizing.terminal.storage_files import read_storage_profile  # noqa: PLC0415 - see above

    print(read_storage_profile(result).model_dump_json(indent=2, exclude_none=True))


def validate_verb(
    *, as_json: Annotated[bool, typer.Option("--json", help="Print the comparisons as JSON")] = False
) -> None:
    """Compare with what is published, in three parts. Exit with 1 where a miss is not explained."""
    with loading():
        from sizing.cli.validation_table import WIDTH, validation_text  # noqa: PLC0415 - see above
        from sizing.terminal.output import EXIT_MISSED, console  # noqa: PLC0415 - see above
        from sizing.validation import validation  # noqa: PLC0415 - see above

    report = validation()
    if as_json:
        print(report.model_dump_json(indent=2))
    else:
        console(width_without_terminal=WIDTH).print(validation_text(report))
    if not report.as_expected:
        raise typer.Exit(EXIT_MISSED)


def fields_verb() -> None:
    """Print every field of a scenario and of its report: unit, default and what it is, as Markdown."""
    with loading():
        from sizing.cli.field_reference import field_reference  # noqa: PLC0415 - see above

    print(field_reference())


OWN_VERBS: tuple[Callable[..., None], ...] = (tensors_verb, inspect_verb, profile_verb, validate_verb, fields_verb)
"""In the order in which help lists them; each has its line as its docstring."""
