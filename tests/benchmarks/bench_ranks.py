"""What passes rank 0, how long rounds take and how far starts lie apart, by the number of ranks. Prints, judges nothing.

The clocks of every second node are a second ahead. The error of the agreed instants is that of the protocol; how late
ranks wake up is the machine's, and tells only where it has CPUs for all of them: see the small case and the load.
"""

from __future__ import annotations

import os
import statistics

import pytest

from sizing.units import decimal_bytes_text, seconds_text
from tests.testbed.light_ranks import Passage, World, passage_of_processes
from tests.testbed.ports import free_port

RANKS_PER_NODE = 8
NUM_PROCESSES = 4
CASES = (64, 256, 1024)
EXTRAPOLATED = 4096


@pytest.mark.benchmark
def test_numbers_of_ranks() -> None:
    found = {num_ranks: measured(num_ranks) for num_ranks in CASES}
    *_, fewer, more = CASES
    per_rank = (bytes_of(found[more]) - bytes_of(found[fewer])) / (more - fewer)
    beyond = bytes_of(found[more]) + per_rank * (EXTRAPOLATED - more)
    print(
        f"\n{EXTRAPOLATED:>5} ranks, extrapolated: {decimal_bytes_text(beyond)} a repetition ({per_rank:.0f} B per rank)"
    )


@pytest.mark.benchmark
def test_starts_with_cpus_to_spare() -> None:
    """Two nodes of one rank, each a process: no more ranks than CPUs on any machine that has two of them idle."""
    passage = passage_of_processes(World(2, 1, 20, free_port(), 0, 2, clocks_apart_seconds=1.0), 2)
    print(f"\n    2 ranks on 2 nodes, {os.cpu_count()} CPUs: {said(passage)}")


def measured(num_ranks: int) -> Passage:
    """One number of ranks, printed as soon as it is there."""
    world = World(num_ranks, RANKS_PER_NODE, 4, free_port(), 0, num_ranks, clocks_apart_seconds=1.0)
    passage = passage_of_processes(world, NUM_PROCESSES)
    print(f"\n{num_ranks:>5} ranks on {num_ranks // RANKS_PER_NODE} nodes: {said(passage)}", flush=True)
    return passage


def bytes_of(passage: Passage) -> float:
    return statistics.median(passage.repetition_bytes)


def said(passage: Passage) -> str:
    return (
        f"{decimal_bytes_text(bytes_of(passage))} and {seconds_text(statistics.median(passage.repetition_seconds))} a "
        f"repetition; meeting {decimal_bytes_text(passage.meeting_bytes)}, {seconds_text(passage.meeting_seconds)}; "
        f"a gathering {range_text(passage.seconds_of('gathered'))}, a telling {range_text(passage.seconds_of('told'))}; "
        f"agreed instants {range_text(passage.agreed_spread_seconds)} apart (by the ranks' own reckoning "
        f"{range_text(passage.clock_error_seconds)}), ranks woke {range_text(passage.late_seconds)} late, starts "
        f"{range_text(passage.start_spread_seconds)} apart; load {', '.join(f'{load:.1f}' for load in os.getloadavg())}"
    )


def range_text(seconds: list[float]) -> str:
    return f"{seconds_text(statistics.median(seconds))} (at most {seconds_text(max(seconds))})"
