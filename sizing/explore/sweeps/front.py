"""The Pareto front: the rows that no other row beats."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


def pareto_front(objectives: npt.NDArray[np.float64]) -> npt.NDArray[np.int_]:
    """Indices of the rows that no other row beats, of (rows, objectives) where less is better, in their order.

    A row beats another if it is as good in every objective and better in one. Of equal rows the first stays; rows with
    NaN, an unknown objective, are left out. Rows are taken by their first objective, and each that is still in strikes
    out all that it beats, so the cost is rows x size of the front; of two objectives those stay in which the second
    reaches a new minimum.
    Source: definition of Pareto efficiency; Kung, Luccio and Preparata 1975, JACM 22(4), for the ordering.

    >>> pareto_front(np.array([[1.0, 5.0], [2.0, 2.0], [3.0, 3.0], [2.0, 2.0], [np.nan, 0.0]])).tolist()
    [0, 1]
    """
    index = np.flatnonzero(~np.isnan(objectives).any(axis=1))
    index = index[np.lexsort([index, *objectives[index].T[::-1]])]
    if objectives.shape[1] == 2:
        return np.sort(index[_new_minima(objectives[index, 1])])
    left, kept = objectives[index], []
    while len(index):
        kept.append(index[0])
        better_somewhere = (left < left[0]).any(axis=1)
        index, left = index[better_somewhere], left[better_somewhere]
    return np.sort(np.array(kept, dtype=np.int_))


def _new_minima(values: npt.NDArray[np.float64]) -> npt.NDArray[np.bool_]:
    """Which values are less than all before them."""
    before = np.concatenate([[np.nan], np.minimum.accumulate(values)[:-1]])
    return ~(values >= before)
