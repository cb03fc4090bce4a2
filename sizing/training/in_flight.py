"""Bytes that a GPU holds for a short time beside state and activations: gathered weights, gradients, buffers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from sizing.frameworks import FRAMEWORKS, base_dtype
from sizing.layout.parallelism import Parallelism
from sizing.layout.sharding import Sharding, zero_stage_of
from sizing.layout.stages import StageSpan
from sizing.layout.trained_model import trained_inventory
from sizing.model.inventory import Inventory, TensorGroup, num_parameters
from sizing.state import Training
from sizing.state.optimizers import is_row_wise
from sizing.state.scaled_dtypes import QUANTIZED_BYTES
from sizing.training.execution import value_bytes


class Gathered(NamedTuple):
    """Bytes of the parameters that a GPU gathers whole at one time, and the sentence that says so."""

    num_bytes: int
    text: str


def gathered_of(
    inventory: Inventory, training: Training, parallelism: Parallelism, sharding: Sharding
) -> Gathered | None:
    """Return what FSDP or ZeRO 3 gathers at one time; None where the model is not sharded over several ranks.

    What the stages of a pipeline keep gathered is counted in their memory. Of a mere count nothing is known to be. Of
    FSDP it is the most of what `in_flight_of` counts of a step. Tables with a row-wise optimizer are TorchRec's, which
    looks rows up where they lie. Source: gathered_by_fsdp, gathered_by_zero3.

    >>> from sizing.layout.sharding import sharding_of
    >>> training, parallelism = Training(framework="fsdp2"), Parallelism(data=2)
    >>> layers = (TensorGroup("w", (4, 3), 4, layers=range(2)),)
    >>> gathered_of(layers, training, parallelism, sharding_of(training, parallelism)).num_bytes
    120
    """
    inventory = tuple(group for group in trained_inventory(inventory, training) if group.placement != "spread")
    if is_row_wise(training.optimizer):
        inventory = tuple(group for group in inventory if group.role != "embedding")
    match sharding.gathers if inventory else "nothing":
        case "layers":
            moments = gathered_by_fsdp(inventory, training, parallelism)
            text = "FSDP gathers embedding, head and two layers, and has gradients of these and of one layer, at a time"
            return Gathered(round(max(moments.loss, moments.layer, moments.end)), text)
        case "modules":
            return gathered_by_zero3(inventory, value_bytes=value_bytes(training), tensor=parallelism.tensor)
        case "stages" | "nothing":
            return None


def trained(inventory: Inventory) -> Inventory:
    """Select the tensors that are trained, which alone have gradients."""
    return tuple(group for group in inventory if group.is_trained)


def largest_layer(inventory: Inventory, parallelism: Parallelism) -> int:
    """Count the parameters that a rank has of the largest layer, not divided over FSDP's ranks.

    Source: definition.

    >>> from sizing.model.inventory import TensorGroup
    >>> largest_layer((TensorGroup("w", (4, 3), 4, layers=range(2)),), Parallelism(tensor=2))
    6
    """
    in_layers = [group for group in inventory if group.placement == "layers" and group.layers]
    layers = np.zeros(max((group.layers[-1] + 1 for group in in_layers), default=1))
    for group in in_layers:
        each = group.num_parameters // len(group.layers)
        layers[np.asarray(group.layers)] += each / _num_cuts(group, parallelism)
    return int(layers.max())


def outside_layers(inventory: Inventory, parallelism: Parallelism) -> int:
    """Count the parameters that a rank has of FSDP's root: embeddings, last norm and head, not divided over its ranks.

    Source: torchtitan, parallelize.py, apply_fsdp, which shards the layers one by one and then the model.

    >>> from sizing.model.inventory import TensorGroup
    >>> outside_layers((TensorGroup("head", (4, 3), 4, "last-stage"),), Parallelism(tensor=2))
    6
    """
    outside = (group for group in inventory if group.placement not in ("layers", "spread"))
    return int(sum(group.num_parameters / _num_cuts(group, parallelism) for group in outside))


def _num_cuts(group: TensorGroup, parallelism: Parallelism) -> int:
    """Count the tensor and expert ranks that divide a group."""
    if group.experts:
        return parallelism.expert * min(group.pieces, parallelism.expert_tensor_degree)
    return min(group.pieces, parallelism.tensor)


def gathered_by_zero3(inventory: Inventory, *, value_bytes: int, tensor: int) -> Gathered:
    """Return what ZeRO 3 gathers at one time: w (P + T), the largest tensor and gradients of the largest trained one.

    P and T are parameters on a tensor rank, w bytes a value.

    Source: DeepSpeed documentation, Memory Requirements, `estimate_zero3_model_states_mem_needs`: 4 bytes for each of
    the largest layer's parameters, where a layer is a module with parameters of its own.

    >>> from sizing.model.inventory import TensorGroup
    >>> gathered_by_zero3((TensorGroup("w", (4, 3), 4, layers=range(2)),), value_bytes=2, tensor=2).num_bytes
    24
    """
    num_gathered = sum(
        max((-(-group.tensor_parameters // min(tensor, group.pieces)) for group in some), default=0)
        for some in (inventory, trained(inventory))
    )
    return Gathered(value_bytes * num_gathered, "ZeRO 3 gathers the weights and gradients of one module at a time")


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
    """Return the bytes in flight on a GPU of a stage, as its framework gathers and reduces.

    `inventory` is that of the model; what of it is trained, and which adapters are, follows from `training`.
    Source: in_flight_of_fsdp, gathered_by_zero3, DEEPSPEED_BUCKET, dummy_gradient_bytes, dequantised_bytes.
    """
    if training.adapters is not None or training.frozen:  # a model of which only a count is known is gathered nowhere
        inventory = tuple(g for g in trained_inventory(inventory, training) if g.placement != "spread")
    w, is_quantised = value_bytes(training), base_dtype(training) in QUANTIZED_BYTES
    matrix = dequantised_bytes(inventory, parallelism, value_bytes=w) if is_quantised else 0.0
    framework = FRAMEWORKS[training.framework]
    if framework.gradient_exchange == "fused":
        return InFlight(buffers=dummy_gradient_bytes(span, inventory, parallelism, value_bytes=w))
    if framework.gradient_exchange == "buckets":
        num_trained = num_parameters(trained(inventory))
        bucket = w * min(DEEPSPEED_BUCKET, num_trained) if zero_stage_of(parallelism) else 0.0
        if sharding.gathers != "modules":
            return InFlight(layer=matrix, buffers=bucket)
        module = gathered_by_zero3(inventory, value_bytes=w, tensor=parallelism.tensor).num_bytes
        return InFlight(loss=module, layer=module + matrix, end=module, buffers=bucket)
    if framework.gradient_exchange == "copies" and sharding.gathers == "nothing":
        # torch/nn/parallel/distributed.py: buckets are a copy of the gradients unless gradient_as_bucket_view is set.
        num_trained = num_parameters(trained(inventory))
        each = framework.keeps[training.precision].gradient_bytes
        return InFlight(layer=matrix, buffers=each * num_trained if parallelism.num_replicas > 1 else 0.0)
    if sharding.gathers == "layers":
        return gathered_by_fsdp(inventory, training, parallelism)
    return InFlight(layer=matrix)


def gathered_by_fsdp(inventory: Inventory, training: Training, parallelism: Parallelism) -> InFlight:
    """Return what FSDP holds whole at each moment of a step, and the one dequantised matrix in a layer.

    Source: in_flight_of_fsdp, dequantised_bytes.

    >>> from sizing.model.inventory import TensorGroup
    >>> layers = (TensorGroup("w", (4, 3), 4, layers=range(2)),)
    >>> [gathered_by_fsdp(layers, Training(framework="fsdp2"), Parallelism(tensor=t)).layer for t in (1, 2)]
    [120.0, 60.0]
    """
    w, of_base = value_bytes(training), QUANTIZED_BYTES.get(base_dtype(training) or "")
    reduced = FRAMEWORKS[training.framework].keeps[training.precision].gradient_bytes
    beside = in_flight_of_fsdp(
        inventory, parallelism, value_bytes=w, reduced_bytes=reduced, frozen_matrix_bytes=of_base
    )
    matrix = 0.0 if of_base is None else dequantised_bytes(inventory, parallelism, value_bytes=w)
    return replace(beside, layer=beside.layer + matrix)


def in_flight_of_fsdp(
    inventory: Inventory,
    parallelism: Parallelism,
    *,
    value_bytes: int,
    reduced_bytes: int,
    frozen_matrix_bytes: float | None = None,
) -> InFlight:
    """Return what FSDP2 holds whole, with a rank's R parameters outside the layers and P in the largest layer.

    At the loss w (R + P): the root is not resharded after the forward pass, nor the last layer. In a layer's backward
    pass w (R + 2 P) weights, as the next layer is fetched meanwhile, w (R + P) gradients and r P of what is reduced.
    After it (2 w + r) R. w bytes a value, r a value that is reduced. Only trained parameters have gradients, and frozen
    matrices of layers are gathered as they are kept, if in `frozen_matrix_bytes` a value.
    Source: PyTorch, torch/distributed/fsdp/_fully_shard: _fsdp_state.py, _lazy_init; _fsdp_param_group.py,
    post_backward; _fsdp_collectives.py, foreach_reduce.

    >>> from sizing.model.inventory import TensorGroup
    >>> model = (TensorGroup("w", (4, 3), 4, layers=range(2)), TensorGroup("head", (5, 2), 5, "last-stage"))
    >>> in_flight_of_fsdp(model, Parallelism(), value_bytes=2, reduced_bytes=4)
    InFlight(loss=44.0, layer=160.0, end=80.0, buffers=0.0)
    """
    w, r = value_bytes, reduced_bytes
    with_gradients = trained(inventory)
    root, layer = (float(w * count(inventory, parallelism)) for count in (outside_layers, largest_layer))
    if frozen_matrix_bytes is not None:
        layer -= (w - frozen_matrix_bytes) * largest_layer(frozen_matrices(inventory), parallelism)
    trained_root, trained_layer = (count(with_gradients, parallelism) for count in (outside_layers, largest_layer))
    return InFlight(
        loss=float(root + layer),
        layer=float(root + 2 * layer + w * (trained_root + trained_layer) + r * trained_layer),
        end=float(root + (w + r) * trained_root),
    )


def frozen_matrices(inventory: Inventory) -> Inventory:
    """Select the matrices of layers that are not trained, and of them those that are quantised."""
    return tuple(group for group in inventory if group.role == "hidden-matrix" and not group.is_trained)


def dequantised_bytes(inventory: Inventory, parallelism: Parallelism, *, value_bytes: int) -> float:
    """Return the bytes of the one quantised matrix that a product needs in 16 bits, the largest: w P.

    Source: bitsandbytes 0.50, autograd/_functions.py, MatMul4Bit, which dequantises the weight for each product.

    >>> from sizing.model.inventory import TensorGroup
    >>> base = TensorGroup("ffn.up", (8, 4), 8, layers=range(3), is_trained=False)
    >>> dequantised_bytes((base,), Parallelism(), value_bytes=2)
    64.0
    """
    sizes = (
        group.tensor_parameters
        / min(group.pieces, parallelism.expert_tensor_degree if group.experts else parallelism.tensor)
        for group in frozen_matrices(inventory)
    )
    return value_bytes * max(sizes, default=0.0)


def dummy_gradient_bytes(span: StageSpan, inventory: Inventory, parallelism: Parallelism, *, value_bytes: int) -> float:
    """Return the bytes of stand-ins for gradients that Megatron's fused accumulation gives to autograd, one per shape.

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
    held.discard("embedding")  # it is looked up in, and gets its gradient from autograd
    matrices = (g for g in inventory if g.name in held and len(g.shape) > 1 and g.placement != "spread")
    return value_bytes * sum(
        group.count * group.tensor_parameters / min(group.pieces, parallelism.expert_tensor_degree)
        if group.experts
        else group.count * group.tensor_parameters / min(group.pieces, parallelism.tensor)
        for group in matrices
    )
