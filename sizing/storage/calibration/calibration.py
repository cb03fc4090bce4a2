"""A Calibration: the profile that measurements say, how sure they are of it, and what they could not see."""

from __future__ import annotations

from datetime import date
from typing import Annotated, Literal, Self

import numpy as np
import numpy.typing as npt
from pydantic import Field, model_validator

from sizing.errors import broken_rule
from sizing.storage.profile import StorageProfile
from sizing.storage.rates import Direction, Resource
from sizing.storage.terms import Demand
from sizing.strict_model import MeasuredModel
from sizing.units import MAX_BYTES

INTERVAL_TAIL = 0.05
"""Left out of every interval at either end, so that it holds 90 %."""

NORMAL_QUANTILE = 1.6448536269514722
"""Quantile of the standard normal distribution at 1 - INTERVAL_TAIL."""

BEYOND = 4
"""Times the nodes at which a calibration is graded beyond what was measured: a few nodes are measured to predict some
tens."""

MAX_USEFUL_RATIO = 4.0
"""Max ratio of an interval's ends: twice as fast or half as fast as its middle. A choice: what storage is bought by
comes in steps of two."""

MAX_DRAWS = 1_000
"""What a document may hold, of each limit; it is written with 200."""
MAX_POINTS = 10_000
"""Max of points in a document: as many configurations as a scan may have."""

Verdict = Literal["measured", "lower-bound", "unknown"]
"""`measured`: it binds in three or more configurations and no other limit explains them as well. `lower-bound`: a
rate is at least so much. `unknown`: no run shows it."""

Grade = Literal["A", "B", "C", "D"]

MixedVerdict = Literal["one-limit", "own-limits", "not-told-apart"]
"""`one-limit`: what reads take, writes lose. `own-limits`: neither loses to the other. `not-told-apart`: between."""

Axis = Literal["nodes", "ranks", "bytes"]
"""On which a configuration may be the largest: nodes, ranks of all nodes, bytes of all ranks."""

_Text = Annotated[str, Field(max_length=2000)]
_Name = Annotated[str, Field(min_length=1, max_length=64)]
_Positive = Annotated[float, Field(gt=0, le=1e30, allow_inf_nan=False)]
_NotNegative = Annotated[float, Field(ge=0, le=1e30, allow_inf_nan=False)]
_Count = Annotated[int, Field(ge=0, le=1_000_000_000)]
_Interval = tuple[_Positive, _Positive]
_Span = tuple[_Positive, _Positive]


class LimitEstimate(MeasuredModel):
    """One limit: its value, its 90 % interval, and how much it is worth."""

    field: _Name = Field(description="Field of the storage profile that the limit is.")
    resource: Resource = Field(
        description="Part of the path that limits: one rank's stream, a node, the file system, or a step that nothing "
        "overlaps."
    )
    verdict: Verdict = Field(
        description="How sure the limit is. "
        "Measured: it binds in three or more configurations; lower-bound: it is at least so much; unknown: no run "
        "shows it."
    )
    value: _Positive | None = Field(
        None,
        description="Limit in the unit of the field; for a lower bound the highest rate that a run got of it. "
        "Null when unknown.",
    )
    profile_value: _Positive | None = Field(
        None,
        description="Value that the profile has, and that every prediction computes with, in the unit of the field. "
        "Null when the profile leaves the limit out, and in documents that do not state it.",
    )
    interval: _Interval | None = Field(
        None, description="90 % interval of the value, from low to high. Null when there is none."
    )
    num_binding: _Count = Field(description="Configurations in which it takes longer than every other shared resource.")
    reason: _Text = Field(description="Why this verdict, for a reader.")


class Covered(MeasuredModel):
    """What was measured, from min to max; beyond it a prediction is an extrapolation."""

    num_nodes: _Span = Field(description="Min and max of nodes that were measured.")
    streams_per_node: _Span = Field(description="Min and max of ranks per node that were measured.")
    bytes_per_stream: _Span = Field(description="Min and max of bytes per rank that were measured.")
    files_per_stream: _Span = Field(description="Min and max of files per rank that were measured.")

    @classmethod
    def of(cls, demand: Demand) -> Self:
        """The range of what configurations asked of the storage."""
        streams, nodes = np.asarray(demand.num_streams), np.asarray(demand.num_nodes)
        return cls(
            num_nodes=_span(nodes),
            streams_per_node=_span(streams / nodes),
            bytes_per_stream=_span(np.asarray(demand.total_bytes) / streams),
            files_per_stream=_span(np.asarray(demand.num_files) / streams),
        )


class Frontier(MeasuredModel):
    """Predictions for the largest configurations by a fit to all smaller ones."""

    axis: Axis = Field(description="What is largest in the configurations left out: nodes, ranks in all, or bytes.")
    num_configurations: _Count = Field(description="Configurations that were left out and predicted.")
    worst_error_fraction: _NotNegative = Field(
        description="Max error of these predictions, as a fraction of the time by the fit to all runs, which "
        "has not the noise of one measurement; of the measured time where that fit is wrong."
    )
    worst_measured_error_fraction: _NotNegative = Field(
        description="Max error of these predictions with the noise, as a fraction of the measured time."
    )
    only_here: tuple[_Name, ...] = Field(
        (),
        max_length=32,
        description="Fields of limits that no smaller configuration shows; the prediction does without them.",
    )


class WrongHere(MeasuredModel):
    """A configuration that the model does not explain, and that is no outlier."""

    num_nodes: _Count = Field(description="Nodes that moved data at once.")
    num_streams: _Count = Field(description="Ranks that moved data at once.")
    total_bytes: Annotated[int, Field(ge=1, le=MAX_BYTES)] = Field(description="Bytes that all ranks moved together.")
    miss_fraction: Annotated[float, Field(gt=-1, le=1e30, allow_inf_nan=False)] = Field(
        description="Measured over predicted time, minus 1, as a fraction; above 0 the storage is slower than "
        "predicted."
    )
    reason: _Text = Field(description="Why it is no outlier, for a reader.")


class FittedPoint(MeasuredModel):
    """One measurement with its prediction by the fit, and by a fit without its configuration."""

    run_id: _Name = Field(description="Id of the benchmark run that measured it.")
    num_nodes: _Count = Field(description="Nodes that moved data at once.")
    num_streams: _Count = Field(description="Ranks that moved data at once.")
    total_bytes: Annotated[int, Field(ge=1, le=MAX_BYTES)] = Field(description="Bytes that all ranks moved together.")
    num_files: _Count = Field(description="Files that all ranks moved together.")
    seconds: _Positive = Field(
        description="Median seconds of its repetitions, as measured; where writes fell to a rate that went on, the "
        "seconds at that rate."
    )
    predicted_seconds: _Positive = Field(description="Seconds that the fit predicts.")
    held_out_seconds: _Positive = Field(description="Seconds predicted by a fit that has not seen this configuration.")

    @property
    def bytes_per_second(self) -> float:
        """Measured rate of the point."""
        return self.total_bytes / self.seconds


class DirectionFit(MeasuredModel):
    """The fit to all writes, or to all reads."""

    limits: tuple[LimitEstimate, ...] = Field(
        max_length=32, description="Every limit that was looked for, with its verdict."
    )
    covered: Covered = Field(description="Range of what was measured; beyond it a prediction is an extrapolation.")
    num_configurations: _Count = Field(description="Distinct combinations of nodes, ranks and sizes that were fitted.")
    noise_fraction: _NotNegative = Field(
        description="Standard deviation of measured around predicted times, as a fraction of the time."
    )
    held_out_error_fraction: _NotNegative = Field(
        description="Median error for configurations that the fit has not seen, as a fraction of the measured time."
    )
    run_error_fraction: _NotNegative = Field(
        0.0,
        description="How far a run on another day may be off, at 95 % to either side, as a fraction of the time. It is "
        "Student's t times the standard deviation between runs; 0 with fewer than three runs, and where they do not "
        "differ beyond chance. It is at least the logarithm of the factor by which like runs differ, where that is "
        "more than two.",
    )
    worst_held_out_error_fraction: _NotNegative = Field(
        description="Max of these errors, as a fraction of the measured time."
    )
    frontiers: tuple[Frontier, ...] = Field(
        (), max_length=3, description="Errors for the largest configurations, predicted by fits to all smaller ones."
    )
    wrong_here: tuple[WrongHere, ...] = Field(
        (), max_length=MAX_POINTS, description="Configurations in which the model is wrong, the worst miss first."
    )
    chosen: dict[_Name, _Positive] = Field(
        default_factory=dict,
        max_length=8,
        description="Figures that were chosen rather than fitted, by field of the profile: a knee, the size of a "
        "cache.",
    )
    not_excluded: tuple[dict[_Name, _Positive], ...] = Field(
        (),
        max_length=8,
        description="Limits with the max contention that the data allow where they show none, by field of the profile.",
    )
    draws: dict[_Name, Annotated[tuple[_Positive, ...], Field(max_length=MAX_DRAWS)]] = Field(
        max_length=32,
        description="Bootstrap draws of each fitted limit, by field of the profile; intervals of predictions come "
        "from them.",
    )
    rivals: tuple[dict[_Name, _Positive], ...] = Field(
        max_length=32, description="Other sets of limits that explain the data as well, by field of the profile."
    )
    stragglers: tuple[_Text, ...] = Field(
        (),
        max_length=100,
        description="Nodes for which the others waited, and where single ranks of any node were late. Empty where "
        "there were none, and in documents that do not state them.",
    )
    points: tuple[FittedPoint, ...] = Field(
        max_length=MAX_POINTS, description="Every measurement that was fitted, with its prediction."
    )

    @property
    def frontier_error_fraction(self) -> float:
        """The worst error at a frontier; 0 where none could be left out."""
        return max((frontier.worst_error_fraction for frontier in self.frontiers), default=0.0)

    @property
    def degrees_of_freedom(self) -> int:
        """Degrees of freedom of the noise, at least 1."""
        fitted = sum(not name.endswith("_stripe_count") for name in self.chosen)
        return max(len(self.points) - len(self.draws) - fitted, 1)

    def holds(self, resource: Resource) -> bool:
        """Whether the limit of a resource was fitted, and so is part of every prediction."""
        return any(limit.resource == resource and limit.field in self.draws for limit in self.limits)


class UseGrade(MeasuredModel):
    """What a calibration is worth for one use: predictions inside what was measured, or beyond it."""

    grade: Grade = Field(description="What predictions of this use are worth, from A to D.")
    reasons: tuple[_Text, ...] = Field((), max_length=100, description="What keeps the grade below A. Empty for A.")


class MixedLoad(MeasuredModel):
    """Saves with batches read beside them, held against each alone."""

    verdict: MixedVerdict = Field(
        description="Whether reads and writes share one limit: one-limit, own-limits or not-told-apart."
    )
    used_fraction: float = Field(
        ge=0,
        description="Sum of the fraction of its rate that each of both kept beside the other, mean over the "
        "repetitions. 1 with one limit for both, 2 with one for each.",
    )
    interval: tuple[float, float] = Field(description="90 % interval of used_fraction.")
    num_repetitions: _Count = Field(description="Saves beside which batches were read.")


class Calibration(MeasuredModel):
    """What benchmark runs say of a storage system: a profile, and the evidence for it.

    Limits that were never reached are not in the profile, but widen predictions of layouts that could reach them.
    """

    schema_version: Literal[1, 2] = Field(2, description="Version of this form of document.")
    profile: StorageProfile = Field(
        description="Limits that the measurements need for their explanation; limits never reached are left out."
    )
    engine: _Name = Field(description="Engine that wrote the checkpoints, such as direct or torch-save.")
    run_ids: tuple[_Name, ...] = Field(
        min_length=1, max_length=1_000, description="Ids of the benchmark runs that were fitted."
    )
    measured_on: date | None = Field(None, description="Date of the latest run. Null when no run states one.")
    grade: Grade = Field(
        description="What the calibration is worth for every use, from A to D: the worse of inside and beyond."
    )
    grade_reasons: tuple[_Text, ...] = Field(
        (), max_length=100, description="What keeps the grade below A. Empty for A, and in documents of version 1."
    )
    inside: UseGrade | None = Field(
        None,
        description="Grade of predictions inside what was measured, by held-out errors, limits seen, configurations "
        "and stragglers. Null in documents that have one grade alone.",
    )
    beyond: UseGrade | None = Field(
        None,
        description="Grade of predictions beyond what was measured, at four times the nodes: as inside, and by errors "
        "at the frontier and the width of the interval. Null in documents that have one grade alone.",
    )
    write: DirectionFit | None = Field(None, description="Fit to all writes. Null when there were too few.")
    read: DirectionFit | None = Field(None, description="Fit to all restores. Null when there were too few.")
    mixed_load: MixedLoad | None = Field(
        None,
        description="Whether reads and writes share one limit. Null with fewer than three saves beside which batches "
        "were read.",
    )
    warnings: tuple[_Text, ...] = Field(
        (),
        max_length=1_000,
        description="What a reader must know before believing it: runs left out, outliers, warnings of the runs.",
    )

    @model_validator(mode="after")
    def _has_a_fit(self) -> Self:
        if self.write is None and self.read is None:
            raise broken_rule("must have write or read", "take the document as ckpt-bench calibrate wrote it")
        return self

    @property
    def grade_text(self) -> str:
        """The grade of each use in words.

        >>> Calibration.model_construct(grade="C", inside=UseGrade(grade="A"), beyond=UseGrade(grade="C")).grade_text
        'A inside what was measured, C at 4 times the nodes'
        """
        if self.inside is None or self.beyond is None:
            return self.grade
        return f"{self.inside.grade} inside what was measured, {self.beyond.grade} at {BEYOND} times the nodes"

    @property
    def reason_sentences(self) -> tuple[str, ...]:
        """What keeps the grades below A, each a sentence that says for which use."""
        inside = self.grade_reasons if self.inside is None else self.inside.reasons
        return tuple(
            f"Not better{'' if reason in inside else ' beyond what was measured'} because: {reason}."
            for reason in self.grade_reasons
        )

    def fit(self, direction: Direction) -> DirectionFit | None:
        """The fit to writes or to reads."""
        return self.write if direction == "write" else self.read


def _span(values: npt.NDArray[np.float64]) -> tuple[float, float]:
    return float(values.min()), float(values.max())
