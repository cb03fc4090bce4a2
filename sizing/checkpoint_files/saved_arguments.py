"""Arguments of a training that a torch.save file holds beside its tensors, as Megatron-LM saves `args`."""

from __future__ import annotations

from pathlib import Path

from sizing.checkpoint_files.allowed_names import allowed_in_torch_save
from sizing.checkpoint_files.pickle_reading import Inert, Name, RefusedPickle, read_pickle
from sizing.checkpoint_files.torch_save import TRUST_REMEDY, torch_archive
from sizing.checkpoint_files.untrusted import refusal

_DEPTH = 4
"""Lists within lists: deeper than arguments are."""


def saved_arguments(path: Path) -> dict[str, object] | None:
    """Return the `args` of a torch.save file as JSON has them, or None where it has none. Nothing is unpickled.

    Objects become text: a dtype its name, an enumeration its class and value.
    Raises UnreadableFile if the file is damaged, or names anything that no checkpoint needs.
    """
    try:
        root = read_pickle(torch_archive(path).pickle, allows=allowed_in_torch_save)
    except RefusedPickle as error:
        raise refusal(path, f"is refused as a torch.save file ({error})", TRUST_REMEDY) from None
    arguments = root.get("args") if isinstance(root, dict) else None
    state = arguments.state if isinstance(arguments, Inert) else arguments
    if not isinstance(state, dict):
        return None
    return {name: _plain(value, _DEPTH) for name, value in state.items() if isinstance(name, str)}


def _plain(value: object, depth: int) -> object:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple) and depth:
        return [_plain(each, depth - 1) for each in value]
    if isinstance(value, Name):
        return value.text.rpartition(".")[2]
    if isinstance(value, Inert) and value.name.endswith(".getattr") and isinstance(value.arguments[-1:], tuple):
        return str(value.arguments[-1]) if value.arguments else ""
    if isinstance(value, Inert):
        shown = ", ".join(str(each) for each in value.arguments if isinstance(each, int | str))
        return f"{value.name.rpartition('.')[2]}({shown})"
    return type(value).__name__
