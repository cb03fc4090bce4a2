"""A tornado chart: the headline at both ends of the range of each input, the largest swing first."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from sizing.guesses.figures import headline_words
from sizing.guesses.guess import Guess, Headline, InputSwing
from sizing.present.chart import COLORS, Chart, chart, quantity, series
from sizing.present.guesses import end_texts, input_words
from sizing.units import figure_text

MAX_BARS = 20
"""Max bars, as many as a page holds at the height of a bar; the others move the headline less."""

_LABEL_LIMIT = {"expr": "width / 3"}
"""Pixels of a label, so that on a phone it does not lie on the names beside the axis."""
_BAR_STEP = {"step": 26}
"""Pixels per bar that has a text at each end."""
_LABEL_PIXELS = 70
"""Beside the longest bars, for the texts at their ends."""
_SIDES = ("lower end", "upper end")


def tornado(title: str, headline: Headline, swings: Sequence[InputSwing | Guess]) -> Chart:
    """Draw a bar for each swing of the headline, from its value at the lower end to that at the upper end."""
    words, unit = headline_words(headline), re.split(r"[._]", headline.figure)[-1]
    shown = swings[:MAX_BARS]
    names = input_words([swing.field for swing in shown])
    ends = [end for name, swing in zip(names, shown, strict=True) for end in _list_ends(name, swing)]
    y = {"field": "input", "type": "nominal", "title": None, "sort": names}
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


def _list_ends(name: str, swing: InputSwing | Guess) -> Iterator[_End]:
    low, high = end_texts(swing)
    is_low_left = swing.headline_low <= swing.headline_high
    yield _End(name, _SIDES[0], swing.headline_low, low, is_low_left)
    yield _End(name, _SIDES[1], swing.headline_high, high, not is_low_left)
