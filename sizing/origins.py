"""Where the figures of a report come from, block by block, and how sure the calibrated ones are."""

from __future__ import annotations

from collections.abc import Iterator

from sizing.model.catalog import catalog
from sizing.model.model import Model
from sizing.provenance import Origin, Provenance, Runs, grouped, weakest
from sizing.run.demands.demands import Demands
from sizing.run.evaluation import RunReport
from sizing.run.failure_rates import rate_named
from sizing.run.failures import Reliability
from sizing.scenario import Scenario
from sizing.storage.calibration import predicted
from sizing.storage.rates import DIRECTIONS, Direction
from sizing.storage.storage import ResolvedStorage
from sizing.units import percent_text

Intervals = dict[str, tuple[float, float]]

_COUNTED = Origin(kind="exact", source="counted from model, training state, degrees and format")


def provenance_of(scenario: Scenario, storage: ResolvedStorage | None) -> list[Provenance]:
    """The provenance of every figure of the report. One with no entry of its own is as weak as the weakest input."""
    write, read = (_through_adapters(scenario, storage, _storage(storage, way)) for way in DIRECTIONS)
    period, failures, targets = _period(scenario), _failures(scenario), _targets(scenario)
    model = _model(scenario.model)
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
        "publication": weakest(state, read),
        "capacity.num_checkpoints": _retention(scenario),
        "cost": writing,
    }
    return grouped(origins)


def intervals(storage: ResolvedStorage | None, demands: Demands, run: RunReport) -> Intervals:
    """The 90 % intervals of the calibrated times and rates by their path in the report; empty without a calibration.

    A rate is bytes over time, so the ends of its interval change places. What the calibration has not seen, a copy
    from device to host or an exchange between nodes, is taken as it is.
    """
    calibration = storage.calibration if storage else None
    if calibration is None:
        return {}
    found: Intervals = {}
    write, restore = run.write, run.restore
    writing = predicted(calibration, [demands.write], direction="write")
    if writing is not None and write is not None:
        copied = write.seconds - float(writing.seconds)
        low, high = writing.ends_seconds(also=copied)
        found["write.seconds"] = (low, high)
        found["write.bytes_per_second"] = (demands.written_bytes / high, demands.written_bytes / low)
    reading = predicted(calibration, demands.restores[restore.strategy].demands, direction="read")
    if reading is not None and restore.seconds is not None:
        found["restore.seconds"] = reading.ends_seconds(also=restore.exchange_seconds or 0.0)
        low, high = reading.ends_seconds()
        found["restore.bytes_per_second"] = (restore.read_bytes / high, restore.read_bytes / low)
    return found


_CONTAINERS = Origin(
    kind="published", source="fitted to checkpoints saved by torch 2.13 and DeepSpeed 0.19: framework_checkpoints.json"
)


def _model(model: Model) -> Origin:
    if model.num_experts is not None:
        return Origin(
            kind="assumed", source="model.num_parameters; routed experts estimated from the active parameters"
        )
    if model.num_parameters is not None:
        return Origin(kind="given", source="model.num_parameters")
    if model.preset is not None:
        return Origin(kind="exact", source=f"counted from the published architecture: {catalog()[model.preset].source}")
    if model.tensors is not None:
        return Origin(
            kind="exact", source="counted from the given tensors; how ranks cut them by rules over their names"
        )
    return Origin(kind="exact", source="counted from the given architecture")


def _storage(storage: ResolvedStorage | None, direction: Direction) -> Origin:
    if storage is None:
        return Origin(kind="unknown", source="no storage is given")
    if storage.published is not None:
        return Origin(kind="published", source=f"{storage.published.name}: {storage.published.source}")
    if storage.calibration is not None:
        return _calibrated(storage, direction)
    measured = storage.profile.measured
    if measured is not None:
        return Origin(
            kind="measured",
            source=f"one run with {measured.num_ranks} rank(s) on {measured.num_nodes} node(s)",
            runs=Runs(run_ids=(measured.run_id,)),
        )
    return Origin(kind="given", source="storage.profile")


def _through_adapters(scenario: Scenario, storage: ResolvedStorage | None, origin: Origin) -> Origin:
    """The origin of times that the adapters of the nodes bound too, where the scenario states them."""
    if storage is None or storage.is_in_nodes or scenario.cluster.storage_nics is None:
        return origin
    return weakest(origin, Origin(kind="given", source="cluster.storage_nics"))


def _calibrated(storage: ResolvedStorage, direction: Direction) -> Origin:
    calibration = storage.calibration
    fit = calibration.fit(direction) if calibration else None
    if calibration is None or fit is None:
        return Origin(kind="unknown", source=f"the calibration has no {direction}s")
    return Origin(
        kind="calibrated",
        source=f"grade {calibration.grade}, {fit.num_configurations} configurations by engine {calibration.engine}, "
        f"held-out error {percent_text(fit.held_out_error_fraction)}",
        runs=Runs(
            run_ids=calibration.run_ids,
            measured_on=calibration.measured_on,
            error_fraction=fit.held_out_error_fraction,
        ),
    )


def _period(scenario: Scenario) -> Origin:
    return _given_or_assumed(scenario.checkpoint.model_fields_set, "interval_seconds", "checkpoint.interval_seconds")


def _targets(scenario: Scenario) -> Origin:
    return _given_or_assumed(
        scenario.targets.model_fields_set, "max_overhead_fraction", "targets.max_overhead_fraction"
    )


def _retention(scenario: Scenario) -> Origin:
    return _given_or_assumed(scenario.retention.model_fields_set, "keep_last", "retention.keep_last")


def _failures(scenario: Scenario) -> Origin:
    if scenario.reliability is None:
        return Origin(kind="unknown", source="no reliability is given")
    return weakest(_rate(scenario.reliability), *_interruption(scenario.reliability))


def _rate(reliability: Reliability) -> Origin:
    if reliability.preset is None:
        return Origin(kind="given", source="reliability")
    published = rate_named(reliability.preset)
    return Origin(kind="published", source=f"{published.name}: {published.source}")


def _interruption(reliability: Reliability) -> Iterator[Origin]:
    """What a failure takes beside the lost work."""
    given = reliability.model_fields_set
    yield _given_or_assumed(given, "detection_seconds", "reliability.detection_seconds")
    if reliability.restart_seconds is None:
        yield _given_or_assumed(given, "relaunch_seconds", "reliability.relaunch_seconds")


def _given_or_assumed(given: set[str], name: str, path: str) -> Origin:
    return Origin(kind="given" if name in given else "assumed", source=path)
