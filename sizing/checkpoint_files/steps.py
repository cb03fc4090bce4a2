"""Steps of a run, as trainers name the folders and files that they save.

Sources: Megatron-LM, training/checkpointing.py (`iter_0001000`); DeepSpeed, runtime/engine.py (`global_step1000`);
transformers, trainer_utils.py (`checkpoint-1000`); accelerate (`checkpoint_3`); torchtitan (`step-1000`); Lightning
(`epoch=1-step=1000.ckpt`); NeMo 2 (`NAME--val_loss=2.10-step=1000-consumed_samples=64000.0-last`); NeMo AutoModel
(`epoch_0_step_1000`); Orbax (`1000`).
"""

from __future__ import annotations

import re

_NAMES = (
    re.compile(r"(?:iter_|global_step|checkpoint[-_]|step[-_]|epoch_\d+_step_|epoch_?)(\d+)"),
    re.compile(r"(?:.*-)?step=(\d+)(?:-.*)?"),
)


def step_of(name: str, *, is_orbax: bool = False) -> int | None:
    """The step, or the epoch, that a name without its ending says; None where it says none.

    Orbax calls a folder by its number alone, which says nothing elsewhere.

    >>> step_of("iter_0001000"), step_of("epoch=1-step=300-v1"), step_of("best"), step_of("300", is_orbax=True)
    (1000, 300, None, 300)
    """
    matches = (pattern.fullmatch(name) for pattern in _NAMES)
    found = next((match[1] for match in matches if match), name if is_orbax and name.isdecimal() else None)
    return None if found is None else int(found)
