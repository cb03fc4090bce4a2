"""A prediction beside its published truth."""

from __future__ import annotations

import math
from dataclasses import dataclass

EXACT = 0.0
"""For what is counted: not even the last digit may differ."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """A prediction beside its published truth. `miss` explains why the two are known to differ.

    Where too little is published for a prediction it is None, and `unpublished` says what is missing.
    """

    fact: str
    predicted: float | None
    truth: float
    tolerance: float
    source: str
    miss: str = ""
    unpublished: str = ""

    @property
    def ratio(self) -> float | None:
        """Predicted over published."""
        return None if self.predicted is None else self.predicted / self.truth

    @property
    def agrees(self) -> bool:
        """Whether the two are within the tolerance, relative to the truth."""
        return self.predicted is not None and math.isclose(self.predicted, self.truth, rel_tol=self.tolerance)

    @property
    def as_expected(self) -> bool:
        """Whether it agrees, differs where an explained miss is known, or has no prediction for a stated reason."""
        if self.predicted is None:
            return bool(self.unpublished)
        return self.agrees != bool(self.miss)
