"""The nodes that train: node types with their GPUs, memory and links."""

from sizing.cluster.cluster import Cluster, ResolvedKind, ResolvedNode
from sizing.cluster.node import NodeSpec, node_catalog

__all__ = ["Cluster", "NodeSpec", "ResolvedKind", "ResolvedNode", "node_catalog"]
