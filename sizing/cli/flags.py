"""Flags for common fields of a Scenario: one table of flag to field."""

from __future__ import annotations

import re
import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import WithJsonSchema
from pydantic.fields import FieldInfo

from sizing.errors import model_in
from sizing.scenario import Scenario

MOST_CHOICES = 6
"""A line of help that is still read; the error of a wrong value names them all."""


@dataclass(frozen=True, slots=True)
class Flag:
    """A command-line flag and the Scenario field that it sets.

    `alone`: the flag's block holds alternatives, so the others of the file give way.
    """

    name: str
    field: str
    metavar: str = "N"
    example: str = ""
    alone: bool = False

    @property
    def parameter(self) -> str:
        """The flag's name as a Python identifier."""
        return self.name.removeprefix("--").replace("-", "_")

    @property
    def help(self) -> str:
        """What the field is, by the first sentence of its description, and how to write it.

        >>> Flag("--interval", "checkpoint.interval_seconds", "TIME", "4h").help
        'Seconds from the start of one checkpoint to the start of the next (checkpoint.interval_seconds: 4h)'
        """
        field = _field_at(self.field)
        values = self.example or ", ".join(_choices(field.annotation))
        return f"{first_sentence(field.description or '')} ({self.field}{values and ': '}{values})"


FLAGS = (
    Flag("--model", "model.preset", "NAME", "megatron-1t", alone=True),
    Flag("--parameters", "model.num_parameters", "N", "70e9", alone=True),
    Flag("--framework", "training.framework", "NAME"),
    Flag("--precision", "training.precision", "NAME"),
    Flag("--optimizer", "training.optimizer", "NAME"),
    Flag("--sequence-length", "training.sequence_length"),
    Flag("--micro-batch", "training.micro_batch_size"),
    Flag("--global-batch", "training.global_batch_size"),
    Flag("--recomputation", "training.recomputation", "NAME"),
    Flag("--tensor", "parallelism.tensor"),
    Flag("--pipeline", "parallelism.pipeline"),
    Flag("--context", "parallelism.context"),
    Flag("--data", "parallelism.data"),
    Flag("--expert", "parallelism.expert"),
    Flag("--zero-stage", "parallelism.zero_stage"),
    Flag("--shard-group", "parallelism.shard_group"),
    Flag("--node", "cluster.node", "NAME", "dgx-a100"),
    Flag("--gpus", "cluster.num_gpus"),
    Flag("--mode", "checkpoint.mode", "NAME"),
    Flag("--format", "checkpoint.format", "NAME"),
    Flag("--interval", "checkpoint.interval_seconds", "TIME", "4h"),
    Flag("--restore", "checkpoint.restore", "NAME"),
    Flag("--observed-bytes", "checkpoint.observed_bytes", "SIZE", "13.8TB"),
    Flag("--observed-write-bandwidth", "checkpoint.observed_write_bytes_per_second", "RATE", "273GB/s"),
    Flag("--storage-preset", "storage.preset", "NAME", "local-nvme-raid0-8x-gen5", alone=True),
    Flag("--io", "storage.io", "KIND"),
    Flag("--write-bandwidth", "storage.profile.write_bytes_per_second", "RATE", "273GB/s"),
    Flag("--read-bandwidth", "storage.profile.read_bytes_per_second", "RATE", "1TB/s"),
    Flag("--node-write-bandwidth", "storage.profile.node_write_bytes_per_second", "RATE", "8GB/s"),
    Flag("--node-read-bandwidth", "storage.profile.node_read_bytes_per_second", "RATE", "10GB/s"),
    Flag("--writer-write-bandwidth", "storage.profile.writer_write_bytes_per_second", "RATE", "1GB/s"),
    Flag("--failures-per-node-day", "reliability.failures_per_node_day", "RATE", "0.0065"),
    Flag("--mtbf", "reliability.mtbf_seconds", "TIME", "9h"),
    Flag("--detection", "reliability.detection_seconds", "TIME", "1min"),
    Flag("--relaunch", "reliability.relaunch_seconds", "TIME", "5min"),
    Flag("--restart", "reliability.restart_seconds", "TIME", "10min"),
    Flag("--keep-last", "retention.keep_last"),
    Flag("--keep-weights-every", "retention.keep_weights_every"),
    Flag("--max-overhead", "targets.max_overhead_fraction", "FRACTION", "0.05"),
    Flag("--max-stall", "targets.max_stall_seconds", "TIME", "60s"),
    Flag("--recovery", "targets.recovery_seconds", "TIME", "5min"),
    Flag("--min-goodput", "targets.min_goodput_fraction", "FRACTION", "0.9"),
)


def with_flags(document: dict[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """A scenario document with the given flags, by parameter name, set over it.

    >>> with_flags({"model": {"num_parameters": 7}}, {"model": "gpt2", "tensor": "2"})
    {'model': {'preset': 'gpt2'}, 'parallelism': {'tensor': '2'}}
    """
    for flag in FLAGS:
        value = given.get(flag.parameter)
        if value is not None:
            document = _with(document, flag.field.split("."), value, alone=flag.alone)
    return document


def _with(document: Any, path: list[str], value: Any, *, alone: bool) -> dict[str, Any]:
    name, rest = path[0], path[1:]
    block = document if isinstance(document, dict) else {}
    if not rest:
        return {name: value} if alone else {**block, name: value}
    return {**block, name: _with(block.get(name), rest, value, alone=alone)}


def first_sentence(description: str) -> str:
    """The first sentence of a description, without its full stop.

    >>> first_sentence("Inner width (Radford et al. 2019). Default: 4 x hidden_size.")
    'Inner width (Radford et al. 2019)'
    """
    return re.split(r"\.(?: (?=[A-Z`])|$)", description, maxsplit=1)[0]


def _field_at(path: str) -> FieldInfo:
    block, *rest = path.split(".")
    field = Scenario.model_fields[block]
    for name in rest:
        model = model_in(field.annotation)
        assert model is not None  # noqa: S101  a test sets every flag's field
        field = model.model_fields[name]
    return field


def _choices(annotation: Any) -> list[str]:
    """The texts that a field may hold, where there are only few: of a Literal, or of a registry."""
    if typing.get_origin(annotation) is typing.Literal:
        return _first(typing.get_args(annotation))
    if isinstance(annotation, WithJsonSchema):
        return _first((annotation.json_schema or {}).get("enum", ()))
    return next(filter(None, map(_choices, typing.get_args(annotation))), [])


def _first(choices: Sequence[object]) -> list[str]:
    texts = [str(choice) for choice in choices]
    return texts if len(texts) <= MOST_CHOICES else [*texts[: MOST_CHOICES - 1], "..."]
