"""The contract of every engine. A new engine adds one class to this file; a test names those that have none."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, cast

import pytest
import torch
from safetensors.torch import load_file, save
from torch.distributed.checkpoint.format_utils import dcp_to_torch_save
from torch.distributed.checkpoint.metadata import Metadata
from torch.distributed.checkpoint.staging import DefaultStager
from torch.distributed.checkpoint.state_dict_saver import async_save

from io_bench.commands.main import main
from io_bench.engines import ENGINES, STREAMING_ENGINES, Engine, EngineOptions, EnginePlan, StreamingEngine, kvikio
from io_bench.engines.dcp_streams import METADATA, Writer
from io_bench.errors import RunFailed
from io_bench.payload import State
from io_bench.payload.device import Device
from io_bench.payload.inventory import inventory_of
from io_bench.payload.payload import GivenPayload, Payload, ResidentPayload, checksum, storage_bytes, tensors_of
from io_bench.ranks.process_group import ProcessGroup, Writers
from io_bench.target import run_place
from io_bench.target.directory import DirectoryTarget, RunDirectory
from io_bench.target.request_log import RequestLog
from sizing.errors import InvalidInput, NotInstalled
from sizing.layout.containers import CONTAINERS, ContainerOverhead, container_bytes, metadata_bytes
from sizing.storage.calibration.fit_data import PLANNING_ENGINES
from tests.io_bench.stand_in_for_kvikio import StandInForKvikio
from tests.testbed.processes import SECONDS_UNTIL_STUCK

CPU = Device("cpu")
INVENTORY = inventory_of(3 << 20)
TAILS = (0, 1, 511, 4095, 4097, (4 << 20) + 1)
DTYPES = (
    *(torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2),
    *(torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.bool),
)


def layers() -> Payload:
    payload = ResidentPayload(INVENTORY, seed=1, rank=0, device="cpu")
    payload.refill(0)
    return payload


def tails() -> Payload:
    """Sizes around those of sectors, pages and blocks."""
    return GivenPayload({"tails": {str(size): random_bytes(size) for size in TAILS}})


def every_dtype() -> Payload:
    return GivenPayload(
        {str(dtype): random_bytes(64).view(torch.bool if dtype is torch.bool else dtype) for dtype in DTYPES}
    )


def odd_shapes() -> Payload:
    """Tensors that are not blocks of memory of their own."""
    weight = torch.arange(12_000.0).view(100, 120)
    return GivenPayload(
        {
            "tied": {"embedding": weight, "head": weight},
            "views": {"transposed": weight.t(), "strided": weight[::3, 5:50], "tail": weight.view(-1)[7_001:]},
            "zero_dimensional": {"step": torch.tensor(7.0), "flag": torch.tensor(True)},
            "empty": {"flat": torch.empty(0), "rows": torch.empty(3, 0, dtype=torch.bfloat16)},
            "iteration": 3,
        }
    )


PAYLOADS = {made.__name__: made for made in (layers, tails, every_dtype, odd_shapes)}


def random_bytes(count: int) -> torch.Tensor:
    return torch.randint(0, 2, (count,), dtype=torch.uint8, generator=torch.Generator().manual_seed(count))


def on_device(payload: Payload, device: Device) -> Payload:
    """The same tensors on a GPU; those that share memory do so there too."""
    if not device.is_gpu:
        return payload
    moved: dict[int, torch.UntypedStorage] = {}

    def there(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: there(item) for key, item in value.items()}
        if not isinstance(value, torch.Tensor):
            return value
        storage = value.untyped_storage()
        if storage.data_ptr() not in moved or not storage.nbytes():
            moved[storage.data_ptr()] = storage_bytes(value).to(device.name).untyped_storage()
        shared = torch.empty(0, dtype=value.dtype, device=device.name)
        return shared.set_(moved[storage.data_ptr()], value.storage_offset(), value.shape, value.stride())

    return GivenPayload(there(payload.state))


def bytes_of(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.contiguous().view(-1).view(torch.uint8)


def restored_checksum(engine: Engine, directory: RunDirectory, plan: EnginePlan, device: Device = CPU) -> str:
    restored = engine.restore(directory, plan, device)
    assert restored.state is not None
    return checksum(restored.state)


class EngineContract:
    """What holds for any engine: inherit, give its name in ENGINES and what container sizing takes its files for.

    An engine that writes no torch files overrides `read_plainly`.
    """

    name: str
    container: ContainerOverhead
    options = EngineOptions()
    device = CPU

    @pytest.fixture
    def engine(self) -> Engine:
        return ENGINES[self.name](self.options)

    def read_plainly(self, directory: Path) -> State:
        """What anybody gets who loads the files of a rank without this project."""
        (file,) = directory.glob("rank-*")
        return dict(torch.load(file, weights_only=True))

    @pytest.fixture
    def payload(self, request: pytest.FixtureRequest) -> Payload:
        return on_device(PAYLOADS[getattr(request, "param", "layers")](), self.device)

    @pytest.fixture
    def plan(self, engine: Engine, payload: Payload, group: ProcessGroup) -> Iterator[EnginePlan]:
        plan = engine.plan(INVENTORY, rank=0, device=self.device)
        engine.prepare(payload, plan, device=self.device, writers=Writers((0,), group))
        yield plan
        engine.close()

    @pytest.fixture
    def directory(self, target: Path, group: ProcessGroup, plan: EnginePlan) -> Iterator[RunDirectory]:
        place = DirectoryTarget.checked(str(target))
        with run_place.open_place(place, group, run_id="run", files_of=lambda _: plan.files, keep=False) as opened:
            assert isinstance(opened, RunDirectory)
            yield opened

    @pytest.mark.parametrize("payload", PAYLOADS, indirect=True)
    def test_what_is_written_is_restored_equal(
        self, engine: Engine, plan: EnginePlan, payload: Payload, directory: RunDirectory
    ) -> None:
        engine.write(payload, directory, plan)
        assert restored_checksum(engine, directory, plan, self.device) == checksum(payload.state)

    @pytest.mark.parametrize("payload", PAYLOADS, indirect=True)
    def test_what_is_written_is_a_real_checkpoint(
        self, engine: Engine, plan: EnginePlan, payload: Payload, directory: RunDirectory
    ) -> None:
        engine.write(payload, directory, plan)
        loaded, written = dict(tensors_of(self.read_plainly(directory.path))), dict(tensors_of(payload.state))
        assert loaded.keys() == written.keys()
        for name, tensor in written.items():
            assert loaded[name].dtype == tensor.dtype
            assert loaded[name].shape == tensor.shape
            assert torch.equal(bytes_of(loaded[name]), bytes_of(tensor.cpu())), name

    def test_the_reported_bytes_are_on_disk(
        self, engine: Engine, plan: EnginePlan, payload: Payload, directory: RunDirectory
    ) -> None:
        engine.write(payload, directory, plan)
        on_disk = sum((directory.path / name).stat().st_size for name in plan.files)
        assert engine.bytes_on_disk(directory, plan) == on_disk

    def test_the_plan_bounds_the_bytes_on_disk_from_above_and_closely(
        self, engine: Engine, plan: EnginePlan, payload: Payload, directory: RunDirectory
    ) -> None:
        engine.write(payload, directory, plan)
        assert INVENTORY.num_bytes <= engine.bytes_on_disk(directory, plan) <= plan.max_disk_bytes
        large = inventory_of(1 << 30)
        assert engine.plan(large, rank=0, device=self.device).max_disk_bytes < large.num_bytes * 1.001

    def test_it_takes_the_bytes_on_disk_that_sizing_predicts(
        self, engine: Engine, plan: EnginePlan, payload: Payload, directory: RunDirectory
    ) -> None:
        engine.write(payload, directory, plan)
        overhead = engine.bytes_on_disk(directory, plan) - INVENTORY.num_bytes
        predicted = container_bytes(self.container, num_files=len(plan.files), num_tensors=INVENTORY.num_tensors)
        assert overhead == pytest.approx(predicted, rel=0.25)

    def test_what_is_restored_survives_a_second_restore_and_the_next_write(
        self, engine: Engine, plan: EnginePlan, payload: Payload, directory: RunDirectory
    ) -> None:
        engine.write(payload, directory, plan)
        engine.restore(directory, plan, self.device)
        directory.remove_created()
        payload.refill(1)
        engine.write(payload, directory, plan)
        assert restored_checksum(engine, directory, plan, self.device) == checksum(payload.state)

    def test_only_the_planned_files_are_made_and_all_are_removed_by_the_rank_that_made_them(
        self, engine: Engine, plan: EnginePlan, payload: Payload, directory: RunDirectory
    ) -> None:
        before = set(directory.names())
        engine.write(payload, directory, plan)
        assert set(directory.names()) - before == set(plan.files)
        directory.remove_created()
        assert set(directory.names()) == before

    def test_ranks_write_different_files(self, engine: Engine) -> None:
        files = [engine.plan(INVENTORY, rank=rank, device=self.device).files for rank in range(3)]
        assert len({name for names in files for name in names}) == sum(map(len, files))

    def test_a_file_that_is_there_already_is_never_overwritten(
        self, engine: Engine, plan: EnginePlan, payload: Payload, directory: RunDirectory
    ) -> None:
        foreign = directory.path / plan.files[0]
        foreign.write_bytes(b"precious")
        with pytest.raises(FileExistsError):
            engine.write(payload, directory, plan)
        directory.remove_created()
        assert foreign.read_bytes() == b"precious"
        foreign.unlink()

    def test_the_phases_say_where_the_time_went(
        self, engine: Engine, plan: EnginePlan, payload: Payload, directory: RunDirectory
    ) -> None:
        report = engine.write(payload, directory, plan)
        assert {"create", "write", "fsync"} <= report.phase_seconds.keys()
        assert all(seconds > 0 for seconds in report.phase_seconds.values())
        assert "read" in engine.restore(directory, plan, self.device).report.phase_seconds

    def test_the_null_sink_leaves_no_file(self, engine: Engine, payload: Payload, directory: RunDirectory) -> None:
        before = directory.names()
        engine.write_to_null_sink(payload)
        assert directory.names() == before

    def test_it_is_in_the_table_under_its_own_name(self, engine: Engine) -> None:
        assert engine.name == self.name

    def test_the_table_says_whether_it_streams(self, engine: Engine) -> None:
        assert isinstance(engine, StreamingEngine) == (self.name in STREAMING_ENGINES)

    def test_calibration_knows_whether_its_ranks_plan_together(
        self, engine: Engine, plan: EnginePlan, payload: Payload, directory: RunDirectory
    ) -> None:
        assert ("plan" in engine.write(payload, directory, plan).phase_seconds) == (self.name in PLANNING_ENGINES)


class TestTorchSave(EngineContract):
    name = "torch-save"
    container = CONTAINERS["torch-zip"]

    def test_a_restored_tensor_does_not_depend_on_the_file(
        self, engine: Engine, plan: EnginePlan, payload: Payload, directory: RunDirectory
    ) -> None:
        engine.write(payload, directory, plan)
        restored = engine.restore(directory, plan, CPU)
        (directory.path / plan.files[0]).write_bytes(b"gone")
        assert restored.state is not None
        assert checksum(restored.state) == checksum(payload.state)


class TestTensorFiles(EngineContract):
    name = "tensor-files"
    container = CONTAINERS["torch-zip"]

    def read_plainly(self, directory: Path) -> State:
        state: State = {}
        for file in sorted(directory.glob("rank-*")):
            for path, value in torch.load(file, weights_only=True).items():
                part = state
                for key in path[:-1]:
                    part = part.setdefault(key, {})
                part[path[-1]] = value
        return state

    def test_every_tensor_has_a_file(
        self, engine: Engine, plan: EnginePlan, payload: Payload, directory: RunDirectory
    ) -> None:
        engine.write(payload, directory, plan)
        assert len(plan.files) == INVENTORY.num_tensors
        held = [list(dict(torch.load(directory.path / name, weights_only=True)).values()) for name in plan.files]
        assert {sum(isinstance(value, torch.Tensor) for value in values) for values in held} == {1}


class TestTensorFilesOfThreads(TestTensorFiles):
    options = EngineOptions(num_threads=4)


class TestDirect(EngineContract):
    name = "direct"
    container = CONTAINERS["torch-zip-aligned"]


class TestDcp(EngineContract):
    name = "dcp"
    container = CONTAINERS["distcp"]

    def read_plainly(self, directory: Path) -> State:
        dcp_to_torch_save(directory, directory.parent / "gathered.pt")
        return dict(torch.load(directory.parent / "gathered.pt", weights_only=True)["rank-0"])

    def test_metadata_is_whole_on_disk_when_it_takes_its_name(
        self,
        engine: Engine,
        plan: EnginePlan,
        payload: Payload,
        directory: RunDirectory,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        synced: dict[int, int] = {}
        fsync = os.fsync

        def watch(fd: int) -> None:
            synced[os.fstat(fd).st_ino] = os.fstat(fd).st_size
            fsync(fd)

        monkeypatch.setattr(os, "fsync", watch)
        engine.write(payload, directory, plan)
        for name in plan.files:
            stat = (directory.path / name).stat()
            assert synced[stat.st_ino] == stat.st_size > 0

    def test_planning_and_commit_are_phases_of_their_own(
        self, engine: Engine, plan: EnginePlan, payload: Payload, directory: RunDirectory
    ) -> None:
        phases = engine.write(payload, directory, plan).phase_seconds
        assert list(phases) == ["plan", "create", "write", "fsync", "close", "commit"]
        assert phases["plan"] > 0

    def test_tensors_and_metadata_take_what_sizing_predicts_each(
        self, engine: Engine, plan: EnginePlan, payload: Payload, directory: RunDirectory
    ) -> None:
        """But for `.metadata`: sizing counts the longer names and the sharded tensors of training."""
        engine.write(payload, directory, plan)
        sizes = {name: (directory.path / name).stat().st_size for name in plan.files}
        metadata, num_tensors = sizes.pop(METADATA), INVENTORY.num_tensors
        overhead = sum(sizes.values()) - INVENTORY.num_bytes
        predicted = container_bytes(CONTAINERS["distcp"], num_files=len(sizes), num_tensors=num_tensors)
        assert overhead == pytest.approx(predicted, rel=0.01)
        assert metadata == pytest.approx(metadata_bytes(num_tensors=num_tensors, num_shards=num_tensors), rel=0.4)

    @pytest.mark.usefixtures("plan")
    def test_the_null_sink_plans_and_commits_too(
        self, engine: Engine, payload: Payload, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """With many ranks that may take longer than the I/O: else the storage would seem to be the limit."""
        committed: list[int] = []
        finish = Writer.finish

        def finish_and_say(writer: Writer, metadata: Metadata, results: Any) -> None:
            finish(writer, metadata, results)
            committed.append(len(metadata.state_dict_metadata))

        monkeypatch.setattr(Writer, "finish", finish_and_say)
        engine.write_to_null_sink(payload)
        (num_entries,) = committed
        assert num_entries >= INVENTORY.num_tensors

    def test_an_error_of_any_thread_is_raised(
        self, engine: Engine, plan: EnginePlan, payload: Payload, directory: RunDirectory
    ) -> None:
        """DCP prints those of its additional threads, and forgets them."""
        (directory.path / plan.files[len(plan.files) - 2]).write_bytes(b"precious")
        with pytest.raises(FileExistsError):
            engine.write(payload, directory, plan)
        assert not (directory.path / METADATA).exists()
        (directory.path / plan.files[len(plan.files) - 2]).unlink()

    def test_dcp_logs_no_stack_of_what_cannot_be_read(
        self,
        engine: Engine,
        plan: EnginePlan,
        payload: Payload,
        directory: RunDirectory,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        engine.write(payload, directory, plan)
        (directory.path / METADATA).unlink()
        with pytest.raises(FileNotFoundError):
            engine.restore(directory, plan, self.device)
        assert [record for record in caplog.records if record.name == "root"] == []


class TestDcpTuned(TestDcp):
    options = EngineOptions(num_threads=4)


class TestAsyncDcp(TestDcp):
    name = "async-dcp"

    def test_training_stalls_for_the_copy_alone(
        self, engine: Engine, plan: EnginePlan, payload: Payload, directory: RunDirectory
    ) -> None:
        report = engine.write(payload, directory, plan)
        assert report.stall_seconds is not None
        assert report.drain_seconds is not None
        assert report.stall_seconds > 0
        assert report.drain_seconds > report.phase_seconds["fsync"]

    @pytest.mark.usefixtures("plan")
    def test_the_null_sink_stages_too(self, engine: Engine, payload: Payload, monkeypatch: pytest.MonkeyPatch) -> None:
        staged: list[str] = []
        stage = DefaultStager.stage

        def stage_and_say(stager: DefaultStager, state: State) -> State:
            copy = cast(State, stage(stager, state))
            staged.append(checksum(copy["rank-0"]))
            return copy

        monkeypatch.setattr(DefaultStager, "stage", stage_and_say)
        engine.write_to_null_sink(payload)
        assert staged == [checksum(payload.state)]

    def test_what_training_changes_after_the_stall_is_not_saved(
        self,
        engine: Engine,
        plan: EnginePlan,
        payload: Payload,
        directory: RunDirectory,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        before, has_trained = checksum(payload.state), threading.Event()

        def save_and_train(*arguments: Any, **options: Any) -> Any:
            response = async_save(*arguments, **options)
            for _, tensor in tensors_of(payload.state):
                tensor.zero_()
            has_trained.set()
            return response

        create = directory.create

        def create_slowly(name: str) -> BinaryIO:
            assert has_trained.wait(SECONDS_UNTIL_STUCK)  # before the first byte is written
            return create(name)

        monkeypatch.setattr("io_bench.engines.dcp.async_save", save_and_train)
        monkeypatch.setattr(directory, "create", create_slowly)
        engine.write(payload, directory, plan)
        assert checksum(payload.state) != before
        assert restored_checksum(engine, directory, plan) == before


class TestSafetensors(EngineContract):
    name = "safetensors"
    container = CONTAINERS["safetensors"]

    def read_plainly(self, directory: Path) -> State:
        (file,) = directory.glob("rank-*")
        flat = load_file(file)
        state: State = {}
        for name, tensor in flat.items():
            part, _, rest = name.partition(".")
            state.setdefault(part, {})[rest] = tensor
        return state

    def test_the_file_is_the_one_that_the_library_writes(
        self, engine: Engine, plan: EnginePlan, payload: Payload, directory: RunDirectory
    ) -> None:
        engine.write(payload, directory, plan)
        written = (directory.path / plan.files[0]).read_bytes()
        assert written == save(dict(tensors_of(payload.state)), metadata={"iteration": "0"})

    def test_a_file_that_ends_early_is_refused(
        self, engine: Engine, plan: EnginePlan, payload: Payload, directory: RunDirectory
    ) -> None:
        engine.write(payload, directory, plan)
        path = directory.path / plan.files[0]
        for size in (path.stat().st_size - 1, 100, 3):
            os.truncate(path, size)
            with pytest.raises(RunFailed, match="cannot be read back: the file ends within"):
                engine.restore(directory, plan, CPU)


class TestKvikio(EngineContract):
    name = "kvikio"
    container = CONTAINERS["torch-zip-aligned"]

    @pytest.fixture(autouse=True)
    def _library(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """kvikio needs the driver of a GPU: here something stands for it that has the same methods."""
        monkeypatch.setattr(kvikio, "library", StandInForKvikio)

    def test_a_file_that_ends_early_is_refused(
        self, engine: Engine, plan: EnginePlan, payload: Payload, directory: RunDirectory
    ) -> None:
        """torch finds the end of the file missing; where it does not, the bytes are."""
        engine.write(payload, directory, plan)
        os.truncate(directory.path / plan.files[0], 100_000)
        with pytest.raises(RunFailed, match="cannot be read back"):
            engine.restore(directory, plan, self.device)

    def test_what_kvikio_says_of_the_system_is_an_error_of_the_system(
        self, engine: Engine, plan: EnginePlan, payload: Payload, directory: RunDirectory
    ) -> None:
        StandInForKvikio.CuFile.fails = True
        try:
            with pytest.raises(OSError, match="No space left"):
                engine.write(payload, directory, plan)
        finally:
            StandInForKvikio.CuFile.fails = False

    def test_requests_are_seen_one_by_one_and_make_up_the_file(
        self, engine: Engine, plan: EnginePlan, payload: Payload, directory: RunDirectory
    ) -> None:
        directory.log = RequestLog()
        engine.write(payload, directory, plan)
        assert sum(directory.log.summary().bin_bytes) == pytest.approx(engine.bytes_on_disk(directory, plan), rel=1e-3)

    def test_the_compatibility_mode_is_said(
        self, engine: Engine, plan: EnginePlan, payload: Payload, directory: RunDirectory
    ) -> None:
        (notice,) = engine.write(payload, directory, plan).notices
        assert "compatibility mode" in notice


@pytest.mark.gpu
class TestKvikioOnAGpu(EngineContract):
    name = "kvikio"
    container = CONTAINERS["torch-zip-aligned"]
    device = Device("cuda:0")


@pytest.mark.gpu
class TestDirectOnAGpu(EngineContract):
    name = "direct"
    container = CONTAINERS["torch-zip-aligned"]
    device = Device("cuda:0")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_kvikio_is_refused_and_never_imported() -> None:
    with pytest.raises(InvalidInput, match="needs a GPU that torch sees"):
        kvikio.library()
    assert "kvikio" not in sys.modules


def test_without_kvikio_a_gpu_is_told_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setitem(sys.modules, "kvikio", None)
    with pytest.raises(NotInstalled, match=r"checkpoint-sizing\[gpu\]"):
        kvikio.library()


def contracts(of: type[EngineContract] = EngineContract) -> Iterator[type[EngineContract]]:
    """Every contract class of this file that pytest collects."""
    for contract in of.__subclasses__():
        if contract.__module__ == __name__ and contract.__name__.startswith("Test"):
            yield contract
        yield from contracts(contract)


def test_every_engine_is_held_to_the_contract() -> None:
    covered = {contract.name for contract in contracts()}
    assert covered == set(ENGINES)


def test_every_engine_is_in_the_guide() -> None:
    guide = (Path(__file__).parents[2] / "docs" / "benchmarking.md").read_text()
    assert [name for name in ENGINES if f"| `{name}` |" not in guide] == []


def test_the_engines_are_listed_for_whom_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["engines"])
    listed = capsys.readouterr().out
    for name, entry in ENGINES.items():
        assert name in listed
        assert entry.summary in " ".join(listed.split())
