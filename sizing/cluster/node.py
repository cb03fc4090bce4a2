"""Node types: data with a source per entry, read from `nodes.toml` beside this file."""

from __future__ import annotations

import functools
import tomllib
from datetime import date
from importlib import resources
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from sizing.errors import unknown_name
from sizing.units import ByteCount, BytesPerSecond


class NodeSpec(BaseModel):
    """A training node. What is None is not published, and limits nothing."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    gpus_per_node: Annotated[int, Field(ge=1, le=256)]
    gpu_memory_bytes: ByteCount | None = Field(None, description="memory of one GPU")
    host_memory_bytes: ByteCount | None = None
    storage_network_bytes_per_second: BytesPerSecond | None = Field(
        None, description="line rate of the ports for storage, all together, one way"
    )
    compute_network_bytes_per_second: BytesPerSecond | None = Field(
        None, description="line rate of the ports between GPUs of different nodes, all together, one way"
    )
    local_nvme_bytes: ByteCount | None = Field(None, description="of the data drives, all together")
    pcie_generation: Annotated[int, Field(ge=1, le=8)] | None = Field(None, description="of the GPUs' links")


class CatalogNode(BaseModel):
    """A published node type, and where its figures were read."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    source: str
    read_on: date
    spec: NodeSpec


PCIE_BYTES_PER_SECOND = {1: 4e9, 2: 8e9, 3: 15.75e9, 4: 31.5e9, 5: 63e9, 6: 121e9}
"""Line rate of 16 lanes, one way, by generation. Source: PCI-SIG, base specifications 1.1 to 6.0, less line coding."""


@functools.cache
def node_catalog() -> dict[str, CatalogNode]:
    """Every node type of the catalog by name."""
    text = resources.files(__package__).joinpath("nodes.toml").read_text(encoding="utf-8")
    nodes = [CatalogNode.model_validate(entry) for entry in tomllib.loads(text)["node"]]
    return {node.name: node for node in nodes}


def node_named(name: str) -> CatalogNode:
    """The catalog's node type of that name.

    Raises InvalidInput, with the nearest names, where there is none.
    """
    node = node_catalog().get(name)
    if node is None:
        raise unknown_name("cluster.node", name, known=node_catalog())
    return node
