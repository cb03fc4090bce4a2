"""The `cluster` block of a Scenario, and the node that it resolves to."""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from sizing.catalog_file import catalog_name
from sizing.cluster.adapters import NetworkAdapters, StorageNics
from sizing.cluster.kinds import NodeKind, NodeKinds, split_text
from sizing.cluster.node import CatalogNode, NodeSpec, node_catalog, node_named
from sizing.errors import InvalidInput, broken_rule
from sizing.provenance import Assumption
from sizing.strict_model import InputModel
from sizing.units import OrText, bit_rate_text

DEFAULT_NODE = "dgx-h100"
MAX_GPUS = 100_000_000
"""Max world size, a thousand times that of the largest published training cluster: a number above is a typing error."""


class Cluster(InputModel):
    """The nodes that train: a catalog name or a specification, and optionally how many GPUs to expect."""

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

    storage_nics: OrText[StorageNics] | None = Field(
        None,
        description="Adapters through which one node reaches the storage, also as text: 2 x 400 Gb/s. They bound "
        "writes and reads. Default: no bound; rates above what is published of the node are warned of.",
    )
    nodes: OrText[Annotated[NodeKinds, BeforeValidator(split_text)]] | None = Field(
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
        """Same cluster without numbers of GPUs and nodes."""
        kinds = self.nodes and tuple(kind.model_copy(update={"count": None}) for kind in self.nodes)
        return self.model_copy(update={"num_gpus": None, "nodes": kinds})


@dataclass(frozen=True, slots=True)
class NetworkLimit:
    """Rate that the adapters of a node carry to and from the storage, one way. `name` says which adapters these are."""

    bytes_per_second: float
    name: str


@dataclass(frozen=True)
class ResolvedNode:
    """Node type that the calculation uses.

    `published` is its entry of the catalog, if it has one. `storage_nics` are the user's own figures.
    """

    name: str
    spec: NodeSpec
    published: CatalogNode | None = None
    storage_nics: OrText[StorageNics] | None = None
    assumptions: tuple[Assumption, ...] = ()

    @functools.cached_property
    def network_limit(self) -> NetworkLimit | None:
        """Limit of the adapters given for storage, else of those published; None if none are known.

        If no source says which ports reach the storage, all adapters of the node count: storage may be mounted over the
        compute network too.
        """
        if self.storage_nics is not None:
            return NetworkLimit(
                self.storage_nics.node_bytes_per_second, f"cluster.storage_nics ({self.storage_nics.text})"
            )
        total = self.spec.storage_network_bytes_per_second
        if total is not None:
            return NetworkLimit(total, f"its storage network ({self._text('storage_nics', total)})")
        compute = self.spec.compute_network_bytes_per_second
        if compute is None:
            return None
        others = self.published.storage_and_management_nics if self.published else None
        beside = f", storage and management {others.text}" if others else ""
        text = f"all its adapters (compute {self._text('compute_nics', compute)}{beside})"
        return NetworkLimit(compute + ((others and others.node_bytes_per_second) or 0.0), text)

    @property
    def num_storage_nics(self) -> int | None:
        """Number of adapters for storage: those given, else those published; None if unknown."""
        if self.storage_nics is not None:
            return self.storage_nics.num
        published = self.published.storage_nics if self.published else None
        return published.num if published else None

    def _text(self, nics: Literal["compute_nics", "storage_nics"], total: float) -> str:
        adapters: NetworkAdapters | None = getattr(self.published, nics, None)
        return adapters.text if adapters else bit_rate_text(total)


@dataclass(frozen=True, slots=True)
class ResolvedKind:
    """A kind of node in the cluster, with the number of its nodes.

    `flops_fraction` is the peak of its GPUs over that of the GPU that it names. `given` is its description in the
    scenario. `alone` is a cluster of this kind only, of any size.
    """

    name: str
    count: int
    node: ResolvedNode
    given: NodeKind
    alone: Cluster
    flops_fraction: float = 1.0

    @property
    def num_gpus(self) -> int:
        """Number of GPUs of all nodes of the kind."""
        return self.count * self.node.spec.gpus_per_node


def resolve_kinds(cluster: Cluster) -> tuple[ResolvedKind, ...]:
    """List the kinds of nodes of a cluster, equal ones merged; none if the cluster does not count its nodes.

    Raises InvalidInput if the catalog does not know a name.
    """
    counts: dict[NodeKind, int] = {}
    for given in cluster.nodes or ():
        kind = given.model_copy(update={"count": None})
        counts[kind] = counts.get(kind, 0) + (given.count or 0)
    kinds = []
    for number, (kind, count) in enumerate(counts.items(), 1):
        alone = Cluster(node=kind.node, node_spec=kind.node_spec, storage_nics=kind.storage_nics)
        name = kind.name or kind.node or f"kind-{number}"
        kinds.append(ResolvedKind(name, count, resolve_node(alone), kind, alone, kind.flops_fraction))
    return tuple(kinds)


def resolve_node(cluster: Cluster) -> ResolvedNode:
    """Resolve a `cluster` block to a node type; for several kinds, to what holds for each of them.

    GPUs with another peak than the GPU that they name have no name here: their step times are unknown.
    Raises InvalidInput if the catalog does not know the name, or if kinds have different numbers of GPUs.
    """
    kinds = resolve_kinds(cluster)
    if len(kinds) > 1:
        return _merge_kinds(kinds)
    if kinds:
        [kind] = kinds
        spec = kind.node.spec if kind.flops_fraction == 1.0 else kind.node.spec.model_copy(update={"gpu": None})
        return replace(kind.node, spec=spec)
    if cluster.node_spec is not None:
        return ResolvedNode("node_spec", cluster.node_spec, storage_nics=cluster.storage_nics)
    entry, assumptions = node_named(cluster.node or DEFAULT_NODE), []
    if cluster.node is None:
        assumptions.append(Assumption(field="cluster.node", value=DEFAULT_NODE, reason="default"))
    if cluster.storage_nics is None and entry.spec.storage_network_bytes_per_second is None:
        reason = f"storage network: {entry.network_note or 'not published'}"
        assumptions.append(Assumption(field="cluster.storage_nics", value="unknown", reason=reason))
    return ResolvedNode(
        cluster.node or DEFAULT_NODE,
        entry.spec,
        published=entry,
        storage_nics=cluster.storage_nics,
        assumptions=tuple(assumptions),
    )


def num_storage_nics(cluster: Cluster, num_nodes: int) -> int | None:
    """Count the adapters through which all nodes reach the storage; None if unknown for a kind.

    Raises InvalidInput where the catalog does not know a node. Source: definition.

    >>> num_storage_nics(Cluster(node="dgx-a100"), 16)
    32
    >>> num_storage_nics(Cluster(node="dgx-h100"), 16)  # of its 2, no source says which reach the storage
    """
    kinds = resolve_kinds(cluster)
    each = [(kind.count, kind.node) for kind in kinds] if len(kinds) > 1 else [(num_nodes, resolve_node(cluster))]
    known = [count * node.num_storage_nics for count, node in each if node.num_storage_nics is not None]
    return sum(known) if len(known) == len(each) else None


def _merge_kinds(kinds: tuple[ResolvedKind, ...]) -> ResolvedNode:
    """Merge kinds into one node type: properties that all share, and the smallest adapters and host memory.

    GPU memory and step times of different GPUs are left open.
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
"""Figures of a node for which the smallest of all kinds is the bound."""
_IN_COMMON = "the slowest adapters of any kind count; ckpt-size stages says memory and time kind by kind"
