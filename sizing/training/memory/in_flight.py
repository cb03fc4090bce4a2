"""What a GPU holds for a moment beside state and activations: gathered weights, gradients on their way, buffers."""

from __future__ import annotations

from dataclasses import dataclass

from sizing.layout import Parallelism
from sizing.layout.sharding import Sharding, zero_stage_of
from sizing.layout.stages import StageSpan
from sizing.model.inventory import Inventory, TensorGroup
from sizing.state import Training
from sizing.training.execution import value_bytes
from sizing.training.memory.gathered import gathered_by_zero3, largest_layer, outside_layers
from sizing.training.memory.state_memory import GRADIENT_BYTES_PER_PARAMETER

DEEPSPEED_BUCKET = 500_000_000
"""Gradients that ZeRO reduces at a time. Source: DeepSpeed documentation, ZeRO, reduce_bucket_size."""


@dataclass(frozen=True, slots=True)
class InFlight:
    """Bytes beside state and activations: at the loss, in a layer's backward pass, after the last one, and always."""

    loss: float = 0.0
    layer: float = 0.0
    end: float = 0.0
    buffers: float = 0.0


def in_flight_of(
    span: StageSpan, inventory: Inventory, training: Training, parallelism: Parallelism, sharding: Sharding
) -> InFlight:
    """What a GPU of a stage holds for a moment, as its framework gathers and reduces.

    Source: in_flight_of_fsdp, gathered_by_zero3, DEEPSPEED_BUCKET, dummy_gradient_bytes.
    """
    w = value_bytes(training)
    if training.framework == "megatron":
        return InFlight(buffers=dummy_gradient_bytes(span, inventory, parallelism, value_bytes=w))
    if training.framework == "deepspeed":
        return _of_deepspeed(inventory, training, parallelism, sharding)
    if sharding.gathers == "layers":
        reduced = GRADIENT_BYTES_PER_PARAMETER[training.framework, training.precision]
        return in_flight_of_fsdp(inventory, parallelism, value_bytes=w, reduced_bytes=reduced)
    return InFlight()


def in_flight_of_fsdp(
    inventory: Inventory, parallelism: Parallelism, *, value_bytes: int, reduced_bytes: int
) -> InFlight:
    """What FSDP2 holds whole, with R parameters outside the layers and P in the largest layer, as a rank has of them.

    At the loss w (R + P): the root is not resharded after the forward pass, nor the last layer. In a layer's backward
    pass w (R + 2 P) weights, as the next layer is fetched meanwhile, w (R + P) gradients and r P of what is reduced.
    After it (2 w + r) R. w bytes a value, r a value that is reduced.
    Source: PyTorch, torch/distributed/fsdp/_fully_shard: _fsdp_state.py, _lazy_init; _fsdp_param_group.py,
    post_backward; _fsdp_collectives.py, foreach_reduce.

    >>> from sizing.model.inventory import TensorGroup
    >>> model = (TensorGroup("w", (4, 3), 4, layers=range(2)), TensorGroup("head", (5, 2), 5, "last-stage"))
    >>> in_flight_of_fsdp(model, Parallelism(), value_bytes=2, reduced_bytes=4)
    InFlight(loss=44.0, layer=160.0, end=80.0, buffers=0.0)
    """
    w, r = value_bytes, reduced_bytes
    root, layer = outside_layers(inventory, parallelism), largest_layer(inventory, parallelism)
    return InFlight(
        loss=float(w * (root + layer)),
        layer=float(w * (root + 2 * layer) + w * (root + layer) + r * layer),
        end=float((2 * w + r) * root),
    )


def _of_deepspeed(inventory: Inventory, training: Training, parallelism: Parallelism, sharding: Sharding) -> InFlight:
    w = value_bytes(training)
    trained = sum(group.num_parameters for group in inventory if group.is_trained)
    bucket = w * min(DEEPSPEED_BUCKET, trained) if zero_stage_of(parallelism) else 0.0
    if sharding.gathers != "modules":
        return InFlight(buffers=bucket)
    module = gathered_by_zero3(inventory, value_bytes=w, tensor=parallelism.tensor).num_bytes
    return InFlight(loss=module, layer=module, end=module, buffers=bucket)


def dummy_gradient_bytes(span: StageSpan, inventory: Inventory, parallelism: Parallelism, *, value_bytes: int) -> float:
    """Stand-ins that Megatron's fused accumulation returns to autograd in place of gradients: one for each shape.

    w bytes for each parameter that a rank has of one layer's matrices and of the head, of experts one's; where the
    layers of a stage differ, of one of each kind.
    Source: Transformer Engine 2.3 and later, pytorch/module/base.py, get_dummy_wgrad; Megatron-LM,
    core/tensor_parallel/layers.py, which calls it for the head; MooreThreads/SimuMax, _record_te_dummy_wgrad_shape.

    >>> from sizing.layout.stages import stage_spans
    >>> model = (TensorGroup("up", (30, 4), 30, layers=range(5), count=2), TensorGroup("embedding", (9, 4), 9))
    >>> [span] = stage_spans(model, Parallelism(tensor=3), num_layers=5)
    >>> dummy_gradient_bytes(span, model, Parallelism(tensor=3), value_bytes=2)
    160.0
    """
    held = {holding.name for holding in span.holdings if holding.is_trained}
    matrices = (group for group in inventory if group.name in held and len(group.shape) > 1 and not _is_table(group))
    return value_bytes * sum(
        group.count * group.tensor_parameters / min(group.pieces, parallelism.expert_tensor_degree)
        if group.experts
        else group.count * group.tensor_parameters / min(group.pieces, parallelism.tensor)
        for group in matrices
    )


def _is_table(group: TensorGroup) -> bool:
    """Whether it is looked up in, and gets its gradient from autograd."""
    return group.name == "embedding" or group.placement == "spread"
