"""What the verbs print, whole: the text is what people read and paste, so a change of it is seen here.

Record it again with `CKPT_SIZE_RECORD=1 python -m pytest tests/sizing/cli/test_printed.py`, and read the difference.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from rich.console import Console, Group
from rich.padding import Padding
from rich.style import Style
from rich.table import Table
from rich.text import Text

from tests.testbed.terminal import ckpt_size

FOLDER = Path(__file__).parent / "printed"
RECORDED = {
    "answer-run": "answer run.yaml",
    "answer-run-full": "answer run.yaml --full",
    "answer-model-alone": "answer --model gpt2",
    "manifest": "manifest run.yaml",
    "simulate": "simulate small.yaml --runs 100 --lasting 4d",
    "require": "require run.yaml",
    "sweep": "sweep small.yaml --write-bandwidth 5GB/s,50GB/s --interval 30min,1h --objective overhead --objective bandwidth",
    "layouts": "layouts --model llama-3.1-70b --gpus 64 --sequence-length 4096 --micro-batch 1 --global-batch 256 --max-layouts 5",
    "compare": "compare small.yaml faster.yaml",
    "cluster": "cluster jobs.yaml",
    "inspect": "inspect tiny.safetensors",
    "tensors": "tensors tiny.safetensors",
    "models": "models gpt2",
    "failure-rates": "failure-rates",
}
"""One of each question, by the name of the file that holds its text."""
OTHERS = (
    "answer small.yaml",
    "answer kept.yaml --full",
    "require small.yaml --max-stall 30min --recovery 2h --min-goodput 0.5",
    "sweep small.yaml --interval 10min,30min,1h --objective goodput --objective rework",
    "formats",
    "frameworks",
    "nodes",
    "storage",
    "techniques",
    pytest.param("validate", marks=pytest.mark.long),
)
"""Further rows, columns and styles of the same tables, and lists of what stands in data files."""


@dataclass(frozen=True, slots=True)
class Printed:
    """What a command prints: its text, and the objects that make it."""

    text: str
    parts: list[object]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files that the commands name."""
    folder = tmp_path_factory.mktemp("named")
    for path in FOLDER.glob("*.yaml"):
        (folder / path.name).write_text(path.read_text())
    header = b'{"h.0.weight":{"dtype":"BF16","shape":[4,8],"data_offsets":[0,64]}}'
    (folder / "tiny.safetensors").write_bytes(np.uint64(len(header)).tobytes() + header + bytes(64))
    return folder


@pytest.fixture(scope="module")
def printed(folder: Path) -> Callable[[str], Printed]:
    """What a command prints, which is run once."""

    @functools.cache
    def by(command: str) -> Printed:
        shown: list[object] = []
        show = Console.print

        def noted(console: Console, *objects: Any, **how: Any) -> None:
            shown.extend(objects)
            show(console, *objects, **how)

        with mock.patch.object(Console, "print", noted):
            found = ckpt_size(*command.split(), cwd=folder)
        assert found.returncode == 0, found.stderr
        return Printed("".join(f"{line.rstrip()}\n" for line in found.stdout.splitlines()), list(parts_of(shown)))

    return by


@pytest.mark.parametrize("name", RECORDED)
def test_the_text_is_as_recorded(name: str, printed: Callable[[str], Printed]) -> None:
    text, path = printed(RECORDED[name]).text, FOLDER / f"{name}.txt"
    if os.environ.get("CKPT_SIZE_RECORD"):
        path.write_text(text)
    assert text == path.read_text()


each_command = pytest.mark.parametrize("command", [*RECORDED.values(), *OTHERS])


@each_command
def test_every_table_names_its_columns_and_fills_them(command: str, printed: Callable[[str], Printed]) -> None:
    for table in (part for part in printed(command).parts if isinstance(part, Table)):
        cells = [[str(cell) for cell in column.cells] for column in table.columns]
        assert cells, table.title
        for column, texts in zip(table.columns, cells, strict=True):
            assert not table.show_header or isinstance(column.header, str)
            assert any(texts), (table.title, column.header)
            assert "None" not in texts, (table.title, column.header)
        assert len({len(texts) for texts in cells}) == 1, table.title


@each_command
def test_every_style_is_one_that_a_terminal_knows(command: str, printed: Callable[[str], Printed]) -> None:
    for part in printed(command).parts:
        for style in styles_of(part):
            assert isinstance(style, Style) or Style.parse(style) is not None
        assert not isinstance(part, Text) or not part.plain.startswith("warning: ") or part.style == "yellow"


def parts_of(shown: object) -> Iterator[object]:
    """Everything that stands in what was printed."""
    yield shown
    if isinstance(shown, (list, tuple)):
        for part in shown:
            yield from parts_of(part)
    elif isinstance(shown, Group):
        yield from parts_of(list(shown.renderables))
    elif isinstance(shown, Padding):
        yield from parts_of(shown.renderable)


def styles_of(part: object) -> Iterator[str | Style]:
    """The styles that a part names."""
    if isinstance(part, Text):
        yield part.style
    elif isinstance(part, Table):
        yield from (
            style for style in (part.title_style, *(column.style for column in part.columns)) if style is not None
        )
        yield from (row.style for row in part.rows if row.style is not None)
