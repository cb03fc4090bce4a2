"""Workload shapes: their tables, the flags that ask for them, and what they make of a calibration."""

from __future__ import annotations

import contextlib
import itertools
import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Protocol

import pytest

from io_bench.engines import ENGINES, IoReport
from io_bench.options import ASYNCHRONOUS_ENGINES, RunOptions
from io_bench.payload.inventory import equal_tensors
from io_bench.target.directory import RunDirectory
from io_bench.workloads.background_kinds import BACKGROUND_KINDS
from io_bench.workloads.restores import RESTORES, RestoreStrategy
from io_bench.workloads.retention import Retaining, num_slots
from sizing.errors import InvalidInput
from sizing.run.read_plan import RESTORE_STRATEGIES
from sizing.storage.calibration.fit_data import select_fit_data
from sizing.storage.measurement import BenchmarkResult
from sizing.storage.one_result import profile_of
from sizing.storage.workload_shape import Deletion, WorkloadShape
from tests.io_bench.conftest import REPOSITORY
from tests.sizing.storage.calibration.simulation import FULL_SCAN, result
from tests.testbed.processes import SECONDS_UNTIL_STUCK

TARGET = {"--target": "/mnt"}


class Named(Protocol):
    """A shape of any table."""

    name: str


def test_ways_to_restore_have_the_names_that_sizing_has_for_them() -> None:
    assert tuple(RESTORES) == RESTORE_STRATEGIES


@pytest.mark.parametrize("table", [RESTORES, BACKGROUND_KINDS])
def test_every_shape_stands_under_its_name_and_is_in_the_guide(table: Mapping[str, Named]) -> None:
    guide = (REPOSITORY / "docs" / "benchmarking.md").read_text()
    for name, shape in table.items():
        assert shape.name == name
        assert f"`{name}`" in guide


@pytest.mark.parametrize("strategy", RESTORES.values(), ids=list(RESTORES))
@pytest.mark.parametrize("num_bytes", [1, 4096, 100_000, (64 << 20) + 17])
@pytest.mark.parametrize("num_replicas", [2, 3, 8])
def test_replicas_read_what_sizing_says_that_the_strategy_reads(
    strategy: RestoreStrategy, num_bytes: int, num_replicas: int
) -> None:
    read = [strategy.read_bytes(num_bytes, k, num_replicas=num_replicas) for k in range(num_replicas)]
    times = num_replicas if strategy.name == "every-replica" else 1
    assert sum(read) == times * num_bytes


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        ({"--restore": "nope"}, "--restore must be a known restore strategy"),
        ({"--restore": "every-replica", "--engine": "dcp"}, "--restore works with --engine direct or"),
        ({"--restore": "parallel-read-exchange", "--engine": "torch-save"}, "--restore works with --engine direct"),
        ({"--restore": "read-once-broadcast", "--stream": True}, "--stream must not be combined with --restore"),
        ({"--replicas": "4"}, "--replicas needs --restore"),
        ({"--restore": "every-replica", "--replicas": "1"}, "--replicas must be"),
        ({"--deletion": "in-save"}, "--deletion needs --retain"),
        ({"--retain": "2", "--deletion": "later"}, "--deletion must be"),
        ({"--retain": "0"}, "--retain must be"),
        ({"--beside": "nope"}, "--beside must be a known background load"),
        ({"--beside": "compute"}, "--beside needs an asynchronous engine"),
        ({"--beside": "batches", "--target": "s3://b/p"}, "--beside reads from a directory"),
        ({"--batch-size": "1MiB"}, "--batch-size needs --beside batches"),
        ({"--batch-size": "1MiB", "--beside": "compute", "--engine": "async-dcp"}, "--batch-size needs --beside"),
        ({"--tensors-per-rank": "8", "--scenario": "s.json"}, "--tensors-per-rank must not be combined"),
    ],
)
def test_flags_that_do_not_go_together_are_refused_in_one_sentence(flags: dict[str, object], sentence: str) -> None:
    with pytest.raises(InvalidInput, match=sentence) as error:
        RunOptions.of(TARGET | flags)
    assert len(error.value.problems) == 1


def test_asynchronous_engines_are_engines() -> None:
    assert set(ASYNCHRONOUS_ENGINES) < set(ENGINES)


def numbers_in(folder: Path) -> Iterator[str]:
    """What the files hold; one that is removed meanwhile is not there."""
    for path in folder.iterdir():
        with contextlib.suppress(FileNotFoundError):
            yield path.read_text()


@pytest.mark.parametrize(("deletion", "num_beside"), [("in-save", 2), ("beside-save", 3)])
def test_so_many_whole_checkpoints_are_there_while_the_next_is_written(
    tmp_path: Path, deletion: Deletion, num_beside: int
) -> None:
    files = RunDirectory(tmp_path)
    retention = Retaining(files, ["a", "b"], count=2, deletion=deletion)
    written = itertools.count()
    seen: list[set[str]] = []

    def save() -> IoReport:
        seen.append(set(numbers_in(tmp_path)))
        number = next(written)
        for name in ("a", "b"):
            with retention.files.create(name) as file:
                file.write(str(number).encode())
        return IoReport()

    for _ in range(6):
        retention.next(save)
        retention.saved(save)
        retention.settle()
    timed = seen[num_beside:]
    newest = {str(number) for number in range(num_beside - 2, num_beside)}
    # What goes beside a save may have gone before it begins; the two retained ones never have.
    for number, there in enumerate(timed, start=num_beside):
        retained = {str(each) for each in range(number - 2, number)}
        assert retained <= there <= retained | {str(number - 3)}
    assert newest <= timed[0]
    assert len(list(tmp_path.iterdir())) == 2 * num_beside
    assert num_slots(2, deletion) == num_beside + 1
    files.remove_created()
    assert list(tmp_path.iterdir()) == []
    files.close()


class Stubborn(RunDirectory):
    """A place that removes nothing before the save has ended."""

    has_saved = threading.Event()

    def remove(self, names: Iterable[str]) -> None:
        assert self.has_saved.wait(SECONDS_UNTIL_STUCK)
        super().remove(names)


def saving(retention: Retaining) -> Callable[[], IoReport]:
    def save() -> IoReport:
        with retention.files.create("a"):
            return IoReport(phase_seconds={"write": 1.0})

    return save


def test_no_save_waits_for_a_deletion_beside_it(tmp_path: Path) -> None:
    """The removal waits for the end of the save: if the save waited too, neither would end."""
    files = Stubborn(tmp_path)
    retention = Retaining(files, ["a"], count=1, deletion="beside-save")
    save = saving(retention)
    retention.next(save)
    report = retention.saved(save)
    assert report.phase_seconds == {"write": 1.0}
    assert len(list(tmp_path.iterdir())) == 3
    Stubborn.has_saved.set()
    retention.settle()
    assert len(list(tmp_path.iterdir())) == 2
    assert retention.deletion_seconds is not None
    files.close()


def test_a_deletion_within_the_save_is_a_phase_of_it(tmp_path: Path) -> None:
    files = RunDirectory(tmp_path)
    retention = Retaining(files, ["a"], count=1, deletion="in-save")
    save = saving(retention)
    retention.next(save)
    report = retention.saved(save)
    assert report.phase_seconds == {"write": 1.0, "delete": retention.deletion_seconds}
    assert len(list(tmp_path.iterdir())) == 1
    files.close()


def test_a_numbered_place_keeps_evidence_of_its_own(tmp_path: Path) -> None:
    files = RunDirectory(tmp_path)
    for number in range(2):
        with files.numbered(number).create("a"):
            pass
    files.numbered(1).keep(["a"])
    files.remove_created()
    assert files.names() == ["1.a"]
    assert files.kept == {"1.a"}
    files.close()


def test_many_tensors_are_equal_and_fill_the_payload() -> None:
    inventory = equal_tensors(10 << 20, 1000)
    assert len({tensor.num_bytes for tensor in inventory.tensors}) == 1
    assert (10 << 20) - 8 * 1000 <= inventory.num_bytes <= 10 << 20


def shaped(documents: BenchmarkResult, shape: WorkloadShape) -> BenchmarkResult:
    rows = [each.model_copy(update={"shape": shape}) for each in documents.measurements]
    return documents.model_copy(update={"measurements": rows, "run_id": "shaped"})


def test_a_shaped_run_stays_out_of_plain_fits_and_is_fitted_with_its_like() -> None:
    plain = result(FULL_SCAN[:8], seed=1, noise=0.02, outliers=0, run_id="plain")
    hot = shaped(
        result(FULL_SCAN, seed=2, noise=0.02, outliers=0), WorkloadShape(restore="every-replica", num_replicas=4)
    )
    both = select_fit_data([plain, hot], "read")
    assert {row.run_id for row in both.rows} == {"plain"}
    assert any("restore every-replica by 4 replicas" in reason for reason in both.left_out)
    alone = select_fit_data([hot], "read")
    assert len(alone.rows) == len(FULL_SCAN)
    other = shaped(plain, WorkloadShape(restore="every-replica", num_replicas=2))
    assert {row.measurement.shape for row in select_fit_data([hot, other], "read").rows} == {hot.measurements[0].shape}


def test_a_shaped_run_makes_no_profile_of_its_rates() -> None:
    plain = result(FULL_SCAN[:4], seed=1, noise=0.02, outliers=0, run_id="plain")
    hot = shaped(plain, WorkloadShape(restore="every-replica", num_replicas=4))
    only_write = [
        each.model_copy(update={"shape": hot.measurements[0].shape}) if each.operation == "restore" else each
        for each in plain.measurements
    ]
    profile = profile_of(plain.model_copy(update={"measurements": only_write}))
    assert profile.write.file_system_bytes_per_second == profile_of(plain).write.file_system_bytes_per_second
    assert profile.read.file_system_bytes_per_second is None
    with pytest.raises(InvalidInput, match="with nothing beside it"):
        profile_of(hot)


def test_documents_of_before_have_no_shape_and_stay_readable() -> None:
    document = json.loads(result(FULL_SCAN[:1], seed=1, noise=0.0, outliers=0).model_dump_json(exclude_none=True))
    assert "shape" not in document["measurements"][0]
    assert BenchmarkResult.model_validate(document).measurements[0].shape is None


def test_the_reader_of_batches_ends_with_its_input(tmp_path: Path) -> None:
    path = tmp_path / "batches.bin"
    path.write_bytes(bytes(64 << 10))
    command = [sys.executable, "-m", "io_bench.workloads.batch_reader", str(path), "4096", "1"]
    done = subprocess.run(
        command, input="begin\nend\nbegin\n", capture_output=True, text=True, check=True, cwd=REPOSITORY, timeout=60
    )
    ready, counted = map(json.loads, done.stdout.splitlines())
    assert ready == {}
    assert counted["bytes"] >= 4096
    assert counted["bytes"] % 4096 == 0
