"""What every answer keeps, whatever is asked: sums, bounds, what more bandwidth does, and that it can be read back."""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from sizing.errors import InvalidInput
from sizing.field_paths import with_field
from sizing.report import SizingReport, answer
from sizing.scenario import scenario_from
from tests.sizing.laws.scenarios import FRESH_SEEDS, repeated, with_answers

_DEFAULT_SEED = 3_000
_NUM = 15

Law = Callable[[dict[str, Any], SizingReport], None]


def parts_add_up(_: dict[str, Any], report: SizingReport) -> None:
    size = report.checkpoint
    assert size.total_bytes == size.logical_bytes + size.replicated_bytes
    assert sum(part.logical_bytes for part in size.parts.values()) == size.logical_bytes
    assert sum(part.replicated_bytes for part in size.parts.values()) == size.replicated_bytes
    assert bool(size.replicated) == (size.replicated_bytes > 0)
    by_class = sum(each.num_ranks * each.bytes_per_rank for each in report.layout.rank_classes)
    assert by_class == pytest.approx(size.written_bytes, abs=size.num_files)
    assert sum(each.num_ranks for each in report.layout.rank_classes) == report.layout.num_writers


def shares_of_the_time_add_to_one(_: dict[str, Any], report: SizingReport) -> None:
    shares = list(report.shares.model_dump().values())
    if None not in shares:
        assert sum(shares) == pytest.approx(1.0, abs=1e-9)
        assert min(shares) >= -1e-12


def no_interval_beats_the_best_one(document: dict[str, Any], report: SizingReport) -> None:
    """Neither the one asked for nor those beside the best, which is that of the interruptions that need a save.

    Others move it by next to nothing.
    """
    interval, reliability = report.interval, document.get("reliability", {})
    goodput, best = interval.goodput_at_optimum_fraction, interval.optimal_period_seconds
    if goodput is None or best is None:
        return
    is_exact = "preemption" not in reliability and reliability.get("strategy") not in {"peers", "shrink"}
    rounding = 1e-9 if is_exact else 5e-4
    found = [interval]
    if not report.tiers:  # whose intervals go whole times into that of the main storage
        for factor in (0.8, 1.25):
            with contextlib.suppress(InvalidInput):  # of no time, or of ages
                found.append(answer(with_field(document, "checkpoint.interval_seconds", factor * best)).interval)
    for each in found:
        if each.goodput_at_interval_fraction is not None:
            assert each.goodput_at_interval_fraction <= goodput * (1 + rounding), each


def it_is_json_that_is_read_back(document: dict[str, Any], report: SizingReport) -> None:
    text = report.model_dump_json()
    assert SizingReport.model_validate_json(text) == report
    for path, value in _numbers(json.loads(text), ""):
        assert math.isfinite(value), path
    again = scenario_from(json.loads(scenario_from(document).model_dump_json(exclude_unset=True)))
    assert answer(again) == report


def twice_the_rates_never_take_longer(document: dict[str, Any], report: SizingReport) -> None:
    faster = document
    for name, rate in document.get("storage", {}).get("profile", {}).items():
        if name.endswith("_bytes_per_second"):
            faster = with_field(faster, f"storage.profile.{name}", 2 * rate)
    found = answer(faster)
    if report.write is not None:
        assert found.write is not None
        assert found.write.seconds <= report.write.seconds * (1 + 1e-9)
    if report.restore.seconds is not None:
        assert found.restore.seconds is not None
        assert found.restore.seconds <= report.restore.seconds * (1 + 1e-9)


def data_and_bandwidth_leave_the_state_alone(document: dict[str, Any], report: SizingReport) -> None:
    """The state worth saving depends on the model alone, not on data ranks, failures or the storage."""
    few = {name: document[name] for name in ("model", "training", "parallelism", "cluster") if name in document}
    saved_as = {name: value for name, value in document["checkpoint"].items() if name in {"format", "mode"}}
    found = answer(few | {"checkpoint": saved_as})
    assert found.checkpoint.logical_bytes == report.checkpoint.logical_bytes
    assert {name: part.logical_bytes for name, part in found.checkpoint.parts.items()} == {
        name: part.logical_bytes for name, part in report.checkpoint.parts.items()
    }


_LAWS: tuple[Law, ...] = (
    parts_add_up,
    shares_of_the_time_add_to_one,
    no_interval_beats_the_best_one,
    it_is_json_that_is_read_back,
    twice_the_rates_never_take_longer,
    data_and_bandwidth_leave_the_state_alone,
)


def _numbers(value: Any, path: str) -> Iterator[tuple[str, float]]:
    if isinstance(value, dict):
        for name, part in value.items():
            yield from _numbers(part, f"{path}.{name}")
    elif isinstance(value, list):
        for place, part in enumerate(value):
            yield from _numbers(part, f"{path}.{place}")
    elif isinstance(value, float):
        yield path, value


def _hold(first_seed: int, num: int) -> None:
    for seed, document, report in with_answers(first_seed, num):
        for law in _LAWS:
            try:
                law(document, report)
            except Exception as error:
                error.add_note(f"{law.__name__}, {repeated(seed, document)}")
                raise


def test_random_scenarios_keep_the_laws() -> None:
    _hold(_DEFAULT_SEED, _NUM)


@pytest.mark.exhaustive(minutes=3)
def test_scenarios_never_drawn_before_keep_the_laws() -> None:
    _hold(FRESH_SEEDS, 40 * _NUM)
