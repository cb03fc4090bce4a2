"""Input that cannot be run: exit code 2, one sentence, nothing touched."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from io_bench.commands.main import main
from tests.testbed.terminal import typed

if TYPE_CHECKING:
    from tests.io_bench.conftest import Bench, Tree

# Root may write everywhere, unless it gives up the capability to before it starts the program.
WITHOUT_ROOTS_POWERS = """
import ctypes, os
CAP_DAC_OVERRIDE, PR_CAPBSET_DROP = 1, 24
if os.geteuid() == 0 and "POWERLESS" not in os.environ:
    assert ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, CAP_DAC_OVERRIDE, 0, 0, 0) == 0
    import sys
    os.execve(sys.executable, sys.orig_argv, os.environ | {"POWERLESS": "1"})
"""


def one_sentence(stderr: str) -> str:
    assert "Traceback" not in stderr
    (line,) = stderr.splitlines()
    assert line.startswith("error: ")
    assert line.endswith(".")
    return line.removeprefix("error: ")


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--bytes-per-rank", "many"], "--bytes-per-rank is not a size, got 'many'"),
        (["--bytes-per-rank", "0"], "--bytes-per-rank must be from 1.000 MiB to 16.00 TiB, got '0'"),
        (["--bytes-per-rank", "1MB"], "--bytes-per-rank must be from 1.000 MiB to 16.00 TiB, got '1MB'"),
        (["--bytes-per-rank", "1PiB"], "--bytes-per-rank must be from 1.000 MiB to 16.00 TiB, got '1PiB'"),
        (["--bytes-per-rank", "256Mib"], "unknown unit of size"),
        (["--bytes-per-rank", "-5MiB"], "--bytes-per-rank is not a size"),
        (["--repetitions", "0"], "--repetitions must be at least 1, got '0'"),
        (["--repetitions", "few"], "--repetitions must be a whole number, got 'few'"),
        (["--engine", "warp"], "--engine must be a known engine, got 'warp': choose torch-save"),
        (
            ["--engine", "torch-save", "--stream"],
            "--stream needs an engine that can stream, got 'torch-save': give --engine direct, or omit --stream",
        ),
        (
            ["--block-size", "1000001B"],
            "--block-size must be a multiple of 4.000 KiB for O_DIRECT, got '1000001B'",
        ),
        (["--seed", "-1"], "--seed must be at least 0"),
        (["--timeout", "1s"], "--timeout must be at least 5"),
        (["--timeout", "soon"], "--timeout is not a duration, got 'soon'"),
        (["--output", "no/such/place.json"], "--output must be a file that can be written"),
        (["--output", "."], "--output must be a file that can be written (it is not a regular file)"),
        (["--output", "/dev/null"], "--output must be a file that can be written (it is not a regular file)"),
        (["--output", ""], "--output must be a file that can be written"),
    ],
)
def test_a_wrong_flag_is_explained_in_one_sentence(
    flags: list[str], words: str, bench: Bench, target: Path, tree: Callable[[Path], Tree]
) -> None:
    before = tree(target), tree(bench.directory)
    done = bench.run_here("run", "--target", str(target), *flags)
    assert (done.returncode, done.stdout) == (2, "")
    assert words in one_sentence(done.stderr)
    assert (tree(target), tree(bench.directory)) == before


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("missing", "--target must be a directory that exists (No such file or directory)"),
        ("not-ours.bin", "--target must be a directory, got"),
        ("not-ours.bin/below", "--target must be a directory that exists (Not a directory)"),
        ("x" * 300, "--target must be a directory that exists (File name too long)"),
    ],
)
def test_a_target_that_is_no_directory_is_refused(
    name: str, words: str, bench: Bench, target: Path, tree: Callable[[Path], Tree]
) -> None:
    before = tree(target)
    done = bench.run_here("run", "--target", str(target / name))
    assert done.returncode == 2
    assert words in one_sentence(done.stderr)
    assert tree(target) == before


def test_an_empty_target_is_refused(bench: Bench) -> None:
    done = bench.run_here("run", "--target", "")
    assert done.returncode == 2
    assert "--target must be a directory" in one_sentence(done.stderr)


@pytest.mark.parametrize("flag", ["--target", "--output"])
def test_a_place_without_permission_is_refused(flag: str, bench: Bench, target: Path, tmp_path: Path) -> None:
    sealed = tmp_path / "sealed"
    sealed.mkdir()
    sealed.chmod(0o555)
    flags = {"--target": str(target), "--output": "result.json"}
    flags[flag] = str(sealed / "result.json" if flag == "--output" else sealed)
    words = [word for pair in flags.items() for word in pair]
    done = bench.run("run", *words, prelude=WITHOUT_ROOTS_POWERS)
    assert done.returncode == 2
    assert "ermission denied" in one_sentence(done.stderr)
    assert list(sealed.iterdir()) == []


def test_a_file_system_that_takes_no_directory_is_refused(bench: Bench) -> None:
    done = bench.run_here("run", "--target", "/proc", "--bytes-per-rank", "1MiB")
    assert done.returncode == 2
    assert "--target must be writable" in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr


def test_what_does_not_fit_into_memory_is_refused_before_it_is_tried(bench: Bench, target: Path) -> None:
    done = bench.run_here("run", "--target", str(target), "--engine", "torch-save", "--bytes-per-rank", "8TiB")
    assert done.returncode == 2
    sentence = one_sentence(done.stderr)
    assert sentence.startswith("the memory of this node has ")
    assert "available, but its ranks need 17.59 TB (16.00 TiB): " in sentence


def test_every_wrong_flag_has_its_sentence(bench: Bench, target: Path) -> None:
    done = bench.run_here("run", "--target", str(target), "--repetitions", "0", "--engine", "warp")
    assert done.returncode == 2
    assert sorted(line.split()[:2] for line in done.stderr.splitlines()) == [
        ["error:", "--engine"],
        ["error:", "--repetitions"],
    ]


@pytest.mark.parametrize("arguments", [["run"], ["run", "--target", "x", "--direct"], ["fly"], []])
def test_a_command_line_that_is_none_is_refused(arguments: list[str]) -> None:
    done = typed(main, "ckpt-bench", *arguments)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_of_several_ranks_only_rank_0_complains(bench: Bench, target: Path) -> None:
    command = bench.command("run", "--target", str(target / "missing"))
    first, second = map(bench.finish, bench.start_ranks([command] * 2))
    assert "--target must be a directory that exists" in one_sentence(first.stderr)
    assert (first.returncode, second.returncode, second.stderr) == (2, 2, "")


def test_a_port_that_another_program_listens_on_is_named_at_once(bench: Bench, target: Path) -> None:
    with socket.create_server(("", 0)) as other:
        port = str(other.getsockname()[1])
        launched = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        done = bench.run_here("run", "--target", str(target), "--timeout", "50min", environment=launched)
    assert done.returncode == 2
    assert f"MASTER_PORT must not be in use, got {port}: set it to a port that is free" in one_sentence(done.stderr)


def test_a_launcher_that_was_gone_before_a_rank_began_is_not_waited_for(bench: Bench, target: Path) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        meeting = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(nobody.getsockname()[1])}
        launched = {"RANK": "0", "WORLD_SIZE": "2", "TORCHELASTIC_USE_AGENT_STORE": "True"} | meeting
        done = bench.run_here("run", "--target", str(target), "--timeout", "50min", environment=launched)
    assert done.returncode == 1
    assert one_sentence(done.stderr) == "The launcher was killed or crashed before the ranks met."


def test_a_meeting_point_that_is_not_given_is_asked_for(bench: Bench, target: Path) -> None:
    done = bench.run_here("run", "--target", str(target), environment={"RANK": "0", "WORLD_SIZE": "2"})
    assert done.returncode == 2
    assert "MASTER_ADDR" in one_sentence(done.stderr)


@pytest.mark.parametrize("verb", ["run", "scan"])
def test_help_is_there_without_torch_and_what_measures(verb: str, bench: Bench) -> None:
    prelude = (
        "import os, sys; end = os._exit; heavy = {'torch', 'sizing.scenario', 'sizing.layout', 'io_bench.commands.run'}; "
        "os._exit = lambda code: (print('loaded:', bool(heavy & set(sys.modules)), flush=True), end(code))"
    )
    command = bench.command(verb, "--help", prelude=prelude)
    done = subprocess.run(command, capture_output=True, text=True, env=bench.environment, check=True)
    assert "--bytes-per-rank" in done.stdout
    assert done.stdout.endswith("loaded: False\n")
