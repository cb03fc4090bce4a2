"""Predicted against real: the files that torch really writes have the predicted names and sizes."""

import pytest

from io_bench.cli.main import main
from io_bench.errors import RunFailed
from io_bench.validation import comparison
from io_bench.validation.cases import CASES, DEEPSPEED_CASES, Case, available_cases
from io_bench.validation.comparison import TOLERANCE, FileComparison, compared
from io_bench.validation.tiny_llama import TINY, TinyLlama
from sizing.model import num_parameters
from sizing.model.inventory import inventory_of
from tests.testbed.terminal import typed

QUICK = "FSDP2, DCP, fp32, 2 ranks"


def check(case: Case) -> None:
    files = compared(case)
    assert files
    assert all(file.agrees for file in files), files
    predicted, real = (sum(sizes) for sizes in zip(*((f.predicted_bytes, f.real_bytes) for f in files), strict=True))
    assert predicted == pytest.approx(real, rel=TOLERANCE)


def test_the_tiny_model_has_the_parameters_of_its_architecture() -> None:
    built = sum(parameter.numel() for parameter in TinyLlama(TINY).parameters())
    assert built == num_parameters(inventory_of(TINY))


def test_files_saved_for_real_are_those_predicted() -> None:
    check(next(case for case in CASES if case.name == QUICK))


@pytest.mark.long
@pytest.mark.parametrize("case", [case for case in CASES if case.name != QUICK], ids=lambda case: case.name)
def test_the_other_ways_to_save_are_predicted_too(case: Case) -> None:
    check(case)


@pytest.mark.long
@pytest.mark.parametrize("case", DEEPSPEED_CASES, ids=lambda case: case.name)
def test_what_deepspeed_saves_is_predicted(case: Case) -> None:
    """DeepSpeed is installed by scripts/test."""
    assert case in available_cases(), "DeepSpeed is missing: run scripts/test long"
    check(case)


def test_a_case_that_does_not_end_is_given_up_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparison, "MAX_SECONDS", 0.5)
    with pytest.raises(RunFailed, match=r"FSDP2, DCP, fp32, 2 ranks timeout: not saved within 0.5 s"):
        compared(next(case for case in CASES if case.name == QUICK))


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

    monkeypatch.setattr(comparison, "compared", files_of)
    shown = typed(main, "ckpt-bench", "validate")
    assert shown.returncode == exit_code
    rows = [line for line in shown.stdout.splitlines() if "rank-" in line]
    assert [case.name for case in available_cases() for _ in range(2)] == [row.strip().split("  ")[0] for row in rows]
    assert all(verdict in row for row in rows[1::2])
    assert all("within 0.5 %" in row for row in rows[::2])
