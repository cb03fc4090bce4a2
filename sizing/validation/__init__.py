"""Validation: every figure in `published/` that the calculation predicts, and what kind of figure it is."""

from sizing.validation.comparison import Comparison
from sizing.validation.validation_report import ValidationReport, validation

__all__ = ["Comparison", "ValidationReport", "validation"]
