"""`ckpt-bench observe` reads a run's history off its files: replayed runs of known history come back within 5 %."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import torch

from io_bench.checks.observation import Observation, observation_of, observe_run
from io_bench.checks.observed_saves import FileTimes
from io_bench.commands.main import main
from sizing.errors import UnreadableFile
from sizing.frameworks import FRAMEWORKS
from sizing.state import Training
from sizing.units import SECONDS_PER_DAY
from tests.io_bench.replay import LAYOUTS, RANK_BYTES, STARTED_AT, History, removed, without_births
from tests.sizing.checkpoint_files import laid_folders
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


def test_the_share_of_time_for_saves_is_one_of_the_whole_run_in_the_model_too(real_run: Path) -> None:
    slow = {"model": {"num_parameters": 10**9}, "storage": {"profile": {"write_bytes_per_second": 100}}}
    found = observe_run(str(real_run), base=slow)
    (row,) = [row for row in found.comparison if row.figure.startswith("share of time for saves")]
    seconds = found.checkpoint_bytes / 100
    assert seconds > 600, "longer than the interval"
    assert (row.observed, row.model) == (near(20 / 600), near(seconds / (seconds + 580)))


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
    assert written["parallelism"] == {"tensor": "2"}
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
        ((".",), "holds no checkpoint in a folder or file that is named for its step"),
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


def one_file(name: str, number: int, *, size: int = RANK_BYTES) -> FileTimes:
    start = STARTED_AT + 600 * number
    return FileTimes(name, size, modified_at=start + 20, created_at=start)


@pytest.mark.parametrize(
    ("pattern", "numbers"),
    [
        ("ckpt_{}.pt", "steps"),
        ("model-{}.pt", "steps"),
        ("net_{}.pth", "steps"),
        ("run_step{:06}.pth", "steps"),
        ("checkpoint_epoch_{}.pth", "epochs"),
        ("epoch={}.ckpt", "epochs"),
        ("epoch=0-step={}.ckpt", "steps"),
    ],
)
def test_files_that_scripts_name_for_a_step_are_saves(pattern: str, numbers: str) -> None:
    found = seen([one_file(pattern.format(5 * number), number) for number in range(1, 5)])
    assert ([save.step for save in found.saves], found.numbers) == ([5, 10, 15, 20], numbers)
    assert (found.cadence_steps, found.interval_seconds, found.write_seconds) == (5, near(600), near(20))


def test_a_further_copy_of_the_last_save_counts_in_what_is_kept_and_written() -> None:
    files = [one_file(f"epoch=0-step={10 * number}.ckpt", number) for number in range(3, 6)]
    found = seen([*files, replace(files[-1], name="last.ckpt")])
    assert (found.kept_bytes, found.checkpoint_bytes) == (4 * RANK_BYTES, RANK_BYTES)
    assert found.written_bytes_per_day == near(2 * RANK_BYTES * SECONDS_PER_DAY / 600)
    assert any("last.ckpt holds a further copy" in note for note in found.notes)


def test_files_that_were_copied_in_another_order_tell_no_stops() -> None:
    """By their names, as `cp` and `rsync` go through a folder: step 1000 comes before step 200."""
    names = sorted(f"ckpt_{100 * number}.pt" for number in range(1, 13))
    found = seen([one_file(name, place) for place, name in enumerate(names)])
    assert (found.stops, found.mtbf_seconds, found.lost_fraction) == ((), None, None)
    assert any("lost all time that passed" in note and "rsync -t" in note for note in found.notes)


def test_a_link_to_a_save_that_is_there_holds_nothing_more(tmp_path: Path) -> None:
    for step in (10, 20):
        laid_folders.lightning(tmp_path / f"step={step}.ckpt", step=step)
    (tmp_path / "last.ckpt").symlink_to("step=20.ckpt")
    size = sum(path.stat().st_size for path in tmp_path.glob("step=*.ckpt"))
    assert observe_run(str(tmp_path), base=None).kept_bytes == size


def test_accelerate_counts_its_saves_and_not_steps() -> None:
    names = ("model.safetensors", "optimizer.bin", "random_states_0.pkl")
    found = seen([one_file(f"checkpoint_{number}/{name}", number) for number in range(5, 8) for name in names])
    assert (found.numbers, found.cadence_steps, found.interval_seconds) == ("saves", None, near(600))
    assert found.growth_bytes_per_day == 0.0
    assert any("counts its saves, not steps" in note for note in found.notes)


@pytest.mark.parametrize("steps", [(500, 1900, 2400, 5000, 5100), (500, 9500, 10_000), (100, 200, 300)])
def test_saves_of_a_limited_number_are_no_growth(steps: tuple[int, ...]) -> None:
    """The best few by a metric, the best one beside the newest, and the first few before the limit is reached."""
    found = seen([one_file(f"epoch=0-step={step}.ckpt", step // 100) for step in steps])
    assert not found.growth_bytes_per_day
    assert any("not known" in note for note in found.notes)


def test_an_interrupted_newest_save_is_flagged() -> None:
    names = ("model.safetensors", "optimizer.pt", "scheduler.pt", "rng_state.pth", "trainer_state.json")
    files = [one_file(f"checkpoint-{step}/{name}", step) for step in (1, 2, 3) for name in names]
    without = [file for file in files if file.name != "checkpoint-3/optimizer.pt"]
    found = seen(without)
    assert [save.is_finished for save in found.saves] == [True, True, False]
    assert any("The save of checkpoint-3 is not finished: optimizer.pt is missing" in note for note in found.notes)
    numbers = [one_file(f"checkpoint-{step}/rng_state.pth", step, size=14_000) for step in (1, 2)]
    others = [file for file in files if "rng_state" not in file.name]
    assert all(save.is_finished for save in seen([*others, *numbers]).saves), "a run goes on without it"
    short = [one_file(f"ckpt_{step}.pt", step, size=RANK_BYTES // (1 + (step == 3))) for step in (1, 2, 3)]
    assert [save.is_finished for save in seen(short).saves] == [True, True, False]
    assert any("it has 0.5 x the bytes of those before it" in note for note in seen(short).notes)


def test_saves_of_several_runs_in_one_folder_are_flagged() -> None:
    of_bytes = [one_file(f"ckpt_{step}.pt", step, size=RANK_BYTES // (1 + (step == 2))) for step in range(1, 6)]
    assert any("Saves differ in bytes from the others" in note for note in seen(of_bytes).notes)
    left = [
        *(one_file(f"ckpt_{step}.pt", step) for step in range(5, 9)),
        *(one_file(f"ckpt_{s}.pt", 20 + s) for s in (1, 2)),
    ]
    assert any("of an earlier attempt or run" in note for note in seen(left).notes)
    zero = [one_file("global_step10/bf16_zero_pp_rank_0_mp_rank_00_optim_states.pt", 10)]
    zero.append(one_file("global_step10/mp_rank_00_model_states.pt", 10))
    trainer = [one_file(f"checkpoint-20/{name}", 20) for name in ("model.safetensors", "trainer_state.json")]
    assert any("laid out in several ways" in note for note in seen([*zero, *trainer]).notes)


def test_an_adapter_is_observed_without_a_model(tmp_path: Path) -> None:
    for step in (10, 20):
        folder = laid_folders.trainer(tmp_path / f"checkpoint-{step}")
        (folder / "model.safetensors").rename(folder / "adapter_model.safetensors")
        (folder / "adapter_config.json").write_text('{"r": 4}')
    found = observe_run(str(tmp_path), base=None)
    assert (len(found.saves), found.scenario) == (2, None)
    assert any("is an adapter" in note for note in found.notes)


def test_a_save_of_two_files_beside_others_is_observed_without_a_model(tmp_path: Path) -> None:
    for step in (5, 10):
        for what in ("model", "optimizer"):
            laid_folders.script(tmp_path / f"{what}_{step}.pt")
    found = observe_run(str(tmp_path), base=None)
    assert ([save.num_files for save in found.saves], found.scenario) == ([2, 2], None)
    assert any("is in 2 files beside those of others" in note for note in found.notes)


def test_the_model_counts_what_containers_and_small_state_add(tmp_path: Path) -> None:
    for step in (10, 20):
        laid_folders.trainer(tmp_path / f"checkpoint-{step}")
    (row, *_) = observe_run(str(tmp_path), base=None).comparison
    assert row.model is not None
    assert row.model > 12 * laid_folders.num_parameters()
    # The files beside them are small stand-ins here; counted are those of real runs.
    counted = FRAMEWORKS["transformers"].small_files_of(Training(framework="transformers"), "hf-trainer", 1)
    tensors = sum((tmp_path / "checkpoint-10" / name).stat().st_size for name in ("model.safetensors", "optimizer.pt"))
    assert row.model - sum(each.num_bytes for each in counted) == pytest.approx(tensors, rel=0.02)


@pytest.mark.parametrize(("stage", "is_exported"), [(1, True), (2, True), (3, False)])
def test_weights_that_trainer_writes_beside_zero_are_an_export_of_each_save(
    tmp_path: Path, stage: int, *, is_exported: bool
) -> None:
    for step in (10, 20):
        folder = laid_folders.trainer_with_deepspeed(tmp_path / f"checkpoint-{step}", stage=stage)
        for path in folder.rglob("*"):
            os.utime(path, (STARTED_AT + 60 * step, STARTED_AT + 60 * step))
    found = observe_run(str(tmp_path), base=None)
    assert found.scenario is not None
    checkpoint = found.scenario["checkpoint"]
    size = (tmp_path / "checkpoint-10" / "model.safetensors").stat().st_size if is_exported else 0
    assert checkpoint.get("export") == ({"every": 1, "dtype": "fp32", "keep": 2} if is_exported else None)
    assert checkpoint["observed_bytes"] == found.checkpoint_bytes - size
    (_, *_, per_day, kept) = found.comparison
    assert per_day.model == pytest.approx(per_day.observed, rel=0.05)
    assert kept.model == pytest.approx(1.5 * found.kept_bytes, rel=0.01), "with one in flight"
