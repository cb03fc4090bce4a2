"""Chart of a cluster: the busiest day of the file system, and how long saves stall."""

from __future__ import annotations

from sizing.present.chart import HEIGHT, WIDTH, Chart, Spec, chart, quantity, series
from sizing.questions.cluster.report import PERCENTILES, ClusterReport
from sizing.storage.rates import DIRECTIONS
from sizing.units import SECONDS_PER_HOUR, rate_text

_LOW = HEIGHT * 2 // 3
"""Two charts of a cluster stand on top of each other, and one page holds both."""


def cluster_chart(report: ClusterReport) -> Chart:
    """Draw rates over the busiest day above the stalls of each group by percentile."""
    return chart(
        f"{report.num_jobs:,} jobs on {rate_text(report.write.bytes_per_second)} write bandwidth",
        subtitle=f"{report.num_checkpoints:,} checkpoints simulated",
        rows=[],
        vconcat=[_draw_busiest_day(report), _draw_stalls(report)],
        resolve={"scale": {"color": "independent", "strokeDash": "independent", "shape": "independent"}},
    )


def _draw_busiest_day(report: ClusterReport) -> Spec:
    """Draw the rates over the busiest day."""
    directions = DIRECTIONS if report.read else ("write",)
    rows = [
        {
            "hour": moment.at_seconds / SECONDS_PER_HOUR,
            "direction": direction,
            "bytes_per_second": moment.bytes_per_second(direction),
        }
        for moment in report.busiest_day
        for direction in directions
    ]
    encoding = {
        "x": quantity("hour", "hour of simulation", scale="linear"),
        "y": quantity("bytes_per_second", "mean bandwidth over 5 minutes"),
        **series("direction", "busiest day", directions),
    }
    encoding["x"]["scale"]["zero"] = False
    return {
        "width": WIDTH,
        "height": _LOW,
        "data": {"values": rows},
        "mark": {"type": "line", "interpolate": "step-after", "strokeWidth": 1.5},
        "encoding": {name: encoding[name] for name in ("x", "y", "color", "strokeDash")},
    }


def _draw_stalls(report: ClusterReport) -> Spec:
    """Draw how long the stalls of each group last, by percentile."""
    rows = [
        {"group": job.name, "percentile": percentile, "stall_seconds": max(seconds, 1e-3)}
        for job in report.jobs
        if job.simulated_stalls
        for percentile, seconds in zip(PERCENTILES, job.simulated_stalls.percentile_seconds, strict=True)
    ]
    return {
        "width": WIDTH,
        "height": _LOW,
        "data": {"values": rows},
        "mark": {"type": "line", "point": True},
        "encoding": {
            "x": {
                "field": "percentile",
                "type": "ordinal",
                "title": "% of saves with a stall up to this",
                "axis": {"labelAngle": 0},
            },
            "y": quantity("stall_seconds", "stall per save", scale="log"),
            **series("group", "jobs", [job.name for job in report.jobs if job.simulated_stalls]),
        },
    }
