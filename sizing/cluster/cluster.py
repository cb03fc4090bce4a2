"""The `cluster` block of a Scenario, and the node that it resolves to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from sizing.catalog_file import catalog_name
from sizing.cluster.node import NodeSpec, node_catalog, node_named
from sizing.errors import broken_rule
from sizing.provenance import Assumption

DEFAULT_NODE = "dgx-h100"
MOST_GPUS = 100_000_000
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
    num_gpus: Annotated[int, Field(ge=1, le=MOST_GPUS)] | None = Field(
        None,
        description="World size to check against the product of the degrees. `ckpt-size` finds those that "
        "are left open. Default: no check.",
    )

    @model_validator(mode="after")
    def _one_kind_of_node(self) -> Self:
        if self.node is not None and self.node_spec is not None:
            raise broken_rule("has both node and node_spec", "keep one")
        return self


@dataclass(frozen=True, slots=True)
class ResolvedNode:
    """The node type that the calculation uses."""

    name: str
    spec: NodeSpec
    assumptions: tuple[Assumption, ...] = ()


def resolve_node(cluster: Cluster) -> ResolvedNode:
    """The node type that a `cluster` block asks for.

    Raises InvalidInput where the catalog does not know its name.
    """
    if cluster.node_spec is not None:
        return ResolvedNode("node_spec", cluster.node_spec)
    if cluster.node is not None:
        return ResolvedNode(cluster.node, node_named(cluster.node).spec)
    assumption = Assumption(field="cluster.node", value=DEFAULT_NODE, reason="default")
    return ResolvedNode(DEFAULT_NODE, node_named(DEFAULT_NODE).spec, (assumption,))
