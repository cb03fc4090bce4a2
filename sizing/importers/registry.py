"""Every importer, and which of them reads a source."""

from __future__ import annotations

import fnmatch
import re
from dataclasses import dataclass

from sizing.config_files.source import ConfigSource
from sizing.importers.accelerate_config import CONFIG_OF_ACCELERATE
from sizing.importers.axolotl import AXOLOTL
from sizing.importers.deepspeed_json import DEEPSPEED
from sizing.importers.huggingface_config import HUGGINGFACE_CONFIG
from sizing.importers.importer import Importer
from sizing.importers.launch_command import LAUNCH_COMMAND
from sizing.importers.lightning import LIGHTNING
from sizing.importers.llamafactory import LLAMAFACTORY
from sizing.importers.maxtext import MAXTEXT
from sizing.importers.megatron import MEGATRON, PRIMUS, SLIME
from sizing.importers.megatron_bridge import MEGATRON_BRIDGE
from sizing.importers.nemo import NEMO
from sizing.importers.olmo import OLMO, OLMO_CORE
from sizing.importers.peft_config import PEFT_CONFIG
from sizing.importers.scenario import SCENARIO
from sizing.importers.swift import SWIFT
from sizing.importers.torchtitan import TORCHTITAN
from sizing.importers.transformers_trainer import FSDP_FILE, TRANSFORMERS
from sizing.importers.verl import VERL, VERL_SFT

IMPORTERS: dict[str, Importer] = {
    each.name: each
    for each in (
        TORCHTITAN,
        OLMO,
        OLMO_CORE,
        MAXTEXT,
        NEMO,
        MEGATRON_BRIDGE,
        MEGATRON,
        PRIMUS,
        SLIME,
        VERL,
        VERL_SFT,
        TRANSFORMERS,
        LLAMAFACTORY,
        SWIFT,
        AXOLOTL,
        LIGHTNING,
        DEEPSPEED,
        CONFIG_OF_ACCELERATE,
        FSDP_FILE,
        PEFT_CONFIG,
        HUGGINGFACE_CONFIG,
        SCENARIO,
        LAUNCH_COMMAND,
    )
}
"""Importers by name; of two that know a source equally well, the first reads it."""


@dataclass(frozen=True, kw_only=True)
class _UnreadTrainer:
    """A trainer whose files and commands are known and not read, as others' names in them have another meaning.

    `marks`: settings of its documents, as those of an Importer; `flags`: the same of its commands. `programs`: words
    of its commands.
    """

    title: str
    marks: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    programs: re.Pattern[str] | None = None


_UNREAD_TRAINERS = (
    _UnreadTrainer(
        title="Composer (LLM Foundry)",  # OLMo has max_duration too. Source: llm-foundry, utils/config_utils.py
        marks=tuple(f"max_duration+{block}*" for block in ("train_loader", "algorithms", "icl_tasks")),
    ),
    _UnreadTrainer(
        title="GPT-NeoX",  # Source: gpt-neox, configs/ and megatron/neox_arguments
        marks=("checkpoint[-_]factor", "pipe[-_]parallel[-_]size", "num[-_]layers+optimizer.type"),
        programs=re.compile(r"(.*/)?deepy\.py"),
    ),
    _UnreadTrainer(
        title="torchtune",  # Source: torchtune, recipes/configs
        marks=("*._component_",),
        programs=re.compile(r"(.*/)?tune"),
    ),
    _UnreadTrainer(
        title="NeMo-RL",  # Source: NeMo-RL, examples/configs
        marks=("policy.model_name+cluster.gpus_per_node", "policy.dtensor_cfg.*", "policy.megatron_cfg.*"),
        flags=("policy.model_name", "policy.dtensor_cfg.*", "policy.megatron_cfg.*"),
    ),
    _UnreadTrainer(
        title="NeMo 2",  # Source: NeMo, nemo/lightning/pytorch/strategies/megatron_strategy.py, nemo_logger.py
        marks=("trainer.strategy.*_model_parallel_size", "log.ckpt.*+optim.config.*"),
        flags=("trainer.strategy.*_model_parallel_size", "log.ckpt.*"),
        programs=re.compile(r"(.*/)?nemo|(.*/)?scripts/llm/(pretraining|finetuning)\.py"),
    ),
    _UnreadTrainer(
        title="OpenRLHF",  # Source: OpenRLHF, openrlhf/cli
        programs=re.compile(r"openrlhf\.cli\..*|(.*/)?openrlhf/cli/.*"),
    ),
)


def unread_trainer(source: ConfigSource) -> str | None:
    """Return the trainer that a source is of, where that is one whose files are not read."""
    names = [*source.settings, *(source.document or ())]
    for each in _UNREAD_TRAINERS:
        is_started = each.programs is not None and any(map(each.programs.fullmatch, source.words[:2]))
        marks = each.flags if source.document is None else each.marks
        if is_started or any(all(fnmatch.filter(names, name) for name in mark.split("+")) for mark in marks):
            return each.title
    return None


def importer_of(source: ConfigSource) -> Importer | None:
    """Return the importer that has most of its marks in a source, or None where none has enough."""
    counts = {name: each.count_marks(source) for name, each in IMPORTERS.items()}
    able = [each for name, each in IMPORTERS.items() if counts[name] >= each.min_marks]
    return max(able, key=lambda each: counts[each.name], default=None)


def importer_started_by(source: ConfigSource) -> Importer | None:
    """Return the importer of the trainer whose program a command is, or None where no program says it."""
    return next((each for each in IMPORTERS.values() if each.is_started_by(source)), None)
