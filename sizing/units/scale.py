"""Prefixes and larger units: the only place with 1000 and 1024.

GB is 10^9 bytes, GiB is 2^30 (IEC 80000-13); Gb and Gbit are bits.
"""

from __future__ import annotations

from typing import NamedTuple

SECONDS_PER_HOUR = 3_600
SECONDS_PER_DAY = 24 * SECONDS_PER_HOUR
SECONDS_PER_YEAR = 31_557_600
"""A Julian year, 365.25 days: leap years spread evenly (IAU)."""
BYTES_PER_GIGABYTE = 1e9
BYTES_PER_TERABYTE = 1e12
BYTES_PER_GIBIBYTE = 2**30
BITS_PER_BYTE = 8
"""A byte is an octet (IEC 80000-13). Drivers, networks and codes count bits."""


class Prefixes(NamedTuple):
    """The prefixes of a unit, each `base` times the one before."""

    base: int
    names: tuple[str, ...]

    @property
    def factors(self) -> dict[str, int]:
        """Factor of each prefix.

        >>> DECIMAL.factors["G"], BINARY.factors["Gi"]
        (1000000000, 1073741824)
        """
        return {name: self.base**power for power, name in enumerate(self.names)}


DECIMAL = Prefixes(1000, ("", "k", "M", "G", "T", "P", "E"))
BINARY = Prefixes(1024, ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"))
