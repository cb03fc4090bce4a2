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
from sizing.explore.layouts.best import laid_out_scenario
from sizing.provenance import Assumption
from sizing.scenario import Scenario

AS_JSON = (bool, typer.Option(False, "--json", help="Print the report as JSON"))
CHECK = (bool, typer.Option(False, "--check", help="Exit with 1 where a target is missed"))

_SCENARIO_PARAMETERS: dict[str, tuple[Any, Any]] = {
    "scenario": (Path | None, typer.Argument(None, help="A scenario, JSON or YAML")),
    "hf_config": (Path | None, typer.Option(None, "--hf-config", help="A Hugging Face config.json as the model")),
    "checkpoint": (
        Path | None,
        typer.Option(None, "--checkpoint", help="An existing checkpoint: its parameters and bytes; see inspect"),
    ),
    "storage": (
        Path | None,
        typer.Option(None, "--storage", help="A calibration, a storage profile, or a result of ckpt-bench run"),
    ),
}


_FIELD_OF_FLAG = {flag.parameter: flag.field for flag in FLAGS}


def with_scenario_parameters(
    verb: Callable[..., None], *, own_fields: Mapping[str, str] | None = None, **own: tuple[Any, Any]
) -> Callable[..., None]:
    """A verb with the signature that typer reads: a scenario, the verb's own options, a row of FLAGS each.

    What is wrong with a field is said of the flag that set it; `own_fields` has what the verb's own options set.
    """
    options = {
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
    parameters = _SCENARIO_PARAMETERS | own | options
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
    scenario, assumed = laid_out_scenario(document)
    for assumption in assumed:
        print(f"note: {assumption.sentence}", file=sys.stderr)
    return scenario


def asked_layout(
    path: Path | None,
    *,
    storage: Path | None,
    hf_config: Path | None,
    checkpoint: Path | None,
    flags: dict[str, str | None],
) -> tuple[Scenario, list[Assumption]]:
    """The scenario of a file with the given flags set over it, and what was assumed to lay it out on its GPUs.

    Raises InvalidInput or UnreadableFile.
    """
    document = asked_document(path, storage=storage, hf_config=hf_config, checkpoint=checkpoint, flags=flags)
    return laid_out_scenario(document)


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
    document = read_document(path) if path else {}
    if hf_config is not None:
        document["model"] = {"huggingface_config": read_document(hf_config)}
    if checkpoint is not None:
        _read_off(checkpoint, document)
    if storage is not None:
        document["storage"] = read_storage(storage)
    return with_flags(document, flags)


def _read_off(path: Path, document: dict[str, Any]) -> None:
    """Set an existing checkpoint's parameters, and its bytes where it holds optimizer state."""
    contents = contents_of(path)
    if contents.num_parameters is not None:
        document["model"] = {"num_parameters": contents.num_parameters}
    if "moments" in contents.part_bytes:
        document["checkpoint"] = document.get("checkpoint", {}) | {"observed_bytes": contents.observed_bytes}
