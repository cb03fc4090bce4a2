"""Flags for common fields of a Scenario: one table of flag to field."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from sizing.cluster import node_catalog
from sizing.errors import REQUIRED, InvalidInput, Problem
from sizing.guesses.fields import choices_of, field_at
from sizing.model import catalog
from sizing.run.failure_rates import published_rates
from sizing.storage.catalog import storage_profiles
from sizing.units import figure_text

MAX_CHOICES = 6
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
        """What the field is, by the first sentence of its description, how to write it, and its default.

        >>> Flag("--interval", "checkpoint.interval_seconds", "TIME", "1h").help.replace(
        ...     "the start of one checkpoint to the start of the next", "..."
        ... )
        'Seconds from ... (checkpoint.interval_seconds; e.g. 1h; default: 4.00 h)'
        >>> Flag("--mode", "checkpoint.mode").help.partition(" (")[2]
        'checkpoint.mode; one of sync, async; default: sync)'
        """
        field = field_at(self.field)
        choices = ", ".join(_few(choices_of(field.annotation)))
        said = [
            self.field,
            f"e.g. {self.example}" if self.example else choices and f"one of {choices}",
            _default_text(self.field, field.default),
        ]
        return f"{first_sentence(field.description or '')} ({'; '.join(filter(None, said))})"

    def completions(self, begun: str) -> list[str]:
        """The values that may follow it, as far as they are named and begin so.

        >>> Flag("--node", "cluster.node").completions("dgx-h")
        ['dgx-h100', 'dgx-h200']
        >>> Flag("--mode", "checkpoint.mode").completions("A")
        ['async']
        """
        names_of = _CATALOGS.get(self.field)
        names = names_of() if names_of else choices_of(field_at(self.field).annotation)
        return [name for name in names if name.startswith(begun.lower())]


_CATALOGS: dict[str, Callable[[], Iterable[str]]] = {
    "model.preset": catalog,
    "cluster.node": node_catalog,
    "storage.preset": storage_profiles,
    "reliability.preset": published_rates,
}

FLAGS = (
    Flag("--model", "model.preset", "NAME", "megatron-1t", alone=True),
    Flag("--parameters", "model.num_parameters", "N", "70B", alone=True),
    Flag("--active", "model.num_active_parameters", "N", "32B"),
    Flag("--experts", "model.num_experts"),
    Flag("--experts-per-token", "model.num_experts_per_token"),
    Flag("--framework", "training.framework", "NAME"),
    Flag("--precision", "training.precision", "NAME"),
    Flag("--optimizer", "training.optimizer", "NAME"),
    Flag("--distributed-optimizer", "training.distributed_optimizer", "YES/NO", "yes"),
    Flag("--critic", "training.reinforcement.critic_parameters", "N", "8B"),
    Flag("--publish-interval", "training.reinforcement.publication.interval_seconds", "TIME", "5min"),
    Flag("--publish", "training.reinforcement.publication.content", "KIND"),
    Flag("--publish-over", "training.reinforcement.publication.over", "WAY"),
    Flag("--publish-replicas", "training.reinforcement.publication.num_replicas"),
    Flag("--sequence-length", "training.sequence_length"),
    Flag("--micro-batch", "training.micro_batch_size"),
    Flag("--global-batch", "training.global_batch_size"),
    Flag("--tokens", "training.num_tokens", "N", "15T"),
    Flag("--critical-batch", "training.critical_batch_tokens", "N", "4M"),
    Flag("--step-time", "training.step_seconds", "TIME", "12s"),
    Flag("--schedule", "training.schedule", "NAME"),
    Flag("--recomputation", "training.recomputation", "NAME"),
    Flag("--recomputed-layers", "training.recomputed_layers"),
    Flag("--offload-optimizer", "training.offload.optimizer", "PLACE"),
    Flag("--offload-weights", "training.offload.weights", "PLACE"),
    Flag("--offload-activations", "training.offload.activations_fraction", "FRACTION", "0.5"),
    Flag("--compress-gradients", "training.gradient_compression.method", "NAME"),
    Flag("--tensor", "parallelism.tensor"),
    Flag("--pipeline", "parallelism.pipeline"),
    Flag("--virtual-pipeline", "parallelism.virtual_pipeline"),
    Flag("--first-stage-layers", "parallelism.first_stage_layers"),
    Flag("--last-stage-layers", "parallelism.last_stage_layers"),
    Flag("--embedding-counts-as-layer", "parallelism.embedding_counts_as_layer", "YES/NO", "yes"),
    Flag("--loss-counts-as-layer", "parallelism.loss_counts_as_layer", "YES/NO", "yes"),
    Flag("--context", "parallelism.context"),
    Flag("--data", "parallelism.data"),
    Flag("--expert", "parallelism.expert"),
    Flag("--expert-tensor", "parallelism.expert_tensor"),
    Flag("--zero-stage", "parallelism.zero_stage"),
    Flag("--shard-group", "parallelism.shard_group"),
    Flag("--node", "cluster.node", "NAME", "dgx-a100"),
    Flag("--gpus", "cluster.num_gpus"),
    Flag("--nodes", "cluster.nodes", "NxNODE,...", "8xdgx-a100,8xdgx-h100"),
    Flag("--storage-nics", "cluster.storage_nics", "NxRATE", "2x400Gb/s"),
    Flag("--mode", "checkpoint.mode", "NAME"),
    Flag("--format", "checkpoint.format", "NAME"),
    Flag("--optimizer-sharding", "checkpoint.optimizer_sharding", "NAME"),
    Flag("--interval", "checkpoint.interval_seconds", "TIME", "30min"),
    Flag("--staging", "checkpoint.staging_bytes", "SIZE", "8GiB"),
    Flag("--restore", "checkpoint.restore", "NAME"),
    Flag("--compressed-weights", "checkpoint.reduction.compression.weights_fraction", "FRACTION", "0.72"),
    Flag("--compressed-master", "checkpoint.reduction.compression.master_fraction", "FRACTION", "0.82"),
    Flag("--compressed-moments", "checkpoint.reduction.compression.moments_fraction", "FRACTION", "0.82"),
    Flag("--compress-rate", "checkpoint.reduction.compression.compress_bytes_per_second", "RATE", "1.9GB/s"),
    Flag("--delta", "checkpoint.reduction.delta.fraction", "FRACTION", "0.1"),
    Flag("--delta-full-every", "checkpoint.reduction.delta.full_every", "N", "8"),
    Flag("--experts-per-save", "checkpoint.reduction.partial_experts.num_per_save"),
    Flag("--experts-full-every", "checkpoint.reduction.partial_experts.full_every", "N", "8"),
    Flag("--export-every", "checkpoint.export.every", "N", "10"),
    Flag("--export-dtype", "checkpoint.export.dtype", "NAME"),
    Flag("--export-by", "checkpoint.export.written_by", "NAME"),
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
    Flag("--failures", "reliability.preset", "NAME", "llama-3-405b"),
    Flag("--mtbf", "reliability.mtbf_seconds", "TIME", "9h"),
    Flag("--detection", "reliability.detection_seconds", "TIME", "1min"),
    Flag("--relaunch", "reliability.relaunch_seconds", "TIME", "5min"),
    Flag("--restart", "reliability.restart_seconds", "TIME", "10min"),
    Flag("--strategy", "reliability.strategy", "NAME", "restart"),
    Flag("--spares", "reliability.spares.num", "N", "2"),
    Flag("--repair", "reliability.repair_seconds", "TIME", "4h"),
    Flag("--keep-last", "retention.keep_last"),
    Flag("--keep-weights-every", "retention.keep_weights_every"),
    Flag("--max-overhead", "targets.max_overhead_fraction", "FRACTION", "2%"),
    Flag("--max-stall", "targets.max_stall_seconds", "TIME", "60s"),
    Flag("--recovery", "targets.recovery_seconds", "TIME", "5min"),
    Flag("--min-goodput", "targets.min_goodput_fraction", "FRACTION", "0.9"),
)

_THOUSANDS = re.compile(r"\s*\d{1,3}(,\d{3})+\s*")
_NUMBER = re.compile(r"\s*[\d.,_]+(?:[eE][+-]?\d+)?\s*")


def fields_of(given: Mapping[str, str]) -> dict[str, str]:
    """The scenario fields that flags set, by dotted path, with their values as typed; `given` is by parameter name.

    >>> fields_of({"parameters": "7000000000", "framework": "fsdp2"})
    {'model.num_parameters': '7000000000', 'training.framework': 'fsdp2'}
    """
    return {flag.field: given[flag.parameter] for flag in FLAGS if flag.parameter in given}


def with_flags(document: dict[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """A scenario document with the given flags, by parameter name, set over it.

    Raises InvalidInput for a duration without a unit.

    >>> with_flags({"model": {"num_parameters": 7}}, {"model": "gpt2", "data": "2,048"})
    {'model': {'preset': 'gpt2'}, 'parallelism': {'data': '2048'}}
    """
    typed = [(flag, _as_typed(flag, value)) for flag in FLAGS if (value := given.get(flag.parameter)) is not None]
    replaced = {flag.field.partition(".")[0] for flag, _ in typed if flag.alone}
    document = {name: block for name, block in document.items() if name not in replaced}
    for flag, value in typed:
        document = _with(document, flag.field.split("."), value)
    return document


def _as_typed(flag: Flag, value: Any) -> Any:
    """A text as its field takes it; of a list or a range each."""
    if isinstance(value, list):
        return [_as_typed(flag, each) for each in value]
    if isinstance(value, dict):
        return {name: _as_typed(flag, each) for name, each in value.items()}
    if not isinstance(value, str):
        return value
    if flag.field.endswith("_seconds"):
        require_unit_of_time(flag.name, value)
    return value.replace(",", "") if _THOUSANDS.fullmatch(value) else value


def require_unit_of_time(option: str, text: str) -> None:
    """Refuse a duration that is a mere number, which a document may have in seconds; zero needs no unit.

    Raises InvalidInput.
    """
    if _NUMBER.fullmatch(text) and text.strip("0., "):
        number = text.strip()
        remedy = f"write the unit too, for example {number}s, {number}min or {number}h"
        raise InvalidInput.of(option, "is a duration without a unit", value=text, remedy=remedy)


def by_flags(error: InvalidInput, given: Mapping[str, str]) -> InvalidInput:
    """The problems in the words of the flags that were typed: `given` has the name of each by the field that it sets.

    >>> str(by_flags(InvalidInput.of("scenario.mtbf", "is 0", value=None, remedy="give it"), {"mtbf": "--mtbf"}))
    '--mtbf is 0: give it.'
    """
    return InvalidInput(_by_flag(problem, given) for problem in error.problems)


def flag_words(file: object | None, given: Mapping[str, Any]) -> Callable[[str], str]:
    """What puts the flags into a sentence of a report, in place of the fields that they set.

    Those of the flags `given`, by parameter name; all of them where no `file` has fields to change.

    >>> flag_words(None, {})("Give checkpoint.staging_bytes, or mode async.")
    'Give --staging, or mode async.'
    >>> flag_words("run.yaml", {"mtbf": "3h"})("Give checkpoint.staging_bytes, or a longer reliability.mtbf_seconds.")
    'Give checkpoint.staging_bytes, or a longer --mtbf.'
    """
    flags = [flag for flag in FLAGS if file is None or given.get(flag.parameter) is not None]
    names = {flag.field: flag.name for flag in flags}
    names |= {
        last: flag.name for flag in flags if "_" in (last := flag.field.rpartition(".")[2]) and last not in _SHARED
    }

    def worded(text: str) -> str:
        return _FIELD.sub(lambda found: names.get(found[0], found[0]), text)

    return worded


_FIELD = re.compile(r"(?<![\w.-])[a-z]+(?:[_.][a-z]+)+")
"""A dotted path, or a name with an underscore."""
_LAST_NAMES = [flag.field.rpartition(".")[2] for flag in FLAGS]
_SHARED = {name for name in _LAST_NAMES if _LAST_NAMES.count(name) > 1}
"""Last names of several fields, which do not tell the flag."""


def _by_flag(problem: Problem, given: Mapping[str, str]) -> Problem:
    field = problem.field.removeprefix("scenario.")
    setting = next((name for name in given if f"{field}.".startswith(f"{name}.")), None)
    if setting is None and not any(name.startswith(f"{field}.") for name in given):
        return replace(problem, field=_missing_flag(problem, field, given) or problem.field)
    return replace(
        problem,
        field=problem.field if setting is None else given[setting],
        rule=_with_flag_names(problem.rule, field, given),
        remedy=_with_flag_names(problem.remedy, field, given),
    )


def _missing_flag(problem: Problem, field: str, given: Mapping[str, str]) -> str | None:
    """The flag that would give a field that is missing beside one that a flag gave."""
    block = field.rpartition(".")[0]
    if problem.rule != REQUIRED or not any(name.startswith(f"{block}.") for name in given):
        return None
    return next((flag.name for flag in FLAGS if flag.field == field), None)


def _with_flag_names(text: str, field: str, given: Mapping[str, str]) -> str:
    """A text in which fields of the same block have the names of their flags; plain words only of flags given.

    A block within it has the name of the flag that was given for a field of it.
    """
    text = re.sub(r"(?<=exactly one of )[\w, ]+(?=, found)", lambda names: _typed(names[0].split(", "), field), text)
    for flag in FLAGS:
        block, _, name = flag.field.rpartition(".")
        if _is_meant(flag, name, field, given):
            text = re.sub(rf"(?<![\w.-]){name}\b(?!-)", flag.name, text)
        if flag.field in given and block.startswith(f"{field}."):
            text = re.sub(rf"(?<![\w.-]){block.removeprefix(f'{field}.')}\b(?!-)", flag.name, text)
    return text


def _is_meant(flag: Flag, name: str, field: str, given: Mapping[str, str]) -> bool:
    """Whether a name in the text about a field is that of a flag's; a plain word where both stand in one block."""
    if "_" in name:
        return flag.field.startswith(f"{field.partition('.')[0]}.")
    return flag.field in given and flag.field.startswith(f"{field.rpartition('.')[0] or field}.")


def _typed(names: Iterable[str], block: str) -> str:
    """Fields of a block as they are typed: by their flags, or by their place in a file where no flag sets them."""
    flags = {flag.field: flag.name for flag in FLAGS}
    return ", ".join(flags.get(f"{block}.{name}", f"{block}.{name}") for name in names)


def _with(document: Any, path: list[str], value: Any) -> dict[str, Any]:
    name, rest = path[0], path[1:]
    block = document if isinstance(document, dict) else {}
    if not rest:
        return {**block, name: value}
    return {**block, name: _with(block.get(name), rest, value)}


def first_sentence(description: str) -> str:
    """The first sentence of a description, without its full stop.

    >>> first_sentence("Inner width (Radford et al. 2019). Default: 4 x hidden_size.")
    'Inner width (Radford et al. 2019)'
    """
    return re.split(r"\.(?: (?=[A-Z`])|$)", description, maxsplit=1)[0]


def _default_text(name: str, default: Any) -> str:
    """The default of a field, where it is a plain value."""
    if default is None or not isinstance(default, bool | int | float | str):
        return ""
    return f"default: {figure_text(name, default)}"


def _few(choices: list[str]) -> list[str]:
    return choices if len(choices) <= MAX_CHOICES else [*choices[: MAX_CHOICES - 1], "..."]
