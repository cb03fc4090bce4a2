"""Config files as they lie on this machine: text, or the arguments within a Megatron checkpoint."""

from __future__ import annotations

import json
from pathlib import Path

from sizing.checkpoint_files.saved_arguments import saved_arguments
from sizing.checkpoint_files.torch_save import is_torch_file
from sizing.config_files import ConfigText, is_config_of_training
from sizing.errors import UnreadableFile
from sizing.scenario import Scenario
from sizing.terminal.files import read_document, read_text

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


def is_config_file(path: Path) -> bool:
    """Tell whether a file that is given as a scenario is the config file of a training.

    A file whose blocks are all those of a scenario is one, whatever else it looks like.
    """
    try:
        if set(read_document(path)) <= set(Scenario.model_fields):
            return False
    except UnreadableFile:
        pass  # TOML and scripts are no scenarios
    try:
        return is_config_of_training(read_config_file(path))
    except (OSError, UnreadableFile):
        return False
