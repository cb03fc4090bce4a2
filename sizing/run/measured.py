"""What a measured storage profile did not see of the layout that it is used for."""

from __future__ import annotations

from collections.abc import Iterator

from sizing.layout import Layout
from sizing.storage.storage import ResolvedStorage


def measurement_warnings(storage: ResolvedStorage | None, *, layout: Layout) -> Iterator[str]:
    """Where the benchmark's ranks and nodes are not those of the layout, and what the benchmark itself warned of."""
    published = storage.published if storage else None
    if published and published.basis == "achieved" and published.num_nodes != layout.num_writing_nodes:
        yield (
            f"{published.name} is what checkpoints of {published.num_nodes} nodes achieved, here "
            f"{layout.num_writing_nodes} write: what other nodes get is not published"
        )
    measured = storage.profile.measured if storage else None
    if measured is None:
        return
    seen, asked = (measured.num_ranks, measured.num_nodes), (layout.num_writers, layout.num_writing_nodes)
    if seen != asked:
        reading = (
            "that more nodes get no more is the cautious reading"
            if measured.num_nodes < layout.num_writing_nodes
            else "whether other writers get the same is not known"
        )
        yield (
            f"the storage was measured with {seen[0]} rank(s) on {seen[1]} node(s), here {asked[0]} write from "
            f"{asked[1]}: {reading}; measure as many"
        )
    for warning in measured.warnings:
        yield f"run {measured.run_id}: {warning}"
