"""Stragglers among the nodes and ranks of benchmark runs: what all wait for decides every time, and is no limit."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from sizing.storage.calibration.fit_data import RunMeasurement
from sizing.units import percent_text

LATE_FRACTION = 0.10
"""Max by which a node may be late and not count: less costs a checkpoint no more than the noise of storage."""
UNEVEN_RATIO = 1.5
"""Ratio of the slowest to the median rank from which on a run waited for single ranks. A choice: ranks of one storage
end within some percent of each other, and one target of half the rate makes its ranks twice as late."""
MIN_RUNS = 3
"""Min configurations that show a straggler: one or two may be chance."""
MIN_UNEVEN_FRACTION = 0.25
"""Min fraction of the configurations of several ranks that are uneven. A choice: fewer change no limit by much."""
_CHANCE = 0.01
"""Probability with which chance alone would name a node."""
_MIN_NODES = 3
"""Min nodes to name one: of two, nobody can say which one is late."""
_MIN_RANKS = 4
"""Min ranks of which the median is that of most."""


@dataclass(frozen=True, slots=True)
class Straggler:
    """What the others waited for, as a sentence, and the rows whose time it decided."""

    sentence: str
    rows: tuple[int, ...]


def find_stragglers(rows: Sequence[RunMeasurement]) -> Iterator[Straggler]:
    """Nodes for which others waited, and where single ranks of any node were late.

    A node is named where it is the last in more configurations than chance explains: of M configurations with a last
    node that is late, each of n nodes is the last in K of them or more with probability P(K of M at 1 / n), times n.
    Source: binomial test with Bonferroni's bound (Dunn 1961, JASA 56).
    """
    num_late, smallest, num_tried = 0, np.inf, 0
    uneven = list[int]()
    lateness: defaultdict[str, dict[int, float]] = defaultdict(dict)
    for place, row in enumerate(rows):
        repetitions = np.asarray(row.measurement.rank_seconds)
        of_ranks, num_nodes = np.median(repetitions, axis=0), row.measurement.num_nodes
        ratio = np.median(repetitions.max(axis=1) / np.median(repetitions, axis=1))
        if len(of_ranks) >= _MIN_RANKS:
            num_tried += 1
            uneven += [place] if ratio > UNEVEN_RATIO else []
        if num_nodes < _MIN_NODES or len(of_ranks) % num_nodes:
            continue
        of_nodes = np.reshape(of_ranks, (num_nodes, -1)).max(axis=1)
        node = int(of_nodes.argmax())
        late = float(of_nodes[node] / np.median(of_nodes)) - 1
        if late > LATE_FRACTION:
            lateness[row.node_names[node]][place] = late
            num_late, smallest = num_late + 1, min(smallest, num_nodes)
    named = [name for name, late in lateness.items() if _is_no_chance(len(late), num_late, int(smallest))]
    for name in named:
        median = float(np.median(list(lateness[name].values())))
        yield Straggler(
            f"the others wait for {name}: it was last in {len(lateness[name])} configurations, late by "
            f"{percent_text(median)}. Repair it or leave it out, and measure again",
            tuple(lateness[name]),
        )
    if not named and len(uneven) >= max(MIN_RUNS, MIN_UNEVEN_FRACTION * num_tried):
        yield Straggler(
            f"in {len(uneven)} of {num_tried} configurations the slowest rank took more than {UNEVEN_RATIO:g} times "
            "as long as the median rank, and not always on the same node: look for a slow storage target, or for ranks "
            "with more bytes",
            tuple(uneven),
        )


def _is_no_chance(count: int, num_late: int, num_nodes: int) -> bool:
    from scipy.special import bdtrc  # noqa: PLC0415 - only fitting needs it

    return count >= MIN_RUNS and num_nodes * float(bdtrc(count - 1, num_late, 1 / num_nodes)) < _CHANCE
