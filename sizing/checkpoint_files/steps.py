"""Read the step of a run from the names of folders and files that trainers save.

Sources: Megatron-LM, training/checkpointing.py (`iter_0001000`); DeepSpeed, runtime/engine.py (`global_step1000`);
transformers, trainer_utils.py (`checkpoint-1000`); accelerate (`checkpoint_3`); torchtitan (`step-1000`); Lightning
(`epoch=1-step=1000.ckpt`); NeMo 2 (`NAME--val_loss=2.10-step=1000-consumed_samples=64000.0-last`); NeMo AutoModel
(`epoch_0_step_1000`); Orbax (`1000`). Files that a run writes by `torch.save` are named by its own script: `ckpt_5.pt`,
`model-5.pt`, `checkpoint_epoch_5.pth`, `resnet_epoch5_step1000.pt`.
"""

from __future__ import annotations

import re
from pathlib import PurePath

_NAMES = (
    re.compile(r"(?:iter_|global_step|checkpoint[-_]|step[-_]|epoch_\d+_step_|epoch_?)(\d+)"),
    re.compile(r"(?:.*-)?step=(\d+)(?:-.*)?"),
)
_FILE_SUFFIXES = frozenset({".pt", ".pth", ".ckpt"})
_OF_FILES = (
    *_NAMES,
    re.compile(r"(?:.*[-_.])?(?:step|steps|iter|iteration)[-_=]?(\d+)"),
    re.compile(r"(?:.*[-_.])?(?:epoch|ep)[-_=]?(\d+)"),
    re.compile(r"(?:ckpt|checkpoint|model|net|network|weights|optimizer|optim|snapshot|state)[-_.]?(\d+)"),
    re.compile(r"epoch=(\d+)(?:-.*)?"),
)
"""Patterns in order: if a name has both step and epoch, the step counts."""
_FURTHER_COPY = re.compile(r"(last|latest|best|final)([-_.].*)?")
_EPOCH = re.compile(r"(?:.*[-_.])?(?:epoch|ep)[-_=]?\d+(?:-(?!step=).*)?")


def step_of(name: str, *, is_orbax: bool = False) -> int | None:
    """Return the step, or the epoch, in a name without suffix; None if it has none.

    Orbax names a folder by its number only, which means nothing elsewhere.

    >>> step_of("iter_0001000"), step_of("epoch=1-step=300-v1"), step_of("best"), step_of("300", is_orbax=True)
    (1000, 300, None, 300)
    """
    matches = (pattern.fullmatch(name) for pattern in _NAMES)
    step = next((match[1] for match in matches if match), name if is_orbax and name.isdecimal() else None)
    return None if step is None else int(step)


def step_of_file(name: str) -> int | None:
    """Return the step, or the epoch, in the name of a torch.save file with its suffix; None if it has none.

    >>> [step_of_file(name) for name in ("ckpt_5.pt", "model-5.pt", "checkpoint_epoch_5.pth", "epoch=1-step=300.ckpt")]
    [5, 5, 5, 300]
    >>> step_of_file("mp_rank_00_model_states.pt"), step_of_file("model_1.safetensors"), step_of_file("last.ckpt")
    (None, None, None)
    """
    path = PurePath(name)
    if path.suffix not in _FILE_SUFFIXES:
        return None
    matches = (pattern.fullmatch(path.stem) for pattern in _OF_FILES)
    step = next((match[1] for match in matches if match), None)
    return None if step is None else int(step)


def is_further_copy(name: str) -> bool:
    """Return whether a file is a further copy of the last or the best save, without a step in its name.

    >>> [is_further_copy(name) for name in ("last.ckpt", "best-v1.ckpt", "step=3.ckpt", "latest")]
    [True, True, False, False]
    """
    path = PurePath(name)
    return path.suffix in _FILE_SUFFIXES and _FURTHER_COPY.fullmatch(path.stem) is not None


def is_epoch(name: str) -> bool:
    """Return whether the number in a name counts epochs.

    >>> [is_epoch(name) for name in ("checkpoint_epoch_5.pth", "epoch=3.ckpt", "epoch_0_step_20")]
    [True, True, False]
    """
    path = PurePath(name)
    return _EPOCH.fullmatch(path.stem if path.suffix in _FILE_SUFFIXES else name) is not None
