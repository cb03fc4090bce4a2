"""Figures by their dotted names, as people read them."""

from __future__ import annotations

from typing import Any

from sizing.units import decimal_bytes_text, percent_text, rate_text, seconds_text

_TEXTS = (
    ("bytes_per_second", rate_text),
    ("bytes_per_day", lambda value: f"{decimal_bytes_text(value)} a day"),
    ("bytes", decimal_bytes_text),
    ("seconds_per_rank", seconds_text),
    ("seconds", seconds_text),
    ("fraction", percent_text),
)
_WHOLE = {"bytes_per_second": "bandwidth", "seconds": "time", "fraction": "share"}
_SHORT = (
    ("_bytes_per_second", " bandwidth"),
    ("_bytes_per_day", ""),
    ("_bytes", ""),
    ("_seconds_per_rank", " per rank"),
    ("_seconds", ""),
    ("_fraction", ""),
)
_ABBREVIATIONS = {name.lower(): name for name in ("MTBF", "GPU", "GPUs", "NICs", "EMA")}
_BETWEEN = ("profile",)
"""Parts of a path that say nothing to a reader."""


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


def figure_words(name: str) -> str:
    """The last part of a dotted name in words, without its unit.

    >>> figure_words("storage.profile.write_bytes_per_second"), figure_words("interval.optimal_period_seconds")
    ('write bandwidth', 'optimal period')
    >>> figure_words("storage.profile.planning_seconds_per_rank")
    'planning per rank'
    """
    last = name.rsplit(".", 1)[-1]
    if last in _WHOLE:
        return _WHOLE[last]
    for unit, word in _SHORT:
        if last.endswith(unit):
            last = last.removesuffix(unit) + word
            break
    words = last.replace("num_", "").split("_")
    return " ".join(_ABBREVIATIONS.get(word, word) for word in words)


def figure_name(name: str) -> str:
    """A dotted name as the label of a row: its block, and its last part in words.

    >>> figure_name("storage.profile.write_bytes_per_second"), figure_name("capacity.capacity_bytes")
    ('storage: write bandwidth', 'capacity')
    """
    *blocks, last = name.split(".")
    block = " ".join(block.replace("_", " ") for block in blocks if block not in _BETWEEN)
    words = figure_words(last)
    return f"{block}: {words}" if block not in ("", words) else words
