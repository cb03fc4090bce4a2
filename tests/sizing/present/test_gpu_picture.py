"""The picture of the GPUs in a document shows each of them by what it writes."""

from __future__ import annotations

import base64
import io
import re
from typing import Any

import numpy as np
import pytest
from PIL import Image

from sizing.present.chart import WIDTH
from sizing.present.gpu_grid import gpu_picture
from sizing.scenario import REFERENCE_SCENARIO
from tests.sizing.present.test_gpu_grid import DENSE, gridded

ONE_KIND = DENSE | {"parallelism": {"tensor": 2, "data": 40_000}}


def pixels(document: dict[str, Any]) -> np.ndarray[Any, Any]:
    """Red, green and blue of each pixel of the image that the drawing holds."""
    drawing = gpu_picture(gridded(document)[0])
    source = re.search(r'href="data:image/png;base64,([^"]+)"', drawing)
    assert source is not None
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(source[1]))).convert("RGB"))


def test_the_squares_of_the_first_replica_alone_are_colored() -> None:
    shown = pixels(REFERENCE_SCENARIO)
    is_colored = shown[:, :, 0] != shown[:, :, 2]
    is_grey = ~is_colored & (shown[:, :, 0] < 255)
    assert is_colored.sum() * 5 == is_grey.sum()
    rows = np.flatnonzero(is_colored.any(axis=1))
    assert rows.max() < np.flatnonzero(is_grey.any(axis=1)).min()


def test_the_strongest_color_is_of_what_writes_most() -> None:
    grid, _ = gridded(REFERENCE_SCENARIO)
    shown = pixels(REFERENCE_SCENARIO)
    first = next(kind for _, kind in grid.stages[0].runs)
    assert grid.kinds[first].num_bytes == max(kind.num_bytes for kind in grid.kinds)
    red = shown[:, :, 0]
    line = red[np.flatnonzero((red < 200).any(axis=1))[0]]
    assert line[line < 255][0] == red.min()


@pytest.mark.parametrize("document", [REFERENCE_SCENARIO, ONE_KIND])
def test_it_fits_the_text(document: dict[str, Any]) -> None:
    assert pixels(document).shape[1] <= 2 * WIDTH
