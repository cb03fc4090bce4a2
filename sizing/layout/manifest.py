"""The files and tensors that each rank writes, with real names and nodes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import Literal, NamedTuple

from sizing.layout.containers import METADATA, container_bytes
from sizing.layout.files import File, PartBytes, SavingRank, saving_ranks, statistic_bytes
from sizing.layout.formats.base import RankShare
from sizing.layout.holders import Shard
from sizing.layout.layout import CheckpointLayout
from sizing.layout.parallelism import Parallelism
from sizing.layout.ranks import scaled_bytes, written_over_total
from sizing.layout.size import CheckpointSize
from sizing.layout.stages import share
from sizing.state import StatePart
from sizing.state.optimizers import BYTES_PER_VALUE, Dtype, Moment
from sizing.state.saved_state import PartName, is_plain


class ManifestRow(NamedTuple):
    """One file of the checkpoint. `container_bytes`: headers and pickles in it, or all of a file without tensors."""

    file: str
    tensor_bytes: int
    container_bytes: int
    rank: int
    node: int
    stage: int


def manifest(
    checkpoint_layout: CheckpointLayout, parallelism: Parallelism, *, gpus_per_node: int
) -> Iterator[ManifestRow]:
    """List the files of the ranks, class by class; the sum is that of the measured checkpoint, if there is one.

    Raises InvalidInput for worlds of more than 100,000 ranks.
    """
    scale, container = written_over_total(checkpoint_layout.size), checkpoint_layout.saved_as.container
    for saving in saving_ranks(checkpoint_layout.writers, parallelism, gpus_per_node=gpus_per_node):
        for file in saving.writer.files:
            headers = container_bytes(container, num_files=file.count, num_tensors=file.num_tensors)
            for number in range(file.count):
                parts = {"RANK": str(saving.rank)} | checkpoint_layout.saved_as.name_parts(file, number, saving)
                num_bytes = share(scaled_bytes(file, scale), file.count, number)
                name = re.sub("[A-Z]+", lambda capitals: parts[capitals[0]], file.name)  # noqa: B023 - called at once
                of_headers = share(headers, file.count, number)
                yield ManifestRow(name, num_bytes, of_headers, saving.rank, saving.node, saving.stage)


def small_file_rows(size: CheckpointSize, *, num_ranks: int, gpus_per_node: int) -> Iterator[ManifestRow]:
    """List the small files, which rank 0 writes or, of some trainers, each rank; 0 bytes where none are counted.

    They hold no tensors. Several files of metadata, such as those of weights and optimizer, share what is counted of
    them evenly.
    """
    of_kind = size.small_state_bytes
    of_metadata = [name for name in size.small_files if name.endswith(METADATA)]
    shares = {name: share(of_kind.get(METADATA, 0), len(of_metadata), at) for at, name in enumerate(of_metadata)}
    yield from (ManifestRow(name, 0, (of_kind | shares).get(name, 0), 0, 0, 0) for name in size.small_files)
    for name in size.small_files_of_ranks:
        num_bytes = of_kind.get(name, 0) // num_ranks
        for rank in range(num_ranks):
            yield ManifestRow(name.replace("RANK", str(rank)), 0, num_bytes, rank, rank // gpus_per_node, 0)


SavedDtype = Dtype | Literal["uint8"]
"""Dtype of a saved tensor. `uint8`: quantised or factored statistics with scales, and parts of a value at a cut."""


@dataclass(frozen=True, slots=True)
class SavedTensor:
    """One tensor of a part of the state in a rank's files; its name ends with its number within the part."""

    part: PartName
    name: str
    shape: tuple[int, ...]
    dtype: SavedDtype

    @property
    def num_bytes(self) -> int:
        """Bytes of the tensor's values."""
        return prod(self.shape) * _value_bytes(self.dtype)


@dataclass(frozen=True, slots=True)
class SavedByRank:
    """Ranks that write something, in order of number, with the tensors that each writes."""

    ranks: tuple[SavingRank, ...]
    checkpoint_layout: CheckpointLayout

    def tensors(self, saving: SavingRank) -> tuple[SavedTensor, ...]:
        """List the tensors of a rank's files."""
        return saved_tensors(saving, self.checkpoint_layout)


def saved_by_rank(checkpoint_layout: CheckpointLayout, parallelism: Parallelism, *, gpus_per_node: int) -> SavedByRank:
    """Return the ranks that write anything, in their order, with the layout that they write.

    Raises InvalidInput for worlds of more than 100,000 ranks.
    """
    ranks = saving_ranks(checkpoint_layout.writers, parallelism, gpus_per_node=gpus_per_node)
    in_order = sorted((saving for saving in ranks if saving.num_bytes), key=lambda saving: saving.rank)
    return SavedByRank(tuple(in_order), checkpoint_layout)


def saved_tensors(saving: SavingRank, checkpoint_layout: CheckpointLayout) -> tuple[SavedTensor, ...]:
    """List the tensors of a rank's files, with the bytes that the manifest gives them.

    Shares and flat buffers are cut by bytes, not by values: a remainder that is not a whole value is a tensor of
    `uint8`. The file alone defines its flat buffers, whatever the shares of the rank.
    """
    of_rank = checkpoint_layout.saved_as.rank_share(saving)
    groups = (
        group
        for file in saving.writer.files
        for share_of_rank in ((of_rank,) if file.holds == "flat-buffers" else (of_rank, *of_rank.more))
        for group in _tensors_of_file(file, share_of_rank, checkpoint_layout.parts)
    )
    return tuple(_number_tensors(groups))


@dataclass(frozen=True, slots=True)
class _EqualTensors:
    """`count` equal tensors, not yet numbered."""

    tensor: SavedTensor
    count: int


def _tensors_of_file(file: File, share_of_rank: RankShare, parts: tuple[StatePart, ...]) -> Iterator[_EqualTensors]:
    """List the tensors of a file by the form that it holds them in."""
    match file.holds:
        case "flat-buffers":
            return _flat_buffers(file, parts)
        case "tensors":
            return (equal for part, some in _shards_by_part(file, share_of_rank, parts) for equal in _whole(part, some))
        case "share":
            return _shares_of_tensors(file, share_of_rank, parts)
        case "assigned":
            return _assigned_tensors(file, parts)


def _shards_by_part(
    file: File, share_of_rank: RankShare, parts: tuple[StatePart, ...]
) -> Iterator[tuple[StatePart, list[Shard]]]:
    """Pair each part that the file holds with the dense shards, then with those of experts."""
    for part_bytes, some in zip((file.dense, file.expert), share_of_rank.shards, strict=True):
        for part in _parts_with_bytes(parts, part_bytes):
            yield part, some


def _shares_of_tensors(file: File, share_of_rank: RankShare, parts: tuple[StatePart, ...]) -> Iterator[_EqualTensors]:
    for part, some in _shards_by_part(file, share_of_rank, parts):
        total = sum(equal.tensor.num_bytes * equal.count for equal in _whole(part, some))
        yield from _cut_run(_whole(part, some), *share_of_rank.bounds(total))


def _assigned_tensors(file: File, parts: tuple[StatePart, ...]) -> Iterator[_EqualTensors]:
    """List the tensors that were assigned, and the remaining bytes of the file as flat buffers."""
    whole = Counter[PartName]()
    for tensors in file.assigned:
        whole[tensors.part.name] += tensors.num_bytes
        each = statistic_bytes(tensors.part, tensors.moment, tensors.shard)
        yield from _tensors_of_moment(tensors.part, tensors.moment, tensors.shard, num_bytes=each, copies=1)
    rest = Counter(file.dense) + Counter(file.expert) - whole
    yield from _flat_buffers(replace(file, dense=dict(rest), expert={}), parts)


def _whole(part: StatePart, shards: Iterable[Shard]) -> Iterator[_EqualTensors]:
    return (equal for shard in shards for equal in _tensors_of_shard(part, shard))


def _parts_with_bytes(
    parts: Iterable[StatePart], part_bytes: PartBytes | Mapping[PartName, int]
) -> Iterator[StatePart]:
    return (part for part in parts if part_bytes.get(part.name))


def _flat_buffers(file: File, parts: tuple[StatePart, ...]) -> Iterator[_EqualTensors]:
    num_bytes = Counter(file.dense) + Counter(file.expert)
    for part in _parts_with_bytes(parts, num_bytes):
        for index in range(part.num_statistics):
            yield from _flat(
                part.name, "flat", _value_dtype(part), share(num_bytes[part.name], part.num_statistics, index)
            )


def _tensors_of_shard(part: StatePart, shard: Shard) -> Iterator[_EqualTensors]:
    """List what a part keeps of equal shards; nothing of shards without a value."""
    kept = part.of(is_trained=shard.is_trained, name=shard.name)
    if not shard.parameters or kept is None:
        return
    for moment, num_bytes in kept.statistics(shard.shape, role=shard.role):
        yield from _tensors_of_moment(kept, moment, shard, num_bytes=num_bytes // moment.copies, copies=moment.copies)


def _tensors_of_moment(
    part: StatePart, moment: Moment, shard: Shard, *, num_bytes: int, copies: int
) -> Iterator[_EqualTensors]:
    """List the tensors of one moment of equal shards: by value, or as bytes where a value has no dtype of its own."""
    if num_bytes and moment.rule == "value":
        yield _EqualTensors(SavedTensor(part.name, shard.name, shard.shape, _value_dtype(part)), shard.count * copies)
    elif num_bytes:
        yield _EqualTensors(SavedTensor(part.name, shard.name, (num_bytes,), "uint8"), shard.count * copies)


def _cut_run(groups: Iterable[_EqualTensors], start: int, stop: int) -> Iterator[_EqualTensors]:
    """Cut the bytes from `start` to `stop` out of tensors laid end to end; cut tensors become flat pieces."""
    offset = 0
    for equal in groups:
        tensor, size = equal.tensor, equal.tensor.num_bytes
        first, past = max(start - offset, 0), min(stop - offset, size * equal.count)
        offset += size * equal.count
        if not size or first >= past:
            continue
        head = min(-first % size, past - first)
        num_whole, tail = divmod(past - first - head, size)
        yield from _flat(tensor.part, tensor.name, tensor.dtype, head)
        if num_whole:
            yield _EqualTensors(tensor, num_whole)
        yield from _flat(tensor.part, tensor.name, tensor.dtype, tail)


def _flat(part: PartName, name: str, dtype: SavedDtype, num_bytes: int) -> Iterator[_EqualTensors]:
    num_values, rest = divmod(num_bytes, _value_bytes(dtype))
    if num_values:
        yield _EqualTensors(SavedTensor(part, name, (num_values,), dtype), 1)
    if rest:
        yield _EqualTensors(SavedTensor(part, name, (rest,), "uint8"), 1)


def _number_tensors(groups: Iterable[_EqualTensors]) -> Iterator[SavedTensor]:
    numbers: Counter[tuple[PartName, str]] = Counter()
    for equal in groups:
        key = equal.tensor.part, equal.tensor.name
        for number in range(numbers[key], numbers[key] + equal.count):
            yield replace(equal.tensor, name=f"{equal.tensor.name}.{number}")
        numbers[key] += equal.count


def _value_dtype(part: StatePart) -> SavedDtype:
    """Return the dtype of a part's values, `uint8` if they have scales."""
    return part.dtype if is_plain(part.dtype) else "uint8"


def _value_bytes(dtype: SavedDtype) -> int:
    return 1 if dtype == "uint8" else BYTES_PER_VALUE[dtype]
