"""What a Scenario's layout decides, whatever the storage, the interval and the failures.

`sized` knows the order of the steps up to there, and keeps what it found for the last layouts.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from sizing.cluster import ResolvedNode
from sizing.cluster.cluster import resolve_node
from sizing.errors import InvalidInput
from sizing.layout import LaidOut, Parallelism, lay_out
from sizing.layout.formats import check_resharding
from sizing.layout.layout import trained_inventory
from sizing.layout.manifest import ManifestRow, manifest
from sizing.layout.resolved import resolved_model
from sizing.layout.saved_tensors import SavedByRank, saved_by_rank
from sizing.layout.size import weights_bytes
from sizing.model import ResolvedModel
from sizing.run.demands.demands import Demands, demands_of
from sizing.run.demands.linked import with_offload
from sizing.run.demands.save_defaults import save_defaults
from sizing.run.demands.universal import universal_of
from sizing.run.export.settings import UNIVERSAL
from sizing.run.reduction.reduced import reduced
from sizing.scenario import Scenario
from sizing.state.offload import Offload
from sizing.state.saved_state import RANK_PART
from sizing.storage.storage import is_in_nodes, resolve_storage
from sizing.training import GpuMemory, gpu_memory
from sizing.training.memory.memory_question import MemoryQuestion
from sizing.training.memory.nearest import CannotRun, cannot_run, memory_warnings
from sizing.training.placement import saved_off_gpu

LAYOUTS_KEPT = 32
"""People ask about one layout many times, with other storage, intervals and failures."""

_AFTER_LAYOUT: Any = {
    "storage": True,
    "reliability": True,
    "retention": True,
    "targets": True,
    "costs": True,
    "checkpoint": {"interval_seconds", "staging_bytes", "drain_survives"},
}


@dataclass(frozen=True)
class SizedLayout:
    """The model on its nodes, laid out: what each rank holds and writes, and what that asks of GPUs and storage.

    `text` is that of the blocks that decide it, `layout_text`.
    """

    text: str
    model: ResolvedModel
    node: ResolvedNode
    laid_out: LaidOut
    memory: GpuMemory
    demands: Demands
    question: MemoryQuestion
    parallelism: Parallelism

    @functools.cached_property
    def memory_warnings(self) -> tuple[str, ...]:
        """What a reader must know of the memory of the layout, beside what `cannot_run` says."""
        return tuple(memory_warnings(self.memory, self.question, self.parallelism))

    @functools.cached_property
    def cannot_run(self) -> CannotRun | None:
        """Why the layout cannot run; to find the nearest that can takes time."""
        return cannot_run(self.memory, self.question, self.parallelism)


def sized(scenario: Scenario) -> SizedLayout:
    """The layout of a scenario, computed unless it is one of the last.

    What goes to drives of the nodes does not pass their storage adapters. Raises InvalidInput as `report.answer` does.
    """
    scenario = with_rate_of_link(scenario)
    found = _sized(_LayoutQuestion(layout_text(scenario), scenario))
    if scenario.cluster.storage_nics is not None and is_in_nodes(scenario.storage):
        return replace(found, demands=found.demands.through(None))
    return found


def with_rate_of_link(scenario: Scenario) -> Scenario:
    """With `on_measured_link` of its training.offload."""
    offload = scenario.training.offload
    if offload is None:
        return scenario
    training = scenario.training.model_copy(update={"offload": on_measured_link(offload, scenario)})
    return scenario.model_copy(update={"training": training})


def on_measured_link(offload: Offload, scenario: Scenario) -> Offload:
    """With the rate at which the scenario's storage measured copies to the host, where it gives none of its own."""
    storage = resolve_storage(scenario.storage)
    rate = storage.profile.device_to_host_bytes_per_second if storage else None
    if rate is None or offload.link_bytes_per_second is not None:
        return offload
    return offload.model_copy(update={"link_bytes_per_second": rate})


def demands_anew(scenario: Scenario) -> Demands:
    """What a scenario's layout demands, computed without being kept: for variants that nobody asks about again.

    Where no rank copies its share while training waits, whole shards are taken as shared evenly: the sum is the same,
    and to deal them takes longer than all the rest.
    Raises InvalidInput as `report.answer` does.
    """
    model, node = _model_and_node(scenario)
    copies = scenario.checkpoint.mode == "async" or bool(scenario.checkpoint.tiers)
    return _demands(scenario, model, node, _laid_out(scenario, model, node, deals_whole=copies))


def layout_text(scenario: Scenario) -> str:
    """The blocks of a scenario that decide its layout, as they were given: equal texts have equal layouts."""
    return scenario.model_dump_json(exclude=_AFTER_LAYOUT, exclude_unset=True)


def manifest_of(scenario: Scenario) -> Iterator[ManifestRow]:
    """Every file of the scenario's checkpoint by name.

    Raises InvalidInput as `report.answer` does, and for worlds of more than 100,000 ranks.
    """
    asked = sized(scenario)
    return manifest(asked.laid_out, scenario.parallelism, gpus_per_node=asked.node.spec.gpus_per_node)


def saved_by_rank_of(scenario: Scenario) -> SavedByRank:
    """Every tensor that each rank of the scenario writes.

    Raises InvalidInput as `manifest_of` does.
    """
    asked = sized(scenario)
    return saved_by_rank(asked.laid_out, scenario.parallelism, gpus_per_node=asked.node.spec.gpus_per_node)


@dataclass(frozen=True, slots=True)
class _LayoutQuestion:
    """A scenario, found again by the text of the blocks that decide its layout."""

    text: str
    scenario: Scenario = field(compare=False)


@functools.lru_cache(maxsize=LAYOUTS_KEPT)
def _sized(asked: _LayoutQuestion) -> SizedLayout:
    scenario, training, parallelism = asked.scenario, asked.scenario.training, asked.scenario.parallelism
    model, node = _model_and_node(scenario)
    laid_out = _laid_out(scenario, model, node)
    sharding, cells = laid_out.sharding, laid_out.cells
    memory = gpu_memory(training, parallelism, cells=cells, sharding=sharding, model=model, node=node)
    question = MemoryQuestion(scenario.model, training, saved_as=laid_out.saved_as, node=node)
    return SizedLayout(
        text=asked.text,
        model=model,
        node=node,
        laid_out=laid_out,
        memory=memory,
        demands=_demands(scenario, model, node, laid_out),
        question=question,
        parallelism=parallelism,
    )


def _model_and_node(scenario: Scenario) -> tuple[ResolvedModel, ResolvedNode]:
    model = resolved_model(scenario.model, scenario.training, scenario.parallelism)
    return model, resolve_node(scenario.cluster)


def _laid_out(scenario: Scenario, model: ResolvedModel, node: ResolvedNode, *, deals_whole: bool = True) -> LaidOut:
    return lay_out(
        model,
        scenario.training,
        scenario.parallelism,
        node=node,
        cluster=scenario.cluster,
        checkpoint=scenario.checkpoint,
        deals_whole=deals_whole,
    )


def _demands(scenario: Scenario, model: ResolvedModel, node: ResolvedNode, laid_out: LaidOut) -> Demands:
    demands = demands_of(
        laid_out,
        scenario.parallelism,
        node=node,
        restored=_restored(scenario, model, node, laid_out),
        defaults=save_defaults(scenario.schema_version),
    )
    demands = with_offload(demands, laid_out, saved_off_gpu(scenario.training))
    export = scenario.checkpoint.export
    if export is not None and export.format == UNIVERSAL:
        inventory = trained_inventory(model.inventory, scenario.training)
        made = universal_of(inventory, laid_out, scenario.training, scenario.parallelism)
        demands = replace(demands, exported_bytes=made.num_bytes, universal=made)
    elif export is not None:
        demands = replace(demands, exported_bytes=weights_bytes(model.inventory, export.dtype))
    reduction = scenario.checkpoint.reduction
    return reduced(
        demands,
        reduction,
        laid_out=laid_out,
        num_experts=model.num_experts,
        expert_degree=scenario.parallelism.expert,
    )


def _restored(
    scenario: Scenario, model: ResolvedModel, node: ResolvedNode, saved: LaidOut
) -> tuple[LaidOut, Parallelism]:
    """The layout that restores, and its degrees: the one that saved, or `checkpoint.restore_parallelism`.

    Raises InvalidInput where the format cannot be read into it.
    """
    degrees = scenario.checkpoint.restore_parallelism
    if degrees is None:
        return saved, scenario.parallelism
    _check_errors(scenario, saved)
    check_resharding(saved.saved_as, scenario.parallelism, degrees)
    cluster = scenario.cluster.without_counts
    try:
        return _laid_out(scenario.model_copy(update={"parallelism": degrees, "cluster": cluster}), model, node), degrees
    except InvalidInput as error:
        problems = (replace(problem, field=f"checkpoint.restore_{problem.field}") for problem in error.problems)
        raise InvalidInput(problems) from None


def _check_errors(scenario: Scenario, saved: LaidOut) -> None:
    """Refuse to read what each rank has of its own into other ranks."""
    if RANK_PART in saved.size.parts and scenario.checkpoint.restore_parallelism != scenario.parallelism:
        raise InvalidInput.of(
            "checkpoint.restore_parallelism",
            "must equal parallelism where ranks save errors of training.gradient_compression, each its own",
            value="other degrees",
            remedy="remove it, or set training.gradient_compression.saves_errors to false",
        )
