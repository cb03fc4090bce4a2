"""Which failures end a drain, and with it the checkpoint that was on its way."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from sizing.errors import InvalidInput
from sizing.provenance import Assumption
from sizing.run.checkpoint import Checkpoint
from sizing.run.demands.demands import Demands
from sizing.run.failures import LOSS_DOMAINS, Reliability
from sizing.storage.transfer import Numbers


def outlived_fraction(checkpoint: Checkpoint, reliability: Reliability, *, demands: Demands) -> Numbers:
    """Share of all failures that a drain outlives: those of components that take down no more than it names.

    Source: superposition of independent Poisson processes, each component's by its rate.
    Raises InvalidInput where no components say what failures take down.

    >>> outlived_fraction(Checkpoint(), Reliability(mtbf_seconds=3600.0), demands=None)
    0.0
    """
    if not checkpoint.drain_survives:
        return 0.0
    largest = max(map(LOSS_DOMAINS.index, checkpoint.drain_survives))
    fraction = reliability.smaller_than_fraction(
        LOSS_DOMAINS[largest + 1], num_nodes=demands.num_nodes, num_gpus=demands.num_gpus
    )
    if fraction is None:
        raise InvalidInput.of(
            "checkpoint.drain_survives",
            "cannot be weighed, as reliability does not say what failures take down",
            value=list(checkpoint.drain_survives),
            remedy="give reliability.components with their loss_domain, or remove drain_survives",
        )
    return fraction


def share_of_outlived(outlived: Numbers, *, begins: Numbers, used: Numbers) -> Numbers:
    """Of the failures that need a tier, the share that drains outlive; 0 where none need it.

    Failures are put in the order of what they take down. Those that need the tier fill `used` of all, from `begins` on;
    drains outlive the first `outlived` of all.
    Source: both a tier and a drain survive the failures that take down least.

    >>> round(float(share_of_outlived(0.5, begins=0.4, used=0.4)), 6)
    0.25
    """
    some = np.greater(used, 0)
    return np.where(some, np.clip(np.subtract(outlived, begins) / np.where(some, used, 1.0), 0.0, 1.0), 0.0)


def drain_assumptions(
    checkpoint: Checkpoint, reliability: Reliability | None, *, demands: Demands
) -> Iterator[Assumption]:
    """What is taken of drains, where there are drains and failures and nobody said it."""
    drains = checkpoint.mode == "async" or any(tier.mode == "async" for tier in checkpoint.front_tiers)
    if drains and reliability is not None and checkpoint.drain_survives is None and demands.defaults.loses_drains:
        yield Assumption(
            field="checkpoint.drain_survives",
            value=[],
            reason="a drain is part of the processes that train, and ends with any failure",
        )
