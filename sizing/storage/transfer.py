"""The transfer model: t = serial steps + the slowest of the shared resources.

Every function takes numbers or numpy arrays that broadcast together, so that one answer and a sweep run
the same line.
"""

from __future__ import annotations

import functools

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Numbers = float | Floats


def as_number(figure: Numbers | None) -> float | None:
    """A figure of one answer, in which no sweep has put an array; None where it is not known.

    Source: definition. No units.

    >>> as_number(np.float64(2.0)), as_number(None)
    (2.0, None)
    """
    return None if figure is None else float(figure)


def shared_seconds(
    total_bytes: Numbers, *, num_units: Numbers, unit_bytes_per_second: Numbers, largest_over_mean: Numbers = 1.0
) -> Numbers:
    """Time in which the last of n units, each at rate r, has moved its part of B bytes: t = k B / (n r).

    Args: `total_bytes` B; `num_units` n, the writers, the nodes, or 1 for a whole file system;
    `unit_bytes_per_second` r of one unit; `largest_over_mean` k, the bytes of the fullest unit over B / n, 1 where
    all move the same. Returns seconds.
    Source: roofline of independent units; one term of T = a + l f + max(B/(N t r_thread), B/(N r_node),
    B/R_fs), with the fullest unit, for which the others wait.

    >>> float(shared_seconds(13.8e12, num_units=64, unit_bytes_per_second=8e9))
    26.953125
    """
    return np.divide(np.multiply(total_bytes, largest_over_mean), np.multiply(num_units, unit_bytes_per_second))


def contended_bytes(
    total_bytes: Numbers,
    *,
    num_streams: Numbers,
    num_nodes: Numbers,
    writer_fraction: Numbers,
    node_fraction: Numbers,
) -> Numbers:
    """Bytes that would take as long without contention: B (1 + a (W - 1) + b (N - 1)).

    Args: `total_bytes` B of `num_streams` W writers on `num_nodes` N nodes; `writer_fraction` a and `node_fraction` b,
    what each further writer and each further node adds to the time of a byte, as fractions of that of one alone.
    Source: Gunther 2007, Guerrilla Capacity Planning, section 4.4, the Universal Scalability Law: C(N) = N / (1 +
    alpha (N - 1) + beta N (N - 1)). Its time of a byte is a unit's (1 - alpha) / N, to which a shared resource's
    alpha (1 + (beta / alpha) (N - 1)) adds. B / (1 + a n) is alpha = 1.

    >>> float(contended_bytes(1e9, num_streams=11, num_nodes=2, writer_fraction=0.02, node_fraction=0.1)) / 1e9
    1.3
    """
    more_streams, more_nodes = np.maximum(np.subtract(num_streams, 1), 0), np.maximum(np.subtract(num_nodes, 1), 0)
    return total_bytes * (1.0 + np.multiply(writer_fraction, more_streams) + np.multiply(node_fraction, more_nodes))


def beyond_cache_bytes(total_bytes: Numbers, *, cache_bytes: Numbers) -> Numbers:
    """Bytes that a write-back cache does not hold back: max(0, B - C).

    Args: `total_bytes` B; `cache_bytes` C.
    Source: definition of a leaky bucket. It drains at rate r while it fills, so a transfer of t seconds cannot end
    before C + r t >= B: t >= (B - C) / r, one more shared resource.

    >>> float(beyond_cache_bytes(120e9, cache_bytes=100e9))
    20000000000.0
    """
    return np.maximum(np.subtract(total_bytes, cache_bytes), 0.0)


def combined_seconds(*shared: Numbers, knee_power: Numbers | None = None) -> Numbers:
    """Time of what all bytes pass through at once: max t_r, or with a soft knee (sum of t_r^p)^(1/p).

    Args: `shared`, one time per shared resource; `knee_power` p: 1 adds the times, none takes the slowest alone.
    Source: p-norm between a sum (every byte waits for each resource in turn) and a maximum (perfect overlap).

    >>> float(combined_seconds(3.0, 4.0)), float(combined_seconds(3.0, 4.0, knee_power=2.0))
    (4.0, 5.0)
    """
    slowest: Numbers = functools.reduce(np.maximum, shared)
    if knee_power is None:
        return slowest
    safe = np.where(np.greater(slowest, 0.0), slowest, 1.0)
    parts = sum((np.power(np.divide(seconds, safe), knee_power) for seconds in shared), start=np.float64(0.0))
    return slowest * np.power(parts, np.divide(1.0, knee_power))


def transfer_seconds(serial_seconds: Numbers, *shared: Numbers, knee_power: Numbers | None = None) -> Numbers:
    """Time of a save or a restore: t = serial + max over shared resources of bytes / rate.

    Args: `serial_seconds` of the steps that nothing overlaps; `shared`, one time per shared resource; `knee_power`,
    where the slowest does not hide the others, as `combined_seconds` has it.
    Source: as `shared_seconds`; assumes that the slowest resource hides the others completely.

    >>> float(transfer_seconds(2.0, 10.0, 26.5))
    28.5
    """
    return serial_seconds + combined_seconds(*shared, knee_power=knee_power)


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
