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


def file_latency_seconds(num_files: Numbers, *, num_streams: Numbers, seconds_per_file: Numbers) -> Numbers:
    """Time that each stream spends on its files' own latency: t = max(1, f / n) l.

    Args: `num_files` f over `num_streams` n, of which each opens at least one; `seconds_per_file` l to create,
    sync and close (or open) one file.
    Source: definition; the term l x files per thread of T = a + l f + max(...). Assumes that a stream works on one
    file after the other.

    >>> float(file_latency_seconds(1024, num_streams=512, seconds_per_file=0.01))
    0.02
    """
    return np.multiply(np.maximum(1.0, np.divide(num_files, num_streams)), seconds_per_file)


def planning_seconds(num_ranks: Numbers, *, seconds_per_rank: Numbers) -> Numbers:
    """Time to gather the plans of all ranks on one and to deal out the global plan: t = n p.

    Source: PyTorch, torch.distributed.checkpoint: every rank's plan goes to the coordinator, which merges them and
    scatters the result; assumes that its work grows with the number of plans.

    >>> float(planning_seconds(1024, seconds_per_rank=0.002))
    2.048
    """
    return np.multiply(num_ranks, seconds_per_rank)
