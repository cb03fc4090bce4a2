"""The terms that a fit may use, and which shape the limits have: contention, a cache that fills, a soft knee."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from sizing.storage.calibration.least_squares import SHARP, Design, Mask, find_best_fits, log_seconds, losses
from sizing.storage.calibration.term_selection import FIRST_NOISE, MIN_FREEDOM, SIGNIFICANCE, residual_noise, twins_of
from sizing.storage.rates import TERMS, Kind, Rates, Resource, Term, Unit, rate_names
from sizing.storage.terms import Demand, once_terms, serial_terms, shared_terms
from sizing.storage.transfer import Floats, beyond_cache_bytes

_SOFT_KNEES = (0, 1, 2)
"""Squarings of p = 1 (times add), 2 and 4. A sharper knee is less than 10 % off the maximum where two limits meet
(2^(1/8) - 1), and nowhere else."""

_MAX_ROUNDS = 3
"""Max of steps from the roofline: one for each kind of shape: knee, contention, cache."""

_MAX_CACHES = 8
"""Sizes of a cache that are tried first, among the bytes that configurations moved in all."""

_REFINEMENTS = 3
"""Refinements of the cache's size, each to a quarter of the distance: to 2 % of a doubling."""


@dataclass(frozen=True, slots=True)
class FitTerm:
    """A term of the transfer model, with its field of `Rates`."""

    field: str
    term: Term

    @property
    def resource(self) -> Resource:
        """The resource of which the term takes time."""
        return self.term.resource

    @property
    def unit(self) -> Unit:
        """What its rate or time is that of."""
        return self.term.unit

    @property
    def is_shared(self) -> bool:
        """Whether other terms overlap it."""
        return self.term.kind != "serial"

    @property
    def is_fraction(self) -> bool:
        """Whether it is a fraction of the file system's time of a byte, to which it adds."""
        return self.term.kind == "fraction"

    @property
    def is_rate(self) -> bool:
        """Whether the field holds a rate, of which the parameter is the inverse, or a time."""
        return self.field.endswith("per_second")

    def value(self, parameters: Floats) -> Floats:
        """The field's value for log parameters u: exp(-u) of a rate, exp(u) of a time."""
        return np.exp(-parameters if self.is_rate else parameters)


def _fit_terms(kind: Kind) -> tuple[FitTerm, ...]:
    """The terms of a kind that measurements may show, in the order in which fits try them."""
    places = {name: TERMS[name].fit_order for name in rate_names(kind)}
    tried = sorted((place, name) for name, place in places.items() if place is not None)
    return tuple(FitTerm(name, TERMS[name]) for _, name in tried)


_SHARED_TERMS, _CONTENTIONS = _fit_terms("shared"), _fit_terms("fraction")

PLAIN_TERMS = (*(each for each in _SHARED_TERMS if each.unit != "cache"), *_fit_terms("serial"))
"""Every term of the transfer model that measurements may show, the shared ones first.

Of two that the data cannot tell apart the earlier stands for both.
"""

ALL_TERMS = (*PLAIN_TERMS, *_CONTENTIONS, *(each for each in _SHARED_TERMS if each.unit == "cache"))
"""`PLAIN_TERMS`, and those that are tried only where these leave something unexplained: contention, then a cache."""


def column_of(field: str) -> int:
    """The column of a field of `Rates` among `ALL_TERMS`.

    Source: definition. No units.

    >>> column_of("file_system_bytes_per_second")
    0
    """
    return [each.field for each in ALL_TERMS].index(field)


FILE_SYSTEM = column_of("file_system_bytes_per_second")
"""The column of the file system's rate, to which contention adds."""


def fitted_rates(parameters: Floats) -> dict[str, Floats]:
    """The value of every field of `Rates` for log parameters in the last axis, without those left out at -inf.

    Contention is a fraction of the file system's time.

    >>> parameters = np.append(np.log([1 / 40e9, *[1.0] * 7, 0.02 / 40e9]), [-np.inf, -np.inf])
    >>> figures = fitted_rates(parameters)
    >>> round(float(figures["writer_contention_fraction"]), 6), "node_contention_fraction" in figures
    (0.02, False)
    """
    return {
        term.field: np.exp(parameters[..., column] - parameters[..., FILE_SYSTEM])
        if term.is_fraction
        else term.value(parameters[..., column])
        for column, term in enumerate(ALL_TERMS)
        if np.isfinite(parameters[..., column]).all()
    }


def design_of(demand: Demand) -> Design:
    """The coefficients of `PLAIN_TERMS` for demands as arrays: the seconds of each at a rate of 1 or a time of 1 s."""
    columns = []
    for term in PLAIN_TERMS:
        unit = Rates(**{term.field: 1.0})
        seconds = shared_terms(unit, demand) | serial_terms(unit, demand) | once_terms(unit)
        coefficient = np.asarray(seconds.get(term.resource, 0.0), dtype=np.float64)
        columns.append(np.broadcast_to(coefficient, np.shape(demand.total_bytes)))
    return Design(np.stack(columns, axis=-1).astype(np.float64), np.array([term.is_shared for term in PLAIN_TERMS]))


def contention_columns(demand: Demand) -> Floats:
    """The coefficients of contention: what each further writer, and each further node, adds to the time of a byte.

    c = B (n - 1) of n writers, and of n nodes.
    Source: `transfer.contended_bytes`, whose terms they are.

    >>> contention_columns(Demand(np.array([2.0]), np.array([4.0]), np.array([2.0]), 4)).tolist()
    [[6.0, 2.0]]
    """
    return np.asarray(np.asarray(demand.total_bytes)[:, None] * (contending_units(demand) - 1.0), dtype=np.float64)


def contending_units(demand: Demand) -> Floats:
    """How many units of each kind of contention move the bytes: the writers, and the nodes.

    Source: `transfer.contended_bytes`, whose W and N they are.

    >>> contending_units(Demand(2.0, np.array([4.0]), np.array([2.0]), 4)).tolist()
    [[4.0, 2.0]]
    """
    units = (demand.units(each.unit)[0] for each in _CONTENTIONS)
    return np.stack(np.broadcast_arrays(*units), axis=-1)


def cache_column(demand: Demand, cache_bytes: float) -> Floats:
    """The coefficients of the rate beyond a write-back cache of that size: the bytes that it does not take.

    Source: `transfer.beyond_cache_bytes`.

    >>> cache_column(Demand(np.array([2.0, 5.0]), 1, 1, 1), 4.0).tolist()
    [0.0, 1.0]
    """
    return np.asarray(beyond_cache_bytes(demand.total_bytes, cache_bytes=cache_bytes), dtype=np.float64)


@dataclass(frozen=True, slots=True)
class LimitShape:
    """The terms that may explain the data, in the columns of `ALL_TERMS`; 0 in those of no use.

    `cache_bytes` is the size of a cache that fills, None where none does.
    """

    design: Design
    cache_bytes: float | None = None

    @property
    def knee_power(self) -> float | None:
        """The power of a soft knee, None for the maximum."""
        return None if self.design.squarings == SHARP else float(2**self.design.squarings)


def select_shape(demand: Demand, measured: Floats, *, repetition_noise: float) -> LimitShape:
    """The shape that the measured log seconds need, in steps from the roofline.

    In each step the terms are tried with every knee, with either contention and with a cache. Of the shapes whose F
    test against the one so far has a p below 5 % divided by the number of those tried, the one with the least AICc
    stays.
    Args: `demand` as arrays; `repetition_noise`, the standard error of a configuration's median.
    Source: forward selection by extra-sum-of-squares F tests, Draper and Smith 1998, Applied Regression Analysis,
    chapter 15; the correction for many tests is Bonferroni's (Dunn 1961, JASA 56); AICc: Hurvich and Tsai 1989,
    Biometrika 76(2), with -2 log likelihood as the robust loss at one noise. The loss is that of the fit, whose
    scale is the noise of the larger model: what that explains was no outlier.
    """
    trials = _Trials(demand, measured, repetition_noise)
    found = trials.fit([_Form(SHARP)], FIRST_NOISE)[0]
    found = trials.fit([found.form], found.noise)[0]
    for _ in range(_MAX_ROUNDS):
        better = trials.better(found)
        if better is None:
            break
        found = better
    return trials.shape(found)


@dataclass(frozen=True, slots=True)
class _Form:
    """A knee, which contentions, and the size of a cache."""

    squarings: int
    contentions: frozenset[int] = frozenset()
    cache_bytes: float | None = None

    @property
    def num_parameters(self) -> int:
        """Number of parameters that the shape has beside those of the roofline."""
        return (self.squarings != SHARP) + len(self.contentions) + 2 * (self.cache_bytes is not None)


@dataclass(frozen=True, slots=True)
class _ShapeFit:
    form: _Form
    residuals: Floats
    noise: float

    def loss_at(self, noise: float) -> float:
        return float(losses(self.residuals, np.ones(len(self.residuals)), noise=noise))


class _Trials:
    """Fits of many shapes to the same data, those with the same knee side by side."""

    def __init__(self, demand: Demand, measured: Floats, repetition_noise: float) -> None:
        self.demand, self.measured, self.repetition_noise = demand, measured, repetition_noise
        self.plain = design_of(demand)
        self.contentions = contention_columns(demand)
        twins = twins_of(self.plain)
        self.usable = np.array(
            [column not in twins and bool(self.plain.coefficients[:, column].any()) for column in range(self.num_plain)]
        )

    @property
    def num_plain(self) -> int:
        return self.plain.num_terms

    def design(self, caches: Sequence[float], squarings: int) -> Design:
        """Make the design of all terms, with a column for each size of a cache."""
        columns = [cache_column(self.demand, size) for size in caches]
        num = self.num_plain + len(_CONTENTIONS) + len(columns)
        added_to = (
            *range(self.num_plain),
            *[FILE_SYSTEM] * len(_CONTENTIONS),
            *range(self.num_plain + len(_CONTENTIONS), num),
        )
        return Design(
            np.column_stack([self.plain.coefficients, self.contentions, *columns]),
            np.append(self.plain.is_shared, [True] * (num - self.num_plain)),
            added_to,
            squarings,
        )

    def fit(self, forms: Sequence[_Form], noise: float) -> list[_ShapeFit]:
        """The fits of forms, in an order of their own."""
        found = []
        for squarings in sorted({form.squarings for form in forms}):
            chosen = [form for form in forms if form.squarings == squarings]
            caches = sorted({form.cache_bytes for form in chosen if form.cache_bytes is not None})
            design = self.design(caches, squarings)
            masks = [self._mask(form, caches) for form in chosen]
            parameters, _ = find_best_fits(design, self.measured, masks, noise)
            residuals = log_seconds(design, parameters)[0] - self.measured
            found += [self._fit(form, row) for form, row in zip(chosen, residuals, strict=True)]
        return found

    def better(self, found: _ShapeFit) -> _ShapeFit | None:
        """The one more shape that the data need the most; None where they need none."""
        forms = list(self._extend(found.form))
        if not forms or self._freedom(found.form) - 2 < MIN_FREEDOM:
            return None
        fits = self.fit(forms, found.noise)
        kinds = len({replace(form, cache_bytes=form.cache_bytes and 1.0) for form in forms})
        needed = [fit for fit in fits if self._chance(found, fit) * kinds < SIGNIFICANCE]
        noise = min((fit.noise for fit in needed), default=found.noise)
        return min(needed, key=lambda fit: self._criterion(fit, noise), default=None)

    def shape(self, found: _ShapeFit) -> LimitShape:
        """The shape of a fit, with the size of the cache made exact."""
        form = found.form
        if form.cache_bytes is not None:
            form = self._with_exact_cache(found).form
        caches = [form.cache_bytes] if form.cache_bytes is not None else []
        design = self.design(caches or [np.inf], form.squarings)
        coefficients = design.coefficients.copy()
        if not form.contentions:
            coefficients[:, self.num_plain : self.num_plain + len(_CONTENTIONS)] = 0.0
        return LimitShape(replace(design, coefficients=coefficients), form.cache_bytes)

    def _with_exact_cache(self, found: _ShapeFit) -> _ShapeFit:
        step = 1.0
        for _ in range(_REFINEMENTS):
            size = found.form.cache_bytes
            assert size is not None  # noqa: S101 - the form has a cache
            sizes = size * 2.0 ** (step * np.array([-0.75, -0.5, -0.25, 0.0, 0.25, 0.5, 0.75]))
            fits = self.fit([replace(found.form, cache_bytes=float(each)) for each in sizes], found.noise)
            found = min(fits, key=lambda fit: fit.loss_at(found.noise))
            step /= 4
        return found

    def _extend(self, form: _Form) -> Iterator[_Form]:
        """Every form with more parameters by a knee and a contention, or by a cache."""
        contended = [frozenset([place]) for place in range(len(_CONTENTIONS)) if self.contentions[:, place].any()]
        for squarings, contentions in itertools.product((*_SOFT_KNEES, SHARP), (frozenset[int](), *contended)):
            other = replace(form, squarings=squarings, contentions=contentions)
            if other.num_parameters > form.num_parameters:
                yield other
        if form.cache_bytes is None:
            yield from (replace(form, cache_bytes=size) for size in self._cache_sizes())

    def _cache_sizes(self) -> list[float]:
        """Bytes in all of configurations, but for the largest and for those below the median."""
        sizes = np.unique(np.asarray(self.demand.total_bytes))
        sizes = sizes[len(sizes) // 2 : -1]
        if len(sizes) <= _MAX_CACHES:
            return [float(size) for size in sizes]
        return [float(sizes[place]) for place in np.linspace(0, len(sizes) - 1, _MAX_CACHES).round().astype(int)]

    def _mask(self, form: _Form, caches: Sequence[float]) -> Mask:
        used = [place in form.contentions for place in range(len(_CONTENTIONS))]
        return np.array([*self.usable, *used, *(size == form.cache_bytes for size in caches)])

    def _fit(self, form: _Form, residuals: Floats) -> _ShapeFit:
        num_parameters = int(self.usable.sum()) + form.num_parameters
        return _ShapeFit(form, residuals, residual_noise(residuals, num_parameters, self.repetition_noise))

    def _freedom(self, form: _Form) -> int:
        return len(self.measured) - int(self.usable.sum()) - form.num_parameters

    def _criterion(self, fit: _ShapeFit, noise: float) -> float:
        """AICc: loss + 2 k n / (n - k - 1)."""
        freedom = self._freedom(fit.form)
        return fit.loss_at(noise) + 2 * (len(self.measured) - freedom) * len(self.measured) / max(freedom - 1, 1)

    def _chance(self, smaller: _ShapeFit, larger: _ShapeFit) -> float:
        """P of the F test: how often what is not there would explain as much."""
        from scipy.special import fdtrc  # noqa: PLC0415 - only fitting needs it

        more = larger.form.num_parameters - smaller.form.num_parameters
        gain = smaller.loss_at(larger.noise) - larger.loss_at(larger.noise)
        return float(fdtrc(more, self._freedom(larger.form), max(gain, 0.0) / more))
