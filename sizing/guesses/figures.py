"""The figures that guesses move: the headline, and those that stand beside it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from sizing.guesses.guess import Headline
from sizing.run.demands.demands import Demands
from sizing.run.evaluation import RunReport
from sizing.run.saving import Saving
from sizing.storage.transfer import Numbers

LOST = "interval.lost_at_interval_fraction"
OVERHEAD = "overhead.fraction"
BYTES = "checkpoint.written_bytes"

_Value = TypeVar("_Value")

HEADLINES: Mapping[str, str] = {LOST: "lost time", OVERHEAD: "overhead", BYTES: "checkpoint size"}
"""The figures that can be the headline, the first that is known is; each with its words."""

_OF_SAVING: dict[str, Callable[[Saving], Numbers | None]] = {
    LOST: lambda saving: None if saving.goodput_fraction is None else 1 - saving.goodput_fraction,
    OVERHEAD: lambda saving: saving.stalled_fraction,
    "write.seconds": lambda saving: saving.write.seconds if saving.write else None,
    "write.stall_seconds": lambda saving: saving.write.stall_seconds if saving.write else None,
    "restore.seconds": lambda saving: saving.restore.seconds,
    "restore.time_to_first_step_seconds": lambda saving: saving.restore.time_to_first_step_seconds,
}


def figures_of(saving: Saving, demands: Demands) -> dict[str, Numbers]:
    """Every figure that is known, by its dotted path in the report: numbers, or arrays where inputs had arrays."""
    return figures_of_layout(demands) | _known({path: of(saving) for path, of in _OF_SAVING.items()})


def figures_of_layout(demands: Demands) -> dict[str, Numbers]:
    """Those that a layout has, whatever the storage."""
    return {BYTES: demands.written_bytes}


def figures_as_reported(run: RunReport, demands: Demands) -> dict[str, float]:
    """The same of a report that stands."""
    return _known({BYTES: float(demands.written_bytes)} | {path: _at(run, path) for path in _OF_SAVING})


def headline_of(figures: Mapping[str, float]) -> Headline:
    """The first of the headlines that is known."""
    path = next(path for path in HEADLINES if path in figures)
    return Headline(figure=path, value=figures[path])


def _known(figures: Mapping[str, _Value | None]) -> dict[str, _Value]:
    return {path: value for path, value in figures.items() if value is not None}


def _at(run: RunReport, path: str) -> float | None:
    block, name = path.split(".")
    value: float | None = getattr(getattr(run, block), name, None)
    return value
