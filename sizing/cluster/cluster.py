"""The `cluster` block of a Scenario, and the node that it resolves to."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from sizing.catalog_file import catalog_name
from sizing.cluster.adapters import Adapters, StorageNics
from sizing.cluster.node import CatalogNode, NodeSpec, node_catalog, node_named
from sizing.errors import broken_rule
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
        description="World size to check against the product of the degrees. `ckpt-size` finds those that "
        "are left open. Default: no check.",
    )

    storage_nics: StorageNics | None = Field(
        None,
        description="Adapters through which one node reaches the storage, also as text: 2 x 400 Gb/s. They bound "
        "writes and reads. Default: no bound; rates above what is published of the node are warned of.",
    )

    @model_validator(mode="after")
    def _one_kind_of_node(self) -> Self:
        if self.node is not None and self.node_spec is not None:
            raise broken_rule("has both node and node_spec", "keep one")
        return self


@dataclass(frozen=True, slots=True)
class NetworkLimit:
    """What the adapters of a node carry to and from the storage, one way; `name` says which adapters these are."""

    bytes_per_second: float
    name: str


@dataclass(frozen=True, slots=True)
class ResolvedNode:
    """The node type that the calculation uses.

    `published` is its entry of the catalog, if it has one; `storage_nics` are the user's own figures.
    """

    name: str
    spec: NodeSpec
    published: CatalogNode | None = None
    storage_nics: StorageNics | None = None
    assumptions: tuple[Assumption, ...] = ()

    @property
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


def resolve_node(cluster: Cluster) -> ResolvedNode:
    """The node type that a `cluster` block asks for.

    Raises InvalidInput where the catalog does not know its name.
    """
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


def _assumptions(cluster: Cluster, entry: CatalogNode) -> Iterator[Assumption]:
    if cluster.node is None:
        yield Assumption(field="cluster.node", value=DEFAULT_NODE, reason="default")
    if cluster.storage_nics is None and entry.spec.storage_network_bytes_per_second is None:
        reason = entry.network_note or "not published"
        yield Assumption(field="cluster.storage_nics", value="unknown", reason=f"storage network: {reason}")
