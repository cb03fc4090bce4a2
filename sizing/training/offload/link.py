"""What passes the link between a GPU and its host in a step, and how much of it hides behind computing."""

from __future__ import annotations


def hidden_fraction(num_bytes: float, *, link_bytes_per_second: float, compute_seconds: float) -> float:
    """Max share of a layer's activations whose copy ends with the layer's own forward pass: min(1, r t / B).

    Args: B bytes that a layer keeps of a microbatch; r rate of the link, one way; t seconds that the layer computes.
    Copies out and back in run beside different passes, so each has the link to itself; the backward pass takes longer
    than the forward pass, so what is hidden in one is hidden in the other.
    Source: Rhu et al. 2016, arXiv 1602.08124 (vDNN), section 3.3: offload of a layer's input overlaps its forward pass.

    >>> hidden_fraction(1e9, link_bytes_per_second=25e9, compute_seconds=0.02)
    0.5
    >>> hidden_fraction(0.0, link_bytes_per_second=25e9, compute_seconds=0.02)
    1.0
    """
    return min(1.0, link_bytes_per_second * compute_seconds / num_bytes) if num_bytes else 1.0


def exposed_seconds(num_bytes: float, *, link_bytes_per_second: float, compute_seconds: float) -> float:
    """Time of a layer's copy for which computing waits: max(0, B / r - t).

    Args: as `hidden_fraction`, B the bytes that are copied.
    Source: Rhu et al. 2016, arXiv 1602.08124 (vDNN), section 3.3: the next layer begins when both have ended.

    >>> exposed_seconds(1e9, link_bytes_per_second=25e9, compute_seconds=0.03)
    0.010000000000000002
    """
    return max(0.0, num_bytes / link_bytes_per_second - compute_seconds)
