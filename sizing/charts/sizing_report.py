"""What a SizingReport shows as charts: what a checkpoint holds, what limits it, how often to take it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from sizing.charts.chart import Spec, chart, quantity
from sizing.charts.theme import COLORS
from sizing.layout import CheckpointSize
from sizing.report import SizingReport
from sizing.storage.limits import Limit
from sizing.units import bytes_text, seconds_text

_BAR_STEP = {"step": 34}


def report_charts(report: SizingReport) -> list[Spec]:
    """The charts of a report, in the order of its questions."""
    return list(_charts(report))


def parts_chart(size: CheckpointSize) -> Spec:
    """A bar for each part of the state, as wide as its bytes in the files."""
    rows = [
        {"part": f"{name} ({part.dtype})", "total_bytes": part.total_bytes, "label": bytes_text(part.total_bytes)}
        for name, part in size.parts.items()
    ]
    return _bars("What a checkpoint holds", rows, "part", quantity("total_bytes", "bytes in files"))


def limits_chart(title: str, limits: Sequence[Limit]) -> Spec:
    """A bar for each resource, as long as the time that it alone would take; the one that decides stands out."""
    rows = [
        {
            "resource": limit.resource,
            "seconds": limit.seconds,
            "label": f"{seconds_text(limit.seconds)}{', decides' if limit.binds else ''}",
        }
        for limit in limits
    ]
    return _bars(title, rows, "resource", quantity("seconds", "time that it alone takes"))


def _charts(report: SizingReport) -> Iterator[Spec]:
    yield parts_chart(report.checkpoint)
    if report.write is not None and len(report.write.limits) > 1:
        yield limits_chart("What limits the write", report.write.limits)
    if len(report.restore.limits) > 1:
        yield limits_chart("What limits the restore", report.restore.limits)


def _bars(title: str, rows: Sequence[Mapping[str, object]], label: str, length: Spec) -> Spec:
    names = {"field": label, "type": "nominal", "title": None, "sort": None}
    text = {"mark": {"type": "text", "align": "left", "dx": 5}, "encoding": {"text": {"field": "label"}}}
    return chart(
        title,
        rows=rows,
        height=_BAR_STEP,
        encoding={"y": names, "x": length},
        layer=[{"mark": {"type": "bar", "color": COLORS[0]}}, text],
    )
