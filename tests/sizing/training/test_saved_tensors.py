"""What a layer keeps for the backward pass, against what autograd really saves of small models."""

from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.nn import functional

from sizing.layout import Parallelism
from sizing.model import Architecture
from sizing.state import Training
from sizing.state.training import Precision
from sizing.training.execution import execution_of, value_bytes
from sizing.training.kernels import EAGER, LOSSES
from sizing.training.layer_activations import LayerShape, layer_activation_bytes

SEQUENCES, TOKENS = 2, 128
STATISTICS_AND_ROUNDING = 0.02
"""Sums per row of norms and attention are not counted: 4 bytes each beside thousands."""

DTYPES: dict[Precision, torch.dtype] = {"bf16": torch.bfloat16, "fp32": torch.float32}


class Norm(nn.Module):
    """As transformers and torchtitan write it."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(hidden))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        in_fp32 = x.float()
        normed = in_fp32 * torch.rsqrt(in_fp32.pow(2).mean(-1, keepdim=True) + 1e-5)
        scaled: torch.Tensor = normed.type_as(x) * self.weight
        return scaled


class Block(nn.Module):
    """A layer of Llama, whose attention goes through torch's kernel or through its scores."""

    def __init__(self, a: Architecture, *, is_eager: bool) -> None:
        super().__init__()
        self.heads, self.kv_heads = a.num_attention_heads, a.kv_heads
        self.width, self.is_eager = a.hidden_size // self.heads, is_eager
        hidden, inner, shared = a.hidden_size, a.ffn_hidden_size or 0, self.kv_heads * self.width
        self.norms = nn.ModuleList([Norm(hidden), Norm(hidden)])
        sizes = [(hidden, hidden), (hidden, shared), (hidden, shared), (hidden, hidden)]
        self.attention = nn.ModuleList([nn.Linear(*size, bias=False) for size in sizes])
        self.ffn = nn.ModuleList(
            [nn.Linear(*size, bias=False) for size in [(hidden, inner), (hidden, inner), (inner, hidden)]]
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        normed = self.norms[0](x)
        query, key, value = (
            project(normed).view(*x.shape[:2], -1, self.width).transpose(1, 2) for project in self.attention[:3]
        )
        mixed = self.scored(query, key, value) if self.is_eager else self.fused(query, key, value)
        x = x + self.attention[3](mixed.transpose(1, 2).reshape(x.shape))
        normed = self.norms[1](x)
        product = functional.silu(self.ffn[0](normed)) * self.ffn[1](normed)
        out: torch.Tensor = x + self.ffn[2](product)
        return out

    def fused(self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        return functional.scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=True)

    def scored(self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        shares = torch.softmax(query @ key.transpose(2, 3), dim=-1)
        mixed: torch.Tensor = shares @ value
        return mixed


def saved_bytes(forward: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor, weights: nn.Module) -> int:
    """Bytes of the storages that autograd keeps for the backward pass, each once, beside those of the weights."""
    of_weights = {weight.untyped_storage().data_ptr() for weight in weights.parameters()}
    found: dict[int, int] = {}
    held = []

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in of_weights:
            held.append(tensor)
            found[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        forward(x)
    return sum(found.values())


def llama(*, heads: int = 4, kv_heads: int = 2) -> Architecture:
    return Architecture(
        family="llama",
        hidden_size=256,
        num_layers=1,
        num_attention_heads=heads,
        num_kv_heads=kv_heads,
        ffn_hidden_size=704,
        vocab_size=512,
    )


def counted_bytes(a: Architecture, training: Training) -> float:
    execution = execution_of(training, Parallelism())
    assert execution is not None
    shape = LayerShape(a, Parallelism(), value_bytes(training), EAGER)
    return layer_activation_bytes(shape.dense, hidden_bytes=shape.hidden_bytes, execution=execution)[0]


def step(precision: Precision, attention: str) -> Training:
    return Training.model_validate(
        {
            "framework": "fsdp2",
            "precision": precision,
            "sequence_length": TOKENS,
            "micro_batch_size": SEQUENCES,
            "recomputation": "none",
            "attention": attention,
        }
    )


@pytest.mark.parametrize("precision", ["bf16", "fp32"])
@pytest.mark.parametrize(("heads", "kv_heads"), [(4, 2), (4, 4), (8, 1)])
def test_a_layer_keeps_what_autograd_saves(precision: Precision, heads: int, kv_heads: int) -> None:
    a = llama(heads=heads, kv_heads=kv_heads)
    torch.manual_seed(0)
    block = Block(a, is_eager=False).to(DTYPES[precision])
    x = torch.randn(SEQUENCES, TOKENS, a.hidden_size, dtype=DTYPES[precision], requires_grad=True)
    measured = saved_bytes(block, x, block)
    assert counted_bytes(a, step(precision, "flash")) == pytest.approx(measured, rel=STATISTICS_AND_ROUNDING)


def test_eager_attention_keeps_its_scores_too() -> None:
    a = llama(kv_heads=4)
    torch.manual_seed(0)
    block = Block(a, is_eager=True).bfloat16()
    x = torch.randn(SEQUENCES, TOKENS, a.hidden_size, dtype=torch.bfloat16, requires_grad=True)
    measured = saved_bytes(block, x, block)
    assert counted_bytes(a, step("bf16", "eager")) == pytest.approx(measured, rel=STATISTICS_AND_ROUNDING)


def test_eager_cross_entropy_keeps_its_logarithms() -> None:
    vocabulary = 4_096
    head = nn.Linear(64, vocabulary, bias=False).bfloat16()
    logits = head(torch.randn(TOKENS, 64, dtype=torch.bfloat16)).detach().requires_grad_()
    labels = torch.zeros(TOKENS, dtype=torch.long)
    measured = saved_bytes(lambda x: functional.cross_entropy(x.float(), labels), logits, head)
    counted = TOKENS * vocabulary * LOSSES["eager"].kept_bytes(2)
    assert counted == pytest.approx(measured, rel=STATISTICS_AND_ROUNDING)
