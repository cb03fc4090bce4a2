"""The answer of `ckpt-bench observe` for people."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from io_bench.observation.model import Comparison, Unit
from io_bench.observation.observation import Observation
from sizing.units import bytes_text, counted_text, percent_text, rate_text, seconds_text

MAX_STOPS_SHOWN = 20
"""A run of months has hundreds; `--json` has all."""

_TEXT_OF: dict[Unit, Callable[[float], str]] = {
    "bytes": bytes_text,
    "bytes per day": bytes_text,
    "count": lambda number: f"{number:,.0f}",
    "seconds": seconds_text,
    "fraction": percent_text,
}


def observation_table(found: Observation) -> RenderableType:
    """Headline, figures, the model beside them, stops and stragglers, notes."""
    return Group(
        Text(_headline(found), style="bold"),
        _figures(found),
        *([_comparison(found)] if found.comparison else []),
        *([_stops(found)] if found.stops else []),
        *(Text(sentence) for sentence in _stragglers(found)),
        *(Text(f"note: {note}") for note in found.notes),
    )


def _headline(found: Observation) -> str:
    saves = counted_text(len(found.saves), "save") + (f" by {found.layout}" if found.layout else "")
    steps = f"steps {found.saves[0].step:,} to {found.saves[-1].step:,}"
    return f"{found.path}: {saves}, {steps}, in {seconds_text(found.run_seconds)}."


def _figures(found: Observation) -> Table:
    table = Table(title="Observed", title_justify="left", box=box.SIMPLE_HEAD, show_header=False)
    for justify in ("left", "right", "left"):
        table.add_column(justify=justify)
    for name, value, remark in _figure_rows(found):
        table.add_row(name, value, remark)
    return table


def _figure_rows(found: Observation) -> Iterator[tuple[str, str, str]]:
    is_bound = found.times == "modification"
    least, most = ("at least ", "at most ") if is_bound else ("", "")
    yield "checkpoint", bytes_text(found.checkpoint_bytes), f"from {counted_text(found.num_writers, 'rank')}"
    if found.interval_seconds is not None:
        every = f"every {found.cadence_steps:,} steps" if found.cadence_steps else "by the clock"
        yield "interval", seconds_text(found.interval_seconds), every
    if found.write_seconds is not None and found.slowest_write_seconds is not None:
        longest = f"longest {seconds_text(found.slowest_write_seconds)}"
        yield "time of a save", f"{least}{seconds_text(found.write_seconds)}", longest
    if found.write_bytes_per_second is not None:
        yield "write rate", f"{most}{rate_text(found.write_bytes_per_second)}", _writer_rate(found)
    yield "kept", bytes_text(found.kept_bytes), _kept(found)
    if found.growth_bytes_per_day is not None:
        yield "growth", f"{bytes_text(found.growth_bytes_per_day)} per day", ""
    if found.lost_fraction is not None:
        yield "stops", f"{len(found.stops):,}", _lost(found)


def _writer_rate(found: Observation) -> str:
    return f"{rate_text(found.writer_bytes_per_second)} per rank" if found.writer_bytes_per_second else ""


def _kept(found: Observation) -> str:
    every = f", before them one every {found.kept_every_steps:,} steps" if found.kept_every_steps else ""
    return f"the newest {counted_text(found.kept_last, 'save')}{every}"


def _lost(found: Observation) -> str:
    if not found.stops or found.mtbf_seconds is None or found.lost_fraction is None:
        return "none that shows"
    return f"one in {seconds_text(found.mtbf_seconds)}, {percent_text(found.lost_fraction)} of the time, at least"


def _comparison(found: Observation) -> Table:
    table = Table(title="Beside the model", title_justify="left", box=box.SIMPLE_HEAD)
    table.add_column("figure")
    for column in ("observed", "model", "difference"):
        table.add_column(column, justify="right")
    for row in found.comparison:
        table.add_row(row.figure, _text(row, row.observed), _text(row, row.model), _difference(row))
    return table


def _text(row: Comparison, value: float | None) -> str:
    return "-" if value is None else _TEXT_OF[row.unit](value)


def _difference(row: Comparison) -> str:
    """Of the observed figure from the model's."""
    if row.observed is None or not row.model:
        return "-"
    return f"{100 * (row.observed / row.model - 1):+.1f} %"


def _stops(found: Observation) -> Table:
    table = Table(title="Stops between saves", title_justify="left", box=box.SIMPLE_HEAD)
    for column in ("after step", "before step", "lost", "steps done again"):
        table.add_column(column, justify="right")
    for stop in found.stops[:MAX_STOPS_SHOWN]:
        redone = f"at least {stop.redone_steps:,}" if stop.redone_steps else "-"
        table.add_row(f"{stop.after_step:,}", f"{stop.before_step:,}", seconds_text(stop.lost_seconds), redone)
    if len(found.stops) > MAX_STOPS_SHOWN:
        table.caption = f"and {len(found.stops) - MAX_STOPS_SHOWN:,} more; --json lists all"
    return table


def _stragglers(found: Observation) -> Iterator[str]:
    for late in found.stragglers:
        yield f"Rank {late.writer} is done late: {late.ratio:.2f} x the time of the others."
