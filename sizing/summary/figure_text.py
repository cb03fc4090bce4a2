"""Figures by their dotted names, as people read them."""

from __future__ import annotations

from typing import Any

from sizing.units import decimal_bytes_text, percent_text, rate_text, seconds_text

_TEXTS = (
    ("bytes_per_second", rate_text),
    ("bytes_per_day", lambda value: f"{decimal_bytes_text(value)} a day"),
    ("bytes", decimal_bytes_text),
    ("seconds", seconds_text),
    ("fraction", percent_text),
)
_WHOLE = {"bytes_per_second": "rate", "seconds": "time", "fraction": "share"}
_SHORT = (("_bytes_per_second", " rate"), ("_bytes_per_day", ""), ("_bytes", ""), ("_seconds", ""), ("_fraction", ""))


def figure_text(name: str, value: Any) -> str:
    """A value with the unit that its name ends with.

    >>> figure_text("write.seconds", 50.549), figure_text("write.seconds", None), figure_text("layout.num_gpus", 3072)
    ('50.55 s', 'unknown', '3,072')
    """
    if value is None:
        return "unknown"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if not isinstance(value, int | float):
        return str(value)
    text = next((text for unit, text in _TEXTS if name.endswith(unit)), None)
    if text is None or value < 0:
        return f"{value:,}" if isinstance(value, int) else f"{value:,.6g}"
    return text(value)


def figure_words(name: str) -> str:
    """The last part of a dotted name in words, without its unit.

    >>> figure_words("storage.profile.write_bytes_per_second"), figure_words("interval.optimal_period_seconds")
    ('write rate', 'optimal period')
    """
    last = name.rsplit(".", 1)[-1]
    if last in _WHOLE:
        return _WHOLE[last]
    for unit, word in _SHORT:
        if last.endswith(unit):
            last = last.removesuffix(unit) + word
            break
    return last.replace("num_", "").replace("_", " ")
