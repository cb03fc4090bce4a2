"""The question: one Scenario, composed of a block per step of the calculation."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from sizing.cluster import Cluster
from sizing.errors import explain
from sizing.layout import Parallelism
from sizing.model import Model
from sizing.run.checkpoint import Checkpoint
from sizing.run.costs import Costs
from sizing.run.evaluation import RunInputs
from sizing.run.failures import Reliability
from sizing.run.retention import Retention
from sizing.run.targets import Targets
from sizing.state import Training
from sizing.storage.storage import Storage, resolve_storage

REFERENCE_SCENARIO: dict[str, Any] = {
    "model": {"preset": "megatron-1t"},
    "training": {"framework": "megatron", "precision": "bf16-mixed", "optimizer": "adam"},
    "parallelism": {"tensor": 8, "pipeline": 64, "data": 6},
    "checkpoint": {
        "format": "megatron",
        "mode": "sync",
        "interval_seconds": "4h",
        "observed_bytes": "13.8 TB",
    },
    "cluster": {"node": "dgx-a100", "num_gpus": 3072},
    "storage": {"profile": {"write_bytes_per_second": "273 GB/s", "read_bytes_per_second": "1 TB/s"}},
    "reliability": {"failures_per_node_day": 0.0065, "restart_seconds": 0},
}
"""The published 1-trillion-parameter run, `published/vast_checkpoint_example.json`."""


class Scenario(BaseModel):
    """What is trained, how, on what, saved how often, to which storage. Only `model` is required."""

    model_config = ConfigDict(extra="forbid", frozen=True, json_schema_extra={"examples": [REFERENCE_SCENARIO]})

    model: Model
    training: Training = Field(default_factory=Training)
    parallelism: Parallelism = Field(default_factory=Parallelism)
    checkpoint: Checkpoint = Field(default_factory=Checkpoint)
    cluster: Cluster = Field(default_factory=Cluster)
    storage: Storage | None = None
    reliability: Reliability | None = None
    retention: Retention = Field(default_factory=Retention)
    targets: Targets = Field(default_factory=Targets)
    costs: Costs | None = None

    @property
    def run_inputs(self) -> RunInputs:
        """What the steps after the layout take."""
        storage = resolve_storage(self.storage)
        profile = storage.profile if storage else None
        return RunInputs(self.checkpoint, profile, self.reliability, self.retention, self.targets, self.costs)


def scenario_from(document: object) -> Scenario:
    """The Scenario that a parsed JSON or YAML document describes.

    Raises InvalidInput with one problem for each field that breaks a rule.
    """
    try:
        return Scenario.model_validate(document)
    except ValidationError as error:
        raise explain(error, Scenario) from None
