"""Entries of the catalogs, as the verbs that list them show them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from pydantic import BaseModel

from sizing.cluster import node_catalog
from sizing.cluster.adapters import NetworkAdapters
from sizing.frameworks.registry import catalog_frameworks
from sizing.layout.formats.registry import catalog_formats
from sizing.model.catalog import catalog, count_parameters
from sizing.present.catalogs import CATALOGS, Entry
from sizing.present.document import Document, titled_document
from sizing.present.rows import UNKNOWN, Grid, Summary
from sizing.run.failure_rates import published_rates
from sizing.storage.catalog import storage_profiles
from sizing.storage.transfer import as_number
from sizing.training.techniques import techniques
from sizing.units import bit_rate_text, decimal_bytes_text, rate_text, seconds_text


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
            entry.files,
            entry.writers,
            entry.gathers,
            "\n".join(entry.takes),
            "\n".join(f"{part}: {readers}" for part, readers in entry.readers.items()),
            entry.source,
        )
        yield Entry(entry.name, cells, _as_document(entry))


def _list_frameworks() -> Iterable[Entry]:
    for shown in catalog_frameworks():
        precisions_by_state: dict[str, list[str]] = {}
        for precision, parts in shown.keeps.items():
            state = ", ".join(f"{part} {dtype}" for part, dtype in parts.items())
            state += f"; gradients {shown.gradient_bytes[precision]} B"
            precisions_by_state.setdefault(state, []).append(precision)
        ships = {**shown.defaults, **{setting: f"{value}, not taken" for setting, value in shown.not_taken.items()}}
        cells = (
            shown.name,
            f"{shown.title} {shown.version}",
            shown.format,
            "\n".join(f"{', '.join(precisions)}: {state}" for state, precisions in precisions_by_state.items()),
            shown.shards,
            "\n".join(f"{part}: {' or '.join(places) or 'none'}" for part, places in shown.offloads.items()),
            "\n".join(f"{field}: {value}" for field, value in ships.items()) or "-",
            shown.loading,
            shown.source,
        )
        yield Entry(shown.name, cells, _as_document(shown))


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


def catalog_document(verb: str) -> Document:
    """Put a whole catalog into one table, as that verb of `ckpt-size` lists it."""
    catalog = next(each for each in CATALOGS if each.verb == verb)
    rows = tuple(entry.cells for entry in catalog.search(None))
    summary = Summary(headline=catalog.title, grids=(Grid("", catalog.columns, rows),))
    return titled_document("Catalog", summary)
