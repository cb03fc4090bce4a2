"""Versions of the scenario's defaults: a stored scenario keeps the defaults of its time.

The one table of defaults that changed. Whoever changes one adds what held before to the version that it held in, and
raises SCHEMA_VERSION once per release. A fault that is mended has no row: a stored scenario that asked for what was
counted wrong (embeddings tied by an outer field, embeddings of 8-bit optimizers, few heads of keys and values) is
answered right from then on. What is counted in addition has one, as the smaller answer was right for what it said.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from sizing.field_paths import value_at
from sizing.spelling import known_spelling

SCHEMA_VERSION = 4
"""Of the defaults that hold today."""

FIRST_VERSION = 1
"""Of what was stored before documents said their version."""

Document = Mapping[str, Any]

_MEGATRON = ("megatron",)
_OF_A_DISTRIBUTED_OPTIMIZER = ("torch-dist", "megatron-distributed-optimizer")
"""Formats that meant in the first version that Megatron's optimizer is distributed."""
_OF_WHOLE_TENSORS = ("torch-dist",)
"""The one of them that stored each tensor of the optimizer once, in the first version."""
_OF_SEVERAL_PARTS = (
    *("gemma-3-4b", "gemma-3-12b", "gemma-3-27b", "llama-4-scout", "llama-4-maverick"),
    *("glm-4.5", "glm-4.5-air", "glm-5", "deepseek-v3.2", "qwen3-next-80b-a3b"),
)
"""Presets that left their vision tower, or modules for multi-token prediction, out until the third version."""
_WITH_FP32_WEIGHTS = ("fsdp2", "transformers", "accelerate", "lightning", "ddp")
"""Frameworks whose frozen weights under adapters were fp32 in mixed precision, as trained ones, until then."""
_PARTS_OF_CONFIG = ("vision_config", "num_nextn_predict_layers", "mtp_num_hidden_layers")
"""Names of a config.json that describe parts which were left out until then."""


@dataclass(frozen=True, slots=True)
class FormerDefault:
    """Former default of a field that a document leaves open; `value` returns None where today's default held too."""

    field: str
    value: Callable[[Document], Any]


def _classic_format(document: Document) -> str | None:
    """Return Megatron's classic format, which its default once was."""
    return "megatron" if _is_megatron(document) else None


def _distributed_optimizer(document: Document) -> bool | None:
    """Return True where the format once said that the optimizer is distributed."""
    name = str((_block(document, "checkpoint") or {}).get("format"))
    is_distributed = known_spelling(name, _OF_A_DISTRIBUTED_OPTIMIZER) is not None
    return True if is_distributed and _is_megatron(document) else None


def _optimizer_sharding(document: Document) -> str | None:
    """Return the sharding that torch-dist once had: each tensor stood once, and any layout could read it."""
    name = str((_block(document, "checkpoint") or {}).get("format"))
    is_distributed = (_block(document, "training") or {}).get("distributed_optimizer") is not False
    is_reshardable = is_distributed and known_spelling(name, _OF_WHOLE_TENSORS) is not None
    return "fully-reshardable" if is_reshardable and _is_megatron(document) else None


def _at_once(_: Document) -> float:
    """Return 0: once no time was assumed between a failure and the restore."""
    return 0.0


def _midpoint_of_detection(_: Document) -> float:
    """Return the middle of 0 to 10 min, which once was the detection time of every framework."""
    return 300.0


def _attention(document: Document) -> str | None:
    """Return eager attention, whose scores were once kept without recomputation."""
    recomputation = (_block(document, "training") or {}).get("recomputation")
    return "eager" if isinstance(recomputation, str) and known_spelling(recomputation, ("none",)) else None


def _language_model_alone(document: Document) -> bool | None:
    """Return True for models whose vision tower or multi-token-prediction modules were once not counted."""
    model = _block(document, "model") or {}
    config, preset = _block(model, "huggingface_config") or {}, str(model.get("preset"))
    text = _block(config, "text_config") or {}
    has_parts = any(part.get(name) for part in (config, text) for name in _PARTS_OF_CONFIG)
    return True if has_parts or known_spelling(preset, _OF_SEVERAL_PARTS) else None


def _uncompressed(document: Document) -> float | None:
    """Return 1 for Orbax, whose own compression was once not counted."""
    framework = str((_block(document, "training") or {}).get("framework"))
    return 1.0 if known_spelling(framework, ("maxtext",)) else None


def _all_of_attention(document: Document) -> list[str] | None:
    """Return the matrices that once had adapters by default: all of attention, but in models of a state space alone."""
    config = (_block(document, "model") or {}).get("huggingface_config")
    model_type = str(config.get("model_type")) if isinstance(config, Mapping) else ""
    return None if "mamba" in model_type else ["attention"]


def _base_as_trained(document: Document) -> str | None:
    """Return fp32 where frozen weights under adapters had the fp32 of trained ones."""
    training = _block(document, "training") or {}
    framework, precision = str(training.get("framework") or "megatron"), training.get("precision")
    keeps_fp32 = known_spelling(framework, _WITH_FP32_WEIGHTS) is not None
    is_mixed = precision is None or str(precision).lower().endswith("mixed")
    return "fp32" if keeps_fp32 and is_mixed else None


FORMER_DEFAULTS: dict[int, tuple[FormerDefault, ...]] = {
    1: (
        FormerDefault("checkpoint.format", _classic_format),
        FormerDefault("training.distributed_optimizer", _distributed_optimizer),
        FormerDefault("checkpoint.optimizer_sharding", _optimizer_sharding),
        FormerDefault("reliability.detection_seconds", _at_once),
        FormerDefault("reliability.relaunch_seconds", _at_once),
    ),
    2: (FormerDefault("training.attention", _attention),),
    3: (  # and, in `run.workload.save_defaults`, one process that writes all as fast as the storage
        FormerDefault("model.language_model_only", _language_model_alone),
        FormerDefault("training.adapters.tensors", _all_of_attention),
        FormerDefault("training.adapters.base_dtype", _base_as_trained),
        FormerDefault("reliability.detection_seconds", _midpoint_of_detection),
        FormerDefault("checkpoint.stored_fraction", _uncompressed),
    ),
}
"""The defaults that a version was the last to have."""


def fields_changed_since(version: int) -> frozenset[str]:
    """Return the fields whose defaults of a version no longer hold.

    >>> sorted(fields_changed_since(1))[0], fields_changed_since(SCHEMA_VERSION)
    ('checkpoint.format', frozenset())
    """
    return frozenset(row.field for until, rows in FORMER_DEFAULTS.items() if until >= version for row in rows)


def defaults_then(document: Document, version: int, *, always_there: Collection[str]) -> dict[str, Any]:
    """Return the former values of the fields that a document leaves open, where a default has changed since.

    `always_there`: the blocks that have an effect though a document leaves them out.

    >>> defaults_then({"reliability": {"mtbf_seconds": 9}}, 1, always_there=["checkpoint"])["checkpoint.format"]
    'megatron'
    """
    values: dict[str, Any] = {}
    for former in (former for until, rows in FORMER_DEFAULTS.items() if until >= version for former in rows):
        path, _, name = former.field.rpartition(".")
        block = _block(document, path)
        has_block = block is not None or (path not in document and path in always_there)
        if has_block and (block or {}).get(name) is None and (value := former.value(document)) is not None:
            values.setdefault(former.field, value)
    return values


def mark_left_open(scenario: BaseModel, given: Document, fields: Collection[str]) -> None:
    """Mark fields of a new scenario as not given, as they stand for defaults."""
    for field in fields:
        *blocks, name = field.split(".")
        functools.reduce(getattr, blocks, scenario).model_fields_set.discard(name)
        if blocks[0] not in given:
            scenario.model_fields_set.discard(blocks[0])


def _is_megatron(document: Document) -> bool:
    framework = (_block(document, "training") or {}).get("framework") or "megatron"
    return bool(known_spelling(str(framework), _MEGATRON))


def _block(document: Document, path: str) -> Document | None:
    """Read the block at a dotted path, if it is there."""
    block = value_at(document, path)
    return block if isinstance(block, Mapping) else None
