"""Rank and matrices of low-rank adapters, read off the names and shapes of their tensors."""

from __future__ import annotations

import re
from collections.abc import Iterable

from sizing.checkpoint_files.container import Container

_FIRST = re.compile(r"(?:.*\.)?(?P<module>[^.]+)\.lora_A(\.[^.]+)?\.weight")
_TENSORS: dict[str, str] = {
    "q_proj": "attention.query",
    "k_proj": "attention.key",
    "v_proj": "attention.value",
    "o_proj": "attention.output",
    "gate_proj": "ffn.up",
    "up_proj": "ffn.up",
    "down_proj": "ffn.down",
}
"""Tensors of a scenario by the modules of transformers; a gate counts with the projection beside it."""
_TOGETHER = frozenset({"gate_proj", "up_proj"})


def adapter_fields(containers: Iterable[Container]) -> dict[str, str]:
    """Return the fields of `training.adapters` that the tensors of PEFT tell; none where ranks differ.

    The matrices are left out where a scenario has no name for one of them.
    """
    firsts = [
        (match["module"], tensor.shape[0])
        for container in containers
        for tensor in container.tensors
        if (match := _FIRST.fullmatch(tensor.name)) and tensor.shape
    ]
    modules, ranks = {module for module, _ in firsts}, {rank for _, rank in firsts}
    if len(ranks) != 1:
        return {}
    fields = {"training.adapters.rank": str(ranks.pop())}
    if modules <= _TENSORS.keys() and len(modules & _TOGETHER) != 1:
        names = dict.fromkeys(name for module, name in _TENSORS.items() if module in modules)
        fields["training.adapters.tensors"] = ",".join(names)
    return fields
