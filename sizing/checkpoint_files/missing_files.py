"""Find files that a save must have, by the names of its other files, and that are missing.

Sources: DeepSpeed 0.19, runtime/engine.py, _get_zero_ckpt_name, _get_ckpt_name and load_checkpoint; transformers 5.23,
trainer.py, _save_checkpoint, save_model, _save_optimizer_and_scheduler and _save_rng_state, and
integrations/deepspeed.py, deepspeed_load_checkpoint; accelerate 1.15, checkpointing.py and utils/constants.py;
Megatron-LM, training/checkpointing.py, get_checkpoint_name; huggingface_hub, split of state dicts
(`NAME-00001-of-00003`).
"""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping
from pathlib import PurePosixPath
from typing import NamedTuple

from sizing.checkpoint_files.folder_layouts import is_settings, state_of_file
from sizing.checkpoint_files.saving_ranks import MAX_RANKS, SavingRanks
from sizing.checkpoint_files.steps import step_of
from sizing.units import counted_text


class MissingFile(NamedTuple):
    """A missing file, and the evidence that it was saved, as the end of a sentence that begins with the file."""

    name: str
    reason: str

    @property
    def is_optional(self) -> bool:
        """Whether Trainer and accelerate resume without it: they log that it is not there, and draw other numbers.

        That is so of random states alone, and of `scaler.pt` and `dl_state_dict.bin`, which nothing here calls for.
        Without `trainer_state.json`, accelerate's scheduler or its optimizer, loading raises; without `scheduler.pt`,
        Trainer loads no optimizer either. Source: transformers 5.23, trainer.py, train, _load_rng_state,
        _load_optimizer_and_scheduler and _load_scaler; accelerate 1.15, checkpointing.py, load_accelerator_state.
        """
        return _RANDOM_STATE.fullmatch(PurePosixPath(self.name).name) is not None


_NOT_OF_WEIGHTS = re.compile(
    r"(.*/)?(optim[^/]*/.*|((bf16_|fp16_)?zero_pp_rank_|optim|distrib_optim)[^/]*|[^/]*\.distcp|model\.safetensors)"
)


def may_hold_part_of_weights(name: str) -> bool:
    """Return whether a missing file may hold some of the weights, by its name, so that those there are not the model.

    `.metadata` of torch DCP and ZeRO 3's files of any rank state the shapes of all weights, and `model.safetensors` is
    the whole of them.

    >>> [may_hold_part_of_weights(f"{name}.pt") for name in ("mp_rank_01_model_states", "optimizer", "scheduler")]
    [True, False, False]
    """
    return not (_NOT_OF_WEIGHTS.fullmatch(name) or state_of_file(name) or is_settings(name))


_OPTIMIZER_SHARD = re.compile(
    r"(?P<dtype>(?:bf16_|fp16_)?)zero_pp_rank_(?P<data>\d+)_mp_rank_(?P<model>\d+)_optim.*\.pt"
)
_PARTITIONED_MODEL = re.compile(r"zero_pp_rank_(?P<data>\d+)_mp_rank_(?P<model>\d+)_model_states\.pt")
_MODEL_STATES = re.compile(r"mp_rank_(?P<model>\d+)_model_states\.pt")
_OF_ALL_RANKS = (
    (re.compile(r"rng_state_(\d+)\.pth"), "rng_state_{}.pth"),
    (re.compile(r"random_states_(\d+)\.pkl"), "random_states_{}.pkl"),
    (re.compile(r"rng_dp_rank_(\d+)\.pt"), "rng_dp_rank_{}.pt"),
    (re.compile(r"dataloader_dp_rank_(\d+)\.pt"), "dataloader_dp_rank_{}.pt"),
)
"""Files of which each rank writes one, numbered from 0. Trainer numbers them only if there are several ranks."""
_RANK_OF_DCP = re.compile(r"__(\d+)_\d+\.distcp")
_NUMBERED = re.compile(r"(?P<before>.*[-_])(?P<number>\d+)(?P<between>[-_]of[-_])(?P<count>\d+)(?P<after>\D.*|)")

_TRAINER_STATE = "trainer_state.json"
_TRAINER_SETTINGS = "training_args.bin"
_ADAPTER_SETTINGS = "adapter_config.json"
_ADAPTER_WEIGHTS = ("adapter_model.safetensors", "adapter_model.bin")
_WEIGHTS_OF_TRAINER = (
    r"(adapter_)?model(_\d+|-.*)?\.safetensors|(pytorch|adapter)_model(_fsdp)?(_\d+|-.*)?\.bin|.*\.index\.json"
)
_WEIGHTS = re.compile(rf"{_WEIGHTS_OF_TRAINER}|(pytorch_model|model|global_step|.*fsdp|.*dist_cp).*/.*")
"""Weights beside a trainer's state: files of its folder, or any file in a folder that a framework saves there."""
_BESIDE_DEEPSPEED = (
    ("mp_rank_.*_model_states", _WEIGHTS_OF_TRAINER, "model.safetensors", "Trainer saves weights beside DeepSpeed's"),
    ("mp_rank_.*_model_states", r"rng_state(_\d+)?\.pth", "rng_state.pth", "Trainer saves it with DeepSpeed's state"),
    (".*_(model|optim)_states", "latest", "latest", "DeepSpeed saves it with its state, and resumes by it"),
)
"""Files of DeepSpeed in a folder of Trainer, the files that are then beside it, and the one to name where none is.

With ZeRO 3, whose files have other names, Trainer may save weights by DeepSpeed alone, also where it saves only these.
"""
_OPTIMIZER = re.compile(
    r"optimizer(_\d+)?\.(pt|bin)|optimizer.*/.*|(.*/)?(bf16_|fp16_)?zero_pp_rank_.*|global_step.*/.*"
)
_OPTIMIZER_OF_TRAINER = re.compile(r"optimizer(_\d+)?\.(pt|bin)|optimizer_\d+/.*")
"""As Trainer saves it with a scheduler: in a file, or as shards of FSDP in a folder; DeepSpeed may keep a scheduler."""
_SCHEDULER = re.compile(r"scheduler(_\d+)?\.(pt|bin)")
_RANDOM_STATE_OF_TRAINER = re.compile(r"rng_state(_\d+)?\.pth")
_RANDOM_STATE = re.compile(r"rng_state(_\d+)?\.pth|random_states_\d+\.pkl")
_OF_MEGATRON = frozenset({"model_optim_rng.pt", "distrib_optim.pt"})
_MEGATRON_RANK = re.compile(r"mp_rank_(\d+)(?:_(\d+))?(?:_(\d+))?")


def missing_files(names: Collection[str], stated: Mapping[str, SavingRanks] | None = None) -> list[MissingFile]:
    """List the files that a save lacks; `names` are its files as paths from its folder.

    `stated`: the ranks that contents of files state, by file name. Names alone cannot tell that the last of several
    ranks is missing, unless another kind of file has its number. `uncounted_shards` lists where nothing tells.

    >>> missing_files(["zero_pp_rank_1_mp_rank_00_optim_states.pt", "mp_rank_00_model_states.pt"])
    [MissingFile(name='zero_pp_rank_0_mp_rank_00_optim_states.pt', reason='the optimizer has 2 shards by data ranks')]
    >>> missing_files(["a-00001-of-00002.safetensors"])
    [MissingFile(name='a-00002-of-00002.safetensors', reason='names of others count 2')]
    """
    by_folder: dict[PurePosixPath, set[str]] = defaultdict(set)
    for name in names:
        path = PurePosixPath(name)
        for depth, folder in enumerate(path.parents):
            by_folder[folder].add("/".join(path.parts[len(path.parts) - depth - 1 :]))
    ranks_by_folder = _merge_ranks_by_folder(stated or {})
    missing: set[MissingFile] = set()
    for folder, below in by_folder.items():
        files, ranks = {name for name in below if "/" not in name}, ranks_by_folder.get(folder)
        of_folder = (
            *_find_deepspeed_files(files, ranks),
            *_find_files_of_all_ranks(below, files, ranks),
            *_find_numbered_files(files),
            *_find_trainer_files(below, files),
            *_find_megatron_files(below, ranks),
        )
        missing.update(MissingFile(str(folder / file.name), file.reason) for file in of_folder)
    return sorted(missing)


def uncounted_shards(names: Collection[str], stated: Mapping[str, SavingRanks] | None = None) -> list[MissingFile]:
    """List folders with shards of DeepSpeed's optimizer whose number no file states, so that some may be missing.

    `name` is the folder; a dot stands for that of the save.

    >>> uncounted_shards(["a/zero_pp_rank_0_mp_rank_00_optim_states.pt"])
    [MissingFile(name='a', reason='holds shards of 1 data rank, and no file says how many there were')]
    """
    ranks = _merge_ranks_by_folder(stated or {})
    shards: dict[PurePosixPath, set[str]] = defaultdict(set)
    for path in map(PurePosixPath, names):
        if match := _OPTIMIZER_SHARD.fullmatch(path.name):
            shards[path.parent].add(match["data"])
    return [
        MissingFile(
            str(folder), f"holds shards of {counted_text(len(data), 'data rank')}, and no file says how many there were"
        )
        for folder, data in sorted(shards.items())
        if (known := ranks.get(folder, SavingRanks())).num_shards is None and known.num_data is None
    ]


def uncounted_ranks(names: Collection[str]) -> dict[str, int]:
    """Count the files of which each rank writes one, by their names, where nothing tells how many ranks there were.

    Shards of DeepSpeed and DCP tell it.

    >>> uncounted_ranks(["checkpoint_2/random_states_0.pkl", "checkpoint_2/random_states_1.pkl", "model.safetensors"])
    {'random_states_N.pkl': 2}
    """
    files = [PurePosixPath(name).name for name in names]
    if any(_any(shards, files) for shards in (_OPTIMIZER_SHARD, _PARTITIONED_MODEL, _MODEL_STATES, _RANK_OF_DCP)):
        return {}
    counts = {title.format("N"): sum(map(bool, map(pattern.fullmatch, files))) for pattern, title in _OF_ALL_RANKS}
    return {name: count for name, count in counts.items() if count}


def _merge_ranks_by_folder(stated: Mapping[str, SavingRanks]) -> dict[PurePosixPath, SavingRanks]:
    """Merge the ranks that files state by folder; a file of Megatron's rank counts for the parent of its folder."""
    merged: dict[PurePosixPath, SavingRanks] = {}
    for name, ranks in stated.items():
        path = PurePosixPath(name)
        folder = path.parent.parent if path.name in _OF_MEGATRON else path.parent
        merged[folder] = merged[folder].with_other(ranks) if folder in merged else ranks
    return merged


def fewer_than_beside(names: Collection[str], beside: Mapping[str, Collection[str]]) -> list[MissingFile]:
    """List the files of state that every other save of a run has by name, and this one lacks.

    `beside`: names of files of the other saves, by the name of the save. A run that continued with fewer ranks also
    leaves such saves, so that this is a doubt, not proof.

    >>> fewer_than_beside(["a.pt"], {"step-2": ["a.pt", "b.pt"], "step-3": ["a.pt", "b.pt", "c.pt"]})
    [MissingFile(name='b.pt', reason='the saves beside it have one (step-2 and 1 more)')]
    """
    if not beside:
        return []
    everywhere = set.intersection(*(set(map(_replace_steps, each)) for each in beside.values()))
    own = set(map(_replace_steps, names))
    others = list(beside)
    more = f" and {len(others) - 1} more" if len(others) > 1 else ""
    reason = f"the saves beside it have one ({others[0]}{more})"
    return [MissingFile(name, reason) for name in sorted(everywhere - own)]


def _replace_steps(name: str) -> str:
    """Replace every step in a name, as folders within a save may be named by the step too."""
    return "/".join("STEP" if step_of(part) is not None else part for part in PurePosixPath(name).parts)


def _find_deepspeed_files(files: set[str], stated: SavingRanks | None) -> Iterator[MissingFile]:
    """Find missing shards of the optimizer, one per rank, and missing files of the model.

    The model has a file for each model rank, with ZeRO 3 for each data rank too.
    """
    shards = list(filter(None, map(_OPTIMIZER_SHARD.fullmatch, files)))
    partitioned = list(filter(None, map(_PARTITIONED_MODEL.fullmatch, files)))
    whole = list(filter(None, map(_MODEL_STATES.fullmatch, files)))
    if not shards and not partitioned and (stated is None or stated.num_data is None):
        return
    num_data = 1 + max((int(match["data"]) for match in (*shards, *partitioned)), default=-1)
    num_model = 1 + max((int(match["model"]) for match in (*shards, *partitioned, *whole)), default=0)
    if stated is not None:
        num_data = max(num_data, stated.num_shards or stated.num_data or 0)
        num_model = max(num_model, stated.num_model or 0)
    pairs = [(data, model) for model in range(num_model) for data in range(num_data)]
    prefix = next((match["dtype"] for match in shards), "")
    has_shards = bool(shards or partitioned or (stated is not None and stated.zero_stage))
    if has_shards:
        there = {(int(match["data"]), int(match["model"])) for match in shards}
        for data, model in pairs:
            if (data, model) not in there:
                name = f"{prefix}zero_pp_rank_{data}_mp_rank_{model:02}_optim_states.pt"
                yield MissingFile(name, f"the optimizer has {counted_text(num_data, 'shard')} by data ranks")
    if partitioned or (stated is not None and stated.zero_stage == 3):
        there = {(int(match["data"]), int(match["model"])) for match in partitioned}
        for data, model in pairs:
            if (data, model) not in there:
                name = f"zero_pp_rank_{data}_mp_rank_{model:02}_model_states.pt"
                yield MissingFile(name, f"the model has {counted_text(num_data, 'shard')} by data ranks")
    else:
        held = {int(match["model"]) for match in whole}
        for model in set(range(num_model)) - held:
            yield MissingFile(f"mp_rank_{model:02}_model_states.pt", "the optimizer's shards are of this model rank")


def _find_files_of_all_ranks(
    below: Collection[str], files: set[str], stated: SavingRanks | None
) -> Iterator[MissingFile]:
    """Find missing files of which each rank writes one, up to the highest rank in any name."""
    numbers = {
        pattern: {int(match[1]) for match in map(pattern.fullmatch, files) if match} for pattern, _ in _OF_ALL_RANKS
    }
    of_dcp = [int(match[1]) for name in below if (match := _RANK_OF_DCP.fullmatch(PurePosixPath(name).name))]
    of_zero = [int(match["data"]) for name in below if (match := _OPTIMIZER_SHARD.fullmatch(PurePosixPath(name).name))]
    known = [*of_dcp, *of_zero, *itertools.chain.from_iterable(numbers.values())]
    num_ranks = 1 + max(known, default=-1)
    if stated is not None:
        num_ranks = max(num_ranks, stated.num_data or 0)
    for pattern, title in _OF_ALL_RANKS:
        least = 2 if "rng_state" in title else 1
        for rank in range(max(num_ranks, least) if numbers[pattern] else 0):
            if rank not in numbers[pattern]:
                yield MissingFile(title.format(rank), "each rank writes one, and names of others have its number")


def _find_numbered_files(files: set[str]) -> Iterator[MissingFile]:
    """Find missing files of those numbered `00001-of-00003`, from 0 or from 1."""
    groups: dict[tuple[str, str, str, str], dict[int, str]] = defaultdict(dict)
    for match in filter(None, map(_NUMBERED.fullmatch, files)):
        key = (match["before"], match["between"], match["count"], match["after"])
        groups[key][int(match["number"])] = match["number"]
    for (before, between, count, after), numbers in groups.items():
        first = 0 if 0 in numbers else 1
        width = len(next(iter(numbers.values())))
        if int(count) <= MAX_RANKS and max(numbers) < int(count) + first:
            for number in set(range(first, first + int(count))) - numbers.keys():
                name = f"{before}{number:0{width}}{between}{count}{after}"
                yield MissingFile(name, f"names of others count {int(count)}")


def _find_trainer_files(below: Collection[str], files: set[str]) -> Iterator[MissingFile]:
    """Find missing files of Trainer, accelerate or PEFT: weights, and in a save to resume from all other state."""
    random_states, schedulers = _any(_RANDOM_STATE, files), _any(_SCHEDULER, files)
    is_trainer = _TRAINER_STATE in files or _any(_RANDOM_STATE_OF_TRAINER, files)
    is_trainer = is_trainer or (_TRAINER_SETTINGS in files and schedulers)
    if is_trainer and _TRAINER_STATE not in files:
        yield MissingFile(_TRAINER_STATE, f"Trainer saves it with the {'scheduler' if schedulers else 'random state'}")
    if not files.isdisjoint(_ADAPTER_WEIGHTS) and _ADAPTER_SETTINGS not in files:
        yield MissingFile(_ADAPTER_SETTINGS, "PEFT saves it with the adapter")
    for saved, needed, name, reason in _BESIDE_DEEPSPEED if is_trainer else ():
        if _any(re.compile(rf"global_step[^/]*/{saved}\.pt"), below) and not _any(re.compile(needed), files):
            yield MissingFile(name, reason)
    if not is_trainer and not any(name.startswith("random_states_") for name in files):
        return
    whose, ending = ("Trainer", "pt") if is_trainer else ("accelerate", "bin")
    has_optimizer = _any(_OPTIMIZER, below)
    if not _any(_WEIGHTS, below) and (is_trainer or has_optimizer):
        name = _ADAPTER_WEIGHTS[0] if _ADAPTER_SETTINGS in files else "model.safetensors"
        yield MissingFile(name, f"{whose} saves weights with the rest")
    if not has_optimizer and (schedulers or (is_trainer and random_states)):
        beside = "scheduler" if schedulers else "random state"
        yield MissingFile(f"optimizer.{ending}", f"{whose} saves it with the {beside}")
    if is_trainer and _any(_OPTIMIZER_OF_TRAINER, below) and schedulers != random_states:
        name = "scheduler.pt" if random_states else "rng_state.pth"
        yield MissingFile(name, "Trainer saves it with the optimizer")


def _any(pattern: re.Pattern[str], names: Collection[str]) -> bool:
    return any(map(pattern.fullmatch, names))


def _find_megatron_files(below: Collection[str], stated: SavingRanks | None) -> Iterator[MissingFile]:
    """Find missing files of Megatron's classic format: ranks from 0 on, and every pair of ranks if most pairs exist.

    The run's arguments state the numbers of tensor ranks and pipeline stages. If tensor ranks do not cut experts, they
    include expert ranks; then as many pairs occur as the least common multiple of both numbers.
    """
    folders = {PurePosixPath(name).parts[0]: set[str]() for name in below if name.count("/") == 1}
    for name in below:
        folder, _, file = name.partition("/")
        if folder in folders and file:
            folders[folder].add(file)
    ranks = {folder: match for folder in folders if (match := _MEGATRON_RANK.fullmatch(folder))}
    counts = Counter(file for folder in ranks for file in folders[folder] & _OF_MEGATRON)
    if not counts["model_optim_rng.pt"]:
        return
    for folder in ranks:
        for file, count in counts.items():
            if file not in folders[folder] and count > len(ranks) / 2:
                yield MissingFile(f"{folder}/{file}", "most other ranks have one")
    pairs = {(int(match[1]), int(match[2]) if match[2] else None) for match in ranks.values()}
    for rank, other in _find_missing_pairs(pairs, stated):
        name = f"mp_rank_{rank:02}" + (f"_{other:03}" if (0, None) not in pairs else "")
        yield MissingFile(f"{name}/model_optim_rng.pt", "names or contents of other ranks count it")


def _find_missing_pairs(
    pairs: Collection[tuple[int, int | None]], stated: SavingRanks | None
) -> Iterator[tuple[int, int]]:
    """List the missing pairs of tensor rank and pipeline stage, or expert rank."""
    tensor, second = max(pair[0] for pair in pairs) + 1, max(pair[1] or 0 for pair in pairs) + 1
    is_grid = math.lcm(tensor, second) < len(pairs) or second == 1
    if stated is not None and stated.num_model and stated.num_pipeline:
        is_grid = is_grid or stated.num_pipeline > 1
        tensor, second = max(tensor, stated.num_model), max(second, stated.num_pipeline)
    for rank, other in itertools.product(range(tensor), range(second)) if is_grid else ():
        if (rank, other) not in pairs and (rank, None) not in pairs:
            yield rank, other
