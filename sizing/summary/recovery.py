"""What follows a failure, in words: spares, peers, groups, preemptions, skipped data."""

from __future__ import annotations

from collections.abc import Iterator

from sizing.run.interruptions import DEFAULT_STRATEGY
from sizing.run.recovery.recovery import Recovery
from sizing.run.recovery.registry import STRATEGIES
from sizing.summary.rows import Row
from sizing.units import counted_text, decimal_bytes_text, percent_text, seconds_text

_SURE = 1e-9
"""Above, a failure may need the storage; below is rounding."""


def recovery_rows(recovery: Recovery | None) -> Iterator[Row]:
    """A row for what is not as with a plain restart; none for that."""
    if recovery is None:
        return
    if recovery.strategy != DEFAULT_STRATEGY:
        strategy = STRATEGIES[recovery.strategy]
        yield Row("recovery", recovery.strategy, f"{strategy.summary}; lost: {strategy.loses}")
    yield from _nodes(recovery)
    yield from _copies(recovery)
    if recovery.preemptions_per_day is not None:
        saved = "a save ends within the notice" if recovery.saved_in_notice_fraction else "no save within the notice"
        yield Row("preemptions", f"{recovery.preemptions_per_day:.3g} per day", f"beside failures; {saved}")
    if recovery.data_skip_seconds:
        yield Row("skipped data", seconds_text(recovery.data_skip_seconds), "of each resume, after the restore")


def _nodes(recovery: Recovery) -> Iterator[Row]:
    """Spares, and the wait where there is none."""
    runs_out, wait = recovery.spares_run_out_fraction, recovery.wait_for_node_seconds
    if recovery.num_spare_nodes:
        nodes, gpus = counted_text(recovery.num_spare_nodes, "node"), counted_text(recovery.num_spare_gpus, "GPU")
        yield Row("spares", nodes, f"{gpus} idle, which count as lost GPU time")
    if runs_out is not None and wait is not None:
        left = f"{percent_text(runs_out)} of the failures find no spare"
        found = left if recovery.num_spare_nodes else "no spares: every failure of a node waits"
        yield Row("wait for a node", seconds_text(wait), f"mean over such failures; {found}")
    if recovery.available_fraction < 1:
        yield Row("nodes there", percent_text(recovery.available_fraction), "of the time of all nodes; the rest waits")


def _copies(recovery: Recovery) -> Iterator[Row]:
    """What peers send, and how many groups train."""
    storage = recovery.from_storage_fraction
    needed = f"{percent_text(storage)} of the failures need the storage" if storage > _SURE else "storage seldom needed"
    if recovery.peer_seconds is not None and recovery.peer_bytes_per_node is not None:
        sent = decimal_bytes_text(recovery.peer_bytes_per_node)
        meaning = f"{sent} to a replaced node from {recovery.num_copies} copies; {needed}"
        yield Row("state from peers", seconds_text(recovery.peer_seconds), meaning)
    if recovery.mean_groups is not None and recovery.throughput_fraction is not None:
        kept = recovery.mean_batch_fraction == 1
        batch = "the global batch stays" if kept else "the global batch shrinks with them"
        meaning = f"of {recovery.num_copies} train on average; {batch}; {needed}"
        yield Row("groups", f"{recovery.mean_groups:.2f}", meaning)
