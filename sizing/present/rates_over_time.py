"""The rates of a storage system over time: a chart of each series, and the table of all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from sizing.present.chart import COLORS, Chart, Spec, chart, quantity
from sizing.present.document import Document, titled_document
from sizing.present.rows import Grid, Summary
from sizing.storage.rate_changes import RatedSeries
from sizing.units import percent_text, rate_text

_MARKS = {"none": ("circle", COLORS[0]), "loss": ("triangle-down", COLORS[6]), "gain": ("triangle-up", COLORS[2])}
"""Shape and color of a point by what changed with it."""
_MARK_SIZE = 110
"""Square pixels: large enough that a triangle is told from a circle."""


def rates_chart(series: RatedSeries) -> Chart:
    """Draw the rate of each run as a point, the level before it as a line; a loss points down, a gain up."""
    rows = [
        {
            "published_at": rated.published_at.isoformat(),
            "run": rated.run_id,
            "bytes_per_second": rated.bytes_per_second,
            "expected_bytes_per_second": rated.judged.expected,
            "change": rated.judged.change or "none",
        }
        for rated in series.rates
    ]
    x = {"field": "published_at", "type": "temporal", "title": "published"}
    marks = {name: mark for name, mark in _MARKS.items() if any(row["change"] == name for row in rows)}
    level = {"mark": {"type": "line", "color": COLORS[4]}, "encoding": {"x": x, "y": _rate("expected_")}}
    return chart(
        f"Rates over time: {series.operation}",
        subtitle=[series.conditions, "points: measured; line: level of the runs before; triangles: a loss or a gain"],
        rows=rows,
        layer=[
            *([level] if any(rated.judged.expected is not None for rated in series.rates) else []),
            {
                "mark": {"type": "point", "filled": True, "size": _MARK_SIZE, "opacity": 1},
                "encoding": {
                    "x": x,
                    "y": _rate(""),
                    "shape": _by_change({name: shape for name, (shape, _) in marks.items()}),
                    "color": _by_change({name: color for name, (_, color) in marks.items()}),
                    "tooltip": [{"field": "run"}, {"field": "bytes_per_second", "format": ".3s"}, {"field": "change"}],
                },
            },
        ],
    )


def _rate(prefix: str) -> Spec:
    return quantity(f"{prefix}bytes_per_second", "bandwidth of all ranks")


def _by_change(values: dict[str, str]) -> Spec:
    scale = {"domain": list(values), "range": list(values.values())}
    return {"field": "change", "type": "nominal", "title": "change", "scale": scale}


_COLUMNS = ("operation", "runs", "latest", "level before", "change", "since", "conditions")
_NONE = "-"
MAX_RUNS_COMPARED = 5
"""Max runs that stand side by side: more columns are not read. A choice."""


MAX_SCENARIOS_NAMED = 5
"""Max scenarios in a sentence; of the others the number is told."""


@dataclass(frozen=True, slots=True)
class Concerned:
    """Who published the runs of a storage system, by run id, and the saved scenarios that rest on its calibrations."""

    publishers: Mapping[str, str] = field(default_factory=dict)
    scenarios: Sequence[str] = ()

    def remedies(self, system: str) -> tuple[str, ...]:
        """Say what to do about a loss of a storage system, and whom it concerns."""
        again = "Run ckpt-bench again with the same configuration: a loss that does not last ends with the next runs."
        withdraw = "Withdraw a run that was disturbed, with the reason."
        if not self.scenarios:
            return again, withdraw, f"No saved scenario rests on a calibration of {system}."
        more = len(self.scenarios) - MAX_SCENARIOS_NAMED
        named = ", ".join(self.scenarios[:MAX_SCENARIOS_NAMED]) + (f" and {more:,} more" if more > 0 else "")
        calibrate = f"If it lasts, calibrate {system} anew and size these saved scenarios with it: {named}."
        return again, withdraw, calibrate


NOBODY_CONCERNED = Concerned()


def rates_summary(
    system: str, every: Sequence[RatedSeries], concerned: Concerned = NOBODY_CONCERNED, *, num_charts: int
) -> Summary:
    """Put every series into a table; the verdict names those that lost rate. The first `num_charts` are drawn."""
    lost = [series for series in every if series.latest_loss is not None]
    rows = tuple(_cells(series) for series in every)
    undrawn = len(every) - num_charts
    return Summary(
        headline=f"Rates of {system} over time",
        grids=(
            *([Grid("Series of like runs", _COLUMNS, rows, frozenset(range(len(lost))))] if rows else []),
            *side_by_side(every),
        ),
        remarks=(f"{undrawn:,} of {len(every):,} series are not drawn.",) if undrawn else (),
        verdict="\n".join(_loss_text(series, concerned.publishers) for series in lost) or _no_loss_text(every),
        misses=bool(lost),
    )


def side_by_side(every: Sequence[RatedSeries]) -> Iterator[Grid]:
    """Put the rates of the newest runs beside each other, a row for each series of theirs; nothing for one run."""
    days = {rated.run_id: rated.published_at for series in every for rated in series.rates}
    newest = sorted(days, key=lambda run_id: days[run_id], reverse=True)[:MAX_RUNS_COMPARED]
    if len(newest) < 2:
        return
    rates = [(series, {rated.run_id: rate_text(rated.bytes_per_second) for rated in series.rates}) for series in every]
    rows = tuple(
        (series.operation, *(rate_by_run.get(run_id, _NONE) for run_id in newest), series.conditions)
        for series, rate_by_run in rates
        if not rate_by_run.keys().isdisjoint(newest)
    )
    yield Grid("The newest runs side by side", ("operation", *newest, "conditions"), rows)


def _no_loss_text(every: Sequence[RatedSeries]) -> str:
    if not every:
        return "No run tells a rate yet: publish results of ckpt-bench."
    if all(series.rates[-1].judged.expected is None for series in every):
        return "Too few like runs to judge a rate yet."
    return "No rate is lost."


def _loss_text(series: RatedSeries, publishers: Mapping[str, str]) -> str:
    loss = series.latest_loss
    if loss is None or loss.judged.expected is None:
        return ""
    share = percent_text(1 - loss.bytes_per_second / loss.judged.expected)
    rates = f"{rate_text(loss.bytes_per_second)}, {share} below the level of {rate_text(loss.judged.expected)} before"
    by = f", by {publishers[loss.run_id]}" if loss.run_id in publishers else ""
    run = f"First seen in run {loss.run_id}, published {loss.published_at:%Y-%m-%d %H:%M} UTC{by}."
    return f"Slower since {loss.published_at:%Y-%m-%d}: {series.operation} at {rates}. {run}"


def _cells(series: RatedSeries) -> tuple[str, ...]:
    latest = series.rates[-1]
    changed = next((rated for rated in reversed(series.rates) if rated.judged.change is not None), None)
    return (
        series.operation,
        f"{len(series.rates):,}",
        rate_text(latest.bytes_per_second),
        _NONE if latest.judged.expected is None else rate_text(latest.judged.expected),
        _NONE if changed is None else changed.judged.change or _NONE,
        _NONE if changed is None else f"{changed.published_at:%Y-%m-%d}",
        series.conditions,
    )


MAX_RATE_CHARTS = 8
"""Max charts of series that are lost: more nobody looks through; the table has all of them."""
_WHOLE_CHARTS = 2
"""Charts of series where none is lost: those with the most runs, such as a write and its restore."""


def rates_document(system: str, every: Sequence[RatedSeries], concerned: Concerned = NOBODY_CONCERNED) -> Document:
    """Show the rates of a system over time: series that lost rate are drawn or, without a loss, those of most runs."""
    ordered = sorted(every, key=lambda series: (series.latest_loss is None, -len(series.rates)))
    num_lost = sum(series.latest_loss is not None for series in ordered)
    shown = ordered[: min(num_lost, MAX_RATE_CHARTS) or _WHOLE_CHARTS]
    charts = [rates_chart(series) for series in shown if len(series.rates) > 1]  # one point is no trend
    document = titled_document(
        "Rates over time", rates_summary(system, ordered, concerned, num_charts=len(charts)), *charts
    )
    remedies = concerned.remedies(system) if num_lost else ()
    return replace(document, first_page=document.first_page._replace(remedies=remedies))
