"""Bytes that implementations keep for the backward pass: kernels of a layer's operations, and kinds of loss."""

from __future__ import annotations

from dataclasses import dataclass

from sizing.frameworks import FRAMEWORKS
from sizing.frameworks.framework import KernelsName
from sizing.state import Training
from sizing.state.training import Loss, Precision

FP32_BYTES = 4
"""Norms compute in fp32, and every loss sums exponentials in fp32."""


@dataclass(frozen=True, slots=True)
class Kernels:
    """Implementation of the operations between matrix products.

    `fp32_norm_inputs`: whether a norm keeps its input in fp32, and beside it the normed value before the weight.
    `keeps_products`: whether the inputs of matrix products are kept that norms and activation functions make.
    `gated_tensors`, `plain_tensors`: tensors of the inner width that a feed-forward block keeps with and without a
    gate. `expert_copies`: copies of a token that each of its experts keeps. `keeps_gathered`: whether a tensor rank
    keeps the whole input that it gathered for a matrix product, and not its share alone.
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
        """Return the bytes that a norm keeps for each of its values.

        >>> TRANSFORMER_ENGINE.norm_bytes(2), EAGER.norm_bytes(2), COMPILED.norm_bytes(2)
        (2, 6, 2)
        """
        return FP32_BYTES + value_bytes if self.fp32_norm_inputs else value_bytes

    def product_bytes(self, value_bytes: int) -> int:
        """Return the bytes kept for each value that a norm hands to a matrix product."""
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


KERNELS: dict[KernelsName, Kernels] = {
    "transformer-engine": TRANSFORMER_ENGINE,
    "eager": EAGER,
    "compiled": COMPILED,
}


def kernels_of(training: Training) -> Kernels:
    """Return the framework's kernels, or compiled ones where training.compile is set and the framework can.

    Source: `kernels` of each framework.

    >>> kernels_of(Training()) is TRANSFORMER_ENGINE, kernels_of(Training(framework="fsdp2")) is EAGER
    (True, True)
    """
    framework = FRAMEWORKS[training.framework]
    return COMPILED if training.compile and framework.compiles else KERNELS[framework.kernels]


_CACHED_BYTES: dict[Precision, float] = {"fp8-mixed": 1.0, "mxfp8-mixed": 1.03125, "nvfp4-mixed": 0.5625}
"""Bytes of a quantized value: with a scale of 1 byte for 32 values of MXFP8, and for 16 of NVFP4."""


def cached_bytes(training: Training) -> float | None:
    """Return the bytes per value that a matrix product keeps of its quantized input; None where it keeps it as it is.

    Source: Transformer Engine, pytorch/module/linear.py, which saves the quantized input for the gradient of weights;
    DeepSeek-AI 2024, arXiv 2412.19437, section 3.3.3. torchao quantizes again in the backward pass.

    >>> cached_bytes(Training(precision="fp8-mixed")), cached_bytes(Training())
    (1.0, None)
    """
    return _CACHED_BYTES.get(training.precision) if kernels_of(training) is TRANSFORMER_ENGINE else None


NUM_CHUNKS = 8
"""Parts of the tokens of a chunked loss. Source: torchtune, modules/loss, LinearCrossEntropyLoss, num_output_chunks."""


@dataclass(frozen=True, slots=True)
class LossKind:
    """Way to compute cross-entropy: the tensors of the logits' size that a rank holds beside the logits.

    `kept_fp32` and `kept_logits`: tensors in fp32 and in the dtype of the logits that wait for the backward pass.
    `working_fp32` and `working_logits`: tensors beside them while the gradient of the logits is computed.
    `parallel_fp32`: further tensors where tensor ranks share the vocabulary.
    """

    kept_fp32: int
    kept_logits: int
    working_fp32: int
    working_logits: int
    source: str
    num_chunks: int = 1
    parallel_fp32: int = 0

    def kept_bytes(self, value_bytes: int) -> float:
        """Return the bytes per logit that are kept for the backward pass."""
        return (self.kept_fp32 * FP32_BYTES + self.kept_logits * value_bytes) / self.num_chunks

    def peak_bytes(self, value_bytes: int, *, tensor: int = 1) -> float:
        """Return the max bytes per logit of a rank, with `tensor` ranks that share the vocabulary.

        Source: LOSSES, kind by kind.

        >>> [LOSSES[name].peak_bytes(2) for name in ("eager", "vocab-parallel", "compiled", "fused", "chunked")]
        [12.0, 6.0, 4.0, 2.0, 1.5]
        """
        working_fp32 = self.working_fp32 + (self.parallel_fp32 if tensor > 1 else 0)
        working = (working_fp32 * FP32_BYTES + self.working_logits * value_bytes) / self.num_chunks
        return self.kept_bytes(value_bytes) + working


LOSSES: dict[Loss, LossKind] = {
    "eager": LossKind(
        kept_fp32=1,
        kept_logits=0,
        working_fp32=2,
        working_logits=0,
        source="torch.nn.functional.cross_entropy of logits.float(): log_softmax keeps its result; the gradients of "
        "nll_loss and of log_softmax stand beside it (torchtitan 9dec370, train.py, which deletes the logits before); "
        "tensor ranks hold the gradient of nll_loss, an exponential and their sum (torch/distributed/tensor/parallel/"
        "loss.py, _nll_loss_and_log_softmax_backward)",
        parallel_fp32=1,
    ),
    "compiled": LossKind(
        kept_fp32=0,
        kept_logits=1,
        working_fp32=0,
        working_logits=1,
        source="torch.compile fuses cast, log_softmax and nll_loss: it keeps the logits and a sum per token, and "
        "writes the gradient of the logits (torchtitan e7c0cae, components/loss.py)",
    ),
    "vocab-parallel": LossKind(
        kept_fp32=1,
        kept_logits=0,
        working_fp32=0,
        working_logits=1,
        source="Megatron-LM, core/tensor_parallel/cross_entropy.py: the softmax in fp32, in place of a copy of the "
        "logits, is kept and becomes the gradient, which is then cast",
    ),
    "fused": LossKind(
        kept_fp32=0,
        kept_logits=1,
        working_fp32=0,
        working_logits=0,
        source="Transformer Engine, pytorch/triton/cross_entropy.py: the gradient replaces the logits",
    ),
    "chunked": LossKind(
        kept_fp32=1,
        kept_logits=0,
        working_fp32=2,
        working_logits=0,
        source="torchtitan, components/loss.py, ChunkedCELoss, and torchtune: head, loss and its gradient of one part "
        "of the tokens after another",
        num_chunks=NUM_CHUNKS,
        parallel_fp32=1,
    ),
}
"""Ways to compute the loss, by the names of training.loss."""
