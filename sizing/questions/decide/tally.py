"""Figures of many draws as counts: they add up, whatever was counted where, and quantiles follow from them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from pydantic import ConfigDict, Field

from sizing.storage.transfer import Floats
from sizing.strict_model import StrictModel

_BITS_LEFT_OUT = 36
"""Of the 52 bits of a number's fraction. Figures that agree in the other 16 are counted as the least of them, which is
below each by 1.6 in 100,000 at most; between a figure and its double there are 65,536 counts, however many draws."""


class FigureCounts(StrictModel):
    """How often each of some figures was drawn, as arrays of little-endian numbers of 64 bits, in base64."""

    model_config = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")

    figures: bytes = Field(description="Figures in ascending order: of those that are almost equal, the least.")
    numbers: bytes = Field(description="How often each of them was drawn.")

    @classmethod
    def of(cls, drawn: Floats) -> FigureCounts | None:
        """Count the figures of draws; None where one is not known."""
        return cls._add_up(np.sort(drawn), np.ones(len(drawn), dtype=np.int64)) if np.all(np.isfinite(drawn)) else None

    def plus(self, others: FigureCounts) -> FigureCounts:
        """Add the counts of other draws to these."""
        (one, num_of_one), (another, num_of_another) = self._arrays, others._arrays
        figures, numbers = np.concatenate([one, another]), np.concatenate([num_of_one, num_of_another])
        order = np.argsort(figures)
        return self._add_up(figures[order], numbers[order])

    def quantiles(self, fractions: Sequence[float]) -> list[float]:
        """Quantiles of all draws, straight between two neighbours, as numpy's are by default."""
        figures, numbers = self._arrays
        num_up_to = np.cumsum(numbers)
        below, part = np.divmod(np.array(fractions) * (num_up_to[-1] - 1), 1)
        places = (below, np.ceil(below + part))
        lower, upper = (figures[np.searchsorted(num_up_to, place, side="right")] for place in places)
        quantiles: list[float] = (lower + part * (upper - lower)).tolist()
        return quantiles

    @property
    def _arrays(self) -> tuple[Floats, npt.NDArray[np.int64]]:
        return np.frombuffer(self.figures, dtype="<f8"), np.frombuffer(self.numbers, dtype="<i8")

    @classmethod
    def _add_up(cls, figures: Floats, numbers: npt.NDArray[np.int64]) -> FigureCounts:
        """Add up the numbers of figures that are almost equal; the figures are in ascending order."""
        kept_bits = figures.view(np.int64) >> _BITS_LEFT_OUT
        first = np.flatnonzero(np.diff(kept_bits, prepend=~kept_bits[0]))
        sums = np.add.reduceat(numbers, first)
        return cls(figures=figures[first].astype("<f8").tobytes(), numbers=sums.astype("<i8").tobytes())
