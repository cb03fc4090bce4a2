"""How long nodes take to pass on to others what they have read."""

from __future__ import annotations

import numpy as np

from sizing.run.demands.demands import Demands
from sizing.run.demands.readings import RestorePlan
from sizing.storage.transfer import Numbers


def exchange_seconds(exchanged_bytes_per_node: Numbers, *, network_bytes_per_second: float | None) -> Numbers:
    """Time in which nodes pass on what they read: bytes that the busiest node receives or sends / its network rate.

    A pipelined broadcast brings every node what it holds, once; an exchange of equal shares (n - 1)/n of it among n
    copies; ranks that deal out send what they read. 0 where the rate is not known.
    Source: Chan et al. 2007, "Collective communication: theory, practice, and experience", lower bounds of the
    bandwidth term; nothing overlaps with the reading.

    >>> float(exchange_seconds(13.8e12 / 64, network_bytes_per_second=200e9))
    1.078125
    """
    return 0.0 if network_bytes_per_second is None else np.divide(exchanged_bytes_per_node, network_bytes_per_second)


def exchange_of(plan: RestorePlan, demands: Demands) -> Numbers:
    """The time in which a plan's nodes pass on what they read.

    Source: `exchange_seconds`.

    >>> from sizing.sized import sized
    >>> from sizing.scenario import REFERENCE_SCENARIO, scenario_from
    >>> demands = sized(scenario_from(REFERENCE_SCENARIO)).demands
    >>> round(float(exchange_of(demands.restores["read-once-broadcast"], demands)), 4)
    1.0781
    """
    rate = demands.network_bytes_per_second
    return exchange_seconds(plan.exchanged_bytes_per_node, network_bytes_per_second=rate)
