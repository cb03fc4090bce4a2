"""A whole scan: alone, with ranks that it starts itself, interrupted and resumed."""

from __future__ import annotations

import csv
import json
import signal
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from io_bench import host
from io_bench.commands.journal import journal_path
from io_bench.commands.main import main
from sizing.storage.measurement import BenchmarkResult

if TYPE_CHECKING:
    from tests.io_bench.conftest import Bench, Tree

SMALL = ("--bytes-per-rank", "1MiB,2MiB", "--repetitions", "2", "--seed", "5")


def scan_here(target: Path, output: Path, *flags: str) -> int:
    """Run a scan of one rank in this process."""
    with pytest.raises(SystemExit) as end:
        main(["scan", "--target", str(target), "--writers", "1", *SMALL, "--output", str(output), *flags])
    return int(end.value.code or 0)


def result_in(path: Path) -> BenchmarkResult:
    return BenchmarkResult.model_validate_json(path.read_text())


def test_a_scan_measures_every_combination_once_and_draws_it(
    bench: Bench, target: Path, tree: Callable[[Path], Tree]
) -> None:
    """Two ranks, started by the scan itself, of which one waits in half of the configurations."""
    before = tree(target)
    flags = ("--writers", "1,2", "--engine", "torch-save,direct", "--bytes-per-rank", "1MiB", "--repetitions", "2")
    files = ("--output", "s.json", "--csv", "s.csv", "--chart", "s.html", "--chart", "s.png")
    done = bench.run("scan", "--target", str(target), *flags, *files)
    assert done.returncode == 0, done.stderr
    result = result_in(bench.directory / "s.json")
    seen = [(m.engine, m.num_ranks, m.payload_bytes_per_rank, m.operation) for m in result.measurements]
    assert len(seen) == len(set(seen)) == 8
    assert {m.num_ranks for m in result.measurements} == {1, 2}
    assert all(len(m.rank_seconds[0]) == m.num_ranks and len(m.seconds) == 2 for m in result.measurements)
    taxed = {(m.engine, m.software_tax_fraction is not None) for m in result.measurements}
    assert taxed == {("direct", False), ("torch-save", True)}
    with (bench.directory / "s.csv").open() as file:
        assert len(list(csv.DictReader(file))) == 8
    assert (bench.directory / "s.png").read_bytes().startswith(b"\x89PNG")
    assert "vega" in (bench.directory / "s.html").read_text()
    assert "4/4" in done.stderr
    assert "The fastest write was" in done.stdout
    assert {path.name for path in bench.directory.iterdir()} == {"s.json", "s.csv", "s.html", "s.png"}
    assert tree(target) == before


@pytest.mark.long
def test_an_interrupted_scan_keeps_what_it_measured_and_goes_on_from_there(
    bench: Bench,
    target: Path,
    tree: Callable[[Path], Tree],
    until: Callable[[Callable[[], object], subprocess.Popen[str]], None],
) -> None:
    before = tree(target)
    command = ("scan", "--target", str(target), "--writers", "1,2", *SMALL, "--output", "s.json")
    journal = bench.directory / "s.journal.jsonl"
    process = bench.start(bench.command(*command))
    until(lambda: journal.exists() and len(journal.read_text().splitlines()) >= 2, process)
    process.send_signal(signal.SIGINT)
    done = bench.finish(process)
    assert done.returncode == 128 + signal.SIGINT
    assert "Rank 0 was interrupted by SIGINT" in done.stderr
    assert "Repeat the command with --resume --output" in done.stderr
    assert tree(target) == before
    partial = result_in(bench.directory / "s.json")
    num_measured = len(partial.measurements)
    assert 2 <= num_measured < 8
    assert any("configurations were not measured" in warning for warning in partial.warnings)

    with journal.open("a") as file:
        file.write('{"configuration": {"engine": "torch-sa')  # as a crash in the middle of a line leaves it
    done = bench.run(*command, "--resume")
    assert done.returncode == 0, done.stderr
    result = result_in(bench.directory / "s.json")
    assert result.measurements[:num_measured] == partial.measurements
    assert len({(m.num_ranks, m.payload_bytes_per_rank, m.operation) for m in result.measurements}) == 8
    assert len(result.measurements) == 8
    assert any("measured by run " + partial.run_id in warning for warning in result.warnings)
    assert result.started_at == partial.started_at
    assert not journal.exists()


def test_a_scan_stops_at_a_cap_says_so_and_can_be_resumed(
    target: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "s.json"
    assert scan_here(target, output, "--max-bytes", "1MB") == 0
    assert "--max-bytes ended the scan" in capsys.readouterr().err
    (write, _) = result_in(output).measurements
    assert len(write.seconds) == 1
    assert journal_path(str(output)).exists()
    assert scan_here(target, output, "--resume") == 0
    assert len(result_in(output).measurements) == 4


def test_a_scan_is_not_begun_over_an_unfinished_one_nor_resumed_as_another(
    target: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "s.json"
    assert scan_here(target, output, "--resume") == 2
    assert "--resume needs the journal of an unfinished scan next to --output" in capsys.readouterr().err
    assert scan_here(target, output, "--max-bytes", "1MB") == 0
    assert scan_here(target, output) == 2
    assert "continue the scan with --resume" in capsys.readouterr().err
    assert scan_here(target, output, "--resume", "--engine", "torch-save") == 2
    assert "--engine must be unchanged since the scan started" in capsys.readouterr().err
    assert len(result_in(output).measurements) == 2


def test_a_scan_goes_on_after_configurations_that_memory_made_it_stream(
    target: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host, "available_bytes", lambda: 60 << 20)
    output, sizes = tmp_path / "s.json", ("--bytes-per-rank", "32MiB,33MiB", "--block-size", "1MiB", "--threads", "2")
    assert scan_here(target, output, *sizes, "--max-bytes", "1MB") == 0
    (write, _) = result_in(output).measurements
    assert write.generator_wait_fraction is not None
    assert scan_here(target, output, *sizes, "--resume") == 0
    payloads = [m.payload_bytes_per_rank or 0 for m in result_in(output).measurements]
    assert sorted(payloads) == [32 << 20, 32 << 20, 33 << 20, 33 << 20]


def test_a_scan_that_cannot_go_on_leaves_what_its_earlier_sitting_gave(
    target: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "s.json"
    assert scan_here(target, output, "--max-bytes", "1MB") == 0
    partial = output.read_text()
    monkeypatch.setattr(host, "available_bytes", lambda: 1 << 20)
    assert scan_here(target, output, "--resume") == 2
    assert "the memory of this node has 1.049 MB" in capsys.readouterr().err
    assert output.read_text() == partial
    monkeypatch.undo()
    assert scan_here(target, output, "--resume") == 0
    assert len(result_in(output).measurements) == 4


def test_a_scan_is_not_resumed_with_another_scenario_nor_silently_on_another_host(
    target: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scenario, output = tmp_path / "gpt2.json", tmp_path / "s.json"
    scenario.write_text('{"model": {"preset": "gpt2"}}')
    flags = ["--scenario", str(scenario), "--scale", "0.001", "--threads", "1,2", "--repetitions", "1"]

    def scan_it(*more: str) -> int:
        with pytest.raises(SystemExit) as end:
            main(["scan", "--target", str(target), "--writers", "1", "--output", str(output), *flags, *more])
        return int(end.value.code or 0)

    assert scan_it("--max-bytes", "1MB") == 0
    scenario.write_text('{"model": {"preset": "gpt2-medium"}}')
    assert scan_it("--resume") == 2
    assert "--scenario must be unchanged since the scan started" in capsys.readouterr().err
    scenario.write_text('{"model": {"preset": "gpt2"}}')
    journal = journal_path(str(output))
    journal.write_text(journal.read_text().replace(f'"hosts":["{socket.gethostname()}"]', '"hosts":["dgx07"]'))
    assert scan_it("--resume") == 0
    assert any("on hosts not described in this document: dgx07." in warning for warning in result_in(output).warnings)


def test_a_scan_of_a_scenario_writes_the_tensors_of_its_ranks(target: Path, tmp_path: Path) -> None:
    scenario = tmp_path / "gpt2.json"
    scenario.write_text(json.dumps({"model": {"preset": "gpt2"}, "parallelism": {"tensor": 2}}))
    output = tmp_path / "s.json"
    flags = [
        "--scenario",
        str(scenario),
        "--scale",
        "0.01",
        "--repetitions",
        "1",
        "--output",
        str(output),
        "--engine",
        "torch-save",
    ]
    with pytest.raises(SystemExit) as end:
        main(["scan", "--target", str(target), "--writers", "1", *flags])
    assert end.value.code == 0
    result = result_in(output)
    assert result.environment["scenario"]["model"]["preset"] == "gpt2"  # type: ignore[index, call-overload]  # JSON
    assert 0.87e7 < result.measurements[0].total_bytes < 0.95e7  # half of 124 M x 14 B x 0.01, norms and zip on top
    assert result.measurements[0].payload_bytes_per_rank is None


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--writers", "2"], "--writers must be at most 1, the ranks on each node"),
        (["--nodes", "1,2"], "--nodes must be at most 1, the nodes that were started, got 2"),
        (["--writers", "1,1"], "--writers must be at most 32 different values"),
        (["--bytes-per-rank", "1MiB,2"], "--bytes-per-rank"),
        (["--chart", "s.pdf"], "--chart must end in"),
        (["--chart", "no/place.html"], "--chart must be a file that can be written"),
        (["--scale", "0.5"], "--scale needs --scenario"),
        (["--scenario", "none.json"], "must not be combined with --scenario"),
        (["--resume"], "--resume needs the journal of an unfinished scan"),
        (["--block-size", "3B"], "--block-size must be from 64.00 KiB to 1.000 GiB"),
    ],
)
def test_a_wrong_flag_is_explained_and_leaves_nothing(
    flags: list[str],
    words: str,
    target: Path,
    tmp_path: Path,
    tree: Callable[[Path], Tree],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name, value in {"RANK": "0", "WORLD_SIZE": "1"}.items():  # as under a launcher: no ranks are started here
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    before = tree(tmp_path)
    assert scan_here(target, tmp_path / "s.json", *flags) == 2
    assert words in capsys.readouterr().err
    assert tree(tmp_path) == before
