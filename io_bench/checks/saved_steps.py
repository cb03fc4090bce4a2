"""The step that each rank's file of a save states: files that state different ones are not of one save.

Sources: DeepSpeed 0.19, runtime/engine.py (`global_steps`), runtime/zero/stage_1_and_2.py and stage3.py (the state of
the optimizer of each shard); Megatron-LM, training/checkpointing.py (`iteration`); accelerate 1.15, checkpointing.py
(`step` beside random states); torch 2.13, optim/adam.py (`step` of each parameter) and
distributed/checkpoint/_dedup_save_plans.py, which spreads these over the files of DCP.
"""

from __future__ import annotations

import struct
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from io_bench.checks.file_regions import Damage, Region, Unjudged
from sizing.checkpoint_files.torch_save import PickledTensor, read_storages
from sizing.units import counted_text

_KEYS = {
    "*_model_states.pt": "global_steps",
    "model_optim_rng.pt": "iteration",
    "random_states_*.pkl": "step",
}
"""Files of which each rank writes one, and the key under which it states the step."""
_SHARD = "*zero_pp_rank_*_optim_states.pt"
_RANK_FOLDERS = frozenset({"model_optim_rng.pt"})
"""Files that stand in a folder of their rank, beside those of the others."""
_LAYOUTS = {"float32": "<f", "float64": "<d", "int64": "<q", "int32": "<i"}


@dataclass(frozen=True, slots=True)
class SavedStep:
    """The step that a file states under a key, and the folder of its save.

    `otherwise`: what else than another save may be the reason that it differs from the steps of other files.
    """

    path: Path
    folder: Path
    key: str
    step: int
    otherwise: str = ""


def saved_step_in(path: Path, root: object, tensors: Collection[PickledTensor]) -> SavedStep | None:
    """Read the step that the content of a rank's file states; None where it states none.

    Of a shard of an optimizer it is the highest of the steps that its statistics count.
    """
    folder = path.parent.parent if path.name in _RANK_FOLDERS else path.parent
    key = next((key for pattern, key in _KEYS.items() if path.match(pattern)), None)
    if key is not None:
        step = root.get(key) if isinstance(root, dict) else None
        return SavedStep(path, folder, key, step) if type(step) is int else None
    if not path.match(_SHARD):
        return None
    steps = [
        tensor
        for tensor in tensors
        if tensor.name.endswith(".step")
        and tensor.dtype in _LAYOUTS
        and tensor.storage_bytes == tensor.num_bytes == struct.calcsize(_LAYOUTS[tensor.dtype])
    ]
    values = read_storages(path, [tensor.storage for tensor in steps])
    counts = [
        int(struct.unpack(_LAYOUTS[tensor.dtype], values[tensor.storage])[0])
        for tensor in steps
        if len(values.get(tensor.storage, b"")) == tensor.num_bytes
    ]
    return SavedStep(path, folder, "optimizer's step", max(counts)) if counts else None


def counted_steps(path: Path, regions: Iterable[Region], counters: Mapping[str, str]) -> Iterator[SavedStep]:
    """Read the highest step that an optimizer has counted in the items of a data file of torch DCP, if it has any.

    `regions`: the records of the file. `counters`: the dtypes of items that are one count, by name.
    """
    steps: list[int] = []
    with path.open("rb") as file:
        for region in regions:
            item, _, record = region.what.partition(", record ")
            layout = _LAYOUTS.get(counters.get(item, ""), "")
            if layout and record.endswith("/data/0") and region.length == struct.calcsize(layout):
                file.seek(region.offset)
                content = file.read(region.length)
                steps += map(int, struct.unpack(layout, content)) if len(content) == region.length else ()
    if steps:
        otherwise = "its parameters had no gradient in some steps"
        yield SavedStep(path, path.parent, "optimizer's step", max(steps), otherwise)


def mixed_steps(stated: Iterable[SavedStep]) -> Iterator[Damage | Unjudged]:
    """Name the files of a save that state another step than most of them, or than the newest where no step has most."""
    groups: dict[tuple[Path, str], list[SavedStep]] = defaultdict(list)
    for each in stated:
        groups[each.folder, each.key].append(each)
    for (_, key), ranks in groups.items():
        counts = Counter(each.step for each in ranks)
        usual = max(counts, key=lambda step: (counts[step], step))
        others = f"{counted_text(counts[usual], 'file')} of the same save " + ("has" if counts[usual] == 1 else "have")
        for each in ranks:
            differs = f"of another save: it has {key} {each.step:,}, and {others} {usual:,}"
            if each.step != usual and each.otherwise:
                yield Unjudged(each.path, f"may be {differs}; or {each.otherwise}")
            elif each.step != usual:
                yield Damage(each.path, f"is {differs}")
