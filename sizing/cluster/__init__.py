"""On what: node types with their GPUs, memory and links."""

from sizing.cluster.cluster import Cluster, ResolvedNode
from sizing.cluster.node import NodeSpec, node_catalog

__all__ = ["Cluster", "NodeSpec", "ResolvedNode", "node_catalog"]
