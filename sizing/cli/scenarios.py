"""A Scenario as the command line gives it: a file, flags set over it, or both."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sizing.cli.flags import FLAG_OF_FIELD, FLAGS, by_flags, with_flags
from sizing.cli.verb_parameters import VerbParameter
from sizing.errors import InvalidInput, UnreadableFile
from sizing.loading import loading
from sizing.report import find_layout
from sizing.scenario import Scenario
from sizing.storage.catalog import storage_profiles
from sizing.terminal.files import read_document
from sizing.units import rate_as_read

SCENARIO_PARAMETERS = (
    VerbParameter("scenario", "file", "A scenario, JSON or YAML, or a config file as of --from"),
    VerbParameter(
        "config_files",
        "files",
        "Config files of a training, or its launch script",
        ("--from",),
        metavar="FILE...",
    ),
    VerbParameter("hf_config", "file", "A Hugging Face config.json as the model", ("--hf-config",), is_further=True),
    VerbParameter(
        "checkpoint",
        "file",
        "An existing checkpoint: the flags that inspect prints of it",
        ("--checkpoint",),
        is_further=True,
    ),
    VerbParameter(
        "print_scenario",
        "switch",
        "Print the scenario that files and flags make, as YAML, and stop",
        ("--print",),
        is_further=True,
    ),
    VerbParameter("storage", "file", "A calibration, a storage profile, or a result of ckpt-bench run", ("--storage",)),
)
"""What a verb that takes a scenario has before its own parameters."""

_FIELD_OF_FLAG = {flag.parameter: flag.field for flag in FLAGS}


def flag_parameters() -> tuple[VerbParameter, ...]:
    """Make a parameter of each row of FLAGS, which many verbs take; its help comes from the field's description."""
    return tuple(
        VerbParameter(
            flag.parameter,
            "open switch" if flag.sets else "text",
            flag.help,
            (flag.name,),
            metavar=None if flag.sets else flag.metavar,
            panel=flag.field.split(".")[0].capitalize(),
            has_completions=not flag.sets,
        )
        for flag in FLAGS
    )


@contextmanager
def naming_given_flags(given: Mapping[str, Any], own_fields: Mapping[str, str]) -> Iterator[None]:
    """Let problems of a field, within the block, name the flag that set it.

    `own_fields` has the fields that the verb's own options set, which nothing but a file could set otherwise.
    """
    fields = _FIELD_OF_FLAG | dict(own_fields)
    path = given.get("scenario")
    typed = {
        fields[name]: FLAG_OF_FIELD.get(fields[name], f"--{name.replace('_', '-')}")
        for name, value in given.items()
        if name in fields and (value not in (None, False) or (name in own_fields and path is None))
    }
    try:
        yield
    except InvalidInput as error:
        raise by_flags(error, typed, path) from None


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
        with loading():
            from sizing.cli.config_file_reading import read_scenario  # noqa: PLC0415 - importers load where they are needed
        document = read_scenario(config_files, gpus=flags.get("gpus"), given=given, as_table=shows_import)
    if checkpoint is not None:
        with loading():
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
        with loading():
            from sizing.terminal.storage_files import read_storage  # noqa: PLC0415 - and what measurements are made of
        document["storage"] = read_storage(storage)
    document = with_flags(document, flags)
    _note_small_letters(document)
    return document


def is_config_file(path: Path) -> bool:
    """Tell whether a file that is given as a scenario is the config file of a training.

    A file whose blocks are all those of a scenario is one, whatever else it looks like. No scenario is TOML.
    """
    if path.suffix == ".toml":
        return True
    try:
        if set(read_document(path)) <= set(Scenario.model_fields):
            return False
    except UnreadableFile:
        pass  # scripts are no scenarios
    with loading():
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
