"""The `cluster` block of a Scenario, and the node that it resolves to."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Annotated, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from sizing.catalog_file import catalog_name
from sizing.cluster.adapters import Adapters, StorageNics
from sizing.cluster.kinds import NodeKind, NodeKinds, split_text
from sizing.cluster.node import CatalogNode, NodeSpec, node_catalog, node_named
from sizing.errors import InvalidInput, broken_rule
from sizing.provenance import Assumption
from sizing.units import bit_rate_text

DEFAULT_NODE = "dgx-h100"
MAX_GPUS = 100_000_000
"""A thousand times the largest published training cluster: a number above is a typing error."""


class Cluster(BaseModel):
    """The nodes that train: a catalog name or a specification, and optionally how many GPUs to expect."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    node: Annotated[str, Field(max_length=100), catalog_name(node_catalog)] | None = Field(
        None,
        description=f"Name of a published node type; `ckpt-size nodes` lists them. Default: {DEFAULT_NODE}.",
    )
    node_spec: NodeSpec | None = Field(
        None, description="GPUs, memory and links of a node that is not in the catalog. Give it or node. Default: node."
    )
    num_gpus: Annotated[int, Field(ge=1, le=MAX_GPUS)] | None = Field(
        None,
        description="World size: tensor x pipeline x context x data. "
        "Where data is left open, the best layout that fits is taken. Default: no check.",
    )

    storage_nics: StorageNics | None = Field(
        None,
        description="Adapters through which one node reaches the storage, also as text: 2 x 400 Gb/s. They bound "
        "writes and reads. Default: no bound; rates above what is published of the node are warned of.",
    )
    nodes: Annotated[NodeKinds, BeforeValidator(split_text)] | None = Field(
        None,
        description="Nodes of several kinds with the number of each, also as text: 4 x dgx-a100, 4 x dgx-h100. "
        "Pipeline stages are placed on them in this order. Give this or node and node_spec. "
        "Default: all nodes are of one kind.",
    )

    @model_validator(mode="after")
    def _one_kind_of_node(self) -> Self:
        if self.node is not None and self.node_spec is not None:
            raise broken_rule("has both node and node_spec", "keep one")
        beside = [name for name in ("node", "node_spec", "storage_nics") if getattr(self, name) is not None]
        if self.nodes is not None and beside:
            remedy = f"give {beside[0]} of each kind in nodes" if beside[0] == "storage_nics" else "keep one"
            raise broken_rule(f"has both nodes and {beside[0]}", remedy)
        if self.nodes and len(self.nodes) > 1 and any(kind.count is None for kind in self.nodes):
            raise broken_rule("has several nodes and one without count", "give the count of each")
        return self

    @property
    def without_counts(self) -> Cluster:
        """The same nodes, however many."""
        kinds = self.nodes and tuple(kind.model_copy(update={"count": None}) for kind in self.nodes)
        return self.model_copy(update={"num_gpus": None, "nodes": kinds})


@dataclass(frozen=True, slots=True)
class NetworkLimit:
    """What the adapters of a node carry to and from the storage, one way; `name` says which adapters these are."""

    bytes_per_second: float
    name: str


@dataclass(frozen=True)
class ResolvedNode:
    """The node type that the calculation uses.

    `published` is its entry of the catalog, if it has one; `storage_nics` are the user's own figures.
    """

    name: str
    spec: NodeSpec
    published: CatalogNode | None = None
    storage_nics: StorageNics | None = None
    assumptions: tuple[Assumption, ...] = ()

    @functools.cached_property
    def network_limit(self) -> NetworkLimit | None:
        """The adapters given for storage, else those published; None where nothing is known.

        Where no source says which ports reach the storage, all of the node's adapters count: storage may be mounted
        over the compute network too.
        """
        if self.storage_nics is not None:
            return NetworkLimit(
                self.storage_nics.node_bytes_per_second, f"cluster.storage_nics ({self.storage_nics.text})"
            )
        total = self.spec.storage_network_bytes_per_second
        if total is not None:
            return NetworkLimit(total, f"its storage network ({self._text('storage_nics', total)})")
        return self._all_adapters

    @property
    def num_storage_nics(self) -> int | None:
        """How many adapters it has for storage: those given, else those published; None where nothing is known."""
        if self.storage_nics is not None:
            return self.storage_nics.num
        published = self.published.storage_nics if self.published else None
        return published.num if published else None

    @property
    def _all_adapters(self) -> NetworkLimit | None:
        compute = self.spec.compute_network_bytes_per_second
        if compute is None:
            return None
        others = self.published.storage_and_management_nics if self.published else None
        known = (others.node_bytes_per_second or 0.0) if others else 0.0
        beside = f", storage and management {others.text}" if others else ""
        text = f"all its adapters (compute {self._text('compute_nics', compute)}{beside})"
        return NetworkLimit(compute + known, text)

    def _text(self, nics: Literal["compute_nics", "storage_nics"], total: float) -> str:
        found: Adapters | None = getattr(self.published, nics, None)
        return found.text if found else bit_rate_text(total)


@dataclass(frozen=True, slots=True)
class ResolvedKind:
    """A kind of nodes in the cluster: `count` of them; `flops_fraction` is their GPUs' peak over the named GPU's.

    `given` is how the scenario describes it, `alone` a cluster of this kind alone, however large.
    """

    name: str
    count: int
    node: ResolvedNode
    given: NodeKind
    alone: Cluster
    flops_fraction: float = 1.0

    @property
    def num_gpus(self) -> int:
        """GPUs of all nodes of the kind."""
        return self.count * self.node.spec.gpus_per_node


def resolve_kinds(cluster: Cluster) -> tuple[ResolvedKind, ...]:
    """The kinds of nodes of a cluster, equal ones together; none where it does not count them.

    Raises InvalidInput where the catalog does not know a name.
    """
    counts: dict[NodeKind, int] = {}
    for given in cluster.nodes or ():
        kind = given.model_copy(update={"count": None})
        counts[kind] = counts.get(kind, 0) + (given.count or 0)
    return tuple(_resolved_kind(number, kind, count) for number, (kind, count) in enumerate(counts.items(), 1))


def _resolved_kind(number: int, kind: NodeKind, count: int) -> ResolvedKind:
    flat = Cluster(node=kind.node, node_spec=kind.node_spec, storage_nics=kind.storage_nics)
    name = kind.name or kind.node or f"kind-{number}"
    return ResolvedKind(name, count, resolve_node(flat), kind, flat, kind.flops_fraction)


def resolve_node(cluster: Cluster) -> ResolvedNode:
    """The node type that a `cluster` block asks for; of several kinds what holds for each of them.

    Raises InvalidInput where the catalog does not know its name, or kinds have unlike numbers of GPUs.
    """
    kinds = resolve_kinds(cluster)
    if len(kinds) > 1:
        return _of_all(kinds)
    if kinds:
        return _of_one(kinds[0])
    if cluster.node_spec is not None:
        return ResolvedNode("node_spec", cluster.node_spec, storage_nics=cluster.storage_nics)
    entry = node_named(cluster.node or DEFAULT_NODE)
    return ResolvedNode(
        cluster.node or DEFAULT_NODE,
        entry.spec,
        published=entry,
        storage_nics=cluster.storage_nics,
        assumptions=tuple(_assumptions(cluster, entry)),
    )


def num_storage_nics(cluster: Cluster, num_nodes: int) -> int | None:
    """How many adapters reach the storage from all nodes; None where that is not known of a kind.

    Raises InvalidInput where the catalog does not know a node. Source: definition.

    >>> num_storage_nics(Cluster(node="dgx-a100"), 16)
    32
    >>> num_storage_nics(Cluster(node="dgx-h100"), 16)  # of its 2, no source says which reach the storage
    """
    kinds = resolve_kinds(cluster)
    each = [(kind.count, kind.node) for kind in kinds] if len(kinds) > 1 else [(num_nodes, resolve_node(cluster))]
    found = [count * node.num_storage_nics for count, node in each if node.num_storage_nics is not None]
    return sum(found) if len(found) == len(each) else None


def _assumptions(cluster: Cluster, entry: CatalogNode) -> Iterator[Assumption]:
    if cluster.node is None:
        yield Assumption(field="cluster.node", value=DEFAULT_NODE, reason="default")
    if cluster.storage_nics is None and entry.spec.storage_network_bytes_per_second is None:
        reason = entry.network_note or "not published"
        yield Assumption(field="cluster.storage_nics", value="unknown", reason=f"storage network: {reason}")


def _of_one(kind: ResolvedKind) -> ResolvedNode:
    """The node of the only kind; where its GPU is not the one that it names, step times are not computed."""
    if kind.flops_fraction == 1.0:
        return kind.node
    return replace(kind.node, spec=kind.node.spec.model_copy(update={"gpu": None}))


def _of_all(kinds: tuple[ResolvedKind, ...]) -> ResolvedNode:
    """What holds for nodes of each kind: what they have in common, and of adapters and host memory the least.

    GPUs that differ have no memory and no step time in common: these are left open.
    """
    specs, limits = [kind.node.spec for kind in kinds], [kind.node.network_limit for kind in kinds]
    if len({spec.gpus_per_node for spec in specs}) > 1:
        raise InvalidInput.of(
            "cluster.nodes",
            "must be kinds with as many GPUs per node where one answer is asked over all of them",
            value=", ".join(f"{kind.node.spec.gpus_per_node} of {kind.name}" for kind in kinds),
            remedy="ask ckpt-size stages, which answers kind by kind",
        )
    common = {
        name: values[0] if all(value == values[0] for value in values) else None
        for name in NodeSpec.model_fields
        for values in [[getattr(spec, name) for spec in specs]]
    }
    for name in _LEAST:
        values = [getattr(spec, name) for spec in specs]
        common[name] = None if None in values else min(values)
    if any(kind.flops_fraction != 1.0 for kind in kinds):
        common["gpu"] = None
    given = [kind.node.storage_nics for kind in kinds if kind.node.storage_nics is not None]
    known = [limit.bytes_per_second for limit in limits if limit is not None]
    common["storage_network_bytes_per_second"] = min(known) if len(known) == len(kinds) else None
    return ResolvedNode(
        " and ".join(kind.name for kind in kinds),
        NodeSpec.model_validate(common),
        storage_nics=min(given, key=lambda nics: nics.node_bytes_per_second) if given else None,
        assumptions=(Assumption(field="cluster.nodes", value=f"{len(kinds)} kinds", reason=_IN_COMMON),),
    )


_LEAST = ("host_memory_bytes", "compute_network_bytes_per_second", "local_nvme_bytes", "pcie_generation")
"""Figures of a node of which the least of all kinds bounds them all."""
_IN_COMMON = "the slowest adapters of any kind count; ckpt-size stages says memory and time kind by kind"
