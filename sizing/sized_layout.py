"""Layout of a Scenario and all that it decides, independent of the storage, the interval and the failures.

`size_layout` knows the order of the steps up to there, and keeps the last layouts.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

from sizing.cluster import ResolvedNode
from sizing.cluster.cluster import resolve_node
from sizing.errors import InvalidInput
from sizing.layout import CheckpointLayout, Parallelism, lay_out
from sizing.layout.formats import check_resharding
from sizing.layout.manifest import ManifestRow, SavedByRank, manifest, saved_by_rank, small_file_rows
from sizing.layout.sharding import Sharding
from sizing.layout.size import weights_bytes
from sizing.layout.trained_model import resolved_model, trained_adapters, trained_inventory
from sizing.model import ResolvedModel
from sizing.run.checkpoint import check_nodes_of_copies
from sizing.run.export import UNIVERSAL
from sizing.run.publication import stored_publications
from sizing.run.reduction import reduce_saves
from sizing.run.universal_checkpoint import universal_of
from sizing.run.workload import CheckpointWorkload, num_state_copies, save_defaults, with_offload, workload_of
from sizing.scenario import Scenario
from sizing.state.offload import Offload
from sizing.state.saved_state import RANK_PART
from sizing.storage.profile import StorageProfile
from sizing.storage.storage import resolve_storage
from sizing.training import GpuMemory, gpu_memory
from sizing.training.memory_search import CannotRun, MemoryQuestion, cannot_run, memory_warnings
from sizing.training.state_memory import saved_off_gpu

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
    """Model laid out on its nodes: what each rank holds and writes, and what that requires of GPUs and storage.

    `text` is that of the blocks that decide it, `layout_text`.
    """

    text: str
    model: ResolvedModel
    node: ResolvedNode
    checkpoint_layout: CheckpointLayout
    memory: GpuMemory
    workload: CheckpointWorkload
    question: MemoryQuestion
    parallelism: Parallelism

    @functools.cached_property
    def memory_warnings(self) -> tuple[str, ...]:
        """Warnings about the memory of the layout, beside what `cannot_run` says."""
        return tuple(memory_warnings(self.memory, self.question, self.parallelism))

    @functools.cached_property
    def cannot_run(self) -> Callable[[int], CannotRun | None]:
        """Explain why the layout cannot run, with the nearest one that can and has a min number of copies of the state.

        The search takes time.
        """

        @functools.cache
        def explain(min_copies: int) -> CannotRun | None:
            def has_copies(sharding: Sharding, parallelism: Parallelism) -> bool:
                gpus_per_node = self.node.spec.gpus_per_node
                return num_state_copies(sharding, parallelism, gpus_per_node=gpus_per_node) >= min_copies

            return cannot_run(self.memory, self.question.within(has_copies), self.parallelism)

        return explain


def size_layout(scenario: Scenario) -> SizedLayout:
    """Size the layout of a scenario, unless it is one of the last that were sized.

    Bytes to drives of the nodes do not pass their storage adapters. Raises InvalidInput as `report.answer` does.
    """
    scenario = with_rate_of_link(scenario)
    layout = _size_layout(_LayoutKey(layout_text(scenario), scenario))
    workload = _onto_storage(layout.workload, scenario)
    return layout if workload is layout.workload else replace(layout, workload=workload)


def _onto_storage(workload: CheckpointWorkload, scenario: Scenario) -> CheckpointWorkload:
    """The workload on the scenario's storage: past adapters to drives of nodes, and by processes as measured there."""
    storage = resolve_storage(scenario.storage)
    if storage is None:
        return workload
    if scenario.cluster.storage_nics is not None and storage.is_in_nodes:
        workload = workload.past_adapters
    return workload.without_processes if storage.measures_one_process else workload


def with_rate_of_link(scenario: Scenario) -> Scenario:
    """Set the offload link rate of a scenario's training by `on_measured_link`."""
    offload = scenario.training.offload
    if offload is None:
        return scenario
    training = scenario.training.model_copy(update={"offload": on_measured_link(offload, scenario)})
    return scenario.model_copy(update={"training": training})


def on_measured_link(offload: Offload, scenario: Scenario) -> Offload:
    """Set the link rate to the one that the storage measured for copies to the host, unless the offload gives one."""
    storage = resolve_storage(scenario.storage)
    rate = storage.profile.write.device_to_host_bytes_per_second if storage else None
    if rate is None or offload.link_bytes_per_second is not None:
        return offload
    return offload.model_copy(update={"link_bytes_per_second": rate})


def workload_anew(scenario: Scenario, profile: StorageProfile | None = None) -> CheckpointWorkload:
    """Compute the workload of a scenario's layout without caching it, for variants that nobody asks about again.

    `profile` has the rates at which it will be saved. Default: those of the scenario.

    Where nothing waits for the largest share of a rank or a node, whole shards are taken as shared evenly: the sum is
    the same, and to deal them takes longer than all the rest.
    Raises InvalidInput as `report.answer` does.
    """
    model, node = _resolve(scenario)
    checkpoint_layout = _lay_out(scenario, model, node, assigns_whole=waits_for_largest(scenario, profile))
    return _onto_storage(_compute_workload(scenario, model, node, checkpoint_layout), scenario)


def waits_for_largest(scenario: Scenario, profile: StorageProfile | None = None) -> bool:
    """Tell whether a save waits for the rank or the node that holds most: to copy, or at a rate of its own."""
    if scenario.checkpoint.mode == "async" or scenario.checkpoint.tiers:
        return True
    if scenario.cluster.storage_nics is not None or scenario.cluster.nodes:
        return True
    profile = profile or scenario.run_inputs.profile
    return profile is not None and profile.write.limits_one_unit


def layout_text(scenario: Scenario) -> str:
    """Return the blocks of a scenario that decide its layout, as given. Equal texts have equal layouts."""
    return scenario.model_dump_json(exclude=_AFTER_LAYOUT, exclude_unset=True)


def manifest_of(scenario: Scenario) -> Iterator[ManifestRow]:
    """Yield the files that the ranks of the scenario's checkpoint write, by name.

    Raises InvalidInput as `report.answer` does, and for worlds of more than 100,000 ranks.
    """
    layout = size_layout(scenario)
    return manifest(layout.checkpoint_layout, scenario.parallelism, gpus_per_node=layout.node.spec.gpus_per_node)


def every_file_of(scenario: Scenario) -> Iterator[ManifestRow]:
    """Yield the files of `manifest_of`, and the small ones after them."""
    layout = size_layout(scenario)
    num_ranks, gpus_per_node = scenario.parallelism.num_gpus, layout.node.spec.gpus_per_node
    small = small_file_rows(layout.checkpoint_layout.size, num_ranks=num_ranks, gpus_per_node=gpus_per_node)
    return chain(manifest_of(scenario), small)


def saved_by_rank_of(scenario: Scenario) -> SavedByRank:
    """Return every tensor that each rank of the scenario writes.

    Raises InvalidInput as `manifest_of` does.
    """
    layout = size_layout(scenario)
    return saved_by_rank(layout.checkpoint_layout, scenario.parallelism, gpus_per_node=layout.node.spec.gpus_per_node)


@dataclass(frozen=True, slots=True)
class _LayoutKey:
    """Cache key of a layout: the text of the blocks that decide it."""

    text: str
    scenario: Scenario = field(compare=False)


@functools.lru_cache(maxsize=LAYOUTS_KEPT)
def _size_layout(key: _LayoutKey) -> SizedLayout:
    scenario, training, parallelism = key.scenario, key.scenario.training, key.scenario.parallelism
    model, node = _resolve(scenario)
    checkpoint_layout = _lay_out(scenario, model, node)
    sharding, holders = checkpoint_layout.sharding, checkpoint_layout.holders
    memory = gpu_memory(training, parallelism, holders=holders, sharding=sharding, model=model, node=node)
    question = MemoryQuestion(scenario.model, training, saved_as=checkpoint_layout.saved_as, node=node)
    return SizedLayout(
        text=key.text,
        model=model,
        node=node,
        checkpoint_layout=checkpoint_layout,
        memory=memory,
        workload=_compute_workload(scenario, model, node, checkpoint_layout),
        question=question,
        parallelism=parallelism,
    )


def _resolve(scenario: Scenario) -> tuple[ResolvedModel, ResolvedNode]:
    model = resolved_model(scenario.model, scenario.training, scenario.parallelism)
    return model, resolve_node(scenario.cluster)


def _lay_out(
    scenario: Scenario, model: ResolvedModel, node: ResolvedNode, *, assigns_whole: bool = True
) -> CheckpointLayout:
    return lay_out(
        model,
        scenario.training,
        scenario.parallelism,
        node=node,
        cluster=scenario.cluster,
        checkpoint=scenario.checkpoint,
        assigns_whole=assigns_whole,
    )


def _compute_workload(
    scenario: Scenario, model: ResolvedModel, node: ResolvedNode, checkpoint_layout: CheckpointLayout
) -> CheckpointWorkload:
    workload = workload_of(
        checkpoint_layout,
        scenario.parallelism,
        node=node,
        restored=_restore_layout(scenario, model, node, checkpoint_layout),
        defaults=save_defaults(scenario.schema_version),
        cached_plans=scenario.checkpoint.cached_plans,
    )
    check_nodes_of_copies(scenario.checkpoint.tiers, num_nodes=workload.num_nodes)
    workload = with_offload(workload, checkpoint_layout, saved_off_gpu(scenario.training))
    export = scenario.checkpoint.export
    if export is not None and export.format == UNIVERSAL:
        inventory = trained_inventory(model.inventory, scenario.training)
        universal = universal_of(inventory, checkpoint_layout, scenario.training, scenario.parallelism)
        workload = replace(workload, exported_bytes=universal.num_bytes, universal=universal)
    elif export is not None:
        exported = model.inventory
        if export.content == "adapters":
            exported = trained_adapters(model.inventory, scenario.training)
        workload = replace(workload, exported_bytes=weights_bytes(exported, export.dtype))
    models = scenario.training.reinforcement
    if models is not None and models.publication is not None:
        published = stored_publications(models.publication, workload, scenario.training, model.inventory)
        workload = replace(workload, publications=published)
    return reduce_saves(
        workload,
        scenario.checkpoint.reduction,
        checkpoint_layout=checkpoint_layout,
        num_experts=model.num_experts,
        parallelism=scenario.parallelism,
    )


def _restore_layout(
    scenario: Scenario, model: ResolvedModel, node: ResolvedNode, save_layout: CheckpointLayout
) -> tuple[CheckpointLayout, Parallelism]:
    """Return the layout that restores, and its degrees: the one that saved, or `checkpoint.restore_parallelism`.

    Raises InvalidInput where the format cannot be read into it, or other ranks would read the errors of compressed
    gradients that belong to each rank.
    """
    degrees = scenario.checkpoint.restore_parallelism
    if degrees is None:
        return save_layout, scenario.parallelism
    if RANK_PART in save_layout.size.parts and degrees != scenario.parallelism:
        raise InvalidInput.of(
            "checkpoint.restore_parallelism",
            "must equal parallelism where ranks save errors of training.gradient_compression, each its own",
            value="other degrees",
            remedy="remove it, or set training.gradient_compression.saves_errors to false",
        )
    check_resharding(save_layout.saved_as, scenario.parallelism, degrees)
    cluster = scenario.cluster.without_counts
    try:
        return _lay_out(scenario.model_copy(update={"parallelism": degrees, "cluster": cluster}), model, node), degrees
    except InvalidInput as error:
        problems = (replace(problem, field=f"checkpoint.restore_{problem.field}") for problem in error.problems)
        raise InvalidInput(problems) from None
