"""Objects as streams: what goes in comes out, in parts, whatever the sizes; and nothing is left of a failure."""

from __future__ import annotations

import io
import os
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from io_bench.target.object_store.transfers import ParallelDownload, ParallelUpload

PART = 8


class Memory:
    """A multipart store of dicts; `broken` is the number of a part that it does not take."""

    def __init__(self, broken: int = 0) -> None:
        self.objects: dict[str, bytes] = {}
        self.parts: dict[str, dict[int, bytes]] = {}
        self.broken = broken

    def put(self, path: str, data: bytes) -> None:
        self.objects[path] = data

    def begin_upload(self, path: str) -> str:
        self.parts[path] = {}
        return path

    def put_part(self, path: str, upload: str, number: int, data: bytes | bytearray) -> str:
        assert path == upload
        if number == self.broken:
            raise OSError("the disk is on fire")
        self.parts[upload][number] = bytes(data)
        return str(number)

    def complete_upload(self, path: str, upload: str, tags: list[str]) -> None:
        self.objects[path] = b"".join(self.parts[upload][int(tag)] for tag in tags)
        del self.parts[upload]

    def abort_upload(self, path: str, upload: str) -> None:
        assert path == upload
        del self.parts[upload]


def upload_to(store: Memory, *, num_parallel: int = 2) -> ParallelUpload:
    return ParallelUpload(store, "key", part_bytes=PART, num_parallel=num_parallel)


def write_parts(stream: ParallelUpload, *, then_fail: bool = False) -> None:
    """Six parts, in a block of their own."""
    with stream:
        for _ in range(6):
            stream.write(bytes(PART))
        if then_fail:
            raise ZeroDivisionError


@given(pieces=st.lists(st.binary(max_size=3 * PART), max_size=12), num_parallel=st.integers(1, 4))
def test_the_object_is_what_was_written(pieces: list[bytes], num_parallel: int) -> None:
    store, told = Memory(), []
    with upload_to(store, num_parallel=num_parallel) as stream:
        for piece in pieces:
            assert stream.write(piece) == len(piece)
            told.append(stream.tell())
    whole = b"".join(pieces)
    assert store.objects == {"key": whole}
    assert told == [len(b"".join(pieces[: count + 1])) for count in range(len(pieces))]
    assert store.parts == {}


def test_what_was_written_may_change_at_once() -> None:
    store, buffer = Memory(), bytearray(b"a" * PART)
    with upload_to(store) as stream:
        for letter in b"abcdef":
            buffer[:] = bytes([letter]) * PART
            stream.write(buffer)
    assert store.objects["key"] == b"".join(bytes([letter]) * PART for letter in b"abcdef")


@pytest.mark.parametrize("broken", [1, 3, 6])
def test_a_part_that_is_not_taken_fails_the_stream_and_leaves_nothing(broken: int) -> None:
    store = Memory(broken)
    with pytest.raises(OSError, match="on fire"):
        write_parts(upload_to(store))
    assert (store.objects, store.parts) == ({}, {})


def test_an_error_in_the_block_leaves_nothing() -> None:
    store = Memory()
    stream = upload_to(store)
    with pytest.raises(ZeroDivisionError):
        write_parts(stream, then_fail=True)
    assert (store.objects, store.parts) == ({}, {})
    assert stream.closed


def test_an_upload_that_cannot_be_aborted_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    store = Memory(broken=1)

    def unreachable(path: str, upload: str) -> None:
        raise OSError(f"{path} {upload} is far away")

    with monkeypatch.context() as patch:
        patch.setattr(store, "abort_upload", unreachable)
        stream = upload_to(store)
        with pytest.raises(OSError, match="on fire"):
            write_parts(stream)
    assert stream.upload == "key"
    stream.abort()
    assert stream.upload is None
    assert store.parts == {}


def reader_of(
    data: bytes, *, num_parallel: int = 2, get: Callable[[int, int], bytes] | None = None
) -> io.BufferedReader:
    download = ParallelDownload(
        get or (lambda start, end: data[start:end]), num_bytes=len(data), block_bytes=PART, num_parallel=num_parallel
    )
    return io.BufferedReader(download, buffer_size=3)


@given(
    data=st.binary(max_size=10 * PART),
    jumps=st.lists(st.tuples(st.integers(0, 11 * PART), st.integers(0, 4 * PART)), max_size=10),
    num_parallel=st.integers(1, 4),
)
def test_every_jump_reads_the_bytes_that_are_there(
    data: bytes, jumps: list[tuple[int, int]], num_parallel: int
) -> None:
    with reader_of(data, num_parallel=num_parallel) as stream:
        for position, count in jumps:
            stream.seek(position)
            assert stream.read(count) == data[position : position + count]
        stream.seek(-len(data), os.SEEK_END)
        assert stream.read() == data


def test_reading_on_fetches_every_block_once() -> None:
    data, fetched = os.urandom(50 * PART), []

    def get(start: int, end: int) -> bytes:
        fetched.append(start // PART)
        return data[start:end]

    with reader_of(data, get=get) as stream:
        stream.seek(-1, os.SEEK_END)
        stream.read()
        stream.seek(0)
        assert stream.read() == data
    assert sorted(fetched) == [*range(50), 49]


def test_a_range_that_comes_short_is_an_error() -> None:
    stream = reader_of(bytes(PART), get=lambda start, end: bytes(end - start - 1))
    with stream, pytest.raises(OSError, match="7 bytes received, 8 requested"):
        stream.read()
