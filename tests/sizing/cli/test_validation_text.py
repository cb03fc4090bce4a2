"""How comparisons with published figures are printed: every verdict, numbered notes below the source."""

from __future__ import annotations

from rich.console import Console

from sizing.cli.validation_table import validation_text
from sizing.validation.comparison import EXACT, Source
from sizing.validation.validation_report import validation_report

PAPER = Source("observation", "A paper, table 1")
TOOL = Source("tool", "A tool")
ROWS = [
    PAPER.compare("ranks", 1024, 1024, within=EXACT),
    PAPER.compare("checkpoint, TB", 13.9, 13.8, within=0.01),
    PAPER.compare("write, s", 50.0, 40.0, within=0.05, miss="It was measured on a busy system."),
    PAPER.compare("read, s", 50.0, 40.0, within=0.05),
    PAPER.compare("drain, s", 10.0, 8.0, within=0.05, is_lower_bound=True),
    TOOL.list_unpredicted("memory, GB", 61.1, because="The tool does not say for which batch."),
    TOOL.compare("state, GB", 1e-7, 1e-7, within=1e-6, note="Both round."),
]
EXPECTED = """\

  predicted against published          rows   agree   explained miss   unexplained   no prediction
 ──────────────────────────────────────────────────────────────────────────────────────────────────
  1. Published observations:              5       3                1             1               0
  somebody measured or counted it
  2. Other tools' figures:                2       1                0             0               1
  estimators, calculators, and what
  is known at second hand alone
  3. Our own arithmetic re-done:          0       0                0             0               0
  formulas of papers, figures
  derived from the same inputs


1. Published observations: somebody measured or counted it

A paper, table 1
                                                      predicted     published   ratio
  ranks                                                   1,024         1,024  1.0000  equal
  checkpoint, TB                                           13.9          13.8  1.0072  within 1 %
  write, s                                                   50            40  1.2500  explained (1)
  read, s                                                    50            40  1.2500  UNEXPLAINED
  drain, s                                                   10           > 8  1.2500  above
  (1) It was measured on a busy system.

2. Other tools' figures: estimators, calculators, and what is known at second hand alone

A tool
                                                  predicted     published   ratio
  memory, GB                                              -          61.1       -  no prediction (1)
  state, GB                                           1e-07         1e-07  1.0000  within 1e-06 (2)
  (1) The tool does not say for which batch.
  (2) Both round.

3. Our own arithmetic re-done: formulas of papers, figures derived from the same inputs
"""


def test_counts_rows_and_notes_stand_as_a_reader_needs_them() -> None:
    console = Console(width=100, highlight=False)
    with console.capture() as capture:
        console.print(validation_text(validation_report(ROWS)))
    assert "".join(f"{line.rstrip()}\n" for line in capture.get().splitlines()).startswith(EXPECTED)
