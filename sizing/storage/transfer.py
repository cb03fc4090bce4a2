"""The transfer model: t = serial steps + the slowest of the shared resources.

Every function takes numbers or numpy arrays that broadcast together, so that one answer and a sweep run
the same line.
"""

from __future__ import annotations

import functools

import numpy as np
import numpy.typing as npt

Numbers = float | npt.NDArray[np.float64]


def shared_seconds(total_bytes: Numbers, *, num_units: Numbers, unit_bytes_per_second: Numbers) -> Numbers:
    """Time in which n equal units, each at rate r, move B bytes together: t = B / (n r).

    Args: `total_bytes` B; `num_units` n, the writers, the nodes, or 1 for a whole file system;
    `unit_bytes_per_second` r of one unit. Returns seconds.
    Source: roofline of independent units; one term of T = a + l f + max(B/(N t r_thread), B/(N r_node),
    B/R_fs). Assumes that the bytes are spread evenly over the units.

    >>> float(shared_seconds(13.8e12, num_units=64, unit_bytes_per_second=8e9))
    26.953125
    """
    return np.divide(total_bytes, np.multiply(num_units, unit_bytes_per_second))


def transfer_seconds(serial_seconds: Numbers, *shared: Numbers) -> Numbers:
    """Time of a save or a restore: t = serial + max over shared resources of bytes / rate.

    Args: `serial_seconds` of the steps that nothing overlaps; `shared`, one time per shared resource.
    Source: as `shared_seconds`; assumes that the slowest resource hides the others completely.

    >>> float(transfer_seconds(2.0, 10.0, 26.5))
    28.5
    """
    slowest: Numbers = functools.reduce(np.maximum, shared)
    return serial_seconds + slowest


def files_seconds(num_files: Numbers, *, files_per_second: Numbers) -> Numbers:
    """Time to create or open files at the file system's metadata rate: t = f / l.

    Source: definition of the rate; assumes that metadata comes before data, not beside it.

    >>> float(files_seconds(512, files_per_second=1024))
    0.5
    """
    return np.divide(num_files, files_per_second)
