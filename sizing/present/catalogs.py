"""Catalogs of models, formats, nodes and others: a line for each entry, for all entries or those that have a word."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from pydantic import BaseModel

from sizing.cluster import node_catalog
from sizing.cluster.adapters import NetworkAdapters
from sizing.errors import InvalidInput
from sizing.frameworks.registry import catalog_frameworks
from sizing.layout.formats.registry import catalog_formats
from sizing.model.catalog import catalog, count_parameters
from sizing.present.document import Document, titled_document
from sizing.present.rows import UNKNOWN, Grid, Summary
from sizing.run.failure_rates import published_rates
from sizing.spelling import has_all_of, nearest
from sizing.storage.catalog import storage_profiles
from sizing.storage.transfer import as_number
from sizing.training.techniques import techniques
from sizing.units import bit_rate_text, decimal_bytes_text, rate_text, seconds_text


@dataclass(frozen=True, slots=True)
class Catalog:
    """A catalog that a verb lists."""

    verb: str
    title: str
    help: str
    columns: tuple[str, ...]
    has_lines: bool = False

    def search(self, word: str | None) -> list[Entry]:
        """List the entries whose names have that word or, where no name has it, those whose lines have it; None: all.

        Raises InvalidInput where no entry has it.
        """
        entries = list(ENTRIES[self.verb]())
        if word is None:
            return entries
        matches = [entry for entry in entries if has_all_of(word, entry.name)]
        matches = matches or [entry for entry in entries if has_all_of(word, " ".join(entry.cells))]
        if not matches:
            close = nearest(word, [entry.name for entry in entries], max_names=3)
            remedy = f"the nearest names are {', '.join(close)}" if close else "leave it out to list them all"
            raise InvalidInput.of("the word", f"fits none of the {len(entries)} {self.verb}", value=word, remedy=remedy)
        return matches


CATALOGS = (
    Catalog(
        "models",
        "Models",
        "List the model catalog.",
        ("model", "family", "parameters", "count", "fields read in"),
    ),
    Catalog(
        "formats",
        "Checkpoint formats",
        "List the checkpoint formats: files, writers, readers.",
        ("format", "frameworks", "modes", "takes", "files and source", "writers", "gathers", "read back by"),
        has_lines=True,
    ),
    Catalog(
        "frameworks",
        "Training frameworks",
        "List the training frameworks: what each keeps, divides and ships.",
        ("framework", "version", "format", "keeps", "shards", "off the GPU", "its defaults", "reads back, and source"),
        has_lines=True,
    ),
    Catalog(
        "nodes",
        "Node types",
        "List the node catalog.",
        ("node", "GPUs", "GPU memory", "host memory", "local NVMe", "compute network", "storage network", "source"),
    ),
    Catalog(
        "storage",
        "Published storage systems",
        "List the catalog of storage systems.",
        ("storage", "tier", "nodes", "basis", "write", "read", "write, 1 node", "read, 1 node", "source"),
    ),
    Catalog(
        "failure-rates",
        "Published failure rates",
        "List the catalog of published failure rates.",
        ("rate", "GPUs", "per node and day", "all GPUs: one per", "what was counted", "source"),
    ),
    Catalog(
        "techniques",
        "Training techniques",
        "List the catalog of training techniques: schedules, activations, offload, compression.",
        ("technique", "kind", "what it does", "in a scenario", "source"),
    ),
)


def catalog_document(verb: str) -> Document:
    """Put a whole catalog into one table, as that verb of `ckpt-size` lists it."""
    catalog = next(each for each in CATALOGS if each.verb == verb)
    rows = tuple(entry.cells for entry in catalog.search(None))
    summary = Summary(headline=catalog.title, grids=(Grid("", catalog.columns, rows),))
    return titled_document("Catalog", summary)


class Entry(NamedTuple):
    """One line of a catalog: its name, its cells, and the document that holds it all."""

    name: str
    cells: tuple[str, ...]
    document: dict[str, Any]


def _list_models() -> Iterable[Entry]:
    for model in catalog().values():
        counted_model = count_parameters(model)
        origin = "published" if model.num_parameters == counted_model.num_parameters else "computed"
        cells = (model.name, model.family, f"{counted_model.num_parameters:,}", origin, model.source)
        yield Entry(model.name, cells, _as_document(counted_model))


def _list_nodes() -> Iterable[Entry]:
    for node in node_catalog().values():
        spec = node.spec
        sizes = (spec.gpu_memory_bytes, spec.host_memory_bytes, spec.local_nvme_bytes)
        storage_network = _network_text(node.storage_nics, spec.storage_network_bytes_per_second)
        cells = (
            node.name,
            str(spec.gpus_per_node),
            *("-" if size is None else decimal_bytes_text(size) for size in sizes),
            _network_text(node.compute_nics, spec.compute_network_bytes_per_second),
            f"{storage_network}: {node.network_note}" if node.network_note else storage_network,
            node.source,
        )
        yield Entry(node.name, cells, _as_document(node))


def _network_text(nics: NetworkAdapters | None, bytes_per_second: float | None) -> str:
    if bytes_per_second is None:
        return UNKNOWN
    return nics.text if nics else bit_rate_text(bytes_per_second)


def _list_storage() -> Iterable[Entry]:
    for entry in storage_profiles().values():
        write, read = entry.profile.write, entry.profile.read
        buffered = as_number(write.node_buffered_bytes_per_second)
        cells = (
            entry.name,
            entry.tier,
            "-" if entry.num_nodes is None else str(entry.num_nodes),
            entry.basis,
            _rate_cell(as_number(write.file_system_bytes_per_second)),
            _rate_cell(as_number(read.file_system_bytes_per_second)),
            _rate_cell(as_number(write.node_bytes_per_second))
            + (f"; buffered {rate_text(buffered)}" if buffered else ""),
            _rate_cell(as_number(read.node_bytes_per_second)),
            entry.source,
        )
        yield Entry(entry.name, cells, _as_document(entry))


def _rate_cell(bytes_per_second: float | None) -> str:
    return "-" if bytes_per_second is None else rate_text(bytes_per_second)


def _list_failure_rates() -> Iterable[Entry]:
    for rate in published_rates().values():
        cells = (
            rate.name,
            f"{rate.num_gpus:,} {rate.gpu}",
            f"{rate.failures_per_node_day:.4g}",
            seconds_text(float(rate.job_mtbf_seconds(num_gpus=rate.num_gpus))),
            rate.counts,
            rate.source,
        )
        yield Entry(rate.name, cells, _as_document(rate))


def _list_formats() -> Iterable[Entry]:
    for entry in catalog_formats():
        cells = (
            entry.name,
            "\n".join(entry.frameworks),
            "\n".join(entry.modes),
            "\n".join(entry.takes),
            f"{entry.files} ({entry.source})",
            entry.writers,
            entry.gathers,
            "\n".join(f"{part}: {readers}" for part, readers in entry.readers.items()),
        )
        yield Entry(entry.name, cells, _as_document(entry))


def _list_frameworks() -> Iterable[Entry]:
    for framework in catalog_frameworks():
        precisions_by_state: dict[str, list[str]] = {}
        for precision, parts in framework.keeps.items():
            state = ", ".join(f"{part} {dtype}" for part, dtype in parts.items())
            state += f"; gradients {framework.gradient_bytes[precision]} B"
            precisions_by_state.setdefault(state, []).append(precision)
        cells = (
            framework.name,
            f"{framework.title} {framework.version}",
            framework.format,
            "\n".join(f"{', '.join(precisions)}: {state}" for state, precisions in precisions_by_state.items()),
            framework.shards,
            "\n".join(f"{part}: {' or '.join(places) or 'none'}" for part, places in framework.offloads.items()),
            "\n".join(f"{field}: {value}" for field, value in framework.defaults.items()) or "-",
            f"{framework.loading} ({framework.source})",
        )
        yield Entry(framework.name, cells, _as_document(framework))


def _list_techniques() -> Iterable[Entry]:
    for technique in techniques():
        figures = {
            "": technique.effect,
            "bubble ": technique.bubble,
            "in flight ": technique.in_flight,
            "weight versions ": technique.weight_versions,
            "bytes of a layer ": technique.activation_bytes,
        }
        effect = "; ".join(f"{name}{figure}" for name, figure in figures.items() if figure is not None)
        cells = (technique.name, technique.kind, effect, technique.scenario or "-", technique.source)
        yield Entry(technique.name, cells, _as_document(technique))


def _as_document(entry: BaseModel) -> dict[str, Any]:
    return entry.model_dump(mode="json", exclude_none=True)


ENTRIES: Mapping[str, Callable[[], Iterable[Entry]]] = {
    "models": _list_models,
    "formats": _list_formats,
    "frameworks": _list_frameworks,
    "nodes": _list_nodes,
    "storage": _list_storage,
    "failure-rates": _list_failure_rates,
    "techniques": _list_techniques,
}
"""Catalogs by the verbs that list them."""
