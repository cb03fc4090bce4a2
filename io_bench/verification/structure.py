"""What the files of a checkpoint and their headers say, and which regions there are to read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from io_bench.verification.coverage import coverage_problems
from io_bench.verification.regions import Damage, Region
from io_bench.verification.zip_records import begins_or_ends_as_zip, zip_regions
from sizing.checkpoint_files.dcp_folder import DATA_SUFFIX, METADATA_NAME, read_dcp_metadata
from sizing.checkpoint_files.dcp_metadata import DcpItem, DcpMetadata
from sizing.checkpoint_files.folder import TORCH_SUFFIXES, container_of_file
from sizing.checkpoint_files.pickle_reading import read_pickle
from sizing.checkpoint_files.pickle_values import RefusedPickle
from sizing.checkpoint_files.pickled_tensors import pickled_tensors
from sizing.checkpoint_files.safetensors_index import INDEX_SUFFIX, SHARD_SUFFIX
from sizing.checkpoint_files.torch_zip import torch_archive
from sizing.errors import UnreadableFile

Found = Iterator[Region | Damage]


def regions_of(files: tuple[Path, ...]) -> Found:
    """The regions that make up the files, each byte in one of them, and the damage that headers show."""
    described: set[Path] = set()
    for path in files:
        if path.name == METADATA_NAME:
            described.update((path, *path.parent.glob(f"*{DATA_SUFFIX}")))
            yield from _of_dcp(path)
    for path in files:
        if path not in described:
            yield from _of_file(path)


def _of_file(path: Path) -> Found:
    size = path.stat().st_size
    if path.suffix == DATA_SUFFIX:
        yield Damage(path, "is a data file of torch DCP without a .metadata file: the save was not finished")
    elif path.name.endswith((INDEX_SUFFIX, SHARD_SUFFIX)):
        yield from _headers(path)
    elif path.suffix in TORCH_SUFFIXES and not size:
        yield Damage(path, "is empty")
    elif begins_or_ends_as_zip(path, offset=0, length=size):
        yield from _of_archive(path)
        return
    yield Region(path, 0, size, "content")


def _of_archive(path: Path) -> Found:
    """A torch.save file, or another zip archive. Its pickle is followed as data, nothing is called."""
    try:
        archive = torch_archive(path)
        tensors = list(pickled_tensors(read_pickle(archive.pickle, allows=lambda _: True)))
    except (UnreadableFile, RefusedPickle):  # what is damaged is found by its checksum, or by the archive's reader
        tensors, stored = [], {}
    else:
        stored = archive.storage_bytes
    for tensor in tensors:
        if stored.get(tensor.storage) != tensor.storage_bytes:
            yield Damage(
                path, f"has {stored.get(tensor.storage, 0):,} of {tensor.storage_bytes:,} bytes of {tensor.name}"
            )
    yield from zip_regions(path, names={f"data/{tensor.storage}": tensor.name for tensor in tensors})


def _headers(path: Path) -> Found:
    """What reading the headers of one container finds wrong."""
    try:
        container_of_file(path)
    except UnreadableFile as error:
        yield Damage(path, str(error).removeprefix(f"{path} ").removesuffix("."))


def _of_dcp(path: Path) -> Found:
    """A `.metadata` file and the data files beside it."""
    yield Region(path, 0, path.stat().st_size, "metadata")
    try:
        metadata = read_dcp_metadata(path)
    except UnreadableFile as error:
        yield Damage(path, str(error).removeprefix(f"{path} ").removesuffix("."))
        metadata = None
    if metadata is not None:
        yield from (Damage(path, problem) for problem in coverage_problems(metadata))
        yield from _of_items(path.parent, metadata)
    named = set() if metadata is None else set(metadata.file_ends)
    for beside in sorted(path.parent.glob(f"*{DATA_SUFFIX}")):
        if beside.name not in named:
            yield Region(beside, 0, beside.stat().st_size, "content that .metadata does not name")


def _of_items(folder: Path, metadata: DcpMetadata) -> Found:
    items: dict[str, list[DcpItem]] = {}
    for item in metadata.items:
        items.setdefault(item.file, []).append(item)
    for name, stored in sorted(items.items()):
        file = folder / name
        if file.exists():
            yield from _of_data_file(file, sorted(stored, key=lambda item: item.offset))
        else:
            yield Damage(file, f"is missing; .metadata places {len(stored):,} items there")


def _of_data_file(path: Path, items: list[DcpItem]) -> Found:
    size, reached = path.stat().st_size, 0
    for item in items:
        end = item.offset + item.length
        if item.offset > reached:
            yield Region(path, reached, min(item.offset, size) - reached, "content between items")
        if end > size:
            yield Damage(path, f"is cut short; it has {size:,} bytes, and {item.name} goes up to byte {end:,}")
            yield Region(path, min(item.offset, size), max(0, size - item.offset), item.name)
        elif item.is_transformed:
            yield Region(path, item.offset, item.length, f"{item.name}, compressed or encrypted")
        elif begins_or_ends_as_zip(path, offset=item.offset, length=item.length):
            yield from zip_regions(path, offset=item.offset, length=item.length, what=item.name)
        else:
            yield Region(path, item.offset, item.length, item.name)
        reached = max(reached, end)
    if size > reached:
        yield Region(path, reached, size - reached, "content behind the last item")
