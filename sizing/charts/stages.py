"""What a StagesReport shows as a chart: how long a microbatch takes on each stage, as given and balanced."""

from __future__ import annotations

from collections.abc import Iterator

from sizing.charts.chart import Chart, Spec, chart, quantity, series
from sizing.charts.theme import WIDTH
from sizing.explore.stages.stages_report import Pipeline, StagesReport

_SPLITS = ("as given", "balanced")


def stages_chart(report: StagesReport) -> Chart:
    """A bar for each stage, colored by kind of node, in one panel for each of both splits."""
    kinds = [kind.name for kind in report.kinds]
    rows = [*_rows(_SPLITS[0], report.as_given), *_rows(_SPLITS[1], report.balanced)]
    return chart(
        "Time of a microbatch on each stage",
        subtitle=f"{report.model} on {report.num_gpus:,} GPUs",
        rows=rows,
        height=WIDTH // 3,
        mark="bar",
        encoding={
            "row": {"field": "split", "type": "nominal", "title": None, "sort": list(_SPLITS)},
            "x": {"field": "stage", "type": "ordinal", "title": "stage"},
            "y": quantity("seconds", "time of a microbatch"),
            "color": series("kind", "nodes", kinds)["color"],
        },
    )


def _rows(split: str, pipeline: Pipeline) -> Iterator[Spec]:
    for each in pipeline.stages:
        yield {"split": split, "stage": each.stage, "kind": each.kind, "seconds": each.seconds}
