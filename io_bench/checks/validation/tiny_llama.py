"""A small Llama in plain torch: real parameters, a real forward and backward pass."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor
from torch.nn import functional

from sizing.model import Architecture

TINY = Architecture(
    family="llama",
    hidden_size=256,
    num_layers=4,
    num_attention_heads=8,
    num_kv_heads=4,
    ffn_hidden_size=704,
    vocab_size=8000,
    tied_embeddings=False,
)
"""Large enough that containers weigh well under a percent, small enough to train in a second."""

TINY_MIXTURE = Architecture(
    family="mixtral",
    hidden_size=256,
    num_layers=2,
    num_attention_heads=8,
    num_kv_heads=4,
    ffn_hidden_size=704,
    num_experts=8,
    num_experts_per_token=2,
    vocab_size=8000,
    tied_embeddings=False,
)
"""The tiny model with experts in half as many layers."""


class TinyAttention(nn.Module):
    """Grouped-query attention without positions: their rotation has no parameters."""

    def __init__(self, a: Architecture) -> None:
        super().__init__()
        self.width = a.head_width
        self.q_proj = nn.Linear(a.hidden_size, a.num_attention_heads * a.head_width, bias=False)
        self.k_proj = nn.Linear(a.hidden_size, a.kv_heads * a.head_width, bias=False)
        self.v_proj = nn.Linear(a.hidden_size, a.kv_heads * a.head_width, bias=False)
        self.o_proj = nn.Linear(a.num_attention_heads * a.head_width, a.hidden_size, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Attend causally; the number of heads follows from the width, so that it may be cut."""
        q, k, v = (
            project(x).unflatten(-1, (-1, self.width)).transpose(1, 2)
            for project in (self.q_proj, self.k_proj, self.v_proj)
        )
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        return self.o_proj(mixed.transpose(1, 2).flatten(2))  # type: ignore[no-any-return]  # a module's call is untyped


class TinyFeedForward(nn.Module):
    """A gated feed-forward block."""

    def __init__(self, a: Architecture) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(a.hidden_size, a.ffn_width, bias=False)
        self.up_proj = nn.Linear(a.hidden_size, a.ffn_width, bias=False)
        self.down_proj = nn.Linear(a.ffn_width, a.hidden_size, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Gate, and project back."""
        return self.down_proj(functional.silu(self.gate_proj(x)) * self.up_proj(x))  # type: ignore[no-any-return]  # as above


class TinyExperts(nn.Module):
    """The routed experts of a layer: each weight is one tensor with the experts along its first dimension."""

    def __init__(self, a: Architecture) -> None:
        super().__init__()
        num_experts, hidden, width = a.num_experts or 0, a.hidden_size, a.expert_width
        self.gate_proj = nn.Parameter(torch.randn(num_experts, width, hidden) / hidden**0.5)
        self.up_proj = nn.Parameter(torch.randn(num_experts, width, hidden) / hidden**0.5)
        self.down_proj = nn.Parameter(torch.randn(num_experts, hidden, width) / width**0.5)

    def forward(self, x: Tensor) -> Tensor:
        """The mean of the experts that stand on this rank, each of which sees all tokens."""
        gate, up, down = (
            w.to_local() if isinstance(w, DTensor) else w for w in (self.gate_proj, self.up_proj, self.down_proj)
        )
        hidden = functional.silu(torch.einsum("bsh,ewh->bsew", x, gate)) * torch.einsum("bsh,ewh->bsew", x, up)
        return torch.einsum("bsew,ehw->bsh", hidden, down) / gate.shape[0]


class Mixture(nn.Module):
    """Routed experts, scaled by what the router says of the first of them."""

    def __init__(self, a: Architecture) -> None:
        super().__init__()
        self.router = nn.Linear(a.hidden_size, a.num_experts or 0, bias=False)
        self.experts = TinyExperts(a)

    def forward(self, x: Tensor) -> Tensor:
        """Route and compute."""
        return self.experts(x) * self.router(x).softmax(-1)[..., :1]  # type: ignore[no-any-return]  # as above


class Layer(nn.Module):
    """A transformer layer."""

    def __init__(self, a: Architecture) -> None:
        super().__init__()
        self.input_layernorm = nn.RMSNorm(a.hidden_size)
        self.self_attn = TinyAttention(a)
        self.post_attention_layernorm = nn.RMSNorm(a.hidden_size)
        self.mlp = Mixture(a) if a.num_experts else TinyFeedForward(a)

    def forward(self, x: Tensor) -> Tensor:
        """Attend, then feed forward, each beside a residual."""
        x = x + self.self_attn(self.input_layernorm(x))
        return x + self.mlp(self.post_attention_layernorm(x))  # type: ignore[no-any-return]  # as above


class TinyLlama(nn.Module):
    """The whole model, or a stage of it: modules of other stages are None, and layers keep their numbers."""

    def __init__(self, a: Architecture) -> None:
        super().__init__()
        self.embed_tokens: nn.Embedding | None = nn.Embedding(a.vocab_size, a.hidden_size)
        self.layers = nn.ModuleDict({str(layer): Layer(a) for layer in range(a.num_layers)})
        self.norm: nn.RMSNorm | None = nn.RMSNorm(a.hidden_size)
        self.lm_head: nn.Linear | None = nn.Linear(a.hidden_size, a.vocab_size, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        """The next token's logits; a stage takes what the one before it gives."""
        x = tokens if self.embed_tokens is None else self.embed_tokens(tokens)
        for layer in self.layers.values():
            x = layer(x)
        x = x if self.norm is None else self.norm(x)
        return x if self.lm_head is None else self.lm_head(x)


def random_tokens(*, vocab_size: int) -> Tensor:
    """Two sequences, the same on every rank; with the token after the last."""
    return torch.randint(0, vocab_size, (2, 17), generator=torch.Generator().manual_seed(0))


def loss_of(logits: Tensor, tokens: Tensor) -> Tensor:
    """How badly the tokens are predicted."""
    return functional.cross_entropy(logits.float().flatten(0, 1), tokens.flatten())


def train_one_step(model: nn.Module, optimizer: torch.optim.Optimizer, *, vocab_size: int) -> None:
    """Take one step of the optimizer on random tokens, so that it has its state."""
    tokens = random_tokens(vocab_size=vocab_size)
    loss_of(model(tokens[:, :-1]), tokens[:, 1:]).backward()  # type: ignore[no-untyped-call]  # torch has no type for it
    optimizer.step()
    optimizer.zero_grad()
