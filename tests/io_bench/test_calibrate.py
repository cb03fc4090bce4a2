"""`ckpt-bench calibrate` as its user runs it: limits, misses, chart, suggestions, without torch."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from io_bench.commands.main import main
from sizing.report import answer
from sizing.scenario import scenario_from
from sizing.storage.calibration import Calibration
from tests.sizing.storage.calibration.simulation import FULL_SCAN, GB, TRUTH, result
from tests.testbed.processes import SECONDS_UNTIL_STUCK
from tests.testbed.terminal import typed


def ckpt_bench(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return typed(main, "ckpt-bench", "calibrate", *map(str, arguments))


@pytest.fixture
def runs(tmp_path: Path) -> list[Path]:
    """A scan as two result documents."""
    paths = []
    for number, cells in enumerate((FULL_SCAN[:20], FULL_SCAN[20:])):
        path = tmp_path / f"run-{number}.json"
        path.write_text(result(cells, seed=number, noise=0.02, outliers=0, run_id=f"run-{number}").model_dump_json())
        paths.append(path)
    return paths


def test_limits_misses_chart_and_calibration(runs: list[Path], tmp_path: Path) -> None:
    output, chart = tmp_path / "calibration.json", tmp_path / "chart.svg"
    ended = ckpt_bench(*runs, "--output", output, "--chart", chart)
    assert (ended.returncode, ended.stderr) == (0, "")
    calibration = Calibration.model_validate_json(output.read_text())
    assert calibration.profile.write.node_bytes_per_second == pytest.approx(TRUTH.write.node_bytes_per_second, rel=0.05)
    assert calibration.run_ids == ("run-0", "run-1")
    for part in ("file-system", "90 % interval", "measured", "Predicted against measured: restore", "Grade A"):
        assert part in ended.stdout
    assert "Held-out writes: median error" in chart.read_text()
    report = answer(
        scenario_from({"model": {"num_parameters": 10**9}, "storage": {"calibration": json.loads(output.read_text())}})
    )
    assert report.write is not None
    assert report.write.seconds == pytest.approx(14 / 1.1 + 0.1, rel=0.05)


def test_further_runs_are_suggested_with_their_command(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    cells = [(nodes, 8, size * GB) for nodes in (1, 2) for size in (1, 2, 4)]
    path.write_text(result(cells, operations=["write"], noise=0.02, outliers=0).model_dump_json())
    ended = ckpt_bench(path, "--suggest")
    assert "cannot separate it from writer" in ended.stdout
    assert "Measure on each of 4 nodes, with its number from 0 as NODE_RANK and the name of node 0 as" in ended.stdout
    assert (
        "torchrun --nnodes 4 --node-rank NODE_RANK --nproc-per-node 8 --master-addr FIRST_NODE -m io_bench run "
        "--target DIR" in ended.stdout
    )
    assert "ckpt-bench run --target DIR --engine direct --bytes-per-rank 8GB" in ended.stdout


def test_what_one_run_would_tell_of_writes_and_of_restores_is_one_suggestion(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    cells = [(nodes, 8, size * GB) for nodes in (1, 2) for size in (1, 2, 4)]
    path.write_text(result(cells, noise=0.02, outliers=0).model_dump_json())
    shown = ckpt_bench(path, "--suggest").stdout
    commands = [line for line in shown.splitlines() if line.startswith("  ") and "--target DIR" in line]
    assert len(commands) == len(set(commands))
    assert "limit of writes is a lower bound" in shown
    assert "limit of restores is a lower bound" in shown
    assert "limit of reads" not in shown


def test_a_complete_scan_is_told_what_would_narrow_its_widest_interval(runs: list[Path]) -> None:
    assert "the widest interval, from" in ckpt_bench(*runs, "--suggest").stdout


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "the results are missing"),
        (["nowhere.json"], "nowhere.json cannot be read"),
        (["RUN", "--chart", "chart.pdf"], "--chart must end in"),
        (["RUN", "--output", "/nowhere/calibration.json"], "--output must be a file that can be written"),
        (["RUN", "--engine", "nope"], "are of engine direct"),
        (["OTHER"], "is not a result document of ckpt-bench"),
    ],
)
def test_bad_input_ends_with_one_sentence_and_exit_code_2(
    runs: list[Path], tmp_path: Path, arguments: list[str], sentence: str
) -> None:
    other = tmp_path / "other.json"
    other.write_text("{}")
    names = {"RUN": str(runs[0]), "OTHER": str(other)}
    ended = ckpt_bench(*(names.get(argument, argument) for argument in arguments))
    assert ended.returncode == 2
    assert sentence in ended.stderr
    assert len(ended.stderr.splitlines()) == 1
    assert "Traceback" not in ended.stderr


def test_it_loads_no_torch(runs: list[Path]) -> None:
    code = (
        "import sys, contextlib; from io_bench.commands.main import main\n"
        "with contextlib.suppress(SystemExit): main(['calibrate', *sys.argv[1:]])\n"
        "sys.exit('torch' in sys.modules)"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code, *map(str, runs)], capture_output=True, check=False, timeout=SECONDS_UNTIL_STUCK
    )
    assert ended.returncode == 0
