"""Node types: data with a source per entry, read from `nodes.toml` beside this file."""

from __future__ import annotations

import functools
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, model_validator

from sizing.catalog_file import CatalogEntry, catalog_name, entries, entry_named
from sizing.cluster.adapters import Adapters
from sizing.cluster.gpu import gpu_catalog
from sizing.units import ByteCount, BytesPerSecond


class NodeSpec(BaseModel):
    """A training node. What is None is not published, and limits nothing."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    gpus_per_node: Annotated[int, Field(ge=1, le=256)] = Field(description="GPUs that share one host, one rank each.")
    gpus_per_link_domain: Annotated[int, Field(ge=1, le=4096)] | None = Field(
        None,
        description="GPUs that the GPUs' own links join, such as the 72 of a rack of GB200. Default: those of a node.",
    )
    gpu: Annotated[str, Field(max_length=100), catalog_name(gpu_catalog)] | None = Field(
        None,
        description="Name of the GPU, which tells its peak rates: a100, h100, h200, b200, gb200. "
        "Default: unknown, so that step times are not computed.",
    )
    gpu_memory_bytes: ByteCount | None = Field(
        None, description="Memory of one GPU, in bytes. Default: unknown, so the fit is not judged."
    )
    host_memory_bytes: ByteCount | None = Field(
        None, description="Memory of the host, in bytes. Default: unknown, so the fit is not judged."
    )
    storage_network_bytes_per_second: BytesPerSecond | None = Field(
        None,
        description="Line rate of all storage ports of a node together, one way, in bytes per second. "
        "Default: unknown, so rates are compared with all adapters that are known.",
    )
    compute_network_bytes_per_second: BytesPerSecond | None = Field(
        None,
        description="Line rate of all ports to other nodes' GPUs together, one way, in bytes per second. "
        "Default: unknown, so exchanges between nodes take no time.",
    )
    local_nvme_bytes: ByteCount | None = Field(
        None,
        description="Capacity of all data drives of a node together, in bytes. "
        "Default: unknown, so the fit of a local-nvme tier is not judged.",
    )
    pcie_generation: Annotated[int, Field(ge=1, le=8)] | None = Field(
        None,
        description="PCIe generation of the link between GPU and host, which bounds the copy to host memory. "
        "Default: unknown, so asynchronous saving needs device_to_host_bytes_per_second.",
    )

    @property
    def num_linked_gpus(self) -> int:
        """GPUs that reach each other over their links."""
        return self.gpus_per_link_domain or self.gpus_per_node


_TOTALS = {
    "compute_nics": "compute_network_bytes_per_second",
    "storage_nics": "storage_network_bytes_per_second",
}
"""The adapters of a catalog entry, and the field of its specification that holds what they carry together."""


class CatalogNode(CatalogEntry):
    """A published node type, and where its figures were read."""

    spec: NodeSpec = Field(description="GPUs, memory and links as published.")
    network_row: str | None = Field(
        None,
        description="Row of published/node_networks.json from which the adapters were taken. "
        "Null when no row is of this node.",
    )
    compute_nics: Adapters | None = Field(
        None, description="Adapters that carry traffic between the GPUs of different nodes. Null when not published."
    )
    storage_nics: Adapters | None = Field(
        None, description="Adapters that reach the storage, as far as the sources agree. Null when they do not say."
    )
    storage_and_management_nics: Adapters | None = Field(
        None,
        description="Adapters for storage and management together, of which no source says which ports reach the "
        "storage. Null when there are none.",
    )
    network_note: str | None = Field(
        None,
        description="Why the storage network is unknown, or what the sources say besides. "
        "Null when nothing needs to be said.",
    )

    @model_validator(mode="before")
    @classmethod
    def _with_totals(cls, entry: Any) -> Any:
        """The specification with what all adapters of a kind carry together, which the file does not repeat."""
        if not isinstance(entry, dict):
            return entry
        given = {total: Adapters.model_validate(entry[nics]) for nics, total in _TOTALS.items() if entry.get(nics)}
        totals = {total: nics.node_bytes_per_second for total, nics in given.items()}
        return entry | {"spec": {**entry.get("spec", {}), **totals}}


PCIE_BYTES_PER_SECOND = {1: 4e9, 2: 8e9, 3: 15.75e9, 4: 31.5e9, 5: 63e9, 6: 121e9}
"""Line rate of 16 lanes, one way, by generation. Source: PCI-SIG, base specifications 1.1 to 6.0, less line coding."""


@functools.cache
def node_catalog() -> dict[str, CatalogNode]:
    """Every node type of the catalog by name."""
    return entries(CatalogNode, package=__package__, file="nodes.toml")


def node_named(name: str) -> CatalogNode:
    """The catalog's node type of that name.

    Raises InvalidInput, with the nearest names, where there is none.
    """
    return entry_named(name, node_catalog(), field="cluster.node")
