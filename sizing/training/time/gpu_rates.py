"""What a GPU and its links achieve in a training: rates of products, attention, memory and exchange."""

from __future__ import annotations

from dataclasses import dataclass

from sizing.cluster import ResolvedNode
from sizing.cluster.gpu import Gpu, gpu_catalog, gpu_named
from sizing.errors import InvalidInput
from sizing.state import Training
from sizing.training.time.achieved import BLOCK_SCALED_OVER_BF16, FP8_OF_BF16, AchievedRates
from sizing.training.time.links import Links


@dataclass(frozen=True, slots=True)
class GpuRates:
    """Rates of a GPU as achieved."""

    layer_flops: float
    expert_flops: float
    head_flops: float
    attention_flops: float
    memory_bytes_per_second: float
    peak_flops: float


def gpu_rates(training: Training, name: str, rates: AchievedRates) -> GpuRates:
    """In 8 and 4 bits the products of layers alone; in fp32 the tensor cores' TF32, half of bf16.

    Raises InvalidInput for a format of blocks that the GPU does not compute in.
    """
    gpu = gpu_named(name)
    peak = gpu.bf16_flops_per_second
    of_layers, share = peak, 1.0
    if training.precision == "fp8-mixed" and gpu.fp8_flops_per_second is not None:
        of_layers, share = gpu.fp8_flops_per_second, FP8_OF_BF16
    elif training.precision in BLOCK_SCALED_OVER_BF16:
        _check_block_scales(training, gpu)
        share = BLOCK_SCALED_OVER_BF16[training.precision]
    elif training.precision == "fp32":
        of_layers = peak = peak / 2
    return GpuRates(
        layer_flops=of_layers * share * rates.matrices,
        expert_flops=of_layers * share * rates.experts,
        head_flops=peak * rates.matrices,
        attention_flops=peak * rates.attention,
        memory_bytes_per_second=gpu.memory_bytes_per_second * rates.memory,
        peak_flops=gpu.bf16_flops_per_second,
    )


def _check_block_scales(training: Training, gpu: Gpu) -> None:
    if not gpu.has_block_scales:
        able = ", ".join(each.name for each in gpu_catalog().values() if each.has_block_scales)
        raise InvalidInput.of(
            "training.precision",
            f"must be one in which {gpu.name} computes; matrix products with a scale for each block need {able}",
            value=training.precision,
            remedy="take fp8-mixed or bf16-mixed, or other nodes",
        )


def links_of(node: ResolvedNode, rates: AchievedRates) -> Links:
    """What exchanges of the node's GPUs achieve over their links and its adapters."""
    gpu = gpu_named(node.spec.gpu or "")
    network = node.spec.compute_network_bytes_per_second
    return Links(
        gpus_per_node=node.spec.gpus_per_node,
        gpus_per_domain=node.spec.num_linked_gpus,
        link_bytes_per_second=gpu.link_bytes_per_second * rates.links,
        node_bytes_per_second=float("inf") if network is None else network * rates.network,
    )
