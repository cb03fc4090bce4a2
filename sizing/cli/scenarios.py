"""A Scenario as the command line gives it: a file, flags set over it, or both."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import typer

from sizing.cli.flags import FLAG_OF_FIELD, FLAGS, by_flags, with_flags
from sizing.errors import InvalidInput, UnreadableFile
from sizing.report import find_layout
from sizing.scenario import Scenario
from sizing.storage.catalog import storage_profiles
from sizing.terminal.files import read_document, read_storage
from sizing.terminal.verb_help import help_all_option
from sizing.units import rate_as_read

_SCENARIO_PARAMETERS: dict[str, tuple[Any, Any]] = {
    "scenario": (Path | None, typer.Argument(None, help="A scenario, JSON or YAML, or a config file as of --from")),
    "config_files": (
        list[Path] | None,
        typer.Option(None, "--from", metavar="FILE...", help="Config files of a training, or its launch script"),
    ),
    "hf_config": (Path | None, typer.Option(None, "--hf-config", help="A Hugging Face config.json as the model")),
    "checkpoint": (
        Path | None,
        typer.Option(None, "--checkpoint", help="An existing checkpoint: the flags that inspect prints of it"),
    ),
    "print_scenario": (
        bool,
        typer.Option(False, "--print", help="Print the scenario that files and flags make, as YAML, and stop"),
    ),
    "storage": (
        Path | None,
        typer.Option(None, "--storage", help="A calibration, a storage profile, or a result of ckpt-bench run"),
    ),
}


_FIELD_OF_FLAG = {flag.parameter: flag.field for flag in FLAGS}
_FURTHER = frozenset(
    {"hf_config", "checkpoint", "print_scenario", *(flag.parameter for flag in FLAGS if not flag.is_common)}
)
"""What help leaves out of a verb that takes a scenario, until all is asked for."""


@functools.cache
def _options() -> dict[str, tuple[Any, Any]]:
    """Make an option for each row of FLAGS, which many verbs take; its help comes from the fields' descriptions."""
    return {
        flag.parameter: (
            bool | None if flag.sets else str | None,
            typer.Option(
                None,
                flag.name,
                help=flag.help,
                metavar=None if flag.sets else flag.metavar,
                autocompletion=None if flag.sets else flag.completions,
                rich_help_panel=flag.field.split(".")[0].capitalize(),
            ),
        )
        for flag in FLAGS
    }


def with_scenario_parameters(
    verb: Callable[..., None], *, own_fields: Mapping[str, str] | None = None, **own: tuple[Any, Any]
) -> Callable[..., None]:
    """Give a verb the signature that typer reads: a scenario, the verb's own options, an option for each flag.

    Problems of a field name the flag that set it; `own_fields` has the fields that the verb's own options set, which
    nothing but a file could set otherwise.
    """
    parameters = _SCENARIO_PARAMETERS | own | _options() | {"help_all": (bool, help_all_option())}
    own_fields = own_fields or {}
    fields = _FIELD_OF_FLAG | dict(own_fields)

    @functools.wraps(verb)
    def in_words_of_flags(**given: Any) -> None:
        given.pop("help_all", None)  # answered by its callback
        typed = {
            fields[name]: FLAG_OF_FIELD.get(fields[name], parameters[name][1].param_decls[0])
            for name, value in given.items()
            if name in fields and (value not in (None, False) or (name in own_fields and given.get("scenario") is None))
        }
        try:
            verb(**given)
        except InvalidInput as error:
            raise by_flags(error, typed, given.get("scenario")) from None

    in_words_of_flags.further = _FURTHER  # type: ignore[attr-defined]  # `VerbWithManyFlags` reads it
    in_words_of_flags.__signature__ = inspect.Signature(  # type: ignore[attr-defined]  # inspect reads it, no stub has it
        [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=option, annotation=annotation)
            for name, (annotation, option) in parameters.items()
        ]
    )
    return in_words_of_flags


def lay_out_with_notes(document: dict[str, Any]) -> Scenario:
    """Lay out the scenario of a document on its GPUs, and print what was assumed for that as notes."""
    scenario, assumptions, nothing_fits = find_layout(document)
    if nothing_fits is not None:
        print(f"warning: {nothing_fits.sentence}", file=sys.stderr)
    for assumption in assumptions:
        print(f"note: {assumption.sentence}", file=sys.stderr)
    return scenario


def scenario_document(
    path: Path | None,
    *,
    storage: Path | None,
    hf_config: Path | None,
    checkpoint: Path | None,
    flags: Mapping[str, Any],
    config_files: Sequence[Path] = (),
    shows_import: bool = False,
) -> dict[str, Any]:
    """Set the given flags over the scenario of a file; the document is not yet validated.

    `shows_import`: a table says what config files became, in place of notes on what they did not tell.
    A flag may hold a list or a range as well. Raises InvalidInput or UnreadableFile.
    """
    if not (path or hf_config or checkpoint or config_files or any(flags.values())):
        raise InvalidInput.of(
            "the scenario", "is missing", value=None, remedy="give a file, or --model NAME; see ckpt-size --help"
        )
    if path and config_files:
        remedy = f"keep one, or give {path} to --from as well"
        raise InvalidInput.of(f"--from {config_files[0]}", "excludes a scenario", value=str(path), remedy=remedy)
    _refuse_both("--hf-config", hf_config, flags, "model", "parameters")
    _refuse_both("--storage", storage, flags, "storage_preset")
    document = read_document(path) if path else {}
    if config_files:
        given = [flag.field for flag in FLAGS if flags.get(flag.parameter) is not None]
        given += ["model"] if hf_config or checkpoint else []
        given += ["storage"] if storage else []
        from sizing.cli.config_file_reading import read_scenario  # noqa: PLC0415 - importers load where they are needed

        document = read_scenario(config_files, gpus=flags.get("gpus"), given=given, as_table=shows_import)
    if checkpoint is not None:
        from sizing.cli.checkpoint_fields import with_checkpoint  # noqa: PLC0415 - and readers of checkpoints as well

        document = with_checkpoint(document, checkpoint, flags, is_config_given=hf_config is not None)
    if hf_config is not None:
        document["model"] = {"huggingface_config": read_document(hf_config)}
    if storage is not None:
        if not storage.suffix and not storage.exists():  # the name of a product or a kind, such as lustre or s3
            raise UnreadableFile(
                f"--storage takes a file, and there is none named {storage}: of a storage system by its name give "
                "--write-bandwidth, --read-bandwidth and, of one process, --writer-write-bandwidth, or one of "
                f"--storage-preset {', '.join(storage_profiles())}; ckpt-bench run measures yours."
            )
        document["storage"] = read_storage(storage)
    document = with_flags(document, flags)
    _note_small_letters(document)
    return document


def is_config_file(path: Path) -> bool:
    """Tell whether a file that is given as a scenario is the config file of a training.

    A file whose blocks are all those of a scenario is one, whatever else it looks like.
    """
    try:
        if set(read_document(path)) <= set(Scenario.model_fields):
            return False
    except UnreadableFile:
        pass  # TOML and scripts are no scenarios
    from sizing.cli.config_file_reading import holds_config  # noqa: PLC0415 - a scenario needs no importer

    return holds_config(path)


def _refuse_both(option: str, path: Path | None, flags: Mapping[str, Any], *parameters: str) -> None:
    """Refuse a file beside a flag that says the same, as one of them would be dropped without a word."""
    given = [flag.name for flag in FLAGS if flag.parameter in parameters and flags.get(flag.parameter) is not None]
    if path is not None and given:
        raise InvalidInput.of(f"{option} {path}", f"excludes {' and '.join(given)}", value=None, remedy="keep one")


def _note_small_letters(document: Any) -> None:
    """Say of rates in small letters, here or in a block within, that they were read as bytes."""
    if isinstance(document, dict):
        for value in document.values():
            _note_small_letters(value)
    elif isinstance(document, str) and (rate := rate_as_read(document)) is not None:
        print(f"note: {document} is read as bytes: {rate}. Write Gb/s for bits.", file=sys.stderr)
