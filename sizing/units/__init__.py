"""Bytes, rates and durations: parse what people write, print what they can compare.

Base units everywhere else: bytes, seconds, bytes per second, fractions of 1.
"""

from sizing.units.inputs import MAX_BYTES, MAX_SECONDS, ByteCount, BytesPerSecond, Fraction, PositiveSeconds, Seconds
from sizing.units.reading import (
    parse_bytes,
    parse_bytes_per_second,
    parse_count,
    parse_fraction,
    parse_seconds,
    rate_as_read,
)
from sizing.units.scale import (
    BITS_PER_BYTE,
    BYTES_PER_GIBIBYTE,
    BYTES_PER_GIGABYTE,
    BYTES_PER_TERABYTE,
    SECONDS_PER_DAY,
    SECONDS_PER_HOUR,
    SECONDS_PER_YEAR,
)
from sizing.units.writing import (
    binary_bytes_text,
    bit_rate_text,
    bytes_text,
    count_text,
    counted_text,
    decimal_bytes_text,
    figure_text,
    min_count_text,
    min_rate_text,
    min_seconds_text,
    percent_text,
    rate_text,
    seconds_text,
    share_of_interval_text,
    short_seconds_text,
)

__all__ = [
    "BITS_PER_BYTE",
    "BYTES_PER_GIBIBYTE",
    "BYTES_PER_GIGABYTE",
    "BYTES_PER_TERABYTE",
    "MAX_BYTES",
    "MAX_SECONDS",
    "SECONDS_PER_DAY",
    "SECONDS_PER_HOUR",
    "SECONDS_PER_YEAR",
    "ByteCount",
    "BytesPerSecond",
    "Fraction",
    "PositiveSeconds",
    "Seconds",
    "binary_bytes_text",
    "bit_rate_text",
    "bytes_text",
    "count_text",
    "counted_text",
    "decimal_bytes_text",
    "figure_text",
    "min_count_text",
    "min_rate_text",
    "min_seconds_text",
    "parse_bytes",
    "parse_bytes_per_second",
    "parse_count",
    "parse_fraction",
    "parse_seconds",
    "percent_text",
    "rate_as_read",
    "rate_text",
    "seconds_text",
    "share_of_interval_text",
    "short_seconds_text",
]
