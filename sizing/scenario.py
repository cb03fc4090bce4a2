"""The question: one Scenario, composed of a block per step of the calculation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, ModelWrapValidatorHandler, ValidationError, model_validator

from sizing.cluster import Cluster
from sizing.errors import explain
from sizing.layout import Parallelism
from sizing.layout.framework_defaults import defaults_of_framework, not_taken, shipped
from sizing.model import Model
from sizing.provenance import Assumption, defaults_used
from sizing.run.checkpoint import Checkpoint
from sizing.run.costs import Costs
from sizing.run.evaluation import RunInputs
from sizing.run.failures import Reliability
from sizing.run.retention import Retention
from sizing.run.targets import Targets
from sizing.schema_versions import SCHEMA_VERSION, as_left_open, defaults_then, fields_changed_since, with_values
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
    "reliability": {"failures_per_node_day": 0.0065, "detection_seconds": 0, "restart_seconds": 0},
}
"""The published 1-trillion-parameter run, `published/vast_checkpoint_example.json`."""

FIRST_SCENARIO: dict[str, Any] = REFERENCE_SCENARIO | {
    "reliability": {"failures_per_node_day": REFERENCE_SCENARIO["reliability"]["failures_per_node_day"]}
}
"""The same run with the way back as assumed, which the publication leaves out: what people see first."""


class Scenario(BaseModel):
    """What is trained, how, on what, saved how often, to which storage. Only `model` is required."""

    model_config = ConfigDict(extra="forbid", frozen=True, json_schema_extra={"examples": [REFERENCE_SCENARIO]})

    model: Model = Field(
        description="What is trained: a published model, an architecture, a config.json, a list of tensors, or a count."
    )
    training: Training = Field(
        default_factory=Training,
        description="How it is trained, which decides what a checkpoint holds and what a GPU keeps.",
    )
    parallelism: Parallelism = Field(
        default_factory=Parallelism,
        description="Degrees of parallelism; world size = tensor x pipeline x context x data.",
    )
    checkpoint: Checkpoint = Field(
        default_factory=Checkpoint,
        description="Which files are saved, how often, to which tiers, and how they are read back.",
    )
    cluster: Cluster = Field(default_factory=Cluster, description="Nodes that train: GPUs, memory and links.")
    storage: Storage | None = Field(
        None,
        description="Storage system that holds the checkpoints. "
        "Default: unknown, so times and goodput are not computed.",
    )
    reliability: Reliability | None = Field(
        None,
        description="How often the job fails and what an interruption takes. "
        "Default: unknown, so goodput is not computed.",
    )
    retention: Retention = Field(
        default_factory=Retention,
        description="Which checkpoints are kept, and what the storage needs beyond their bytes.",
    )
    targets: Targets = Field(
        default_factory=Targets, description="What the storage must achieve: overhead, stall, recovery, goodput."
    )
    costs: Costs | None = Field(
        None, description="Prices of capacity, bandwidth and GPU time. Default: no costs are computed."
    )

    schema_version: Annotated[int, Field(strict=True, ge=1, le=SCHEMA_VERSION)] = Field(
        SCHEMA_VERSION,
        description="Version of the defaults that hold for what is left open. "
        f"Default: {SCHEMA_VERSION}, those of today; a saved scenario keeps those of its time.",
    )

    @model_validator(mode="wrap")
    @classmethod
    def _with_defaults_of_its_version(cls, document: object, validated: ModelWrapValidatorHandler[Self]) -> Self:
        """A document is read with the defaults of its framework, one of an earlier version with those of its time."""
        if not isinstance(document, Mapping):
            return validated(document)
        always_there = [name for name, field in cls.model_fields.items() if field.default_factory is not None]
        then = defaults_of_framework(document)
        version = document.get("schema_version")
        if isinstance(version, int) and version < SCHEMA_VERSION:
            then |= defaults_then(document, version, always_there=always_there)
        if not then:
            return validated(document)
        scenario = validated(with_values(document, then))
        as_left_open(scenario, document, then)
        return scenario

    @property
    def assumptions(self) -> Iterator[Assumption]:
        """Every default that took effect; the version that decides them is no assumption."""
        former = fields_changed_since(self.schema_version)
        settings = {(each.field, each.value): each.setting for each in shipped(self.training.framework)}
        for used in defaults_used(self):
            setting = settings.get((used.field, used.value)) if isinstance(used.value, str | int) else None
            if setting is not None:
                yield used.model_copy(update={"reason": f"default of {self.training.framework}, {setting}"})
            elif used.field in former:
                yield used.model_copy(update={"reason": f"default of schema version {self.schema_version}"})
            elif used.field != "schema_version":
                yield used
        yield from not_taken(self)

    @property
    def version_warnings(self) -> Iterator[str]:
        """What a reader must know of defaults that have changed since the scenario was made."""
        former = fields_changed_since(self.schema_version)
        if not former:
            return
        kept = [used.field for used in self.assumptions if used.field in former]
        if kept:
            yield (
                f"Not today's defaults but those of schema version {self.schema_version} hold for {', '.join(kept)}. "
                f"Give these fields, or schema_version {SCHEMA_VERSION}, for an answer of today"
            )

    @property
    def leaves_degrees_open(self) -> bool:
        """Whether it says on how many GPUs it runs, and not how they share the model."""
        degrees, num_gpus = self.parallelism, self.cluster.num_gpus
        return num_gpus is not None and "data" not in degrees.model_fields_set and degrees.num_gpus != num_gpus

    @property
    def run_inputs(self) -> RunInputs:
        """What the steps after the layout take."""
        storage = resolve_storage(self.storage)
        profile = storage.profile if storage else None
        return RunInputs(self.checkpoint, profile, self.reliability, self.retention, self.targets, self.costs)


def open_degrees(document: Mapping[str, Any]) -> tuple[dict[str, Any], Any]:
    """The degrees that a document gives, and its GPUs; None where it does not leave open how they share the model."""
    degrees, cluster = document.get("parallelism", {}), document.get("cluster")
    if not isinstance(degrees, dict) or not isinstance(cluster, dict) or "data" in degrees:
        return {}, None
    return degrees, cluster.get("num_gpus")


def scenario_from(document: object) -> Scenario:
    """The Scenario that a parsed JSON or YAML document describes.

    Raises InvalidInput with one problem for each field that breaks a rule.
    """
    try:
        return Scenario.model_validate(document)
    except ValidationError as error:
        raise explain(error, Scenario) from None
