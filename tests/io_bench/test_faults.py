"""What can happen to storage during a run, for every engine: a clear error, and nothing of ours left behind.

The faults are real. They strike from within the process, at the moment that a test needs.
"""

from __future__ import annotations

import errno
import os
import re
import resource
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

import pytest

from io_bench.commands.main import main
from io_bench.engines import ENGINES, HOST_ENGINES, Engine, EngineOptions, EnginePlan
from io_bench.target.directory import DirectoryTarget
from io_bench.target.places import MANIFEST
from io_bench.target.target import RunFiles
from sizing.errors import InvalidInput
from sizing.storage.measurement import BenchmarkResult
from sizing.storage.run_events import Corruption
from tests.examples import spread
from tests.testbed.file_systems import Disk, disk

if TYPE_CHECKING:
    from tests.conftest import Testbed
    from tests.io_bench.conftest import Tree

MIB = 1 << 20
Fault = Callable[[RunFiles, EnginePlan], None]


class RunHere(Protocol):
    """Runs the command line in this process, with a fault before every write or restore: exit code and stderr."""

    def __call__(
        self, engine: str, target: Path, *, write: Fault | None = None, restore: Fault | None = None
    ) -> tuple[int, str]: ...


@pytest.fixture
def output(tmp_path: Path) -> Path:
    return tmp_path / "result.json"


@pytest.fixture
def run_here(output: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> RunHere:
    def run(engine: str, target: Path, *, write: Fault | None = None, restore: Fault | None = None) -> tuple[int, str]:
        made = ENGINES[engine]

        def faulty(options: EngineOptions) -> Engine:
            instance = made(options)
            for name, fault in (("write", write), ("restore", restore)):
                if fault is not None:
                    setattr(instance, name, after(fault, getattr(instance, name), in_writing=name == "write"))
            return instance

        monkeypatch.setitem(cast(dict[str, Callable[[EngineOptions], Engine]], ENGINES), engine, faulty)
        flags = ("--bytes-per-rank", "4MiB", "--repetitions", "1", "--output", str(output))
        with pytest.raises(SystemExit) as end:
            main(["run", "--target", str(target), "--engine", engine, *flags])
        return int(end.value.code or 0), capsys.readouterr().err

    return run


def after(fault: Fault, action: Callable[..., Any], *, in_writing: bool) -> Callable[..., Any]:
    """The action of an engine, when the fault has struck."""

    def faulty(*arguments: Any) -> Any:
        files, plan = arguments[1:3] if in_writing else arguments[0:2]
        fault(files, plan)
        return action(*arguments)

    return faulty


every_engine = pytest.mark.parametrize("engine", HOST_ENGINES)


@pytest.fixture
def small_disk(tmp_path: Path, testbed: Testbed) -> Disk:
    return testbed(disk(tmp_path, num_bytes=64 * MIB))


def place_of(files: RunFiles) -> Path:
    return Path(files.title)


def largest_file(files: RunFiles) -> Path:
    return max(place_of(files).iterdir(), key=lambda path: path.stat().st_size)


def fill(path: Path, *, but: int) -> None:
    """Write to a file until its file system has only `but` bytes left."""
    system = os.statvfs(path.parent)
    with path.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, system.f_bavail * system.f_frsize - but)


@every_engine
def test_a_disk_that_is_full_halfway_is_named(engine: str, small_disk: Disk, run_here: RunHere, output: Path) -> None:
    neighbour = small_disk.path / "neighbour"
    code, said = run_here(engine, small_disk.path, write=lambda *_: fill(neighbour, but=2 * MIB))
    assert code == 2
    assert "--target has no space left (rank 0, writing " in said
    assert os.strerror(errno.ENOSPC) in said
    assert {path.name for path in small_disk.path.iterdir()} == {"lost+found", "neighbour"}
    assert not output.exists()


@every_engine
def test_a_file_system_that_goes_read_only_is_named_with_what_stays(
    engine: str, small_disk: Disk, run_here: RunHere
) -> None:
    code, said = run_here(engine, small_disk.path, write=lambda *_: small_disk.remount("ro"))
    assert code == 1
    assert "Rank 0 failed while writing " in said
    assert f"could not be removed: {os.strerror(errno.EROFS)}." in said


@pytest.mark.parametrize("engine", spread(HOST_ENGINES, by_default=["direct", "dcp"]))
@pytest.mark.parametrize("moment", ["write", "restore"])
def test_a_file_system_that_is_unmounted_under_a_run_is_named_and_nothing_stays(
    engine: str, moment: str, small_disk: Disk, run_here: RunHere, output: Path
) -> None:
    times = list[None]()

    def unmount(*_: object) -> None:
        if not times:
            times.append(None)
            small_disk.unmount_lazily()

    try:
        code, said = run_here(engine, small_disk.path, **{moment: unmount})
        assert list(small_disk.path.iterdir()) == []
    finally:
        small_disk.mount()
    assert code == 1, said
    assert re.findall("^error: .*", said, re.MULTILINE) == [said.splitlines()[-1]]
    assert re.search(
        rf"Rank 0 failed while writing .*: {small_disk.path}/ckpt-bench-[\w-]+ is no longer there: "
        r"its file system was unmounted, or the directory was moved\.$",
        said,
    ), said
    assert [path.name for path in small_disk.path.iterdir()] == ["lost+found"]
    assert not output.exists()


@pytest.fixture
def sealed(small_disk: Disk) -> Iterator[Callable[..., None]]:
    """Seals a run's directory, so that not even root may create or remove files there."""
    places: list[Path] = []

    def seal(files: RunFiles, _plan: EnginePlan) -> None:
        places.append(place_of(files))
        subprocess.run(["chattr", "+i", places[-1]], check=True)

    yield seal
    for place in places:
        subprocess.run(["chattr", "-i", place], check=True)
    assert small_disk.path.exists()


@every_engine
def test_a_permission_that_is_withdrawn_is_named_with_what_stays(
    engine: str, small_disk: Disk, run_here: RunHere, sealed: Fault
) -> None:
    code, said = run_here(engine, small_disk.path, write=sealed)
    assert code == 1
    assert "Rank 0 failed while writing " in said
    assert said.count(os.strerror(errno.EPERM)) == 2  # and for what could not be removed


@pytest.fixture
def limited() -> Iterator[Fault]:
    """Limits the size of files for the rest of the test, so that writes of the checkpoint's largest become short."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)

    def limit(_files: RunFiles, plan: EnginePlan) -> None:
        # The largest file has at least the mean of all.
        half_of_a_file = plan.max_disk_bytes // len(plan.files) // 2
        resource.setrlimit(resource.RLIMIT_FSIZE, (min(1_500_000, half_of_a_file), before[1]))

    yield limit
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


@every_engine
def test_writes_that_come_out_short_fail_the_run(
    engine: str, target: Path, run_here: RunHere, tree: Callable[[Path], Tree], limited: Fault
) -> None:
    before = tree(target)
    code, said = run_here(engine, target, write=limited)
    assert code == 1
    assert "Rank 0 failed while writing " in said
    assert os.strerror(errno.EFBIG) in said
    assert tree(target) == before


def flip_a_bit(files: RunFiles, _plan: EnginePlan) -> None:
    """Change a byte in the middle of the largest file, in storage as well as in memory."""
    with largest_file(files).open("r+b") as file:
        file.seek(os.fstat(file.fileno()).st_size // 2)
        byte = file.read(1)[0]
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte ^ 1]))
        file.flush()
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def cut_off(files: RunFiles, _plan: EnginePlan) -> None:
    os.truncate(largest_file(files), largest_file(files).stat().st_size // 2)


def lose(files: RunFiles, _plan: EnginePlan) -> None:
    largest_file(files).unlink()


@every_engine
@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (
            flip_a_bit,
            "Verification failed: the data that rank 0 restored|cannot be read back",
        ),
        (cut_off, "cannot be read back|Rank 0 failed while reading|DCP failed while restoring"),
        (lose, "cannot be read back|Rank 0 failed while reading"),
    ],
)
def test_storage_that_changes_a_checkpoint_fails_the_run(
    engine: str, fault: Fault, words: str, target: Path, run_here: RunHere, output: Path, tree: Callable[[Path], Tree]
) -> None:
    before = tree(target)
    code, said = run_here(engine, target, restore=fault)
    assert code == 1
    assert re.search(words, said), said
    assert "Traceback" not in said
    if output.exists():
        remove_kept(evidence_in(output))
    else:
        assert fault in (cut_off, lose)
    assert tree(target) == before


def evidence_in(output: Path) -> list[Corruption]:
    """What a failed result says, whose files are still there."""
    result = BenchmarkResult.model_validate_json(output.read_text())
    assert result.corruption
    assert not any(measurement.verified for measurement in result.measurements)
    assert all(Path(file).exists() for each in result.corruption for file in each.files)
    return result.corruption


def remove_kept(evidence: list[Corruption]) -> None:
    """Remove the run's place, which has the files in evidence, and what `ckpt-bench clean` goes by."""
    kept = {Path(file) for each in evidence for file in each.files}
    (place,) = {path.parent for path in kept}
    assert {*kept, place / MANIFEST} == set(place.iterdir())
    shutil.rmtree(place)


@pytest.mark.parametrize("flags", [("--engine", "torch-save"), ("--engine", "safetensors"), (), ("--stream",)])
def test_bytes_that_storage_has_changed_are_evidence_to_the_byte(
    flags: tuple[str, ...], target: Path, output: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One bit and, three bytes on, eight more are flipped before the second repetition is restored."""
    engine = flags[1] if flags[:1] == ("--engine",) else "direct"
    made, restores = ENGINES[engine], list[None]()
    flipped: list[bytes] = []

    def flip(files: RunFiles, plan: EnginePlan) -> None:
        restores.append(None)
        if len(restores) == 3:
            path = place_of(files) / plan.files[0]
            content = bytearray(path.read_bytes())
            at = len(content) // 2
            flipped.append(bytes(content[at : at + 16]))
            content[at] ^= 1
            content[at + 3] ^= 0xFF
            path.write_bytes(content)
            with path.open("rb") as file:
                os.fsync(file.fileno())
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)

    def faulty(options: EngineOptions) -> Engine:
        instance = made(options)
        setattr(instance, "restore", after(flip, instance.restore, in_writing=False))  # noqa: B010 - as run_here does
        return instance

    monkeypatch.setitem(cast(dict[str, Callable[[EngineOptions], Engine]], ENGINES), engine, faulty)
    sizes = ("--bytes-per-rank", "4MiB", "--repetitions", "3", "--output", str(output))
    with pytest.raises(SystemExit) as end:
        main(["run", "--target", str(target), *flags, *sizes])
    assert end.value.code == 1
    (found,) = evidence_in(output)
    assert (found.repetition, found.rank, found.num_wrong_bytes) == (2, 0, 2)
    assert found.tensor is not None
    assert found.first_byte is not None
    assert found.last_byte == found.first_byte + 3
    (expected,) = flipped
    assert found.expected == expected.hex()
    assert found.found == bytes([expected[0] ^ 1, *expected[1:3], expected[3] ^ 0xFF, *expected[4:]]).hex()
    result = BenchmarkResult.model_validate_json(output.read_text())
    assert [len(measurement.seconds) for measurement in result.measurements] == [2, 2]
    remove_kept([found])


@pytest.mark.parametrize("engine", spread(HOST_ENGINES, by_default=["direct"]))
def test_a_target_behind_a_symbolic_link_is_measured_and_left(
    engine: str, target: Path, run_here: RunHere, output: Path, tree: Callable[[Path], Tree]
) -> None:
    before = tree(target)
    link = target.parent / "link"
    link.symlink_to(target)
    code, said = run_here(engine, link)
    assert code == 0, said
    assert all(
        measurement.verified for measurement in BenchmarkResult.model_validate_json(output.read_text()).measurements
    )
    assert link.is_symlink()
    assert tree(target) == before


def test_a_directory_of_somebody_else_is_not_taken(target: Path, tree: Callable[[Path], Tree]) -> None:
    (target / "ckpt-bench-mine").mkdir()
    (target / "ckpt-bench-mine" / "rank-00000.pt").write_bytes(b"precious")
    before = tree(target)
    with pytest.raises(InvalidInput, match="it exists already, from another run"):
        DirectoryTarget.checked(str(target)).make_run("mine")
    assert tree(target) == before
