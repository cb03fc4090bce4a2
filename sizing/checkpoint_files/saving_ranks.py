"""Count the ranks that saved a checkpoint, from the contents and names of its files."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from sizing.checkpoint_files.contents import Degree
from sizing.checkpoint_files.pickle_reading import Inert

MAX_RANKS = 1_000_000
"""Max plausible number of ranks: a file may claim any, and a number above counts something else."""
_MEGATRON_RANK = re.compile(r"mp_rank_(\d+)(?:_(\d+))?")
_DEEPSPEED_SHARD = re.compile(r".*zero_pp_rank_(\d+)_mp_rank_(\d+)_.*\.pt")
_DATA_RANKS = (
    re.compile(r"__(\d+)_\d+\.distcp"),
    re.compile(r"(?:rng_state|random_states)_(\d+)\.\w+"),
    re.compile(r"(?:rng|dataloader)_dp_rank_(\d+)\.pt"),
)
_ORBAX_PROCESS = re.compile(r"ocdbt\.process_(\d+)")


@dataclass(frozen=True, slots=True)
class SavingRanks:
    """Numbers that a file's content states about the run that saved it; None if it does not state one.

    `num_data`, `num_model` and `num_pipeline` are the sizes of the groups of ranks. `num_shards` is the number of data
    ranks that keep a share of the optimizer. `zero_stage` is the stage of DeepSpeed's ZeRO.
    """

    num_data: int | None = None
    num_model: int | None = None
    num_pipeline: int | None = None
    num_shards: int | None = None
    zero_stage: int | None = None

    def with_other(self, other: SavingRanks) -> SavingRanks:
        """Merge the statements of two files of one save; the larger number wins."""
        known = {name: (getattr(self, name), getattr(other, name)) for name in self.__slots__}
        return SavingRanks(**{name: max(filter(None, both), default=both[0]) for name, both in known.items()})


def saving_ranks_in(root: object) -> SavingRanks | None:
    """Read the ranks that the content of a torch.save file states; None if it states none.

    DeepSpeed states all of them beside the model, and in each shard of the optimizer the number of shards: with ZeRO 1
    and 2 for each group of parameters, as experts may have fewer. Megatron's classic format keeps the arguments of the
    run. Sources: DeepSpeed 0.19, runtime/engine.py, _save_checkpoint; runtime/zero/stage_1_and_2.py and stage3.py,
    state_dict; utils/zero_to_fp32.py, parse_optim_states; Megatron-LM, training/checkpointing.py, generate_state_dict.

    >>> saving_ranks_in({"dp_world_size": 2, "mp_world_size": 1, "ds_config": {"zero_optimization": {"stage": 3}}})
    SavingRanks(num_data=2, num_model=1, num_pipeline=None, num_shards=None, zero_stage=3)
    >>> saving_ranks_in({"optimizer_state_dict": {"partition_count": [4, 2]}})
    SavingRanks(num_data=None, num_model=None, num_pipeline=None, num_shards=4, zero_stage=None)
    """
    if not isinstance(root, dict):
        return None
    config, optimizer, arguments = root.get("ds_config"), root.get("optimizer_state_dict"), root.get("args")
    zero = config.get("zero_optimization") if isinstance(config, dict) else None
    shards = optimizer.get("partition_count") if isinstance(optimizer, dict) else None
    run = arguments.state if isinstance(arguments, Inert) and isinstance(arguments.state, dict) else {}
    known = SavingRanks(
        num_data=_count(root.get("dp_world_size")),
        num_model=_count(root.get("mp_world_size")) or _count(run.get("tensor_model_parallel_size")),
        num_pipeline=_count(run.get("pipeline_model_parallel_size")),
        num_shards=max(filter(None, map(_count, shards if isinstance(shards, list) else [shards])), default=None),
    )
    if known == SavingRanks():
        return None
    stage = zero.get("stage", 0) if isinstance(zero, dict) else 0 if isinstance(config, dict) else None
    return replace(known, zero_stage=stage if type(stage) is int else None)


def _count(value: object) -> int | None:
    """Check a number of ranks from an untrusted file; None if it is not plausible."""
    return value if type(value) is int and 0 < value <= MAX_RANKS else None


def degrees_of(names: Collection[str], stated: Sequence[SavingRanks] = ()) -> dict[Degree, int]:
    """Derive the degrees above 1 of a save from the names of its files, given as paths from its folder.

    Ranks of torch DCP and of Orbax, and ranks that save their random state, count as data-parallel ones, over which
    bytes are divided. `stated` are the ranks that contents of files state.

    >>> degrees_of(["mp_rank_00_001/model_optim_rng.pt", "mp_rank_01_000/model_optim_rng.pt"])
    {'tensor': 2, 'pipeline': 2}
    >>> degrees_of(["rng_state_0.pth", "rng_state_1.pth", "model.safetensors"])
    {'data': 2}
    """
    paths = [PurePosixPath(name) for name in names]
    folders = [match for path in paths for part in path.parts[:-1] if (match := _MEGATRON_RANK.fullmatch(part))]
    shards = [match for path in paths if (match := _DEEPSPEED_SHARD.fullmatch(path.name))]
    if folders:
        degrees = {
            "tensor": 1 + max(int(match[1]) for match in folders),
            "pipeline": 1 + max(int(match[2] or 0) for match in folders),
        }
    elif shards or any(ranks.num_data for ranks in stated):
        data = [1 + int(match[1]) for match in shards] + [ranks.num_data or ranks.num_shards or 1 for ranks in stated]
        tensor = [1 + int(match[2]) for match in shards] + [ranks.num_model or 1 for ranks in stated]
        degrees = {"data": max(data), "tensor": max(tensor)}
    else:
        in_names = (match for path in paths for pattern in _DATA_RANKS if (match := pattern.fullmatch(path.name)))
        in_folders = (match for path in paths for part in path.parts[:-1] if (match := _ORBAX_PROCESS.fullmatch(part)))
        degrees = {"data": 1 + max((int(match[1]) for match in (*in_names, *in_folders)), default=0)}
    known: dict[Degree, int] = {"tensor": degrees.get("tensor", 1), "pipeline": degrees.get("pipeline", 1)}
    known["data"] = degrees.get("data", 1)
    return {degree: count for degree, count in known.items() if count > 1}
