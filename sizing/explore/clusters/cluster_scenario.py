"""The question about a cluster: groups of equal jobs, and the storage that they share."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from sizing.errors import broken_rule, explain
from sizing.scenario import Scenario
from sizing.storage.storage import Storage
from sizing.units import SECONDS_PER_DAY, Fraction, PositiveSeconds

MOST_GROUPS = 64
MOST_JOBS = 20_000

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
                "checkpoint": {"interval_seconds": "30min"},
                "cluster": {"node": "dgx-a100"},
                "reliability": {"failures_per_node_day": 0.0065, "restart_seconds": "10min"},
            },
        },
        {
            "name": "8B",
            "count": 40,
            "scenario": {
                "model": {"preset": "llama-3.1-8b"},
                "parallelism": {"data": 64},
                "checkpoint": {"format": "megatron-distributed-optimizer", "interval_seconds": "30min"},
                "cluster": {"node": "dgx-a100"},
                "reliability": {"failures_per_node_day": 0.0065, "restart_seconds": "5min"},
            },
        },
    ],
    "nodes_per_rack": 4,
    "horizon_seconds": "10d",
}
"""The published run of 1T beside forty jobs of 8B."""


class JobGroup(BaseModel):
    """Equal jobs. The scenario's own storage gives way to the cluster's, so it must not have one."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Annotated[str, Field(min_length=1, max_length=60)]
    count: Annotated[int, Field(ge=1, le=MOST_JOBS)] = 1
    scenario: Scenario
    start: Start = Field(
        "random",
        description="when in its interval each job saves first: independently at random, all at the same moment, "
        "or evenly spread",
    )
    compute_jitter_fraction: Annotated[Fraction, Field(ge=0, le=0.5, allow_inf_nan=False)] = Field(
        0.05,
        description="the compute time between two saves varies evenly within this fraction of itself, up or down",
    )

    @model_validator(mode="after")
    def _shares_the_storage(self) -> Self:
        if self.scenario.storage is not None:
            raise broken_rule("has a storage of its own", "give the shared storage once, beside jobs")
        return self


class ClusterTargets(BaseModel):
    """What the shared storage must achieve."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    p99_stall_seconds: PositiveSeconds | None = Field(
        None, description="which 99 % of the stalls of every group stay within"
    )
    recovery_seconds: PositiveSeconds | None = Field(
        None, description="in which all jobs train again after a power failure"
    )


class ClusterScenario(BaseModel):
    """Many jobs on one storage system.

    `sharing`: a busy file system serves every node equally, or every job. `nodes_per_rack` asks what the failure of
    one rack costs, with jobs placed on racks in the order given.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, json_schema_extra={"examples": [REFERENCE_CLUSTER]})

    jobs: Annotated[tuple[JobGroup, ...], Field(min_length=1, max_length=MOST_GROUPS)]
    storage: Storage
    sharing: Sharing = "per-node"
    nodes_per_rack: Annotated[int, Field(ge=1, le=10_000)] | None = None
    horizon_seconds: PositiveSeconds = Field(30.0 * SECONDS_PER_DAY, description="that the simulation covers")
    seed: Annotated[int, Field(ge=0, le=2**32 - 1)] = 1
    targets: ClusterTargets = Field(default_factory=ClusterTargets)

    @model_validator(mode="after")
    def _few_and_distinct(self) -> Self:
        if len({group.name for group in self.jobs}) < len(self.jobs):
            raise broken_rule("has two groups of one name", "name each group of jobs differently")
        if sum(group.count for group in self.jobs) > MOST_JOBS:
            raise broken_rule(f"has more than {MOST_JOBS:,} jobs", "leave out the small ones")
        return self


def cluster_scenario_from(document: object) -> ClusterScenario:
    """The ClusterScenario that a parsed JSON or YAML document describes.

    Raises InvalidInput with one problem for each field that breaks a rule.
    """
    try:
        return ClusterScenario.model_validate(document)
    except ValidationError as error:
        raise explain(error, ClusterScenario) from None
