"""Tables at terminals of any width."""

import io

import pytest
from rich.console import Console

from sizing.present.rows import Grid
from sizing.terminal.output import table_of

ROWS = tuple(
    (f"{row} h", f"{row}0.00 GB/s", *(f"{row}{column}.000 MB/s" for column in range(10, 20))) for row in range(1, 4)
)
GRID = Grid("", ("interval", "storage\nbandwidth", *(f"min write bandwidth {n}" for n in range(10))), ROWS, num_keys=2)


@pytest.mark.parametrize("width", [50, 80, 100, 130, 300])
def test_figures_are_never_cut_and_each_line_says_of_which_row_it_is(width: int) -> None:
    shown = io.StringIO()
    Console(file=shown, width=width).print(table_of(GRID._replace(is_figures=True)))
    lines = shown.getvalue().splitlines()
    assert max(map(len, lines)) <= width
    for row in ROWS:
        own = [line for line in lines if line.split()[:2] == row[0].split()]
        assert all(row[1] in line for line in own)
        assert [cell for line in own for cell in row[2:] if cell in line] == list(row[2:])
    assert len(own) == {50: 10, 80: 4, 100: 2, 130: 2, 300: 1}[width]
