"""The records of a zip archive that torch.save wrote, alone in a file or as an item of a `.distcp` file.

torch keeps a CRC-32 of each record, or a zero where it is told not to (`torch.serialization.set_crc32_options`).
Source of the layout: PKWARE's APPNOTE.TXT 6.3.10, sections 4.3.7 and 4.3.12.
"""

from __future__ import annotations

import io
import struct
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO

from io_bench.verification.regions import Algorithm, Damage, Region

_LOCAL_HEADER = struct.Struct("<4s22xHH")
"""Signature, 22 bytes that the directory has too, the lengths of the name and of the extra field."""
_LOCAL_SIGNATURE = b"PK\x03\x04"
_END = struct.Struct("<4s18x")
_END_SIGNATURE = b"PK\x05\x06"
"""The record at the end of an archive; torch writes no comment behind it."""
_ZIP_ERRORS = (zipfile.BadZipFile, ValueError, EOFError, NotImplementedError, RuntimeError, struct.error)
"""What zipfile raises for bytes that are no archive."""


def zip_regions(
    path: Path, *, offset: int = 0, length: int | None = None, what: str = "", names: Mapping[str, str] | None = None
) -> Iterator[Region | Damage]:
    """The records of the archive that fills `length` bytes of a file from `offset`, and the bytes between them.

    `what` the archive holds; `names` of what records hold, by their names behind the archive's own.
    """
    with path.open("rb") as file:
        end = file.seek(0, io.SEEK_END) if length is None else offset + length
        window = _Window(file, offset, end - offset)
        try:
            with zipfile.ZipFile(window) as archive:
                records = sorted(archive.infolist(), key=lambda record: record.header_offset)
                places = [(record, _data_offset(window, record)) for record in records]
        except _ZIP_ERRORS as error:
            yield Damage(path, f"has a damaged zip archive{f' as item {what}' if what else ''} ({error})")
            yield from _between(path, offset, end)
            return
    reached = offset
    for record, place in places:
        yield from _between(path, reached, offset + place)
        expected = f"{record.CRC:08x}" if record.CRC or not record.file_size else None
        held = what or (names or {}).get(record.filename.partition("/")[2], "")
        title = f"{held}, record {record.filename}".removeprefix(", ")
        algorithm: Algorithm | None = "crc32" if expected else None
        yield Region(path, offset + place, record.compress_size, title, algorithm, expected)
        reached = offset + place + record.compress_size
    yield from _between(path, reached, end)


def begins_or_ends_as_zip(path: Path, *, offset: int, length: int) -> bool:
    """Whether a part of a file is an archive, or one of which either end is damaged."""
    with path.open("rb") as file:
        window = _Window(file, offset, length)
        begins = window.read(len(_LOCAL_SIGNATURE)) == _LOCAL_SIGNATURE
        window.seek(max(0, length - _END.size))
        return begins or window.read(len(_END_SIGNATURE)) == _END_SIGNATURE


def _data_offset(window: _Window, record: zipfile.ZipInfo) -> int:
    """Where the data of a record begins. Raises BadZipFile where its own header is not that of the directory."""
    window.seek(record.header_offset)
    signature, name_length, extra_length = _LOCAL_HEADER.unpack(window.read(_LOCAL_HEADER.size))
    name = window.read(name_length)
    if signature != _LOCAL_SIGNATURE or name != record.orig_filename.encode():
        raise zipfile.BadZipFile(f"the header of record {record.filename} is not what the directory says")
    return record.header_offset + _LOCAL_HEADER.size + int(name_length) + int(extra_length)


def _between(path: Path, begin: int, end: int) -> Iterator[Region]:
    """Headers and padding: read, but nobody keeps a checksum of them."""
    if end > begin:
        yield Region(path, begin, end - begin, "headers and padding")


class _Window(io.BufferedIOBase):
    """A part of a file as a file."""

    def __init__(self, file: IO[bytes], offset: int, length: int) -> None:
        self._file, self._offset, self._length, self._place = file, offset, length, 0

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._place, io.SEEK_END: self._length}[whence]
        if base + offset < 0:
            raise ValueError("a place before the archive's begin")
        self._place = base + offset
        return self._place

    def tell(self) -> int:
        return self._place

    def read(self, size: int | None = -1, /) -> bytes:
        left = max(0, self._length - self._place)
        self._file.seek(self._offset + self._place)
        data = self._file.read(left if size is None or size < 0 else min(size, left))
        self._place += len(data)
        return data
