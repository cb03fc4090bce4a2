"""One process that writes all by itself: what it does is a guess with a range, unless it is given or was measured."""

from __future__ import annotations

from typing import Any

import pytest

from sizing.present.guesses import MARK
from sizing.published import published
from sizing.questions.answer.first_screen import first_screen
from sizing.ranges import plausible_range
from sizing.report import SizingReport, answer
from sizing.run.workload import ONE_PROCESS
from sizing.storage.calibration import calibrate
from sizing.storage.profile import StorageProfile
from sizing.storage.rates import Rates
from tests.sizing.run.scenarios import report, write_of
from tests.sizing.storage.calibration.simulation import result

LOGGED_SECONDS = 313.0
"""Of a full state dict of gemma-3-12b with Adam, by rank 0 of 16 GPUs, as the log of a run has it."""
FULL: dict[str, Any] = {
    "model": {"preset": "gemma-3-12b"},
    "training": {"framework": "fsdp2"},
    "parallelism": {"data": 16},
    "cluster": {"node": "hgx-h200"},
    "checkpoint": {"format": "full", "interval_seconds": "3min"},
    "storage": {"profile": {"node_write_bytes_per_second": "5 GB/s"}},
}
EXPORT: dict[str, Any] = {
    "training": {"framework": "fsdp2"},
    "checkpoint": {"format": "fsdp-sharded", "export": {"every": 1, "written_by": "rank-0"}},
    "storage": {"profile": {"write_bytes_per_second": "100 GB/s"}},
}


def assumed(found: SizingReport) -> dict[str, Any]:
    return {row.field: row.value for row in found.assumptions}


def with_rates(**rates: Any) -> dict[str, Any]:
    return FULL | {"storage": {"profile": FULL["storage"]["profile"] | rates}}


def test_a_full_state_dict_takes_as_long_as_one_process() -> None:
    found = answer(FULL)
    write = write_of(found)
    assert write.bottleneck == "writer"
    assert write.seconds == pytest.approx(LOGGED_SECONDS, rel=0.25)
    guess = next(guess for guess in found.guesses if guess.field == ONE_PROCESS)
    assert (guess.low, guess.high) == (0.34e9, 1e9)
    fastest, slowest = (found.checkpoint.written_bytes / rate for rate in (1e9, 0.34e9))
    assert fastest < LOGGED_SECONDS < slowest
    assert "write.seconds" in guess.moves


def test_the_first_screen_marks_the_time_and_names_the_guess() -> None:
    screen = first_screen(answer(FULL))
    row = next(row for row in screen.figures if row.label == "Write time")
    assert row.figure.startswith(MARK)
    assert "process write bandwidth" in screen.mark_meaning
    assert any(text.startswith("process write bandwidth 340.0 MB/s to 1.000 GB/s") for text in screen.guesses)


def test_published_rates_of_torch_save_lie_in_the_range() -> None:
    facts = published("checkpoint_times")["torchsnapshot"]["ddp"]
    rates = {facts["model_gb"] * 1e9 / row["torch_save_seconds"] for row in facts["rows"]}
    assert len(rates) == 2
    assert all(plausible_range(ONE_PROCESS).holds(rate) for rate in rates)


@pytest.mark.parametrize("framework", ["ddp", "transformers", "accelerate", "lightning"])
def test_trainers_whose_rank_0_writes_all_wait_for_it(framework: str) -> None:
    found = answer(FULL | {"training": {"framework": framework}, "checkpoint": {}})
    assert write_of(found).bottleneck == "writer"
    assert ONE_PROCESS in assumed(found)


@pytest.mark.parametrize("framework", ["fsdp2", "deepspeed", "megatron"])
def test_ranks_that_each_write_a_share_are_not_held_by_it(framework: str) -> None:
    found = answer(FULL | {"training": {"framework": framework}, "checkpoint": {}})
    assert ONE_PROCESS not in assumed(found)
    assert {limit.resource for limit in write_of(found).limits}.isdisjoint({"writer"})


def test_a_rate_that_is_given_replaces_it() -> None:
    for rates in ({"process_write_bytes_per_second": "0.5 GB/s"}, {"writer_write_bytes_per_second": "0.5 GB/s"}):
        found = answer(with_rates(**rates))
        assert write_of(found).seconds == pytest.approx(found.checkpoint.written_bytes / 0.5e9, rel=1e-3)
        assert ONE_PROCESS not in assumed(found)
    both = answer(with_rates(process_write_bytes_per_second="2 GB/s", writer_write_bytes_per_second="0.5 GB/s"))
    assert write_of(both).seconds == pytest.approx(both.checkpoint.written_bytes / 0.5e9, rel=1e-3)


def test_an_export_by_rank_0_is_written_by_one_process_and_the_shards_are_not() -> None:
    found = answer(FULL | EXPORT)
    assert found.export is not None
    assert found.export.write_seconds == pytest.approx(found.export.num_bytes / plausible_range(ONE_PROCESS).midpoint)
    guess = next(guess for guess in found.guesses if guess.field == ONE_PROCESS)
    assert "export.seconds" in guess.moves
    assert "write.seconds" not in guess.moves
    row = next(row for row in first_screen(found).figures if row.label == "Export")
    assert row.figure.startswith(MARK)
    every = {"format": "fsdp-sharded", "export": {"every": 1, "written_by": "every-rank"}}
    assert ONE_PROCESS not in assumed(answer(FULL | EXPORT | {"checkpoint": every}))


def test_no_storage_meets_what_one_process_misses() -> None:
    assert answer(FULL).required.write_bytes_per_second is None
    asked = report(FULL, checkpoint={"interval_seconds": "4h"})
    rate = asked.required.write_bytes_per_second
    assert rate is not None
    met = report(FULL, checkpoint={"interval_seconds": "4h"}, storage={"profile": {"write_bytes_per_second": rate}})
    assert met.targets[0].met
    unknown = answer({name: block for name, block in FULL.items() if name != "storage"})
    (warning,) = [text for text in unknown.warnings if "at any bandwidth" in text]
    assert "the process that writes all (assumed 583.1 MB/s, may be 340.0 MB/s to 1.000 GB/s)" in warning


@pytest.mark.parametrize(
    ("engine", "num_ranks", "is_assumed"), [("torch-save", 1, False), ("torch-save", 8, True), ("direct", 1, True)]
)
def test_a_lone_process_of_torch_save_measures_it(engine: str, num_ranks: int, is_assumed: bool) -> None:
    measured = {"run_id": "a", "engine": engine, "num_nodes": 1, "num_ranks": num_ranks}
    assert (ONE_PROCESS in assumed(answer(with_rates(measured=measured)))) is is_assumed


@pytest.mark.parametrize("engine", ["torch-save", "direct"])
def test_calibrated_runs_give_the_rate_and_those_that_do_not_pickle_are_warned_of(engine: str) -> None:
    calibration = calibrate([result(noise=0.01, outliers=0, engine=engine)], num_draws=50).model_dump(mode="json")
    found = answer(FULL | {"storage": {"calibration": calibration}})
    assert write_of(found).seconds == pytest.approx(found.checkpoint.written_bytes / 1.1e9, rel=0.1)
    assert any("did not write as it does" in text for text in found.warnings) is (engine == "direct")


def test_a_calibration_by_one_process_on_each_node_needs_no_guess() -> None:
    cells = [(nodes, 1, size * 10**9) for nodes in (1, 2, 4, 8) for size in (1, 4)]
    fast = StorageProfile.of(write=Rates(node_bytes_per_second=2e9))
    runs = result(cells, truth=fast, noise=0.01, outliers=0, operations=("write",), engine="torch-save")
    found = answer(FULL | {"storage": {"calibration": calibrate([runs], num_draws=50).model_dump(mode="json")}})
    assert ONE_PROCESS not in assumed(found)
    assert write_of(found).seconds == pytest.approx(found.checkpoint.written_bytes / 2e9, rel=0.1)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_scenarios_of_then_keep_their_time(version: int) -> None:
    found = answer(FULL | {"schema_version": version})
    assert write_of(found).seconds == pytest.approx(found.checkpoint.written_bytes / 5e9, rel=1e-3)
    assert ONE_PROCESS not in assumed(found)
