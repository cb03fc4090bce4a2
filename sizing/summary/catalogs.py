"""The catalogs in words: a line for each entry, whole or what fits a word."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from pydantic import BaseModel

from sizing.cluster import node_catalog
from sizing.cluster.adapters import Adapters
from sizing.cluster.node import CatalogNode
from sizing.errors import InvalidInput
from sizing.layout.formats.catalog import CatalogFormat, catalog_formats
from sizing.model.catalog import catalog, counted
from sizing.run.failure_rates import published_rates
from sizing.spelling import has_all_of, nearest
from sizing.storage.catalog import CatalogProfile, storage_profiles
from sizing.summary.rows import Grid, Summary
from sizing.training.techniques.catalog import Technique, techniques
from sizing.units import bit_rate_text, decimal_bytes_text, rate_text, seconds_text


class Entry(NamedTuple):
    """One line of a catalog: its name, its cells, and the document that holds it all."""

    name: str
    cells: tuple[str, ...]
    document: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Catalog:
    """A catalog that a verb lists."""

    verb: str
    title: str
    help: str
    columns: tuple[str, ...]
    entries: Callable[[], Iterable[Entry]]
    has_lines: bool = False

    def having(self, word: str | None) -> list[Entry]:
        """Its entries, or those that fit a word: by their names, or else by anything that their lines say.

        Raises InvalidInput where none does.
        """
        every = list(self.entries())
        if word is None:
            return every
        named = [entry for entry in every if has_all_of(word, entry.name)]
        found = named or [entry for entry in every if has_all_of(word, " ".join(entry.cells))]
        if not found:
            close = nearest(word, [entry.name for entry in every], max_names=3)
            remedy = f"the nearest names are {', '.join(close)}" if close else "leave it out to list them all"
            raise InvalidInput.of("the word", f"fits none of the {len(every)} {self.verb}", value=word, remedy=remedy)
        return found


def _models() -> Iterable[Entry]:
    for model in catalog().values():
        whole = counted(model)
        origin = "published" if model.num_parameters == whole.num_parameters else "computed"
        cells = (model.name, model.family, f"{whole.num_parameters:,}", origin, model.source)
        yield Entry(model.name, cells, _document(whole))


def _nodes() -> Iterable[Entry]:
    for node in node_catalog().values():
        yield Entry(node.name, _node_cells(node), _document(node))


def _node_cells(node: CatalogNode) -> tuple[str, ...]:
    spec = node.spec
    sizes = (spec.gpu_memory_bytes, spec.host_memory_bytes, spec.local_nvme_bytes)
    texts = ("-" if size is None else decimal_bytes_text(size) for size in sizes)
    return (node.name, str(spec.gpus_per_node), *texts, _compute_network(node), _storage_network(node), node.source)


def _compute_network(node: CatalogNode) -> str:
    total = node.spec.compute_network_bytes_per_second
    return _network(node.compute_nics, total) if total is not None else "unknown"


def _storage_network(node: CatalogNode) -> str:
    total = node.spec.storage_network_bytes_per_second
    known = "unknown" if total is None else _network(node.storage_nics, total)
    return f"{known}: {node.network_note}" if node.network_note else known


def _network(nics: Adapters | None, total: float) -> str:
    return nics.text if nics else bit_rate_text(total)


def _storage() -> Iterable[Entry]:
    for entry in storage_profiles().values():
        yield Entry(entry.name, _profile_cells(entry), _document(entry))


def _profile_cells(entry: CatalogProfile) -> tuple[str, ...]:
    profile = entry.profile
    buffered = profile.node_buffered_write_bytes_per_second
    return (
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


def _failure_rates() -> Iterable[Entry]:
    for rate in published_rates().values():
        every = rate.job_mtbf_seconds(num_gpus=rate.num_gpus)
        cells = (
            rate.name,
            f"{rate.num_gpus:,} {rate.gpu}",
            f"{rate.failures_per_node_day:.4g}",
            seconds_text(float(every)),
            rate.counts,
            rate.source,
        )
        yield Entry(rate.name, cells, _document(rate))


def _formats() -> Iterable[Entry]:
    for saved_as in catalog_formats():
        yield Entry(saved_as.name, _format_cells(saved_as), _document(saved_as))


def _format_cells(saved_as: CatalogFormat) -> tuple[str, ...]:
    return (
        saved_as.name,
        "\n".join(saved_as.frameworks),
        "\n".join(saved_as.modes),
        "\n".join(saved_as.takes),
        f"{saved_as.files} ({saved_as.source})",
        saved_as.writers,
        saved_as.gathers,
        "\n".join(f"{part}: {who}" for part, who in saved_as.readers.items()),
    )


def _techniques() -> Iterable[Entry]:
    for technique in techniques():
        cells = (technique.kind, _effect(technique), technique.scenario or "-", technique.source)
        yield Entry(technique.name, (technique.name, *cells), _document(technique))


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


def _document(entry: BaseModel) -> dict[str, Any]:
    return entry.model_dump(mode="json", exclude_none=True)


CATALOGS = (
    Catalog(
        "models",
        "Models",
        "List the model catalog.",
        ("model", "family", "parameters", "count", "fields read in"),
        _models,
    ),
    Catalog(
        "formats",
        "Checkpoint formats",
        "List the checkpoint formats: files, writers, readers.",
        ("format", "frameworks", "modes", "takes", "files and source", "writers", "gathers", "read back by"),
        _formats,
        has_lines=True,
    ),
    Catalog(
        "nodes",
        "Node types",
        "List the node catalog.",
        ("node", "GPUs", "GPU memory", "host memory", "local NVMe", "compute network", "storage network", "source"),
        _nodes,
    ),
    Catalog(
        "storage",
        "Published storage systems",
        "List the catalog of storage systems.",
        ("storage", "tier", "nodes", "basis", "write", "read", "write, 1 node", "read, 1 node", "source"),
        _storage,
    ),
    Catalog(
        "failure-rates",
        "Published failure rates",
        "List the catalog of published failure rates.",
        ("rate", "GPUs", "per node and day", "all GPUs: one per", "what was counted", "source"),
        _failure_rates,
    ),
    Catalog(
        "techniques",
        "Training techniques",
        "List the catalog of training techniques: schedules, activations, offload, compression.",
        ("technique", "kind", "what it does", "in a scenario", "source"),
        _techniques,
    ),
)


def catalog_summary(verb: str) -> Summary:
    """The whole catalog of that verb as a table."""
    catalog = next(each for each in CATALOGS if each.verb == verb)
    rows = tuple(entry.cells for entry in catalog.entries())
    return Summary(headline=catalog.title, grids=(Grid("", catalog.columns, rows),))
