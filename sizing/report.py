"""The answer: a SizingReport, and `answer`, which knows the order of the steps after the layout."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field

from sizing.guesses.guess import Guess, Headline
from sizing.guesses.guesses import guess_warnings, guesses_of
from sizing.layout import CheckpointSize, LaidOut, Layout
from sizing.layout.size import size_warnings, weights_bytes
from sizing.model import ResolvedModel
from sizing.model.inventory import num_routed_expert_parameters
from sizing.origins import intervals, provenance_of
from sizing.provenance import Assumption, Provenance
from sizing.run.evaluation import RunInputs, RunReport, evaluate, run_assumptions, run_warnings
from sizing.run.export.exported import export_steps
from sizing.run.host_memory import HostMemory, host_memory, host_memory_warnings
from sizing.run.measurement_warnings import calibration_warnings, measurement_warnings
from sizing.run.node_warnings import Steps, needed_warnings, node_warnings
from sizing.run.publication import Published, publication_steps, publication_warnings, published
from sizing.run.requirements.asked import Asked
from sizing.run.requirements.joint import GOODPUT, values_for_all_targets
from sizing.run.requirements.remedies import with_remedies
from sizing.run.retention import priced
from sizing.scenario import Scenario
from sizing.sized import SizedLayout, sized, with_rate_of_link
from sizing.state.training import Adapters
from sizing.storage.storage import ResolvedStorage, resolve_storage
from sizing.training import GpuMemory
from sizing.training.compression.compressed import CompressedGradients, compressed_gradients, compression_warnings
from sizing.training.execution import execution_assumptions
from sizing.training.large_batch.run_length import RunLength, run_length
from sizing.training.memory.nearest import CannotRun
from sizing.training.offload.offloaded import Offloaded, offload_warnings, offloaded
from sizing.units import decimal_bytes_text

if TYPE_CHECKING:
    from sizing.explore.layouts.best import LaidOutScenario


class ModelSize(BaseModel):
    """The `model` block of the report."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(description="Name of the preset or of the config; otherwise what the model was described by.")
    num_parameters: int = Field(description="Parameters of all tensors, a tied embedding counted once.")
    num_active_parameters: int = Field(
        description="Parameters that one token passes through; fewer than all with a mixture of experts."
    )
    num_routed_expert_parameters: int = Field(
        description="Parameters of routed experts in all layers; 0 in dense models."
    )
    num_trained_parameters: int = Field(
        description="Parameters with optimizer state: those of adapters with LoRA, none of frozen tensors."
    )

    @classmethod
    def of(cls, model: ResolvedModel, laid_out: LaidOut) -> ModelSize:
        """What the report says of a model."""
        return cls(
            name=model.name,
            num_parameters=model.num_parameters,
            num_active_parameters=model.num_active_parameters,
            num_routed_expert_parameters=num_routed_expert_parameters(model.inventory),
            num_trained_parameters=laid_out.num_trained_parameters,
        )


class LayoutReport(BaseModel):
    """The blocks of the report that the layout decides, whatever the storage, the interval and the failures."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    model: ModelSize = Field(description="Parameters by how they are used: active, routed, trained.")
    checkpoint: CheckpointSize = Field(description="Size of one checkpoint and what it is made of.")
    layout: Layout = Field(description="Which ranks on which nodes write how much.")
    training: GpuMemory = Field(description="Memory that state and activations take on the fullest GPU.")
    offload: Offloaded | None = Field(
        description="What training.offload keeps off the GPU, and what its copies take. Null without it."
    )
    gradient_compression: CompressedGradients | None = Field(
        description="What ranks send, keep and save of compressed gradients. "
        "Null without training.gradient_compression."
    )
    host_memory: HostMemory = Field(description="Host memory that saving takes on the fullest writing node.")


class SizingReport(RunReport, LayoutReport):
    """What a checkpoint of the scenario weighs, takes, costs and needs. What is None is not known."""

    schema_version: int = Field(
        description="Version of the defaults that the answer was made with, as in the scenario."
    )
    publication: Published | None = Field(
        description="Weights of an RL policy on their way to inference. Null without a publication in the scenario."
    )
    needed_together: dict[str, float] = Field(
        description="Min rates that together meet all targets but those beyond storage, by dotted path in the "
        "scenario, and checkpoint.interval_seconds when it must change. "
        "Empty without a goodput target or when no storage does."
    )
    targets_beyond_storage: list[str] = Field(
        description="Targets that no storage meets at any interval, which needed_together leaves out. "
        "Empty without a goodput target."
    )
    run_length: RunLength | None = Field(
        description="Steps, time and checkpoints of the whole run. Null without training.num_tokens."
    )
    provenance: list[Provenance] = Field(description="Where the figures come from, block by block.")
    prediction_intervals: dict[str, tuple[float, float]] = Field(
        description="Interval that holds nine of ten measurements, by dotted path of the figure and in its unit. "
        "Empty without a calibration."
    )
    assumptions: list[Assumption] = Field(
        description="Values that the answer uses and that the scenario did not state."
    )
    headline: Headline = Field(description="Figure that guesses are weighed by.")
    guesses: list[Guess] = Field(
        description="Assumptions that move the headline within their plausible range or by their alternatives, "
        "the largest swing first."
    )
    warnings: list[str] = Field(description="What a reader must know before believing the figures.")

    def _repr_html_(self) -> str:
        """What a notebook shows of it."""
        from sizing.summary.html import report_html  # noqa: PLC0415 - words stand above figures, and few need them

        return report_html(self)


def answer(
    scenario: Scenario | Mapping[str, Any], *, assumed: Iterable[Assumption] = (), nothing_fits: CannotRun | None = None
) -> SizingReport:
    """The SizingReport of a Scenario, or of one as JSON has it.

    One that gives a number of GPUs and leaves open how they share the model is answered in the best layout that fits.
    Who has looked for that says what was `assumed` to find it and, where there is none, that `nothing_fits`.

    Raises InvalidInput where a field breaks a rule, a name is unknown or the layout contradicts model or cluster.

    >>> from sizing.scenario import REFERENCE_SCENARIO
    >>> report = answer(REFERENCE_SCENARIO)
    >>> round(report.write.seconds, 2), report.layout.num_writers, report.write.bottleneck
    (50.55, 512, 'file-system')
    """
    if not isinstance(scenario, Scenario) or scenario.leaves_degrees_open:
        scenario, found_with, nothing_fits = laid_out(scenario)
        assumed = [*assumed, *found_with]
    found = _found(scenario)
    cannot_run = nothing_fits or found.asked.cannot_run
    run, solvable = found.run, Asked(found.asked.demands, found.inputs)
    assumptions = [*assumed, *_assumptions(found)]
    weighed = guesses_of(scenario, found.asked, found.inputs, run, assumptions)
    checks = with_remedies(run.targets, solvable, run, given=scenario.targets.model_fields_set)
    together, beyond = values_for_all_targets(solvable) if solvable.asks(GOODPUT) else ({}, [])
    return SizingReport(
        model=ModelSize.of(found.asked.model, found.asked.laid_out),
        checkpoint=found.asked.laid_out.size,
        layout=found.asked.laid_out.layout,
        training=_judged(found.asked.memory, cannot_run),
        offload=found.offload,
        gradient_compression=found.compressed,
        host_memory=found.host_memory,
        **(dict(run) | {"targets": weighed.held(checks)}),
        schema_version=scenario.schema_version,
        publication=found.publication,
        needed_together=together,
        targets_beyond_storage=beyond,
        run_length=_run_length(scenario, run),
        provenance=provenance_of(scenario, found.storage),
        prediction_intervals=intervals(found.storage, found.asked.demands, run),
        assumptions=assumptions,
        headline=weighed.headline,
        guesses=weighed.guesses,
        warnings=[*_warnings(found, cannot_run), *guess_warnings(found.asked, assumptions)],
    )


def laid_out(scenario: Scenario | Mapping[str, Any]) -> LaidOutScenario:
    """A Scenario, or one as JSON has it, in the best layout that fits where it leaves that open.

    Raises InvalidInput where a field breaks a rule or no degrees multiply to the GPUs.
    """
    from sizing.explore.layouts.best import laid_out_document, laid_out_scenario  # noqa: PLC0415 - few need the search

    return laid_out_scenario(scenario) if isinstance(scenario, Scenario) else laid_out_document(scenario)


def _judged(memory: GpuMemory, cannot_run: CannotRun | None) -> GpuMemory:
    """With the verdict, where the layout cannot run."""
    if cannot_run is None or not cannot_run.is_sure:
        return memory
    return memory.model_copy(update={"cannot_run": cannot_run.because, "remedy": cannot_run.remedy})


@dataclass(frozen=True, slots=True)
class _Found:
    """What each step of the calculation found for a scenario: the rest of its report says how to read that."""

    scenario: Scenario
    asked: SizedLayout
    storage: ResolvedStorage | None
    inputs: RunInputs
    offload: Offloaded | None
    compressed: CompressedGradients | None
    host_memory: HostMemory
    run: RunReport
    publication: Published | None


def _found(scenario: Scenario) -> _Found:
    asked, storage, inputs = sized(scenario), resolve_storage(scenario.storage), scenario.run_inputs
    off = _offloaded(with_rate_of_link(scenario), asked)
    return _Found(
        scenario=scenario,
        asked=asked,
        storage=storage,
        inputs=inputs,
        offload=off,
        compressed=compressed_gradients(scenario.training, scenario.parallelism, laid_out=asked.laid_out),
        host_memory=host_memory(
            asked.laid_out,
            node=asked.node,
            checkpoint=scenario.checkpoint,
            offloaded_bytes=off.host_bytes if off else 0,
        ),
        run=evaluate(asked.demands, inputs).report,
        publication=_published(scenario, asked, storage),
    )


def _offloaded(scenario: Scenario, asked: SizedLayout) -> Offloaded | None:
    """What lies off the GPU, where the scenario says so; copies take the rate of those of saves."""
    return offloaded(
        scenario.training,
        scenario.parallelism,
        laid_out=asked.laid_out,
        model=asked.model,
        node=asked.node,
        link_bytes_per_second=asked.demands.copy_bytes_per_second,
        uncopied_fraction=1.0 - float(asked.demands.write.linked_over_copied),
    )


def _run_length(scenario: Scenario, run: RunReport) -> RunLength | None:
    """The whole run, at the interval at which it saves and with the share of the time that is useful."""
    stalled = run.overhead.fraction
    useful = run.shares.useful_fraction
    return run_length(
        scenario.training,
        interval_seconds=scenario.checkpoint.interval_seconds,
        useful_fraction=(None if stalled is None else 1.0 - stalled) if useful is None else useful,
    )


def _steps_beside(found: _Found) -> Iterator[tuple[str, Steps]]:
    """What moves beside saves and restores, by its name in a sentence."""
    export, models, demands = found.inputs.checkpoint.export, found.scenario.training.reinforcement, found.asked.demands
    if export is not None:
        yield "export", export_steps(export, demands)
    if models is not None and models.publication is not None and found.publication is not None:
        num_bytes = found.publication.replica_bytes
        yield "publication", publication_steps(models.publication, demands, num_bytes)


def _published(scenario: Scenario, asked: SizedLayout, storage: ResolvedStorage | None) -> Published | None:
    """What goes to inference, where the scenario says so."""
    models = scenario.training.reinforcement
    publication = models.publication if models else None
    num_bytes = weights_bytes(asked.model.inventory, publication.dtype) if publication else 0
    profile = storage.profile if storage else None
    return published(publication, profile, demands=asked.demands, weights_bytes=num_bytes)


def _assumptions(found: _Found) -> Iterator[Assumption]:
    """Every value that the answer uses and that the scenario did not state, in the order of the steps."""
    scenario, asked = found.scenario, found.asked
    yield from (priced(used, found.run.capacity) for used in scenario.assumptions)
    yield from asked.model.assumptions
    yield from asked.node.assumptions
    yield from asked.laid_out.assumptions
    yield from execution_assumptions(scenario.training, scenario.parallelism)
    yield from run_assumptions(asked.demands, found.inputs)


def _base_warnings(adapters: Adapters | None, asked: SizedLayout) -> Iterator[str]:
    """That a checkpoint of adapters alone needs the weights of the model beside it."""
    if adapters is not None and not adapters.save_base:
        base = decimal_bytes_text(weights_bytes(asked.model.inventory, "bf16"))
        yield (
            f"The checkpoint holds the adapters alone. A restart reads the frozen weights too, {base} in bf16 for each "
            "replica, which no restore time here counts: add that to reliability.relaunch_seconds, or save them with "
            "training.adapters.save_base"
        )


def _warnings(found: _Found, cannot_run: CannotRun | None) -> Iterator[str]:
    """What a reader must know before believing the figures, in the order of the steps."""
    scenario, storage, run = found.scenario, found.storage, found.run
    asked, demands, layout = found.asked, found.asked.demands, found.asked.laid_out.on_nodes
    yield from scenario.version_warnings
    yield from size_warnings(asked.laid_out.size)
    yield from _base_warnings(scenario.training.adapters, asked)
    yield from [cannot_run.sentence] if cannot_run else []
    yield from asked.memory_warnings
    yield from offload_warnings(found.offload, mode=scenario.checkpoint.mode)
    yield from compression_warnings(found.compressed, total_bytes=asked.laid_out.size.total_bytes)
    yield from host_memory_warnings(found.host_memory)
    checkpoint, beside = scenario.checkpoint, dict(_steps_beside(found))
    yield from node_warnings(storage, node=asked.node, demands=demands, checkpoint=checkpoint, beside=beside)
    yield from measurement_warnings(storage, layout=layout)
    yield from calibration_warnings(storage, demands, strategy=run.restore.strategy)
    restored = demands.steps(scenario.checkpoint.restore)
    yield from needed_warnings(run.required.file_system_rates, storage, node=asked.node, steps=restored)
    yield from run_warnings(run, found.inputs, demands=demands, layout=layout)
    yield from publication_warnings(found.publication)
