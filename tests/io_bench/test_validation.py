"""Predicted against real: the files that torch really writes have the predicted names and sizes."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from io_bench.checks.validation import comparison
from io_bench.checks.validation.cases import CASES, DEEPSPEED_CASES, Case, available_cases
from io_bench.checks.validation.comparison import TOLERANCE, FileComparison, compare_case, reason_in
from io_bench.checks.validation.forked_ranks import ForkedRanks
from io_bench.checks.validation.tiny_llama import TINY, TinyLlama
from io_bench.commands.main import main
from io_bench.errors import RunFailed
from sizing.layout.containers import CONTAINERS, container_bytes
from sizing.model import num_parameters
from sizing.model.inventory import inventory_of
from sizing.report import answer
from sizing.scenario import scenario_from
from tests.testbed.processes import SECONDS_UNTIL_STUCK
from tests.testbed.terminal import typed

QUICK = "FSDP2, DCP, fp32, 2 ranks"


@pytest.fixture(scope="module", autouse=True)
def _memory() -> Iterator[None]:
    """What forks ranks holds torch and DeepSpeed, which later tests do not need."""
    yield
    for ranks in comparison._RANKS.values():
        ranks.end()


def check(case: Case) -> None:
    files = compare_case(case)
    assert files
    assert all(file.agrees for file in files), files
    predicted, real = (sum(sizes) for sizes in zip(*((f.predicted_bytes, f.real_bytes) for f in files), strict=True))
    assert predicted == pytest.approx(real, rel=TOLERANCE)


def test_the_tiny_model_has_the_parameters_of_its_architecture() -> None:
    built = sum(parameter.numel() for parameter in TinyLlama(TINY).parameters())
    assert built == num_parameters(inventory_of(TINY))


def test_files_saved_for_real_are_those_predicted() -> None:
    check(next(case for case in CASES if case.name == QUICK))


def test_a_rank_that_fails_ends_the_others_and_is_reported_with_its_last_words_and_how_it_ended() -> None:
    ranks = ForkedRanks("tests.io_bench.failing_ranks")
    try:
        aborted, raised, passed = (
            ranks.run([how], num_ranks=2, max_seconds=SECONDS_UNTIL_STUCK) for how in ("abort", "raise", "pass")
        )
    finally:
        ranks.end()
    assert aborted is not None
    assert reason_in("W: a warning\n" + aborted).startswith("Fatal Python error: Aborted")
    assert 'failing_ranks.py", line 14 in main' in reason_in(aborted)
    assert re.search(r"rank 1 \(process \d+\) ended by Signal 6 \(SIGABRT\)\n$", reason_in(aborted))
    assert raised is not None
    assert reason_in(raised) == "RuntimeError: no space"
    assert re.search(r"rank 1 \(process \d+\) ended by exit code 1\n$", raised)
    assert passed is None


def test_ranks_of_a_module_that_cannot_be_imported_say_why() -> None:
    ranks = ForkedRanks("io_bench.checks.validation.nowhere")
    said = ranks.run([], num_ranks=2, max_seconds=SECONDS_UNTIL_STUCK)
    ranks.end()
    assert said is not None
    assert reason_in(said) == "ModuleNotFoundError: No module named 'io_bench.checks.validation.nowhere'"


@pytest.mark.long(minutes=1)
@pytest.mark.parametrize("case", [case for case in CASES if case.name != QUICK], ids=lambda case: case.name)
def test_the_other_ways_to_save_are_predicted_too(case: Case) -> None:
    check(case)


@pytest.mark.long(minutes=1)
@pytest.mark.parametrize("case", DEEPSPEED_CASES, ids=lambda case: case.name)
def test_what_deepspeed_saves_is_predicted(case: Case) -> None:
    """DeepSpeed is installed by scripts/test."""
    assert case in available_cases(), "DeepSpeed is missing: run scripts/test long"
    check(case)


@pytest.mark.long
@pytest.mark.parametrize(
    "case", [case for case in DEEPSPEED_CASES if "bf16, 2 ranks" in case.name][1::2], ids=lambda case: case.name
)
def test_what_deepspeed_converts_is_predicted(case: Case, tmp_path: Path) -> None:
    """ZeRO 1 and 3, by the conversion that DeepSpeed ships."""
    (tmp_path / "step").mkdir()
    comparison._save_case(case, tmp_path / "step")
    command = [sys.executable, "-m", "deepspeed.checkpoint.ds_to_universal", "--inject_missing_state"]
    folders = ["--input_folder", str(tmp_path / "step"), "--output_folder", str(tmp_path / "universal")]
    workers = ["--num_extract_workers", "1", "--num_merge_workers", "1"]
    quiet = {"OMP_NUM_THREADS": "1", "DS_ACCELERATOR": "cpu"}
    subprocess.run([*command, *folders, *workers], check=True, timeout=300, env=os.environ | quiet)
    sizes = [path.stat().st_size for path in (tmp_path / "universal").rglob("*") if path.is_file()]
    export = {"every": 1, "format": "deepspeed-universal"}
    document = case.scenario().model_dump(mode="json", exclude_unset=True) | {"checkpoint": {"export": export}}
    made = answer(scenario_from(document)).export
    assert made is not None
    assert made.num_files == len(sizes)
    headers = container_bytes(CONTAINERS["torch-zip"], num_files=len(sizes), num_tensors=len(sizes))
    assert made.num_bytes + headers == pytest.approx(sum(sizes), rel=TOLERANCE)


def test_a_case_that_does_not_end_is_given_up_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparison, "MAX_SECONDS", 0.001)
    with pytest.raises(RunFailed, match=r"FSDP2, DCP, fp32, 2 ranks timeout: not saved within 0.001 s"):
        compare_case(next(case for case in CASES if case.name == QUICK))


@pytest.mark.parametrize(
    ("predicted", "real"), [(None, 10**6), (10**6, None), (1000_000, 1006_000), (1000_000, 994_000), (1024**3, 10**9)]
)
def test_a_missing_file_and_a_wrong_size_do_not_agree(predicted: int | None, real: int | None) -> None:
    assert not FileComparison("case", "file", predicted, real).agrees


@pytest.mark.parametrize(("real", "exit_code", "verdict"), [(1_004_000, 0, "within 0.5 %"), (1_006_000, 1, "differs")])
def test_ckpt_bench_validate_shows_every_file_of_every_case(
    monkeypatch: pytest.MonkeyPatch, real: int, exit_code: int, verdict: str
) -> None:
    def files_of(case: Case) -> list[FileComparison]:
        return [FileComparison(case.name, f"rank-{rank}.pt", 10**6, size) for rank, size in enumerate((10**6, real))]

    monkeypatch.setattr(comparison, "compare_case", files_of)
    shown = typed(main, "ckpt-bench", "validate")
    assert shown.returncode == exit_code
    rows = [line for line in shown.stdout.splitlines() if "rank-" in line]
    assert [case.name for case in available_cases() for _ in range(2)] == [row.strip().split("  ")[0] for row in rows]
    assert all(verdict in row for row in rows[1::2])
    assert all("within 0.5 %" in row for row in rows[::2])
