"""The draws of a decision in chunks: the same whoever computes them and in whichever order, and counts that lose nothing."""

import random
from typing import Any

import numpy as np
import pytest

from executors.local import LocalWorkers
from sizing.questions.chunks import ItemRange, ignore_progress
from sizing.questions.decide import draws
from sizing.questions.decide.answer import DecisionWork
from sizing.questions.decide.draws import DrawsPart
from sizing.questions.decide.tally import FigureCounts
from sizing.questions.registry import DECIDE
from tests.sizing.questions.test_decision_odds import READ, TARGETS, UNCERTAIN, offer, question

QUESTION = DECIDE.question
SLOW = offer("slow", ranges={READ: {"low": "1 GB/s", "high": "3 GB/s"}})


def request(num_draws: int, **more: Any) -> Any:
    odds = {"ranges": UNCERTAIN, "num_draws": num_draws, "seed": 3}
    return QUESTION.parse_request(question(offer("flash"), SLOW, odds=odds, targets=TARGETS, **more))


@pytest.mark.long
def test_parts_drawn_apart_and_sent_as_json_make_the_report_of_one_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = request(5_000)
    whole = QUESTION.answer_request(asked).report
    monkeypatch.setattr(draws, "_ANSWERS_PER_CHUNK", 2 * 2_000)
    work = DecisionWork(asked)
    assert [chunk.stop for chunk in work.chunks] == [2_000, 4_000, 5_000]
    sent: dict[ItemRange, str] = {}
    for chunk in random.Random(1).sample(work.chunks, len(work.chunks)):  # noqa: S311 - any order
        sent[chunk] = DecisionWork(asked).compute(chunk, ignore_progress).model_dump_json()
    assert len(set(sent.values())) == 3, "no chunk repeats the random numbers of another"
    report = work.merge(DrawsPart.model_validate_json(sent[chunk]) for chunk in work.chunks)
    assert report == whole
    assert report.odds is not None
    assert report.odds.num_draws == 5_000


@pytest.mark.long
def test_one_worker_and_two_give_the_same_report(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draws, "_ANSWERS_PER_CHUNK", 2 * 10_000)
    asked = request(25_000)
    assert len(DecisionWork(asked).chunks) == 3
    one, two = (
        QUESTION.answer_request(asked, computer=LocalWorkers(number).compute).report.model_dump_json()
        for number in (1, 2)
    )
    assert one == two


def test_a_decision_without_odds_is_one_chunk() -> None:
    asked = QUESTION.parse_request(question(offer("flash"), SLOW, odds=None))
    assert len(DecisionWork(asked).chunks) == 1
    assert QUESTION.answer_request(asked).report.odds is None


@pytest.mark.parametrize("scale", [1e-300, 1.0, 1e12])
def test_counts_that_are_added_have_the_quantiles_of_all_figures(scale: float) -> None:
    dice = np.random.default_rng(7)
    figures = np.concatenate([dice.lognormal(0, 2, 9_000), np.zeros(600), np.full(400, 5.0), -dice.random(50)]) * scale
    dice.shuffle(figures)
    parts = [FigureCounts.of(part) for part in np.split(figures, [10, 4_000, 4_001])]
    first, second, third, last = (part for part in parts if part is not None)
    counts = last.plus(second).plus(third.plus(first))
    assert counts == FigureCounts.of(figures)
    fractions = np.linspace(0, 1, 101)
    assert counts.quantiles(fractions.tolist()) == pytest.approx(np.quantile(figures, fractions), rel=1.6e-5, abs=0)


def test_few_figures_are_kept_as_they_are() -> None:
    figures = np.array([3.0, 1.1, 2.7, 1.1])
    counts = FigureCounts.of(figures)
    assert counts is not None
    assert counts.quantiles([0.05, 0.5, 0.95]) == np.quantile(figures, [0.05, 0.5, 0.95]).tolist()


def test_what_is_not_known_in_one_draw_has_no_counts_whoever_drew_it() -> None:
    assert FigureCounts.of(np.array([1.0, np.nan])) is None
    assert FigureCounts.of(np.array([1.0, np.inf])) is None
    asked = request(100, per_lost_gpu_hour=2.0)
    part = DecisionWork(asked).compute(ItemRange(0, 100), ignore_progress)
    (flash, slow) = part.offers
    without = flash.model_copy(update={"num_enough": None, "total": None})
    for one, another in ((flash, without), (without, flash)):
        both = one.plus(another)
        assert (both.num_enough, both.total) == (None, None)
        assert both.goodput["training"] is not None
    assert slow.plus(slow).num_cheapest == 2 * slow.num_cheapest
