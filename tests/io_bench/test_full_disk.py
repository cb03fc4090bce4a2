"""A target without space: refused before the run, explained in the middle of one, clean afterwards."""

from __future__ import annotations

import errno
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.io_bench.conftest import STEP_DONE
from tests.testbed.processes import until

if TYPE_CHECKING:
    from tests.io_bench.conftest import Bench, Tree


def fill(path: Path) -> None:
    """Append to a file until the file system is full."""
    with path.open("ab", buffering=0) as file:
        for size in (1 << 20, 1 << 12):
            try:
                while file.write(bytes(size)):
                    pass
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise


def fill_until_it_ends(process: subprocess.Popen[str], path: Path) -> None:
    def filled_and_ended() -> bool:
        fill(path)
        return process.poll() is not None

    until(filled_and_ended, pause_seconds=0.001)  # it takes what is freed before the run does


def test_a_checkpoint_that_does_not_fit_is_refused_before_anything_is_written(
    bench: Bench, small_filesystem: Path, tree: Callable[[Path], Tree]
) -> None:
    before = tree(small_filesystem)
    done = bench.run_here("run", "--target", str(small_filesystem), "--bytes-per-rank", "60MiB")
    assert done.returncode == 2
    (sentence,) = done.stderr.splitlines()
    # 60 MiB, container and 5 % on top.
    assert "free, but one checkpoint of all ranks and 5.00 % reserve need 66." in sentence
    assert "got" not in sentence
    assert tree(small_filesystem) == before


def test_a_disk_that_fills_up_in_the_middle_ends_the_run_in_one_sentence(
    bench: Bench,
    small_filesystem: Path,
    tree: Callable[[Path], Tree],
    until: Callable[[Callable[[], object], subprocess.Popen[str]], None],
) -> None:
    neighbour = small_filesystem / "neighbour"
    flags = ("--bytes-per-rank", "16MiB", "--repetitions", "5000")
    process = bench.start(bench.command("run", "--target", str(small_filesystem), *flags))
    until(lambda: any(small_filesystem.glob("ckpt-bench-*/rank-*")), process)
    fill_until_it_ends(process, neighbour)
    done = bench.finish(process)
    neighbour.unlink()
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    _, sentence = (line for line in done.stderr.splitlines() if not STEP_DONE.fullmatch(line))
    assert sentence.startswith("error: --target has no space left (rank 0, writing ")
    assert [name for name in tree(small_filesystem) if name != "lost+found"] == []


@pytest.mark.long
def test_a_full_disk_ends_all_ranks_alike(
    bench: Bench,
    small_filesystem: Path,
    tree: Callable[[Path], Tree],
    until: Callable[[Callable[[], object], subprocess.Popen[str]], None],
) -> None:
    neighbour = small_filesystem / "neighbour"
    flags = ("--bytes-per-rank", "8MiB", "--repetitions", "5000")
    process = bench.start(bench.command("run", "--target", str(small_filesystem), *flags, num_ranks=2))
    until(lambda: any(small_filesystem.glob("ckpt-bench-*/rank-*")), process)
    fill_until_it_ends(process, neighbour)
    done = bench.finish(process)
    neighbour.unlink()
    assert done.stderr.count("has no space left") == 1
    assert done.stderr.count("exitcode  : 2") == 2
    assert [name for name in tree(small_filesystem) if name != "lost+found"] == []
