"""The rates of a storage system over time in words: what is lost now, and every series of like runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sizing.storage.rate_changes import RatedRun, RatedSeries
from sizing.summary.rows import Grid, Summary
from sizing.units import percent_text, rate_text

_COLUMNS = ("operation", "runs", "latest", "level before", "change", "since", "conditions")
_NONE = "-"
MAX_RUNS_COMPARED = 5
"""That stand side by side: more columns are not read. A choice."""


def rates_summary(system: str, every: Sequence[RatedSeries], *, num_charts: int) -> Summary:
    """Every series in a table; the verdict names those that are lost. `num_charts` of the first are drawn."""
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
        verdict="\n".join(map(_lost_text, lost)) or _standing(every),
        misses=bool(lost),
    )


def side_by_side(every: Sequence[RatedSeries]) -> Iterator[Grid]:
    """The rates of the newest runs beside each other, a row for each series of theirs; nothing of fewer than two."""
    days = {rated.run_id: rated.published_at for series in every for rated in series.rates}
    newest = sorted(days, key=lambda run_id: days[run_id], reverse=True)[:MAX_RUNS_COMPARED]
    if len(newest) < 2:
        return
    rates = [(series, {rated.run_id: rate_text(rated.bytes_per_second) for rated in series.rates}) for series in every]
    rows = tuple(
        (series.operation, *(found.get(run_id, _NONE) for run_id in newest), series.conditions)
        for series, found in rates
        if not found.keys().isdisjoint(newest)
    )
    yield Grid("The newest runs side by side", ("operation", *newest, "conditions"), rows)


def _standing(every: Sequence[RatedSeries]) -> str:
    """What holds where nothing is lost."""
    if not every:
        return "No run tells a rate yet: publish results of ckpt-bench."
    if all(series.rates[-1].judged.expected is None for series in every):
        return "Too few like runs to judge a rate yet."
    return "No rate is lost."


def _lost_text(series: RatedSeries) -> str:
    loss = series.latest_loss
    if loss is None or loss.judged.expected is None:
        return ""
    share = percent_text(1 - loss.bytes_per_second / loss.judged.expected)
    rates = f"{rate_text(loss.bytes_per_second)}, {share} below the level of {rate_text(loss.judged.expected)} before"
    return f"Slower since {loss.published_at:%Y-%m-%d}: {series.operation} at {rates}."


def _cells(series: RatedSeries) -> tuple[str, ...]:
    latest = series.rates[-1]
    return (
        series.operation,
        f"{len(series.rates):,}",
        rate_text(latest.bytes_per_second),
        _NONE if latest.judged.expected is None else rate_text(latest.judged.expected),
        *_change_cells(series.rates),
        series.conditions,
    )


def _change_cells(rates: Sequence[RatedRun]) -> tuple[str, str]:
    """The latest change of a series and its day."""
    changed = [rated for rated in rates if rated.judged.change is not None]
    if not changed:
        return _NONE, _NONE
    return changed[-1].judged.change or _NONE, f"{changed[-1].published_at:%Y-%m-%d}"
