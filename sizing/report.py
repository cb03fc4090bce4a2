"""The answer: a SizingReport, and `answer`, which knows the order of the steps after the layout."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from sizing.guesses.guess import Guess, Headline
from sizing.guesses.guesses import guess_warnings, guesses_of
from sizing.layout import CheckpointSize, LaidOut, Layout
from sizing.model import ResolvedModel
from sizing.model.inventory import num_routed_expert_parameters
from sizing.origins import intervals, provenance_of
from sizing.provenance import Assumption, Provenance
from sizing.run.evaluation import RunReport, evaluate, run_assumptions, run_warnings
from sizing.run.host_memory import HostMemory, host_memory, host_memory_warnings
from sizing.run.measurement_warnings import calibration_warnings, measurement_warnings
from sizing.run.node_warnings import needed_warnings, node_warnings
from sizing.run.requirements.asked import Asked
from sizing.run.requirements.joint import GOODPUT, values_for_all_targets
from sizing.run.requirements.remedies import with_remedies
from sizing.run.retention import priced
from sizing.scenario import Scenario, scenario_from
from sizing.sized import sized
from sizing.storage.storage import resolve_storage
from sizing.training import GpuMemory
from sizing.training.execution import execution_assumptions


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
    host_memory: HostMemory = Field(description="Host memory that saving takes on the fullest writing node.")


class SizingReport(RunReport, LayoutReport):
    """What a checkpoint of the scenario weighs, takes, costs and needs. What is None is not known."""

    schema_version: int = Field(
        description="Version of the defaults that the answer was made with, as in the scenario."
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


def answer(scenario: Scenario | Mapping[str, Any], *, assumed: Iterable[Assumption] = ()) -> SizingReport:
    """The SizingReport of a Scenario, or of one as JSON has it; `assumed` is what was assumed to complete it.

    Raises InvalidInput where a field breaks a rule, a name is unknown or the layout contradicts model or cluster.

    >>> from sizing.scenario import REFERENCE_SCENARIO
    >>> report = answer(REFERENCE_SCENARIO)
    >>> round(report.write.seconds, 2), report.layout.num_writers, report.write.bottleneck
    (50.55, 512, 'file-system')
    """
    if not isinstance(scenario, Scenario):
        scenario = scenario_from(scenario)
    asked, storage, inputs = sized(scenario), resolve_storage(scenario.storage), scenario.run_inputs
    node, laid_out, demands = asked.node, asked.laid_out, asked.demands
    memory_of_hosts = host_memory(laid_out, node=node, checkpoint=scenario.checkpoint)
    run = evaluate(demands, inputs).report
    solvable = Asked(demands, inputs)
    together, beyond = values_for_all_targets(solvable) if solvable.asks(GOODPUT) else ({}, [])
    assumptions = [
        *assumed,
        *(priced(used, run.capacity) for used in scenario.assumptions),
        *asked.model.assumptions,
        *node.assumptions,
        *laid_out.assumptions,
        *execution_assumptions(scenario.training, scenario.parallelism),
        *run_assumptions(demands, inputs),
    ]
    headline, guesses = guesses_of(scenario, asked, inputs, run, assumptions)
    return SizingReport(
        model=ModelSize.of(asked.model, laid_out),
        checkpoint=laid_out.size,
        layout=laid_out.layout,
        training=asked.memory,
        host_memory=memory_of_hosts,
        **(dict(run) | {"targets": with_remedies(run.targets, solvable, given=scenario.targets.model_fields_set)}),
        schema_version=scenario.schema_version,
        needed_together=together,
        targets_beyond_storage=beyond,
        provenance=provenance_of(scenario, storage),
        prediction_intervals=intervals(storage, demands, run),
        assumptions=assumptions,
        headline=headline,
        guesses=guesses,
        warnings=[
            *scenario.version_warnings,
            *asked.memory_warnings,
            *host_memory_warnings(memory_of_hosts),
            *node_warnings(storage, node=node, demands=demands, checkpoint=scenario.checkpoint),
            *measurement_warnings(storage, layout=laid_out.layout),
            *calibration_warnings(storage, demands, strategy=run.restore.strategy),
            *needed_warnings(
                run.required.file_system_rates,
                storage,
                node=node,
                steps=demands.steps(scenario.checkpoint.restore),
            ),
            *run_warnings(run, inputs, demands=demands, layout=laid_out.layout),
            *guess_warnings(asked, assumptions),
        ],
    )
