"""Chart of stages on unlike nodes: how long a microbatch takes on each stage, as given and balanced."""

from __future__ import annotations

from sizing.present.chart import WIDTH, Chart, chart, quantity, series
from sizing.questions.stages.report import StagesReport

_SPLITS = ("as given", "balanced")


def stages_chart(report: StagesReport) -> Chart:
    """Draw a bar for each stage, colored by kind of node, in one panel for each of both splits."""
    kinds = [kind.name for kind in report.kinds]
    rows = [
        {"split": split, "stage": each.stage, "kind": each.kind, "seconds": each.seconds}
        for split, pipeline in zip(_SPLITS, (report.as_given, report.balanced), strict=True)
        for each in pipeline.stages
    ]
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
