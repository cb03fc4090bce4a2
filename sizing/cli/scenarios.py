"""A Scenario as the command line gives it: a file, flags set over it, or both."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import typer

from sizing.checkpoint_files import contents_of
from sizing.cli.config_file_reading import read_config_file
from sizing.cli.flags import FLAG_OF_FIELD, FLAGS, by_flags, flag_words, naming_flags, with_flag_fields, with_flags
from sizing.cli.import_table import import_notes, missing_problems
from sizing.config_files import ImportReport, ImportRequest, import_config_files
from sizing.config_files.source import plain_value
from sizing.errors import InvalidInput, UnreadableFile
from sizing.field_paths import value_at
from sizing.present.inspections import (
    NUM_PARAMETERS,
    OPTIMIZER,
    explain_unknown_parameters,
    find_config,
    infer_degrees,
    infer_fields,
    infer_framework_fields,
    resume_notes,
)
from sizing.report import find_layout
from sizing.scenario import NUM_GPUS, Scenario
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
_FRAMEWORK = "training.framework"


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


def print_import_notes(report: ImportReport) -> None:
    """Print what config files did not tell, on standard error."""
    for line in import_notes(report):
        print(f"note: {line}", file=sys.stderr)


def scenario_document(
    path: Path | None,
    *,
    storage: Path | None,
    hf_config: Path | None,
    checkpoint: Path | None,
    flags: Mapping[str, Any],
    config_files: Sequence[Path] = (),
    show_import: Callable[[ImportReport], None] = print_import_notes,
) -> dict[str, Any]:
    """Set the given flags over the scenario of a file; the document is not yet validated.

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
        document = _import(config_files, gpus=flags.get("gpus"), given=given, show=show_import)
    if checkpoint is not None:
        document = _with_checkpoint(document, checkpoint, flags, is_config_given=hf_config is not None)
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


def _import(
    paths: Sequence[Path], *, gpus: Any, given: Sequence[str], show: Callable[[ImportReport], None]
) -> dict[str, Any]:
    """Read config files as a scenario document; `given`: fields that flags set over it.

    Raises InvalidInput where what an answer needs is in none of them.
    """
    files = [read_config_file(path) for path in paths]
    num_gpus = plain_value(str(gpus).replace(",", "")) if gpus is not None else None
    report = import_config_files(
        ImportRequest(files=files, num_gpus=num_gpus if isinstance(num_gpus, int) else None, given=tuple(given))
    )
    show(report)
    if problems := missing_problems(report):
        raise InvalidInput(problems)
    return report.scenario


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


def _with_checkpoint(
    document: dict[str, Any], path: Path, flags: Mapping[str, Any], *, is_config_given: bool
) -> dict[str, Any]:
    """Set the fields that `inspect` infers from a checkpoint, and print its notes.

    A field of the file or of a flag goes before the same one inferred from names in the checkpoint. So does a
    framework, before all that was inferred of frameworks.
    Raises InvalidInput where neither the checkpoint nor anything else tells the model.
    """
    with naming_flags():
        contents = contents_of(path)
    is_named = is_config_given or flags.get("model") is not None
    is_model_given = is_named or document.get("model") or flags.get("parameters") is not None
    config = None if is_model_given else find_config(contents)
    fields = infer_fields(contents, has_config=is_named or config is not None)
    if NUM_PARAMETERS not in fields and not is_model_given and config is None:
        remedy = "add --model NAME, --parameters N or --hf-config FILE"
        raise InvalidInput.of(f"--checkpoint {path}", explain_unknown_parameters(contents), value=None, remedy=remedy)
    for note in resume_notes(contents):
        print(f"note: {flag_words(None, {})(note)}", file=sys.stderr)
    if config is not None:
        document["model"] = {"huggingface_config": read_document((path if path.is_dir() else path.parent) / config)}
    degrees = infer_degrees(contents).keys()
    inferred = infer_framework_fields(contents).keys() | degrees | {OPTIMIZER}
    typed = {flag.field for flag in FLAGS if flags.get(flag.parameter) is not None}
    stated = {
        field for field in (_FRAMEWORK, NUM_GPUS, *inferred) if field in typed or value_at(document, field) is not None
    }
    gives_way = (inferred - {OPTIMIZER} if _FRAMEWORK in stated else set()) | (inferred & stated)
    if stated & {NUM_GPUS, *degrees}:
        gives_way |= degrees
    return with_flag_fields(document, {field: value for field, value in fields.items() if field not in gives_way})
