"""Law: what an answer names to meet a missed target, or to let a layout run, does so when it is typed back."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from sizing.errors import InvalidInput
from sizing.field_paths import with_fields
from sizing.report import SizingReport, answer
from sizing.run.remedies import BEYOND_CACHE
from sizing.run.targets import TargetCheck
from sizing.run.write import CACHED_PLANS
from tests.sizing.laws.scenarios import FRESH_SEEDS, drawn, repeated

# First those whose interval is a whole multiple of a tier's, or at a peak, whose groups must each hold the whole state,
# whose plans are cached, and whose stages no format takes that divides the optimizer anew.
_DEFAULT_SEEDS = (82, 219, 277, 436, 466, 83, 1235, 1568, 2045, *range(4))
_LONG_SEEDS = range(500)
_FIELDS = {
    "min write bandwidth": "storage.profile.write_bytes_per_second",
    "min read bandwidth": "storage.profile.read_bytes_per_second",
    "min GPU-to-host bandwidth": "storage.profile.device_to_host_bytes_per_second",
    "one checkpoint every": "checkpoint.interval_seconds",
} | {
    f"{direction} bandwidth per {unit}": f"storage.profile.{name}_{direction}_bytes_per_second"
    for direction, stream in (("write", "writer"), ("read", "reader"))
    for unit, name in (("node", "node"), (stream, "writer"))
}
_VALUE = re.compile(rf"({'|'.join([*_FIELDS, re.escape(BEYOND_CACHE)])}) ([0-9.,]+ [A-Za-zµ/]+)")
_DEGREE = re.compile(r"([a-z_ ]+?) (\d+)(?:, |$)")
_DIVIDED = re.compile(
    r"With training\.distributed_optimizer true(?: and checkpoint\.format (.+?))?(?: and recomputation (\w+))? it needs "
)
_NEAREST = re.compile(r"The nearest layout that fits is (.+?)(?: and recomputation (\w+))?: ")
_OFFLOADED = re.compile(
    r"With ((?:[\w.]+ [\w-]+)(?: and [\w.]+ [\w-]+)*), ((?:[a-z ]+ \d+, )*[a-z ]+ \d+|all degrees 1) fits: "
)
_WITHOUT_VALUES = ("No degrees tried on these GPUs fit", "Use more GPUs")
_PART = re.compile(r"([\w.]+) ([\w-]+)(?: and |$)")

Way = dict[str, Any]
"""Values by dotted path in the scenario."""


def _ways_to_meet(check: TargetCheck) -> Iterator[Way]:
    """The values that a remedy names, each of which alone meets the target, and those of guesses that do."""
    remedy = check.remedy or ""
    if remedy.endswith(" would meet it"):
        _, *others = remedy.split("; with ")
        for way in (way for wanted in others or [remedy] for way in wanted.split(", or ")):
            values: Way = {_FIELDS.get(name, name): value for name, value in _VALUE.findall(way)}
            values |= {"checkpoint.cached_plans": True} if CACHED_PLANS in way else {}
            assert values, remedy
            yield values
    for field, values_of_guess in check.met_with.items():
        yield from ({field: value} for value in values_of_guess)


def _ways_to_run(report: SizingReport) -> Iterator[Way]:
    """What the sentences behind "To run" set. One that names no value is among those that are known to name none."""
    for sentence in re.split(r"\. (?=[A-Z])", report.training.remedy or ""):
        if divided := _DIVIDED.match(sentence):
            recomputed = {"training.recomputation": divided[2]} if divided[2] else {}
            for name in (divided[1] or "").split(" or "):
                in_format = {"checkpoint.format": name} if name else {}
                yield {"training.distributed_optimizer": True} | in_format | recomputed
        elif nearest := _NEAREST.match(sentence):
            recomputed = {"training.recomputation": nearest[2]} if nearest[2] else {}
            yield {"parallelism": _degrees(nearest[1])} | recomputed
        elif offloaded := _OFFLOADED.match(sentence):
            parts = {
                name.replace("recomputation", "training.recomputation"): value
                for name, value in _PART.findall(offloaded[1])
            }
            yield {"parallelism": _degrees(offloaded[2])} | parts
        else:
            assert sentence.startswith(_WITHOUT_VALUES), sentence


def _degrees(words: str) -> dict[str, int]:
    return (
        {}
        if words == "all degrees 1"
        else {name.replace(" ", "_"): int(value) for name, value in _DEGREE.findall(words)}
    )


def _follow(document: dict[str, Any], report: SizingReport) -> Counter[str]:
    """Type back each remedy of an answer; count them by what they are for."""
    num_followed: Counter[str] = Counter()
    for check in report.targets:
        if check.met is not False:
            continue
        for way in _ways_to_meet(check):
            found = {each.target: each for each in answer(with_fields(document, way)).targets}
            after = found[check.target]
            assert after.met, f"{check.target} is {after.found} for {check.wanted} with {way}"
            if way.keys().isdisjoint(check.met_with):
                broken = [each.target for each in report.targets if each.met and found[each.target].met is False]
                assert not broken, f"{way} for {check.target} breaks {broken}"
            num_followed[check.target] += 1
    if report.training.cannot_run:
        for way in _ways_to_run(report):
            cannot_run = answer(with_fields(document, way)).training.cannot_run
            assert cannot_run is None, f"{way}: {cannot_run}"
            num_followed["run"] += 1
    return num_followed


def _hold(seeds: Iterable[int]) -> Counter[str]:
    num_followed: Counter[str] = Counter()
    for seed in seeds:
        document = drawn(seed)
        try:
            report = answer(document)
        except InvalidInput:
            continue
        try:
            num_followed += _follow(document, report)
        except Exception as error:
            error.add_note(repeated(seed, document))
            raise
    return num_followed


def test_a_remedy_that_an_answer_prints_does_what_it_says_when_it_is_typed_back() -> None:
    num_followed = _hold(_DEFAULT_SEEDS)
    assert {"max_overhead_fraction", "min_goodput_fraction", "run"} <= num_followed.keys()


@pytest.mark.parametrize("framework", ["fsdp2", "torchtitan"])
def test_cached_plans_are_named_where_planning_alone_misses_a_target_and_meet_it(framework: str) -> None:
    """At 16,384 ranks that each plan every tensor, 405B of parameters."""
    document: dict[str, Any] = {
        "model": {"preset": "llama-3.1-405b"},
        "training": {"framework": framework},
        "parallelism": {"data": 16_384},
        "cluster": {"node": "dgx-h100"},
        "checkpoint": {"mode": "sync"},
        "targets": {"max_overhead_fraction": 0.05},
    }
    cached = {"checkpoint.cached_plans": True}
    assert [each.endswith(f"give {CACHED_PLANS}") for each in _not_met_at_any_bandwidth(document)] == [True]
    assert not _not_met_at_any_bandwidth(with_fields(document, cached))
    fast = with_fields(document, {"storage.profile.write_bytes_per_second": "2 TB/s"})
    (check,) = answer(fast).targets
    assert cached in list(_ways_to_meet(check))
    assert _follow(fast, answer(fast))["max_overhead_fraction"] > 1


def test_a_remedy_that_breaks_another_target_gives_way_to_one_that_meets_all() -> None:
    """The interval of the max goodput would miss the overhead, as plans of 4,096 ranks stall each save."""
    document: dict[str, Any] = {
        "model": {"preset": "deepseek-v3"},
        "training": {"framework": "megatron", "distributed_optimizer": True},
        "parallelism": {"pipeline": 16, "expert": 64, "data": 256},
        "cluster": {"node": "dgx-h200"},
        "checkpoint": {"format": "torch-dist", "mode": "async", "interval_seconds": "25min"},
        "storage": {"profile": {"write_bytes_per_second": "100 GB/s", "read_bytes_per_second": "200 GB/s"}},
        "reliability": {"failures_per_node_day": 0.0065, "relaunch_seconds": "5min", "detection_seconds": "1min"},
        "targets": {"min_goodput_fraction": 0.95, "max_overhead_fraction": 0.01},
    }
    (missed,) = (check for check in answer(document).targets if not check.met)
    assert missed.remedy == f"{CACHED_PLANS} would meet it"
    assert _follow(document, answer(document))["min_goodput_fraction"]
    allowed = with_fields(document, {"targets.max_overhead_fraction": 0.05})
    (missed,) = (check for check in answer(allowed).targets if not check.met)
    assert "one checkpoint every 14.6 min (at the interval asked for no bandwidth is enough), or " in (
        missed.remedy or ""
    )
    assert _follow(allowed, answer(allowed))["min_goodput_fraction"] > 1


def _not_met_at_any_bandwidth(document: dict[str, Any]) -> list[str]:
    return [each for each in answer(document).warnings if "is not met at any bandwidth" in each]


@pytest.mark.long
def test_remedies_of_many_scenarios_do_what_they_say_when_they_are_typed_back() -> None:
    num_followed = _hold(_LONG_SEEDS)
    assert {"max_overhead_fraction", "max_stall_seconds", "recovery_seconds", "min_goodput_fraction", "run"} <= (
        num_followed.keys()
    )


@pytest.mark.exhaustive(minutes=5)
def test_remedies_of_scenarios_never_drawn_before_do_so_too() -> None:
    _hold(range(FRESH_SEEDS, FRESH_SEEDS + 1000))
