"""Which limits the measurements need for their explanation, and which others would explain them as well."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from sizing.storage.calibration.least_squares import (
    SHARP,
    Design,
    Mask,
    find_best_fits,
    fit_columns,
    log_seconds,
)
from sizing.storage.transfer import Floats

MIN_NOISE_FRACTION = 0.01
"""Noise below which no scan is believed to be."""

SIGNIFICANCE = 0.05
"""Significance of the F test: one term in twenty that is not there would be kept. Measured: 12 of 780,
docs/calibration.md."""
FIRST_NOISE = 0.05
"""Where the fit that estimates the noise begins; 1, 2 and 20 % led to the same terms in all of 12 simulated scans, 10 %
in 11."""
MAX_OVER_SEEN = 2.0
"""Max fitted rate over the highest that any run got: beyond, times that do not grow with bytes took more than half of
every time, and what is left of it says little of a rate."""
_MIN_CONTRAST = 1e-3
"""Between logarithms of two columns that are told apart. Sizes differ by that much through headers of files alone."""
_OUTLIER_DEVIATIONS = 2.5
"""Winsorizing at 2.5 sees noise of 5 % as 5.3 % where there are no outliers, and as 8 % where each tenth is ten times
as far off; at 1.5 it sees 4.5 and 5.2, at 4 5.3 and 13."""
_WINSORIZING_STEPS = 20
"""Each draws outliers in by a part: after 10 the noise is up to 18 % off what many steps find, after 20 below 1 %."""
MIN_FREEDOM = 3
"""Min degrees of freedom: with fewer the quantile of t is so large (12.7 for one) that no term would ever be needed."""


@dataclass(frozen=True, slots=True)
class TermSelection:
    """The terms that the data need, `parameters` with -inf for the others, and the noise around them.

    `rivals` are other sets of terms that explain the data as well, each with its parameters: a term and the one that
    stands in its place cannot be told apart. `twins` are columns that could not be told from an earlier one at all.
    `fixed_in_rates`: why the fixed time may as well be time of the shared terms, and is counted there; empty where it
    is not.
    """

    parameters: Floats
    noise: float
    rivals: tuple[Floats, ...]
    twins: dict[int, int]
    fixed_in_rates: str = ""

    @property
    def kept(self) -> Mask:
        """Mask of the terms that are needed."""
        return np.isfinite(self.parameters)

    def has_rival_with(self, column: int) -> bool:
        """Whether another explanation has the term."""
        return any(np.isfinite(rival[column]) for rival in self.rivals)

    def is_checked_by(self, num_configurations: int) -> bool:
        """Whether there are more configurations than terms: otherwise some terms fit any times, true or not."""
        return num_configurations > int(self.kept.sum())


def select_terms(design: Design, measured: Floats, *, repetition_noise: float) -> TermSelection:
    """The smallest set of terms that explains the measured log seconds, by elimination from all of them.

    A term goes where the others explain the data as well without it, by an F test at 5 % of the robust loss. The
    fixed time stays: to leave it out where it is small would shift the rates. Where the data need it, and a shared term
    in its place explains them better, that stands there, and the fit with the fixed time is a rival: it may have taken
    the time of a limit that went before. Where all runs had one size, or where it leaves a rate that no run came near,
    it goes if that costs nothing: the rates that are left hold it, which is the cautious reading, and to count it apart
    is a rival. Then each term that is left is exchanged for each that went: where that costs nothing either, the two
    are rivals.
    Args: `repetition_noise`, the standard error of a configuration's median from its repetitions.
    """
    twins = twins_of(design)
    usable = np.array(
        [column not in twins and bool(design.coefficients[:, column].any()) for column in range(design.num_terms)]
    )
    found, loss = _eliminate(design, measured, usable, twins, repetition_noise)
    doubt = "all runs have one size" if _has_one_size(design) else "the noise hides what bytes take"
    if not _has_one_size(design) and not _claims_the_unseen(design, measured, found):
        return found
    without, _ = _eliminate(design, measured, usable & ~_is_constant(design), twins, repetition_noise)
    loss_without = fit_columns(design, measured, without.kept, found.noise)[1]
    if loss_without - loss > _allowance(len(measured) - int(found.kept.sum())):
        return found
    return replace(without, rivals=(*without.rivals, found.parameters, *found.rivals), fixed_in_rates=doubt)


def _eliminate(
    design: Design, measured: Floats, usable: Mask, twins: dict[int, int], repetition_noise: float
) -> tuple[TermSelection, float]:
    """The terms that are left of the usable ones, and their loss.

    Of sets with as many terms, the one that explains the data best: a shared term may replace the fixed time.
    """
    noise = _noise(design, measured, usable, repetition_noise)
    kept = usable.copy()
    found, losses = find_best_fits(design, measured, [kept], noise)
    parameters, loss = found[0], losses[0]
    allowance = _allowance(len(measured) - int(kept.sum()))
    while True:
        candidates = [kept & ~_only(design, column) for column in np.flatnonzero(kept & ~_is_constant(design))]
        candidates = [mask for mask in candidates if _moves_bytes(design, mask)]
        if not candidates:
            break
        found, without = find_best_fits(design, measured, candidates, noise)
        cheapest = int(np.argmin(without))
        if without[cheapest] - loss > allowance:
            break
        kept, loss, parameters = candidates[cheapest], without[cheapest], found[cheapest]
    with_constant: tuple[Floats, ...] = ()
    without_constant = kept & ~_is_constant(design)
    exchanged = [
        without_constant | (np.arange(design.num_terms) == new)
        for new in np.flatnonzero(usable & design.is_shared & ~kept)
    ]
    exchanged = [mask for mask in exchanged if not _lacks_an_owner(design, mask)]
    if exchanged and without_constant.sum() < kept.sum() < len(measured):
        found, losses = find_best_fits(design, measured, [without_constant, *exchanged], noise)
        best = int(np.argmin(losses))
        if losses[best] < loss < losses[0] - allowance:
            with_constant, kept, parameters = (parameters,), exchanged[best - 1], found[best]
    noise = residual_noise(log_seconds(design, parameters)[0] - measured, int(kept.sum()), repetition_noise)
    parameters, loss = fit_columns(design, measured, kept, noise)
    rivals = _rivals(design, measured, usable, kept, noise, loss, allowance) + _twin_rivals(design, parameters, twins)
    doubt = "a limit in place of the fixed time explains the runs better" if with_constant else ""
    return TermSelection(parameters, noise, (*with_constant, *rivals), twins, doubt), loss


def _has_one_size(design: Design) -> bool:
    """Whether a shared term takes as long in all configurations: that of a writer, where all write as much."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return bool((np.ptp(np.log(design.coefficients[:, design.is_shared]), axis=0) < _MIN_CONTRAST).any())


def _claims_the_unseen(design: Design, measured: Floats, found: TermSelection) -> bool:
    """Whether every rate of a fit is far above the highest that any run got, as where noise hides the bytes.

    With contention or a soft knee that is no sign of it: there no run gets the whole rate of anything.
    """
    kept = found.kept & design.is_shared
    if design.squarings != SHARP or any(
        design.added_to and design.added_to[column] != column for column in np.flatnonzero(kept)
    ):
        return False
    shares = np.exp(found.parameters) * (design.coefficients / np.exp(measured)[:, None]).max(axis=0)
    return bool((shares[kept] < 1 / MAX_OVER_SEEN).all())


def twins_of(design: Design) -> dict[int, int]:
    """Columns that are proportional to an earlier one, and that one.

    Source: columns of a linear model that are collinear have no values of their own. The shared columns come first:
    where all files have the same size, files per second and bytes per second of the file system are one figure, and to
    give it to the bytes is the cautious reading. The fixed time is never given away.

    >>> twins_of(Design(np.array([[1.0, 2.0, 1.0], [2.0, 4.0, 3.0]]), np.array([True, True, True])))
    {1: 0}
    """
    found: dict[int, int] = {}
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(design.coefficients)
        for column in range(design.num_terms):
            for earlier in range(column):
                is_other_kind = design.is_shared[earlier] != design.is_shared[column]
                if earlier in found or (is_other_kind and _is_constant(design)[column]):
                    continue
                if np.ptp(logs[:, column] - logs[:, earlier]) < _MIN_CONTRAST:
                    found[column] = earlier
                    break
    return found


def _rivals(
    design: Design, measured: Floats, usable: Mask, kept: Mask, noise: float, loss: float, allowance: float
) -> tuple[Floats, ...]:
    """The fits in which one shared term stands in for another and costs nothing."""
    left_out = usable & design.is_shared & ~kept
    exchanged = [
        (kept & ~_only(design, old)) | (np.arange(design.num_terms) == new)
        for old in np.flatnonzero(kept & design.is_shared)
        for new in np.flatnonzero(left_out)
    ]
    exchanged = [mask for mask in exchanged if _moves_bytes(design, mask) and not _lacks_an_owner(design, mask)]
    if not exchanged:
        return ()
    parameters, found = find_best_fits(design, measured, exchanged, noise)
    return tuple(parameters[i] for i in range(len(exchanged)) if found[i] - loss <= allowance)


def _twin_rivals(design: Design, parameters: Floats, twins: dict[int, int]) -> tuple[Floats, ...]:
    """The rivals in which a twin stands for a shared term."""
    rivals = []
    for twin, original in twins.items():
        if design.is_shared[twin] and np.isfinite(parameters[original]):
            rival = parameters.copy()
            ratio = design.coefficients[0, original] / design.coefficients[0, twin]
            rival[twin], rival[original] = parameters[original] + np.log(ratio), -np.inf
            rivals.append(rival)
    return tuple(rivals)


def _noise(design: Design, measured: Floats, usable: Mask, repetition_noise: float) -> float:
    noise = FIRST_NOISE
    for _ in range(2):
        found, _ = find_best_fits(design, measured, [usable], noise)
        residuals = log_seconds(design, found[0])[0] - measured
        noise = residual_noise(residuals, int(usable.sum()), repetition_noise)
    return noise


def residual_noise(residuals: Floats, num_parameters: int, repetition_noise: float) -> float:
    """Standard deviation of the residuals, outliers drawn in, corrected for what the parameters took out of them.

    Args: `residuals` of log seconds; `repetition_noise`, which it is not below.
    Source: Winsorized variance, Huber 1964, Annals of Mathematical Statistics 35(1), iterated.

    >>> round(residual_noise(np.array([0.03, -0.03, 0.03, -0.03]), 0, 0.0), 6)
    0.03
    """
    free = len(residuals) - num_parameters
    if free < 1:
        return max(repetition_noise, FIRST_NOISE)
    squares = residuals**2
    variance = squares.sum() / free
    for _ in range(_WINSORIZING_STEPS):
        variance = np.minimum(squares, _OUTLIER_DEVIATIONS**2 * variance).sum() / free
    return max(float(np.sqrt(variance)), repetition_noise, MIN_NOISE_FRACTION)


def _allowance(degrees_of_freedom: int) -> float:
    """What leaving out one term may cost, in units of the noise squared: the F(1, df) quantile."""
    from scipy.special import stdtrit  # noqa: PLC0415 - only fitting needs it

    return float(stdtrit(max(degrees_of_freedom, MIN_FREEDOM), 1 - SIGNIFICANCE / 2) ** 2)


def _is_constant(design: Design) -> Mask:
    return np.asarray(~design.is_shared & (np.ptp(design.coefficients, axis=0) == 0))


def _only(design: Design, column: int | np.intp) -> Mask:
    """A column, and those that are added to it."""
    owners = np.array(design.added_to or range(design.num_terms))
    return np.asarray((np.arange(design.num_terms) == column) | (owners == column))


def _moves_bytes(design: Design, mask: Mask) -> bool:
    return bool((mask & design.is_shared).any())


def _lacks_an_owner(design: Design, mask: Mask) -> bool:
    """Whether contention would stand without the limit that it is added to."""
    return any(not mask[design.added_to[column]] for column in np.flatnonzero(mask)) if design.added_to else False
