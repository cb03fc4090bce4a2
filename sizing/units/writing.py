"""Format quantities for people: a few digits, and the unit that fits or that the name of a figure ends with."""

from __future__ import annotations

import itertools
import math
from typing import Any

from sizing.units.scale import BINARY, DECIMAL, SECONDS_PER_DAY, SECONDS_PER_HOUR, SECONDS_PER_YEAR, Prefixes

_DIGITS = 4
"""Digits of sizes and rates: more than any measurement has."""
_MIN_MILLISECONDS_SHOWN = 0.1
_MAX_SECONDS_SHOWN = 300
_MAX_MINUTES_SHOWN = 120
_MAX_HOURS_SHOWN = 72
_MAX_TENTHS_OF_DAYS_SHOWN = 100
"""Max durations that are written in each unit. From 100 days on, a tenth of a day says nothing."""
_STEPS = (
    (1.0, 1e-4),
    (_MAX_SECONDS_SHOWN, 0.01),
    (_MAX_MINUTES_SHOWN * 60, 6.0),
    (_MAX_HOURS_SHOWN * SECONDS_PER_HOUR, 36.0),
    (_MAX_TENTHS_OF_DAYS_SHOWN * SECONDS_PER_DAY, 0.1 * SECONDS_PER_DAY),
    (math.inf, SECONDS_PER_DAY),
)
"""Rounding steps of durations, each with the number of seconds up to which it is used."""
_MAX_TYPED = 100
"""Number from which people take the next longer unit: 2 h for 120 min."""
_DIGITS_TYPED = 11
"""Max digits of a number that somebody typed, or a whole multiple of it. Computed numbers have about 16."""
_EXACT = 1e-13
"""Max relative difference of numbers that are equal but for float errors."""
_COUNT_UNITS = ("", "k", "M", "B", "T")
_MIN_PERCENT = 1e-4
"""Smallest share in percent that is written: digits of a smaller one say nothing."""


def decimal_bytes_text(num_bytes: float) -> str:
    """Format bytes in powers of 1000.

    >>> decimal_bytes_text(14112542617600), decimal_bytes_text(999)
    ('14.11 TB', '999 B')
    """
    return _scaled(num_bytes, DECIMAL) + "B"


def min_bytes_text(num_bytes: float) -> str:
    """Format min bytes, rounded up: who buys what is written has enough.

    >>> min_bytes_text(4.8502e12), min_bytes_text(100e9)
    ('4.851 TB', '100.0 GB')
    """
    return decimal_bytes_text(_up_to(num_bytes, 10.0 ** (math.floor(math.log10(num_bytes)) - _DIGITS + 1)))


def binary_bytes_text(num_bytes: float) -> str:
    """Format bytes in powers of 1024.

    >>> binary_bytes_text(14112542617600)
    '12.84 TiB'
    """
    return _scaled(num_bytes, BINARY) + "B"


def bytes_text(num_bytes: float) -> str:
    """Format bytes in powers of 1000 and of 1024, where it costs money to confuse the two.

    >>> bytes_text(13_800_000_000_000)
    '13.80 TB (12.55 TiB)'
    """
    return f"{decimal_bytes_text(num_bytes)} ({binary_bytes_text(num_bytes)})"


def rate_text(bytes_per_second: float) -> str:
    """Format a rate in powers of 1000 per second.

    >>> rate_text(4.266e9), rate_text(999.96e6), rate_text(0.019)
    ('4.266 GB/s', '1.000 GB/s', 'below 1 B/s')
    """
    return f"{_scaled(bytes_per_second, DECIMAL)}B/s"


def min_rate_text(bytes_per_second: float) -> str:
    """Format a min rate, rounded up: who buys the rate that is written has enough. The least rate is 1 B/s.

    >>> min_rate_text(175.4512e9), min_rate_text(100e9), min_rate_text(0.0)
    ('175.5 GB/s', '100.0 GB/s', '1 B/s')
    """
    return f"{min_bytes_text(max(bytes_per_second, 1.0))}/s"


def min_seconds_text(seconds: float) -> str:
    """Format a min duration, rounded up in the unit in which it is written.

    One of whole milliseconds is written exactly: a whole multiple of a tier's interval must stay one.

    >>> min_seconds_text(2290.2345678901), min_seconds_text(60.0), min_seconds_text(10 * 109.3)
    ('38.2 min', '60.00 s', '1093 s')
    >>> min_seconds_text(67.796894057), min_seconds_text(12 * 7.298)
    ('67.80 s', '87.576 s')
    """
    rounded = _up_to(seconds, next(step for end, step in _STEPS if seconds < end))
    is_off = not math.isclose(rounded, seconds, rel_tol=_EXACT)
    is_short = math.isclose(float(short := exact_number_text(round(seconds, 3))), seconds, rel_tol=_EXACT)
    return f"{short} s" if is_off and is_short else seconds_text(rounded)


def max_seconds_text(seconds: float) -> str:
    """Format a max duration, rounded down in the unit in which it is written.

    >>> max_seconds_text(2290.2345678901), max_seconds_text(60.0), max_seconds_text(21_023.9)
    ('38.1 min', '60.00 s', '5.83 h')
    """
    step = next(step for end, step in _STEPS if seconds < end)
    return seconds_text(math.floor(seconds / step * (1 + 1e-12)) * step)


def exact_number_text(number: float) -> str:
    """Format a number with the digits that people type of it, and without the last ones, which are float errors.

    >>> exact_number_text(153 * 95.22), exact_number_text(1848941.0)
    ('14568.66', '1848941')
    """
    return f"{number:.{_DIGITS_TYPED}g}"


def bit_rate_text(bytes_per_second: float) -> str:
    """Format a line rate in gigabits per second, as network adapters are named.

    >>> bit_rate_text(50e9), bit_rate_text(1.25e9)
    ('400 Gb/s', '10 Gb/s')
    """
    return f"{bytes_per_second * 8 / 1e9:g} Gb/s"


def seconds_text(seconds: float) -> str:
    """Format a duration in the unit that people would use.

    >>> seconds_text(50.549), seconds_text(1887.6), seconds_text(34615), seconds_text(0.012), seconds_text(0)
    ('50.55 s', '31.5 min', '9.62 h', '12.0 ms', '0 s')
    >>> seconds_text(0.00692), seconds_text(0.99999), seconds_text(299.999), seconds_text(7199.9)
    ('6.92 ms', '1.00 s', '5.0 min', '2.00 h')
    >>> seconds_text(0.0000487), seconds_text(0.000000279), seconds_text(0.0001)
    ('48.7 µs', '0.279 µs', '0.100 ms')
    >>> seconds_text(54 * 86400), seconds_text(99.97 * 86400), seconds_text(365.25 * 86400)
    ('54.0 days', '100 days', '365 days')
    """
    if 0 < seconds < _MIN_MILLISECONDS_SHOWN / 1000:
        return f"{_milliseconds(seconds * 1e6)} µs"
    if round(seconds, 4) < 1:
        return f"{_milliseconds(seconds * 1000)} ms" if seconds else "0 s"
    if round(seconds, 2) < _MAX_SECONDS_SHOWN:
        return f"{seconds:.2f} s"
    if round(seconds / 60, 1) < _MAX_MINUTES_SHOWN:
        return f"{seconds / 60:.1f} min"
    if round(seconds / SECONDS_PER_HOUR, 2) < _MAX_HOURS_SHOWN:
        return f"{seconds / SECONDS_PER_HOUR:.2f} h"
    days = seconds / SECONDS_PER_DAY
    return f"{days:.1f} days" if round(days, 1) < _MAX_TENTHS_OF_DAYS_SHOWN else f"{days:,.0f} days"


def period_text(seconds: float) -> str:
    """Format a period over which costs are counted: in years or days where these are whole, as budgets are.

    >>> period_text(3 * 365.25 * 86400), period_text(365 * 86400), period_text(90 * 86400), period_text(1.5 * 86400)
    ('3 years', '1 year', '90 days', '36.00 h')
    """
    years, days = round(seconds / SECONDS_PER_YEAR), round(seconds / SECONDS_PER_DAY)
    if years and abs(seconds - years * SECONDS_PER_YEAR) <= years * SECONDS_PER_DAY:
        return counted_text(years, "year")
    return counted_text(days, "day") if days and seconds == days * SECONDS_PER_DAY else seconds_text(seconds)


def short_seconds_text(seconds: float, *, within: float) -> str:
    """Format a duration as people type it, in the fewest digits that are off by at most the fraction `within`.

    >>> [short_seconds_text(seconds, within=0.02) for seconds in (0.00123, 63, 1850, 14_300, 604_800, 1e9)]
    ['0.00123s', '63s', '31min', '4h', '7d', '11600d']
    """
    units = {"d": SECONDS_PER_DAY, "h": SECONDS_PER_HOUR, "min": 60, "s": 1}
    rounded = (
        (float(f"{seconds / unit:.{digits}g}"), name)
        for digits in itertools.count(1)
        for name, unit in units.items()
        if (name == "s" or unit <= seconds * (1 + within)) and (name == "d" or seconds < _MAX_TYPED * unit)
    )
    return next(
        f"{number:g}{name}" for number, name in rounded if math.isclose(number * units[name], seconds, rel_tol=within)
    )


def _milliseconds(number: float) -> str:
    """Format a number of milliseconds or microseconds with one decimal; below 10, with three digits."""
    return f"{number:.1f}" if round(number, 1) >= 10 else f"{number:#.3g}"


def percent_text(fraction: float) -> str:
    """Format a fraction of 1 as percent: three significant digits, or four where three would round it up to 100 %.

    >>> percent_text(0.00351), percent_text(0.1964), percent_text(0.9999), percent_text(1.0), percent_text(1e-9)
    ('0.351 %', '19.6 %', '99.99 %', '100 %', 'below 0.0001 %')
    >>> percent_text(-0.0351), percent_text(-1.05), percent_text(-1e-9)
    ('-3.51 %', '-105 %', 'above -0.0001 %')
    """
    percent = fraction * 100
    if 0 < abs(percent) < _MIN_PERCENT:
        return f"below {_MIN_PERCENT:.4f} %" if percent > 0 else f"above -{_MIN_PERCENT:.4f} %"
    if percent < 0:
        return f"-{percent_text(-fraction)}"
    if percent < 99.95:
        return f"{percent:#.3g} %"
    return f"{percent:.2f} %" if percent < 99.995 else f"{percent:,.0f} %"


def share_of_interval_text(fraction: float) -> str:
    """Format the share of the interval that saves take: percent, or a multiple if longer than the interval.

    >>> share_of_interval_text(0.0351), share_of_interval_text(2.74), share_of_interval_text(327.4)
    ('3.51 %', '2.74 x the interval', '327 x the interval')
    """
    return percent_text(fraction) if fraction <= 1 else f"{fraction:,.3g} x the interval"


def change_text(before: str, after: str, *, of: str = "") -> str:
    """Write what two figures, as text, tell of a change; `of` says of what they are parts.

    >>> change_text("19.4 %", "4.46 %", of=" of the time"), change_text("13.1 min", "13.1 min")
    ('19.4 % to 4.46 % of the time', 'unchanged, 13.1 min')
    """
    return f"unchanged, {after}{of}" if before == after else f"{before} to {after}{of}"


def counted_text(number: float, noun: str) -> str:
    """Format a number with the noun that it counts.

    >>> counted_text(1, "GPU"), counted_text(3072, "GPU"), counted_text(11.5, "microbatch"), counted_text(3, "guess")
    ('1 GPU', '3,072 GPUs', '11.5 microbatches', '3 guesses')
    """
    text = f"{number:,}" if isinstance(number, int) else f"{number:,.3g}"
    if number == 1:
        return f"{text} {noun}"
    return f"{text} {noun}{'es' if noun.endswith(('ch', 's')) else 's'}"


def count_text(count: int) -> str:
    """Format a count to four digits, as `parse_count` reads it.

    >>> count_text(47_000_000_000), count_text(20_833_333_334), count_text(999_990_000), count_text(7)
    ('47B', '20.83B', '1B', '7')
    """
    power = 0
    value = float(f"{count:.{_DIGITS}g}")
    while value >= DECIMAL.base and power < len(_COUNT_UNITS) - 1:
        value, power = value / DECIMAL.base, power + 1
    return f"{value:.{_DIGITS}g}{_COUNT_UNITS[power]}"


def min_count_text(count: int) -> str:
    """Format a min count, rounded up to the digits in which it is written.

    >>> min_count_text(20_833_333_334), min_count_text(47_000_000_000)
    ('20.84B', '47B')
    """
    step = 10 ** max(0, len(str(count)) - _DIGITS)
    return count_text(-(-count // step) * step)


def _scaled(value: float, prefixes: Prefixes) -> str:
    """Format a number with its prefix, so that it stays below the base after rounding too."""
    if 0 < value < 1:
        return "below 1 "
    power = 0
    while float(text := _rounded(value, is_whole=power == 0)) >= prefixes.base and power < len(prefixes.names) - 1:
        value /= prefixes.base
        power += 1
    return f"{text} {prefixes.names[power]}"


def _rounded(value: float, *, is_whole: bool) -> str:
    if is_whole and float(value).is_integer():
        return f"{value:.0f}"
    shown = float(f"{value:.{_DIGITS}g}")
    return f"{value:.{max(0, _DIGITS - len(str(int(abs(shown)))))}f}"


def _up_to(value: float, step: float) -> float:
    """Round up to a multiple of a step; keep a value that is a multiple except for a float error."""
    return math.ceil(value / step * (1 - 1e-12)) * step


_TEXTS = (
    ("bytes_per_second", rate_text),
    ("bytes_per_day", lambda value: f"{decimal_bytes_text(value)} a day"),
    ("bytes", decimal_bytes_text),
    ("files_per_second", "{:,.4g} files/s".format),
    ("seconds_per_rank", seconds_text),
    ("seconds", seconds_text),
    ("overhead.fraction", share_of_interval_text),
    ("fraction", percent_text),
)


def figure_text(name: str, value: Any) -> str:
    """Format a value with the unit that its name ends with.

    A required rate is rounded up, as `min_rate_text` does.

    >>> figure_text("write.seconds", 50.549), figure_text("write.seconds", None), figure_text("layout.num_gpus", 3072)
    ('50.55 s', 'unknown', '3,072')
    >>> figure_text("write.bytes_per_second", 175.43e9), figure_text("required.write_bytes_per_second", 175.43e9)
    ('175.4 GB/s', '175.5 GB/s')
    >>> figure_text("cost.total", 5252370.4), figure_text("cost.per_lost_gpu_hour", 2.5)
    ('5,252,370', '2.5')
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
    if text is rate_text and value > 0 and name.startswith("required."):
        text = min_rate_text
    if text is None or value < 0:
        return f"{value:,}" if isinstance(value, int) else f"{value:,.0f}" if value >= 1e6 else f"{value:,.6g}"
    return text(value)
