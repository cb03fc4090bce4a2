"""Flags for common fields of a Scenario: one table of flag to field."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from sizing.cluster import node_catalog
from sizing.errors import InvalidInput, Problem
from sizing.guesses.fields import choices_of, field_at
from sizing.model import catalog
from sizing.run.failure_rates import published_rates
from sizing.storage.catalog import storage_profiles

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
        """What the field is, by the first sentence of its description, and how to write it.

        >>> Flag("--interval", "checkpoint.interval_seconds", "TIME", "4h").help
        'Seconds from the start of one checkpoint to the start of the next (checkpoint.interval_seconds: 4h)'
        """
        field = field_at(self.field)
        values = self.example or ", ".join(_few(choices_of(field.annotation)))
        return f"{first_sentence(field.description or '')} ({self.field}{values and ': '}{values})"

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
    Flag("--framework", "training.framework", "NAME"),
    Flag("--precision", "training.precision", "NAME"),
    Flag("--optimizer", "training.optimizer", "NAME"),
    Flag("--distributed-optimizer", "training.distributed_optimizer", "YES/NO", "yes"),
    Flag("--sequence-length", "training.sequence_length"),
    Flag("--micro-batch", "training.micro_batch_size"),
    Flag("--global-batch", "training.global_batch_size"),
    Flag("--recomputation", "training.recomputation", "NAME"),
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
    Flag("--zero-stage", "parallelism.zero_stage"),
    Flag("--shard-group", "parallelism.shard_group"),
    Flag("--node", "cluster.node", "NAME", "dgx-a100"),
    Flag("--gpus", "cluster.num_gpus"),
    Flag("--storage-nics", "cluster.storage_nics", "NxRATE", "2x400Gb/s"),
    Flag("--mode", "checkpoint.mode", "NAME"),
    Flag("--format", "checkpoint.format", "NAME"),
    Flag("--interval", "checkpoint.interval_seconds", "TIME", "4h"),
    Flag("--staging", "checkpoint.staging_bytes", "SIZE", "8GiB"),
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
    Flag("--failures", "reliability.preset", "NAME", "llama-3-405b"),
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


FLAGS_ELSEWHERE = {
    elsewhere: flag
    for flag, names in {
        "--tensor": "--tp --tp-size --tensor-parallel --tensor-parallel-size --tensor-model-parallel-size",
        "--pipeline": "--pp --pp-size --pipeline-parallel --pipeline-parallel-size --pipeline-model-parallel-size",
        "--virtual-pipeline": "--vp --vpp --num-virtual-stages-per-pipeline-rank",
        "--first-stage-layers": "--decoder-first-pipeline-num-layers",
        "--last-stage-layers": "--decoder-last-pipeline-num-layers",
        "--embedding-counts-as-layer": "--account-for-embedding-in-pipeline-split",
        "--loss-counts-as-layer": "--account-for-loss-in-pipeline-split",
        "--data": "--dp --dp-size --data-parallel --data-parallel-size",
        "--context": "--cp --cp-size --context-parallel --context-parallel-size",
        "--expert": "--ep --ep-size --expert-parallel --expert-parallel-size --expert-model-parallel-size",
        "--micro-batch": "--mbs --micro-batch-size --train-micro-batch-size-per-gpu --per-device-train-batch-size",
        "--global-batch": "--gbs --global-batch-size --train-batch-size --batch-size",
        "--sequence-length": "--seq --seq-len --seq-length --seqlen --max-seq-len --context-length",
        "--recomputation": "--recompute --recompute-granularity --recompute-activations --activation-checkpointing",
        "--parameters": "--params --num-params --num-parameters --model-size",
        "--model": "--preset --model-name --arch",
        "--zero-stage": "--zero",
        "--gpus": "--num-gpus --ngpus --gpu --world-size",
        "--node": "--node-type --machine --instance --system",
        "--storage-nics": "--storage-nic --storage-adapters --storage-network --nics",
        "--format": "--ckpt-format --dist-ckpt-format",
        "--mode": "--async --async-save",
        "--interval": "--save-interval --checkpoint-interval",
        "--write-bandwidth": "--bandwidth --bw --write-bw --storage-bandwidth --write",
        "--read-bandwidth": "--read-bw --read",
        "--keep-last": "--keep --save-total-limit",
        "--failures": "--failure-rate --failure-preset --reliability",
        "--distributed-optimizer": "--use-distributed-optimizer",
    }.items()
    for elsewhere in names.split()
}
"""What Megatron-LM, DeepSpeed, Transformers and other sizing tools call what these flags set."""


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


def by_flags(error: InvalidInput, given: Mapping[str, str]) -> InvalidInput:
    """The problems in the words of the flags that were typed: `given` has the name of each by the field that it sets.

    >>> str(by_flags(InvalidInput.of("scenario.mtbf", "is 0", value=None, remedy="give it"), {"mtbf": "--mtbf"}))
    '--mtbf is 0: give it.'
    """
    return InvalidInput(_by_flag(problem, given) for problem in error.problems)


def _by_flag(problem: Problem, given: Mapping[str, str]) -> Problem:
    field = problem.field.removeprefix("scenario.")
    setting = next((name for name in given if f"{field}.".startswith(f"{name}.")), None)
    if setting is None and not any(name.startswith(f"{field}.") for name in given):
        return problem
    return replace(
        problem,
        field=problem.field if setting is None else given[setting],
        rule=_with_flag_names(problem.rule, field),
        remedy=_with_flag_names(problem.remedy, field),
    )


def _with_flag_names(text: str, field: str) -> str:
    """A text in which other fields of the same block have the names of their flags; plain words stay as they are."""
    block = field.partition(".")[0]
    for flag in FLAGS:
        name = flag.field.rpartition(".")[2]
        if "_" in name and flag.field.startswith(f"{block}."):
            text = re.sub(rf"(?<![\w.]){name}\b", flag.name, text)
    return text


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


def _few(choices: list[str]) -> list[str]:
    return choices if len(choices) <= MAX_CHOICES else [*choices[: MAX_CHOICES - 1], "..."]
