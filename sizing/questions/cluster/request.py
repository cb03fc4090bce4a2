"""Request about a cluster: groups of equal jobs, and the storage that they share."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import ConfigDict, Field, model_validator

from sizing.errors import broken_rule
from sizing.scenario import Scenario
from sizing.storage.storage import Storage
from sizing.strict_model import InputModel
from sizing.units import SECONDS_PER_DAY, Fraction, OrText, PositiveSeconds

MAX_GROUPS = 64
"""Groups are answered one by one, and a table of more is not read. A choice."""
MAX_JOBS = 20_000
"""More than run on the largest clusters at once; each is a process of the simulation."""

Start = Literal["random", "together", "staggered"]
Sharing = Literal["per-node", "per-job"]

REFERENCE_CLUSTER: dict[str, Any] = {
    "storage": {"profile": {"write_bytes_per_second": "273 GB/s", "read_bytes_per_second": "1 TB/s"}},
    "jobs": [
        {
            "name": "1T",
            "scenario": {
                "model": {"preset": "megatron-1t"},
                "parallelism": {"tensor": 8, "pipeline": 64, "data": 6},
                "checkpoint": {"format": "megatron", "interval_seconds": "30min"},
                "cluster": {"node": "dgx-a100"},
                "reliability": {"failures_per_node_day": 0.0065, "detection_seconds": 0, "restart_seconds": "10min"},
            },
        },
        {
            "name": "8B",
            "count": 40,
            "scenario": {
                "model": {"preset": "llama-3.1-8b"},
                "training": {"distributed_optimizer": True},
                "parallelism": {"data": 64},
                "checkpoint": {"format": "megatron-distributed-optimizer", "interval_seconds": "30min"},
                "cluster": {"node": "dgx-a100"},
                "reliability": {"failures_per_node_day": 0.0065, "detection_seconds": 0, "restart_seconds": "5min"},
            },
        },
    ],
    "nodes_per_rack": 4,
    "horizon_seconds": "10d",
}
"""The published run of 1T and forty jobs of 8B."""


class JobGroup(InputModel):
    """Equal jobs. The scenario's own storage gives way to the cluster's, so it must not have one."""

    name: Annotated[str, Field(min_length=1, max_length=60)] = Field(
        description="What the report calls these jobs; no two groups have the same."
    )
    count: Annotated[int, Field(ge=1, le=MAX_JOBS)] = Field(1, description="Jobs like this one that run at once.")
    scenario: Scenario = Field(
        description="What each of them trains and saves; it has no storage, as they share the cluster's."
    )
    start: Start = Field(
        "random", description="When in its interval each job saves first: at random, all together, or evenly staggered."
    )
    compute_jitter_fraction: OrText[Annotated[Fraction, Field(ge=0, le=0.5, allow_inf_nan=False)]] = Field(
        0.05,
        description="Max fraction by which the compute time between two saves varies, up or down. "
        "Default: 0.05, as jobs without jitter that collide once collide every time.",
    )

    @model_validator(mode="after")
    def _shares_the_storage(self) -> Self:
        if self.scenario.storage is not None:
            raise broken_rule("has a storage of its own", "give the shared storage once, next to jobs")
        return self


class ClusterTargets(InputModel):
    """What the shared storage must achieve."""

    p99_stall_seconds: PositiveSeconds | None = Field(
        None, description="Max seconds of the stalls of every group, 99 % of them. Default: no target."
    )
    recovery_seconds: PositiveSeconds | None = Field(
        None, description="Max seconds from a power failure until all jobs train again (RTO). Default: no target."
    )


class ClusterScenario(InputModel):
    """Many jobs on one storage system."""

    model_config = ConfigDict(json_schema_extra={"examples": [REFERENCE_CLUSTER]})

    jobs: Annotated[tuple[JobGroup, ...], Field(min_length=1, max_length=MAX_GROUPS)] = Field(
        description="Groups of equal jobs, in the order in which they stand on racks."
    )
    storage: Storage = Field(description="Storage that all jobs share.")
    sharing: Sharing = Field(
        "per-node", description="What a busy file system serves equally: every writing node, or every job."
    )
    nodes_per_rack: Annotated[int, Field(ge=1, le=10_000)] | None = Field(
        None,
        description="Nodes that one rack holds, to ask what the failure of a rack costs. "
        "Default: racks are not asked for.",
    )
    horizon_seconds: PositiveSeconds = Field(30.0 * SECONDS_PER_DAY, description="Seconds that the simulation covers.")
    seed: Annotated[int, Field(ge=0, le=2**32 - 1)] = Field(
        1, description="Start of the random numbers; equal documents give equal answers."
    )
    targets: ClusterTargets = Field(
        default_factory=ClusterTargets, description="Max stall and recovery time to solve the rates for."
    )

    @model_validator(mode="after")
    def _few_and_distinct(self) -> Self:
        if len({group.name for group in self.jobs}) < len(self.jobs):
            raise broken_rule("has two groups of one name", "name each group of jobs differently")
        if sum(group.count for group in self.jobs) > MAX_JOBS:
            raise broken_rule(f"has more than {MAX_JOBS:,} jobs", "remove the small ones")
        return self
