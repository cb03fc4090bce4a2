"""In which form Megatron saves a distributed optimizer in torch-dist."""

from __future__ import annotations

from typing import Literal

from sizing.layout.framework_defaults import MEGATRON_OPTIMIZER_SHARDING
from sizing.layout.sharding import has_distributed_optimizer
from sizing.state.training import Training

OptimizerSharding = Literal["dp-reshardable", "fully-reshardable"]
"""`dp-reshardable`: each rank its share of the flat buffer, which only other numbers of replicas can read.
`fully-reshardable`: gathered and saved tensor by tensor, like the weights, which any layout can read."""


def optimizer_sharding_of(training: Training, given: OptimizerSharding | None) -> OptimizerSharding | None:
    """The form in effect; None where the optimizer is not distributed, and so saved tensor by tensor anyway.

    Source: MEGATRON_OPTIMIZER_SHARDING where it is not given.

    >>> optimizer_sharding_of(Training(distributed_optimizer=True), None), optimizer_sharding_of(Training(), None)
    ('dp-reshardable', None)
    """
    if not has_distributed_optimizer(training):
        return None
    return given or MEGATRON_OPTIMIZER_SHARDING
