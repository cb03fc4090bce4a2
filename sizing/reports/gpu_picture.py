"""The picture of a GpuGrid for documents: each GPU a square, as the page draws them on its canvas."""

from __future__ import annotations

import base64
import math
import struct
import zlib
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sizing.charts.theme import COLORS, GRID, WIDTH
from sizing.reports.gpu_grid import GpuGrid

_PIXELS_PER_POINT = 2
"""Sharp on a high-resolution screen and in print at half size."""
_MAX_HEIGHT = 360 * _PIXELS_PER_POINT
_MAX_CELL = 14 * _PIXELS_PER_POINT
_LEAST_WITH_GAP = 4
"""Pixels of a cell; in smaller ones a gap would be a quarter of what is shown."""
_LEAST_SHADE = 0.35
"""Of the full color: what still stands out from the ground."""
_GROUND, _NOTHING, _FIRST_SHADE, _LAST_SHADE = 0, 1, 2, 255
"""Places in the palette: white, grey, then shades."""
_INDEXED = 3
"""Color type of PNG: a pixel is a place in the palette."""

Pixels = npt.NDArray[np.uint8]


class _Sizes(NamedTuple):
    """Of the blocks of replicas, in pixels."""

    cell: int
    gap: int
    columns: int
    rows: int


def gpu_picture(grid: GpuGrid) -> str:
    """An SVG document, which holds one image: the squares of 4 million GPUs would be 100 MB of shapes."""
    pixels = _pixels(grid)
    height, width = (size / _PIXELS_PER_POINT for size in pixels.shape)
    source = f"data:image/png;base64,{base64.b64encode(_png(pixels)).decode()}"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:g}" height="{height:g}" '
        f'viewBox="0 0 {width:g} {height:g}"><image href="{source}" width="{width:g}" height="{height:g}"/></svg>'
    )


def _png(pixels: Pixels) -> bytes:
    """An image with a byte of the palette for each pixel, none of its lines filtered (W3C, PNG, third edition)."""
    height, width = pixels.shape
    lines = np.pad(pixels, ((0, 0), (1, 0)), constant_values=0)
    header = struct.pack(">IIBBBBB", width, height, 8, _INDEXED, 0, 0, 0)
    parts = {b"IHDR": header, b"PLTE": _palette().tobytes(), b"IDAT": zlib.compress(lines.tobytes(), 9), b"IEND": b""}
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(name, content) for name, content in parts.items())


def _chunk(name: bytes, content: bytes) -> bytes:
    """Length, name, content, and a checksum of the latter two."""
    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))


def _pixels(grid: GpuGrid) -> Pixels:
    """Blocks of replicas beside each other, as many to a row as fit, each with its stages across."""
    shades = _shades(grid)
    num_replicas, down, across = shades.shape
    sizes = _sizes(num_replicas, down, across)
    missing = sizes.columns * sizes.rows - num_replicas
    cells = np.kron(np.pad(shades, ((0, missing), (0, 0), (0, 0))), np.ones((1, sizes.cell, sizes.cell), np.uint8))
    if sizes.cell >= _LEAST_WITH_GAP:
        cells[:, :: sizes.cell, :] = cells[:, :, :: sizes.cell] = _GROUND
    blocks = np.pad(cells, ((0, 0), (0, sizes.gap), (0, sizes.gap)))
    _, height, width = blocks.shape
    by_row = blocks.reshape(sizes.rows, sizes.columns, height, width).transpose(0, 2, 1, 3)
    return np.ascontiguousarray(by_row.reshape(sizes.rows * height, sizes.columns * width))


def _shades(grid: GpuGrid) -> Pixels:
    """The place in the palette of each GPU, by replica, tensor rank and stage."""
    most = max(kind.num_bytes for kind in grid.kinds)
    of_kinds = np.array([_shade(kind.num_bytes, most) for kind in grid.kinds], np.uint8)
    stages = [
        np.repeat(of_kinds[[kind for _, kind in each.runs]], [count for count, _ in each.runs])
        for each in grid.stages
        for _ in range(each.num_stages)
    ]
    return np.stack(stages, axis=-1).reshape(-1, grid.tensor.size, grid.stage.size)


def _shade(num_bytes: int, most: int) -> int:
    """The place in the palette: the stronger, the more bytes.

    >>> _shade(0, 10), _shade(1, 1000), _shade(10, 10)
    (1, 2, 255)
    """
    if num_bytes == 0:
        return _NOTHING
    return _FIRST_SHADE + round((_LAST_SHADE - _FIRST_SHADE) * num_bytes / most)


def _palette() -> Pixels:
    """Red, green and blue of the ground, of nothing, and of the shades."""
    white, nothing, color = (_rgb(text) for text in ("#FFFFFF", GRID, COLORS[0]))
    strengths = np.linspace(_LEAST_SHADE, 1, _LAST_SHADE - _FIRST_SHADE + 1)[:, np.newaxis]
    return np.vstack([white, nothing, white + (color - white) * strengths]).round().astype(np.uint8)


def _rgb(text: str) -> npt.NDArray[np.float64]:
    return np.array([int(text[at : at + 2], 16) for at in (1, 3, 5)], np.float64)


def _sizes(num_replicas: int, down: int, across: int) -> _Sizes:
    """The largest cells with which all replicas fit the height; of too many, the smallest.

    >>> _sizes(1, 8, 64)
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
