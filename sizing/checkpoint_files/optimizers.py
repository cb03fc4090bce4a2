"""Recognise the optimizer of a checkpoint's state by the names of its statistics and settings.

Sources: torch 2.13, torch/optim; transformers 5.23, optimization.py (Adafactor); bitsandbytes 0.50, optim/optimizer.py;
Optax 0.2. Optimizers whose statistics have the same names are told apart by their settings, `param_groups` in torch.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator

from sizing.checkpoint_files.container import Container, StoredTensor
from sizing.checkpoint_files.parts import MOMENTS, MOMENTS_IN_OPTIMIZER, OPTAX_MOMENTS

_MAX_LEVELS = 4
"""Max depth of an optimizer's state in a checkpoint: Lightning has a list around it, DeepSpeed two dicts."""

_STATISTICS: tuple[tuple[frozenset[str], frozenset[str], str], ...] = (
    (frozenset({"exp_avg", "exp_avg_sq"}), frozenset(), "adam"),
    (frozenset({"exp_avg", "exp_avg_sq", "max_exp_avg_sq"}), frozenset(), "adam-amsgrad"),
    (frozenset({"mu", "nu"}), frozenset(), "adam"),
    (frozenset({"state1", "state2"}), frozenset(), "adam"),
    (frozenset({"state1"}), frozenset(), "lion"),
    (frozenset({"exp_avg"}), frozenset(), "lion"),
    (frozenset({"mu"}), frozenset(), "lion"),
    (frozenset({"exp_avg_sq_row", "exp_avg_sq_col"}), frozenset({"exp_avg_sq"}), "adafactor"),
    (frozenset({"exp_avg_sq_row", "exp_avg_sq_col", "exp_avg"}), frozenset({"exp_avg_sq"}), "adafactor-momentum"),
    (frozenset({"row_var", "col_var"}), frozenset({"variance"}), "adafactor"),
    (frozenset({"momentum_buffer", "exp_avg", "exp_avg_sq"}), frozenset(), "muon"),
    (frozenset({"momentum_buffer"}), frozenset(), "sgd-momentum"),
    (frozenset({"trace"}), frozenset(), "sgd-momentum"),
    (frozenset({"square_avg"}), frozenset(), "rmsprop"),
    (frozenset({"sum"}), frozenset(), "adagrad"),
)
"""Statistics that identify an optimizer, those that it may keep beside them (Adafactor of vectors), and its name in a
scenario."""
_QUANTISED = {"adam": "adam-8bit", "lion": "lion-8bit"}
_SETTINGS_OF_SGD = frozenset({"dampening", "nesterov"})
"""Settings of torch's SGD. With a momentum of 0 it keeps no statistics."""


def optimizer_of(containers: Iterable[Container], moments: Collection[StoredTensor]) -> str | None:
    """Return the optimizer's name in a scenario; None if statistics and settings do not tell.

    `moments` are the tensors of its statistics. Adam with decoupled weight decay keeps the same ones and is called
    Adam.
    """
    words = {word for tensor in moments for word in re.split(r"[./]", tensor.name)}
    kept = words & (MOMENTS | MOMENTS_IN_OPTIMIZER | OPTAX_MOMENTS)
    name = next((name for every, some, name in _STATISTICS if every <= kept <= every | some), None)
    if name == "adam" and _are_unequal(moments):
        return None
    if name == "adagrad" and all(tensor.shape[1:] == (1,) for tensor in moments):
        return "rowwise-adagrad"  # as TorchRec keeps the sums of rows, in a column
    if "state1" in kept and name is not None and any(tensor.dtype == "uint8" for tensor in moments):
        return _QUANTISED[name]
    if moments:
        return name
    settings = {key: value for container in containers for key, value in container.settings}
    return "sgd" if settings.keys() >= _SETTINGS_OF_SGD and not settings.get("momentum") else None


def _are_unequal(moments: Collection[StoredTensor]) -> bool:
    """Return whether first and second moments have different numbers of values: AdEMAMix keeps two first moments."""
    sums = Counter[str]()
    for tensor in moments:
        sums[re.split(r"[./]", tensor.name)[-1]] += tensor.num_elements
    return sums["state1"] != sums["state2"]


def optimizer_settings(root: object) -> Iterator[tuple[str, float | None]]:
    """List the settings of every parameter group in the content of a torch.save file; numbers have their values.

    >>> list(optimizer_settings({"state": {}, "param_groups": [{"momentum": 0.9, "betas": (0.9, 0.99)}]}))
    [('momentum', 0.9), ('betas', None)]
    """
    waiting: list[tuple[int, object]] = [(0, root)]
    seen: set[int] = set()
    while waiting:
        level, value = waiting.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, dict):
            groups = value.get("param_groups")
            for group in groups if isinstance(groups, list) else ():
                for key, setting in group.items() if isinstance(group, dict) else ():
                    yield str(key), float(setting) if type(setting) in (int, float) else None
        if level < _MAX_LEVELS and isinstance(value, (dict, list)):
            below = value.values() if isinstance(value, dict) else value
            waiting.extend((level + 1, item) for item in below if isinstance(item, (dict, list)))


def settings_in_names(names: Iterable[str]) -> Iterator[tuple[str, float | None]]:
    """List the settings of parameter groups, by the names of items of a distributed checkpoint.

    >>> list(settings_in_names(["optim.param_groups.w.bias.nesterov", "step"]))
    [('nesterov', None)]
    """
    for name in names:
        if ".param_groups." in f".{name}":
            yield name.rpartition(".")[2], None
