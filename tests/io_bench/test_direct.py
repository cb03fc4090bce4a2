"""What `direct` alone promises, on real file systems: ext4, one that refuses O_DIRECT, a full one."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils.serialization import config

from io_bench import host
from io_bench.commands.main import main
from io_bench.engines import EngineOptions, EnginePlan, IoReport, direct_blocks
from io_bench.engines.direct import Direct
from io_bench.engines.direct_blocks import FileBytes, FileLayout
from io_bench.engines.direct_files import LocalFile, Threads, TimeSpent
from io_bench.errors import RunFailed
from io_bench.payload.byte_source import Bytes, aligned_memory, is_aligned, pad_bytes
from io_bench.payload.device import Device
from io_bench.payload.inventory import inventory_of
from io_bench.payload.payload import GivenPayload, Payload, ResidentPayload, StreamedPayload, checksum, tensors_of
from io_bench.ranks.process_group import ProcessGroup, Writers
from io_bench.target import page_cache, run_place
from io_bench.target.directory import DirectoryTarget, RunDirectory
from io_bench.target.places import MANIFEST
from sizing.storage.measurement import BenchmarkResult, Measurement
from tests.testbed.file_systems import buffered_disk, memory_disk
from tests.testbed.glusterfs import glusterfs
from tests.testbed.network import Link, network

if TYPE_CHECKING:
    from tests.conftest import Testbed
    from tests.io_bench.conftest import Bench, Tree

CPU = Device("cpu")
INVENTORY = inventory_of(3 << 20)
SMALL_BLOCKS = EngineOptions(block_bytes=64 << 10, num_threads=3)


class Prepared:
    """An engine with a payload and a run's directory, as a campaign has them."""

    def __init__(self, directory: RunDirectory, group: ProcessGroup, payload: Payload, options: EngineOptions) -> None:
        self.engine, self.directory, self.payload = Direct(options), directory, payload
        self.plan: EnginePlan = self.engine.plan(INVENTORY, rank=0, device=CPU)
        self.engine.prepare(payload, self.plan, device=CPU, writers=Writers((0,), group))
        self.path = directory.path / self.plan.files[0]

    def write(self) -> IoReport:
        return self.engine.write(self.payload, self.directory, self.plan)

    def restored_checksum(self) -> str | None:
        state = self.engine.restore(self.directory, self.plan, CPU).state
        return None if state is None else checksum(state)

    def holds(self) -> bool:
        return self.engine.holds(self.payload, self.directory, self.plan)


Prepare = Callable[..., Prepared]


@pytest.fixture
def prepared(group: ProcessGroup, target: Path, testbed: Testbed) -> Iterator[Prepare]:  # noqa: ARG001 - disks go last
    """Engines on a target, with small blocks so that a small payload has many."""
    with contextlib.ExitStack() as stack:

        def prepare(payload: Payload, *, options: EngineOptions = SMALL_BLOCKS, target: Path = target) -> Prepared:
            place = DirectoryTarget.checked(str(target))
            opened = run_place.open_place(place, group, run_id="run", files_of=lambda _: ["rank-00000.pt"], keep=False)
            directory = stack.enter_context(opened)
            assert isinstance(directory, RunDirectory)
            return Prepared(directory, group, payload, options)

        yield prepare


def resident() -> ResidentPayload:
    payload = ResidentPayload(INVENTORY, seed=1, rank=0, device="cpu")
    payload.refill(0)
    return payload


def streamed() -> StreamedPayload:
    return StreamedPayload(INVENTORY, seed=1, rank=0)


STREAMED = EngineOptions(block_bytes=64 << 10, num_threads=3, is_streamed=True)


def test_a_direct_write_leaves_no_page_in_memory_and_a_direct_restore_no_data(prepared: Prepare) -> None:
    engine = prepared(GivenPayload({"w": torch.zeros((8 << 20) + 1, dtype=torch.uint8)}))
    report = engine.write()
    assert report.is_direct
    assert report.notices == ()
    with engine.path.open("rb") as file:
        assert page_cache.num_resident_pages(file.fileno()) == 0
        assert engine.engine.restore(engine.directory, engine.plan, CPU).report.is_direct
        # The pickle and the zip's directory are read through the page cache: a window at either end.
        assert page_cache.num_resident_pages(file.fileno()) < 500


def test_it_is_a_file_that_torch_can_map(prepared: Prepare) -> None:
    engine = prepared(resident())
    engine.write()
    mapped = torch.load(engine.path, mmap=True, weights_only=True)
    assert checksum(mapped) == checksum(engine.payload.state)


def test_storages_begin_at_pages_so_that_a_mapped_tensor_is_aligned(prepared: Prepare) -> None:
    engine = prepared(resident())
    engine.write()
    offsets = [
        t.untyped_storage()._checkpoint_offset for _, t in tensors_of(torch.load(engine.path, map_location="meta"))
    ]
    assert len(offsets) == INVENTORY.num_tensors
    assert all(offset is not None and offset % 4096 == 0 for offset in offsets)


def test_it_writes_the_bytes_that_torch_itself_would_write(prepared: Prepare, tmp_path: Path) -> None:
    engine = prepared(resident())
    engine.write()
    with (tmp_path / "plain.pt").open("wb") as file, cast(Any, config).patch({"save.storage_alignment": 4096}):
        torch.save(engine.payload.state, file)
    plain, direct = (np.fromfile(path, dtype=np.uint8) for path in (tmp_path / "plain.pt", engine.path))
    assert len(plain) == len(direct)
    # All but the CRC of each tensor, which stands after its data and in the zip's directory, and the id made of them.
    assert 0 < np.count_nonzero(plain != direct) <= 8 * INVENTORY.num_tensors + 60


def test_tied_tensors_are_written_once_and_stay_tied(prepared: Prepare) -> None:
    weight = torch.arange(1_000_000.0)
    engine = prepared(GivenPayload({"embedding": weight, "head": weight[10:]}))
    engine.write()
    assert engine.path.stat().st_size < weight.numel() * 4 * 1.02
    state = engine.engine.restore(engine.directory, engine.plan, CPU).state
    assert state is not None
    state["embedding"][10] = -1
    assert state["head"][0] == -1


def test_earlier_torch_reads_the_layout_in_fake_tensor_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    state = resident().state
    now = FileLayout(state).extents
    monkeypatch.setattr(direct_blocks, "_LOADS_TO_META_WITHOUT_READING", "99")
    assert isinstance(direct_blocks._no_data_is_read(), FakeTensorMode)
    assert FileLayout(state).extents == now


def test_a_block_holds_many_small_tensors_and_what_stands_between_them() -> None:
    payload = GivenPayload({str(i): torch.full((100,), i, dtype=torch.uint8) for i in range(50)})
    file_layout = FileLayout(payload.state)
    content, num_bytes = FileBytes(file_layout, payload), pad_bytes(file_layout.num_bytes)
    (whole,) = content.pieces(0, np.full(num_bytes, 255, dtype=np.uint8))
    parts = np.full_like(whole, 254)
    for start in range(0, len(parts), 24 * 1024):
        content.pieces(start, parts[start : start + 24 * 1024])
    assert np.array_equal(whole, parts)
    assert not whole[file_layout.num_bytes :].any()
    for extent in file_layout.extents:
        assert (whole[extent.offset : extent.offset + extent.num_bytes] == int(extent.tensor)).all()


def test_a_streamed_payload_gives_the_checkpoint_that_the_same_payload_in_memory_gives(prepared: Prepare) -> None:
    engine = prepared(streamed(), options=STREAMED)
    report = engine.write()
    assert checksum(torch.load(engine.path, weights_only=True)) == checksum(resident().state)
    assert report.generator_wait_fraction is not None
    assert 0 < report.generator_wait_fraction < 1
    assert engine.restored_checksum() is None
    assert engine.holds()


@pytest.mark.parametrize("place", [0, 100_000, 1_500_001, -1])
def test_a_changed_byte_of_a_streamed_payload_is_found(prepared: Prepare, place: int) -> None:
    engine = prepared(streamed(), options=STREAMED)
    engine.write()
    assert engine.holds()
    with engine.path.open("r+b") as file:
        file.seek(place, os.SEEK_SET if place >= 0 else os.SEEK_END)
        byte = file.read(1)[0]
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte ^ 1]))
    assert not engine.holds()


def test_another_repetition_or_a_longer_file_is_not_what_was_written(prepared: Prepare) -> None:
    engine = prepared(streamed(), options=STREAMED)
    engine.write()
    engine.payload.refill(1)
    assert not engine.holds()
    engine.payload.refill(0)
    with engine.path.open("ab") as file:
        file.write(b"more")
    assert not engine.holds()


def test_a_file_that_has_lost_its_end_cannot_be_read_back(prepared: Prepare) -> None:
    engine = prepared(resident())
    engine.write()
    os.truncate(engine.path, engine.path.stat().st_size // 2)
    with pytest.raises(RunFailed, match=r"rank-00000.pt cannot be read back"):
        engine.restored_checksum()


def test_where_o_direct_is_refused_the_page_cache_is_used_and_named(
    prepared: Prepare, testbed: Testbed, tmp_path: Path
) -> None:
    engine = prepared(resident(), target=testbed(buffered_disk(tmp_path)))
    report = engine.write()
    assert not report.is_direct
    (notice,) = report.notices
    assert (
        notice == f"The file system of {engine.directory.path} refuses O_DIRECT: the engine direct used the page cache."
    )
    assert engine.restored_checksum() == checksum(engine.payload.state)
    assert not engine.engine.restore(engine.directory, engine.plan, CPU).report.is_direct


def test_a_full_disk_is_found_before_a_byte_is_written(prepared: Prepare, small_filesystem: Path) -> None:
    engine = prepared(GivenPayload({"w": torch.ones(80 << 20, dtype=torch.uint8)}), target=small_filesystem)
    with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)):
        engine.write()
    assert not np.fromfile(engine.path, dtype=np.uint8).any()


@pytest.mark.parametrize("most", [4096, 5000, 40_000])
def test_short_writes_go_on_where_they_ended(most: int, monkeypatch: pytest.MonkeyPatch, prepared: Prepare) -> None:
    real = os.pwritev

    def short(fd: int, pieces: Sequence[memoryview], offset: int) -> int:
        """Of the first piece at most so many bytes: whole pages are written, the rest is only claimed."""
        data = pieces[0][: most // 4096 * 4096]
        return real(fd, [data], offset) + (most % 4096 if len(data) < len(pieces[0]) else 0)

    monkeypatch.setattr(os, "pwritev", short)
    engine = prepared(resident())
    engine.write()
    assert engine.restored_checksum() == checksum(engine.payload.state)
    monkeypatch.undo()
    assert checksum(torch.load(engine.path, weights_only=True)) == checksum(engine.payload.state)


def test_a_disk_that_takes_next_to_nothing_of_a_request_is_an_error(
    monkeypatch: pytest.MonkeyPatch, prepared: Prepare
) -> None:
    monkeypatch.setattr(os, "pwritev", lambda *_: 100)
    with pytest.raises(OSError, match="only 100 bytes"):
        prepared(resident()).write()


def test_short_reads_go_on_where_they_ended(monkeypatch: pytest.MonkeyPatch, prepared: Prepare) -> None:
    engine = prepared(resident())
    engine.write()
    real = os.preadv
    monkeypatch.setattr(os, "preadv", lambda fd, views, offset: real(fd, [views[0][:8192]], offset))
    assert engine.restored_checksum() == checksum(engine.payload.state)


@pytest.mark.parametrize("fails", ["filling", "writing"])
def test_an_error_of_one_thread_ends_the_others_and_is_raised(fails: str, tmp_path: Path) -> None:
    filled = []

    class Failing(LocalFile):
        def write(self, pieces: Sequence[Bytes], offset: int) -> None:  # noqa: ARG002 - only the offset decides
            if fails == "writing" and offset == 5 * 4096:
                raise OSError(errno.EIO, "the fifth")

    def fill(offset: int, block: Bytes) -> list[Bytes]:
        filled.append(offset)
        if fails == "filling" and offset == 5 * 4096:
            raise OSError(errno.EIO, "the fifth")
        return [block]

    with Failing((tmp_path / "file").open("wb"), 10_000 * 4096) as file, pytest.raises(OSError, match="the fifth"):
        Threads(4, block_bytes=4096, is_pinned=False).write(file, fill, TimeSpent())
    assert len(filled) < 10_000


def test_every_block_is_filled_before_it_is_written_and_the_last_is_padded(tmp_path: Path) -> None:
    size, someone_waits, seconds = 10 * 8192 + 1, threading.Event(), list[float]()

    class Waiting(TimeSpent):
        @contextlib.contextmanager
        def counted(self) -> Iterator[None]:
            with super().counted():
                someone_waits.set()
                yield

    def fill(offset: int, block: Bytes) -> list[Bytes]:
        assert someone_waits.wait(600)
        begun = time.perf_counter()
        block[:] = offset // 8192 + 1
        seconds.append(time.perf_counter() - begun)
        return [block]

    waiting = Waiting()

    with LocalFile((tmp_path / "file").open("wb"), size) as file:
        Threads(3, block_bytes=8192, is_pinned=False).write(file, fill, waiting)
    written = np.fromfile(tmp_path / "file", dtype=np.uint8)
    assert len(written) == 10 * 8192 + 4096
    assert np.array_equal(written, np.arange(len(written)) // 8192 + 1)
    assert waiting.seconds > min(seconds)


def test_every_block_is_read_once(tmp_path: Path) -> None:
    moved = []
    with LocalFile((tmp_path / "file").open("wb"), 10 * 8192 + 1) as file:
        threads = Threads(3, block_bytes=8192, is_pinned=False)
        threads.read(file, lambda offset, block: moved.append((offset, len(block))))
    assert sorted(moved) == [*((offset, 8192) for offset in range(0, 10 * 8192, 8192)), (10 * 8192, 4096)]


def test_memory_begins_at_pages_whatever_its_size() -> None:
    memory = aligned_memory([12_288, 0, 1, 4097])
    assert [len(each) for each in memory] == [12_288, 0, 1, 4097]
    assert all(map(is_aligned, memory))


def test_tensors_at_pages_are_written_from_where_they_are_and_all_else_from_the_buffer() -> None:
    payload = resident()
    file_layout = FileLayout(payload.state)
    buffer = aligned_memory([pad_bytes(file_layout.num_bytes)])[0]
    pieces = FileBytes(file_layout, payload).pieces(0, buffer)
    sizes = [tensor.nbytes for _, tensor in tensors_of(payload.state)]
    in_place = [piece for piece in pieces if not np.shares_memory(piece, buffer)]
    assert [len(piece) for piece in in_place] == [size // 4096 * 4096 for size in sizes if size >= 64 << 10]
    assert all(is_aligned(piece) and len(piece) % 4096 == 0 for piece in pieces)
    whole = np.concatenate(pieces)
    for extent in file_layout.extents:
        tensor = whole[extent.offset : extent.offset + extent.num_bytes]
        assert np.array_equal(tensor, bytes_of(payload, extent.tensor))


def bytes_of(payload: Payload, tensor: str) -> Bytes:
    memory = payload.bytes_of(tensor).memory
    assert memory is not None
    return memory


def test_more_pieces_than_one_request_takes_go_in_several(tmp_path: Path) -> None:
    memory = aligned_memory([8192] * 3000)
    for number, piece in enumerate(memory):
        piece.fill(number % 251)
    with LocalFile((tmp_path / "file").open("wb"), 3000 * 8192) as file:
        file.write(memory, 0)
    assert np.array_equal(np.fromfile(tmp_path / "file", dtype=np.uint8), np.concatenate(memory))


@pytest.mark.long
def test_a_streamed_shard_takes_the_memory_of_the_plan_and_less_than_a_gibibyte(tmp_path: Path) -> None:
    code = """
import re, pathlib
from io_bench.payload.device import Device
from io_bench.engines import EngineOptions
from io_bench.engines.direct import Direct
from io_bench.payload.inventory import inventory_of
from io_bench.payload.payload import StreamedPayload

def resident(key):
    return int(re.search(key + r":\\s+(\\d+)", pathlib.Path("/proc/self/status").read_text())[1]) * 1024

engine, inventory = Direct(EngineOptions(is_streamed=True)), inventory_of(1500 << 20)
plan, payload = engine.plan(inventory, rank=0, device=Device("cpu")), StreamedPayload(inventory, seed=1, rank=0)
before = resident("VmRSS")
engine.prepare(payload, plan, device=Device("cpu"), writers=None)
engine.write_to_null_sink(payload)
print(resident("VmHWM"), before, plan.host_bytes)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)
    peak, before, planned = map(int, done.stdout.split())
    assert peak < 1 << 30
    assert 0.9 * planned < peak - before < planned + (32 << 20)


class Run:
    """`ckpt-bench run` in this process, which has torch already, with a small payload."""

    def __init__(self, directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self._output, self._capsys = directory / "r.json", capsys
        self.said = ""

    def __call__(self, target: Path, *flags: str, size: str = "16MiB") -> int:
        common = ["run", "--target", str(target), "--engine", "direct", "--bytes-per-rank", size, "--repetitions", "2"]
        with pytest.raises(SystemExit) as ended:
            main([*common, "--output", str(self._output), *flags])
        self.said = self._capsys.readouterr().err
        return int(str(ended.value.code))

    @property
    def measurements(self) -> list[Measurement]:
        return BenchmarkResult.model_validate_json(self._output.read_text()).measurements


@pytest.fixture
def run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    return Run(tmp_path, capsys)


@pytest.mark.parametrize("stream", [[], ["--stream"]])
def test_a_run_is_direct_and_says_with_what(
    stream: list[str], run: Run, target: Path, tree: Callable[[Path], Tree]
) -> None:
    before = tree(target)
    assert run(target, "--block-size", "1MiB", "--threads", "3", *stream) == 0
    assert tree(target) == before
    write, restore = run.measurements
    assert (write.cache_policy, restore.cache_policy) == ("o-direct", "o-direct")
    assert (write.block_bytes, write.threads_per_rank, write.num_files, write.resident_pages) == (1 << 20, 3, 1, 0)
    assert set(write.phase_seconds or {}) == {"create", "write", "fsync", "close", "commit"}
    assert set(restore.phase_seconds or {}) == {"open", "read", "close"}
    assert write.null_sink_bytes_per_second is not None
    assert (write.generator_wait_fraction is not None) == bool(stream)
    assert ("generated during the write" in run.said) == bool(stream)


@pytest.mark.parametrize(("stream", "num_kept"), [([], 2), (["--stream"], 1)])
def test_what_is_read_again_to_be_compared_counts_against_the_cap(
    stream: list[str], num_kept: int, run: Run, target: Path
) -> None:
    """9 MB each: two passes of warm-up and two repetitions are 54 MB, three passes are 81 MB."""
    assert run(target, "--max-bytes", "65MB", *stream, size="8MiB") == 0
    assert len(run.measurements[0].seconds) == num_kept


def test_a_payload_that_memory_cannot_hold_is_streamed(run: Run, target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "available_bytes", lambda: 400 << 20)
    assert run(target, size="64MiB") == 0
    assert run.measurements[0].generator_wait_fraction is None
    assert run(target, size="160MiB") == 0
    assert "generated during the write" in run.said
    assert run.measurements[0].generator_wait_fraction is not None


def test_a_byte_that_storage_changes_fails_a_streamed_run(
    run: Run, target: Path, tree: Callable[[Path], Tree], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.preadv

    def with_an_error(fd: int, views: list[memoryview], offset: int) -> int:
        read = real(fd, views, offset)
        if offset == 8 << 20:
            views[0][5] ^= 1
        return read

    monkeypatch.setattr(os, "preadv", with_an_error)
    before = tree(target)
    assert run(target, "--stream") == 1
    assert "Verification failed: the data that rank 0 restored" in run.said
    (place,) = target.glob("ckpt-bench-*")
    assert {path.name for path in place.iterdir()} == {"rank-00000.pt", MANIFEST}
    shutil.rmtree(place)
    assert tree(target) == before


@pytest.mark.long
def test_hosts_with_large_pages_write_in_units_of_them(bench: Bench, target: Path) -> None:
    """Pages of 64 KiB, as some Arm hosts have: offsets of storages, pieces and tails keep to them."""
    large = "from io_bench.target import direct_io; direct_io.ALIGNMENT_BYTES = 1 << 16"
    flags = ("--target", str(target), "--bytes-per-rank", "8MiB", "--repetitions", "1", "--keep", "--output", "r.json")
    done = bench.run("run", *flags, prelude=large)
    assert done.returncode == 0, done.stderr
    (file,) = target.glob("ckpt-bench-*/rank-00000.pt")
    tensors = tensors_of(torch.load(file, map_location="meta", weights_only=True))
    offsets = [tensor.untyped_storage()._checkpoint_offset for _, tensor in tensors]
    assert len(set(offsets)) == len(offsets) > 100
    assert all(offset is not None and offset % (1 << 16) == 0 for offset in offsets)


def test_o_direct_that_goes_through_memory_is_called_buffered(run: Run, testbed: Testbed, tmp_path: Path) -> None:
    assert run(testbed(memory_disk(tmp_path, num_bytes=64 << 20))) == 0
    write, restore = run.measurements
    assert (write.cache_policy, restore.cache_policy) == ("buffered-fsync", "cached")
    assert write.resident_pages
    assert "Direct writes left" in run.said


def test_a_run_where_o_direct_is_refused_says_so_once(run: Run, testbed: Testbed, tmp_path: Path) -> None:
    assert run(testbed(buffered_disk(tmp_path))) == 0
    assert run.said.count("refuses O_DIRECT: the engine direct used the page cache.") == 1
    assert run.measurements[0].cache_policy == "buffered-fsync"


def test_a_parallel_file_system_takes_it_tails_and_all(testbed: Testbed, tmp_path: Path, group: ProcessGroup) -> None:
    mount_point = tmp_path / "mnt"
    mount_point.mkdir()
    nodes = testbed(network(tmp_path, {"client": Link(), "storage": Link()}))
    testbed(glusterfs(tmp_path, server=nodes["storage"], clients=[nodes["client"]], mount_point=mount_point))
    place = nodes["client"].outside(mount_point) / "run"
    place.mkdir()
    tails = {str(size): torch.full((size,), 7, dtype=torch.uint8) for size in (0, 1, 511, 4095, 4097, (4 << 20) + 1)}
    copied, in_place = GivenPayload({"tails": tails}), resident()
    with contextlib.closing(RunDirectory(place)) as directory:
        for payload, options in ((copied, SMALL_BLOCKS), (in_place, EngineOptions(block_bytes=1 << 20))):
            engine = Prepared(directory, group, payload, options)
            assert engine.write().is_direct
            assert engine.restored_checksum() == checksum(engine.payload.state)
            assert checksum(torch.load(engine.path, weights_only=True)) == checksum(engine.payload.state)
            directory.remove_created()
