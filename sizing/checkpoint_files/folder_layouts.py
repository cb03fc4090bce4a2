"""Whose checkpoint a folder is, and what its small files hold: told by names of files and of what stands in them.

Sources, by layout: transformers 5.23, trainer.py; accelerate 1.15, checkpointing.py and utils/constants.py; Lightning
2.6, trainer/connectors/checkpoint_connector.py and strategies/fsdp.py; torchtitan, components/checkpoint.py; NeMo 2,
lightning/ckpt_utils.py; NeMo AutoModel, docs/guides/checkpointing.md; Megatron-LM, training/checkpointing.py and
core/dist_checkpointing; DeepSpeed 0.19, runtime/engine.py and checkpoint/ds_to_universal.py; Orbax 0.12; PEFT,
utils/constants.py.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import PurePath

from sizing.checkpoint_files.kinds import ADAPTER, SmallState


@dataclass(frozen=True, slots=True)
class FolderLayout:
    """One way to lay out a checkpoint.

    `files`: patterns of which each names a file of the folder, from its root or any folder in it; `names`: first words
    of which each begins the name of something stored. `flags`: those of `ckpt-size` that choose the same framework.
    """

    name: str
    files: tuple[str, ...] = ()
    names: frozenset[str] = frozenset()
    flags: str = ""

    def is_of(self, files: Collection[str], names: Collection[str]) -> bool:
        """Whether a folder with such files and such stored names is laid out so."""
        patterns = (re.compile(rf"(.*/)?{pattern}") for pattern in self.files)
        return self.names <= set(names) and all(any(map(pattern.fullmatch, files)) for pattern in patterns)


LAYOUTS = (
    FolderLayout(ADAPTER, files=(r"adapter_config\.json", r"adapter_model\.(safetensors|bin)")),
    FolderLayout("Orbax", files=("_METADATA",), flags="--framework maxtext"),
    FolderLayout("Hugging Face Trainer", files=("trainer_state.json",), flags="--framework fsdp2"),
    FolderLayout("NeMo AutoModel", files=("model/.+", "optim/.+", r"step_scheduler\.pt"), flags="--framework fsdp2"),
    FolderLayout("NeMo 2", files=("context/.+", r"weights/\.metadata")),
    FolderLayout("DeepSpeed universal", files=(r"zero/.+/fp32\.pt",), flags="--framework deepspeed"),
    FolderLayout("accelerate", files=(r"random_states_\d+\.pkl",), flags="--framework fsdp2"),
    FolderLayout("Lightning", names=frozenset({"pytorch-lightning_version"}), flags="--framework fsdp2"),
    FolderLayout(
        "DeepSpeed ZeRO-3",
        files=(r"zero_pp_rank_\d+_mp_rank_\d+_model_states\.pt",),
        flags="--framework deepspeed --zero-stage 3",
    ),
    FolderLayout("DeepSpeed", files=(r"mp_rank_\d+_model_states\.pt",), flags="--framework deepspeed"),
    FolderLayout("Megatron-LM classic", files=(r"mp_rank_\d+(_\d+)*/model_optim_rng\.pt",), flags="--format megatron"),
    FolderLayout("Megatron-LM torch_dist", files=(r"common\.pt", r"metadata\.json", r"\.metadata")),
    FolderLayout(
        "torchtitan", files=(r"\.metadata",), names=frozenset({"train_state"}), flags="--framework torchtitan"
    ),
)
"""Trainers before the frameworks whose files they contain; adapters first, which trainers save in place of weights."""

_SMALL_FILES: dict[SmallState, str] = {
    "random state": r"rng_state(_\d+)?\.pth|random_states_\d+\.pkl|rng\.pt|rng_dp_rank_\d+\.pt",
    "scheduler": r"(step_|lr_)?scheduler(_\d+)?\.(pt|bin)|scaler\.pt",
    "data loader": r"(sampler|dl_state_dict)(_\d+)?\.bin|dataloader(_dp_rank_\d+)?\.pt|process_\d+-of-\d+\.json",
}
"""Files that a trainer writes beside weights and optimizer. What no checkpoint reader knows is a setting."""

_SMALL_NAMES: dict[SmallState, str] = {
    "random state": r"(.*_)?rng(_.*)?",
    "scheduler": r"(lr_)?schedulers?|opt_param_scheduler",
    "data loader": r"data_?loader|sampler|loops",
}
"""First words of what stands in a checkpoint beside weights and optimizer; `loops` is Lightning's place in the data."""


def layouts_of(files: Collection[str], names: Collection[str]) -> list[FolderLayout]:
    """The layouts of a folder's files, by paths from its root, and of the first words of what they store.

    A trainer's comes first, that of the framework whose files it contains last.

    >>> [layout.name for layout in layouts_of(["optimizer.bin", "random_states_0.pkl"], [])]
    ['accelerate']
    >>> layouts_of(["a.pt"], ["model"])
    []
    """
    return [layout for layout in LAYOUTS if layout.is_of(files, names)]


def state_of_file(path: str) -> SmallState | None:
    """What a small file of a trainer holds, by its name.

    >>> state_of_file("checkpoint-2/rng_state_0.pth"), state_of_file("optimizer.pt")
    ('random state', None)
    """
    return _matching(_SMALL_FILES, [PurePath(path).name])


def state_of_name(name: str) -> SmallState | None:
    """What something stored is, by a word of its name.

    >>> state_of_name("dataloader.dp_rank_0"), state_of_name("train_state.step")
    ('data loader', None)
    """
    return _matching(_SMALL_NAMES, re.split(r"[./]", name))


def _matching(patterns: dict[SmallState, str], words: Iterable[str]) -> SmallState | None:
    words = list(words)
    return next((kind for kind, pattern in patterns.items() if any(re.fullmatch(pattern, w) for w in words)), None)
