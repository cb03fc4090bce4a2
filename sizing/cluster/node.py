"""Node types, and the GPUs in them."""

from __future__ import annotations

import functools
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from sizing.catalog_file import CatalogEntry, catalog_name, entries, entry_named
from sizing.cluster.adapters import NetworkAdapters
from sizing.strict_model import InputModel
from sizing.units import ByteCount, BytesPerSecond

Flops = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class Gpu(CatalogEntry):
    """A published GPU, and where its figures were read."""

    bf16_flops_per_second: Flops = Field(
        description="Floating-point operations per second of dense matrix products in 16 bits."
    )
    fp8_flops_per_second: Flops | None = Field(
        None,
        description="Floating-point operations per second of dense matrix products in 8 bits. "
        "Null where the GPU has no such units.",
    )
    block_precisions: tuple[Literal["mxfp8-mixed", "nvfp4-mixed"], ...] = Field(
        (), description="Precisions with a scale for each block of values in which its matrix products compute."
    )
    sends_by_own_engines: bool = Field(
        False, description="Whether engines of their own move what exchanges send, so that no computing unit is taken."
    )
    memory_bytes_per_second: BytesPerSecond = Field(description="Bandwidth of the GPU's memory, in bytes per second.")
    link_bytes_per_second: BytesPerSecond = Field(
        description="Bandwidth to the other GPUs that its links join, one way, in bytes per second."
    )
    host_link_bytes_per_second: BytesPerSecond | None = Field(
        None,
        description="Line rate to its host, one way, in bytes per second, over a link to the CPU of its own module or "
        "as measured over PCIe. Null where the PCIe generation of the node tells it, or nothing.",
    )


@functools.cache
def gpu_catalog() -> dict[str, Gpu]:
    """Return every GPU type of the catalog by name."""
    return entries(Gpu, package=__package__, file="gpus.toml")


def gpu_named(name: str) -> Gpu:
    """Return the GPU of the catalog with this name.

    Raises InvalidInput, with the nearest names, if there is none.
    """
    return entry_named(name, gpu_catalog(), field="cluster.node_spec.gpu")


class NodeSpec(InputModel):
    """A training node. What is None is not published, and limits nothing."""

    gpus_per_node: Annotated[int, Field(ge=1, le=256)] = Field(description="GPUs that share one host, one rank each.")
    gpus_per_link_domain: Annotated[int, Field(ge=1, le=16_384)] | None = Field(
        None,
        description="GPUs that the GPUs' own links join, such as the 72 of a rack of GB200 or the 256 chips of a pod "
        "of TPU v6e. Default: those of a node.",
    )
    gpu: Annotated[str, Field(max_length=100), catalog_name(gpu_catalog)] | None = Field(
        None,
        description="Name of the GPU or other accelerator, which tells its peak rates, such as h100, mi300x or "
        "tpu-v5p. Default: unknown, so that step times are not computed.",
    )
    gpu_memory_bytes: ByteCount | None = Field(
        None, description="Memory of one GPU, in bytes. Default: unknown, so the fit is not judged."
    )
    host_memory_bytes: ByteCount | None = Field(
        None,
        description="Memory of the host, in bytes. What is sold as 2 TB of modules is 2 TiB. "
        "Default: unknown, so the fit is not judged.",
    )
    storage_network_bytes_per_second: BytesPerSecond | None = Field(
        None,
        description="Line rate of all storage ports of a node together, one way, in bytes per second. "
        "Default: unknown, so rates are compared with all adapters that are known.",
    )
    compute_network_bytes_per_second: BytesPerSecond | None = Field(
        None,
        description="Line rate of all ports to other nodes' GPUs together, one way, in bytes per second. "
        "Default: unknown; step times guess it from published nodes with the same GPU.",
    )
    local_nvme_bytes: ByteCount | None = Field(
        None,
        description="Capacity of all data drives of a node together, in bytes. "
        "Default: unknown, so the fit of a local-nvme tier is not judged.",
    )
    pcie_generation: Annotated[int, Field(ge=1, le=8)] | None = Field(
        None,
        description="PCIe generation of the link between GPU and host, which bounds the copy to host memory. "
        "Default: unknown; asynchronous saving then needs device_to_host_bytes_per_second, unless the GPU has a link "
        "of its own to its host, as gb200.",
    )

    @property
    def usable_host_memory_bytes(self) -> int | None:
        """Host memory that a job can take, M - (f M + r): without what system and services keep; None if unknown.

        >>> NodeSpec(gpus_per_node=8, host_memory_bytes="1 TB").usable_host_memory_bytes
        949549112320
        """
        total = self.host_memory_bytes
        return None if total is None else max(0, total - round(RESERVED_FRACTION * total) - RESERVED_BYTES)

    @property
    def num_linked_gpus(self) -> int:
        """Number of GPUs that reach each other over their links."""
        return self.gpus_per_link_domain or self.gpus_per_node

    @property
    def host_link_bytes_per_second(self) -> float | None:
        """Line rate from one GPU to its host, over PCIe or else its own link; None if unpublished."""
        if self.pcie_generation is not None:
            return PCIE_BYTES_PER_SECOND.get(self.pcie_generation)
        return gpu_named(self.gpu).host_link_bytes_per_second if self.gpu else None


RESERVED_FRACTION, RESERVED_BYTES = 0.05, 430 * 1024**2
"""What system and services keep of a host's memory: a fraction f of it, and r bytes.

Source: Google Distributed Cloud, "Resources available for your workloads", read in November 2026: 5 % and 330 MiB, and
100 MiB below which pods are evicted. GKE keeps 2 % of what exceeds 128 GiB ("Plan node sizes").
"""

_TOTALS = {
    "compute_nics": "compute_network_bytes_per_second",
    "storage_nics": "storage_network_bytes_per_second",
}
"""Adapters of a catalog entry, each with the field of NodeSpec that holds their total rate."""


class CatalogNode(CatalogEntry):
    """A published node type, and where its figures were read."""

    spec: NodeSpec = Field(description="GPUs, memory and links as published.")
    cloud_names: tuple[str, ...] = Field(
        (), description="Names of the machine in the interface of its cloud, which a scenario may give as well."
    )
    network_row: str | None = Field(
        None,
        description="Row of published/node_networks.json from which the adapters were taken. "
        "Null when no row is of this node.",
    )
    compute_nics: NetworkAdapters | None = Field(
        None, description="Adapters that carry traffic between the GPUs of different nodes. Null when not published."
    )
    storage_nics: NetworkAdapters | None = Field(
        None, description="Adapters that reach the storage, as far as the sources agree. Null when they do not say."
    )
    storage_and_management_nics: NetworkAdapters | None = Field(
        None,
        description="Adapters for storage and management together, of which no source says which ports reach the "
        "storage. Null when there are none.",
    )
    network_note: str | None = Field(
        None,
        description="Why the storage network is unknown, or what the sources say besides. "
        "Null when nothing needs to be said.",
    )

    @property
    def names(self) -> tuple[str, ...]:
        """Its name, and those of its cloud."""
        return (self.name, *self.cloud_names)

    @model_validator(mode="before")
    @classmethod
    def _with_totals(cls, entry: Any) -> Any:
        """Add the total rate of each kind of adapter to the specification, which the file does not repeat."""
        if not isinstance(entry, dict):
            return entry
        given = {
            total: NetworkAdapters.model_validate(entry[nics]) for nics, total in _TOTALS.items() if entry.get(nics)
        }
        totals = {total: nics.node_bytes_per_second for total, nics in given.items()}
        return entry | {"spec": {**entry.get("spec", {}), **totals}}


PCIE_BYTES_PER_SECOND = {1: 4e9, 2: 8e9, 3: 15.75e9, 4: 31.5e9, 5: 63e9, 6: 121e9}
"""Line rate of 16 lanes, one way, by generation. Source: PCI-SIG, base specifications 1.1 to 6.0, less line coding."""


@functools.cache
def node_catalog() -> dict[str, CatalogNode]:
    """Return every node type of the catalog by name."""
    return entries(CatalogNode, package=__package__, file="nodes.toml")


def node_named(name: str) -> CatalogNode:
    """Return the node type of the catalog with this name.

    Raises InvalidInput, with the nearest names, if there is none.
    """
    listed = "ckpt-size nodes lists them; describe another in cluster.node_spec"
    return entry_named(name, node_catalog(), field="cluster.node", otherwise=listed)
