"""Which tensors the operations of a layer keep for the backward pass, by how they are implemented."""

from __future__ import annotations

from dataclasses import dataclass

from sizing.state import Training

FP32_BYTES = 4
"""Norms compute in fp32."""


@dataclass(frozen=True, slots=True)
class Kernels:
    """An implementation of the operations between matrix products.

    `fp32_norm_inputs`: whether a norm keeps its input in fp32, and beside it the normed value before the weight.
    `keeps_products`: whether what goes into a matrix product is kept where norms and activation functions make it.
    `gated_tensors`, `plain_tensors`: of the inner width, kept by a feed-forward block with and without a gate.
    `expert_copies`: of a token, kept by each expert that it passes through. `keeps_gathered`: whether a tensor rank
    keeps what it gathered from the others for a matrix product, and not its share of it alone.
    Statistics of rows (norms, attention) are left out: 4 bytes beside thousands.
    """

    fp32_norm_inputs: bool
    keeps_products: bool
    gated_tensors: int
    plain_tensors: int
    expert_copies: int
    keeps_gathered: bool
    source: str

    def norm_bytes(self, value_bytes: int) -> int:
        """Bytes that a norm keeps of each of its values.

        >>> TRANSFORMER_ENGINE.norm_bytes(2), EAGER.norm_bytes(2), COMPILED.norm_bytes(2)
        (2, 6, 2)
        """
        return FP32_BYTES + value_bytes if self.fp32_norm_inputs else value_bytes

    def product_bytes(self, value_bytes: int) -> int:
        """Bytes kept of each value that a norm hands to a matrix product."""
        return value_bytes if self.keeps_products else 0


TRANSFORMER_ENGINE = Kernels(
    fp32_norm_inputs=False,
    keeps_products=True,
    gated_tensors=3,
    plain_tensors=2,
    expert_copies=1,
    keeps_gathered=False,
    source="Transformer Engine, pytorch/module/layernorm_linear.py: input and result of the norm, which is gathered "
    "again; Megatron-LM, "
    "core/fusions/fused_bias_swiglu.py: gate and up projection, and with fc2 their product; core/transformer/moe/"
    "experts.py: weights of experts multiply in the activation, so that their results are not kept",
)
EAGER = Kernels(
    fp32_norm_inputs=True,
    keeps_products=True,
    gated_tensors=4,
    plain_tensors=2,
    expert_copies=2,
    keeps_gathered=True,
    source="torch autograd of an RMSNorm that casts to fp32, as in transformers and torchtitan: its fp32 input, the "
    "normed value, their product with the weight; silu's input and result, the up projection and the product of both; "
    "an expert's result, which its weight multiplies; torchtitan, parallelize.py: a tensor rank's linear layers get, "
    "and keep, what PrepareModuleInput gathered",
)
COMPILED = Kernels(
    fp32_norm_inputs=False,
    keeps_products=False,
    gated_tensors=2,
    plain_tensors=1,
    expert_copies=2,
    keeps_gathered=True,
    source="torch/_functorch/partitioners.py, min_cut_rematerialization_partition: what is made from kept tensors "
    "without a matrix product is computed again in the kernels of the backward pass; what ranks exchanged is kept",
)


def kernels_of(training: Training) -> Kernels:
    """Those of the framework: Megatron's are fused, jit compiles MaxText's, torch's are eager unless compiled.

    Source: Megatron-LM, --transformer-impl, whose default is transformer_engine; MaxText, train.py.

    >>> kernels_of(Training()) is TRANSFORMER_ENGINE, kernels_of(Training(framework="fsdp2")) is EAGER
    (True, True)
    """
    if training.framework == "megatron":
        return TRANSFORMER_ENGINE
    return COMPILED if training.framework == "maxtext" or training.compile else EAGER
