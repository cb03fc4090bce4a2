"""The `offload` block of the report: what lies off the GPU, where, and what its copies take."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict, Field

from sizing.cluster import ResolvedNode
from sizing.layout import LaidOut, Parallelism
from sizing.layout.cells import Cell
from sizing.model import ResolvedModel
from sizing.state import Training
from sizing.state.offload import Offload
from sizing.training.execution import execution_of
from sizing.training.memory.activations import activations_of
from sizing.training.memory.gpu_memory import GpuMemory, gpu_memory
from sizing.training.memory.host_bytes import host_traffic, state_bytes_off_gpu
from sizing.training.memory.hosted import hosted
from sizing.training.memory.in_flight import InFlight
from sizing.training.memory.layer_activations import layer_activation_bytes
from sizing.training.memory.moments import Moments
from sizing.training.memory.stage_activations import StageActivations
from sizing.training.memory.state_memory import StateRule
from sizing.training.offload.link import exposed_seconds, hidden_fraction
from sizing.units import decimal_bytes_text, percent_text, seconds_text


class Offloaded(BaseModel):
    """The `offload` block of the report. Buffers for what is on its way are not counted, on either side."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    freed_bytes: int = Field(description="Bytes that the fullest GPU holds less than without training.offload.")
    host_bytes: int = Field(
        description="Bytes of state and activations that the GPUs of one node keep in host memory, each as much as the "
        "fullest."
    )
    nvme_bytes: int = Field(
        description="Bytes of state that the GPUs of one node keep on its NVMe drives, each as much as the fullest."
    )
    nvme_capacity_bytes: int | None = Field(
        description="Capacity of the NVMe drives of one node, in bytes. Null when the node does not say."
    )
    nvme_fits: bool | None = Field(description="Whether nvme_bytes fit these drives. Null without nvme_capacity_bytes.")
    uncopied_fraction: float = Field(
        description="Fraction of a checkpoint's bytes that lie off the GPU when a save begins, and that no copy from "
        "the GPU stalls training for."
    )
    link_bytes_per_second: float | None = Field(
        description="Rate at which one GPU copies to its host, in bytes per second. "
        "Null when neither storage.profile nor the node says it."
    )
    state_step_bytes: int = Field(
        description="Bytes of gradients and weights that pass the link of one GPU in a step, both ways; of one "
        "microbatch without global_batch_size."
    )
    state_step_seconds: float | None = Field(
        description="Seconds that these take where nothing else overlaps. Null without a rate of the link."
    )
    layer_activation_bytes: int | None = Field(
        description="Bytes that the layer with the max of them keeps of one microbatch. "
        "Null when activations are not counted."
    )
    layer_copy_seconds: float | None = Field(
        description="Seconds that the link takes for all of a layer's activations. Null without a rate of the link."
    )
    hidden_fraction: float | None = Field(
        description="Max fraction of a layer's activations whose copy hides behind the layer's own forward pass. "
        "Null without training.offload.layer_seconds."
    )
    exposed_seconds: float | None = Field(
        description="Seconds of each layer's copy that computing waits for, with the fraction that is offloaded. "
        "Null without training.offload.layer_seconds and activations_fraction."
    )


@dataclass(frozen=True, slots=True)
class _Asked:
    """A scenario's training on its layout, and what it offloads."""

    training: Training
    offload: Offload
    parallelism: Parallelism
    laid_out: LaidOut
    model: ResolvedModel
    node: ResolvedNode

    @property
    def rule(self) -> StateRule:
        """What a parameter takes without offload."""
        return StateRule.of(self.training, self.laid_out.sharding)

    @property
    def cells(self) -> Sequence[Cell]:
        """The ranks of one replica."""
        return self.laid_out.cells

    def memory(self, training: Training) -> GpuMemory:
        """Of the fullest GPU."""
        sharding = self.laid_out.sharding
        return gpu_memory(
            training, self.parallelism, cells=self.cells, sharding=sharding, model=self.model, node=self.node
        )


def offloaded(
    training: Training,
    parallelism: Parallelism,
    *,
    laid_out: LaidOut,
    model: ResolvedModel,
    node: ResolvedNode,
    link_bytes_per_second: float | None,
    uncopied_fraction: float,
) -> Offloaded | None:
    """The block of a scenario; None where it offloads nothing.

    Host bytes per parameter: what leaves the GPU, and with DeepSpeed and Megatron-LM fp32 gradients of the optimizer's
    own. Source: `placement.OFFLOAD_RULES`.
    """
    if training.offload is None:
        return None
    asked = _Asked(training, training.offload, parallelism, laid_out, model, node)
    with_it = asked.memory(training)
    without = asked.memory(training.model_copy(update={"offload": None}))
    moved = _activation_bytes(asked) * (training.offload.activations_fraction or 0.0)
    gpus, nvme = _gpus_of_a_node(asked), _state_bytes(asked, "nvme")
    link_bytes_per_second = training.offload.link_bytes_per_second or link_bytes_per_second
    capacity = node.spec.local_nvme_bytes
    step_bytes = _state_step_bytes(asked, without)
    return Offloaded(
        freed_bytes=without.needed_bytes - with_it.needed_bytes,
        host_bytes=round(gpus * (_state_bytes(asked, "host") + moved)),
        nvme_bytes=round(gpus * nvme),
        nvme_capacity_bytes=capacity,
        nvme_fits=None if capacity is None else gpus * nvme <= capacity,
        uncopied_fraction=uncopied_fraction,
        link_bytes_per_second=link_bytes_per_second,
        state_step_bytes=round(step_bytes),
        state_step_seconds=None if link_bytes_per_second is None else step_bytes / link_bytes_per_second,
        **_layer_figures(asked, link_bytes_per_second),
    )


def _gpus_of_a_node(asked: _Asked) -> int:
    return min(asked.node.spec.gpus_per_node, asked.parallelism.num_gpus)


def _state_bytes(asked: _Asked, place: str) -> float:
    """Bytes of state of one rank that lie in a place off the GPU."""
    return state_bytes_off_gpu(asked.training, asked.parallelism, place=place, cells=asked.cells, rule=asked.rule)


def _state_step_bytes(asked: _Asked, without: GpuMemory) -> float:
    """Bytes of state that pass a GPU's link in a step."""
    traffic = host_traffic(
        asked.training,
        asked.parallelism,
        cells=asked.cells,
        rule=asked.rule,
        num_microbatches=without.num_microbatches or 1,
        computes_again=without.recomputation == "full",
    )
    return traffic.state_bytes if traffic else 0.0


def _layer_figures(asked: _Asked, rate: float | None) -> dict[str, int | float | None]:
    """Of the activations of one layer."""
    kept = _layer_bytes(asked)
    copied = None if kept is None or rate is None else kept / rate
    seconds, fraction = asked.offload.layer_seconds, asked.offload.activations_fraction
    hidden = exposed = None
    if kept is not None and rate is not None and seconds is not None:
        hidden = hidden_fraction(kept, link_bytes_per_second=rate, compute_seconds=seconds)
        if fraction is not None:
            exposed = exposed_seconds(fraction * kept, link_bytes_per_second=rate, compute_seconds=seconds)
    return {
        "layer_activation_bytes": None if kept is None else round(kept),
        "layer_copy_seconds": copied,
        "hidden_fraction": hidden,
        "exposed_seconds": exposed,
    }


def _activation_bytes(asked: _Asked) -> float:
    """What can leave the fullest GPU: all that waits for the backward pass but the logits, which it begins with."""
    execution = execution_of(asked.training, asked.parallelism)
    activations = activations_of(asked.model, asked.training, asked.parallelism)
    if execution is None or activations is None:
        return 0.0
    stages = StageActivations(activations, parallelism=asked.parallelism, execution=execution)
    gpus = hosted(asked.cells, asked.rule, execution, lambda span: Moments(stages.of_stage(span), InFlight()))
    return max(each.moments.held.kept for each in gpus)


def _layer_bytes(asked: _Asked) -> float | None:
    execution = execution_of(asked.training, asked.parallelism)
    activations = activations_of(asked.model, asked.training, asked.parallelism)
    if execution is None or activations is None:
        return None
    hidden = activations.hidden_bytes
    return max(layer_activation_bytes(k.kept, hidden_bytes=hidden, execution=execution)[0] for k in activations.kinds)


def offload_warnings(found: Offloaded | None, *, mode: str) -> Iterator[str]:
    """What a reader must know of what is offloaded, and of its copies."""
    if found is None:
        return
    if found.nvme_fits is False:
        yield (
            f"training.offload keeps {decimal_bytes_text(found.nvme_bytes)} on the drives of a node, which have "
            f"{decimal_bytes_text(found.nvme_capacity_bytes or 0)}. Offload less, or use more nodes"
        )
    if found.nvme_bytes and found.uncopied_fraction:
        yield "A save reads the state on NVMe drives before it writes it elsewhere. That time is not counted"
    if found.exposed_seconds:
        yield (
            f"The copy of a layer's activations takes {seconds_text(found.exposed_seconds)} longer than the layer: "
            f"training.offload.activations_fraction up to {percent_text(found.hidden_fraction or 0.0)} is hidden"
        )
    if mode == "async" and found.uncopied_fraction:
        share = percent_text(found.uncopied_fraction)
        yield (
            f"{share} of the checkpoint lies off the GPU already: no GPU's link carries it in a save. It is staged in "
            "host memory all the same, as the next step changes it. That copy takes no time here"
        )
