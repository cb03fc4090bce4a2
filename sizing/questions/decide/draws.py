"""Draws of what is not certain in a decision: what each offer comes to in every one of them, and counts of that."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
from pydantic import Field

from sizing.errors import InvalidInput
from sizing.guesses.rows import with_numbers
from sizing.questions.chunks import ItemRange, Progress, cut
from sizing.questions.decide.ledger import Bill, bill_workload, list_lines
from sizing.questions.decide.request import DecisionRequest
from sizing.questions.decide.settings import OfferAnswer, WorkloadAnswer
from sizing.questions.decide.tally import FigureCounts
from sizing.questions.decide.uncertain_inputs import Ranged, Uncertain, find_uncertain_inputs
from sizing.run.evaluation import evaluate
from sizing.run.figures import with_arrays
from sizing.sized_layout import size_layout
from sizing.storage.transfer import Floats, Numbers
from sizing.strict_model import StrictModel
from sizing.units import figure_text

_DRAWS_PER_BLOCK = 8192
"""Draws answered at once: arrays of 64 kB each."""
_ANSWERS_PER_CHUNK = 1 << 22
"""Workloads under offers in all draws of a chunk: 2.2 s of one core, at 0.53 us each."""


class OfferCounts(StrictModel):
    """In how many draws an offer is what it may be, and how often each of its figures was drawn.

    Null where something is not known in some draws.
    """

    num_enough: int | None = Field(description="Draws in which it meets every target and holds what is kept.")
    num_priced: int = Field(description="Draws in which its total is known.")
    num_cheapest: int = Field(description="Draws in which its total is the least of all offers.")
    num_best_by_total: int = Field(description="Draws in which its total is the least of those that are enough.")
    num_best_by_lost: int = Field(description="Draws in which it loses least GPU time of those that are enough.")
    total: FigureCounts | None = Field(description="Costs over the horizon.")
    num_met: dict[str, dict[str, int | None]] = Field(description="Draws that meet a target, by workload and target.")
    goodput: dict[str, FigureCounts | None] = Field(description="Fractions of time that are useful work, by workload.")

    def plus(self, other: OfferCounts) -> OfferCounts:
        """Add the draws of another part to these."""
        return OfferCounts(
            num_enough=_add(self.num_enough, other.num_enough),
            num_priced=self.num_priced + other.num_priced,
            num_cheapest=self.num_cheapest + other.num_cheapest,
            num_best_by_total=self.num_best_by_total + other.num_best_by_total,
            num_best_by_lost=self.num_best_by_lost + other.num_best_by_lost,
            total=self.total and other.total and self.total.plus(other.total),
            num_met={
                workload: {target: _add(num, other.num_met[workload][target]) for target, num in met.items()}
                for workload, met in self.num_met.items()
            },
            goodput={
                workload: one and another and one.plus(another)
                for (workload, one), another in zip(self.goodput.items(), other.goodput.values(), strict=True)
            },
        )


class DrawsPart(StrictModel):
    """How many draws of a chunk, or of several chunks together, gave each offer which outcome."""

    num_draws: int = Field(description="Draws that were answered.")
    offers: list[OfferCounts] = Field(description="Counts of each offer, in the order of the answers.")

    @property
    def is_priced(self) -> bool:
        """Whether the total of an offer is known in some draws."""
        return any(offer.num_priced for offer in self.offers)

    def plus(self, other: DrawsPart) -> DrawsPart:
        """Add the draws of another part to these."""
        offers = [one.plus(another) for one, another in zip(self.offers, other.offers, strict=True)]
        return DrawsPart(num_draws=self.num_draws + other.num_draws, offers=offers)


class Draws:
    """The draws of a decision's inputs that are not certain, each answered under every offer, in chunks.

    Raises InvalidInput where nothing is drawn, or a range is of no input.
    """

    def __init__(self, request: DecisionRequest, answers: Sequence[OfferAnswer], *, num_draws: int, seed: int) -> None:
        self.request, self.answers, self.num_draws, self.seed = request, answers, num_draws, seed
        self.inputs = find_uncertain_inputs(request, answers)
        if not self.inputs:
            raise InvalidInput.of(
                "odds",
                "must have something that is not certain",
                value=None,
                remedy="give ranges here or in an offer, or set odds.guesses",
            )
        of_one_draw = sum(max(1, len(answer.workloads)) for answer in answers)
        self.chunks = cut([0, num_draws], max_items=_ANSWERS_PER_CHUNK // of_one_draw)

    def count(self, items: ItemRange, progress: Progress) -> DrawsPart:
        """Count what the draws of a range come to."""
        outcomes = compute_outcomes(self.request, self.answers, self.inputs, self._blocks(items, progress))
        totals, lost = (np.array([getattr(each, name) for each in outcomes]) for name in ("total", "lost_gpu_hours"))
        enough = np.array([each.is_enough == 1 for each in outcomes])
        cheapest = _find_least(totals)
        best_by_total, best_by_lost = (_find_least(np.where(enough, amounts, np.nan)) for amounts in (totals, lost))
        return DrawsPart(
            num_draws=items.stop - items.start,
            offers=[
                OfferCounts(
                    num_enough=_count(each.is_enough),
                    num_priced=int(np.sum(~np.isnan(each.total))),
                    num_cheapest=int(np.sum(cheapest == place)),
                    num_best_by_total=int(np.sum(best_by_total == place)),
                    num_best_by_lost=int(np.sum(best_by_lost == place)),
                    total=FigureCounts.of(each.total),
                    num_met={
                        workload: {target: _count(met) for target, met in by_target.items()}
                        for workload, by_target in each.met.items()
                    },
                    goodput={workload: FigureCounts.of(goodput) for workload, goodput in each.goodput.items()},
                )
                for place, each in enumerate(outcomes)
            ],
        )

    def warnings(self) -> Iterator[str]:
        """Warn of ranges without the number that the decision was made with, for which its settings are best."""
        for each in self.inputs:
            if not isinstance(each, Ranged) or each.ends.is_money:
                continue
            path, ends = each.ends.field, np.array([each.ends.low, each.ends.high])
            for answer in self.answers:
                for workload_answer in answer.workloads if each.offer in (None, answer.offer.name) else ():
                    number, (low, high) = workload_answer.number(path), workload_answer.less_background_load(path, ends)
                    if number is not None and not low <= number <= high:
                        yield (
                            f"{path} of {workload_answer.workload.name} under {answer.offer.name} is "
                            f"{figure_text(path, number)}, outside of its range: settings are chosen for what it is"
                        )

    def _blocks(self, items: ItemRange, progress: Progress) -> Iterator[Floats]:
        """Draw the probabilities of a range, block by block, of shape (inputs, draws).

        They are those of one array of all draws: the generator of each input goes on where its row begins.
        """
        generators = []
        for place in range(len(self.inputs)):
            bits = np.random.PCG64(self.seed)
            bits.advance(place * self.num_draws + items.start)
            generators.append(np.random.Generator(bits))
        for start in range(items.start, items.stop, _DRAWS_PER_BLOCK):
            num_draws = min(_DRAWS_PER_BLOCK, items.stop - start)
            yield np.array([generator.random(num_draws) for generator in generators])
            progress((start + num_draws - items.start) / (items.stop - items.start))


def _find_least(amounts: Floats) -> Floats:
    """Find the index of the least amount in each draw, of equals the first; -1 where no amount is known."""
    known = np.nan_to_num(amounts, nan=np.inf)
    return np.where(np.isfinite(known.min(axis=0)), known.argmin(axis=0), -1)


def _count(holds: Floats) -> int | None:
    """Count the draws of 1 among those of 1 and 0; None where one of them is not known."""
    return None if np.any(np.isnan(holds)) else int(np.sum(holds))


def _add(num: int | None, more: int | None) -> int | None:
    return None if num is None or more is None else num + more


@dataclass(frozen=True)
class Outcomes:
    """Outcomes of an offer, with one element for each draw; no number where something is not known.

    `met` and `is_enough` are 1 where they hold, else 0. `met` is by workload and target, `goodput` by workload.
    """

    total: Floats
    lost_gpu_hours: Floats
    is_enough: Floats
    met: Mapping[str, Mapping[str, Floats]]
    goodput: Mapping[str, Floats]


def compute_outcomes(
    request: DecisionRequest, answers: Sequence[OfferAnswer], inputs: Sequence[Uncertain], blocks: Iterable[Floats]
) -> list[Outcomes]:
    """Compute the outcomes of each offer in every draw, its settings as proposed.

    Args: `blocks` of draws, in order: arrays of shape (inputs, draws) of numbers between 0 and 1.
    """
    drawn = [[_draw_outcomes(request, answer, inputs, block) for answer in answers] for block in blocks]
    return [_concatenate(of_offer) for of_offer in zip(*drawn, strict=True)]


def _draw_outcomes(
    request: DecisionRequest, answer: OfferAnswer, inputs: Sequence[Uncertain], probabilities: Floats
) -> Outcomes:
    num_draws = probabilities.shape[1]
    money = _draw_fields(answer, None, inputs, probabilities)
    offer = with_arrays(answer.offer, {path: drawn for path, drawn in money.items() if path.startswith("prices.")})
    request = with_arrays(request, {path: drawn for path, drawn in money.items() if not path.startswith("prices.")})
    bills: list[Bill] = []
    met: dict[str, dict[str, Floats]] = {}
    goodput: dict[str, Floats] = {}
    is_enough = np.full(num_draws, 1.0 if answer.workloads else np.nan)
    for workload_answer in answer.workloads:
        name, checkpoint_workload = workload_answer.workload.name, size_layout(workload_answer.scenario).workload
        drawn = _draw_fields(answer, workload_answer, inputs, probabilities)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):  # as where a draw leaves no rate
            figures = evaluate(checkpoint_workload, with_numbers(workload_answer.scenario.run_inputs, drawn)).report
            left_bytes = sum((bill.kept_bytes for bill in bills), start=np.zeros(num_draws))
            bill = bill_workload(
                request, workload_answer.workload, offer, checkpoint_workload, figures, left_bytes=left_bytes
            )
        bills.append(bill)
        met[name] = {
            check.target: _as_draws(None if check.found is None else check.met, num_draws) for check in figures.targets
        }
        goodput[name] = _as_draws(figures.interval.goodput_at_interval_fraction, num_draws)
        if offer.capacity_bytes is not None:
            is_enough = is_enough * np.less_equal(bill.held_bytes, offer.capacity_bytes)
    for each in chain.from_iterable(by_target.values() for by_target in met.values()):
        is_enough = np.where((is_enough == 0) | (each == 0), 0.0, is_enough * each)
    costs = [line.cost for line in list_lines(request, offer, bills)] if bills else []
    lost = _sum([bill.lost_gpu_hours for bill in bills], num_draws)
    return Outcomes(_sum(costs, num_draws), lost, is_enough, met, goodput)


def _draw_fields(
    answer: OfferAnswer, workload_answer: WorkloadAnswer | None, inputs: Sequence[Uncertain], probabilities: Floats
) -> dict[str, Floats]:
    """Draw the fields that inputs set; where two set one field, the last holds."""
    fields: dict[str, Floats] = {}
    for each, probability in zip(inputs, probabilities, strict=True):
        fields |= each.values(answer.offer, workload_answer, probability)
    return fields


def _sum(amounts: Sequence[Numbers | None], num_draws: int) -> Floats:
    """Add amounts in the order of the ledger, so that sums equal to the last digit; no number where one is unknown."""
    if not amounts:
        return np.full(num_draws, np.nan)
    return np.asarray(sum((_as_draws(amount, num_draws) for amount in amounts), start=np.zeros(num_draws)))


def _as_draws(value: object, num_draws: int) -> Floats:
    known = np.asarray(np.nan if value is None else value, dtype=np.float64)
    return np.broadcast_to(known, num_draws)


def _concatenate(pieces: Sequence[Outcomes]) -> Outcomes:
    first = pieces[0]
    return Outcomes(
        np.concatenate([piece.total for piece in pieces]),
        np.concatenate([piece.lost_gpu_hours for piece in pieces]),
        np.concatenate([piece.is_enough for piece in pieces]),
        {
            name: {target: np.concatenate([piece.met[name][target] for piece in pieces]) for target in by_target}
            for name, by_target in first.met.items()
        },
        {key: np.concatenate([piece.goodput[key] for piece in pieces]) for key in first.goodput},
    )
