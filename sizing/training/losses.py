"""Cross-entropy: how many bytes each way to compute it holds of a logit."""

from __future__ import annotations

from dataclasses import dataclass

from sizing.state.training import Loss

FP32_BYTES = 4
"""All of them sum exponentials in fp32."""

NUM_CHUNKS = 8
"""Parts of the tokens of a chunked loss. Source: torchtune, modules/loss, LinearCrossEntropyLoss, num_output_chunks."""


@dataclass(frozen=True, slots=True)
class LossKind:
    """A way to compute cross-entropy, in bytes for each logit of a rank; those of logits as computed are counted apart.

    `kept_fp32` and `kept_logits`: tensors in fp32 and in the dtype of the logits that wait for the backward pass.
    `working_fp32` and `working_logits`: those beside them while the gradient of the logits is computed;
    `parallel_fp32`: further ones where tensor ranks share the vocabulary.
    """

    kept_fp32: int
    kept_logits: int
    working_fp32: int
    working_logits: int
    source: str
    num_chunks: int = 1
    parallel_fp32: int = 0

    def kept_bytes(self, value_bytes: int) -> float:
        """Bytes per logit that wait for the backward pass."""
        return (self.kept_fp32 * FP32_BYTES + self.kept_logits * value_bytes) / self.num_chunks

    def peak_bytes(self, value_bytes: int, *, tensor: int = 1) -> float:
        """Bytes per logit of a rank at the max, with so many tensor ranks.

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
"""By the names of training.loss."""
