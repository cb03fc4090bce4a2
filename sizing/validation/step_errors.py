"""Errors of step times over all measured runs, and whether those of one publisher lie in what the others let expect."""

from __future__ import annotations

import functools
import statistics
from collections.abc import Iterator
from typing import NamedTuple

from sizing.cluster.node import node_catalog
from sizing.errors import InvalidInput
from sizing.published import published
from sizing.scenario import scenario_from
from sizing.sized_layout import size_layout
from sizing.training.step_errors import ComparedRun, StepErrors, StepFacts
from sizing.validation.comparison import Comparison, Source
from sizing.validation.measured_runs import (
    Row,
    megascale_rows,
    megascale_scenario,
    megatron_table_scenario,
    megatron_table_seconds,
    predicted_step,
    simumax_rows,
    simumax_scenario,
    torchtitan_rows,
    torchtitan_scenario,
)
from sizing.validation.published_throughputs import throughput_rows

WANTED_SHARE = 0.9
"""Share of the runs of a publisher that lie in the range that the runs of the others let expect."""

_HELD_OUT = Source("arithmetic", "Step times, each publisher held out: runs within the range of the others' errors")

_OTHERWISE = (
    "runs that nobody else has are further off than all of others: torch's rings of 4 and 8 context ranks and its "
    "NVFP4, products of 405B on GB200, and experts of 30B with one sequence in a microbatch"
)


class HeldOut(NamedTuple):
    """Runs of a publisher against the range that the others' let expect.

    `median_error`: of predicted over measured. `median_width`: of the range, upper end over lower end, less one.
    """

    publisher: str
    num_runs: int
    num_inside: int
    median_error: float
    median_width: float


@functools.cache
def compared_runs() -> tuple[ComparedRun, ...]:
    """Predict every measured run whose layout is published."""
    return tuple(_list_runs())


def held_out() -> Iterator[HeldOut]:
    """Hold each publisher's runs against the errors of all others."""
    runs = compared_runs()
    for publisher in dict.fromkeys(each.publisher for each in runs):
        errors = StepErrors.of(each for each in runs if each.publisher != publisher)
        own = [each for each in runs if each.publisher == publisher]
        groups = [errors.group(each.facts) for each in own]
        inside = sum(group.low <= each.ratio <= group.high for each, group in zip(own, groups, strict=True))
        yield HeldOut(
            publisher,
            len(own),
            inside,
            statistics.median(abs(1 / each.ratio - 1) for each in own),
            statistics.median(group.high / group.low - 1 for group in groups),
        )


def held_out_errors() -> Iterator[Comparison]:
    """Compare, for each publisher and for all, how many runs lie in the range that the others let expect."""
    found = list(held_out())
    for each in found:
        fact = f"runs of {each.publisher} inside, of {each.num_runs}; the range is {each.median_width:.0%} wide"
        least = WANTED_SHARE * each.num_runs
        yield _HELD_OUT.compare(
            f"{fact}, the error {each.median_error:.1%}",
            each.num_inside,
            each.num_runs,
            within=1 - WANTED_SHARE,
            miss="" if each.num_inside >= least else _OTHERWISE,
        )
    total, inside = sum(each.num_runs for each in found), sum(each.num_inside for each in found)
    yield _HELD_OUT.compare(
        f"all runs inside, of {total}",
        inside,
        total,
        within=1 - WANTED_SHARE,
        miss="" if inside >= WANTED_SHARE * total else _OTHERWISE,
    )


def _list_runs() -> Iterator[ComparedRun]:
    for row in simumax_rows():
        yield from _run("SimuMax", simumax_scenario(row), seconds=row["measured_step_ms"] / 1e3)
    for row in published("megatron_table1")["rows"]:
        yield from _run("Narayanan et al.", megatron_table_scenario(row), seconds=megatron_table_seconds(row))
    for row in megascale_rows():
        yield from _run("MegaScale", megascale_scenario(row), seconds=row["step_seconds"])
    for row in torchtitan_rows():
        yield from _run("torchtitan", torchtitan_scenario(row), rate=row["tokens_per_second_per_gpu"])
    for publisher, document, rate in throughput_rows():
        yield from _run(publisher, document, rate=rate)


def _run(
    publisher: str, document: Row, *, seconds: float | None = None, rate: float | None = None
) -> Iterator[ComparedRun]:
    """Yield a run by its seconds or its tokens per second and GPU, unless its layout is refused."""
    try:
        step = predicted_step(document)
    except InvalidInput:
        return
    measured = step.seconds * step.tokens_per_second_per_gpu / rate if rate else seconds or 0.0
    yield ComparedRun(publisher, _facts(document), measured / step.seconds)


def _facts(document: Row) -> StepFacts:
    training = document["training"]
    return StepFacts(
        gpu=node_catalog()[document["cluster"]["node"]].spec.gpu or "",
        precision=training.get("precision", "bf16-mixed"),
        has_experts=bool(size_layout(scenario_from(document)).model.num_experts),
        framework=training.get("framework", "megatron"),
        sequence_length=training["sequence_length"],
        num_context=document["parallelism"].get("context", 1),
    )
