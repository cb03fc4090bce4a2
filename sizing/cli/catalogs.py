"""The catalogs as tables."""

from __future__ import annotations

from collections.abc import Iterator

from rich import box
from rich.table import Column, Table
from rich.text import Text

from sizing.cluster import node_catalog
from sizing.layout import Parallelism
from sizing.layout.formats import FORMATS, CheckpointFormat
from sizing.model import catalog, num_parameters
from sizing.model.inventory import inventory_of
from sizing.state.saved_state import PartName
from sizing.storage.catalog import storage_profiles
from sizing.training.techniques import Technique, techniques
from sizing.units import decimal_bytes_text, rate_text


def models_table() -> Table:
    """Every model of the catalog with its parameters and source."""
    table = Table("model", "family", "parameters", "count", "fields read in", box=box.SIMPLE_HEAD)
    for model in catalog().values():
        count = num_parameters(inventory_of(model.architecture))
        origin = "published" if model.num_parameters == count else "computed"
        table.add_row(model.name, model.architecture.family, f"{count:,}", origin, model.source)
    return table


def formats_table() -> Table:
    """Every checkpoint format by what defines it; `takes` are the fields of a scenario that not every format knows."""
    table = Table(
        Column("format", no_wrap=True),
        "frameworks",
        "modes",
        "takes",
        Column("files and source", overflow="fold"),
        "writers",
        "gathers",
        "read back by",
        box=box.SIMPLE_HEAD,
        show_lines=True,
    )
    for each in FORMATS.values():
        table.add_row(
            each.name,
            "\n".join(each.frameworks),
            "\n".join(each.modes),
            "\n".join(sorted(each.takes)),
            Text(f"{each.files} ({each.source})"),
            each.writers,
            each.gathers,
            "\n".join(_readers(each)),
        )
    return table


def _readers(saved_as: CheckpointFormat) -> Iterator[str]:
    """Who reads which part, where every degree is at its default."""
    parts: dict[str, PartName] = {"weights": "weights", "optimizer": "moments"}
    for name, part in parts.items():
        yield f"{name}: {saved_as.readers(part, Parallelism()).name}"


def nodes_table() -> Table:
    """Every node type of the catalog with its figures and source."""
    columns = ("node", "GPUs", "GPU memory", "host memory", "local NVMe", "storage network", "source")
    table = Table(*columns, box=box.SIMPLE_HEAD)
    for node in node_catalog().values():
        spec, rate = node.spec, node.spec.storage_network_bytes_per_second
        sizes = (spec.gpu_memory_bytes, spec.host_memory_bytes, spec.local_nvme_bytes)
        table.add_row(
            node.name,
            str(spec.gpus_per_node),
            *("-" if size is None else decimal_bytes_text(size) for size in sizes),
            _rate(rate),
            node.source,
        )
    return table


def storage_table() -> Table:
    """Every storage system of the catalog with its rates and source."""
    columns = ("tier", "nodes", "basis", "write", "read", "write, 1 node", "read, 1 node", "source")
    table = Table(Column("storage", no_wrap=True), *columns, box=box.SIMPLE_HEAD)
    for entry in storage_profiles().values():
        profile = entry.profile
        buffered = profile.node_buffered_write_bytes_per_second
        table.add_row(
            entry.name,
            entry.tier,
            "-" if entry.num_nodes is None else str(entry.num_nodes),
            entry.basis,
            _rate(profile.write_bytes_per_second),
            _rate(profile.read_bytes_per_second),
            _rate(profile.node_write_bytes_per_second) + (f"; buffered {rate_text(buffered)}" if buffered else ""),
            _rate(profile.node_read_bytes_per_second),
            entry.source,
        )
    return table


def techniques_table() -> Table:
    """Every training technique with what it does to memory and idle time, and the fields that ask for it."""
    table = Table("technique", "kind", "what it does", "in a scenario", "source", box=box.SIMPLE_HEAD)
    for technique in techniques():
        does = Text(_effect(technique))
        table.add_row(Text(technique.name), technique.kind, does, technique.scenario or "-", Text(technique.source))
    return table


def _effect(technique: Technique) -> str:
    figures = {
        "": technique.effect,
        "bubble ": technique.bubble,
        "in flight ": technique.in_flight,
        "weight versions ": technique.weight_versions,
        "bytes of a layer ": technique.activation_bytes,
    }
    return "; ".join(f"{name}{figure}" for name, figure in figures.items() if figure is not None)


def _rate(bytes_per_second: float | None) -> str:
    return "-" if bytes_per_second is None else rate_text(bytes_per_second)
