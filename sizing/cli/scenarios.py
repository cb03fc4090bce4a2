"""A Scenario as the command line gives it: a file, flags set over it, or both."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import typer

from sizing.checkpoint_files import contents_of
from sizing.cli.files import read_document, read_storage
from sizing.cli.flags import FLAGS, with_flags
from sizing.errors import InvalidInput
from sizing.scenario import Scenario, scenario_from

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


def with_scenario_parameters(verb: Callable[..., None], **own: tuple[Any, Any]) -> Callable[..., None]:
    """A verb with the signature that typer reads: a scenario, the verb's own options, a row of FLAGS each."""
    options = {
        flag.parameter: (
            str | None,
            typer.Option(
                None,
                flag.name,
                help=flag.help,
                metavar=flag.metavar,
                rich_help_panel=flag.field.split(".")[0].capitalize(),
            ),
        )
        for flag in FLAGS
    }
    verb.__signature__ = inspect.Signature(  # type: ignore[attr-defined]  # inspect reads it, no stub has it
        [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=option, annotation=annotation)
            for name, (annotation, option) in (_SCENARIO_PARAMETERS | own | options).items()
        ]
    )
    return verb


def asked_scenario(
    path: Path | None,
    *,
    storage: Path | None,
    hf_config: Path | None,
    checkpoint: Path | None,
    flags: dict[str, str | None],
) -> Scenario:
    """The scenario of a file with the given flags set over it.

    Raises InvalidInput or UnreadableFile.
    """
    document = asked_document(path, storage=storage, hf_config=hf_config, checkpoint=checkpoint, flags=flags)
    return scenario_from(document)


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
