"""Results as Vega-Lite: plain dicts, one definition for page, report and command lines."""

from sizing.charts.chart import Spec, chart

__all__ = ["Spec", "chart"]
