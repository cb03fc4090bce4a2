"""The GPUs of a cluster, one cell each, by the bytes that they write: the data of a picture that a page draws itself.

Vega-Lite would draw a mark for each GPU, which is slow for 16,384. The picture shows what is easily got wrong: the
state of one model replica is written, however many GPUs hold a copy of it.
"""

from __future__ import annotations

import base64
import math
import struct
import zlib
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from pydantic import Field

from sizing.layout import Parallelism
from sizing.layout.files import WriterClass
from sizing.layout.ranks import RankClass, numbers_in_stage
from sizing.present.chart import COLORS, GRID, WIDTH
from sizing.report import SizingReport
from sizing.scenario import Scenario
from sizing.sized_layout import size_layout
from sizing.state.saved_state import RANK_PART
from sizing.strict_model import StrictModel
from sizing.units import bytes_text, counted_text

MAX_CELLS = 4_000_000
"""Max cells, as many as a large screen has pixels: of more GPUs no picture shows each."""
MAX_RUNS = 20_000
"""About 300 kB as JSON, where every GPU of a large stage writes something else."""
_MAX_ROWS = 12
"""Max rows of the table beside the picture: about its height."""


class GridAxis(StrictModel):
    """A degree of the layout."""

    label: str = Field(description="What a number along the axis is called, such as tensor rank.")
    size: int = Field(description="Degree: numbers go from 0 to one less.")
    stride: int = Field(description="By how much the rank grows with each number.")


class GridKind(StrictModel):
    """GPUs that write alike."""

    num_bytes: int = Field(description="Bytes of tensors that each of them writes per save, 0 for none.")
    text: str = Field(description="The same in words, with the number of files.")


class GridStages(StrictModel):
    """Pipeline stages whose GPUs write alike."""

    num_stages: int = Field(description="Consecutive stages, which follow those of the entry before.")
    runs: list[tuple[int, int]] = Field(
        description="Consecutive GPUs of each of the stages, tensor ranks the fastest, then context, then data: how "
        "many, and which of the kinds."
    )


class GpuGrid(StrictModel):
    """Which GPUs write how much of one checkpoint."""

    title: str = Field(description="What the picture shows.")
    sentence: str = Field(description="What it says, in words.")
    reading: str = Field(description="How the picture is to be read.")
    place: str = Field(description="Where a GPU is, with {rank} and {node} to be filled in.")
    gpus_per_node: int = Field(description="GPUs of one node, in the order of ranks.")
    tensor: GridAxis = Field(description="Tensor ranks, the rows of a replica.")
    context: GridAxis = Field(description="Context ranks, the faster half of the replicas.")
    data: GridAxis = Field(description="Data ranks, the slower half of the replicas.")
    stage: GridAxis = Field(description="Pipeline stages, the columns of a replica.")
    kinds: list[GridKind] = Field(description="How much GPUs write; what writes most comes first.")
    stages: list[GridStages] = Field(description="All pipeline stages, in their order.")
    columns: list[str] = Field(description="Headings of the table beside the picture.")
    rows: list[list[str]] = Field(description="The same as a table of text.")


def gpu_grid(scenario: Scenario, report: SizingReport) -> GpuGrid | None:
    """Lay out the GPUs of a report by what they write; None where there are more than a picture shows."""
    parallelism, writers = scenario.parallelism, size_layout(scenario).checkpoint_layout.writers
    if parallelism.num_gpus > MAX_CELLS:
        return None
    classes = [_kind_of(ranks) for ranks in report.layout.rank_classes]
    nothing = GridKind(num_bytes=0, text="writes nothing")
    kinds = [*sorted(set(classes), key=lambda kind: (-kind.num_bytes, kind.text)), nothing]
    kind_of_class = [kinds.index(kind) for kind in classes]
    stages = list(_group_stages(parallelism, writers, kind_of_class, nothing=kinds.index(nothing)))
    if sum(len(each.runs) for each in stages) > MAX_RUNS:
        return None
    strides = parallelism.strides
    return GpuGrid(
        title="Who writes",
        sentence=_sentence(report),
        reading=_legend(parallelism),
        place="GPU {rank} in node {node}",
        gpus_per_node=report.layout.gpus_per_node,
        tensor=GridAxis(label="tensor rank", size=parallelism.tensor, stride=strides["tensor"]),
        context=GridAxis(label="context rank", size=parallelism.context, stride=strides["context"]),
        data=GridAxis(label="data rank", size=parallelism.data, stride=strides["data"]),
        stage=GridAxis(label="stage", size=parallelism.pipeline, stride=strides["pipeline"]),
        kinds=kinds,
        stages=stages,
        columns=["GPUs", "each of them"],
        rows=list(_rows(kinds, stages)),
    )


def _kind_of(ranks: RankClass) -> GridKind:
    num_files = counted_text(sum(file.count for file in ranks.files), "file")
    return GridKind(num_bytes=ranks.bytes_per_rank, text=f"writes {bytes_text(ranks.bytes_per_rank)}, {num_files}")


def _group_stages(
    parallelism: Parallelism, writers: Sequence[WriterClass], kind_of_class: Sequence[int], *, nothing: int
) -> Iterator[GridStages]:
    """Join neighbouring stages with the same classes of writers; GPUs outside these classes are of kind `nothing`."""

    def classes_of(stage: int) -> tuple[int, ...]:
        return tuple(place for place, writer in enumerate(writers) if stage in writer.span.stages)

    for classes, alike in groupby(range(parallelism.pipeline), key=classes_of):
        kinds = np.full(parallelism.ranks_per_stage, nothing)
        for place in classes:
            kinds[numbers_in_stage(writers[place])] = kind_of_class[place]
        yield GridStages(num_stages=len(list(alike)), runs=_count_runs(kinds))


def _count_runs(kinds: npt.NDArray[np.int64]) -> list[tuple[int, int]]:
    """Count equal neighbours.

    >>> _count_runs(np.array([2, 2, 0, 2]))
    [(2, 2), (1, 0), (1, 2)]
    """
    starts = np.flatnonzero(np.diff(kinds, prepend=-1))
    counts = np.diff(starts, append=len(kinds))
    return list(zip(counts.tolist(), kinds[starts].tolist(), strict=True))


def _sentence(report: SizingReport) -> str:
    layout = report.layout
    written = bytes_text(report.checkpoint.written_bytes)
    who = (
        f"all {counted_text(layout.num_gpus, 'GPU')} share the writing"
        if layout.num_writers == layout.num_gpus
        else f"by {layout.num_writers:,} of {counted_text(layout.num_gpus, 'GPU')}"
    )
    if layout.num_replicas == 1 or RANK_PART in report.checkpoint.parts:
        return f"{written} are written: {who}."
    return f"One model replica is written, not {layout.num_replicas:,}: {written}, {who}."


def _legend(parallelism: Parallelism) -> str:
    shade = "The stronger its color, the more a GPU writes; grey ones write nothing."
    if parallelism.pipeline * parallelism.tensor == 1:
        return f"Each square is one GPU. {shade}"
    across, down = counted_text(parallelism.pipeline, "stage"), counted_text(parallelism.tensor, "tensor rank")
    return f"Each block is the GPUs of one replica, {across} across and {down} down. {shade}"


def _rows(kinds: Sequence[GridKind], stages: Sequence[GridStages]) -> Iterator[list[str]]:
    counts: dict[str, int] = {}
    for each in stages:
        for num_gpus, kind in each.runs:
            text = kinds[kind].text
            counts[text] = counts.get(text, 0) + num_gpus * each.num_stages
    in_order = list(dict.fromkeys(kind.text for kind in kinds if kind.text in counts))
    shown = in_order if len(in_order) <= _MAX_ROWS else in_order[: _MAX_ROWS - 1]
    yield from ([f"{counts[text]:,}", text] for text in shown)
    if rest := in_order[len(shown) :]:
        yield [f"{sum(map(counts.__getitem__, rest)):,}", f"write less, the last of them: {rest[-1]}"]


_PIXELS_PER_POINT = 2
"""Sharp on a high-resolution screen and in print at half size."""
_MAX_HEIGHT = 360 * _PIXELS_PER_POINT
_MAX_CELL = 14 * _PIXELS_PER_POINT
_LEAST_WITH_GAP = 4
"""Pixels of a cell; in smaller ones a gap would be a quarter of what is shown."""
_LEAST_SHADE = 0.35
"""Least part of the full color: what still stands out from the ground."""
_GROUND, _NOTHING, _FIRST_SHADE, _LAST_SHADE = 0, 1, 2, 255
"""Places in the palette: white, grey, then shades."""
_INDEXED = 3
"""Color type of PNG: a pixel is a place in the palette."""

Pixels = npt.NDArray[np.uint8]


class _Sizes(NamedTuple):
    """Pixels of a cell and of the gap between blocks of replicas, and how many blocks stand in a row and a column."""

    cell: int
    gap: int
    columns: int
    rows: int


def gpu_picture(grid: GpuGrid) -> str:
    """Draw the grid as an SVG document that holds one image: squares of 4 million GPUs would be 100 MB of shapes."""
    pixels = _draw_pixels(grid)
    height, width = (size / _PIXELS_PER_POINT for size in pixels.shape)
    source = f"data:image/png;base64,{base64.b64encode(_png(pixels)).decode()}"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:g}" height="{height:g}" '
        f'viewBox="0 0 {width:g} {height:g}"><image href="{source}" width="{width:g}" height="{height:g}"/></svg>'
    )


def _png(pixels: Pixels) -> bytes:
    """Encode an image with a byte of the palette for each pixel, no line filtered (W3C, PNG, third edition)."""
    height, width = pixels.shape
    lines = np.pad(pixels, ((0, 0), (1, 0)), constant_values=0)
    header = struct.pack(">IIBBBBB", width, height, 8, _INDEXED, 0, 0, 0)
    chunks = {b"IHDR": header, b"PLTE": _palette().tobytes(), b"IDAT": zlib.compress(lines.tobytes(), 9), b"IEND": b""}
    image = b"\x89PNG\r\n\x1a\n"
    for name, content in chunks.items():
        checksum = zlib.crc32(name + content)
        image += struct.pack(">I", len(content)) + name + content + struct.pack(">I", checksum)
    return image


def _draw_pixels(grid: GpuGrid) -> Pixels:
    """Draw blocks of replicas beside each other, as many to a row as fit, each with its stages across."""
    shades = _shades(grid)
    num_replicas, down, across = shades.shape
    sizes = _fit_sizes(num_replicas, down, across)
    missing = sizes.columns * sizes.rows - num_replicas
    cells = np.kron(np.pad(shades, ((0, missing), (0, 0), (0, 0))), np.ones((1, sizes.cell, sizes.cell), np.uint8))
    if sizes.cell >= _LEAST_WITH_GAP:
        cells[:, :: sizes.cell, :] = cells[:, :, :: sizes.cell] = _GROUND
    blocks = np.pad(cells, ((0, 0), (0, sizes.gap), (0, sizes.gap)))
    _, height, width = blocks.shape
    by_row = blocks.reshape(sizes.rows, sizes.columns, height, width).transpose(0, 2, 1, 3)
    return np.ascontiguousarray(by_row.reshape(sizes.rows * height, sizes.columns * width))


def _shades(grid: GpuGrid) -> Pixels:
    """Choose the place in the palette of each GPU, by replica, tensor rank and stage."""
    most = max(kind.num_bytes for kind in grid.kinds)
    of_kinds = np.array([_shade(kind.num_bytes, most) for kind in grid.kinds], np.uint8)
    stages = [
        np.repeat(of_kinds[[kind for _, kind in each.runs]], [count for count, _ in each.runs])
        for each in grid.stages
        for _ in range(each.num_stages)
    ]
    return np.stack(stages, axis=-1).reshape(-1, grid.tensor.size, grid.stage.size)


def _shade(num_bytes: int, most: int) -> int:
    """Choose the place in the palette: the stronger, the more bytes.

    >>> _shade(0, 10), _shade(1, 1000), _shade(10, 10)
    (1, 2, 255)
    """
    if num_bytes == 0:
        return _NOTHING
    return _FIRST_SHADE + round((_LAST_SHADE - _FIRST_SHADE) * num_bytes / most)


def _palette() -> Pixels:
    """List red, green and blue of the ground, of GPUs that write nothing, and of the shades."""
    white, nothing, color = (np.array([*bytes.fromhex(name[1:])], np.float64) for name in ("#FFFFFF", GRID, COLORS[0]))
    strengths = np.linspace(_LEAST_SHADE, 1, _LAST_SHADE - _FIRST_SHADE + 1)[:, np.newaxis]
    return np.vstack([white, nothing, white + (color - white) * strengths]).round().astype(np.uint8)


def _fit_sizes(num_replicas: int, down: int, across: int) -> _Sizes:
    """Find the largest cells with which all replicas fit the height; where none do, the smallest.

    >>> _fit_sizes(1, 8, 64)
    _Sizes(cell=20, gap=10, columns=1, rows=1)
    """
    width = WIDTH * _PIXELS_PER_POINT
    for cell in range(min(_MAX_CELL, max(1, width // across)), 0, -1):
        gap = max(1, round(cell / 2))
        columns = max(1, min(num_replicas, width // (across * cell + gap)))
        sizes = _Sizes(cell, gap, columns, math.ceil(num_replicas / columns))
        if sizes.rows * (down * cell + gap) <= _MAX_HEIGHT:
            break
    return sizes
