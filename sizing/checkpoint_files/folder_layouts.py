"""Recognise whose checkpoint a folder is, and the kind of its small files, from names of files and of their contents.

Sources, by layout: transformers 5.23, trainer.py; accelerate 1.15, checkpointing.py and utils/constants.py; Lightning
2.6, trainer/connectors/checkpoint_connector.py and strategies/fsdp.py; torchtitan, components/checkpoint.py; NeMo 2,
lightning/ckpt_utils.py; NeMo AutoModel, docs/guides/checkpointing.md; Megatron-LM, training/checkpointing.py and
core/dist_checkpointing; DeepSpeed 0.19, runtime/engine.py and checkpoint/ds_to_universal.py; Orbax 0.12; PEFT,
utils/constants.py.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import PurePath

from sizing.checkpoint_files.contents import ADAPTER, FORMAT, FRAMEWORK, SmallState


@dataclass(frozen=True, slots=True)
class FolderLayout:
    """Layout of a checkpoint's folder, which tells its trainer or framework.

    `files`: patterns, each of which must match a file of the folder, as a path from its root or from any folder in it.
    `names`: first words, each of which must begin the name of a stored item. `fields`: scenario fields that choose the
    same framework.
    """

    name: str
    files: tuple[str, ...] = ()
    names: frozenset[str] = frozenset()
    fields: Mapping[str, str] = field(default_factory=dict)

    def is_of(self, files: Collection[str], names: Collection[str]) -> bool:
        """Return whether a folder with these files and stored names has this layout."""
        patterns = (re.compile(rf"(.*/)?{pattern}") for pattern in self.files)
        return self.names <= set(names) and all(any(map(pattern.fullmatch, files)) for pattern in patterns)


ZERO_STAGE = "parallelism.zero_stage"
SHARD_GROUP = "parallelism.shard_group"
FSDP2 = {FRAMEWORK: "fsdp2"}
DDP = {FRAMEWORK: "ddp"}
DEEPSPEED = {FRAMEWORK: "deepspeed"}

LAYOUTS = (
    FolderLayout(ADAPTER, files=(r"adapter_model\.(safetensors|bin)",)),
    FolderLayout("Orbax", files=("_METADATA",), fields={FRAMEWORK: "maxtext"}),
    FolderLayout("Hugging Face Trainer", files=("trainer_state.json",), fields={FRAMEWORK: "transformers"}),
    FolderLayout("NeMo AutoModel", files=("model/.+", "optim/.+", r"step_scheduler\.pt"), fields=FSDP2),
    FolderLayout("NeMo 2", files=("context/.+", r"weights/\.metadata")),
    FolderLayout("DeepSpeed universal", files=(r"zero/.+/fp32\.pt",), fields=DEEPSPEED),
    FolderLayout("accelerate", files=(r"random_states_\d+\.pkl",), fields={FRAMEWORK: "accelerate"}),
    FolderLayout("Lightning", names=frozenset({"pytorch-lightning_version"}), fields={FRAMEWORK: "lightning"}),
    FolderLayout(
        "DeepSpeed ZeRO-3",
        files=(r"zero_pp_rank_\d+_mp_rank_\d+_model_states\.pt",),
        fields=DEEPSPEED | {ZERO_STAGE: "3"},
    ),
    FolderLayout("DeepSpeed", files=(r"mp_rank_\d+_model_states\.pt",), fields=DEEPSPEED),
    FolderLayout(
        "Megatron-LM classic", files=(r"mp_rank_\d+(_\d+)*/model_optim_rng\.pt",), fields={FORMAT: "megatron"}
    ),
    FolderLayout("Megatron-LM torch_dist", files=(r"common\.pt", r"metadata\.json", r"\.metadata")),
    FolderLayout(
        "torchtitan", files=(r"\.metadata",), names=frozenset({"train_state"}), fields={FRAMEWORK: "torchtitan"}
    ),
)
"""Layouts in order of precedence: adapters first, which trainers save in place of weights; then trainers, before the
frameworks whose files they contain.
"""

_SMALL_FILES: dict[SmallState, str] = {
    "random state": r"rng_state(_\d+)?\.pth|random_states_\d+\.pkl|rng\.pt|rng_dp_rank_\d+\.pt",
    "scheduler": r"(step_|lr_)?scheduler(_\d+)?\.(pt|bin)|scaler\.pt",
    "data loader": r"(sampler|dl_state_dict)(_\d+)?\.bin|dataloader(_dp_rank_\d+)?\.pt|process_\d+-of-\d+\.json",
}
"""Files that a trainer writes beside weights and optimizer. Other non-tensor items count as settings."""

_SMALL_NAMES: dict[SmallState, str] = {
    "random state": r"(.*_)?rng(_.*)?",
    "scheduler": r"(lr_)?schedulers?|opt_param_scheduler",
    "data loader": r"data_?loader|sampler|loops",
}
"""First words of items beside weights and optimizer; `loops` is Lightning's position in the data."""

SETTINGS_FILES = frozenset({"training_args.bin"})
"""Torch files that pickle settings of a trainer and no tensor. They are counted, not read."""
_SETTINGS = re.compile(
    r"[^.]*(\.[^.]*)?\.(json|ya?ml|py|jinja|toml|md)|(tokenizer|spiece|sentencepiece|source|target).*\.(model|spm)|"
    r"(merges|vocab|latest\w*|added_tokens)\.txt|latest|LICENSE|NOTICE|\.gitattributes"
)
"""Text files that trainers and frameworks write beside the state: configs, tokenizers, scripts."""


def layouts_of(files: Collection[str], names: Collection[str]) -> list[FolderLayout]:
    """List the layouts that match a folder's files, as paths from its root, and the first words of stored names.

    A trainer's layout comes first, that of the framework whose files it contains last.

    >>> [layout.name for layout in layouts_of(["optimizer.bin", "random_states_0.pkl"], [])]
    ['accelerate']
    >>> layouts_of(["a.pt"], ["model"])
    []
    """
    return [layout for layout in LAYOUTS if layout.is_of(files, names)]


def is_settings(path: str) -> bool:
    """Return whether a file holds settings of a trainer, a model or a tokenizer, by its name.

    >>> [is_settings(name) for name in ("config.json", "context/model.yaml", "training_args.bin", "latest")]
    [True, True, True, True]
    >>> [is_settings(name) for name in ("train.jsonl", "data.tar", "core.1234", "events.out.tfevents.17")]
    [False, False, False, False]
    """
    name = PurePath(path).name
    return name in SETTINGS_FILES or _SETTINGS.fullmatch(name) is not None


def state_of_file(path: str) -> SmallState | None:
    """Return the kind of a trainer's small file, by its name; None for any other file.

    >>> state_of_file("checkpoint-2/rng_state_0.pth"), state_of_file("optimizer.pt")
    ('random state', None)
    """
    return _matching(_SMALL_FILES, [PurePath(path).name])


def state_of_name(name: str) -> SmallState | None:
    """Return the kind of a stored item, by a word of its name; None for weights and optimizer.

    >>> state_of_name("dataloader.dp_rank_0"), state_of_name("train_state.step")
    ('data loader', None)
    """
    return _matching(_SMALL_NAMES, re.split(r"[./]", name))


def _matching(patterns: dict[SmallState, str], words: Iterable[str]) -> SmallState | None:
    words = list(words)
    return next((kind for kind, pattern in patterns.items() if any(re.fullmatch(pattern, w) for w in words)), None)
