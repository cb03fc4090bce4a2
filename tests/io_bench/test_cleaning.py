"""`ckpt-bench clean`: finds what killed runs have left, removes exactly that, and keeps away from all else."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest
import s3fs
from pydantic import ValidationError

from io_bench.commands.main import main
from io_bench.target.directory import DirectoryTarget, RunDirectory
from io_bench.target.places import MANIFEST, SECONDS_UNTIL_PRESUMED_DEAD, Manifest, beating, place_of
from io_bench.target.run_place import make_place
from tests.testbed.processes import until
from tests.testbed.seaweedfs import ObjectServer, seaweedfs

if TYPE_CHECKING:
    from tests.conftest import Testbed
    from tests.io_bench.conftest import Bench, Tree

Clean = Callable[..., tuple[int, str, str]]


@pytest.fixture
def clean(capsys: pytest.CaptureFixture[str]) -> Clean:
    """Run the verb in this process: exit code, stdout, stderr."""

    def run(target: object, *flags: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as end:
            main(["clean", "--target", str(target), *flags])
        said = capsys.readouterr()
        return int(end.value.code or 0), said.out, said.err

    return run


@pytest.fixture
def dead() -> int:
    """The process id of a process that has ended."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


@pytest.fixture
def left(target: Path, dead: int) -> Callable[..., Path]:
    """Make a directory as a run leaves it whose processes were all killed."""

    def make(run_id: str, *names: str, seconds_ago: float = 0.0, **changes: object) -> Path:
        manifest = Manifest.of_this_process(run_id, files=["rank-00000.pt", "rank-00001.pt"], is_kept=False)
        files = make_place(DirectoryTarget.checked(str(target)), manifest)
        files.close()
        path = Path(files.title)
        document = json.loads(manifest.model_copy(update={"pid": dead} | changes).model_dump_json())
        (path / MANIFEST).write_text(json.dumps(document))
        for name in names or ("rank-00000.pt",):
            (path / name).write_bytes(b"payload")
        then = time.time() - seconds_ago
        os.utime(path / MANIFEST, (then, then))
        return path

    return make


def test_what_a_run_of_which_all_ranks_were_killed_has_left_is_removed(
    bench: Bench,
    target: Path,
    tree: Callable[[Path], Tree],
    until: Callable[[Callable[[], object], subprocess.Popen[str]], None],
    clean: Clean,
) -> None:
    before = tree(target), tree(bench.directory)
    flags = ("--bytes-per-rank", "8MiB", "--repetitions", "5000")
    process = bench.start(bench.command("run", "--target", str(target), *flags, num_ranks=2))
    until(lambda: len(list(target.glob("ckpt-bench-*/rank-*"))) == 2, process)
    code, _, said = clean(target)
    assert code == 0
    assert "is alive." in said
    assert list(target.glob("ckpt-bench-*/rank-*"))
    for rank in (psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)):
        rank.kill()
    process.communicate()
    assert tree(target) != before[0]
    code, out, _ = clean(target)
    assert code == 0
    assert "Removed the files of 1 run" in out
    assert (tree(target), tree(bench.directory)) == before


def test_a_target_without_leftovers_is_said_to_be_clean(target: Path, clean: Clean) -> None:
    assert clean(target) == (0, f"No files of runs in {target}.\n", "")


def test_a_dry_run_changes_nothing(
    target: Path, left: Callable[..., Path], clean: Clean, tree: Callable[[Path], Tree]
) -> None:
    left("one")
    before = tree(target)
    code, out, _ = clean(target, "--dry-run")
    assert code == 0
    assert "Would remove the files of 1 run" in out
    assert tree(target) == before


def test_one_run_is_removed_and_the_other_stays(target: Path, left: Callable[..., Path], clean: Clean) -> None:
    one, other = left("one"), left("other")
    assert clean(target, "--run-id", "one")[0] == 0
    assert (one.exists(), other.exists()) == (False, True)


def test_a_file_that_the_manifest_does_not_name_keeps_its_directory(
    target: Path, left: Callable[..., Path], clean: Clean
) -> None:
    path = left("one", "rank-00000.pt", "rank-00001.pt", "diary.txt")
    code, _, said = clean(target)
    assert code == 1
    assert f"{path} was not removed: it holds diary.txt, which this run did not create." in said
    assert {file.name for file in path.iterdir()} == {MANIFEST, "diary.txt"}


def test_a_kept_checkpoint_goes_only_when_asked_for(target: Path, left: Callable[..., Path], clean: Clean) -> None:
    path = left("kept", is_kept=True)
    code, out, said = clean(target)
    assert (code, path.exists()) == (0, True)
    assert "Nothing to remove." in out
    assert "it was run with --keep. Remove it with --run-id kept." in said
    assert clean(target, "--run-id", "kept")[0] == 0
    assert not path.exists()


def test_a_run_that_cannot_be_seen_counts_as_alive_until_it_is_silent(
    target: Path, left: Callable[..., Path], clean: Clean
) -> None:
    elsewhere = {"process_table": "another machine", "host": "n7"}
    fresh = left("fresh", **elsewhere)
    silent = left("silent", seconds_ago=SECONDS_UNTIL_PRESUMED_DEAD + 60, **elsewhere)
    code, _, said = clean(target)
    assert (code, fresh.exists(), silent.exists()) == (0, True, False)
    assert "on n7 is not visible from here" in said
    code, _, said = clean(target, "--run-id", "fresh")
    assert (code, fresh.exists()) == (2, True)
    assert "must be a run whose files may be removed" in said


def test_a_run_that_beats_is_alive(target: Path, left: Callable[..., Path]) -> None:
    path = left("far", seconds_ago=SECONDS_UNTIL_PRESUMED_DEAD + 60, process_table="another machine")
    checked, files = DirectoryTarget.checked(str(target)), RunDirectory(path)
    assert place_of(checked, "far").state == "left"
    beats = []

    def beat() -> None:
        files.touch(MANIFEST)
        beats.append(1)

    with beating(beat, every_seconds=0.001):
        until(lambda: beats)
    assert place_of(checked, "far").state == "running"
    assert "heartbeat" not in [thread.name for thread in threading.enumerate()]
    files.close()


def test_a_file_that_a_run_removes_while_it_is_looked_at_counts_nothing(
    target: Path, left: Callable[..., Path], clean: Clean, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, names = left("busy", "rank-00000.pt", pid=os.getpid()), RunDirectory.names

    def listed_then_removed(files: RunDirectory) -> list[str]:
        found = names(files)
        (path / "rank-00000.pt").unlink(missing_ok=True)
        return found

    monkeypatch.setattr(RunDirectory, "names", listed_then_removed)
    code, _, said = clean(target)
    assert (code, path.exists()) == (0, True)
    assert "is alive." in said


def test_runs_that_end_while_they_are_looked_at_are_left_out(
    target: Path, left: Callable[..., Path], clean: Clean, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = left("one")
    monkeypatch.setattr(DirectoryTarget, "run_ids", lambda _: ["gone", "one"])
    code, out, _ = clean(target)
    assert (code, path.exists()) == (0, False)
    assert "Removed the files of 1 run" in out


def test_a_heart_that_cannot_beat_does_not_end_the_run(target: Path) -> None:
    calls = []

    def fail() -> None:
        calls.append(1)
        raise PermissionError

    with beating(fail, every_seconds=0.001):
        until(lambda: len(calls) >= 2)
    assert target.exists()


@pytest.mark.parametrize("content", ["", "{", '{"run_id": "one"}', "[]"])
def test_a_manifest_that_is_none_saves_all_files_beside_it(content: str, target: Path, clean: Clean) -> None:
    path = target / "ckpt-bench-one"
    path.mkdir()
    (path / MANIFEST).write_text(content)
    (path / "rank-00000.pt").write_bytes(b"precious")
    code, _, said = clean(target)
    assert code == 0
    assert "it has no manifest" in said
    assert len(list(path.iterdir())) == 2


@pytest.mark.parametrize("content", [None, "", '{"run_id'])
def test_a_directory_that_was_only_begun_goes_once_it_is_old(content: str | None, target: Path, clean: Clean) -> None:
    path = target / "ckpt-bench-one"
    path.mkdir()
    if content is not None:
        (path / MANIFEST).write_text(content)
    assert "it is new" in clean(target)[2]
    then = time.time() - SECONDS_UNTIL_PRESUMED_DEAD - 60
    for place in (*path.iterdir(), path):
        os.utime(place, (then, then))
    assert clean(target)[0] == 0
    assert not path.exists()


def test_a_manifest_of_another_run_is_not_believed(target: Path, left: Callable[..., Path], clean: Clean) -> None:
    path = left("two").rename(target / "ckpt-bench-one")
    assert "its manifest is of run two" in clean(target)[2]
    assert path.exists()


def test_links_are_not_followed(target: Path, left: Callable[..., Path], clean: Clean, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    left("one").rename(elsewhere)
    (target / "ckpt-bench-one").symlink_to(elsewhere)
    assert "No files of runs" in clean(target)[1]
    assert len(list(elsewhere.iterdir())) == 2


@pytest.mark.parametrize("name", ["", ".", "..", "../not-ours.bin", "a/b", "/etc/passwd", "a\0b"])
def test_a_manifest_names_files_of_its_own_directory_alone(name: str) -> None:
    with pytest.raises(ValidationError):
        Manifest.of_this_process("one", files=[name], is_kept=False)


def test_a_directory_that_cannot_be_changed_is_said_to_stay(
    target: Path, left: Callable[..., Path], clean: Clean
) -> None:
    path = left("one")
    subprocess.run(["chattr", "+i", path], check=True)
    try:
        code, _, said = clean(target)
    finally:
        subprocess.run(["chattr", "-i", path], check=True)
    assert code == 1
    assert f"{path} could not be removed: Operation not permitted." in said


@pytest.mark.parametrize(("run_id", "words"), [("nobody", "must be a run with files in"), ("../..", "must be a run")])
def test_a_run_that_is_not_there_is_refused(run_id: str, words: str, target: Path, clean: Clean) -> None:
    code, out, said = clean(target, "--run-id", run_id)
    assert (code, out) == (2, "")
    assert words in said


@pytest.fixture
def store(tmp_path: Path, testbed: Testbed, monkeypatch: pytest.MonkeyPatch) -> ObjectServer:
    server = testbed(seaweedfs(tmp_path))
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    return server


@pytest.mark.long
def test_objects_of_a_run_that_was_killed_are_removed_and_others_stay(
    store: ObjectServer,
    bench: Bench,
    clean: Clean,
    until: Callable[[Callable[[], object], subprocess.Popen[str]], None],
) -> None:
    bucket = s3fs.S3FileSystem(use_listings_cache=False, endpoint_url=store.environment["AWS_ENDPOINT_URL"])
    bucket.mkdir("bucket")
    bucket.pipe("bucket/prefix/not-ours.bin", b"precious")
    flags = ("--bytes-per-rank", "20MiB", "--repetitions", "5000")
    process = bench.start(bench.command("run", "--target", "s3://bucket/prefix", *flags))
    until(lambda: any("rank-00000" in path for path in bucket.find("bucket")), process)
    assert "is alive." in clean("s3://bucket/prefix")[2]
    process.kill()
    process.communicate()
    assert len(bucket.find("bucket")) > 1
    assert clean("s3://bucket/prefix")[0] == 0
    assert [path for path in bucket.find("bucket") if bucket.isfile(path)] == ["bucket/prefix/not-ours.bin"]
