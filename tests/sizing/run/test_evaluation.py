"""Arrays give, row by row, what single answers give."""

import copy
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from sizing.report import SizingReport, answer
from sizing.run.evaluation import RunReport, evaluate
from sizing.run.figures import with_arrays
from sizing.scenario import REFERENCE_SCENARIO, scenario_from
from sizing.sized_layout import size_layout
from tests.examples import examples
from tests.sizing.run.scenarios import ARCHIVE, ASYNC, NVME, PEERS, tiered

PROFILE = {
    "write_bytes_per_second": (1e9, 1e13),
    "read_bytes_per_second": (1e9, 1e13),
    "node_write_bytes_per_second": (1e8, 1e11),
    "node_read_bytes_per_second": (1e8, 1e11),
    "writer_write_bytes_per_second": (1e7, 1e10),
    "device_to_host_bytes_per_second": (1e8, 1e11),
    "files_per_second": (10, 1e6),
    "fixed_write_seconds": (0, 10),
    "fixed_read_seconds": (0, 10),
}
OTHERS = {
    "checkpoint.interval_seconds": (1, 1e5),
    "reliability.detection_seconds": (0, 600),
    "reliability.failures_per_node_day": (1e-6, 1),
    "targets.max_overhead_fraction": (1e-4, 1),
    "targets.max_stall_seconds": (1e-2, 1e3),
    "targets.recovery_seconds": (1e-2, 1e3),
    "retention.keep_last": (1, 1000),
    "retention.keep_best": (0, 1000),
    "retention.keep_weights_every": (1, 1000),
    "retention.run_seconds": (1, 1e8),
    "retention.free_fraction": (0, 0.9),
    "retention.redundancy_fraction": (0, 3),
}
FIELDS = {f"storage.profile.{name}": bounds for name, bounds in PROFILE.items()} | OTHERS
NUM_ROWS = 3
ONLY_OF_ONE_ANSWER = {
    "limits",
    "parts",
    "strategies",
    "remedy",
    "write_obstacle",
    "found_interval",
    "met_at_range_ends",
    "missed_with",
    "met_with",
}
BASES: dict[str, tuple[dict[str, Any], dict[str, tuple[float, float]]]] = {
    "synchronous": (REFERENCE_SCENARIO, {"reliability.restart_seconds": (0, 3600)}),
    "asynchronous": (ASYNC, {"reliability.relaunch_seconds": (0, 3600)}),
    "tiers": (
        tiered(PEERS, NVME, ARCHIVE),
        {
            "checkpoint.interval_seconds": (2, 14),
            "checkpoint.tiers.0.interval_seconds": (1, 300),
            "checkpoint.tiers.1.interval_seconds": (2, 20),
            "checkpoint.tiers.0.recovered_fraction": (0, 0.5),
            "checkpoint.tiers.1.recovered_fraction": (0.5, 1),
            "checkpoint.tiers.2.storage.profile.write_bytes_per_second": (1e9, 1e12),
        },
    ),
}


def column(path: str, least: float, most: float) -> st.SearchStrategy[list[float]]:
    is_count = path.startswith("retention.keep_")
    values = st.integers(int(least), int(most)) if is_count else st.floats(least, most)
    return st.lists(values, min_size=NUM_ROWS, max_size=NUM_ROWS)


def document_of(base: dict[str, Any], row: dict[str, float]) -> dict[str, Any]:
    changed = copy.deepcopy(base)
    for path, value in row.items():
        *blocks, name = path.split(".")
        block: Any = changed
        for part in blocks:
            block = block[int(part)] if isinstance(block, list) else block.setdefault(part, {})
        block[name] = value
    return changed


@pytest.mark.parametrize("name", BASES)
@examples(40)
@given(data=st.data())
def test_each_row_of_arrays_is_its_own_answer(name: str, data: st.DataObject) -> None:
    base, more = BASES[name]
    values = data.draw(st.fixed_dictionaries({path: column(path, *bounds) for path, bounds in (FIELDS | more).items()}))
    if name == "tiers":
        make_whole_multiples(values)
    rows = [document_of(base, {path: column[i] for path, column in values.items()}) for i in range(NUM_ROWS)]
    first = scenario_from(rows[0])
    together = evaluate(size_layout(first).workload, with_arrays(first, values).run_inputs).report
    for index, row in enumerate(rows):
        assert_row_is_answer(together, index, answer(scenario_from(row)))


def make_whole_multiples(values: dict[str, list[float]]) -> None:
    """Of each interval of the one before: a document with others is refused."""
    before: list[float] = values["checkpoint.tiers.0.interval_seconds"]
    for path in ("checkpoint.tiers.1.interval_seconds", "checkpoint.interval_seconds"):
        values[path] = before = [round(number) * step for number, step in zip(values[path], before, strict=True)]


def assert_row_is_answer(together: RunReport, index: int, alone: SizingReport) -> None:
    blocks = ("write", "restore", "overhead", "interval", "required", "capacity")
    for name in blocks:
        compare(getattr(together, name), index, getattr(alone, name), name)
    for number, row_of_tier in enumerate(alone.tiers):
        compare(together.tiers[number], index, row_of_tier, row_of_tier.kind)
    for number, check in enumerate(alone.targets):
        compare(together.targets[number], index, check, check.target)


def compare(block: BaseModel, index: int, alone: BaseModel, path: str) -> None:
    """Field by field, but what one answer alone has: lists, and what would meet or miss a target."""
    for name in type(block).model_fields.keys() - ONLY_OF_ONE_ANSWER:
        found, expected = at(getattr(block, name), index), getattr(alone, name)
        if isinstance(expected, float):
            assert math.isclose(found, expected, rel_tol=1e-9, abs_tol=1e-12), f"{path}.{name}"
        elif expected is None:
            assert found is None or math.isnan(found), f"{path}.{name}"
        else:
            assert found == expected, f"{path}.{name}"


def at(value: Any, index: int) -> Any:
    return value[index] if isinstance(value, np.ndarray) and value.ndim else value


def test_arrays_broadcast_together() -> None:
    scenario = with_arrays(
        scenario_from(REFERENCE_SCENARIO),
        {
            "storage.profile.write_bytes_per_second": np.array([1e11, 1e12]),
            "checkpoint.interval_seconds": np.array([[600.0], [3600.0], [14400.0]]),
        },
    )
    figures = evaluate(size_layout(scenario).workload, scenario.run_inputs).report
    assert np.asarray(figures.interval.goodput_at_interval_fraction).shape == (3, 2)
    assert figures.write is not None
    assert np.asarray(figures.write.seconds) == pytest.approx([138.0, 13.8])
