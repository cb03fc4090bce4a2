"""Norms of queries and keys keep their inputs besides."""

from __future__ import annotations

import pytest

from sizing.layout import Parallelism
from sizing.model import catalog
from sizing.training.layer_activations import LayerShape


@pytest.mark.parametrize("tensor", [1, 2])
def test_attention_with_norms_keeps_queries_and_keys_twice(tensor: int) -> None:
    """qwen3-8b: 32 heads and 8 heads of keys and values, of 128 values; queries, output, keys, values, two inputs."""
    architecture = catalog()["qwen3-8b"].architecture
    assert architecture is not None
    shape = LayerShape(architecture, Parallelism(tensor=tensor), 2)
    feed_forward = 2 * 3 * 12288
    attention = 2 * 128 * (2 * 32 + 2 * 8 + 32 + 8)
    assert shape.dense.split == pytest.approx((feed_forward + attention) / tensor)
