"""Leave-the-largest-out: what fits to smaller configurations predict for those with the max of an axis."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from sizing.storage.calibration.calibration import Axis
from sizing.storage.calibration.explanation import Explanation
from sizing.storage.calibration.least_squares import many_fitted
from sizing.storage.calibration.roofline import Array, Design, Mask, log_seconds
from sizing.storage.terms import Demand
from sizing.storage.transfer import Numbers

_MIN_SHARE = 0.05
"""Of a time, from which on a configuration says something of a term. A guess: below, noise of 5 % hides it."""
_SAME = 0.99
"""Bytes of one number differ by headers of files."""


@dataclass(frozen=True, slots=True)
class HeldOutFrontier:
    """The configurations with the max of an axis, and the log seconds that the fit to all others predicts.

    `unseen` are the terms that no other configuration shows: they keep their value of the whole fit.
    """

    axis: Axis
    rows: Mask
    log_seconds: Array
    unseen: Mask


def frontier_masks(demand: Demand) -> dict[Axis, Mask]:
    """The measurements with the max of nodes, of ranks in all, and of bytes in all; an axis of one value has none.

    >>> masks = frontier_masks(Demand(np.array([8.0, 4.0, 4.0]), np.array([2.0, 2.0, 1.0]), np.ones(3), np.ones(3)))
    >>> {axis: mask.tolist() for axis, mask in masks.items()}
    {'ranks': [True, True, False], 'bytes': [True, False, False]}
    """
    figures: dict[Axis, Numbers] = {"nodes": demand.num_nodes, "ranks": demand.num_streams, "bytes": demand.total_bytes}
    masks = {axis: np.asarray(values) >= _SAME * np.max(values) for axis, values in figures.items()}
    return {axis: mask for axis, mask in masks.items() if not mask.all()}


def held_out_frontiers(
    design: Design, measured: Array, explanation: Explanation, demand: Demand, groups: Sequence[object]
) -> Iterator[HeldOutFrontier]:
    """Each frontier with its prediction from inside; those without which nothing could be fitted are left out.

    Args: `measured` log seconds; `groups`, the configuration of each.
    Source: forward validation, as for time series (Hyndman and Athanasopoulos 2021, Forecasting, section 5.10): errors
    of extrapolation show only where the fit ends before the data.
    """
    slopes = log_seconds(design, explanation.parameters)[1]
    for axis, mask in frontier_masks(demand).items():
        seen = explanation.kept & (slopes[~mask].max(axis=0) >= _MIN_SHARE)
        seen &= seen[list(design.added_to)] if design.added_to else True
        inside = {group for group, is_left_out in zip(groups, mask, strict=True) if not is_left_out}
        if not (seen & design.is_shared).any() or len(inside) <= seen.sum():
            continue
        part, parameters = design.columns(seen), explanation.parameters.copy()
        start, weights = parameters[None, seen], np.where(mask, 0.0, 1.0)
        parameters[seen] = many_fitted(part, measured, noise=explanation.noise, start=start, weights=weights)[0][0]
        predicted = log_seconds(design, parameters)[0]
        yield HeldOutFrontier(axis, mask, predicted, explanation.kept & ~seen)
