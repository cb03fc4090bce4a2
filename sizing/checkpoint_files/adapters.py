"""Rank and matrices of low-rank adapters, read off the names and shapes of their tensors."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from sizing.checkpoint_files.container import StoredTensor
from sizing.checkpoint_files.peft_modules import TENSORS_OF_MODULES, tensors_of_modules
from sizing.checkpoint_files.untrusted import printable

_MATRIX = re.compile(r"(?:.*\.)?(?P<module>[^.]+)\.lora_(?P<matrix>[AB])(\.[^.]+)?\.weight")
_MAGNITUDES = re.compile(r"(?:.*\.)?(?P<module>[^.]+)\.lora_magnitude_vector(\.[^.]+)*")
"""Of DoRA. Source: PEFT 0.21, tuners/lora/dora.py; utils/save_and_load.py takes `.weight` off its name."""
_RANK_OF_MAGNITUDES = 0
"""Under which magnitudes are counted; no matrix has this rank."""
_OF_PEFT = frozenset({"weight", "bias", "base_layer", "default", "modules_to_save"})
"""Last words of names that stand below a module. Source: PEFT 0.21, tuners/lora/layer.py, utils/other.py."""
_NUM_DIMENSIONS = 2
"""Of a matrix."""
_MAX_MODULES = 3
"""Named in a note, which stays one line."""
OTHERS = (
    "Of the {whole:,} values of the adapter, training.adapters does not describe {count:,} (in {modules}{more}): "
    "checkpoint.observed_bytes alone has their bytes"
)


@dataclass(frozen=True, slots=True)
class StoredAdapters:
    """What the tensors of PEFT tell of `training.adapters`, and the values that it does not describe.

    `others` are the modules of these values, the one of most values first.
    """

    fields: dict[str, str]
    num_values: int
    num_others: int
    others: tuple[str, ...]

    @property
    def notes(self) -> tuple[str, ...]:
        """Say which values `training.adapters` does not describe; empty where it describes all."""
        if not self.num_others:
            return ()
        modules = ", ".join(map(printable, self.others[:_MAX_MODULES]))
        more = " and more" if len(self.others) > _MAX_MODULES else ""
        return (OTHERS.format(whole=self.num_values, count=self.num_others, modules=modules, more=more),)


def stored_adapters(tensors: Iterable[StoredTensor]) -> StoredAdapters:
    """Read the rank that most values have of matrices that a scenario has names for, and these matrices.

    Not described are other ranks, other modules, embeddings, whole layers beside adapters, and magnitudes of DoRA
    where not all of these matrices have them.
    """
    values: dict[tuple[str, int | None], int] = Counter()
    for tensor in tensors:
        if of_dora := _MAGNITUDES.fullmatch(tensor.name):
            values[of_dora["module"], _RANK_OF_MAGNITUDES] += tensor.num_elements
            continue
        match = _MATRIX.fullmatch(tensor.name)
        is_pair = match is not None and len(tensor.shape) == _NUM_DIMENSIONS
        rank = tensor.shape[0 if match["matrix"] == "A" else 1] if match is not None and is_pair else None
        module = match["module"] if match is not None else _module_of(tensor.name)
        values[module, rank] += tensor.num_elements
    of_rank: dict[int, tuple[int, int]] = {}
    for (module, rank), count in values.items():
        if rank:
            of_named, of_all = of_rank.get(rank, (0, 0))
            of_rank[rank] = (of_named + (count if module in TENSORS_OF_MODULES else 0), of_all + count)
    usual = max(of_rank, key=of_rank.__getitem__, default=None)
    modules = {module for module, rank in values if rank is not None and rank == usual} & TENSORS_OF_MODULES.keys()
    has_dora = bool(modules) and all((module, _RANK_OF_MAGNITUDES) in values for module in modules)
    described = {usual, _RANK_OF_MAGNITUDES} if has_dora else {usual}
    others = {key: count for key, count in values.items() if key[0] not in modules or key[1] not in described}
    fields = {"training.adapters.rank": str(usual)} if usual is not None else {}
    if modules:
        fields["training.adapters.tensors"] = ",".join(tensors_of_modules(modules))
    if has_dora:
        fields["training.adapters.dora"] = "yes"
    in_order = sorted(others, key=lambda key: (-others[key], key[0]))
    return StoredAdapters(
        fields, sum(values.values()), sum(others.values()), tuple(dict.fromkeys(module for module, _ in in_order))
    )


def _module_of(name: str) -> str:
    """Return the module of a tensor that is no matrix of an adapter.

    >>> _module_of("model.lm_head.base_layer.weight"), _module_of("model.embed_tokens.lora_embedding_A")
    ('lm_head', 'embed_tokens')
    """
    words = [word for word in name.split(".") if word not in _OF_PEFT and not word.startswith("lora_")]
    return words[-1] if words else name
