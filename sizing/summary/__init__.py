"""The report in words: what terminal, page and document show of it, in the order in which people ask."""

from __future__ import annotations

from sizing.report import SizingReport
from sizing.summary.beside import beside_rows
from sizing.summary.beside_training import compression_rows, offload_rows, run_length_rows
from sizing.summary.first_screen import FirstScreen, first_screen
from sizing.summary.gpu_memory import memory_rows
from sizing.summary.grids import grids, rank_classes
from sizing.summary.guesses import TITLE as GUESSES
from sizing.summary.guesses import guess_grid, guess_rows, guess_sentences, top_guesses
from sizing.summary.headline import headline
from sizing.summary.key_figures import key_figures
from sizing.summary.origins import origins
from sizing.summary.purchase import required_rows
from sizing.summary.recovery import recovery_rows
from sizing.summary.rows import Grid, Row, Section
from sizing.summary.run_costs import cost_rows
from sizing.summary.size import checkpoint_section
from sizing.summary.targets import target_rows
from sizing.summary.times import time_rows

__all__ = [
    "FirstScreen",
    "Grid",
    "Row",
    "Section",
    "assumed",
    "came_from",
    "checkpoint_section",
    "first_screen",
    "grids",
    "guess_grid",
    "guess_rows",
    "guess_sentences",
    "headline",
    "key_figures",
    "origins",
    "rank_classes",
    "sections",
    "top_guesses",
]


def sections(report: SizingReport) -> list[Section]:
    """The figures, the verdict on the targets first."""
    made = [
        Section("Targets", tuple(target_rows(report.targets))),
        checkpoint_section(report),
        Section("Time", tuple(time_rows(report))),
        Section(
            "Cost to the run",
            (*cost_rows(report), *recovery_rows(report.recovery), *run_length_rows(report.run_length)),
        ),
        Section("Less than everything, and beside it", tuple(beside_rows(report))),
        Section("To buy", tuple(required_rows(report))),
        Section(
            "Memory of the fullest GPU",
            (
                *memory_rows(report.training),
                *offload_rows(report.offload),
                *compression_rows(report.gradient_compression),
            ),
        ),
        Section(GUESSES, tuple(guess_rows(report))),
    ]
    return [section for section in made if section.rows]


def assumed(report: SizingReport) -> str:
    """What was assumed, as one line."""
    return "assumed: " + "; ".join(assumption.sentence for assumption in report.assumptions)


def came_from(report: SizingReport) -> str:
    """Where the figures come from, as one line."""
    return "figures: " + "; ".join(found.sentence for found in report.provenance)
