"""A Scenario as the command line gives it: a file, flags set over it, or both."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import typer

from sizing.checkpoint_files import contents_of
from sizing.cli.files import read_document, read_storage
from sizing.cli.flags import FLAGS, by_flags, with_flags
from sizing.errors import InvalidInput
from sizing.explore.layouts.best import LaidOutScenario, laid_out_document
from sizing.scenario import Scenario
from sizing.summary.inspected import framework_flags, inspected_flags, inspected_notes, unknown_parameters
from sizing.units import rate_as_read

AS_JSON = (bool, typer.Option(False, "--json", help="Print the report as JSON"))
CHECK = (bool, typer.Option(False, "--check", help="Exit with 1 where a target is missed"))

_SCENARIO_PARAMETERS: dict[str, tuple[Any, Any]] = {
    "scenario": (Path | None, typer.Argument(None, help="A scenario, JSON or YAML")),
    "hf_config": (Path | None, typer.Option(None, "--hf-config", help="A Hugging Face config.json as the model")),
    "checkpoint": (
        Path | None,
        typer.Option(None, "--checkpoint", help="An existing checkpoint: the flags that inspect prints of it"),
    ),
    "storage": (
        Path | None,
        typer.Option(None, "--storage", help="A calibration, a storage profile, or a result of ckpt-bench run"),
    ),
}


_FIELD_OF_FLAG = {flag.parameter: flag.field for flag in FLAGS}


@functools.cache
def _options() -> dict[str, tuple[Any, Any]]:
    """An option for each row of FLAGS, which many verbs take: its words are looked up in the fields' descriptions."""
    return {
        flag.parameter: (
            str | None,
            typer.Option(
                None,
                flag.name,
                help=flag.help,
                metavar=flag.metavar,
                autocompletion=flag.completions,
                rich_help_panel=flag.field.split(".")[0].capitalize(),
            ),
        )
        for flag in FLAGS
    }


def with_scenario_parameters(
    verb: Callable[..., None], *, own_fields: Mapping[str, str] | None = None, **own: tuple[Any, Any]
) -> Callable[..., None]:
    """A verb with the signature that typer reads: a scenario, the verb's own options, a row of FLAGS each.

    What is wrong with a field is said of the flag that set it; `own_fields` has what the verb's own options set.
    """
    parameters = _SCENARIO_PARAMETERS | own | _options()
    fields = _FIELD_OF_FLAG | dict(own_fields or {})

    @functools.wraps(verb)
    def in_words_of_flags(**given: Any) -> None:
        typed = {
            fields[name]: parameters[name][1].param_decls[0]
            for name, value in given.items()
            if name in fields and value is not None
        }
        try:
            verb(**given)
        except InvalidInput as error:
            raise by_flags(error, typed) from None

    in_words_of_flags.__signature__ = inspect.Signature(  # type: ignore[attr-defined]  # inspect reads it, no stub has it
        [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=option, annotation=annotation)
            for name, (annotation, option) in parameters.items()
        ]
    )
    return in_words_of_flags


def asked_scenario(path: Path | None, **given: Any) -> Scenario:
    """As `asked_layout`, for what has no place for assumptions: they are printed as notes on standard error."""
    return laid_out(asked_document(path, **given))


def laid_out(document: dict[str, Any]) -> Scenario:
    """The scenario of a document, laid out on its GPUs; what was assumed for that is printed as notes."""
    found = laid_out_document(document)
    if found.nothing_fits is not None:
        print(f"warning: {found.nothing_fits.sentence}", file=sys.stderr)
    for assumption in found.assumed:
        print(f"note: {assumption.sentence}", file=sys.stderr)
    return found.scenario


def asked_layout(
    path: Path | None,
    *,
    storage: Path | None,
    hf_config: Path | None,
    checkpoint: Path | None,
    flags: dict[str, str | None],
) -> LaidOutScenario:
    """The scenario of a file with the given flags set over it, laid out on its GPUs.

    Raises InvalidInput or UnreadableFile.
    """
    document = asked_document(path, storage=storage, hf_config=hf_config, checkpoint=checkpoint, flags=flags)
    return laid_out_document(document)


def asked_document(
    path: Path | None,
    *,
    storage: Path | None,
    hf_config: Path | None,
    checkpoint: Path | None,
    flags: Mapping[str, Any],
) -> dict[str, Any]:
    """The same as a document, not yet judged. A flag may hold a list or a range as well."""
    if path is None and hf_config is None and checkpoint is None and not any(flags.values()):
        raise InvalidInput.of(
            "the scenario", "is missing", value=None, remedy="give a file, or --model NAME; see ckpt-size --help"
        )
    _refuse_both("--hf-config", hf_config, flags, "model", "parameters")
    _refuse_both("--storage", storage, flags, "storage_preset")
    document = read_document(path) if path else {}
    if checkpoint is not None:
        document = _with_checkpoint(document, checkpoint, flags, is_config_given=hf_config is not None)
    if hf_config is not None:
        document["model"] = {"huggingface_config": read_document(hf_config)}
    if storage is not None:
        document["storage"] = read_storage(storage)
    document = with_flags(document, flags)
    _note_small_letters(document)
    return document


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
    """Set what `inspect` tells of a checkpoint, and print its notes.

    What file or flags say of the framework goes before what its names tell, a framework before all of it.
    Raises InvalidInput where neither the checkpoint nor anything else tells the model.
    """
    contents = contents_of(path)
    is_model_given = is_config_given or document.get("model") or any(map(flags.get, ("model", "parameters")))
    if "parameters" not in inspected_flags(contents) and not is_model_given:
        remedy = "add --model NAME, --parameters N or --hf-config FILE"
        raise InvalidInput.of(f"--checkpoint {path}", unknown_parameters(contents), value=None, remedy=remedy)
    for note in inspected_notes(contents):
        print(f"note: {note}", file=sys.stderr)
    told, chosen = inspected_flags(contents), framework_flags(contents).keys()
    stated = {name for name in ("framework", *chosen) if flags.get(name) is not None or _is_set(document, name)}
    gives_way = chosen if "framework" in stated else chosen & stated
    return with_flags(document, {name: value for name, value in told.items() if name not in gives_way})


def _is_set(document: Mapping[str, Any], parameter: str) -> bool:
    block, _, name = _FIELD_OF_FLAG[parameter].partition(".")
    fields = document.get(block)
    return isinstance(fields, Mapping) and fields.get(name) is not None
