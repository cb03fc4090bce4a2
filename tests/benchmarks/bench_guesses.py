"""How long the guesses of an answer take beside the rest of it. Prints, judges nothing."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import pytest

from sizing import report as reports
from sizing.guesses import guesses
from sizing.guesses.guesses import WeighedGuesses
from sizing.report import answer
from sizing.scenario import REFERENCE_SCENARIO, scenario_from

PAIRS = 9
CALLS = 100

OPEN = {name: REFERENCE_SCENARIO[name] for name in ("model", "parallelism", "storage")} | {
    "reliability": {"failures_per_node_day": 0.0065}
}
"""The published run of 1T with all choices left open."""

DOCUMENTS: dict[str, dict[str, Any]] = {"reference case": REFERENCE_SCENARIO, "reference case, left open": OPEN}


def seconds_per_call(action: Callable[[], object], num_calls: int = CALLS) -> float:
    start = time.thread_time()
    for _ in range(num_calls):
        action()
    return (time.thread_time() - start) / num_calls


@pytest.mark.benchmark
@pytest.mark.parametrize("name", DOCUMENTS)
def test_guesses_beside_the_answer(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = scenario_from(DOCUMENTS[name])
    headline = answer(scenario).headline
    whole, without = [], []
    for _ in range(PAIRS):
        whole.append(seconds_per_call(lambda: answer(scenario)))
        with monkeypatch.context() as patched:
            patched.setattr(reports, "weigh_guesses", lambda *_: WeighedGuesses(headline, [], {}, {}))
            without.append(seconds_per_call(lambda: answer(scenario)))
    ratio = statistics.median(a / b for a, b in zip(whole, without, strict=True))
    spent = statistics.median(whole) - statistics.median(without)
    print(f"\n{name}: guesses take {spent * 1e6:.0f} us, the answer {ratio:.2f} x the time without them")


@pytest.mark.benchmark
@pytest.mark.parametrize("name", DOCUMENTS)
def test_guesses_of_a_layout_that_is_new(name: str) -> None:
    scenario = scenario_from(DOCUMENTS[name])

    def anew() -> None:
        guesses._group_rows.cache_clear()
        answer(scenario)

    seconds = statistics.median(seconds_per_call(anew, 3) for _ in range(PAIRS))
    print(f"\n{name}, alternatives laid out anew: {seconds * 1e3:.1f} ms")
