"""Figures with the unit that their name ends with."""

from __future__ import annotations

from typing import Any

from sizing.units.writing import decimal_bytes_text, percent_text, rate_text, seconds_text, share_of_interval_text

_TEXTS = (
    ("bytes_per_second", rate_text),
    ("bytes_per_day", lambda value: f"{decimal_bytes_text(value)} a day"),
    ("bytes", decimal_bytes_text),
    ("seconds_per_rank", seconds_text),
    ("seconds", seconds_text),
    ("overhead.fraction", share_of_interval_text),
    ("fraction", percent_text),
)


def figure_text(name: str, value: Any) -> str:
    """A value with the unit that its name ends with.

    >>> figure_text("write.seconds", 50.549), figure_text("write.seconds", None), figure_text("layout.num_gpus", 3072)
    ('50.55 s', 'unknown', '3,072')
    """
    if value is None:
        return "unknown"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ", ".join(figure_text(name, each) for each in value) or "none"
    if not isinstance(value, int | float):
        return str(value)
    text = next((text for unit, text in _TEXTS if name.endswith(unit)), None)
    if text is None or value < 0:
        return f"{value:,}" if isinstance(value, int) else f"{value:,.6g}"
    return text(value)
