"""The answer of `ckpt-bench observe` as text: headline, tables and notes."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from io_bench.checks.observation import Observation
from io_bench.checks.observation_document import ObservedComparison, Unit
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


def observation_table(observation: Observation) -> RenderableType:
    """Table for people: headline, figures beside the model's, stops, stragglers, notes."""
    saves = counted_text(len(observation.saves), "save") + (f" by {observation.layout}" if observation.layout else "")
    steps = f"{observation.numbers} {observation.saves[0].step:,} to {observation.saves[-1].step:,}"
    headline = f"{observation.path}: {saves}, {steps}, in {seconds_text(observation.run_seconds)}."
    return Group(
        Text(headline, style="bold"),
        _figures_table(observation),
        *([_comparison_table(observation)] if observation.comparison else []),
        *([_stops_table(observation)] if observation.stops else []),
        *(
            Text(f"Rank {late.writer} is done late: {late.ratio:.2f} x the time of the others.")
            for late in observation.stragglers
        ),
        *(Text(f"note: {note}") for note in observation.notes),
    )


def _figures_table(observation: Observation) -> Table:
    table = Table(title="Observed", title_justify="left", box=box.SIMPLE_HEAD, show_header=False)
    for justify in ("left", "right", "left"):
        table.add_column(justify=justify)
    for name, value, remark in _figure_rows(observation):
        table.add_row(name, value, remark)
    return table


def _figure_rows(observation: Observation) -> Iterator[tuple[str, str, str]]:
    is_bound = observation.times == "modification"
    least, most = ("at least ", "at most ") if is_bound else ("", "")
    yield (
        "checkpoint",
        bytes_text(observation.checkpoint_bytes),
        f"from {counted_text(observation.num_writers, 'rank')}",
    )
    if observation.interval_seconds is not None:
        every = (
            f"every {counted_text(observation.cadence_steps, observation.numbers[:-1])}"
            if observation.cadence_steps
            else ""
        )
        every = every or ("steps between saves unknown" if observation.numbers == "saves" else "by the clock")
        yield "interval", seconds_text(observation.interval_seconds), every
    if observation.write_seconds is not None and observation.slowest_write_seconds is not None:
        longest = f"longest {seconds_text(observation.slowest_write_seconds)}"
        yield "time of a save", f"{least}{seconds_text(observation.write_seconds)}", longest
    if observation.write_bytes_per_second is not None:
        of_rank = (
            f"{rate_text(observation.writer_bytes_per_second)} per rank" if observation.writer_bytes_per_second else ""
        )
        yield "write rate", f"{most}{rate_text(observation.write_bytes_per_second)}", of_rank
    every = (
        f", before them one every {observation.kept_every_steps:,} {observation.numbers}"
        if observation.kept_every_steps
        else ""
    )
    yield "kept", bytes_text(observation.kept_bytes), f"the newest {counted_text(observation.kept_last, 'save')}{every}"
    if observation.growth_bytes_per_day is not None:
        yield "growth", f"{bytes_text(observation.growth_bytes_per_day)} per day", ""
    if observation.lost_fraction is not None:
        lost = "none that shows"
        if observation.mtbf_seconds is not None:
            lost = f"one in {seconds_text(observation.mtbf_seconds)}, "
            lost += f"{percent_text(observation.lost_fraction)} of the time, at least"
        yield "stops", f"{len(observation.stops):,}", lost


def _comparison_table(observation: Observation) -> Table:
    table = Table(title="Beside the model", title_justify="left", box=box.SIMPLE_HEAD)
    table.add_column("figure")
    for column in ("observed", "model", "difference"):
        table.add_column(column, justify="right")
    for row in observation.comparison:
        difference = f"{100 * (row.observed / row.model - 1):+.1f} %" if row.observed is not None and row.model else "-"
        table.add_row(row.figure, _text(row, row.observed), _text(row, row.model), difference)
    return table


def _text(row: ObservedComparison, value: float | None) -> str:
    return "-" if value is None else _TEXT_OF[row.unit](value)


def _stops_table(observation: Observation) -> Table:
    unit = observation.numbers[:-1]
    table = Table(title="Stops between saves", title_justify="left", box=box.SIMPLE_HEAD)
    for column in (f"after {unit}", f"before {unit}", "lost", f"{unit}s done again"):
        table.add_column(column, justify="right")
    for stop in observation.stops[:MAX_STOPS_SHOWN]:
        redone = f"at least {stop.redone_steps:,}" if stop.redone_steps else "-"
        table.add_row(f"{stop.after_step:,}", f"{stop.before_step:,}", seconds_text(stop.lost_seconds), redone)
    if len(observation.stops) > MAX_STOPS_SHOWN:
        table.caption = f"and {len(observation.stops) - MAX_STOPS_SHOWN:,} more; --json lists all"
    return table
