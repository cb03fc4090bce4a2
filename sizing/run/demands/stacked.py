"""The demands of several layouts as arrays, a row for each: one evaluation answers them all."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
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

_COUNTS = (
    "written_bytes",
    "weights_bytes",
    "num_gpus",
    "num_nodes",
    "num_writing_nodes",
    "max_node_bytes",
    "exported_bytes",
    "num_state_copies",
    "node_state_bytes",
)
"""Of Demands, the numbers of its own that every layout has."""

_counts_of: Callable[[Demands], Sequence[float]] = operator.attrgetter(*_COUNTS)
_fields_of: Callable[[Demand], Sequence[float | None]] = operator.attrgetter(*(field.name for field in fields(Demand)))


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
    plan = _plan([demands.restores[strategy] for demands, strategy in rows])
    return StackedDemands(
        write=_demand([row.write for row in layouts]),
        restores=dict.fromkeys(STRATEGIES, plan),
        **dict(zip(_COUNTS, _columns(map(_counts_of, layouts)), strict=True)),
        node=layouts[0].node,
        defaults=layouts[0].defaults,
        universal=_universal([row.universal for row in layouts]),
        whole=stacked([(row.unreduced, strategy) for row, strategy in rows]) if any(r.whole for r in layouts) else None,
        gpu_links=_array(_known([row.gpu_link_bytes_per_second for row in layouts], unknown=np.nan)),
        networks=_array(_known([row.network_bytes_per_second for row in layouts], unknown=np.inf)),
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


def _demand(demands: Iterable[Demand]) -> Demand:
    return Demand(*_columns(map(_fields_of, demands)))


def _columns(rows: Iterable[Sequence[float | None]]) -> Iterator[Any]:
    """A column of each figure of some rows; what only some of them have does not limit the others."""
    columns = list(zip(*rows, strict=True))
    table = _array([_known(column, unknown=np.inf) for column in columns])
    for column, numbers in zip(columns, table, strict=True):
        yield None if column.count(None) == len(column) else numbers


def _known(column: Sequence[float | None], *, unknown: float) -> Sequence[float]:
    return [unknown if value is None else value for value in column]


def _array(values: Sequence[object]) -> Any:
    """An array, which stands where other demands have one number."""
    return np.array(values, dtype=np.float64)
