"""Predicted against published: every figure in `published/` that the calculation reproduces, and what kind it is."""

from sizing.validation.comparison import Comparison
from sizing.validation.validation_report import ValidationReport, validation

__all__ = ["Comparison", "ValidationReport", "validation"]
