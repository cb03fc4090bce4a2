"""One configuration: a warm-up, then repetitions until the rates have settled or the caps are reached."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path

from io_bench.engines import Engine, StreamingEngine
from io_bench.payload.payload import ResidentPayload, StreamedPayload
from io_bench.planning.plan import Plan
from io_bench.repetition.caps import Caps
from io_bench.repetition.part import Part, StreamingPart, WaitingPart, WritingPart
from io_bench.repetition.sample import Bench, Sample
from io_bench.repetition.spread import is_settled
from io_bench.repetition.stopwatch import Timing
from io_bench.target.run_files import RunFiles
from io_bench.terminal import StepProgress

SETTLED_FRACTION = 0.05
"""A choice: the width falls with the root of the repetitions, so half of it takes four times as many."""
MAX_REPETITIONS = 50
"""Storage that has not settled by then does not: its spread is the result."""


@dataclass(frozen=True, slots=True)
class Repeat:
    """How often: at least `min_repetitions` times, and on until the rates have settled where `until_settled`."""

    min_repetitions: int
    until_settled: bool

    @property
    def max_repetitions(self) -> int:
        """Repetitions after which it ends in any case."""
        return max(self.min_repetitions, MAX_REPETITIONS) if self.until_settled else self.min_repetitions

    def is_enough(self, samples: list[Sample]) -> bool:
        """Whether both rates are as well known as was asked for."""
        if len(samples) < self.min_repetitions:
            return False
        return not self.until_settled or all(
            is_settled(seconds, within_fraction=SETTLED_FRACTION)
            for seconds in ([s.write.seconds for s in samples], [s.restore.seconds for s in samples])
        )


@dataclass(frozen=True, slots=True)
class Samples:
    """All that was measured in a configuration. `stopped_by` names the cap that ended it early; empty if none did."""

    plan: Plan
    warm_up: Sample
    kept: tuple[Sample, ...]
    null_sink: Timing
    stopped_by: str
    snapshot: Timing | None = None


def repeated(
    plan: Plan,
    engine: Engine,
    files: RunFiles,
    *,
    directory: Path | None,
    seed: int,
    repeat: Repeat,
    caps: Caps,
    progress: StepProgress,
) -> Samples:
    """The samples of a configuration; one that warms up goes before those that count.

    Args: `directory` to measure, where the target is one.
    At least one repetition counts, whatever the caps. Raises as Part, and as ProcessGroup.
    """
    files.tune(plan.transfer)
    with contextlib.closing(engine):
        bench = Bench(plan, _part(plan, engine, files, seed=seed), directory, progress)
        warm_up = bench.sample(0)
        caps.spend(warm_up.moved_bytes)
        null_sink, snapshot = bench.null_sink(), bench.snapshot()
        samples: list[Sample] = []
        stopped_by = ""
        while not (samples and (repeat.is_enough(samples) or stopped_by)) and len(samples) < repeat.max_repetitions:
            caps.pause(plan.writers.group)
            samples.append(bench.sample(len(samples) + 1))
            caps.spend(samples[-1].moved_bytes)
            stopped_by = caps.reached_by_one_more(samples[-1], plan.writers.group)
        if repeat.is_enough(samples):
            stopped_by = ""
        elif not stopped_by:
            stopped_by = f"The max of {MAX_REPETITIONS} repetitions"
    return Samples(plan, warm_up, tuple(samples), null_sink, stopped_by, snapshot)


def _part(plan: Plan, engine: Engine, files: RunFiles, *, seed: int) -> Part:
    index = plan.writers.index
    if plan.own is None or index is None:
        return WaitingPart()
    inventory, rank = plan.own.inventory, plan.writers.group.rank
    if plan.own.engine_plan.is_streamed and isinstance(engine, StreamingEngine):
        streamed = StreamedPayload(inventory, seed=seed, rank=index)
        source = StreamedPayload(inventory, seed=seed, rank=plan.source_index)
        engine.prepare(streamed, plan.own.engine_plan, device=plan.device, writers=plan.writers)
        return StreamingPart(
            plan.own,
            engine=engine,
            payload=streamed,
            source_payload=source,
            files=files,
            device=plan.device,
            rank=rank,
        )
    payload = ResidentPayload(inventory, seed=seed, rank=index, device=plan.device.name)
    engine.prepare(payload, plan.own.engine_plan, device=plan.device, writers=plan.writers)
    return WritingPart(plan.own, engine=engine, payload=payload, files=files, device=plan.device, rank=rank)
