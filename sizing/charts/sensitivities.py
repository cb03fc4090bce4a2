"""What a SensitivityReport shows as a chart: a tornado, the headline at either end of each input."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sizing.charts.chart import Chart, Spec, chart, quantity, series
from sizing.charts.theme import COLORS
from sizing.explore.sensitivities.sensitivity_report import InputSwing, SensitivityReport
from sizing.guesses.figures import HEADLINES
from sizing.guesses.guess import Guess, Headline
from sizing.report import SizingReport
from sizing.summary.figure_text import figure_text
from sizing.summary.guesses import end_texts, input_words

MAX_BARS = 20
"""As many as a page holds at the height of a bar; the others move the headline less."""

_BAR_STEP = {"step": 26}
"""Pixels per bar that has a text at each end."""
_SIDES = ("lower end", "upper end")


def sensitivity_chart(report: SensitivityReport) -> Chart:
    """A bar for each given input, from the headline at its lower end to that at its upper end."""
    return _tornado("Inputs by how far they move", report.headline, report.inputs)


def guesses_chart(report: SizingReport) -> Chart:
    """The same of what nobody stated."""
    return _tornado("Guesses by how far they move", report.headline, report.guesses)


def _tornado(title: str, headline: Headline, swings: Sequence[InputSwing | Guess]) -> Chart:
    shown = swings[:MAX_BARS]
    words, unit = HEADLINES[headline.figure], headline.figure.rsplit("_", 1)[-1]
    names = input_words([swing.field for swing in shown])
    bars = [row for name, swing in zip(names, shown, strict=True) for row in _rows(name, swing, headline, unit)]
    y = {"field": "input", "type": "nominal", "title": None, "sort": names, "axis": {"labelLimit": 260}}
    x = quantity(f"end_{unit}", words) | {"scale": {"zero": False, "padding": 70}}
    text = {"type": "text", "baseline": "middle"}
    labels = {"y": y, "x": x, "text": {"field": "label"}}
    return chart(
        f"{title} the {words}",
        subtitle=f"each varied alone, all others as they are: {figure_text(headline.figure, headline.value)}",
        rows=bars,
        height=_BAR_STEP,
        layer=[
            {
                "mark": "bar",
                "encoding": {
                    "y": y,
                    "x": x,
                    "x2": {"field": f"standing_{unit}"},
                    "color": series("side", "at its", _SIDES)["color"],
                },
            },
            _labels(labels, text | {"align": "right", "dx": -4}, "datum.is_left"),
            _labels(labels, text | {"align": "left", "dx": 4}, "!datum.is_left"),
            {
                "data": {"values": [{f"standing_{unit}": headline.value}]},
                "mark": {"type": "rule", "strokeWidth": 1.5, "color": COLORS[4]},
                "encoding": {"x": {"field": f"standing_{unit}", "type": "quantitative", "title": words}},
            },
        ],
    )


def _labels(encoding: Spec, mark: Spec, test: str) -> Spec:
    return {"transform": [{"filter": test}], "mark": mark, "encoding": encoding}


def _rows(name: str, swing: InputSwing | Guess, headline: Headline, unit: str) -> Iterator[dict[str, object]]:
    """Both ends of a bar; where they move the headline to one side, the nearer one has its label inside the other."""
    ends = (swing.headline_low, swing.headline_high)
    for side, end, other, label in zip(_SIDES, ends, reversed(ends), end_texts(swing), strict=True):
        yield {
            "input": name,
            "side": side,
            f"end_{unit}": end,
            f"standing_{unit}": headline.value,
            "label": label,
            "is_left": end < other or (end == other and side == _SIDES[0]),
        }
