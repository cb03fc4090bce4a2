"""A Scenario: the question to size, composed of a block for each step of the calculation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Self

from pydantic import ConfigDict, Field, ModelWrapValidatorHandler, model_validator

from sizing.cluster import Cluster
from sizing.field_paths import with_fields
from sizing.frameworks import FRAMEWORKS
from sizing.frameworks.registry import (
    defaults_of_framework,
    list_not_taken,
    shipped_defaults,
    with_framework_of_trainer,
)
from sizing.frameworks.trainers import trainer_on
from sizing.layout import Parallelism
from sizing.layout.formats import with_format_of_framework
from sizing.model import Model
from sizing.printed_numbers import validate_as_printed
from sizing.provenance import Assumption, defaults_used
from sizing.run.checkpoint import Checkpoint
from sizing.run.costs import Costs
from sizing.run.evaluation import RunInputs
from sizing.run.failures import Reliability
from sizing.run.interval_steps import STEP_UNKNOWN, interval_of_steps
from sizing.run.retention import Retention
from sizing.run.targets import Targets
from sizing.schema_versions import SCHEMA_VERSION, defaults_then, fields_changed_since, mark_left_open
from sizing.state import Training
from sizing.storage.storage import Storage, resolve_storage
from sizing.strict_model import InputModel
from sizing.units import seconds_text

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
"""The same run with assumed times of detection and relaunch, which the publication leaves out. People see it first."""

INTERVAL = "checkpoint.interval_seconds"

NUM_GPUS = "cluster.num_gpus"
"""Field that is assumed to be 1 where a scenario `names_no_gpus`."""


class Scenario(InputModel):
    """What is trained, how, on what, saved how often, to which storage. Only `model` is required."""

    model_config = ConfigDict(json_schema_extra={"examples": [REFERENCE_SCENARIO]})

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
        """Read a document with the defaults of its framework and of its schema version."""
        if not isinstance(document, Mapping):
            return validated(document)
        always_there = [name for name, field in cls.model_fields.items() if field.default_factory is not None]
        document = with_format_of_framework(with_framework_of_trainer(document))
        then = defaults_of_framework(document)
        version = document.get("schema_version")
        if isinstance(version, int) and version < SCHEMA_VERSION:
            then |= defaults_then(document, version, always_there=always_there)
        if (seconds := interval_of_steps(document)) is not None:
            then[INTERVAL] = seconds
        if not then:
            return validated(document)
        scenario = validated(with_fields(document, then))
        mark_left_open(scenario, document, then)
        return scenario

    @property
    def assumptions(self) -> Iterator[Assumption]:
        """Every default that took effect. The schema version that decides them is no assumption."""
        former = fields_changed_since(self.schema_version)
        training = self.training
        shipped = shipped_defaults(training.framework, trainer=training.trainer)
        settings = {(each.field, each.value): each.setting for each in shipped}
        for default in defaults_used(self):
            is_plain = isinstance(default.value, str | int | float)
            setting = settings.get((default.field, default.value)) if is_plain else None
            if default.field == INTERVAL and self.checkpoint.interval_steps is not None:
                yield default.model_copy(update={"reason": self._interval_reason})
            elif setting is not None:
                name = training.trainer or training.framework
                yield default.model_copy(update={"reason": f"default of {name}, {setting}"})
            elif default.field in former:
                yield default.model_copy(update={"reason": f"default of schema version {self.schema_version}"})
            elif default.field != "schema_version":
                yield default
        yield from list_not_taken(self)

    @property
    def trainer_warnings(self) -> Iterator[str]:
        """Say what a trainer that was named runs on, and what of its settings to check."""
        trainer = trainer_on(self.training.framework, self.training.trainer)
        if trainer is not None:
            yield f"{trainer.title} is answered as {trainer.framework}, on which it runs. Check: {trainer.check}"

    @property
    def version_warnings(self) -> Iterator[str]:
        """Warnings about defaults that have changed since the scenario was made."""
        former = fields_changed_since(self.schema_version)
        if not former:
            return
        fields = [default.field for default in self.assumptions if default.field in former]
        if fields:
            yield (
                f"Not today's defaults but those of schema version {self.schema_version} hold for {', '.join(fields)}. "
                f"Give these fields, or schema_version {SCHEMA_VERSION}, for an answer of today"
            )

    @property
    def _interval_reason(self) -> str:
        steps, seconds = self.checkpoint.interval_steps, self.training.step_seconds
        return STEP_UNKNOWN.format(steps=steps) if seconds is None else f"{steps:,} steps of {seconds_text(seconds)}"

    @property
    def leaves_interval_open(self) -> bool:
        """Whether the scenario gives its interval in steps, and the time of a step must be computed for it."""
        counts = self.checkpoint.interval_steps is not None and self.training.step_seconds is None
        return counts and "interval_seconds" not in self.checkpoint.model_fields_set

    @property
    def times_interval(self) -> bool:
        """Whether the interval is so many steps of a known time."""
        is_known = self.training.step_seconds is not None or "interval_seconds" in self.checkpoint.model_fields_set
        return self.checkpoint.interval_steps is not None and is_known

    @property
    def leaves_degrees_open(self) -> bool:
        """Whether the scenario gives the number of GPUs but not how they share the model."""
        degrees, num_gpus = self.parallelism, self.cluster.num_gpus
        return num_gpus is not None and "data" not in degrees.model_fields_set and degrees.num_gpus != num_gpus

    @property
    def names_no_gpus(self) -> bool:
        """Whether the scenario gives neither a number of GPUs nor degrees of parallelism."""
        is_cluster_open = self.cluster.num_gpus is None and not self.cluster.nodes
        return is_cluster_open and not self.parallelism.model_fields_set

    @property
    def run_inputs(self) -> RunInputs:
        """Inputs of the steps after the layout."""
        storage = resolve_storage(self.storage)
        profile = storage.profile if storage else None
        deletion = FRAMEWORKS[self.training.framework].retention.deletes
        return RunInputs(
            self.checkpoint, profile, self.reliability, self.retention, self.targets, self.costs, deletion=deletion
        )


def open_degrees(document: Mapping[str, Any]) -> tuple[dict[str, Any], Any]:
    """Return the degrees and the number of GPUs of a document; the latter None where the degrees are complete."""
    degrees, cluster = document.get("parallelism", {}), document.get("cluster")
    if not isinstance(degrees, dict) or not isinstance(cluster, dict) or "data" in degrees:
        return {}, None
    return degrees, cluster.get("num_gpus")


def scenario_from(document: object) -> Scenario:
    """Read a Scenario from a parsed JSON or YAML document.

    Raises InvalidInput with one problem for each field that breaks a rule.
    """
    return validate_as_printed(Scenario, document)
