"""Origins of a report's figures, block by block."""

from __future__ import annotations

from pydantic import BaseModel

from sizing.model.catalog import model_named
from sizing.model.model import Model
from sizing.provenance import Origin, Provenance, Runs, group_by_origin, weakest
from sizing.run.failure_rates import rate_named
from sizing.run.failures import Reliability
from sizing.scenario import Scenario
from sizing.storage.calibration import Calibration
from sizing.storage.rates import DIRECTIONS, Direction
from sizing.storage.storage import ResolvedStorage
from sizing.units import percent_text

_COUNTED = Origin(kind="exact", source="counted from model, training state, degrees and format")


def provenance_of(scenario: Scenario, storage: ResolvedStorage | None) -> list[Provenance]:
    """List the provenance of every figure of the report. A figure without an entry is as weak as the weakest input."""
    write, read = (_origin_of_storage(storage, direction) for direction in DIRECTIONS)
    if storage is not None and not storage.is_in_nodes and scenario.cluster.storage_nics is not None:
        adapters = Origin(kind="given", source="cluster.storage_nics")  # which limit the times as well
        write, read = weakest(write, adapters), weakest(read, adapters)
    period = _given_or_assumed(scenario.checkpoint, "checkpoint.interval_seconds")
    targets = _given_or_assumed(scenario.targets, "targets.max_overhead_fraction")
    model, failures = _origin_of_model(scenario.model), _origin_of_failures(scenario.reliability)
    state, writing = weakest(_COUNTED, model), weakest(write, period, failures)
    run = weakest(write, read, period, failures)
    origins = {
        "": weakest(_COUNTED, run, targets),
        "model": model,
        "checkpoint": state,
        "checkpoint.container_bytes": _CONTAINERS,
        "checkpoint.small_state_bytes": _CONTAINERS,
        "layout": state,
        "training": state,
        "host_memory": state,
        "job_limits": weakest(state, write, read),
        "offload": state,
        "gradient_compression": state,
        "write": write,
        "restore": read,
        "restore.read_bytes": state,
        "overhead": weakest(write, period),
        "overhead.rework_fraction": writing,
        "interval": writing,
        "shares": run,
        "recovery": run,
        "required": weakest(period, targets),
        "needed_together": weakest(run, targets),
        "targets_beyond_storage": weakest(run, targets),
        "tiers": run,
        "targets": weakest(write, read, targets),
        "capacity": state,
        "capacity_over_time": weakest(state, period),
        "run_length": writing,
        "reduction": run,
        "export": weakest(write, read, period),
        "publication": weakest(state, _origin_of_publication(scenario, read)),
        "capacity.num_checkpoints": _given_or_assumed(scenario.retention, "retention.keep_last"),
        "cost": writing,
    }
    return group_by_origin(origins)


_CONTAINERS = Origin(
    kind="published", source="fitted to checkpoints saved by torch 2.13 and DeepSpeed 0.19: framework_checkpoints.json"
)


def _origin_of_model(model: Model) -> Origin:
    if model.num_experts is not None:
        return Origin(
            kind="assumed", source="model.num_parameters; routed experts estimated from the active parameters"
        )
    if model.num_parameters is not None:
        return Origin(kind="given", source="model.num_parameters")
    if model.preset is not None:
        source = model_named(model.preset).source
        return Origin(kind="exact", source=f"counted from the published architecture: {source}")
    if model.tensors is not None:
        return Origin(
            kind="exact", source="counted from the given tensors; how ranks cut them by rules over their names"
        )
    return Origin(kind="exact", source="counted from the given architecture")


def _origin_of_storage(storage: ResolvedStorage | None, direction: Direction) -> Origin:
    if storage is None:
        return Origin(kind="unknown", source="no storage is given")
    if storage.published is not None:
        return Origin(kind="published", source=f"{storage.published.name}: {storage.published.source}")
    if storage.calibration is not None:
        return _origin_of_fit(storage.calibration, direction)
    measured = storage.profile.measured
    if measured is not None:
        return Origin(
            kind="measured",
            source=f"one run with {measured.num_ranks} rank(s) on {measured.num_nodes} node(s)",
            runs=Runs(run_ids=(measured.run_id,)),
        )
    return Origin(kind="given", source="storage.profile")


def lack_of_limits(direction: Direction) -> str:
    """Say that a calibration has no limits of writes, or of reads: its runs were too few, as its warnings tell."""
    return f"the calibration has no {direction} limits"


def _origin_of_fit(calibration: Calibration, direction: Direction) -> Origin:
    fit = calibration.fit(direction)
    if fit is None:
        return Origin(kind="unknown", source=lack_of_limits(direction))
    return Origin(
        kind="calibrated",
        source=f"grade {calibration.grade_text}, {fit.num_configurations} configurations by engine "
        f"{calibration.engine}, held-out error {percent_text(fit.held_out_error_fraction)}",
        runs=Runs(
            run_ids=calibration.run_ids,
            measured_on=calibration.measured_on,
            error_fraction=fit.held_out_error_fraction,
        ),
    )


def _origin_of_publication(scenario: Scenario, read: Origin) -> Origin:
    """Return the origin of the publication's times, which may pass the network without the storage."""
    models = scenario.training.reinforcement
    publication = models.publication if models else None
    if publication is None or publication.over == "storage":
        return read
    rates = ("replica_bytes_per_second", "network_fraction")
    given = {f"training.reinforcement.publication.{name}" for name in rates if getattr(publication, name) is not None}
    if given:
        return Origin(kind="given", source=", ".join(sorted(given)))
    return Origin(kind="assumed", source="training.reinforcement.publication.network_fraction")


def _origin_of_failures(reliability: Reliability | None) -> Origin:
    """Return the origin of the failure rate, or of the times that a failure takes, whichever is weaker."""
    if reliability is None:
        return Origin(kind="unknown", source="no reliability is given")
    rate = Origin(kind="given", source="reliability")
    if reliability.preset is not None:
        published = rate_named(reliability.preset)
        rate = Origin(kind="published", source=f"{published.name}: {published.source}")
    times = [_given_or_assumed(reliability, "reliability.detection_seconds")]
    if reliability.restart_seconds is None:
        times.append(_given_or_assumed(reliability, "reliability.relaunch_seconds"))
    return weakest(rate, *times)


def _given_or_assumed(block: BaseModel, path: str) -> Origin:
    """Return the origin of a field of a block of the scenario, by its dotted path."""
    is_given = path.rpartition(".")[2] in block.model_fields_set
    return Origin(kind="given" if is_given else "assumed", source=path)
