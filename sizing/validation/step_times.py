"""Comparisons of step times that real runs measured with predicted ones."""

from __future__ import annotations

import itertools
import statistics
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from sizing.published import published
from sizing.validation.comparison import Comparison, Source
from sizing.validation.measured_runs import (
    Row,
    case_name,
    megascale_rows,
    megascale_scenario,
    megatron_table_scenario,
    megatron_table_seconds,
    predicted_step,
    run_name,
    simumax_rows,
    simumax_scenario,
    torchtitan_rows,
    torchtitan_scenario,
)

WITHIN = 0.2
"""Good enough to rank: what a GPU achieves of its peak is known by kind of work, not by shape."""

_SIMUMAX = Source("observation", "SimuMax on B200 with Megatron-LM: seconds of a step")
_TABLE = Source("observation", "Narayanan et al. 2021, table 1, on A100: seconds of a step, from its rates")
_MEGASCALE = Source("observation", "MegaScale, arXiv 2402.15627, table 2: its Megatron-LM baseline on Ampere, seconds")
_TORCHTITAN = Source("observation", "torchtitan on H100, H200 and Blackwell: tokens per second and GPU")
_SUMMARY = Source("arithmetic", "All step times above, together")

_POWER = "these H100 are limited to 500 of 700 W and have 2.4 TB/s of memory, not 3.35: the source calls its rates low"
_RING = _POWER + "; torch's ring attention computes, and merges, a block for each rank"
_DYNAMIC = "scales of float8 are found anew for each product, which is not counted"
_SMALL = "a rank's matrices are small, and GPUs achieve less of their peak with them than the median that is taken"
_GROUPS = "routing and copying of tokens among 160 experts take time that is not counted"
_PLAIN = "GPT of 24 to 30 layers with unfused kernels of 2021, which move values more often than counted"
_LARGE_SCALE = "gradients of 6,144 and more GPUs meet slower links and stragglers, which are not counted"


@dataclass(frozen=True, slots=True)
class TimedRun:
    """Run with its scenario, a key of comparable runs, and its predicted and measured seconds of a step."""

    scenario: Row
    key: tuple[object, ...]
    predicted: float
    measured: float


def step_times() -> Iterator[Comparison]:
    """Compare each run within 20 %, the median of each source and of all, and the order of comparable pairs."""
    timed: list[TimedRun] = []
    for runs, name, miss in (
        (_simumax, "SimuMax", ""),
        (_table, "A100", ""),
        (_megascale, "MegaScale", ""),
        (_torchtitan, "torchtitan", _POWER),
    ):
        of_source: list[TimedRun] = []
        yield from runs(of_source)
        yield _median(of_source, f"{name} runs", miss=miss)
        timed += of_source
    yield _median(timed, "runs")
    right, pairs = ranked_pairs(timed)
    fact = f"pairs of one model, batch, sequence and GPUs in the right order, of {pairs}"
    yield _SUMMARY.compare(fact, right, pairs, within=0.1)


def ranked_pairs(timed: list[TimedRun]) -> tuple[int, int]:
    """Count the pairs of comparable runs that are predicted in the right order, and all of them.

    Runs that differ in what a scenario does not say, as asynchronous tensor parallelism, are no pair.
    """
    groups: dict[tuple[object, ...], list[TimedRun]] = defaultdict(list)
    for each in timed:
        groups[each.key].append(each)
    pairs = [pair for group in groups.values() for pair in itertools.combinations(group, 2)]
    pairs = [(a, b) for a, b in pairs if a.scenario != b.scenario]
    right = sum((a.predicted - b.predicted) * (a.measured - b.measured) > 0.0 for a, b in pairs)
    return right, len(pairs)


def _median(timed: list[TimedRun], runs: str, *, miss: str = "") -> Comparison:
    median = statistics.median(abs(each.predicted / each.measured - 1.0) for each in timed)
    return _compare(_SUMMARY, f"median of {len(timed)} {runs}: 1 + error", 1.0 + median, 1.0, miss=miss)


def _key_of(document: Row) -> tuple[object, ...]:
    """Return what comparable runs have in common: model, GPUs, batch and sequence length."""
    training = document["training"]
    gpus = 1
    for name in ("tensor", "pipeline", "context", "data"):
        gpus *= document["parallelism"].get(name, 1)
    return (str(document["model"]), gpus, training["global_batch_size"], training["sequence_length"])


def _compare(source: Source, fact: str, predicted: float, measured: float, *, miss: str) -> Comparison:
    is_close = abs(predicted / measured - 1.0) <= WITHIN
    return source.compare(fact, predicted, measured, within=WITHIN, miss="" if is_close else miss)


def _simumax(timed: list[TimedRun]) -> Iterator[Comparison]:
    for row in simumax_rows():
        document = simumax_scenario(row)
        predicted, measured = predicted_step(document).seconds, row["measured_step_ms"] / 1e3
        timed.append(TimedRun(document, _key_of(document), predicted, measured))
        miss = _GROUPS if row["model"].startswith("deepseek") else _SMALL
        yield _compare(_SIMUMAX, f"s: {case_name(row)}", predicted, measured, miss=miss)


def _table(timed: list[TimedRun]) -> Iterator[Comparison]:
    for row in published("megatron_table1")["rows"]:
        document = megatron_table_scenario(row)
        predicted, measured = predicted_step(document).seconds, megatron_table_seconds(row)
        timed.append(TimedRun(document, _key_of(document), predicted, measured))
        fact = f"s: {row['printed_billion_parameters']}B on {row['num_gpus']} A100"
        yield _compare(_TABLE, fact, predicted, measured, miss=_PLAIN)


def _megascale(timed: list[TimedRun]) -> Iterator[Comparison]:
    for row in megascale_rows():
        document = megascale_scenario(row)
        predicted = predicted_step(document).seconds
        timed.append(TimedRun(document, _key_of(document), predicted, row["step_seconds"]))
        fact = f"s: {row['model']}, {row['global_batch_sequences']} sequences on {row['num_gpus']} GPUs"
        yield _compare(_MEGASCALE, fact, predicted, row["step_seconds"], miss=_LARGE_SCALE)


def _torchtitan(timed: list[TimedRun]) -> Iterator[Comparison]:
    for row in torchtitan_rows():
        fact, tokens_per_second = f"tokens/s per GPU: {run_name(row)}", row["tokens_per_second_per_gpu"]
        document = torchtitan_scenario(row)
        step = predicted_step(document)
        measured = step.seconds * step.tokens_per_second_per_gpu / tokens_per_second
        timed.append(TimedRun(document, (*_key_of(document), row["linear_precision"]), step.seconds, measured))
        is_throttled = "activation_checkpointing" in row
        miss = _DYNAMIC if not is_throttled else _RING if row.get("context", 1) > 1 else _POWER
        yield _compare(_TORCHTITAN, fact, step.tokens_per_second_per_gpu, tokens_per_second, miss=miss)
