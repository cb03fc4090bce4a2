"""Predicted against real: what Megatron-Core 0.16.1 saves on 8 ranks without a GPU, rank by rank."""

from __future__ import annotations

import importlib.util
import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sizing.checkpoint_files import contents_of
from sizing.report import answer
from sizing.sized_layout import manifest_of
from tests.sizing.layout.megatron.cases import CASES, NUM_RANKS, Case

WITHIN_IN_TOTAL, WITHIN_OF_A_RANK = 0.005, 0.01
WITHIN_OF_METADATA, WITHIN_OF_METADATA_OF_ROWS = 0.09, 0.08
MAX_SECONDS = 900
NUM_TOGETHER = 6
"""Cases of one launch: Megatron leaves the process groups of each case behind, with their threads."""

RECORD: dict[str, Any] = json.loads((Path(__file__).parent / "megatron" / "measured.json").read_text())
MEASURED: dict[str, dict[str, int]] = RECORD["files"]
MEASURED_METADATA: dict[str, int] = RECORD["metadata"]

each_case = pytest.mark.parametrize("number", range(len(CASES)), ids=lambda number: CASES[number].name)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[int], Path]]:
    """The folder of a case, saved with those beside it. Megatron-Core is installed by scripts/test."""
    assert importlib.util.find_spec("megatron"), "Megatron-Core is missing: run scripts/test long"
    from io_bench.checks.validation.forked_ranks import ForkedRanks  # noqa: PLC0415 - it imports torch, which takes a second

    folder = tmp_path_factory.mktemp("megatron")

    def of_case(number: int) -> Path:
        if not (folder / str(number)).exists():
            first = number // NUM_TOGETHER * NUM_TOGETHER
            numbers = range(first, min(first + NUM_TOGETHER, len(CASES)))
            said = ranks.run([str(folder), *map(str, numbers)], num_ranks=NUM_RANKS, max_seconds=MAX_SECONDS)
            assert said is None, said[-3000:]
        return folder / str(number)

    ranks = ForkedRanks("tests.sizing.layout.megatron.saving")
    yield of_case
    ranks.end()


@each_case
def test_what_megatron_saved_once_is_predicted_rank_by_rank(number: int) -> None:
    _check(Counter(MEASURED[CASES[number].name]), CASES[number])


@pytest.mark.long(minutes=5)
@each_case
def test_what_megatron_saves_here_is_predicted_rank_by_rank(saved: Callable[[int], Path], number: int) -> None:
    _check(Counter(dict(_real(saved(number)))), CASES[number])


def _check(real: Counter[str], case: Case) -> None:
    predicted = Counter(dict(_predicted(case)))
    assert predicted.total() == pytest.approx(real.total(), rel=WITHIN_IN_TOTAL)
    assert set(predicted) == set(real)
    of_ranks, real_of_ranks = _by_rank(predicted), _by_rank(real)
    assert dict(of_ranks) == pytest.approx(dict(real_of_ranks), rel=WITHIN_OF_A_RANK)


@each_case
def test_the_metadata_that_megatron_saved_once_is_predicted(number: int) -> None:
    """It is a pickle of names and places, and a thousandth of the checkpoint."""
    _check_metadata(MEASURED_METADATA.get(CASES[number].name), CASES[number])


@pytest.mark.long
@each_case
def test_the_metadata_that_megatron_saves_here_is_predicted(saved: Callable[[int], Path], number: int) -> None:
    path = saved(number) / ".metadata"
    _check_metadata(path.stat().st_size if path.exists() else None, CASES[number])


def _check_metadata(real: int | None, case: Case) -> None:
    within = WITHIN_OF_METADATA_OF_ROWS if case.is_fsdp else WITHIN_OF_METADATA
    predicted = answer(case.scenario()).checkpoint.small_state_bytes.get(".metadata")
    assert predicted == (None if real is None else pytest.approx(real, rel=within))


@pytest.mark.long
@each_case
def test_inspect_counts_the_parameters_of_a_real_checkpoint(saved: Callable[[int], Path], number: int) -> None:
    """Experts too, which stand in the files of several ranks."""
    found, case = contents_of(saved(number)), CASES[number]
    assert found.num_parameters == answer(case.scenario()).model.num_parameters
    assert found.is_whole


def _real(folder: Path) -> Iterator[tuple[str, int]]:
    for path in folder.rglob("*"):
        if path.suffix in {".distcp", ".pt"} and path.name != "common.pt":
            yield str(path.relative_to(folder)), path.stat().st_size


def _predicted(case: Case) -> Iterator[tuple[str, int]]:
    """Bytes of each file, container included."""
    for row in manifest_of(case.scenario()):
        yield row.file, row.tensor_bytes + row.container_bytes


def _by_rank(files: Counter[str]) -> Counter[str]:
    """The files of a rank together: __RANK_N.distcp, or a folder."""
    ranks = Counter[str]()
    for name, num_bytes in files.items():
        ranks[name.rsplit("_" if name.endswith(".distcp") else "/", 1)[0]] += num_bytes
    return ranks
