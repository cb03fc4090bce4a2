"""What a pipeline schedule answers.

A schedule is one object in one module of this folder: its facts are fields, its rules are methods. `registry.py` lists
the objects; no other module knows their names. Each says by a formula how long a stage idles and what it holds, and by
`order` what each device does one pass after the other: the simulator runs that, and tests compare both.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace

from sizing.state.optimizers import Moment
from sizing.state.saved_state import SCHEDULE_MOMENTS
from sizing.state.training import Schedule
from sizing.training.schedules.passes import PassTimes, Slot, max_held
from sizing.training.schedules.simulation import simulated

STEADY_ROUNDS = 4
"""Times the stages, in microbatches, after which no schedule here holds or idles more: the deepest fills with 2 p."""


@dataclass(frozen=True, slots=True)
class Pipeline:
    """p stages, m microbatches of a step (None: as many as it takes), v chunks of the model on each stage."""

    num_stages: int
    num_microbatches: int | None = None
    num_chunks: int = 1

    @property
    def limit(self) -> float:
        """No stage holds more microbatches than there are."""
        return float("inf") if self.num_microbatches is None else float(self.num_microbatches)

    @property
    def steady(self) -> Pipeline:
        """The same with a number of microbatches: its own, or enough to fill it where none is given."""
        if self.num_microbatches is not None:
            return self
        return replace(self, num_microbatches=STEADY_ROUNDS * self.num_stages)

    @property
    def filled(self) -> Pipeline:
        """The same with no more microbatches than fill it: beyond them it idles no more."""
        return replace(self, num_microbatches=int(min(self.limit, STEADY_ROUNDS * self.num_stages)))


@dataclass(frozen=True, kw_only=True, eq=False)
class PipelineSchedule(ABC):
    """In which order a device runs the passes of microbatches, and what follows from that.

    `flushes`: the pipeline runs empty at each optimizer step, so that one version of the weights is all there is.
    `splits_backward`: gradients of inputs and of weights are passes of their own.
    `is_two_way`: microbatches run through the stages in both directions, so that the device of stage i also holds
    stage p - 1 - i.
    `published_times`: the times of passes for which its paper states the bubble.
    `consistency`: what a checkpoint must hold to be consistent, in words.
    `simplified`: what an answer with it takes otherwise than it is, in words.
    """

    name: Schedule
    title: str
    flushes: bool
    splits_backward: bool
    is_two_way: bool
    published_times: PassTimes
    consistency: str
    source: str
    simplified: str | None = None

    @abstractmethod
    def check(self, pipeline: Pipeline) -> None:
        """Raises InvalidInput where degrees or microbatches do not go with the schedule."""

    def runs_chunks(self, num_chunks: int) -> bool:
        """Whether stages can have so many chunks of the model: one, unless a schedule says otherwise."""
        return num_chunks == 1

    @abstractmethod
    def order(self, pipeline: Pipeline, stage: int) -> list[Slot]:
        """What the device of a stage runs in one step, slot after slot; of a number of microbatches."""

    @abstractmethod
    def idle(self, pipeline: Pipeline, times: PassTimes) -> float:
        """Time for which the device that waits longest idles between its first and its last pass of a step."""

    @abstractmethod
    def held_passes(self, pipeline: Pipeline, stage: int) -> float:
        """Max of forward passes through one chunk whose activations the device of a stage holds at once."""

    def held_of_stage(self, pipeline: Pipeline, stage: int) -> float:
        """Microbatches whose activations stay with the layers of one stage, also where its device has another stage."""
        return self.in_flight_microbatches(pipeline, stage)

    def chunks_on(self, pipeline: Pipeline, stage: int) -> tuple[int, ...]:
        """The chunks of the model that the device of a stage runs, in the model's order."""
        return tuple(range(stage, pipeline.num_stages * pipeline.num_chunks, pipeline.num_stages))

    def weight_versions(self, pipeline: Pipeline, stage: int) -> int:
        """Versions of the weights that a stage keeps, the newest among them."""
        return 1

    @property
    def moments(self) -> tuple[Moment, ...]:
        """What it keeps of every trained value beside the optimizer: state that every checkpoint holds."""
        return SCHEDULE_MOMENTS.get(self.name, ())

    def consistent_versions(self, pipeline: Pipeline, stage: int, *, drained: bool) -> int:
        """Versions of the weights that a consistent checkpoint holds of a stage: one after a flush or a drain.

        Without either, stages are at different microbatches and each must save all versions that it keeps.
        Source: Narayanan et al. 2019, PipeDream, section 3.3; `published/training_techniques.json`.
        """
        return 1 if self.flushes or drained else self.weight_versions(pipeline, stage)

    def drain_time(self, pipeline: Pipeline, times: PassTimes) -> float:
        """Time that a pipeline without flush loses when it runs empty for a save and fills again: (p - 1)(F + B).

        Source: as the bubble of a flush, Narayanan et al. 2021, arXiv 2104.04473, section 2.2.1.
        """
        return 0.0 if self.flushes else (pipeline.num_stages - 1) * times.total

    def bubble_fraction(self, pipeline: Pipeline, times: PassTimes | None = None) -> float:
        """Share of a step for which a stage idles: idle/(idle + m (F + I + W)).

        F, I, W times of a stage's passes, those of the paper where none are given; 0 without a flush.
        Source: definition; `idle` has that of each schedule.
        """
        times = times or self.published_times
        idle = self.idle(pipeline, times)
        return idle / (idle + (pipeline.num_microbatches or 0) * times.total) if idle else 0.0

    def in_flight_microbatches(self, pipeline: Pipeline, stage: int) -> float:
        """Microbatches of a whole stage whose activations its device holds at its max.

        Source: definition; `held_passes` has that of each schedule.
        """
        return self.held_passes(pipeline, stage) / pipeline.num_chunks

    def held_bytes(self, pipeline: Pipeline, stage: int, chunk_bytes: Sequence[float]) -> float:
        """Max over a step of what a device holds of its chunks, each of which keeps so many bytes of a microbatch.

        Source: by `held_passes` for equal chunks, else by a walk over `order`.
        """
        if all(each == chunk_bytes[0] for each in chunk_bytes):
            return self.held_passes(pipeline, stage) * chunk_bytes[0]
        steady = pipeline.steady
        return max_held(self.order(steady, stage), chunk_bytes, self.chunks_on(steady, stage))

    def simulated_idle(self, pipeline: Pipeline, times: PassTimes) -> float:
        """What `idle` says, from a simulation of all passes.

        Source: simulation.simulated.
        """
        orders = [self.order(pipeline, stage) for stage in range(pipeline.num_stages)]
        return max(span.idle for span in simulated(orders, times, num_chunks=pipeline.num_chunks))
