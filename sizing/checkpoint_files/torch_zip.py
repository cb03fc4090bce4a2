"""The zip archive that torch.save writes: its records, their sizes, and the pickle in it.

torch never compresses a record, so that a file whose records claim more bytes than it has is refused before
anything is read.
"""

from __future__ import annotations

import io
import struct
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from sizing.checkpoint_files.pickle_values import MAX_PICKLE_BYTES
from sizing.checkpoint_files.refusals import (
    DAMAGED_REMEDY,
    leading_bytes,
    refusal,
    regular_file_bytes,
    too_large,
    unopened,
)

ZIP_MAGIC = b"PK\x03\x04"
LEGACY_MAGIC = b"\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19"
"""How the first pickle of the format before torch 1.6 goes on: `torch.serialization.MAGIC_NUMBER`."""
TAR_MAGIC, TAR_MAGIC_AT = b"ustar", 257
MAX_DIRECTORY_BYTES = 16 * 1024**2
"""torch.save takes 63 bytes for a tensor, so this is 260,000 of them. zipfile reads it whole into memory."""
SAVE_AGAIN = "load it with the torch that wrote it and torch.save it again"
_BLOCK_BYTES = 1024**2
"""Read at once of a pickle, whose size the archive only claims."""

_ZIP_ERRORS = (zipfile.BadZipFile, ValueError, EOFError, NotImplementedError, RuntimeError, struct.error)


@dataclass(frozen=True, slots=True)
class TorchArchive:
    """The pickle of a torch.save file, and the bytes and the CRC-32 of each storage by key."""

    pickle: bytes
    storage_bytes: dict[str, int]
    storage_checksums: dict[str, int]


def is_torch_file(path: Path) -> bool:
    """Whether a file begins like one that torch.save wrote, in today's format or an old one."""
    start = leading_bytes(path, TAR_MAGIC_AT + len(TAR_MAGIC))
    return start.startswith(ZIP_MAGIC) or _old_format(start) is not None


def torch_archive(path: Path) -> TorchArchive:
    """The pickle and the storages of a torch.save file.

    Raises UnreadableFile where the file is of an old format, damaged, or claims impossible sizes.
    """
    start = leading_bytes(path, TAR_MAGIC_AT + len(TAR_MAGIC))
    if old := _old_format(start):
        raise refusal(path, f"is a torch.save file of the old {old} format, which is not read", SAVE_AGAIN)
    if not start.startswith(ZIP_MAGIC):
        raise refusal(path, "is no torch.save file (it is not a zip archive)", "give a checkpoint")
    try:
        with path.open("rb") as file, zipfile.ZipFile(_BoundedReads(file)) as archive:
            return _content(path, archive)
    except OSError as error:
        raise unopened(path, error) from None
    except _ZIP_ERRORS as error:
        raise refusal(path, f"is a damaged zip archive ({error})", DAMAGED_REMEDY) from None


class _BoundedReads(io.BufferedIOBase):
    """A file that gives no more than a directory's bytes at once, whatever size the archive claims."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def read(self, size: int | None = -1, /) -> bytes:
        if size is None or size < 0:  # zipfile reads so only the few bytes at the end
            size = MAX_DIRECTORY_BYTES
        if size > MAX_DIRECTORY_BYTES:
            raise ValueError(f"its directory takes more than {MAX_DIRECTORY_BYTES} bytes")
        return self._file.read(size)


def _content(path: Path, archive: zipfile.ZipFile) -> TorchArchive:
    records = {record.filename: record for record in archive.infolist()}
    _check_records(path, records, archive)
    pickles = [name for name in records if name.count("/") == 1 and name.endswith("/data.pkl")]
    if len(pickles) != 1:
        raise refusal(path, "is a zip archive without the data.pkl of torch.save", "give a checkpoint")
    root = pickles[0].removesuffix("data.pkl")
    if f"{root}constants.pkl" in records:
        raise refusal(path, "is a TorchScript archive, a program and not a checkpoint", "give a checkpoint")
    size = records[pickles[0]].file_size
    if size > MAX_PICKLE_BYTES:
        raise too_large(path, "a pickle", size=size, max_bytes=MAX_PICKLE_BYTES)
    prefix = f"{root}data/"
    storages = {name.removeprefix(prefix): record for name, record in records.items() if name.startswith(prefix)}
    return TorchArchive(
        pickle=_record(archive, pickles[0]),
        storage_bytes={key: record.file_size for key, record in storages.items()},
        storage_checksums={key: record.CRC for key, record in storages.items()},
    )


def _record(archive: zipfile.ZipFile, name: str) -> bytes:
    with archive.open(name) as record:
        return b"".join(iter(lambda: record.read(_BLOCK_BYTES), b""))


def _check_records(path: Path, records: dict[str, zipfile.ZipInfo], archive: zipfile.ZipFile) -> None:
    """That no name stands twice, nothing is compressed, and the records fit into the file."""
    if len(records) != len(archive.infolist()):
        raise refusal(path, "holds two zip records of one name", DAMAGED_REMEDY)
    for record in records.values():
        if record.compress_type != zipfile.ZIP_STORED or record.file_size != record.compress_size:
            raise refusal(path, "holds compressed zip records, which torch.save never writes", SAVE_AGAIN)
    claimed, size = sum(record.file_size for record in records.values()), regular_file_bytes(path)
    if claimed > size:
        raise refusal(path, f"claims zip records of {claimed} bytes in a file of {size}", DAMAGED_REMEDY)


def _old_format(start: bytes) -> str | None:
    if start[:1] == b"\x80" and start[2:].startswith(LEGACY_MAGIC):
        return "non-zip"
    if start[TAR_MAGIC_AT:].startswith(TAR_MAGIC):
        return "tar"
    return None
