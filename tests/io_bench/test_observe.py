"""`ckpt-bench observe` reads a run's history off its files: replayed runs of known history come back within 5 %."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import torch

from io_bench.cli.main import main
from io_bench.observation.file_times import FileTimes
from io_bench.observation.observation import Observation, observation_of
from sizing.errors import UnreadableFile
from sizing.units import SECONDS_PER_DAY
from tests.io_bench.replay import LAYOUTS, RANK_BYTES, STARTED_AT, History, removed, without_births
from tests.testbed.file_systems import disk
from tests.testbed.terminal import ckpt_size, typed

if TYPE_CHECKING:
    from tests.conftest import Testbed

CLASSIC, TORCH_DIST, DEEPSPEED, TRAINER, NEMO = LAYOUTS
WITHIN = 0.05


def seen(files: list[FileTimes], **given: object) -> Observation:
    return observation_of(files, place="a-run", base=dict(given) or None)


def near(value: float) -> object:
    return pytest.approx(value, rel=WITHIN)


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.name)
def test_a_replayed_run_comes_back_within_5_percent(layout: object) -> None:
    history = History(layout, stops={2500: 2300.0, 4500: 900.0})  # type: ignore[arg-type]  # ids take objects
    found = seen(history.files())
    num_writers = 1 if layout is TRAINER else history.num_ranks
    assert (found.layout, found.times) == (history.layout.name, "birth and modification")
    assert (found.cadence_steps, found.num_writers) == (500, num_writers)
    assert found.interval_seconds == near(3600)
    assert found.write_seconds == near(80)
    assert found.checkpoint_bytes == near(num_writers * RANK_BYTES)
    assert found.write_bytes_per_second == near(num_writers * RANK_BYTES / 80)
    assert found.writer_bytes_per_second == near(RANK_BYTES / 80)
    assert found.growth_bytes_per_day == near(num_writers * RANK_BYTES * SECONDS_PER_DAY / 3600)
    assert found.written_bytes_per_day == found.growth_bytes_per_day
    assert [(stop.after_step, stop.before_step) for stop in found.stops] == [(2000, 2500), (4000, 4500)]
    assert [stop.lost_seconds for stop in found.stops] == [near(2300), pytest.approx(900, abs=WITHIN * 3600)]
    assert found.lost_fraction == near(3200 / (11 * 3600 + 3200))
    assert found.mtbf_seconds == near((11 * 3600 + 3200) / 2)
    assert found.stragglers == ()


def test_a_straggler_is_named_with_how_late_it_is() -> None:
    found = seen(History(CLASSIC, late={5: 1.6}).files())
    (late,) = found.stragglers
    assert late.writer == "mp_rank_01_002"
    assert late.ratio == near(1.6)
    assert found.write_seconds == near(1.6 * 80)


def test_without_births_durations_are_lower_bounds_and_said_to_be() -> None:
    history = History(CLASSIC)
    found = seen(without_births(history.files()))
    assert found.times == "modification"
    assert found.interval_seconds == near(3600)
    assert found.write_seconds is not None
    assert found.write_seconds < 80
    assert found.write_bytes_per_second is not None
    assert found.write_bytes_per_second > 8 * RANK_BYTES / 80
    assert (found.writer_bytes_per_second, found.stragglers) == (None, ())
    assert any("lower bounds" in note for note in found.notes)


def test_saves_that_a_later_attempt_wrote_over_show_the_steps_that_were_done_again() -> None:
    """Steps 1500 and 2000 are saved; the run dies, goes on from 1000 four hours after the last save, and repeats."""
    history = History(TORCH_DIST, num_saves=4, jitter=0.0)
    starts = history.starts()
    again = {1500: starts[2000] + 4 * 3600, 2000: starts[2000] + 5 * 3600, 2500: starts[2000] + 6 * 3600}
    files = [
        replace(file, created_at=first.created_at)
        for step, start in again.items()
        for file, first in zip(
            history.of_step(step, start), history.of_step(step, starts.get(step, start)), strict=True
        )
    ]
    found = seen([*removed(history.files(), [1500, 2000], TORCH_DIST), *files])
    assert [save.step for save in found.saves if save.was_written_again] == [1500, 2000]
    (stop,) = found.stops
    assert (stop.after_step, stop.before_step, stop.redone_steps) == (2000, 1500, 1000)
    assert stop.lost_seconds == near(5 * 3600)
    assert found.write_seconds == near(80)
    assert found.interval_seconds == near(3600)


def test_a_save_that_was_interrupted_and_repeated_is_one_stop() -> None:
    history = History(DEEPSPEED, num_saves=6, jitter=0.0)
    starts = history.starts()
    late = [
        replace(file, modified_at=file.modified_at + 3600 + 700) if file.name.startswith("global_step3000/") else file
        for file in history.files()
    ]
    found = seen(late)
    (stop,) = found.stops
    assert (stop.after_step, stop.before_step, stop.redone_steps) == (3000, 3000, 500)
    assert stop.lost_seconds == near(3600 + 700)
    assert found.run_seconds == near(starts[3000] - starts[500] + 3600 + 700)


def test_saves_removed_by_retention_are_no_stops_and_tell_what_stays() -> None:
    history = History(CLASSIC, num_saves=44)
    steps = [500 * number for number in range(1, 45)]
    gone = [step for step in steps[:-3] if step % 5000]
    found = seen(removed(history.files(), gone, CLASSIC))
    assert (found.cadence_steps, found.kept_last, found.kept_every_steps) == (500, 3, 5000)
    assert found.stops == ()
    assert found.growth_bytes_per_day == near(8 * RANK_BYTES * SECONDS_PER_DAY / (10 * 3600))
    assert found.written_bytes_per_day == near(8 * RANK_BYTES * SECONDS_PER_DAY / 3600)


def test_a_run_that_keeps_its_newest_saves_alone_does_not_grow() -> None:
    history = History(TRAINER)
    found = seen(removed(history.files(), range(500, 5001, 500), TRAINER))
    assert (found.kept_last, found.kept_every_steps, found.growth_bytes_per_day) == (2, None, 0.0)
    assert found.interval_seconds == near(3600)


def test_saves_by_the_clock_have_an_interval_without_a_cadence() -> None:
    history, starts = History(NEMO), [0.0, 1800.0, 3600.0, 5400.0]
    steps = [410, 832, 1207, 1640]
    found = seen([f for s, t in zip(steps, starts, strict=True) for f in history.of_step(s, STARTED_AT + t)])
    assert (found.cadence_steps, found.interval_seconds) == (None, near(1800))


def test_a_save_of_torch_dcp_without_metadata_is_not_finished() -> None:
    files = [file for file in History(NEMO).files() if "step=6000-" not in file.name or "/.metadata" not in file.name]
    found = seen(files)
    assert [save.step for save in found.saves if not save.is_finished] == [6000]
    assert any("not finished (step 6000)" in note for note in found.notes)


def test_one_save_has_no_interval() -> None:
    found = seen(History(NEMO, num_saves=1).files())
    assert (found.interval_seconds, found.stops, found.lost_fraction) == (None, (), None)
    assert found.write_seconds == near(80)


def test_a_given_scenario_is_set_beside_what_was_observed_and_gets_it() -> None:
    found = seen(
        History(TORCH_DIST, stops={2500: 2300.0}).files(),
        model={"num_parameters": 8 * RANK_BYTES // 14},
        parallelism={"data": 8},
        reliability={"failures_per_node_day": 0.01, "detection_seconds": 5},
        storage={"profile": {"write_bytes_per_second": 8 * RANK_BYTES / 100}},
    )
    assert found.scenario is not None
    checkpoint, reliability = found.scenario["checkpoint"], found.scenario["reliability"]
    assert checkpoint["observed_bytes"] == found.checkpoint_bytes
    assert checkpoint["interval_seconds"] == near(3600)
    assert checkpoint["observed_write_bytes_per_second"] == near(8 * RANK_BYTES / 80)
    assert reliability == {"detection_seconds": 5, "mtbf_seconds": near(11 * 3600 + 2300)}
    rows = {row.figure: row for row in found.comparison}
    assert rows["size of a checkpoint"].model == near(8 * RANK_BYTES)
    assert rows["ranks that write"].model == 8
    assert (rows["time of a save"].observed, rows["time of a save"].model) == (near(80), near(100))
    assert all(row.model is not None for row in found.comparison)


def test_saves_of_two_runs_are_refused() -> None:
    files = [replace(file, name=f"{run}/{file.name}") for run in "ab" for file in History(NEMO).files()]
    with pytest.raises(UnreadableFile, match=r"holds the saves of 2 runs \(a to b\): give one of them"):
        seen(files)


@pytest.fixture
def real_run(tmp_path: Path, testbed: Testbed) -> Path:
    """Saves of torch on a disk, whose inodes were then given the births of a schedule: every 10 min, 20 s each."""
    small = testbed(disk(tmp_path, num_bytes=32 << 20))
    births = {}
    for number in range(1, 5):
        start = STARTED_AT + 600 * number
        for rank in range(2):
            path = small.path / "run" / f"iter_{100 * number:07}" / f"mp_rank_{rank:02}" / "model_optim_rng.pt"
            path.parent.mkdir(parents=True)
            weights = {"layer.weight": torch.full((64, 64), float(rank))}
            moments = {"state": {0: {"exp_avg": torch.ones(64, 64), "exp_avg_sq": torch.ones(64, 64)}}}
            torch.save({"model": weights, "optimizer": moments}, path)
            os.utime(path, (start + 20, start + 20))
            births[path] = start
    small.set_births(births)
    return small.path / "run"


def test_a_real_folder_is_read_off_by_its_births_and_goes_on_as_a_scenario(real_run: Path, tmp_path: Path) -> None:
    done = typed(main, "ckpt-bench", "observe", str(real_run), "--write-scenario", "s.json", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found = Observation.model_validate_json(done.stdout)
    assert (found.layout, found.times) == ("Megatron-LM classic", "birth and modification")
    assert (found.interval_seconds, found.write_seconds) == (near(600), near(20))
    written = json.loads((tmp_path / "s.json").read_text())
    assert written["model"] == {"num_parameters": str(2 * 64 * 64)}
    assert written["parallelism"] == {"tensor": 2, "pipeline": 1}
    assert written["storage"]["profile"]["write_bytes_per_second"] == near(found.checkpoint_bytes / 20)
    answered = ckpt_size("s.json", "--json", cwd=tmp_path)
    assert answered.returncode == 0, answered.stderr
    report = json.loads(answered.stdout)
    assert report["write"]["seconds"] == near(20)
    assert report["interval"]["interval_seconds"] == near(600)


def test_the_table_says_what_was_seen_and_what_is_only_a_bound(tmp_path: Path) -> None:
    for number in (1, 2, 3):
        path = tmp_path / "run" / f"checkpoint-{10 * number}" / "model.safetensors"
        path.parent.mkdir(parents=True)
        path.write_bytes(b"x" * 100)
        # Before it was created, as in a copy of a folder.
        os.utime(path, (STARTED_AT + 60 * number, STARTED_AT + 60 * number))
    done = typed(main, "ckpt-bench", "observe", "run", "--output", "seen.json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "run: 3 saves, steps 10 to 30, in 120.00 s." in done.stdout
    assert "every 10 steps" in done.stdout
    assert "note: The birth of files is not known" in done.stdout
    assert "give --scenario FILE" in done.stdout
    assert Observation.model_validate_json((tmp_path / "seen.json").read_text()).interval_seconds == 60


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("absent",), "absent is not a folder: give the folder"),
        ((".",), "holds no checkpoint in a folder that is named for its step"),
        (("s3://",), "the URL must name a bucket"),
        ((".", "--scenario", "absent.json"), "absent.json cannot be read"),
    ],
)
def test_what_cannot_be_observed_is_refused(tmp_path: Path, arguments: tuple[str, ...], sentence: str) -> None:
    done = typed(main, "ckpt-bench", "observe", *arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert sentence in done.stderr


def test_a_scenario_is_not_written_without_a_model(tmp_path: Path) -> None:
    (tmp_path / "step-1").mkdir()
    (tmp_path / "step-1" / "a.pt").touch()
    done = typed(main, "ckpt-bench", "observe", ".", "--write-scenario", "s.json", cwd=tmp_path)
    assert done.returncode == 2
    assert "give --scenario FILE with the model" in done.stderr
    assert not (tmp_path / "s.json").exists()
