"""Predicted against published: every fact in `published/` that the calculation reproduces."""

from sizing.validation.comparison import Comparison
from sizing.validation.facts import comparisons

__all__ = ["Comparison", "comparisons"]
