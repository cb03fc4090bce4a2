"""What limits saves, or restores: the rates and times of one direction, and how documents name each of them.

Documents name a direction in each field (`node_write_bytes_per_second`). Here the direction is chosen once, and
everything after it asks for `node_bytes_per_second`. The names and descriptions of documents follow from `Rates`: a
figure that both directions have is one entry of that class.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple, get_args, get_type_hints

from pydantic import Field

from sizing.ranges import plausible_range
from sizing.storage.transfer import Numbers
from sizing.units import ByteCount, BytesPerSecond, Seconds, percent_text, rate_text

Direction = Literal["write", "read"]
DIRECTIONS: tuple[Direction, ...] = ("write", "read")

Resource = Literal[
    "device-to-host",
    "writer",
    "page-cache",
    "node",
    "storage-network",
    "file-system",
    "stripe",
    "contention",
    "write-back-cache",
    "planning",
    "compression",
    "metadata",
    "per-file",
    "commit",
    "fixed",
]
"""What can limit, in the order of an answer. `writer` is one stream, or the process behind it, `page-cache` all
buffered streams of a node, `storage-network` the adapters of a node where the cluster states them, `stripe` the part of
one stream's file that one storage target holds, `contention` what further writers and nodes add to the time of the file
system and is part of it in every answer, `write-back-cache` what drains a full cache of the storage, `compression` what
ranks pack or unpack, `metadata` the rate of creating or opening files, `per-file` each file's own latency within its
stream."""
RESOURCES: tuple[Resource, ...] = get_args(Resource)

Kind = Literal["shared", "serial", "fraction"]
"""How a term counts. All bytes pass through what is `shared` at once, so the slowest hides the others; `serial` steps
add up; a `fraction` of the file system's time of a byte is added for each further unit."""

Unit = Literal["system", "node", "stream", "process", "stripe", "cache", "gpu", "rank", "file", "once"]
"""What a rate or time is that of. `process` is one that makes files of tensors and writes them, `stripe` what one
storage target holds of one stream's file, `cache` what the whole storage drains of a full one, `once` a whole save or
restore."""

_COPY = "storage.profile.device_to_host_bytes_per_second"
_PLANNING = "storage.profile.planning_seconds_per_rank"
_PROCESS = "storage.profile.process_write_bytes_per_second"
_FilesPerSecond = Annotated[float, Field(ge=1e-3, le=1e12, allow_inf_nan=False)]
_Contention = Annotated[float, Field(ge=0, le=1e12, allow_inf_nan=False)]
_Stripes = Annotated[float, Field(ge=1, le=1e6, allow_inf_nan=False)]
_KneePower = Annotated[float, Field(ge=1, le=64, allow_inf_nan=False)]

_IN_RESTORES = {
    "write": "read",
    "writer": "reader",
    "save": "restore",
    "create": "open",
    "create, sync and close": "open",
    "": "read_",
}
"""What stands for a word of saves where restores are meant."""


@dataclass(frozen=True, slots=True)
class Term:
    """What one of the `Rates` takes of a save or a restore: time of a resource, by the rate or the time of one unit.

    `replaces` names the one of the `Rates` that does not count where this one is known. `fit_order` is its place in a
    calibration among the terms of its kind, of which the earlier stands for both where data cannot tell two apart;
    None where measurements do not show it. `is_buffered` says that only streams through the page cache have it.
    """

    resource: Resource
    unit: Unit
    kind: Kind
    replaces: str | None = None
    fit_order: int | None = None
    is_buffered: bool = False


@dataclass(frozen=True, slots=True)
class Figure:
    """How documents name, check and describe one of the `Rates`, and the term that it gives.

    `name`, `description` and `words` are those of saves; for restores each word in braces is replaced (`_IN_RESTORES`).
    `only` is the direction of a figure that the other does not have. `words` name what `require` solves for.
    """

    name: str
    kind: Any
    description: str
    restore_description: str | None = None
    only: Direction | None = None
    term: Term | None = None
    words: str = ""

    @property
    def directions(self) -> tuple[Direction, ...]:
        """The directions that have the figure."""
        return DIRECTIONS if self.only is None else (self.only,)

    def document_name(self, direction: Direction) -> str:
        """The field of a StorageProfile that holds the figure of a direction.

        >>> Figure("node_{write}_bytes_per_second", float, "").document_name("read")
        'node_read_bytes_per_second'
        """
        return _of_direction(self.name, direction)

    def document_description(self, direction: Direction) -> str:
        """Description of the rate's field in the documents."""
        is_own = direction == "read" and self.restore_description is not None
        return _of_direction((self.restore_description if is_own else self.description) or "", direction)

    def direction_words(self, direction: Direction) -> str:
        """What requirements call the rate.

        >>> Figure("", float, "", words="{write} bandwidth, per {writer}").direction_words("read")
        'read bandwidth, per reader'
        """
        return _of_direction(self.words, direction)


def _of_direction(text: str, direction: Direction) -> str:
    """The text with the words in braces, or what stands for each of them where restores are meant."""
    return re.sub(r"\{([^}]*)\}", lambda word: word[1] if direction == "write" else _IN_RESTORES[word[1]], text)


class Rates(NamedTuple):
    """The figures of a StorageProfile in one direction, numbers or arrays. What is None does not limit.

    `node_buffered` and `writer_buffered` hold where streams go through the page cache. Only saves copy from device to
    host, commit, and are written by one `process` alone.
    """

    file_system_bytes_per_second: Annotated[
        Numbers | None,
        Figure(
            "{write}_bytes_per_second",
            BytesPerSecond,
            "Max {write} rate of the whole file system, in bytes per second. Default: no limit.",
            term=Term("file-system", "system", "shared", fit_order=1),
            words="{write} bandwidth, file system",
        ),
    ] = None
    node_bytes_per_second: Annotated[
        Numbers | None,
        Figure(
            "node_{write}_bytes_per_second",
            BytesPerSecond,
            "Max {write} rate of one node by its storage ports or drives, in bytes per second. Default: no limit.",
            term=Term("node", "node", "shared", fit_order=2),
            words="{write} bandwidth, per node",
        ),
    ] = None
    node_buffered_bytes_per_second: Annotated[
        Numbers | None,
        Figure(
            "node_buffered_{write}_bytes_per_second",
            BytesPerSecond,
            "Max {write} rate of one node through its page cache, all streams together, in bytes per second. "
            "Default: no limit.",
            term=Term("page-cache", "node", "shared", is_buffered=True),
            words="{write} bandwidth, page cache of a node",
        ),
    ] = None
    writer_bytes_per_second: Annotated[
        Numbers | None,
        Figure(
            "writer_{write}_bytes_per_second",
            BytesPerSecond,
            "Max {write} rate of one {writer}'s stream, in bytes per second. Default: no limit.",
            term=Term("writer", "stream", "shared", fit_order=3),
            words="{write} bandwidth, per {writer}",
        ),
    ] = None
    process_bytes_per_second: Annotated[
        Numbers | None,
        Figure(
            "process_write_bytes_per_second",
            BytesPerSecond,
            "Max rate at which one process makes files of tensors and writes them, where rank 0 alone writes a whole "
            "checkpoint or export, in bytes per second. Default: that of one writer's stream where it is given, else "
            f"{rate_text(plausible_range(_PROCESS).midpoint)}, the geometric mean of what was published of torch.save.",
            only="write",
            term=Term("writer", "process", "shared"),
        ),
    ] = None
    writer_buffered_bytes_per_second: Annotated[
        Numbers | None,
        Figure(
            "writer_buffered_{write}_bytes_per_second",
            BytesPerSecond,
            "Max {write} rate of one stream through the page cache, in bytes per second. Default: no limit.",
            term=Term("writer", "stream", "shared", replaces="writer_bytes_per_second", is_buffered=True),
            words="{write} bandwidth, per {writer} through its page cache",
        ),
    ] = None
    device_to_host_bytes_per_second: Annotated[
        Numbers | None,
        Figure(
            "device_to_host_bytes_per_second",
            BytesPerSecond,
            "Rate at which one GPU copies to host memory, in bytes per second. "
            f"Default: {plausible_range(_COPY).midpoint:.2g} of the line rate of its PCIe link with mode async or "
            "tiers, the middle of what was measured; otherwise the copy takes no time of its own.",
            only="write",
            term=Term("device-to-host", "gpu", "serial"),
            words="GPU-to-host bandwidth, per GPU",
        ),
    ] = None
    files_per_second: Annotated[
        Numbers | None,
        Figure(
            "{}files_per_second",
            _FilesPerSecond,
            "Max rate at which {save}s {create} files, in files per second. Default: no limit.",
            term=Term("metadata", "file", "serial", fit_order=3),
        ),
    ] = None
    file_seconds: Annotated[
        Numbers | None,
        Figure(
            "file_{write}_seconds",
            Seconds,
            "Seconds to {create, sync and close} one file; files of one stream wait for each other. Default: none.",
            term=Term("per-file", "file", "serial", fit_order=2),
        ),
    ] = None
    planning_seconds_per_rank: Annotated[
        Numbers | None,
        Figure(
            "{}planning_seconds_per_rank",
            Seconds,
            "Seconds that each rank adds to the plan of a save, gathered on one rank as DCP does. "
            f"Default: {percent_text(plausible_range(_PLANNING).midpoint)} of what the format takes without cached "
            "plans; none in formats without .metadata.",
            "Seconds that each rank adds to the plan of a restore. Default: none.",
            term=Term("planning", "rank", "serial", fit_order=4),
        ),
    ] = None
    commit_seconds: Annotated[
        Numbers | None,
        Figure(
            "commit_seconds",
            Seconds,
            "Seconds from the last byte until the save is complete: sync folders, rename, publish. Default: none.",
            only="write",
            term=Term("commit", "once", "serial"),
        ),
    ] = None
    fixed_seconds: Annotated[
        Numbers | None,
        Figure(
            "fixed_{write}_seconds",
            Seconds,
            "Seconds that a {save} takes whatever its size. Default: none.",
            term=Term("fixed", "once", "serial", fit_order=1),
        ),
    ] = None
    writer_contention_fraction: Annotated[
        Numbers | None,
        Figure(
            "writer_{write}_contention_fraction",
            _Contention,
            "Fraction of the file system's time of a byte that each further {writer} adds in {save}s. Default: none.",
            term=Term("contention", "stream", "fraction", fit_order=1),
        ),
    ] = None
    node_contention_fraction: Annotated[
        Numbers | None,
        Figure(
            "node_{write}_contention_fraction",
            _Contention,
            "Fraction of the file system's time of a byte that each further node adds in {save}s. Default: none.",
            term=Term("contention", "node", "fraction", fit_order=2),
        ),
    ] = None
    cache_bytes: Annotated[
        Numbers | None,
        Figure(
            "{write}_cache_bytes",
            ByteCount,
            "Bytes of a {save} that a cache of the storage takes before the rate beyond it limits. Default: none.",
        ),
    ] = None
    beyond_cache_bytes_per_second: Annotated[
        Numbers | None,
        Figure(
            "beyond_cache_{write}_bytes_per_second",
            BytesPerSecond,
            "Max {write} rate of the whole file system for what its cache does not hold, in bytes per second. "
            "Default: no limit.",
            term=Term("write-back-cache", "cache", "shared", fit_order=5),
        ),
    ] = None
    stripe_bytes_per_second: Annotated[
        Numbers | None,
        Figure(
            "stripe_{write}_bytes_per_second",
            BytesPerSecond,
            "Max {write} rate of one {writer} at one storage target of a striped file, in bytes per second. "
            "Default: no limit.",
            term=Term("stripe", "stripe", "shared", fit_order=4),
        ),
    ] = None
    stripe_count: Annotated[
        Numbers | None,
        Figure(
            "{write}_stripe_count",
            _Stripes,
            "Storage targets over which each file is striped in {save}s. Default: stripes do not limit.",
        ),
    ] = None
    knee_power: Annotated[
        Numbers | None,
        Figure(
            "{write}_knee_power",
            _KneePower,
            "Power p with which the times t of shared limits combine in {save}s, (sum of t^p)^(1/p); 1 adds them. "
            "Default: the slowest hides the others.",
        ),
    ] = None

    def known(self, kind: Kind, *units: Unit) -> dict[str, Numbers]:
        """The figures of terms of a kind that are known, of these units or of all, without those that others replace.

        >>> Rates(writer_bytes_per_second=2e9, writer_buffered_bytes_per_second=1e9).known("shared")
        {'writer_buffered_bytes_per_second': 1000000000.0}
        """
        names = rate_names(kind, *units)
        known = {name: value for name in names if (value := getattr(self, name)) is not None}
        replaced = {TERMS[name].replaces for name in known}
        return {name: value for name, value in known.items() if name not in replaced}

    @property
    def has_contention(self) -> bool:
        """Whether further writers or nodes slow down the file system."""
        return bool(self.known("fraction"))

    @property
    def limits_bytes(self) -> bool:
        """Whether a rate limits all bytes of the transfer, those too that a cache of the storage takes."""
        return bool(self.known("shared", "system", "node", "stream"))

    @property
    def limits_one_unit(self) -> bool:
        """Whether a rate is that of one node or one rank: the one with most bytes then decides how long it takes."""
        return bool(self.known("shared", "node", "stream", "stripe") or self.known("serial", "gpu"))

    @property
    def stream_bytes_per_second(self) -> Numbers | None:
        """Rate of one writer or reader: through the page cache where that rate is known."""
        return next(iter(self.known("shared", "stream").values()), None)

    def slowed(self, factor: Numbers) -> Rates:
        """The rates of a storage that takes `factor` times as long for everything.

        Copies from device to host are the node's own, and stay. Source: definition; each term of `storage.terms` is
        bytes over a rate, or a time.

        >>> Rates(node_bytes_per_second=8e9, fixed_seconds=2.0).slowed(4.0).document("write")
        {'node_write_bytes_per_second': 2000000000.0, 'fixed_write_seconds': 8.0}
        """
        of_nodes = rate_names("serial", "gpu")
        own = {name: value for name, value in self._asdict().items() if value is not None and name not in of_nodes}
        slower = {name: value / factor for name, value in own.items() if name.endswith("_per_second")}
        longer = {name: value * factor for name, value in own.items() if "_seconds" in name}
        return self._replace(**slower, **longer)

    @classmethod
    def of_document(cls, fields: Mapping[str, Any], direction: Direction) -> Rates:
        """The rates of a direction among the fields of a StorageProfile; what is not there is None.

        >>> Rates.of_document({"read_bytes_per_second": 2e9}, "read").file_system_bytes_per_second
        2000000000.0
        """
        return cls(**{name: fields.get(field) for name, field in _DOCUMENT_NAMES[direction].items()})

    def document(self, direction: Direction) -> dict[str, Numbers]:
        """The figures that are known, by their fields in a StorageProfile.

        >>> Rates(node_bytes_per_second=8e9).document("write")
        {'node_write_bytes_per_second': 8000000000.0}
        """
        figures = {field: getattr(self, name) for name, field in _DOCUMENT_NAMES[direction].items()}
        return {field: value for field, value in figures.items() if value is not None}


FIGURES: Mapping[str, Figure] = {
    name: hint.__metadata__[0] for name, hint in get_type_hints(Rates, include_extras=True).items()
}
"""How documents have each of the Rates."""

TERMS: Mapping[str, Term] = {name: figure.term for name, figure in FIGURES.items() if figure.term is not None}
"""The term of each of the Rates that gives one by itself."""


_DOCUMENT_NAMES: Mapping[Direction, Mapping[str, str]] = {
    direction: {
        name: figure.document_name(direction) for name, figure in FIGURES.items() if direction in figure.directions
    }
    for direction in DIRECTIONS
}


@functools.cache
def rate_names(kind: Kind, *units: Unit) -> tuple[str, ...]:
    """The names of the Rates whose terms are of a kind, and of these units where some are given.

    >>> rate_names("serial", "once")
    ('commit_seconds', 'fixed_seconds')
    """
    return tuple(name for name, term in TERMS.items() if term.kind == kind and (not units or term.unit in units))


def document_name(name: str, direction: Direction) -> str:
    """The field of a StorageProfile that holds one of the Rates of a direction.

    >>> document_name("file_system_bytes_per_second", "write"), document_name("files_per_second", "read")
    ('write_bytes_per_second', 'read_files_per_second')
    """
    return _DOCUMENT_NAMES[direction][name]
