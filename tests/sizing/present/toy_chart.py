"""How much each class of ranks writes."""

from __future__ import annotations

from sizing.layout import Layout
from sizing.present.chart import Chart, chart, quantity


def writers_chart(layout: Layout) -> Chart:
    """A bar for each class of ranks, as wide as the bytes that each of its ranks writes."""
    return chart(
        "How much each rank writes",
        rows=[
            {"ranks": f"stages {ranks.stages}, ranks {ranks.ranks}", "rank_bytes": ranks.bytes_per_rank}
            for ranks in layout.rank_classes
        ],
        mark="bar",
        encoding={
            "y": {"field": "ranks", "type": "nominal", "title": None, "sort": None},
            "x": quantity("rank_bytes", "bytes per rank"),
        },
    )
