"""Every tensor that a rank writes: name, shape and dtype, to the bytes of its files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import Literal

from sizing.layout.files import File, PartBytes, statistic_bytes
from sizing.layout.formats.base import RankShare
from sizing.layout.layout import LaidOut
from sizing.layout.parallelism import Parallelism
from sizing.layout.saving_ranks import SavingRank, saving_ranks
from sizing.layout.shards import Shard
from sizing.layout.stages import share
from sizing.state import StatePart
from sizing.state.optimizers import BYTES_PER_VALUE, Dtype, Moment
from sizing.state.saved_state import PartName, is_plain

SavedDtype = Dtype | Literal["uint8"]
"""`uint8`: quantised or factored statistics with their scales, and what a cut leaves of a value."""


@dataclass(frozen=True, slots=True)
class SavedTensor:
    """One tensor of a part of the state in a rank's files; names are numbered within the part."""

    part: PartName
    name: str
    shape: tuple[int, ...]
    dtype: SavedDtype

    @property
    def num_bytes(self) -> int:
        """Bytes of its values."""
        return prod(self.shape) * _value_bytes(self.dtype)


@dataclass(frozen=True, slots=True)
class SavedByRank:
    """The ranks that write something, in the order of their numbers, and what each of them writes."""

    ranks: tuple[SavingRank, ...]
    laid_out: LaidOut

    def tensors(self, saving: SavingRank) -> tuple[SavedTensor, ...]:
        """The tensors of a rank's files."""
        return saved_tensors(saving, self.laid_out)


def saved_by_rank(laid_out: LaidOut, parallelism: Parallelism, *, gpus_per_node: int) -> SavedByRank:
    """Who writes what.

    Raises InvalidInput for worlds of more than 100,000 ranks.
    """
    ranks = saving_ranks(laid_out.writers, parallelism, gpus_per_node=gpus_per_node)
    in_order = sorted((saving for saving in ranks if saving.num_bytes), key=lambda saving: saving.rank)
    return SavedByRank(tuple(in_order), laid_out)


def saved_tensors(saving: SavingRank, laid_out: LaidOut) -> tuple[SavedTensor, ...]:
    """The tensors of a rank's files, with the bytes that the manifest gives them.

    Shares and flat buffers are cut by bytes, not by values: what does not make a whole value is a tensor of `uint8`.
    """
    of_rank = laid_out.saved_as.rank_share(saving)
    groups = (
        group
        for file in saving.writer.files
        for share_of_rank in _shares_in(file, of_rank)
        for group in _of_file(file, share_of_rank, laid_out.parts)
    )
    return tuple(_numbered(groups))


def _shares_in(file: File, of_rank: RankShare) -> tuple[RankShare, ...]:
    """The shares of which a file holds some bytes; buffers are what the file says, whatever the shares."""
    return (of_rank,) if file.holds == "flat-buffers" else (of_rank, *of_rank.more)


@dataclass(frozen=True, slots=True)
class _Equal:
    """`count` equal tensors, not yet numbered."""

    tensor: SavedTensor
    count: int


def _of_file(file: File, share_of_rank: RankShare, parts: tuple[StatePart, ...]) -> Iterator[_Equal]:
    match file.holds:
        case "flat-buffers":
            return _flat_buffers(file, parts)
        case "tensors":
            return (equal for part, some in _shards_by_part(file, share_of_rank, parts) for equal in _whole(part, some))
        case "share":
            return _of_share(file, share_of_rank, parts)
        case "dealt":
            return _of_dealt(file, parts)


def _shards_by_part(
    file: File, share_of_rank: RankShare, parts: tuple[StatePart, ...]
) -> Iterator[tuple[StatePart, list[Shard]]]:
    """Each part that the file holds, with the dense shards and then with those of experts."""
    for part_bytes, some in zip((file.dense, file.expert), share_of_rank.shards, strict=True):
        for part in _held(parts, part_bytes):
            yield part, some


def _of_share(file: File, share_of_rank: RankShare, parts: tuple[StatePart, ...]) -> Iterator[_Equal]:
    for part, some in _shards_by_part(file, share_of_rank, parts):
        yield from _run(_whole(part, some), *share_of_rank.bounds(_total(part, some)))


def _of_dealt(file: File, parts: tuple[StatePart, ...]) -> Iterator[_Equal]:
    """The tensors that were dealt; what the file holds beside them is flat."""
    whole = Counter[PartName]()
    for dealt in file.dealt:
        whole[dealt.part.name] += dealt.num_bytes
        each = statistic_bytes(dealt.part, dealt.moment, dealt.shard)
        yield from _of_moment(dealt.part, dealt.moment, dealt.shard, num_bytes=each, copies=1)
    rest = Counter(file.dense) + Counter(file.expert) - whole
    yield from _flat_buffers(replace(file, dense=dict(rest), expert={}), parts)


def _whole(part: StatePart, shards: Iterable[Shard]) -> Iterator[_Equal]:
    return (equal for shard in shards for equal in _of_shard(part, shard))


def _held(parts: Iterable[StatePart], part_bytes: PartBytes | Mapping[PartName, int]) -> Iterator[StatePart]:
    return (part for part in parts if part_bytes.get(part.name))


def _flat_buffers(file: File, parts: tuple[StatePart, ...]) -> Iterator[_Equal]:
    num_bytes = Counter(file.dense) + Counter(file.expert)
    for part in _held(parts, num_bytes):
        for index in range(part.num_statistics):
            yield from _flat(
                part.name, "flat", _value_dtype(part), share(num_bytes[part.name], part.num_statistics, index)
            )


def _of_shard(part: StatePart, shard: Shard) -> Iterator[_Equal]:
    """What a part keeps of equal shards; nothing of those without a value."""
    if not shard.parameters or not part.is_kept_of(is_trained=shard.is_trained):
        return
    for moment, num_bytes in part.statistics(shard.shape, is_hidden_matrix=shard.is_hidden_matrix):
        yield from _of_moment(part, moment, shard, num_bytes=num_bytes // moment.copies, copies=moment.copies)


def _of_moment(part: StatePart, moment: Moment, shard: Shard, *, num_bytes: int, copies: int) -> Iterator[_Equal]:
    """So many statistics of equal shards, of so many bytes each."""
    if num_bytes and moment.rule == "value":
        yield _Equal(SavedTensor(part.name, shard.name, shard.shape, _value_dtype(part)), shard.count * copies)
    elif num_bytes:
        yield _Equal(SavedTensor(part.name, shard.name, (num_bytes,), "uint8"), shard.count * copies)


def _total(part: StatePart, shards: Iterable[Shard]) -> int:
    return sum(equal.tensor.num_bytes * equal.count for equal in _whole(part, shards))


def _run(groups: Iterable[_Equal], start: int, stop: int) -> Iterator[_Equal]:
    """The bytes from `start` to `stop` of the tensors laid end to end: whole ones as they are, ends as flat pieces."""
    offset = 0
    for equal in groups:
        size = equal.tensor.num_bytes
        first, past = max(start - offset, 0), min(stop - offset, size * equal.count)
        if size and first < past:
            yield from _cut(equal.tensor, size, first, past)
        offset += size * equal.count


def _cut(tensor: SavedTensor, size: int, first: int, past: int) -> Iterator[_Equal]:
    """Bytes `first` to `past` of equal tensors in a row, each of `size` bytes."""
    head = min(-first % size, past - first)
    num_whole, tail = divmod(past - first - head, size)
    yield from _flat(tensor.part, tensor.name, tensor.dtype, head)
    if num_whole:
        yield _Equal(tensor, num_whole)
    yield from _flat(tensor.part, tensor.name, tensor.dtype, tail)


def _flat(part: PartName, name: str, dtype: SavedDtype, num_bytes: int) -> Iterator[_Equal]:
    num_values, rest = divmod(num_bytes, _value_bytes(dtype))
    if num_values:
        yield _Equal(SavedTensor(part, name, (num_values,), dtype), 1)
    if rest:
        yield _Equal(SavedTensor(part, name, (rest,), "uint8"), 1)


def _numbered(groups: Iterable[_Equal]) -> Iterator[SavedTensor]:
    numbers: Counter[tuple[PartName, str]] = Counter()
    for equal in groups:
        key = equal.tensor.part, equal.tensor.name
        for number in range(numbers[key], numbers[key] + equal.count):
            yield replace(equal.tensor, name=f"{equal.tensor.name}.{number}")
        numbers[key] += equal.count


def _value_dtype(part: StatePart) -> SavedDtype:
    """The dtype of a part's values; bytes where scales stand beside them."""
    return part.dtype if is_plain(part.dtype) else "uint8"


def _value_bytes(dtype: SavedDtype) -> int:
    return 1 if dtype == "uint8" else BYTES_PER_VALUE[dtype]
