"""One measurement of a run as a calibration uses it: its setting, its configuration, and what speaks against it."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from dataclasses import dataclass

from sizing.storage.measurement import Measurement, Operation
from sizing.storage.rates import Direction
from sizing.units import binary_bytes_text, decimal_bytes_text

OPERATIONS: dict[Direction, Operation] = {"write": "write", "read": "restore"}

Setting = tuple[str, int | None, str, str]
Configuration = tuple[int, int, int, int, int]


@dataclass(frozen=True, slots=True)
class Row:
    """A measurement, and the run that it is from."""

    run_id: str
    measurement: Measurement

    @property
    def setting(self) -> Setting:
        """What all measurements of a fit share: engine, block size, whether I/O is direct, stripes and shape.

        Restores of what another node wrote are cold either way, and do not say which they were. Limits explain the time
        of bytes that move. In a workload of another shape something else takes time too (deletions, batches, an
        exchange), or one byte of storage is read by many: as a plain row, it would bend the limits.
        """
        found = self.measurement
        io = {"o-direct": "direct", "other-node": "either"}.get(found.cache_policy, "buffered")
        return (found.engine, found.block_bytes, io, _shape_text(found))

    @property
    def configuration(self) -> Configuration:
        """What a fit explains the time by: nodes, ranks, bytes of a rank, files, stripes of a file; 0 if unknown."""
        found = self.measurement
        return (found.num_nodes, found.num_ranks, found.bytes_per_rank, self.num_files, self.num_stripes)

    @property
    def num_stripes(self) -> int:
        """Storage targets of each file, as set for the run; 0 where that was left to the directory, or to all."""
        return max(0, self.measurement.stripe_count or 0)

    @property
    def num_files(self) -> int:
        """Files of the checkpoint; one per rank where the agent did not count them."""
        return self.measurement.num_files or self.measurement.num_ranks

    @property
    def seconds(self) -> float:
        """Median over the repetitions."""
        return statistics.median(self.measurement.seconds)


def _shape_text(found: Measurement) -> str:
    """Stripes that were set, and a shape of the workload's own, in words. Counts of stripes are fitted together."""
    words = "stripes over all targets" if found.stripe_count == -1 else "stripes that were set"
    stripes = [words] if found.stripe_count is not None else []
    sizes = [f"stripes of {binary_bytes_text(found.stripe_bytes)}"] if found.stripe_bytes is not None else []
    return ", ".join([*stripes, *sizes, *([found.shape.title] if found.shape else [])])


def configuration_text(configuration: Configuration) -> str:
    """A configuration in words.

    >>> configuration_text((2, 16, 10**9, 16, 0)), configuration_text((2, 16, 10**9, 16, 4))
    ('2 node(s) x 8 rank(s), 1.000 GB each', '2 node(s) x 8 rank(s), 1.000 GB each, 4 stripes')
    """
    nodes, ranks, size, _, num_stripes = configuration
    stripes = f", {num_stripes} stripes" if num_stripes else ""
    return f"{nodes} node(s) x {ranks / nodes:g} rank(s), {decimal_bytes_text(size)} each{stripes}"


def setting_text(setting: Setting) -> str:
    """A setting in words."""
    engine, block_bytes, io, shape = setting
    blocks = [f"blocks of {binary_bytes_text(block_bytes)}"] if block_bytes else []
    return ", ".join([engine, *blocks, f"{io} I/O", *([shape] if shape else [])])


def reasons_against(row: Row, engine: str | None) -> Iterator[str]:
    """Why a row says nothing of the storage's limits."""
    found = row.measurement
    if not found.verified:
        yield f"failed verification (run {row.run_id})"
    elif found.cache_policy == "cached":
        yield "may have come from the page cache"
    elif found.limited_by == "generator":
        yield "waited for the payload generator"
    elif found.is_steady is False:
        yield "were still changing when the run ended"
    elif engine is not None and found.engine != engine:
        yield f"are of engine {found.engine}"
