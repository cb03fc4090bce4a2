"""The `reliability` block of a Scenario: how often the job is interrupted, and what each interruption takes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from sizing.catalog_file import catalog_name
from sizing.errors import broken_rule, require_one_of
from sizing.frameworks.framework import COLLECTIVE_TIMEOUT_SECONDS, HUNG_FRACTION, mean_detection_seconds
from sizing.ranges import plausible_range
from sizing.run.failure_rates import published_rates, rate_named, rate_warnings
from sizing.storage.transfer import Numbers
from sizing.strict_model import InputModel
from sizing.units import SECONDS_PER_DAY, SECONDS_PER_HOUR, PositiveSeconds, Seconds, percent_text, seconds_text

StrategyName = Literal["restart", "spares", "peers", "shrink"]
"""Each names a strategy of `recovery_strategies`."""

DEFAULT_STRATEGY: StrategyName = "restart"
"""What frameworks do by themselves."""

TAKE_SPARES: frozenset[StrategyName] = frozenset({"spares", "peers"})
"""Strategies in which a node of the reserve may take the place of a failed one."""

MAX_SPARES = 10_000
"""Far more than any job keeps: larger numbers are slips."""


class Spares(InputModel):
    """Nodes that stand idle beside the job to take the place of failed ones."""

    num: Annotated[int, Field(ge=1, le=MAX_SPARES)] = Field(description="Nodes that stand ready beside the job.")
    swap_seconds: Seconds | None = Field(
        None,
        description="Seconds from detection until the processes read the state, a spare in the failed node's place. "
        "A failure that takes no node, or a preemption, takes relaunch_seconds. Default: relaunch_seconds.",
    )


class Shrink(InputModel):
    """How groups that hold the whole state go on without one of them."""

    min_groups: Annotated[int, Field(ge=1, le=1_000_000)] = Field(
        1, description="Groups below which training stops until one is back."
    )
    regroup_seconds: Seconds = Field(
        description="Seconds from detection until the other groups train on: a quorum, and their links made anew."
    )
    keeps_batch: bool = Field(
        True,
        description="Whether the global batch stays: the groups that are left take the microbatches of the lost one. "
        "Otherwise it shrinks with the groups; tokens per second are the same.",
    )


class Preemption(InputModel):
    """How often the job loses all its nodes to others, as spot capacity does, and when it gets them back."""

    per_hour: Annotated[float, Field(ge=1e-9, le=1e3, allow_inf_nan=False)] = Field(
        description="Mean preemptions of the job per hour that it has its nodes, beside failures."
    )
    notice_seconds: Seconds = Field(
        0.0,
        json_schema_extra={"source": "no notice"},
        description="Seconds from the notice until the nodes are gone. A save that ends within them loses no work.",
    )
    capacity_wait_seconds: Seconds = Field(
        description="Mean seconds until there are nodes again; processes start after that."
    )

    @property
    def per_second(self) -> float:
        """Mean preemptions per second that the job has its nodes."""
        return self.per_hour / SECONDS_PER_HOUR


class DataSkip(InputModel):
    """How long the data loader takes to skip what was trained on already, where it cannot seek."""

    seconds: PositiveSeconds | None = Field(
        None, description="Seconds that skipping takes on a resume. Default: from num_batches and batches_per_second."
    )
    num_batches: Annotated[float, Field(gt=0, le=1e12, allow_inf_nan=False)] | None = Field(
        None, description="Batches that are skipped, as a mean over resumes. Required with batches_per_second."
    )
    batches_per_second: Annotated[float, Field(gt=0, le=1e9, allow_inf_nan=False)] | None = Field(
        None, description="Batches per second that the loader passes over. Required with num_batches."
    )

    @model_validator(mode="after")
    def _says_one_way(self) -> Self:
        both = (self.num_batches is not None, self.batches_per_second is not None)
        if both != ((self.seconds is None),) * 2:
            raise broken_rule(
                "must have seconds alone, or num_batches and batches_per_second", "give one of the two ways"
            )
        return self

    @property
    def skipping_seconds(self) -> float:
        """Seconds that skipping takes on a resume.

        >>> DataSkip(num_batches=5000, batches_per_second=100).skipping_seconds
        50.0
        """
        if self.num_batches is None or self.batches_per_second is None:
            return 0.0 if self.seconds is None else self.seconds  # may be an array, which has no truth
        return self.num_batches / self.batches_per_second


LossDomain = Literal["process", "node", "rack", "job", "site"]
LOSS_DOMAINS: tuple[LossDomain, ...] = ("process", "node", "rack", "job", "site")
"""What is lost together, the smallest first; `job` is all nodes of the job."""

DrainDomain = Literal["process", "node", "rack", "job"]
"""What a component may take down, and a drain outlive."""

_Rate = Annotated[float, Field(ge=1e-12, le=1e6, allow_inf_nan=False)]
_RATES = ("failures_per_hour", "mtbf_seconds")
_DETECTION = plausible_range("reliability.detection_seconds")
_RELAUNCH = plausible_range("reliability.relaunch_seconds")
_WAYS = ("failures_per_node_day", "failures_per_gpu_hour", "mtbf_seconds", "components", "preset")
_EXACTLY_ONE = f"Give exactly one of {', '.join(_WAYS)}."


class Component(InputModel):
    """Parts of one kind, any of which stops the job: GPUs, nodes, switches."""

    name: Annotated[str, Field(min_length=1, max_length=100)] = Field(
        description="What fails, such as GPU or rack switch; a label for the reader."
    )
    count: Annotated[int, Field(ge=1, le=100_000_000)] = Field(
        1, description="How many there are per job, node or GPU."
    )
    per: Literal["job", "node", "gpu"] = Field(
        "job", description="What the count is multiplied with: nothing (job), the job's nodes, or its GPUs."
    )
    failures_per_hour: _Rate | None = Field(
        None, description="Mean failures per hour of one of them. Default: from mtbf_seconds."
    )
    mtbf_seconds: PositiveSeconds | None = Field(
        None, description="Mean seconds between failures of one of them. Default: from failures_per_hour."
    )
    loss_domain: DrainDomain = Field(
        "node", description="What goes down with one failure, and with it the copies that tiers hold there."
    )

    @model_validator(mode="after")
    def _exactly_one_rate(self) -> Self:
        require_one_of(self, _RATES)
        return self

    def failures_per_second(self, *, num_nodes: int, num_gpus: int) -> Numbers:
        """Failures per second of all these parts of a job together."""
        number = self.count * {"job": 1, "node": num_nodes, "gpu": num_gpus}[self.per]
        if self.mtbf_seconds is not None:
            return number / self.mtbf_seconds
        per_hour = 0.0 if self.failures_per_hour is None else self.failures_per_hour  # may be an array, without a truth
        return number * per_hour / SECONDS_PER_HOUR


class Reliability(InputModel):
    """How often the job fails, by one of five ways to say it, and what an interruption takes beside the lost work."""

    failures_per_node_day: _Rate | None = Field(
        None,
        description=f"Mean failures per node and day that stop the job. {_EXACTLY_ONE}",
    )
    failures_per_gpu_hour: _Rate | None = Field(
        None,
        description=f"Mean failures per GPU and hour that stop the job. {_EXACTLY_ONE}",
    )
    mtbf_seconds: PositiveSeconds | None = Field(
        None,
        description=f"Mean seconds between failures of the whole job. {_EXACTLY_ONE}",
    )
    components: Annotated[tuple[Component, ...], Field(min_length=1, max_length=100)] | None = Field(
        None,
        description=f"Parts that fail and stop the job, each with its own rate; the rates add up. {_EXACTLY_ONE}",
    )
    preset: Annotated[str, Field(max_length=100), catalog_name(published_rates)] | None = Field(
        None,
        description=f"Name of a published failure rate; `ckpt-size failure-rates` lists them. {_EXACTLY_ONE}",
    )
    detection_seconds: Seconds = Field(
        mean_detection_seconds(COLLECTIVE_TIMEOUT_SECONDS),
        json_schema_extra={
            "source": f"{percent_text(HUNG_FRACTION)} of failures hang until a collective times out after "
            f"{seconds_text(COLLECTIVE_TIMEOUT_SECONDS)}, the others end a process, which is noticed at once: "
            f"{_DETECTION.source}"
        },
        description="Seconds from a failure until it is noticed, the mean of failures. "
        f"Default: {percent_text(HUNG_FRACTION)} of the framework's timeout of a collective, as so many hang: "
        f"{mean_detection_seconds(COLLECTIVE_TIMEOUT_SECONDS):g} with 10 min, {mean_detection_seconds(1800):g} with "
        f"transformers' 30 min, {mean_detection_seconds(100):g} with torchtitan's 100 s.",
    )
    relaunch_seconds: Seconds = Field(
        _RELAUNCH.midpoint,
        json_schema_extra={"source": _RELAUNCH.reason, "unless": "restart_seconds"},
        description="Seconds from detection until the processes start to read the checkpoint. "
        f"Default: {_RELAUNCH.midpoint:g}, midpoint of {_RELAUNCH.low:g} to {_RELAUNCH.high:g}, "
        "unless restart_seconds is given.",
    )
    restart_seconds: Seconds | None = Field(
        None,
        description="Measured seconds from detection until training goes on, reading included. "
        "A restore that takes longer counts instead; 0 leaves relaunch and restore out. "
        "Default: computed from relaunch_seconds and the restore.",
    )
    strategy: StrategyName | None = Field(
        None,
        description="What follows a failure: restart all from storage, swap in spares, restore the state from peers' "
        "memory, or shrink by a replica group. Default: restart, as frameworks do by themselves.",
    )
    repair_seconds: PositiveSeconds | None = Field(
        None,
        description="Mean seconds until a failed node is back, or another in its place. Required with spares and "
        "shrink. Default: there is another at once.",
    )
    step_seconds: PositiveSeconds | None = Field(
        None,
        description="Seconds of one training step, all that a failure undoes with peers and shrink. "
        "Required with these.",
    )
    spares: Spares | None = Field(None, description="Nodes in reserve. Required with strategy spares.")
    shrink: Shrink | None = Field(None, description="How groups go on without one. Required with strategy shrink.")
    preemption: Preemption | None = Field(
        None, description="How often others take the job's nodes, as on spot capacity. Default: never."
    )
    data_skip: DataSkip | None = Field(
        None,
        description="Time to skip data on resume, after the restore; a measured restart_seconds holds it already. "
        "Default: the loader seeks, which takes no time.",
    )

    @model_validator(mode="after")
    def _strategy_has_what_it_takes(self) -> Self:
        needed = {
            "spares": ("spares.num", "repair_seconds"),
            "shrink": ("shrink.regroup_seconds", "repair_seconds", "step_seconds"),
            "peers": ("step_seconds",),
        }
        paths = needed.get(self.recovery_strategy, ())
        missing = [path for path in paths if getattr(self, path.partition(".")[0]) is None]
        if missing:
            lacking = ", ".join(path.partition(".")[0] for path in missing)
            to_give = ", ".join(f"reliability.{path}" for path in missing)
            raise broken_rule(f"has strategy {self.recovery_strategy} without {lacking}", f"give {to_give}")
        if self.strategy is None and (self.spares or self.shrink):
            raise broken_rule(
                "has spares or shrink and no strategy, which is restart then",
                "give reliability.strategy, or remove them",
            )
        return self

    @model_validator(mode="after")
    def _restart_is_not_told_twice(self) -> Self:
        if self.restart_seconds is None:
            return self
        if self.data_skip is not None:
            raise broken_rule(
                "has data_skip and restart_seconds, which holds it", "remove one, or give relaunch_seconds instead"
            )
        if self.reserve is not None and self.reserve.swap_seconds is not None:
            raise broken_rule("has spares.swap_seconds and restart_seconds, which holds the swap", "remove one of them")
        return self

    @model_validator(mode="after")
    def _exactly_one_rate(self) -> Self:
        require_one_of(self, _WAYS)
        # The default stands in the JSON of a scenario with a restart, which must be read back.
        if self.restart_seconds is not None and self.relaunch_seconds not in (0.0, _RELAUNCH.midpoint):
            require_one_of(self, ("restart_seconds", "relaunch_seconds"))
        return self

    @property
    def min_state_copies(self) -> int:
        """Min copies of the state in different nodes with which the strategy works; 1 where storage has it alone."""
        if self.recovery_strategy not in ("peers", "shrink"):
            return 1
        return max(2, self.shrink.min_groups if self.shrink else 1)

    def job_mtbf_seconds(self, *, num_nodes: int, num_gpus: int) -> Numbers:
        """Mean time between failures of a job of that size."""
        if self.mtbf_seconds is not None:
            return self.mtbf_seconds
        if self.failures_per_node_day is not None:
            return mtbf_seconds(self.failures_per_node_day / SECONDS_PER_DAY, num_components=num_nodes)
        if self.failures_per_gpu_hour is not None:
            return mtbf_seconds(self.failures_per_gpu_hour / SECONDS_PER_HOUR, num_components=num_gpus)
        if self.preset is not None:
            return rate_named(self.preset).job_mtbf_seconds(num_gpus=num_gpus)
        components = self.components or ()
        rates = (part.failures_per_second(num_nodes=num_nodes, num_gpus=num_gpus) for part in components)
        return series_mtbf_seconds(*rates)

    def recovery_seconds(self, reading_seconds: Numbers, *, node_lost_fraction: Numbers = 1.0) -> Numbers:
        """Mean time R from a failure until training goes on, of which `reading_seconds` are the restore.

        So many of the failures take a node, for which a spare may be swapped in. A measured restart is no shorter than
        the restore that it includes. One of 0 leaves both out.

        >>> measured = Reliability(mtbf_seconds=3600, detection_seconds=60, restart_seconds=300)
        >>> float(measured.recovery_seconds(80.0)), float(measured.recovery_seconds(900.0))
        (360.0, 960.0)
        """
        if self.restart_seconds is None:
            return seconds_before_reading(self, node_lost_fraction=node_lost_fraction) + reading_seconds
        restart = np.where(np.greater(self.restart_seconds, 0), np.maximum(self.restart_seconds, reading_seconds), 0.0)
        return self.detection_seconds + restart

    @property
    def leaves_out_restart(self) -> bool:
        """Whether relaunch and restore count for nothing, as arithmetic of lost work alone has it."""
        return self.restart_seconds is not None and not np.any(self.restart_seconds)

    @property
    def recovery_strategy(self) -> StrategyName:
        """The strategy, given or by default."""
        return self.strategy or DEFAULT_STRATEGY

    @property
    def reserve(self) -> Spares | None:
        """The spares that the strategy takes; those of another one stand by for a comparison or a decision."""
        return self.spares if self.recovery_strategy in TAKE_SPARES else None

    @property
    def skipping_seconds(self) -> float:
        """Seconds of each resume in which the loader skips data that was trained on already, after the restore."""
        return 0.0 if self.data_skip is None else self.data_skip.skipping_seconds

    def start_seconds(self, *, node_lost_fraction: Numbers = 1.0) -> Numbers:
        """Mean time from detection until the processes read; 0 in a measured restart.

        It is a spare's swap where a failure takes a node, so many of all, and a relaunch where it does not.

        >>> spares = {"strategy": "spares", "spares": {"num": 1, "swap_seconds": 60}, "repair_seconds": 3600}
        >>> swapping = Reliability(mtbf_seconds=3600, relaunch_seconds=300, **spares)
        >>> swapping.start_seconds(node_lost_fraction=0.25)
        240.0
        """
        if self.restart_seconds is not None:
            return 0.0
        swap = self.reserve.swap_seconds if self.reserve else None
        if swap is None:
            return self.relaunch_seconds
        return node_lost_fraction * swap + (1.0 - node_lost_fraction) * self.relaunch_seconds

    def node_lost_fraction(self, *, num_nodes: int, num_gpus: int) -> Numbers:
        """Share of the failures that take a node: all, but for components that lose a process."""
        processes = self.smaller_than_fraction("node", num_nodes=num_nodes, num_gpus=num_gpus)
        return 1.0 if processes is None else 1.0 - processes

    def smaller_than_fraction(self, domain: LossDomain, *, num_nodes: int, num_gpus: int) -> Numbers | None:
        """Share of the failures that lose less than `domain`; None where components do not say what they lose."""
        if self.components is None:
            return None
        smaller = LOSS_DOMAINS[: LOSS_DOMAINS.index(domain)]
        rates = [
            (part.loss_domain, part.failures_per_second(num_nodes=num_nodes, num_gpus=num_gpus))
            for part in self.components
        ]
        return sum(rate for lost, rate in rates if lost in smaller) / sum(rate for _, rate in rates)


def failure_warnings(
    reliability: Reliability | None, *, num_gpus: int, max_recovery_seconds: float | None
) -> Iterator[str]:
    """What a reader must know of the failure rate, and of a recovery of which only the restore is known."""
    if reliability is None and max_recovery_seconds is not None:
        yield (
            "No reliability given: recovery counts the restore alone. Detection takes "
            f"{_DETECTION.low:g} to {_DETECTION.high:g} s and relaunch {_RELAUNCH.low:g} to {_RELAUNCH.high:g} s"
        )
    if reliability is not None and reliability.preset is not None:
        yield from rate_warnings(reliability.preset, num_gpus=num_gpus)


def seconds_before_reading(reliability: Reliability | None, *, node_lost_fraction: Numbers = 1.0) -> Numbers:
    """What a recovery takes beside the reading: detection, relaunch, and skipping data; 0 where not known.

    Where a failure takes a node, so many of all, a spare's swap stands for the relaunch. A measured restart holds the
    last two, which then count nothing by themselves.
    Source: definition.

    >>> seconds_before_reading(Reliability(mtbf_seconds=3600, detection_seconds=60, relaunch_seconds=120))
    180.0
    """
    if reliability is None:
        return 0.0
    start = reliability.start_seconds(node_lost_fraction=node_lost_fraction)
    return reliability.detection_seconds + start + reliability.skipping_seconds


def mtbf_seconds(failures_per_component_second: Numbers, *, num_components: Numbers) -> Numbers:
    """Mean time between failures of n components any of which stops the job: M = 1 / (n r).

    Args: r failures per component and second; n components in series. Returns seconds.
    Source: Kokolis et al. 2024, arXiv 2410.21680, section 4; assumes independent exponential failures.

    >>> round(mtbf_seconds(0.0065 / 86400, num_components=384), 2)
    34615.38
    """
    return 1.0 / (num_components * failures_per_component_second)


def series_mtbf_seconds(*failures_per_second: Numbers) -> Numbers:
    """Mean time between failures of unlike components in series: M = 1 / sum of their rates.

    Source: superposition of independent Poisson processes; reliability of a series system.

    >>> round(series_mtbf_seconds(3072 / 50_000 / 3600, 384 / 100_000 / 3600, 24 / 200_000 / 3600))
    55046
    """
    return 1.0 / sum(failures_per_second, start=0.0)
