"""Structure of a checkpoint: what its files and their headers show, and the regions to read.

The chunks of a torch DCP checkpoint must make up its tensors. A zip archive that torch.save wrote is a file of its own
or an item of a `.distcp` file; torch keeps a CRC-32 of each of its records, or a zero where it is told not to
(`torch.serialization.set_crc32_options`).
Source of the layout: PKWARE's APPNOTE.TXT 6.3.10, sections 4.3.7 and 4.3.12.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import json
import math
import struct
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO

import numpy as np

from io_bench.checks.file_regions import Algorithm, Damage, Dispensable, Region, Unjudged
from io_bench.checks.saved_steps import SavedStep, counted_steps, saved_step_in
from sizing.checkpoint_files.allowed_names import allowed_in_torch_save
from sizing.checkpoint_files.dcp import DATA_SUFFIX, METADATA_NAME, DcpChunk, DcpItem, DcpMetadata, read_dcp_metadata
from sizing.checkpoint_files.folder import container_of_file, is_state, names_beside, saves_within
from sizing.checkpoint_files.folder_layouts import is_settings, state_of_file
from sizing.checkpoint_files.missing_files import MissingFile, fewer_than_beside, missing_files, uncounted_shards
from sizing.checkpoint_files.pickle_reading import RefusedPickle, read_pickle
from sizing.checkpoint_files.safetensors import INDEX_SUFFIX, SHARD_SUFFIX, absent_shards
from sizing.checkpoint_files.saving_ranks import SavingRanks, saving_ranks_in
from sizing.checkpoint_files.steps import step_of
from sizing.checkpoint_files.torch_save import PickledTensor, is_torch_file, pickled_tensors, torch_archive
from sizing.errors import UnreadableFile
from sizing.units import counted_text

_MAX_CELLS = 10_000_000
"""Max cells of the grid that the edges of chunks make; each is a byte in memory. A tensor of 100,000 ranks cut in one
dimension has 100,000, cut in two 316 x 316."""


def coverage_problems(metadata: DcpMetadata) -> Iterator[str]:
    """Describe what the metadata of a DCP checkpoint lacks, as ends of sentences that begin with its file.

    Chunks must be stored in some file, and together hold every element of their tensor.
    """
    items = {(item.name, item.begins) for item in metadata.items}
    for tensor in metadata.tensors:
        chunks = metadata.chunks[tensor.name]
        absent = [chunk for chunk in chunks if (tensor.name, chunk.begins) not in items]
        if absent:
            yield f"places {len(absent):,} of the {len(chunks):,} chunks of tensor {tensor.name} in no file"
        missing = missing_elements(tensor.shape, chunks)
        if missing:
            yield f"has {missing:,} of the {math.prod(tensor.shape):,} elements of tensor {tensor.name} in no chunk"


def missing_elements(shape: tuple[int, ...], chunks: tuple[DcpChunk, ...]) -> int:
    """Count the elements of a tensor that none of the chunks holds.

    >>> missing_elements((4, 6), (DcpChunk((0, 0), (4, 3)), DcpChunk((0, 3), (2, 3))))
    6
    """
    spans = [
        tuple((begin, min(begin + size, whole)) for begin, size, whole in zip(c.begins, c.sizes, shape, strict=True))
        for c in set(chunks)
        if len(c.begins) == len(shape)
    ]
    edges = [sorted({0, whole, *(e for s in spans for e in s[d])}) for d, whole in enumerate(shape)]
    if math.prod(max(1, len(edge) - 1) for edge in edges) > _MAX_CELLS:
        return max(0, math.prod(shape) - sum(math.prod(end - begin for begin, end in span) for span in spans))
    return _count_uncovered(edges, spans)


def _count_uncovered(edges: list[list[int]], spans: list[tuple[tuple[int, int], ...]]) -> int:
    """Count the elements in the cells between the edges that lie in no span."""
    covered = np.zeros([max(1, len(edge) - 1) for edge in edges], dtype=bool)
    places = [{edge: place for place, edge in enumerate(row)} for row in edges]
    for span in spans:
        covered[tuple(slice(at[begin], at[end]) for at, (begin, end) in zip(places, span, strict=True))] = True
    sizes = [[end - begin for begin, end in itertools.pairwise(edge)] or [0] for edge in edges]
    lengths = [np.array(size, dtype=object) for size in sizes]
    missing = np.argwhere(~covered)
    return int(sum(math.prod(lengths[d][cell[d]] for d in range(len(edges))) for cell in missing))


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
    """List the records of the archive that fills `length` bytes of a file from `offset`, and the bytes between them.

    `what` names the content of the archive. `names` has the content of each record, by the record's name after the
    archive's own.
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
            yield from _frame(path, offset, end)
            return
    reached = offset
    for record, place in places:
        yield from _frame(path, reached, offset + place)
        expected = f"{record.CRC:08x}" if record.CRC or not record.file_size else None
        content = what or (names or {}).get(record.filename.partition("/")[2], "")
        title = f"{content}, record {record.filename}".removeprefix(", ")
        algorithm: Algorithm | None = "crc32" if expected else None
        yield Region(path, offset + place, record.compress_size, title, algorithm, expected)
        reached = offset + place + record.compress_size
    yield from _frame(path, reached, end)


def begins_or_ends_as_zip(path: Path, *, offset: int, length: int) -> bool:
    """Whether a part of a file is an archive, or one of which either end is damaged."""
    with path.open("rb") as file:
        window = _Window(file, offset, length)
        begins = window.read(len(_LOCAL_SIGNATURE)) == _LOCAL_SIGNATURE
        window.seek(max(0, length - _END.size))
        return begins or window.read(len(_END_SIGNATURE)) == _END_SIGNATURE


def _data_offset(window: _Window, record: zipfile.ZipInfo) -> int:
    """Find where the data of a record begins. Raises BadZipFile where its header is not that of the directory."""
    window.seek(record.header_offset)
    signature, name_length, extra_length = _LOCAL_HEADER.unpack(window.read(_LOCAL_HEADER.size))
    name = window.read(name_length)
    if signature != _LOCAL_SIGNATURE or name != record.orig_filename.encode():
        raise zipfile.BadZipFile(f"the header of record {record.filename} is not what the directory says")
    return record.header_offset + _LOCAL_HEADER.size + int(name_length) + int(extra_length)


def _frame(path: Path, begin: int, end: int) -> Iterator[Region]:
    """Yield the region of headers and padding from `begin` to `end`, which have no checksum, unless it is empty."""
    if end > begin:
        yield Region(path, begin, end - begin, "headers and padding", is_frame=True)


class _Window(io.BufferedIOBase):
    """A file-like view of a part of a file, for zipfile."""

    def __init__(self, file: IO[bytes], offset: int, length: int) -> None:
        self._file, self._offset, self._length, self._position = file, offset, length, 0

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._length}[whence]
        if base + offset < 0:
            raise ValueError("a place before the archive's begin")
        self._position = base + offset
        return self._position

    def tell(self) -> int:
        return self._position

    def read(self, size: int | None = -1, /) -> bytes:
        remaining = max(0, self._length - self._position)
        self._file.seek(self._offset + self._position)
        data = self._file.read(remaining if size is None or size < 0 else min(size, remaining))
        self._position += len(data)
        return data


Judgements = Iterator[Region | Damage | Unjudged | SavedStep]
"""The regions of files, what their names and headers show to be wrong or unknown, and the steps that they state."""

_BEGINNING_BYTES = 4096
"""Bytes at the beginning of a file, by which zeros and text are told from other content: a block of most file
systems."""
_MAX_SETTINGS_BYTES = 256 * 1024**2
"""Max size of a JSON file that is parsed: tokenizers and indexes have tens of megabytes."""
_STATING_RANKS = ("*model_states.pt", "*optim_states.pt", "model_optim_rng.pt")
"""Files of DeepSpeed and of Megatron's classic format that state how many ranks saved."""


def split_readable(files: tuple[Path, ...]) -> tuple[tuple[Path, ...], list[Damage | Unjudged]]:
    """Split files into those that can be opened and what is wrong with the others: links, permissions, errors."""
    openable: list[Path] = []
    others: list[Damage | Unjudged] = []
    for path in files:
        try:
            with path.open("rb") as file:
                file.read(1)
        except PermissionError as error:
            others.append(Unjudged(path, f"cannot be read ({error.strerror})"))
        except OSError as error:
            is_broken_link = path.is_symlink() and not path.exists()
            wrong = f"is a link to {path.readlink()}, which is not there" if is_broken_link else ""
            others.append(Damage(path, wrong or f"cannot be read ({error.strerror or error})"))
        else:
            openable.append(path)
    return tuple(openable), others


def regions_of(files: tuple[Path, ...]) -> Judgements:
    """Cut files into regions, each byte in one of them, with the damage that headers show and what cannot be judged."""
    of_dcp: set[Path] = set()
    for path in files:
        if path.name == METADATA_NAME:
            of_dcp.update((path, *path.parent.glob(f"*{DATA_SUFFIX}")))
            yield from _judge_dcp(path, frozenset(files))
    for path in files:
        if path not in of_dcp:
            yield from _judge_file(path)


def absences_in(root: Path, files: tuple[Path, ...]) -> Iterator[Damage | Unjudged | Dispensable]:
    """Name files that were saved and are not there, by the names and contents of others or other saves of the run."""
    names = {str(path.relative_to(root)): path for path in files}
    saving_ranks = dict(_read_stated_ranks(names))
    missing = missing_files(names, saving_ranks)
    named: set[Path] = set()  # by an index, which is judged itself
    for path in names.values():
        if path.name.endswith(INDEX_SUFFIX):
            with contextlib.suppress(UnreadableFile):
                named.update(path.parent / name for name in absent_shards(path))
    yield from (_judge_absence(root, each, is_sure=True) for each in missing if root / each.name not in named)
    known = {each.name for each in missing}
    states = [name for name, path in names.items() if is_state(path)]
    if all(each.is_optional for each in missing):
        fewer = fewer_than_beside(states, names_beside(root))
        yield from (_judge_absence(root, each, is_sure=False) for each in fewer if each.name not in known)
        yield from (Unjudged(root / each.name, each.reason) for each in uncounted_shards(names, saving_ranks))
    for save, beside in saves_within(states).items():
        own = [name.removeprefix(f"{save}/") for name in states if name.startswith(f"{save}/")]
        lacked = [each._replace(name=f"{save}/{each.name}") for each in fewer_than_beside(own, beside)]
        yield from (_judge_absence(root, each, is_sure=False) for each in lacked if each.name not in known)
    yield from _lost_newest(names)


def _judge_absence(root: Path, lost: MissingFile, *, is_sure: bool) -> Damage | Unjudged | Dispensable:
    """Judge a file that is not there, by whether a run goes on without it and whether it was surely saved."""
    path, reason = root / lost.name, lost.reason
    if lost.is_optional:
        return Dispensable(path, f"is missing: {reason}; a run goes on without it, with other random numbers")
    return Damage(path, f"is missing: {reason}") if is_sure else Unjudged(path, f"is not there; {reason}")


def _lost_newest(names: Mapping[str, Path]) -> Iterator[Damage]:
    """Name the files in which DeepSpeed notes its newest save, where that is not beside them."""
    for path in names.values():
        if path.name == "latest" and path.stat().st_size <= _BEGINNING_BYTES:
            tag = path.read_bytes().decode(errors="replace").strip()
            if step_of(tag) is not None and not (path.parent / tag).is_dir():
                yield Damage(path, f"names {tag} as the newest save, which is not beside it")


def _read_stated_ranks(names: Mapping[str, Path]) -> Iterator[tuple[str, SavingRanks]]:
    """Read the ranks that files state as those that saved, by file name; of each kind, one file in a folder is read."""
    kinds_read: set[tuple[Path, str]] = set()
    for name, path in names.items():
        kind = next((pattern for pattern in _STATING_RANKS if path.match(pattern)), None)
        if kind is None or (path.parent, kind) in kinds_read:
            continue
        with contextlib.suppress(UnreadableFile, RefusedPickle):
            ranks = saving_ranks_in(read_pickle(torch_archive(path).pickle, allows=lambda _: True))
            if ranks is not None:
                kinds_read.add((path.parent, kind))
                yield name, ranks


def _judge_file(path: Path) -> Judgements:
    size = path.stat().st_size
    if path.suffix == DATA_SUFFIX:
        yield Damage(path, "is a data file of torch DCP without a .metadata file: the save was not finished")
    elif path.name.endswith((INDEX_SUFFIX, SHARD_SUFFIX)):
        try:
            absent = absent_shards(path) if path.name.endswith(INDEX_SUFFIX) else ()
            if not absent:
                container_of_file(path)
        except UnreadableFile as error:
            yield Damage(path, _sentence(path, error))
        else:
            yield from (Damage(path.parent / name, f"is missing: {path.name} names it") for name in absent)
    elif begins_or_ends_as_zip(path, offset=0, length=size):
        yield from _judge_archive(path)
        return
    else:
        yield from _judge_other(path, size)
    yield Region(path, 0, size, "content")


def _judge_other(path: Path, size: int) -> Iterator[Damage | Unjudged]:
    """Judge a file that is neither a zip archive nor safetensors.

    A JSON file is damaged where it cannot be parsed. A file of training state is damaged where it is empty or begins
    with zeros; otherwise nobody can judge it.
    """
    beginning = _beginning(path, 0, size)
    if not size and (is_state(path) or path.suffix == ".json"):
        yield Damage(path, "is empty")
    elif size and not any(beginning):
        yield Damage(path, f"begins with {len(beginning):,} zeros, as a file of which nothing was written")
    elif path.suffix == ".json" and size <= _MAX_SETTINGS_BYTES:
        try:
            json.loads(path.read_bytes())
        except ValueError as error:
            yield Damage(path, f"is no JSON ({error})")
    elif is_state(path) and is_torch_file(path):
        yield Unjudged(path, "is of an old format of torch.save, which has no checksums and is not read")
    elif is_state(path):
        yield Unjudged(path, "is no torch.save file, as its name says, nor of another kind that is read")
    elif not is_settings(path.name) and not _is_text(beginning):
        yield Unjudged(path, "is of no kind that is read")


def _is_text(beginning: bytes) -> bool:
    """Whether bytes are the beginning of a text: UTF-8, whose last character may be cut, without control zeros."""
    try:
        beginning[: max(0, len(beginning) - 3) if len(beginning) == _BEGINNING_BYTES else None].decode()
    except UnicodeDecodeError as error:
        return error.start >= len(beginning) - 6 and len(beginning) == _BEGINNING_BYTES
    return b"\0" not in beginning


def _judge_archive(path: Path) -> Judgements:
    """Judge a torch.save file, or another zip archive. Its pickle is followed as data, nothing is called.

    Of weights and optimizer it may name only what a checkpoint needs: of others nobody knows which tensors they should
    have. Settings and random states, which hold none, may name anything.
    """
    holds_no_tensor = is_settings(path.name) or state_of_file(path.name) is not None
    tensors: list[PickledTensor] = []
    storage_bytes: dict[str, int] = {}
    allows: Callable[[str], bool] = (lambda _: True) if holds_no_tensor else allowed_in_torch_save
    try:
        archive = torch_archive(path)
        root = read_pickle(archive.pickle, allows=allows)
        tensors = list(pickled_tensors(root))
    except UnreadableFile as error:  # what is damaged is found by its checksum, or by the archive's reader
        yield Unjudged(path, _sentence(path, error))
    except RefusedPickle as error:
        yield Unjudged(path, f"has a pickle that is not read ({error}), so that nobody knows what it should hold")
    else:
        storage_bytes = archive.storage_bytes
        if (stated := saved_step_in(path, root, tensors)) is not None:
            yield stated
    for tensor in tensors:
        if storage_bytes.get(tensor.storage) != tensor.storage_bytes:
            stored_bytes = storage_bytes.get(tensor.storage, 0)
            yield Damage(path, f"has {stored_bytes:,} of {tensor.storage_bytes:,} bytes of {tensor.name}")
    yield from zip_regions(path, names={f"data/{tensor.storage}": tensor.name for tensor in tensors})


def _sentence(path: Path, error: UnreadableFile) -> str:
    return str(error).removeprefix(f"{path} ").removesuffix(".")


def _judge_dcp(path: Path, openable: frozenset[Path]) -> Judgements:
    """Judge a torch DCP checkpoint: its `.metadata`, and those data files beside it that can be opened."""
    yield Region(path, 0, path.stat().st_size, "metadata")
    items: dict[str, list[DcpItem]] = {}
    described: set[str] = set()
    counters: dict[str, str] = {}
    try:
        metadata = read_dcp_metadata(path)
    except UnreadableFile as error:
        yield Damage(path, _sentence(path, error))
    else:
        yield from (Damage(path, problem) for problem in coverage_problems(metadata))
        described = set(metadata.file_ends)
        counters = {
            tensor.name: tensor.dtype
            for tensor in metadata.tensors
            if tensor.name.endswith(".step") and not tensor.shape
        }
        for item in metadata.items:
            items.setdefault(item.file, []).append(item)
    for name, in_file in sorted(items.items()):
        file = path.parent / name
        if file in openable:
            judgements = list(_judge_data_file(file, sorted(in_file, key=lambda item: item.offset)))
            yield from judgements
            regions = [each for each in judgements if isinstance(each, Region)]
            yield from counted_steps(file, regions, counters)
            behind = [
                each for each in regions if each.what == _BEHIND and any(_beginning(file, each.offset, each.length))
            ]
            for region in behind:
                yield Unjudged(
                    file, f"goes on for {region.length:,} bytes behind its last item, as one of another save"
                )
        elif not file.exists() and not file.is_symlink():
            yield Damage(file, f"is missing; .metadata places {len(in_file):,} items there")
    for file in sorted(path.parent.glob(f"*{DATA_SUFFIX}")):
        if file.name not in described and file in openable:
            yield Unjudged(file, "is not named by .metadata, as a file of another save into this folder")
            yield Region(file, 0, file.stat().st_size, "content that .metadata does not name")


_BEHIND = "content behind the last item"


def _judge_data_file(path: Path, items: list[DcpItem]) -> Judgements:
    """Judge a data file of torch DCP by its items, each an archive, or compressed or encrypted by the user."""
    size, reached = path.stat().st_size, 0
    zeros: list[str] = []
    others: list[str] = []
    cut: list[str] = []
    for item in items:
        end = item.offset + item.length
        if item.offset > reached:
            yield Region(path, reached, min(item.offset, size) - reached, "content between items")
        if end > size:
            cut.append(item.name)
            yield Region(path, min(item.offset, size), max(0, size - item.offset), item.name)
        elif item.is_transformed:
            yield Region(path, item.offset, item.length, f"{item.name}, compressed or encrypted")
        elif begins_or_ends_as_zip(path, offset=item.offset, length=item.length):
            yield from zip_regions(path, offset=item.offset, length=item.length, what=item.name)
        elif item.length:
            (others if any(_beginning(path, item.offset, item.length)) else zeros).append(item.name)
            yield Region(path, item.offset, item.length, item.name)
        reached = max(reached, end)
    if size > reached:
        yield Region(path, reached, size - reached, _BEHIND)
    kinds: tuple[tuple[list[str], type[Damage | Unjudged], str], ...] = (
        (cut, Damage, f"is cut short; it has {size:,} bytes, and {{}} end behind that, up to byte {reached:,}"),
        (zeros, Damage, "has zeros where {} should begin, as where nothing was written"),
        (others, Unjudged, "has {} in a form that torch DCP does not write"),
    )
    for names, kind, sentence in kinds:
        if names:
            count = f"{len(names):,} of {counted_text(len(items), 'item')}"
            yield kind(path, f"{sentence.format(count)} ({names[0]})")


def _beginning(path: Path, offset: int, length: int) -> bytes:
    with path.open("rb") as file:
        file.seek(offset)
        return file.read(min(length, _BEGINNING_BYTES))
