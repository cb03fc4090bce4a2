"""What a SensitivityReport shows as a chart: a tornado, the headline at either end of each input."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from sizing.charts.chart import Chart, chart, quantity, series
from sizing.charts.theme import COLORS
from sizing.explore.sensitivities.sensitivity_report import SensitivityReport
from sizing.guesses.figures import headline_words
from sizing.guesses.guess import Guess, Headline, InputSwing
from sizing.report import SizingReport
from sizing.summary.guesses import end_texts, input_words, visible_guesses
from sizing.units import figure_text

MAX_BARS = 20
"""As many as a page holds at the height of a bar; the others move the headline less."""

_LABEL_LIMIT = {"expr": "width / 3"}
"""Pixels of a label, so that on a phone it does not lie on the names beside the axis."""
_BAR_STEP = {"step": 26}
"""Pixels per bar that has a text at each end."""
_LABEL_PIXELS = 70
"""Beside the longest bars, for the texts at their ends."""
_SIDES = ("lower end", "upper end")


def sensitivity_chart(report: SensitivityReport) -> Chart:
    """A bar for each given input, from the headline at its lower end to that at its upper end."""
    return _tornado("Inputs by how far they move", report.headline, report.inputs)


def guesses_chart(report: SizingReport) -> Chart:
    """The same of what nobody stated, where it shows in the digits of the headline."""
    return _tornado("Guesses by how far they move", report.headline, visible_guesses(report))


def _tornado(title: str, headline: Headline, swings: Sequence[InputSwing | Guess]) -> Chart:
    words, unit = headline_words(headline), re.split(r"[._]", headline.figure)[-1]
    shown = swings[:MAX_BARS]
    names = input_words([swing.field for swing in shown])
    ends = [end for name, swing in zip(names, shown, strict=True) for end in _ends(name, swing)]
    y = {"field": "input", "type": "nominal", "title": None, "sort": names, "axis": {"labelLimit": 260}}
    x = quantity(f"end_{unit}", words) | {"scale": {"zero": False, "padding": _LABEL_PIXELS}}
    standing = {f"standing_{unit}": headline.value}
    return chart(
        f"{title} the {words}",
        subtitle=f"each varied alone, all others as they are: {figure_text(headline.figure, headline.value)}",
        rows=[{"input": end.name, "side": end.side, f"end_{unit}": end.headline} | standing for end in ends],
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
            *(
                {
                    "data": {
                        "values": [
                            {"input": end.name, f"end_{unit}": end.headline, "label": end.text}
                            for end in ends
                            if end.is_left is is_left
                        ]
                    },
                    "mark": {"type": "text", "baseline": "middle", "align": align, "dx": offset, "limit": _LABEL_LIMIT},
                    "encoding": {"y": y, "x": x, "text": {"field": "label"}},
                }
                for is_left, align, offset in ((True, "right", -4), (False, "left", 4))
            ),
            {
                "data": {"values": [standing]},
                "mark": {"type": "rule", "strokeWidth": 1.5, "color": COLORS[4]},
                "encoding": {"x": {"field": f"standing_{unit}", "type": "quantitative", "title": words}},
            },
        ],
    )


class _End(NamedTuple):
    """One end of a bar; its text stands on the side on which the bar ends there."""

    name: str
    side: str
    headline: float
    text: str
    is_left: bool


def _ends(name: str, swing: InputSwing | Guess) -> Iterator[_End]:
    values, (low, high) = (swing.headline_low, swing.headline_high), end_texts(swing)
    is_first_left = values[0] <= values[1]
    yield _End(name, _SIDES[0], values[0], low, is_first_left)
    yield _End(name, _SIDES[1], values[1], high, not is_first_left)
