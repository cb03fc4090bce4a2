"""Every importer, and which of them reads a source."""

from __future__ import annotations

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


def importer_of(source: ConfigSource) -> Importer | None:
    """Return the importer that has most of its marks in a source, or None where none has enough."""
    counts = {name: each.count_marks(source) for name, each in IMPORTERS.items()}
    able = [each for name, each in IMPORTERS.items() if counts[name] >= each.min_marks]
    return max(able, key=lambda each: counts[each.name], default=None)
