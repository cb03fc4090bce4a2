"""Rates that ask more of a node than its adapters carry, or of its streams than anybody publishes.

One definition for saves and restores, for exports and publications, of the main storage and of the tiers that stand
outside of the nodes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from sizing.cluster import ResolvedNode
from sizing.run.checkpoint import Checkpoint
from sizing.run.demands.demands import Demands
from sizing.run.tier import MEMORY_KINDS, NODE_KINDS
from sizing.storage.joint_rates import FILE_SYSTEM_RATES
from sizing.storage.limits import NETWORK
from sizing.storage.node_rates import NodeRate, max_node_rate_of
from sizing.storage.profile import StorageProfile
from sizing.storage.rates import DIRECTIONS, Direction, RateField
from sizing.storage.storage import ResolvedStorage, resolve_storage
from sizing.storage.terms import Demand, shared_terms
from sizing.storage.transfer import combined_seconds
from sizing.units import rate_text

_ROUNDING = 1 + 1e-9
"""A node rate that is its adapters' own must not exceed them by the last digit."""
_NODE_RATES: Mapping[Direction, RateField] = {
    "write": "node_write_bytes_per_second",
    "read": "node_read_bytes_per_second",
}


class _Words(NamedTuple):
    """How a direction reads in a sentence."""

    does: str
    stream: str


_WORDS: Mapping[Direction, _Words] = {
    "write": _Words("writing node would send", "writer"),
    "read": _Words("reading node would receive", "reader"),
}

Steps = Mapping[Direction, Sequence[Demand]]
"""What a save and a restore ask, or what else is written and read, one step after the other."""


@dataclass(frozen=True, slots=True)
class _NodeTraffic:
    """What the fullest node moves per second in the busiest step of a save or a restore, and each of its streams."""

    node_bytes_per_second: float
    stream_bytes_per_second: float


def _node_traffic(profile: StorageProfile, steps: Sequence[Demand], *, direction: Direction) -> _NodeTraffic | None:
    """The traffic of a node while bytes flow, or None where the profile gives no rate for the direction.

    Of each step B / (n t), with t the time of its slowest shared resource, over n nodes; serial steps move nothing.
    """
    rates = profile.rates(direction)
    traffic = []
    for step in steps:
        times = shared_terms(rates, step)
        if not times.keys() - {NETWORK}:
            return None
        flowing = float(step.total_bytes / combined_seconds(*times.values(), knee_power=rates.knee_power))
        traffic.append(_NodeTraffic(flowing / float(step.num_nodes), flowing / float(step.num_streams)))
    return max(traffic, key=lambda each: each.node_bytes_per_second)


def node_warnings(
    storage: ResolvedStorage | None,
    *,
    node: ResolvedNode,
    demands: Demands,
    checkpoint: Checkpoint,
    beside: Mapping[str, Steps],
) -> Iterator[str]:
    """Where the scenario's rates ask too much of a node: by the main storage, then by each tier on drives.

    `beside` has what else moves to and from the main storage, by its name in a sentence.
    """
    steps = demands.steps(checkpoint.restore)
    if storage is not None:
        yield from _of_main_storage(storage, node, steps, beside)
    for tier in checkpoint.tiers:
        own = resolve_storage(tier.storage)
        if own is not None and tier.kind not in MEMORY_KINDS:
            found = _of_storage(own, node, steps, is_in_nodes=tier.kind in NODE_KINDS)
            yield from (f"The {tier.kind} tier: {warning}" for warning in found)


def _of_main_storage(
    storage: ResolvedStorage, node: ResolvedNode, steps: Steps, beside: Mapping[str, Steps]
) -> Iterator[str]:
    """Those of saves and restores, then what else differs from them."""
    said = list(_of_storage(storage, node, steps, is_in_nodes=storage.is_in_nodes))
    yield from said
    for what, others in beside.items():
        found = _of_storage(storage, node, others, is_in_nodes=storage.is_in_nodes)
        yield from (f"The {what}: {warning}" for warning in found if warning not in said)


def needed_warnings(
    needed: Mapping[str, float], storage: ResolvedStorage | None, *, node: ResolvedNode, steps: Steps
) -> Iterator[str]:
    """Where rates that targets need, by their fields in a profile, ask more of a node than its adapters carry."""
    if storage is not None and storage.is_in_nodes:
        return
    for direction, field in FILE_SYSTEM_RATES.items():
        # What the fewest nodes would carry alone bounds it: almost every answer ends here.
        if _excess(node, needed.get(field, 0.0) / min(float(step.num_nodes) for step in steps[direction])) is None:
            continue
        profile = storage.profile if storage else StorageProfile.of_figures({})
        traffic = _node_traffic(profile.model_copy(update=dict(needed)), steps[direction], direction=direction)
        excess = _excess(node, traffic.node_bytes_per_second if traffic else 0.0)
        if excess is not None:
            yield f"To meet the targets, each {_WORDS[direction].does} {excess}. Use more nodes, or relax a target"


def _of_storage(storage: ResolvedStorage, node: ResolvedNode, steps: Steps, *, is_in_nodes: bool) -> Iterator[str]:
    """At most one sentence for each direction: adapters that cannot carry it matter more than streams."""
    for direction in filter(steps.get, DIRECTIONS):
        traffic = _node_traffic(storage.profile, steps[direction], direction=direction)
        beyond = None if is_in_nodes else _adapter_warning(storage.profile, traffic, node, direction)
        most = max_node_rate_of(storage, direction, is_in_nodes=is_in_nodes)
        found = beyond or _stream_warning(traffic, most, direction)
        if found is not None:
            yield found


def _adapter_warning(
    profile: StorageProfile, traffic: _NodeTraffic | None, node: ResolvedNode, direction: Direction
) -> str | None:
    """The sentence for a node's rate, computed or given, that its adapters cannot carry."""
    field = _NODE_RATES[direction]
    remedy = f"Give cluster.storage_nics, or a lower storage.profile.{field}"
    computed, given = _excess(node, traffic.node_bytes_per_second if traffic else 0.0), getattr(profile, field)
    if computed is not None:
        return f"Each {_WORDS[direction].does} {computed}. {remedy}"
    stated = _excess(node, given or 0.0)
    return None if stated is None else f"storage.profile.{field} is {stated}. {remedy}"


def _excess(node: ResolvedNode, bytes_per_second: float) -> str | None:
    """A rate beside what the adapters of the node carry, where that is less.

    Adapters that the scenario states bound the answer: nothing passes them, whatever it gives.
    """
    limit = None if node.storage_nics else node.network_limit
    if limit is None or bytes_per_second <= limit.bytes_per_second * _ROUNDING:
        return None
    return f"{rate_text(bytes_per_second)}, more than the {rate_text(limit.bytes_per_second)} of {limit.name}"


def _stream_warning(traffic: _NodeTraffic | None, most: NodeRate | None, direction: Direction) -> str | None:
    """The sentence for rates above the most that is published of one node's streams."""
    if traffic is None or most is None or traffic.node_bytes_per_second <= most.bytes_per_second * _ROUNDING:
        return None
    words = _WORDS[direction]
    return (
        f"Each {words.stream} would have to {direction} {rate_text(traffic.stream_bytes_per_second)}, "
        f"{rate_text(traffic.node_bytes_per_second)} per node; the most that {most.source} gives is "
        f"{rate_text(most.bytes_per_second)} per node. Measure it with ckpt-bench, or give a lower "
        f"storage.profile.{_NODE_RATES[direction]}"
    )
