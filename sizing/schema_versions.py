"""Versions of the scenario's defaults: a scenario that was stored keeps those of its time.

The one table of defaults that changed. Whoever changes one adds what held before to the version that it held in, and
raises SCHEMA_VERSION once per release.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from sizing.spelling import known_spelling

SCHEMA_VERSION = 3
"""Of the defaults that hold today."""

FIRST_VERSION = 1
"""Of what was stored before documents said their version."""

Document = Mapping[str, Any]

_MEGATRON = ("megatron",)
_OF_A_DISTRIBUTED_OPTIMIZER = ("torch-dist", "megatron-distributed-optimizer")
"""Formats that meant in the first version that Megatron's optimizer is distributed."""


@dataclass(frozen=True, slots=True)
class FormerDefault:
    """What a field held where a document left it open: by that document; None where today's default held too."""

    field: str
    value: Callable[[Document], Any]


def _format(document: Document) -> str | None:
    """Megatron meant its classic format."""
    return "megatron" if _is_megatron(document) else None


def _distributed_optimizer(document: Document) -> bool | None:
    """A format said whether the optimizer is distributed."""
    named = str((_block(document, "checkpoint") or {}).get("format"))
    said = known_spelling(named, _OF_A_DISTRIBUTED_OPTIMIZER)
    return True if said and _is_megatron(document) else None


def _optimizer_sharding(document: Document) -> str | None:
    """Each tensor stood once in torch-dist, and any layout could read it."""
    named = str((_block(document, "checkpoint") or {}).get("format"))
    is_distributed = (_block(document, "training") or {}).get("distributed_optimizer") is not False
    said = known_spelling(named, ("torch-dist",)) and is_distributed
    return "fully-reshardable" if said and _is_megatron(document) else None


def _at_once(_: Document) -> float:
    """Nothing passed from a failure to the restore."""
    return 0.0


def _attention(document: Document) -> str | None:
    """Without recomputation the scores of attention were kept."""
    said = (_block(document, "training") or {}).get("recomputation")
    return "eager" if isinstance(said, str) and known_spelling(said, ("none",)) else None


FORMER_DEFAULTS: dict[int, tuple[FormerDefault, ...]] = {
    1: (
        FormerDefault("checkpoint.format", _format),
        FormerDefault("training.distributed_optimizer", _distributed_optimizer),
        FormerDefault("checkpoint.optimizer_sharding", _optimizer_sharding),
        FormerDefault("reliability.detection_seconds", _at_once),
        FormerDefault("reliability.relaunch_seconds", _at_once),
    ),
    2: (FormerDefault("training.attention", _attention),),
}
"""The defaults that a version was the last to have."""


def fields_changed_since(version: int) -> frozenset[str]:
    """The fields whose defaults of a version no longer hold.

    >>> sorted(fields_changed_since(1))[0], fields_changed_since(SCHEMA_VERSION)
    ('checkpoint.format', frozenset())
    """
    return frozenset(row.field for until, rows in FORMER_DEFAULTS.items() if until >= version for row in rows)


def defaults_then(document: Document, version: int, *, always_there: Collection[str]) -> dict[str, Any]:
    """The fields that a document of a version leaves open and that meant something else then, with what they meant.

    `always_there`: the blocks that have an effect though a document leaves them out.

    >>> defaults_then({"reliability": {"mtbf_seconds": 9}}, 1, always_there=["checkpoint"])["checkpoint.format"]
    'megatron'
    """
    found: dict[str, Any] = {}
    for former in (former for until, rows in FORMER_DEFAULTS.items() if until >= version for former in rows):
        value = former.value(document) if _is_open(document, former.field, always_there) else None
        if value is not None:
            found.setdefault(former.field, value)
    return found


def _is_open(document: Document, field: str, always_there: Collection[str]) -> bool:
    """Whether a document leaves a field open and yet has the block that it stands in."""
    path, _, name = field.rpartition(".")
    block = _block(document, path)
    return (block is not None or (path not in document and path in always_there)) and (block or {}).get(name) is None


def with_values(document: Document, values: Mapping[str, Any]) -> dict[str, Any]:
    """A document with fields of its blocks set.

    >>> with_values({"checkpoint": {"mode": "sync"}}, {"checkpoint.format": "megatron"})
    {'checkpoint': {'mode': 'sync', 'format': 'megatron'}}
    """
    changed = dict(document)
    for field, value in values.items():
        *blocks, name = field.split(".")
        inner = changed
        for block in blocks:
            inner[block] = dict(inner.get(block) or {})
            inner = inner[block]
        inner[name] = value
    return changed


def as_left_open(scenario: BaseModel, given: Document, fields: Collection[str]) -> None:
    """Mark fields of a scenario that was just made as not given, as they stand for defaults."""
    for field in fields:
        *blocks, name = field.split(".")
        functools.reduce(getattr, blocks, scenario).model_fields_set.discard(name)
        if blocks[0] not in given:
            scenario.model_fields_set.discard(blocks[0])


def _is_megatron(document: Document) -> bool:
    framework = (_block(document, "training") or {}).get("framework") or "megatron"
    return bool(known_spelling(str(framework), _MEGATRON))


def _block(document: Document, path: str) -> Document | None:
    """The block at a dotted path, if it is there."""
    block: Any = document
    for name in path.split("."):
        block = block.get(name) if isinstance(block, Mapping) else None
    return block if isinstance(block, Mapping) else None
