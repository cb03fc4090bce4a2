"""Activations: what the forward pass keeps for the backward pass, tensor by tensor.

Every input that a backward pass needs is kept once: 2 bytes a value (4 in fp32), 1 byte a value of a dropout mask. For
the layer of GPT this is the count of Korthikanti et al. 2022, arXiv 2205.05198, section 4.1; other layers are counted
by the same rule.
"""

from __future__ import annotations

from dataclasses import dataclass

from sizing.layout import Parallelism
from sizing.layout.stages import StageSpan
from sizing.model import Architecture
from sizing.state import Training
from sizing.training.execution import Execution, value_bytes

MASK_BYTES = 1
"""Of a dropout mask, per value: Korthikanti et al. 2022, section 4.1."""
LOGIT_BYTES = 4
"""Logits are kept in fp32 for the loss: Korthikanti et al. 2022, section 4.3."""


@dataclass(frozen=True, slots=True)
class Kept:
    """Bytes that a layer keeps on one tensor rank.

    `split`, per token: of tensors that the ranks share. `whole`, per token: of tensors that each keeps, unless
    sequence parallelism shares them too. `scores`, per pair of tokens: of attention.
    """

    split: float = 0.0
    whole: float = 0.0
    scores: float = 0.0

    def __add__(self, other: Kept) -> Kept:
        return Kept(self.split + other.split, self.whole + other.whole, self.scores + other.scores)


@dataclass(frozen=True, slots=True)
class LayerShape:
    """A model's layers as one tensor rank runs them."""

    architecture: Architecture
    parallelism: Parallelism
    value_bytes: int

    @property
    def dense(self) -> Kept:
        """A layer with a dense feed-forward block."""
        return self._norms() + self._attention() + self._ffn(self.architecture.ffn_width)

    @property
    def sparse(self) -> Kept:
        """A layer with experts, among which the tokens are taken to spread evenly."""
        return self._norms() + self._attention() + self._ffn(self.architecture.shared_expert_width) + self._experts()

    @property
    def hidden_bytes(self) -> int:
        """The hidden state of one token."""
        return self.value_bytes * self.architecture.hidden_size

    @property
    def mask_bytes(self) -> int:
        """The mask of a dropout of one token's hidden state."""
        return MASK_BYTES * self.architecture.hidden_size if self.architecture.traits.dropout else 0

    def _norms(self) -> Kept:
        """Inputs of the norms, and of the projections that follow; with one norm both blocks share theirs."""
        num_norms = self.architecture.layer_norms
        return Kept(whole=self.hidden_bytes * (num_norms + min(2, num_norms)) + 2 * self.mask_bytes)

    def _attention(self) -> Kept:
        a = self.architecture
        heads = a.num_attention_heads / self.parallelism.tensor
        scores = self.value_bytes * heads
        if a.traits.dropout:
            scores += (MASK_BYTES + self.value_bytes) * heads
        return (self._latent(a, heads) if a.traits.latent_attention else self._grouped(a, heads)) + Kept(scores=scores)

    def _grouped(self, a: Architecture, heads: float) -> Kept:
        """Queries, keys, values and attention's output."""
        kv_heads = max(a.kv_heads / self.parallelism.tensor, 1.0)
        values = 2 * heads + 2 * kv_heads
        if a.traits.query_key_norms:
            values += heads + kv_heads
        return Kept(split=self.value_bytes * a.head_width * values)

    def _latent(self, a: Architecture, heads: float) -> Kept:
        """The same, and the latents before and after their norms."""
        nope, rope, value = a.qk_nope_head_dim or 0, a.qk_rope_head_dim or 0, a.v_head_dim or 0
        latents = 2 * (a.q_lora_rank or 0) + 2 * (a.kv_lora_rank or 0) + rope
        return Kept(
            split=self.value_bytes * heads * 2 * (nope + rope + value),
            whole=self.value_bytes * latents,
        )

    def _ffn(self, width: int) -> Kept:
        """What goes into the activation function and into the projection down; with a gate, both its factors."""
        inner = 3 if self.architecture.traits.gated_ffn else 2
        return Kept(split=self.value_bytes * inner * width / self.parallelism.tensor)

    def _experts(self) -> Kept:
        """The same of the experts that a token passes through, with their own copies of inputs and outputs."""
        a, per_token = self.architecture, self.architecture.num_experts_per_token or 0
        ranks_with_token = self.parallelism.expert_tensor_degree / self.parallelism.tensor
        copies = Kept(split=2 * self.hidden_bytes * ranks_with_token)
        one = copies + self._ffn(a.expert_width)
        return Kept(split=per_token * one.split)


def layer_activation_bytes(kept: Kept, *, hidden_bytes: int, execution: Execution) -> tuple[float, float]:
    """Bytes that a layer keeps of one microbatch, and those it needs besides while it is computed again.

    b s/c (split + whole/t) + b s^2/c scores with sequence parallelism, whole undivided without; selective: without the
    scores; full: b s/c w h, the layer's input, and once the rest. b sequences of s tokens, c context and t tensor
    ranks, w bytes a value.
    Source: Korthikanti et al. 2022, arXiv 2205.05198, equations 1 to 4 and section 5; what is computed again:
    Rajbhandari et al. 2021, arXiv 2104.07857, section 3.

    >>> h, a, s = 12_288, 96, 2_048  # GPT-3, whose layer keeps 34 s b h + 5 a s^2 b by equation 1
    >>> whole = Execution(s, 1, None, 1, 1, "1f1b", "none")
    >>> layer_activation_bytes(Kept(24 * h, 10 * h, 5 * a), hidden_bytes=2 * h, execution=whole)[0] / (s * h)
    114.0
    """
    tokens, sharing = execution.num_tokens, execution.num_sharing
    without_scores = tokens * (kept.split + kept.whole / sharing)
    match execution.recomputation:
        case "none":
            return without_scores + tokens * execution.sequence_length * kept.scores, 0.0
        case "selective":
            return without_scores, 0.0
        case "full":
            return tokens * hidden_bytes / sharing, without_scores


class StageActivations:
    """What the stages of a pipeline keep; layers of one kind are counted once."""

    def __init__(
        self, architecture: Architecture, training: Training, *, parallelism: Parallelism, execution: Execution
    ) -> None:
        self._architecture = architecture
        self._execution = execution
        self._shape = LayerShape(architecture, parallelism, value_bytes(training))
        self._dense = self._layer(self._shape.dense)
        self._sparse = self._layer(self._shape.sparse) if architecture.num_experts else (0.0, 0.0)

    def stage_bytes(self, span: StageSpan) -> float:
        """Bytes on a GPU of the first of a span's stages, which holds the max of them.

        Layers x microbatches in flight, the embedding's dropout on the first stage, and on the last 2 w h + 4 V/t a
        token: the inputs of the last norm and of the head, and the logits in fp32.
        Source: Korthikanti et al. 2022, arXiv 2205.05198, section 4.3.

        >>> from sizing.model import catalog
        >>> from sizing.layout.stages import stage_spans
        >>> from sizing.model.inventory import inventory_of
        >>> gpt3, degrees = catalog()["gpt3-175b"].architecture, Parallelism(tensor=8, pipeline=8)
        >>> step = Execution(2048, 1, 64, 8, 1, "1f1b", "selective", num_sharing=8)
        >>> first = stage_spans(inventory_of(gpt3), degrees, num_layers=96)[0]
        >>> found = StageActivations(gpt3, Training(), parallelism=degrees, execution=step).stage_bytes(first)
        >>> found == 8 * (12 * 34 + 1) * 2048 * 12288 / 8
        True
        """
        stage = span.stages.start
        in_flight = self._execution.in_flight_microbatches(stage)
        dense, sparse = self._num_layers(span)
        layers = dense * self._dense[0] + sparse * self._sparse[0]
        recomputed = max(self._dense[1] if dense else 0.0, self._sparse[1] if sparse else 0.0)
        at_once = in_flight if self._execution.schedule == "gpipe" else 1.0
        return (
            in_flight * (layers + (self._embedding() if stage == 0 else 0.0))
            + recomputed
            + (at_once * self._head() if span.stages.stop == self._execution.num_stages else 0.0)
        )

    def _layer(self, kept: Kept) -> tuple[float, float]:
        return layer_activation_bytes(kept, hidden_bytes=self._shape.hidden_bytes, execution=self._execution)

    def _num_layers(self, span: StageSpan) -> tuple[int, int]:
        """Layers of a stage without and with experts; multi-token-prediction modules are layers of the last."""
        is_last = span.stages.stop == self._execution.num_stages
        modules = (self._architecture.num_mtp_layers or 0) if is_last else 0
        sparse = len(span.expert_layers)
        return len(span.layers) + modules - sparse, sparse

    def _embedding(self) -> float:
        return self._execution.num_tokens * self._shape.mask_bytes / self._execution.num_sharing

    def _head(self) -> float:
        """Of the head, and again of each multi-token-prediction module."""
        inputs = 2 * self._shape.hidden_bytes / self._execution.num_sharing
        logits = LOGIT_BYTES * self._architecture.vocab_size / self._shape.parallelism.tensor
        return self._execution.num_tokens * (inputs + logits) * (1 + (self._architecture.num_mtp_layers or 0))
