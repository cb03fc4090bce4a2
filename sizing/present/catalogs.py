"""Catalogs of models, formats, nodes and others: a line for each entry, for all entries or those that have a word.

The entries are imported when a catalog is searched: help needs what stands here alone.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any, NamedTuple

from sizing.errors import InvalidInput
from sizing.spelling import has_all_of, nearest


class Entry(NamedTuple):
    """One line of a catalog: its name, its cells, and the document that holds it all."""

    name: str
    cells: tuple[str, ...]
    document: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Catalog:
    """A catalog that a verb lists. At the terminal the last `num_details` columns are shown of one entry alone."""

    verb: str
    title: str
    help: str
    columns: tuple[str, ...]
    num_details: int = 0

    def search(self, word: str | None) -> list[Entry]:
        """List the entries whose names have that word or, where no name has it, those whose lines have it; None: all.

        Raises InvalidInput where no entry has it.
        """
        entries = list(importlib.import_module(f"{__package__}.catalog_entries").ENTRIES[self.verb]())
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
        ("format", "frameworks", "modes", "files", "writers", "gathers", "takes", "read back by", "source"),
        num_details=3,
    ),
    Catalog(
        "frameworks",
        "Training frameworks",
        "List the training frameworks: what each keeps, divides and ships.",
        ("framework", "version", "format", "keeps", "shards", "off the GPU", "its defaults", "reads back", "source"),
        num_details=3,
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
