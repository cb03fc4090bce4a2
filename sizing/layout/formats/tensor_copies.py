"""How often the ranks of one replica hold the same tensor."""

from __future__ import annotations

from sizing.layout.parallelism import Parallelism
from sizing.model import TensorGroup


def copies_in_a_replica(group: TensorGroup, parallelism: Parallelism) -> int:
    """How many model-parallel ranks hold a piece of a tensor: t/p for p pieces on t > p tensor ranks, else 1.

    Twice that where first and last stage both keep it.
    Source: Shoeybi et al. 2019, arXiv 1909.08053, section 3; Narayanan et al. 2021, section 2.2 (tied
    embeddings); assumes that p divides t, which `check_fit` ensures.

    >>> norm = TensorGroup("norm", (64,), pieces=1)
    >>> copies_in_a_replica(norm, Parallelism(tensor=8, data=4, expert=2))
    8
    """
    num_ranks = parallelism.expert_tensor_degree if group.experts else parallelism.tensor
    copies = max(1, num_ranks // group.pieces)
    return 2 * copies if group.placement == "first-and-last-stage" and parallelism.pipeline > 1 else copies
