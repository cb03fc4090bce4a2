"""Offload: the `offload` block of the report, and which tensors of a step to swap out."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass

from pydantic import Field

from sizing.cluster import ResolvedNode
from sizing.layout import CheckpointLayout, Parallelism
from sizing.layout.holders import HolderClass
from sizing.model import ResolvedModel
from sizing.state import Training
from sizing.state.offload import Offload
from sizing.strict_model import StrictModel
from sizing.training.activations import StageActivations, activations_of
from sizing.training.execution import execution_of
from sizing.training.gpu_memory import Peaks, gpu_memory, memory_by_rank
from sizing.training.in_flight import InFlight
from sizing.training.layer_activations import layer_activation_bytes
from sizing.training.state_memory import StateRule, host_traffic, state_bytes_off_gpu
from sizing.units import decimal_bytes_text, percent_text, seconds_text


def hidden_fraction(num_bytes: float, *, link_bytes_per_second: float, compute_seconds: float) -> float:
    """Return the max share of a layer's activations that is copied within the layer's forward pass: min(1, r t / B).

    Args: B bytes that a layer keeps of a microbatch; r rate of the link, one way; t seconds that the layer computes.
    Copies out and back in run beside different passes, so each has the link to itself; the backward pass takes longer
    than the forward pass, so what is hidden in one is hidden in the other.
    Source: Rhu et al. 2016, arXiv 1602.08124 (vDNN), section 3.3: offload of a layer's input overlaps its forward pass.

    >>> hidden_fraction(1e9, link_bytes_per_second=25e9, compute_seconds=0.02)
    0.5
    >>> hidden_fraction(0.0, link_bytes_per_second=25e9, compute_seconds=0.02)
    1.0
    """
    return min(1.0, link_bytes_per_second * compute_seconds / num_bytes) if num_bytes else 1.0


def exposed_seconds(num_bytes: float, *, link_bytes_per_second: float, compute_seconds: float) -> float:
    """Return the time for which computing waits for the copy of a layer: max(0, B / r - t).

    Args: as `hidden_fraction`, B the bytes that are copied.
    Source: Rhu et al. 2016, arXiv 1602.08124 (vDNN), section 3.3: the next layer begins when both have ended.

    >>> exposed_seconds(1e9, link_bytes_per_second=25e9, compute_seconds=0.03)
    0.010000000000000002
    """
    return max(0.0, num_bytes / link_bytes_per_second - compute_seconds)


class Offloaded(StrictModel):
    """The `offload` block of the report. Buffers for what is on its way are not counted, on either side."""

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


def offload_of(
    training: Training,
    parallelism: Parallelism,
    *,
    checkpoint_layout: CheckpointLayout,
    model: ResolvedModel,
    node: ResolvedNode,
    link_bytes_per_second: float | None,
    uncopied_fraction: float,
) -> Offloaded | None:
    """Return the `offload` block of the report; None where the scenario offloads nothing.

    Host bytes per parameter: what leaves the GPU, and with DeepSpeed and Megatron-LM fp32 gradients of the optimizer's
    own. Source: `offload` of the framework.
    """
    if training.offload is None:
        return None
    holders, sharding = checkpoint_layout.holders, checkpoint_layout.sharding
    rule = StateRule.of(training, sharding)
    with_it, without = (
        gpu_memory(asked, parallelism, holders=holders, sharding=sharding, model=model, node=node)
        for asked in (training, training.model_copy(update={"offload": None}))
    )
    traffic = host_traffic(
        training,
        parallelism,
        holders=holders,
        rule=rule,
        num_microbatches=without.num_microbatches or 1,
    )
    on_host, on_nvme = (
        state_bytes_off_gpu(training, parallelism, place=place, holders=holders, rule=rule)
        for place in ("host", "nvme")
    )
    waiting, layer = _activation_bytes(training, parallelism, holders=holders, rule=rule, model=model)
    moved = waiting * (training.offload.activations_fraction or 0.0)
    gpus, capacity = min(node.spec.gpus_per_node, parallelism.num_gpus), node.spec.local_nvme_bytes
    rate = training.offload.link_bytes_per_second or link_bytes_per_second
    step_bytes = traffic.state_bytes if traffic else 0.0
    return Offloaded(
        freed_bytes=without.needed_bytes - with_it.needed_bytes,
        host_bytes=round(gpus * (on_host + moved)),
        nvme_bytes=round(gpus * on_nvme),
        nvme_capacity_bytes=capacity,
        nvme_fits=None if capacity is None else gpus * on_nvme <= capacity,
        uncopied_fraction=uncopied_fraction,
        link_bytes_per_second=rate,
        state_step_bytes=round(step_bytes),
        state_step_seconds=None if rate is None else step_bytes / rate,
        **_layer_figures(layer, training.offload, rate),
    )


def _activation_bytes(
    training: Training,
    parallelism: Parallelism,
    *,
    holders: Sequence[HolderClass],
    rule: StateRule,
    model: ResolvedModel,
) -> tuple[float, float | None]:
    """Return the bytes of activations that can leave the fullest GPU, and the max that one layer keeps of a microbatch.

    All that waits for the backward pass can leave but the logits, with which that pass begins. 0 and None where
    activations are not counted.
    """
    execution, activations = execution_of(training, parallelism), activations_of(model, training, parallelism)
    if execution is None or activations is None:
        return 0.0, None
    stages = StageActivations(activations, parallelism=parallelism, execution=execution)
    gpus = memory_by_rank(holders, rule, execution, lambda span: Peaks(stages.of_stage(span), InFlight()))
    layers = (
        layer_activation_bytes(kind.kept, hidden_bytes=activations.hidden_bytes, execution=execution)[0]
        for kind in activations.kinds
    )
    return max(each.peaks.held.kept for each in gpus), max(layers)


def _layer_figures(kept: float | None, offload: Offload, rate: float | None) -> dict[str, int | float | None]:
    """Return the report's fields about the activations of one layer and their copy over the link."""
    seconds, fraction = offload.layer_seconds, offload.activations_fraction
    copied = hidden = exposed = None
    if kept is not None and rate is not None:
        copied = kept / rate
        if seconds is not None:
            hidden = hidden_fraction(kept, link_bytes_per_second=rate, compute_seconds=seconds)
        if seconds is not None and fraction is not None:
            exposed = exposed_seconds(fraction * kept, link_bytes_per_second=rate, compute_seconds=seconds)
    return {
        "layer_activation_bytes": None if kept is None else round(kept),
        "layer_copy_seconds": copied,
        "hidden_fraction": hidden,
        "exposed_seconds": exposed,
    }


def offload_warnings(found: Offloaded | None, *, mode: str) -> Iterator[str]:
    """Warn about what is offloaded and about its copies."""
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


@dataclass(frozen=True, slots=True)
class KeptTensor:
    """Tensor that the forward pass makes at one time of a step, and that the backward pass uses at another."""

    num_bytes: float
    made_seconds: float
    used_seconds: float

    @property
    def absence_seconds(self) -> float:
        """How long the tensor is not needed on the GPU."""
        return self.used_seconds - self.made_seconds


Score = Callable[[KeptTensor], float]


def duration_of_absence(tensor: KeptTensor) -> float:
    """Return AutoSwap's duration of absence (DOA): how long nobody needs the tensor.

    Source: Zhang et al. 2019, arXiv 1903.06631, section 4.2; Le et al. 2018, arXiv 1807.02037, section 4, which swaps
    what is used furthest behind where it is made.

    >>> duration_of_absence(KeptTensor(8.0, 1.0, 4.0))
    3.0
    """
    return tensor.absence_seconds


def area_of_absence(tensor: KeptTensor) -> float:
    """Return AutoSwap's area of absence (AOA): bytes times the time for which nobody needs them.

    Source: Zhang et al. 2019, arXiv 1903.06631, section 4.2.

    >>> area_of_absence(KeptTensor(8.0, 1.0, 4.0))
    24.0
    """
    return tensor.num_bytes * tensor.absence_seconds


def peak_bytes(tensors: Sequence[KeptTensor], swapped: Collection[int] = ()) -> float:
    """Return the max bytes of tensors on the GPU in a step. A swapped one is there only when it is made and when used.

    Source: definition.

    >>> peak_bytes(chain := [KeptTensor(4.0, 0, 5), KeptTensor(4.0, 1, 4), KeptTensor(4.0, 2, 3)])
    12.0
    >>> peak_bytes(chain, {0})
    8.0
    """

    def held(at_seconds: float) -> float:
        bytes_there = 0.0
        for number, tensor in enumerate(tensors):
            ends = (tensor.made_seconds, tensor.used_seconds)
            if at_seconds in ends or (number not in swapped and ends[0] <= at_seconds <= ends[1]):
                bytes_there += tensor.num_bytes
        return bytes_there

    times = {seconds for tensor in tensors for seconds in (tensor.made_seconds, tensor.used_seconds)}
    return max(map(held, times), default=0.0)


def choose_to_swap_out(tensors: Sequence[KeptTensor], *, room_bytes: float, score: Score) -> tuple[int, ...] | None:
    """The tensors with the highest score, as few as leave no more than the room; None where swapping all is too little.

    Of equal scores the one that is made first goes.
    Source: Zhang et al. 2019, arXiv 1903.06631, section 4.3, for one limit of memory.

    >>> choose_to_swap_out(chain_of([4.0, 4.0, 4.0]), room_bytes=8.0, score=duration_of_absence)
    (0,)
    """
    order = sorted(range(len(tensors)), key=lambda i: (-score(tensors[i]), tensors[i].made_seconds))
    for count in range(len(order) + 1):
        if peak_bytes(tensors, set(order[:count])) <= room_bytes:
            return tuple(order[:count])
    return None


def chain_of(layer_bytes: Sequence[float]) -> list[KeptTensor]:
    """Return the tensors of a chain of layers: one per time unit, made in order and used in reverse."""
    last = 2 * len(layer_bytes) - 1
    return [KeptTensor(num_bytes, float(i), float(last - i)) for i, num_bytes in enumerate(layer_bytes)]
