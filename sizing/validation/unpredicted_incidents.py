"""Incidents without a prediction: reports that publish too little, or concern no save or load."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sizing.field_paths import value_at
from sizing.validation.comparison import Comparison, Source
from sizing.validation.incidents import MEASURED, REPORTED, read_incident, read_measurement

_STORAGE = "the rate of its storage is not published"
_ALL = "bytes, ranks and storage are not published"
_ASSUMED = "it is the lower end of the planning time that is assumed"
_DATA = "the model does not reckon what the data loader does"
_EXPORT = "the rate of its storage is not published, and how shards were read made it 25 to 42 times as fast"
_SECOND_HAND = Source("tool", "Incidents that are known at second hand alone")

_REPORTED = (
    ("marin-8514", "stall_seconds", "704 processes stalled, seconds", "the rate of that run's upload is not published"),
    ("marin-8469", "save_seconds", "5.36 TB saved by 64 GPUs, seconds", _STORAGE),
    ("pytorch-149785", "seconds_after", "the same with plans cached, seconds", _ASSUMED),
    ("tnt-1064", "save_minutes", "397B saved, minutes", "ranks and storage are not published"),
    ("verl-7348", "seconds_before", "weights updated, seconds", "weights go from actor to rollout, not to storage"),
    ("verl-2860", "save_seconds", "saved by Megatron, seconds", _ALL),
    ("verl-2316", "save_minutes", "saved asynchronously, minutes", _ALL),
    (
        "automodel-3131",
        "step_seconds_async_staging",
        "step with staging beside it, seconds",
        "the model lacks what staging takes from the step that runs beside it",
    ),
    ("automodel-635", "blocked_seconds_sync", "Llama 8B saved by 8 H100, seconds", _STORAGE),
    ("automodel-3369", "median_ms", "directory created, milliseconds", "the model does not reckon directories"),
    ("automodel-209", "seconds_before", "3B consolidated, seconds", _EXPORT),
    ("pytorch-157936", "seconds_before", "7 GB consolidated, seconds", _EXPORT),
    ("torchtitan-3065", "hang_hours_until_killed", "hung, hours", "ranks that begin at different times hang"),
    ("torchtitan-1058", "load_seconds", "7B loaded by 16 GPUs, seconds", _STORAGE),
    ("accelerate-4086", "load_hours", "resumed from a full state, hours", _ALL),
    ("accelerate-4105", "hours", "saved on 2,816 ranks, hours", "bytes and storage are not published; it timed out"),
    ("accelerate-2606", "hours", "batches skipped on resume, hours", _DATA),
    ("transformers-11284", "hours", "batches skipped on resume, hours", _DATA),
    ("ray-48801", "upload_minutes", "13 GB uploaded to S3, minutes", _STORAGE),
    (
        "tensorstore-195",
        "seconds_with_64_processes",
        "loaded by 64 processes, not 512, seconds",
        "bytes, and which limit binds, are not published",
    ),
    ("pytorch-104081", "save_minutes", "8B saved by HSDP, minutes", _STORAGE),
    ("scr-450", "minutes", "fsync on 4 nodes, minutes", "bytes and storage are not published"),
)
"""A report, its field, what that says, and why it is not predicted."""

_MEASURED = (
    ("pytorch_cached_plans.staging_seconds", "PyTorch and Crusoe: 70B copied, seconds", "its shards are not published"),
    ("pytorch_async.sync_seconds.7b", "PyTorch and IBM: 7B saved, seconds", "GPUs and storage are not published"),
    (
        "dlrover_gpt.plain.flash_save_seconds",
        "DLRover: GPT-1.5B copied, seconds",
        "the model has no asynchronous saving of Megatron's classic files",
    ),
    ("dlrover_gpt.plain.flash_load_seconds", "DLRover: own files loaded, plain, seconds", "not a format of the model"),
    (
        "dlrover_gpt.distributed_optimizer.flash_load_seconds",
        "DLRover: own files loaded, distributed optimizer, seconds",
        "not a format of the model",
    ),
)

WITHOUT_FIGURE = {
    "marin-8599": "host memory of a small model, no save's time or bytes",
    "megatron-bridge-3825": "minutes, without a figure",
    "radixark-megatron-62": "memory of NCCL",
    "opt-175b-blob": "a size that stands among the checkpoints of published runs, and hours to replace a machine",
    "lablup-504": "shares of a rate that is not published",
}
"""Reports without a figure of a save or a load, and what they have instead."""


def unpredicted_incidents() -> Iterator[Comparison]:
    """List these reports, each with its figure and the reason for no prediction."""
    for name, field, fact, reason in _REPORTED:
        yield REPORTED.list_unpredicted(f"{name}: {fact}", _first(read_incident(name)[field]), because=reason)
    for path, fact, reason in _MEASURED:
        name, _, field = path.partition(".")
        yield MEASURED.list_unpredicted(fact, value_at(read_measurement(name), field), because=reason)
    started = read_incident("megascale-init")
    fact = f"megascale-init: groups of {started['gpus']:,} GPUs formed, seconds"
    relaunch = "the time to relaunch is an input: reliability.relaunch_seconds"
    yield _SECOND_HAND.list_unpredicted(fact, _first(started["seconds"]), because=relaunch)


def _first(value: Any) -> float:
    number: float = value[0] if isinstance(value, list) else value
    return number
