"""The measuring part of a run: plan, warm-up, repetitions, result."""

from __future__ import annotations

import contextlib
import sys
from typing import Any

from io_bench import run_files
from io_bench.campaign.repetition import Bench, Sample
from io_bench.engines import ENGINES, Engine, EngineOptions
from io_bench.environment import environment_of
from io_bench.findings import measurements_of, notices_of, warnings_about
from io_bench.payload import ResidentPayload
from io_bench.plan import RunPlan, plan_of
from io_bench.process_group import ProcessGroup
from io_bench.request import Request
from io_bench.terminal import Terminal
from sizing.storage.measurement import BenchmarkResult


def measured_result(request: Request, group: ProcessGroup, terminal: Terminal) -> BenchmarkResult:
    """The result of a request, on all ranks; rank 0's has the warnings of all.

    Raises InvalidInput where the run cannot fit, RunFailed where it fails.
    """
    engine = ENGINES[request.options.engine](EngineOptions())
    plan = group.agree(lambda: plan_of(request, engine, group), doing="planning")
    terminal.say(plan.needs())
    environment = environment_of(group, plan.device, request.target)
    samples = _samples(plan, engine, group, terminal)
    if plan.keep:
        terminal.say(f"The last checkpoint is kept in {plan.run_title}.")
    measurements = measurements_of(
        samples,
        engine=engine.name,
        num_nodes=len(group.nodes),
        cache_policy=plan.target.cache_policy,
    )
    doubts = [warning for measurement in measurements for warning in warnings_about(measurement)]
    return BenchmarkResult(
        run_id=request.run_id,
        command=sys.orig_argv,
        environment=environment | _conditions(plan, samples),
        warnings=group.notes + notices_of(samples) + doubts,
        measurements=measurements,
    )


def _samples(plan: RunPlan, engine: Engine, group: ProcessGroup, terminal: Terminal) -> list[Sample]:
    """The samples that count: the first repetition warms up."""
    payload = ResidentPayload(plan.inventory, seed=plan.seed, rank=plan.rank, device=plan.device.name)
    files_of_rank = [engine_plan.files for engine_plan in plan.engine_plans]
    with (
        contextlib.closing(engine),
        terminal.progress(2 * (plan.repetitions + 1)) as progress,
        run_files.opened(plan.target, group, run_id=plan.run_id, files_of_rank=files_of_rank, keep=plan.keep) as files,
    ):
        engine.prepare(payload, plan.engine_plan, device=plan.device, group=group)
        bench = Bench(plan, engine, payload, files, group, progress)
        samples = [bench.sample(repetition) for repetition in range(plan.repetitions + 1)]
    return samples[1:]


def _conditions(plan: RunPlan, samples: list[Sample]) -> dict[str, Any]:
    """What this run had of its own, beside where it ran."""
    return {
        "seed": plan.seed,
        "payload_bytes_per_rank": plan.inventory.num_bytes,
        "num_tensors_per_rank": plan.inventory.num_tensors,
        "kept_in": plan.run_title if plan.keep else None,
        "start_spread_seconds": {
            "write": [sample.write.start_spread_seconds for sample in samples],
            "restore": [sample.restore.start_spread_seconds for sample in samples],
        },
    }
