"""Flags for common fields of a Scenario: one table of flag to field."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sizing.layout.formats import FORMATS


@dataclass(frozen=True, slots=True)
class Flag:
    """A command-line flag and the Scenario field that it sets.

    `alone`: the flag's block holds alternatives, so the others of the file give way.
    """

    name: str
    field: str
    help: str
    metavar: str = "N"
    alone: bool = False

    @property
    def parameter(self) -> str:
        """The flag's name as a Python identifier."""
        return self.name.removeprefix("--").replace("-", "_")


FLAGS = (
    Flag("--model", "model.preset", "A name of the model catalog: megatron-1t", "NAME", alone=True),
    Flag("--parameters", "model.num_parameters", "Number of parameters instead of a model", alone=True),
    Flag("--framework", "training.framework", "megatron, fsdp2 or deepspeed", "NAME"),
    Flag("--precision", "training.precision", "bf16-mixed, fp16-mixed, bf16 or fp32", "NAME"),
    Flag("--optimizer", "training.optimizer", "adam, lion, muon, adafactor, adam-8bit, ...", "NAME"),
    Flag("--sequence-length", "training.sequence_length", "Tokens of a sequence"),
    Flag("--micro-batch", "training.micro_batch_size", "Sequences of one forward pass: do its activations fit?"),
    Flag("--global-batch", "training.global_batch_size", "Sequences of one step, over all replicas"),
    Flag("--recomputation", "training.recomputation", "none, selective or full", "NAME"),
    Flag("--tensor", "parallelism.tensor", "Tensor-parallel degree"),
    Flag("--pipeline", "parallelism.pipeline", "Pipeline stages"),
    Flag("--context", "parallelism.context", "Context-parallel degree"),
    Flag("--data", "parallelism.data", "Data-parallel degree"),
    Flag("--expert", "parallelism.expert", "Expert-parallel degree"),
    Flag("--zero-stage", "parallelism.zero_stage", "ZeRO stage of DeepSpeed"),
    Flag("--shard-group", "parallelism.shard_group", "FSDP ranks that shard one copy"),
    Flag("--node", "cluster.node", "A name of the node catalog: dgx-a100", "NAME"),
    Flag("--gpus", "cluster.num_gpus", "GPUs that the degrees must multiply to, as a check"),
    Flag("--mode", "checkpoint.mode", "sync, or async: training waits for the copy to host memory alone", "NAME"),
    Flag("--format", "checkpoint.format", ", ".join(FORMATS), "NAME"),
    Flag("--interval", "checkpoint.interval_seconds", "Start of one checkpoint to the next: 4h", "TIME"),
    Flag("--restore", "checkpoint.restore", "every-replica, read-once-broadcast or parallel-read-exchange", "NAME"),
    Flag("--observed-bytes", "checkpoint.observed_bytes", "A measured size to use: 13.8TB", "SIZE"),
    Flag(
        "--observed-write-bandwidth",
        "checkpoint.observed_write_bytes_per_second",
        "A measured rate to compare with: 273GB/s",
        "RATE",
    ),
    Flag("--storage-preset", "storage.preset", "A name of the storage catalog: ckpt-size storage", "NAME", alone=True),
    Flag("--io", "storage.io", "direct (past the page cache) or buffered", "KIND"),
    Flag(
        "--write-bandwidth",
        "storage.profile.write_bytes_per_second",
        "Write rate of the file system: 273GB/s",
        "RATE",
    ),
    Flag(
        "--read-bandwidth",
        "storage.profile.read_bytes_per_second",
        "Read rate of the file system: 1TB/s",
        "RATE",
    ),
    Flag(
        "--node-write-bandwidth",
        "storage.profile.node_write_bytes_per_second",
        "Write rate of a node",
        "RATE",
    ),
    Flag("--node-read-bandwidth", "storage.profile.node_read_bytes_per_second", "Read rate of a node", "RATE"),
    Flag(
        "--writer-write-bandwidth",
        "storage.profile.writer_write_bytes_per_second",
        "Write rate of one writer",
        "RATE",
    ),
    Flag("--failures-per-node-day", "reliability.failures_per_node_day", "Failures per node and day", "RATE"),
    Flag("--mtbf", "reliability.mtbf_seconds", "Mean time between failures of the job: 9h", "TIME"),
    Flag("--detection", "reliability.detection_seconds", "Until a failure is seen: 1min", "TIME"),
    Flag("--relaunch", "reliability.relaunch_seconds", "From detection until processes read: 5min", "TIME"),
    Flag("--restart", "reliability.restart_seconds", "Measured, from detection to training again: 10min", "TIME"),
    Flag("--keep-last", "retention.keep_last", "Checkpoints that are kept"),
    Flag("--keep-weights-every", "retention.keep_weights_every", "Of every Nth checkpoint the weights are kept"),
    Flag("--max-overhead", "targets.max_overhead_fraction", "Overhead to meet, of 1: 0.05", "FRACTION"),
    Flag("--max-stall", "targets.max_stall_seconds", "Stall to meet: 60s", "TIME"),
    Flag("--recovery", "targets.recovery_seconds", "From a failure to the first step: 5min", "TIME"),
    Flag("--min-goodput", "targets.min_goodput_fraction", "Useful share of the time to meet: 0.9", "FRACTION"),
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
