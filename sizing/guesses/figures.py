"""The figures that guesses move: the headline, and those that stand beside it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from sizing.guesses.guess import Headline
from sizing.run.demands.demands import Demands
from sizing.run.evaluation import RunInputs, RunReport
from sizing.run.goodput.interval import best_levels
from sizing.run.required import required_of
from sizing.run.saving import Saving
from sizing.storage.transfer import Numbers

LOST = "interval.lost_at_interval_fraction"
OVERHEAD = "overhead.fraction"
BYTES = "checkpoint.written_bytes"
BEST_PERIOD = "interval.optimal_period_seconds"

_REQUIRED = ("required.write_bytes_per_second", "required.restore_bytes_per_second")

_Value = TypeVar("_Value")

HEADLINES: Mapping[str, str] = {LOST: "lost time", OVERHEAD: "overhead", BYTES: "checkpoint size"}
"""The figures that can be the headline, the first that is known is; each with its words."""


def _best_period_seconds(saving: Saving) -> Numbers | None:
    """The interval with the min loss, which goes without a search where there are no tiers."""
    if len(saving.levels) != 1 or saving.course is None:
        return None
    return best_levels(saving.levels, mtbf_seconds=saving.course.rollback_mtbf_seconds)[-1].interval_seconds


_OF_SAVING: dict[str, Callable[[Saving], Numbers | None]] = {
    LOST: lambda saving: None if saving.goodput_fraction is None else 1 - saving.goodput_fraction,
    OVERHEAD: lambda saving: saving.stalled_fraction,
    "write.seconds": lambda saving: saving.write.seconds if saving.write else None,
    "write.stall_seconds": lambda saving: saving.write.stall_seconds if saving.write else None,
    "restore.seconds": lambda saving: saving.restore.seconds,
    "restore.time_to_first_step_seconds": lambda saving: saving.restore.time_to_first_step_seconds,
    BEST_PERIOD: _best_period_seconds,
    "shares.saving_fraction": lambda saving: saving.shares.saving_fraction,
    "shares.redone_fraction": lambda saving: saving.shares.redone_fraction,
    "shares.recovering_fraction": lambda saving: saving.shares.recovering_fraction,
}


def figures_of(saving: Saving, demands: Demands, inputs: RunInputs) -> dict[str, Numbers]:
    """Every figure that is known, by its dotted path in the report: numbers, or arrays where inputs had arrays."""
    of_saving: dict[str, Numbers] = _known({path: of(saving) for path, of in _OF_SAVING.items()})
    return figures_without_storage(demands, inputs) | of_saving


def figures_without_storage(demands: Demands, inputs: RunInputs) -> dict[str, Numbers]:
    """Those that a scenario has whatever the storage: bytes, and the rates that its targets need."""
    required = required_of(
        inputs.targets,
        demands=demands,
        profile=inputs.profile,
        checkpoint=inputs.checkpoint,
        reliability=inputs.reliability,
    )
    found: dict[str, Numbers | None] = {path: _at(required, path) for path in _REQUIRED}
    return _known({BYTES: demands.unreduced_bytes} | found)


def figures_as_reported(run: RunReport, demands: Demands) -> dict[str, float]:
    """The same of a report that stands."""
    paths = (*_OF_SAVING, *_REQUIRED)
    return _known(
        {BYTES: float(demands.unreduced_bytes)} | {path: _at(getattr(run, path.split(".")[0]), path) for path in paths}
    )


def headline_of(figures: Mapping[str, float], run: RunReport) -> Headline:
    """The first of the headlines that is known of a run that these figures are of."""
    path = next(path for path in HEADLINES if path in figures)
    is_bound = path == LOST and run.interval.leaves_out_restore
    return Headline(figure=path, value=figures[path], leaves_out_restore=is_bound)


def headline_words(headline: Headline) -> str:
    """What the headline is, and what it leaves out.

    >>> headline_words(Headline(figure=LOST, value=0.1, leaves_out_restore=True))
    'lost time without the restore'
    """
    return HEADLINES[headline.figure] + (" without the restore" if headline.leaves_out_restore else "")


def _known(figures: Mapping[str, _Value | None]) -> dict[str, _Value]:
    return {path: value for path, value in figures.items() if value is not None}


def _at(block: object, path: str) -> Any:
    """A figure of the block that the first part of its path names."""
    return getattr(block, path.split(".")[1], None)
