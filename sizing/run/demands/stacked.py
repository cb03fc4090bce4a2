"""The demands of several layouts as arrays, a row for each: one evaluation answers them all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from sizing.run.demands.demands import Demands
from sizing.run.demands.readings import STRATEGIES, RestorePlan, RestoreStrategy
from sizing.run.demands.universal import Universal
from sizing.storage.terms import Demand

_NOTHING = Demand(0, 1, 1.0, 0)
"""A step of a restore that takes no time, for rows with fewer steps than others."""

_Array = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class StackedDemands(Demands):
    """Demands whose numbers are arrays. Where a link of a row's node is not published, it is no number."""

    gpu_links: _Array
    networks: _Array
    own: RestorePlan

    @property
    def gpu_link_bytes_per_second(self) -> _Array:  # type: ignore[override]  # rows of what others have one of
        """Line rate from one GPU to its host."""
        return self.gpu_links

    @property
    def network_bytes_per_second(self) -> _Array:  # type: ignore[override]  # as above
        """Line rate of a node's ports to the other nodes; where it is not published, it limits nothing."""
        return self.networks

    @property
    def own_restore(self) -> RestorePlan:
        """How the ranks that saved read back what lies in their own nodes."""
        return self.own


def stacked(rows: Sequence[tuple[Demands, RestoreStrategy]]) -> StackedDemands:
    """The demands of each row, and the plan of its restore, whichever strategy is then asked for."""
    layouts = [demands for demands, _ in rows]

    def column(of: Callable[[Demands], float | None], *, unknown: float = np.nan) -> Any:
        return _array([unknown if (value := of(row)) is None else value for row in layouts])

    plan = _plan([demands.restores[strategy] for demands, strategy in rows])
    return StackedDemands(
        write=_demand([row.write for row in layouts]),
        restores=dict.fromkeys(STRATEGIES, plan),
        written_bytes=column(lambda row: row.written_bytes),
        weights_bytes=column(lambda row: row.weights_bytes),
        num_gpus=column(lambda row: row.num_gpus),
        num_nodes=column(lambda row: row.num_nodes),
        num_writing_nodes=column(lambda row: row.num_writing_nodes),
        max_node_bytes=column(lambda row: row.max_node_bytes),
        node=layouts[0].node,
        defaults=layouts[0].defaults,
        exported_bytes=column(lambda row: row.exported_bytes),
        universal=_universal([row.universal for row in layouts]),
        whole=stacked([(row.unreduced, strategy) for row, strategy in rows]) if any(r.whole for r in layouts) else None,
        num_state_copies=column(lambda row: row.num_state_copies),
        node_state_bytes=column(lambda row: row.node_state_bytes),
        gpu_links=column(lambda row: row.gpu_link_bytes_per_second),
        networks=column(lambda row: row.network_bytes_per_second, unknown=np.inf),
        own=_plan([row.own_restore for row in layouts]),
    )


def _universal(rows: Sequence[Universal | None]) -> Universal | None:
    made = [row for row in rows if row is not None]
    if len(made) < len(rows):
        return None
    return Universal(*(_array([getattr(row, field.name) for row in made]) for field in fields(Universal)))


def _plan(plans: Sequence[RestorePlan]) -> RestorePlan:
    num_steps = max(len(plan.demands) for plan in plans)
    padded = [(*plan.demands, *[_NOTHING] * (num_steps - len(plan.demands))) for plan in plans]
    return RestorePlan(
        readings={},
        demands=tuple(_demand(step) for step in zip(*padded, strict=True)),
        num_gpus=_array([plan.num_gpus for plan in plans]),
        exchanged_bytes_per_node=_array([plan.exchanged_bytes_per_node for plan in plans]),
        max_rank_read_bytes=_array([plan.max_rank_read_bytes for plan in plans]),
    )


def _demand(demands: Sequence[Demand]) -> Demand:
    return Demand(*(_limit([getattr(demand, field.name) for demand in demands]) for field in fields(Demand)))


def _limit(values: Sequence[float | None]) -> Any:
    """A column of what each demand has; what only some of them have does not limit the others."""
    if all(value is None for value in values):
        return None
    return _array([np.inf if value is None else value for value in values])


def _array(values: Sequence[object]) -> Any:
    """An array, which stands where other demands have one number."""
    return np.array(values, dtype=np.float64)
