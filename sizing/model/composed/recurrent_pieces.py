"""The pieces of a layer that mix tokens without attention: state spaces, linear attention, convolutions.

Sources and cuts as in `pieces`. Inner channels are divided with their heads; what all heads share is whole on every
rank.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sizing.model.layer_tensors import Tensor


@dataclass(frozen=True, slots=True)
class Mamba:
    """Selective state space, Gu and Dao 2023, arXiv 2312.00752; `ssm_norms`: of step, input and output (Jamba)."""

    hidden: int
    ssm_inner: int
    ssm_state: int
    ssm_conv: int
    ssm_rank: int
    ssm_bias: bool
    ssm_conv_bias: bool
    ssm_norms: bool

    def tensors(self) -> Iterator[Tensor]:
        """List the tensors. Channels are independent, so that any number of them may be on a rank."""
        inner, state, rank = self.ssm_inner, self.ssm_state, self.ssm_rank
        yield Tensor("ssm.in", (inner, self.hidden), pieces=inner, count=2)
        yield Tensor("ssm.conv", (inner, 1, self.ssm_conv), pieces=inner)
        yield Tensor("ssm.parameters", (rank + 2 * state, inner), pieces=inner, cut=1)
        yield Tensor("ssm.step", (inner, rank), pieces=inner)
        yield Tensor("ssm.decay", (inner, state), pieces=inner)
        yield Tensor("ssm.channel", (inner,), pieces=inner, count=2 + self.ssm_conv_bias)
        yield Tensor("ssm.out", (self.hidden, inner), pieces=inner, cut=1)
        if self.ssm_bias:
            yield Tensor("ssm.in.bias", (inner,), pieces=inner, count=2)
            yield Tensor("ssm.out.bias", (self.hidden,), pieces=1)
        if self.ssm_norms:
            yield Tensor("ssm.step_norm", (rank,), pieces=1)
            yield Tensor("ssm.state_norm", (state,), pieces=1, count=2)


@dataclass(frozen=True, slots=True)
class Mamba2:
    """State space duality, Dao and Gu 2024, arXiv 2405.21060: heads in groups that share input and output."""

    hidden: int
    ssm_inner: int
    ssm_heads: int
    ssm_groups: int
    ssm_state: int
    ssm_conv: int
    ssm_bias: bool
    ssm_out_bias: bool
    ssm_conv_bias: bool
    ssm_norm: bool

    def tensors(self) -> Iterator[Tensor]:
        """List the tensors. Gate and input are cut by heads, B and C by groups; each head has a step."""
        inner, heads, groups = self.ssm_inner, self.ssm_heads, self.ssm_groups
        shared = 2 * groups * self.ssm_state
        yield Tensor("ssm.in", (inner, self.hidden), pieces=heads, count=2)
        yield Tensor("ssm.in.groups", (shared, self.hidden), pieces=groups)
        yield Tensor("ssm.in.step", (heads, self.hidden), pieces=heads)
        yield Tensor("ssm.conv", (inner, 1, self.ssm_conv), pieces=heads)
        yield Tensor("ssm.conv.groups", (shared, 1, self.ssm_conv), pieces=groups)
        yield Tensor("ssm.head", (heads,), pieces=heads, count=3)
        yield Tensor("ssm.out", (self.hidden, inner), pieces=heads, cut=1)
        if self.ssm_norm:
            yield Tensor("ssm.norm", (inner,), pieces=heads)
        yield from self._biases(shared)

    def _biases(self, shared: int) -> Iterator[Tensor]:
        if self.ssm_conv_bias:
            yield Tensor("ssm.conv.bias", (self.ssm_inner,), pieces=self.ssm_heads)
            yield Tensor("ssm.conv.groups.bias", (shared,), pieces=self.ssm_groups)
        if self.ssm_bias:
            yield Tensor("ssm.in.bias", (self.ssm_inner,), pieces=self.ssm_heads, count=2)
            yield Tensor("ssm.in.groups.bias", (shared,), pieces=self.ssm_groups)
            yield Tensor("ssm.in.step.bias", (self.ssm_heads,), pieces=self.ssm_heads)
        if self.ssm_out_bias:
            yield Tensor("ssm.out.bias", (self.hidden,), pieces=1)


@dataclass(frozen=True, slots=True)
class GatedDeltaNet:
    """Linear attention with a gated delta rule, Yang et al. 2024, arXiv 2412.06464."""

    hidden: int
    linear_key_heads: int
    linear_value_heads: int
    linear_key_dim: int
    linear_value_dim: int
    linear_conv: int

    def tensors(self) -> Iterator[Tensor]:
        """List the tensors. Queries and keys are cut by key heads; values, gate and rates by value heads."""
        keys, values = self.linear_key_heads * self.linear_key_dim, self.linear_value_heads * self.linear_value_dim
        of_keys, of_values = self.linear_key_heads, self.linear_value_heads
        yield Tensor("linear.query_key", (keys, self.hidden), pieces=of_keys, count=2)
        yield Tensor("linear.value_gate", (values, self.hidden), pieces=of_values, count=2)
        yield Tensor("linear.rates", (of_values, self.hidden), pieces=of_values, count=2)
        yield Tensor("linear.conv.query_key", (keys, 1, self.linear_conv), pieces=of_keys, count=2)
        yield Tensor("linear.conv.value", (values, 1, self.linear_conv), pieces=of_values)
        yield Tensor("linear.head", (of_values,), pieces=of_values, count=2)
        yield Tensor("linear.norm", (self.linear_value_dim,), pieces=1)
        yield Tensor("linear.output", (self.hidden, values), pieces=of_values, cut=1)


@dataclass(frozen=True, slots=True)
class KimiDeltaAttention:
    """A gated delta net with a decay for each channel, through low ranks: Kimi Team 2025, arXiv 2510.26692."""

    hidden: int
    linear_heads: int
    linear_dim: int
    linear_conv: int

    def tensors(self) -> Iterator[Tensor]:
        """List the tensors, all cut by heads except the projections into the low ranks."""
        heads, dim = self.linear_heads, self.linear_dim
        inner = heads * dim
        yield Tensor("linear.query_key_value", (inner, self.hidden), pieces=heads, count=3)
        yield Tensor("linear.conv", (inner, 1, self.linear_conv), pieces=heads, count=3)
        yield Tensor("linear.gates_down", (dim, self.hidden), pieces=1, count=2)
        yield Tensor("linear.gates_up", (inner, dim), pieces=heads, count=2)
        yield Tensor("linear.step", (inner,), pieces=heads)
        yield Tensor("linear.head", (heads,), pieces=heads)
        yield Tensor("linear.rates", (heads, self.hidden), pieces=heads)
        yield Tensor("linear.norm", (dim,), pieces=1)
        yield Tensor("linear.output", (self.hidden, inner), pieces=heads, cut=1)


@dataclass(frozen=True, slots=True)
class LightningAttention:
    """Linear attention with a norm and a gate of its output: MiniMax 2025, arXiv 2501.08313, section 2.2."""

    hidden: int
    heads: int
    head_dim: int

    def tensors(self) -> Iterator[Tensor]:
        """List the projections, which tensor ranks cut by heads."""
        inner = self.heads * self.head_dim
        yield Tensor("linear.query_key_value", (inner, self.hidden), pieces=self.heads, count=3)
        yield Tensor("linear.gate", (inner, self.hidden), pieces=self.heads)
        yield Tensor("linear.norm", (inner,), pieces=self.heads)
        yield Tensor("linear.output", (self.hidden, inner), pieces=self.heads, cut=1)


@dataclass(frozen=True, slots=True)
class ShortConvolution:
    """A gated convolution over a few tokens: Liquid AI, LFM2."""

    hidden: int
    short_conv: int
    short_conv_bias: bool

    def tensors(self) -> Iterator[Tensor]:
        """List the projections and the convolution, which tensor ranks cut by channels."""
        hidden = self.hidden
        yield Tensor("conv.in", (hidden, hidden), pieces=hidden, count=3)
        yield Tensor("conv.conv", (hidden, 1, self.short_conv), pieces=hidden)
        yield Tensor("conv.out", (hidden, hidden), pieces=hidden, cut=1)
        if self.short_conv_bias:
            yield Tensor("conv.in.bias", (hidden,), pieces=hidden, count=3)
            yield Tensor("conv.conv.bias", (hidden,), pieces=hidden)
            yield Tensor("conv.out.bias", (hidden,), pieces=1)
