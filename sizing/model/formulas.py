"""Published closed forms, kept as a second route to what the inventory counts."""

from __future__ import annotations


def megatron_gpt_parameters(*, num_layers: int, hidden_size: int, vocab_size: int, sequence_length: int) -> int:
    """Parameters of a Megatron GPT by the paper's formula, P = 12 l h^2 (1 + 13/(12 h) + (V + s)/(12 l h)).

    Symbols: l layers, h hidden size, V vocabulary, s sequence length (rows of the position table).
    Source: Narayanan et al. 2021, arXiv 2104.04473, equation 2. It leaves out the final LayerNorm, 2 h.

    >>> megatron_gpt_parameters(num_layers=128, hidden_size=25600, vocab_size=51200, sequence_length=2048)
    1008038707200
    """
    layer = 12 * hidden_size**2 + 13 * hidden_size
    return num_layers * layer + (vocab_size + sequence_length) * hidden_size
