"""A small Llama in plain torch: real parameters, a real forward and backward pass."""

from __future__ import annotations

import torch
from torch import Tensor, nn
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


class Attention(nn.Module):
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


class FeedForward(nn.Module):
    """A gated feed-forward block."""

    def __init__(self, a: Architecture) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(a.hidden_size, a.ffn_width, bias=False)
        self.up_proj = nn.Linear(a.hidden_size, a.ffn_width, bias=False)
        self.down_proj = nn.Linear(a.ffn_width, a.hidden_size, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Gate, and project back."""
        return self.down_proj(functional.silu(self.gate_proj(x)) * self.up_proj(x))  # type: ignore[no-any-return]  # as above


class Layer(nn.Module):
    """A transformer layer."""

    def __init__(self, a: Architecture) -> None:
        super().__init__()
        self.input_layernorm = nn.RMSNorm(a.hidden_size)
        self.self_attn = Attention(a)
        self.post_attention_layernorm = nn.RMSNorm(a.hidden_size)
        self.mlp = FeedForward(a)

    def forward(self, x: Tensor) -> Tensor:
        """Attend, then feed forward, each beside a residual."""
        x = x + self.self_attn(self.input_layernorm(x))
        return x + self.mlp(self.post_attention_layernorm(x))  # type: ignore[no-any-return]  # as above


class TinyLlama(nn.Module):
    """The whole model."""

    def __init__(self, a: Architecture) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(a.vocab_size, a.hidden_size)
        self.layers = nn.ModuleList(Layer(a) for _ in range(a.num_layers))
        self.norm = nn.RMSNorm(a.hidden_size)
        self.lm_head = nn.Linear(a.hidden_size, a.vocab_size, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        """The next token's logits."""
        x = self.embed_tokens(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.lm_head(self.norm(x))  # type: ignore[no-any-return]  # as above


def train_one_step(model: nn.Module, optimizer: torch.optim.Optimizer, *, vocab_size: int) -> None:
    """One step of the optimizer on random tokens, so that it has its state."""
    tokens = torch.randint(0, vocab_size, (2, 16), generator=torch.Generator().manual_seed(0))
    loss = functional.cross_entropy(model(tokens[:, :-1]).float().flatten(0, 1), tokens[:, 1:].flatten())
    loss.backward()  # type: ignore[no-untyped-call]  # torch has no type for it
    optimizer.step()
    optimizer.zero_grad()
