"""`ckpt-size`: a Scenario from a file and flags, a SizingReport as text or JSON."""

from __future__ import annotations

import inspect
import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from sizing import __version__
from sizing.checkpoint_files import contents_of
from sizing.cli.catalogs import models_table, nodes_table
from sizing.cli.files import read_document, read_storage_profile
from sizing.cli.flags import FLAGS, with_flags
from sizing.cli.inspection_table import inspection_table
from sizing.cli.report_text import report_text
from sizing.cli.validation_table import validation_table
from sizing.errors import InvalidInput, SizingError
from sizing.report import answer
from sizing.scenario import scenario_from
from sizing.validation import comparisons

WIDTH_WITHOUT_TERMINAL = 160
EXIT_MISSED = 1
EXIT_BAD_INPUT = 2

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    help="Size the storage that a training cluster needs for its checkpoints. "
    "`ckpt-size SCENARIO.json` or `ckpt-size --model NAME ...` mean `ckpt-size answer ...`.",
)


def main() -> None:
    """Run `ckpt-size`; the exit code is 0 for an answer, 1 for a missed target, 2 for bad input."""
    try:
        app(_with_verb(sys.argv[1:]))
    except SizingError as error:
        for line in str(error).splitlines():
            print(f"error: {line}", file=sys.stderr)
        sys.exit(EXIT_BAD_INPUT)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def answer_verb(
    scenario: Path | None = None, *, storage: Path | None, as_json: bool, check: bool, **flags: str | None
) -> None:
    """Answer a scenario from a JSON or YAML file, from flags, or from a file with flags set over it."""
    if scenario is None and not any(flags.values()):
        raise InvalidInput.of(
            "the scenario",
            "is missing",
            value="",
            remedy="give a file, or --model NAME; see ckpt-size --help",
        )
    document = read_document(scenario) if scenario else {}
    if storage is not None:
        document["storage"] = {"profile": read_storage_profile(storage).model_dump(exclude_none=True)}
    report = answer(scenario_from(with_flags(document, flags)))
    if as_json:
        print(report.model_dump_json(indent=2))
    else:
        _console().print(report_text(report))
    if check and any(target.met is False for target in report.targets):
        raise typer.Exit(EXIT_MISSED)


def _print_version(*, wanted: bool) -> None:
    if wanted:
        print(f"ckpt-size {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=lambda wanted: _print_version(wanted=wanted), is_eager=True)
    ] = False,
) -> None:
    pass


def _answer_signature() -> inspect.Signature:
    """What typer reads: the fixed parameters of `answer_verb`, and one option per row of FLAGS."""
    fixed: dict[str, tuple[Any, Any]] = {
        "scenario": (Path | None, typer.Argument(None, help="A scenario, JSON or YAML")),
        "storage": (
            Path | None,
            typer.Option(None, "--storage", help="A storage profile, or a result of ckpt-bench run"),
        ),
        "as_json": (bool, typer.Option(False, "--json", help="Print the report as JSON")),
        "check": (bool, typer.Option(False, "--check", help="Exit with 1 where a target is missed")),
    }
    options = {
        flag.parameter: (
            str | None,
            typer.Option(
                None,
                flag.name,
                help=f"{flag.help} ({flag.field})",
                metavar=flag.metavar,
                rich_help_panel=flag.field.split(".")[0].capitalize(),
            ),
        )
        for flag in FLAGS
    }
    return inspect.Signature(
        [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=option, annotation=annotation)
            for name, (annotation, option) in (fixed | options).items()
        ]
    )


answer_verb.__signature__ = _answer_signature()  # type: ignore[attr-defined]
app.command("answer")(answer_verb)


@app.command("inspect")
def inspect_verb(
    path: Annotated[Path, typer.Argument(help="A safetensors, torch DCP or torch.save file, or a folder")],
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print the contents as JSON")] = False,
) -> None:
    """Read the sizes off an existing checkpoint, without loading its tensors or running its pickles."""
    contents = contents_of(path)
    if as_json:
        print(contents.model_dump_json(indent=2))
    else:
        _console().print(inspection_table(contents))


@app.command("profile")
def profile_verb(result: Annotated[Path, typer.Argument(help="A result of ckpt-bench run")]) -> None:
    """Print the storage profile of a benchmark result, to put into a scenario."""
    print(read_storage_profile(result).model_dump_json(indent=2, exclude_none=True))


@app.command("validate")
def validate_verb() -> None:
    """Compare with published facts: prediction, truth, ratio and source. Exit with 1 where one is missed."""
    compared = comparisons()
    _console().print(validation_table(compared))
    if not all(comparison.as_expected for comparison in compared):
        raise typer.Exit(EXIT_MISSED)


@app.command("models")
def models_verb() -> None:
    """List the model catalog."""
    _console().print(models_table())


@app.command("nodes")
def nodes_verb() -> None:
    """List the node catalog."""
    _console().print(nodes_table())


def _with_verb(arguments: list[str]) -> list[str]:
    """Arguments in which a bare file or flag is preceded by the verb `answer`."""
    verbs = {command.name for command in app.registered_commands}
    if not arguments or arguments[0] in verbs or arguments[0] in ("--help", "--version"):
        return arguments
    return ["answer", *arguments]


def _console() -> Console:
    return Console(width=None if sys.stdout.isatty() else WIDTH_WITHOUT_TERMINAL, highlight=False)
