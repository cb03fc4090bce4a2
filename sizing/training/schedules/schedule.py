"""Pipeline schedule: what one answers, and what it requires of degrees and microbatches.

A schedule is one object: its facts are fields, its rules are methods. `SCHEDULES` of this folder lists the objects; no
other module knows their names. Each says by `order` what each device does one pass after the other, which the simulator
runs with the time of every pass, and by formulas what a stage holds, and how long it idles where stages are equal.
"""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

from sizing.errors import InvalidInput
from sizing.state.optimizers import Moment
from sizing.state.saved_state import SCHEDULE_MOMENTS
from sizing.state.training import Schedule
from sizing.training.schedules.passes import PassTimes, Slot, SlotTime, StepProgram, max_held

STEADY_ROUNDS = 4
"""Times the stages, in microbatches, after which no schedule here holds or idles more: the deepest fills with 2 p."""

FILLING_ROUNDS = 2
"""Times the stages, in microbatches, after which each further round of p takes as long as the one before."""

EQUAL_TIMES = PassTimes()
"""Backward passes twice as long as forward ones: Narayanan et al. 2021, arXiv 2104.04473, appendix."""


class DeviceTimes(NamedTuple):
    """Time of a whole step, and for how much of it each device is busy."""

    seconds: float
    busy: tuple[float, ...]

    def after(self, other: DeviceTimes, num_rounds: float) -> DeviceTimes:
        """Return the times of a step that is a number of rounds longer; `other` is a round shorter than this one."""
        busy = tuple(now + num_rounds * (now - then) for now, then in zip(self.busy, other.busy, strict=True))
        return DeviceTimes(self.seconds + num_rounds * (self.seconds - other.seconds), busy)


@dataclass(frozen=True, slots=True)
class PipelineShape:
    """Pipeline of p stages with v chunks of the model each, and m microbatches a step (None: as many as it takes)."""

    num_stages: int
    num_microbatches: int | None = None
    num_chunks: int = 1

    @property
    def limit(self) -> float:
        """Max microbatches that a stage can hold: all of a step, or infinity where their number is unknown."""
        return float("inf") if self.num_microbatches is None else float(self.num_microbatches)

    @property
    def steady(self) -> PipelineShape:
        """Pipeline with a number of microbatches: its own, or enough to fill it where none is given."""
        if self.num_microbatches is not None:
            return self
        return replace(self, num_microbatches=STEADY_ROUNDS * self.num_stages)

    @property
    def filled(self) -> PipelineShape:
        """Pipeline with at most as many microbatches as fill it. More do not add idle time."""
        return replace(self, num_microbatches=int(min(self.limit, STEADY_ROUNDS * self.num_stages)))


@dataclass(frozen=True, kw_only=True, eq=False)
class PipelineSchedule(ABC):
    """Order in which a device runs the passes of microbatches, and what follows from it.

    Facts of a class. `flushes`: the pipeline runs empty at each optimizer step, so that one version of the weights is
    all there is. `splits_backward`: gradients of inputs and of weights are passes of their own. `is_two_way`:
    microbatches run through the stages in both directions, so that the device of stage i also holds stage p - 1 - i.
    `pairs_passes`: forward and backward passes of two microbatches run at once, each behind the exchanges of the other.

    Facts of a schedule. `consistency`: what a checkpoint must hold to be consistent, in words.
    `simplified`: what an answer with it takes otherwise than it is, in words.
    """

    name: Schedule
    title: str
    source: str
    consistency: str = "one version of the weights: every step ends with a flush"
    flushes: ClassVar[bool] = True
    splits_backward: ClassVar[bool] = False
    is_two_way: ClassVar[bool] = False
    pairs_passes: ClassVar[bool] = False
    simplified: str | None = None

    def check(self, pipeline: PipelineShape) -> None:
        """Raise InvalidInput where degrees or microbatches do not go with the schedule."""
        if not self.runs_chunks(pipeline.num_chunks):
            raise InvalidInput.of(
                "training.schedule",
                "must be interleaved with virtual_pipeline > 1, and only then",
                value=self.name,
                remedy="change it or parallelism.virtual_pipeline",
            )

    def runs_chunks(self, num_chunks: int) -> bool:
        """Tell whether stages can have this number of chunks of the model: one, unless a schedule overrides it."""
        return num_chunks == 1

    @abstractmethod
    def order(self, pipeline: PipelineShape, stage: int) -> list[Slot]:
        """List the slots that the device of a stage runs in one step, for a known number of microbatches."""

    @abstractmethod
    def idle(self, pipeline: PipelineShape, times: PassTimes) -> float:
        """Return the idle time between first and last pass of a step, for the device that waits longest."""

    @abstractmethod
    def held_passes(self, pipeline: PipelineShape, stage: int) -> float:
        """Count the max forward passes through a chunk whose activations the device of a stage holds at once."""

    def held_of_stage(self, pipeline: PipelineShape, stage: int) -> float:
        """Count the microbatches whose activations the layers of one stage keep, even on a device with two stages."""
        return self.in_flight_microbatches(pipeline, stage)

    def chunks_on(self, pipeline: PipelineShape, stage: int) -> tuple[int, ...]:
        """List the chunks of the model that the device of a stage runs, in the model's order."""
        return tuple(range(stage, pipeline.num_stages * pipeline.num_chunks, pipeline.num_stages))

    def weight_versions(self, pipeline: PipelineShape, stage: int) -> int:
        """Count the versions of the weights that a stage keeps, including the newest."""
        return 1

    @property
    def moments(self) -> tuple[Moment, ...]:
        """State that the schedule keeps for every trained value beside the optimizer. Every checkpoint contains it."""
        return SCHEDULE_MOMENTS.get(self.name, ())

    def consistent_versions(self, pipeline: PipelineShape, stage: int, *, drained: bool) -> int:
        """Count a stage's versions of the weights in a consistent checkpoint: one after a flush or a drain.

        Without either, stages are at different microbatches and each must save all versions that it keeps.
        Source: Narayanan et al. 2019, PipeDream, section 3.3; `published/training_techniques.json`.
        """
        return 1 if self.flushes or drained else self.weight_versions(pipeline, stage)

    def drain_time(self, pipeline: PipelineShape, times: PassTimes) -> float:
        """Return the time lost when a pipeline without flush drains for a save and refills: (p - 1)(F + B).

        Source: as the bubble of a flush, Narayanan et al. 2021, arXiv 2104.04473, section 2.2.1.
        """
        return 0.0 if self.flushes else (pipeline.num_stages - 1) * times.total

    def bubble_fraction(self, pipeline: PipelineShape, times: PassTimes = EQUAL_TIMES) -> float:
        """Return the share of a step for which a stage idles: idle/(idle + m (F + I + W)).

        F, I, W times of a stage's passes, equal where none are given; 0 without a flush.
        Source: definition; `idle` has that of each schedule.
        """
        idle = self.idle(pipeline, times)
        return idle / (idle + (pipeline.num_microbatches or 0) * times.total) if idle else 0.0

    def in_flight_microbatches(self, pipeline: PipelineShape, stage: int) -> float:
        """Return the max microbatches of a whole stage whose activations its device holds.

        Source: definition; `held_passes` has that of each schedule.
        """
        return self.held_passes(pipeline, stage) / pipeline.num_chunks

    def held_bytes(self, pipeline: PipelineShape, stage: int, chunk_bytes: Sequence[float]) -> float:
        """Return the max bytes over a step that a device holds of its chunks; `chunk_bytes`: of one microbatch.

        Source: by `held_passes` for equal chunks, else by a walk over `order`.
        """
        if all(each == chunk_bytes[0] for each in chunk_bytes):
            return self.held_passes(pipeline, stage) * chunk_bytes[0]
        steady = pipeline.steady
        return max_held(self.order(steady, stage), chunk_bytes, self.chunks_on(steady, stage))

    def simulated_idle(self, pipeline: PipelineShape, times: PassTimes) -> float:
        """Return the idle time of `idle`, from a simulation of all passes.

        Source: passes.StepProgram.walk.
        """

        def slot_time(slot: Slot) -> float:
            return times.slot_time(slot) / pipeline.num_chunks

        return max(span.idle for span in _program(self, pipeline).walk(slot_time))

    def device_times(self, pipeline: PipelineShape, slot_time: SlotTime, *, transfer: float) -> DeviceTimes:
        """Simulate a step of m microbatches with the time of every slot, and of a transfer between devices.

        Of more than 3 p + m mod p microbatches those beyond are as long as the last round of p. Without a flush all
        are.
        Source: passes.StepProgram.walk.
        """
        m, p = pipeline.num_microbatches or 0, pipeline.num_stages
        first = FILLING_ROUNDS * p + m % p

        def walk(num_microbatches: int) -> DeviceTimes:
            shape = replace(pipeline, num_microbatches=num_microbatches)
            spans = _program(self, shape).walk(slot_time, transfer=transfer)
            return DeviceTimes(max(each.end - each.begin for each in spans), tuple(each.busy for each in spans))

        if self.flushes and m <= first + p:
            return walk(m)
        short, long = walk(first), walk(first + p)
        times = long.after(short, (m - first) / p - 1)
        return times if self.flushes else times._replace(seconds=m / p * (long.seconds - short.seconds))

    def _require_even_stages(self, pipeline: PipelineShape) -> None:
        """Raise InvalidInput where two directions cannot share the stages in pairs."""
        if pipeline.num_stages % 2:
            raise InvalidInput.of(
                "parallelism.pipeline",
                f"must be even with schedule {self.name}, which runs microbatches in both directions",
                value=pipeline.num_stages,
                remedy="change it or training.schedule",
            )

    def _require_whole_groups(self, pipeline: PipelineShape, group: int, *, rule: str) -> None:
        """Raise InvalidInput where the microbatches, if known, are no multiple of a group."""
        number = pipeline.num_microbatches
        if number is not None and number % group:
            raise InvalidInput.of(
                "training.global_batch_size",
                f"must give {rule} microbatches with schedule {self.name}",
                value=f"{number:,} microbatches",
                remedy="change it, micro_batch_size or a degree",
            )

    def _require_at_least(self, pipeline: PipelineShape, least: int) -> None:
        """Raise InvalidInput where there are fewer microbatches, if known, than the schedule is made of."""
        number = pipeline.num_microbatches
        if number is not None and number < least:
            raise InvalidInput.of(
                "training.global_batch_size",
                f"must give at least {least:,} microbatches with schedule {self.name}",
                value=f"{number:,} microbatches",
                remedy="change it, micro_batch_size or a degree",
            )


@functools.lru_cache(maxsize=256)
def _program(schedule: PipelineSchedule, pipeline: PipelineShape) -> StepProgram:
    """Sort the passes of a step. Kept, as a search walks through the same ones with other times."""
    return StepProgram.of([schedule.order(pipeline, stage) for stage in range(pipeline.num_stages)])
