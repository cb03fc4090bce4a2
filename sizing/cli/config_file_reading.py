"""Config files as they lie on this machine: text, or the arguments within a Megatron checkpoint."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sizing.checkpoint_files.saved_arguments import saved_arguments
from sizing.checkpoint_files.torch_save import is_torch_file
from sizing.cli.import_table import import_notes, import_table, missing_problems
from sizing.errors import InvalidInput, UnreadableFile
from sizing.importers import ConfigText, ImportRequest, import_config_files, is_config_of_training
from sizing.printed_numbers import read_count
from sizing.terminal.files import read_text
from sizing.terminal.output import console

COMMON = "common.pt"
"""File of a distributed checkpoint of Megatron-LM that holds the arguments."""


def read_config_file(path: Path) -> ConfigText:
    """Read a config file; of a Megatron-LM checkpoint, or the folder of one, the arguments that it was trained with.

    It is called by its name alone, as folders say where people keep things.
    Raises UnreadableFile where there is no such file, where it is no text, or a checkpoint without arguments.
    """
    if path.is_dir() and (path / COMMON).is_file():
        path = path / COMMON
    if not path.is_file() or not is_torch_file(path):
        return ConfigText(name=path.name, content=read_text(path))
    arguments = saved_arguments(path)
    if arguments is None:
        raise UnreadableFile(
            f"{path.name} holds no arguments of a training: give {COMMON} of a Megatron-LM checkpoint."
        )
    return ConfigText(name=path.name, content=json.dumps({"args": arguments}))


def holds_config(path: Path) -> bool:
    """Tell whether a file is the config file of a training."""
    try:
        return is_config_of_training(read_config_file(path))
    except (OSError, UnreadableFile):
        return False


def read_scenario(paths: Sequence[Path], *, gpus: Any, given: Sequence[str], as_table: bool) -> dict[str, Any]:
    """Read config files as a scenario document; `given`: fields that flags set over it.

    Prints what they became as a table, or as notes on standard error what they did not tell.
    Raises InvalidInput where what an answer needs is in none of them.
    """
    files = [read_config_file(path) for path in paths]
    num_gpus = read_count(str(gpus)) if gpus is not None else None
    report = import_config_files(ImportRequest(files=files, num_gpus=num_gpus, given=tuple(given)))
    if as_table:
        console().print(import_table(report))
    else:
        for line in import_notes(report):
            print(f"note: {line}", file=sys.stderr)
    if problems := missing_problems(report):
        raise InvalidInput(problems)
    return report.scenario
