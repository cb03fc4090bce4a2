"""Runs that share a target at the same time: each says that the other was there."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from io_bench.target.directory import DirectoryTarget
from io_bench.target.places import MANIFEST, Manifest
from io_bench.target.run_place import OtherRuns, make_place

if TYPE_CHECKING:
    from tests.io_bench.conftest import Bench

ENDLESS = ("--bytes-per-rank", "2MiB", "--engine", "torch-save", "--repetitions", "5000")


def test_two_runs_on_one_target_see_each_other(
    bench: Bench, target: Path, until: Callable[[Callable[[], object], subprocess.Popen[str]], None]
) -> None:
    def runs() -> set[str]:
        return {path.parent.name for path in target.glob("ckpt-bench-*/rank-*")}

    first = bench.start(bench.command("run", "--target", str(target), *ENDLESS))
    until(runs, first)
    (name_of_first,) = runs()
    second = bench.start(bench.command("run", "--target", str(target), *ENDLESS))
    until(lambda: len(runs()) == 2, second)
    (name_of_second,) = runs() - {name_of_first}
    said = []
    for process in (first, second):
        process.send_signal(signal.SIGINT)
        said.append(bench.finish(process).stderr)
    for said_by, name in zip(said, (name_of_second, name_of_first), strict=True):
        assert f"Run {name.removeprefix('ckpt-bench-')} of " in said_by
        assert "used this target at the same time" in said_by
    assert [path.name for path in target.iterdir()] == ["not-ours.bin"]


def test_a_run_that_has_ended_or_is_silent_is_no_company(target: Path) -> None:
    place = DirectoryTarget.checked(str(target))
    mine = Manifest.of_this_process("mine", files=[], is_kept=False)
    others: dict[str, dict[str, object]] = {"dead": {"pid": 2**22 + 1}, "elsewhere": {"process_table": "another boot"}}
    for run_id, changes in others.items():
        files = make_place(place, mine.model_copy(update={"run_id": run_id, **changes}))
        files.close()
    seen = OtherRuns(place, "mine")
    seen.look()
    (note,) = seen.notes
    assert note.startswith("Run elsewhere of ")
    (target / "ckpt-bench-elsewhere" / MANIFEST).unlink()
    later = OtherRuns(place, "mine")
    later.look()
    assert later.notes == []
