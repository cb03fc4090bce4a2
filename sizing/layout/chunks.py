"""Which layers stand where in a pipeline: the model cut into chunks in its own order, dealt over the stages.

With v virtual stages on each of p stages there are p v chunks. Chunk c stands on stage c mod p; where the pipeline is
folded, every second round goes back: a V with two, so that the first stage has the first and the last chunk.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import NamedTuple, Self

from sizing.layout.parallelism import Parallelism
from sizing.provenance import Assumption


class Counted(NamedTuple):
    """What counts as a layer when layers are dealt over the stages, beside the layers."""

    embedding: bool = False
    loss: bool = False


def counted_as_layers(parallelism: Parallelism, num_layers: int) -> Counted:
    """Whether embedding and loss count as layers: as stated; else both where the chunks come out equal only so."""
    stated = parallelism.embedding_counts_as_layer, parallelism.loss_counts_as_layer
    if stated == (None, None) and _is_equal_only_with_both(parallelism, num_layers):
        return Counted(embedding=True, loss=True)
    return Counted(*map(bool, stated))


def _is_equal_only_with_both(parallelism: Parallelism, num_layers: int) -> bool:
    num_chunks = parallelism.num_model_chunks
    if parallelism.virtual_pipeline == 1 or parallelism.states_layers or not num_layers:
        return False
    return num_layers % num_chunks != 0 and (num_layers + len(Counted._fields)) % num_chunks == 0


def split_assumptions(parallelism: Parallelism, num_layers: int) -> Iterator[Assumption]:
    """That embedding and loss are taken as layers, where nothing says so."""
    stated = parallelism.embedding_counts_as_layer, parallelism.loss_counts_as_layer
    if stated == (None, None) and any(counted_as_layers(parallelism, num_layers)):
        num_units = num_layers + len(Counted._fields)
        reason = (
            f"{num_layers} layers do not cut into {parallelism.num_model_chunks} equal chunks, "
            f"{num_units} with embedding and loss do"
        )
        for name in Counted._fields:
            yield Assumption(field=f"parallelism.{name}_counts_as_layer", value=True, reason=reason)


@dataclass(frozen=True, slots=True)
class Listed:
    """Layers by stage, or by chunk, as they are given; `starts` are the sums of those before each."""

    starts: tuple[int, ...]

    @classmethod
    def of(cls, layers: tuple[int, ...]) -> Self:
        """So many layers on each."""
        return cls(tuple(accumulate(layers, initial=0)))

    @property
    def total(self) -> int:
        """All of them."""
        return self.starts[-1]

    @property
    def num_places(self) -> int:
        """Stages or chunks."""
        return len(self.starts) - 1

    def before(self, place: int) -> int:
        """Layers before a place."""
        return self.starts[place]

    def is_multiple_of(self, number: int) -> bool:
        """Whether each place has a multiple of a number."""
        return all(start % number == 0 for start in self.starts)

    def edges(self) -> Iterator[int]:
        """Places that have not as many as the one before."""
        layers = [past - start for start, past in pairwise(self.starts)]
        yield from (place for place, (left, right) in enumerate(pairwise(layers), 1) if left != right)


@dataclass(frozen=True, slots=True)
class Spread:
    """`total` layers over the stages: `first` and `last` as given, evenly over the others.

    What does not divide goes one each to the first of them.
    """

    total: int
    num_places: int
    first: int | None = None
    last: int | None = None

    @property
    def rest(self) -> int:
        """Layers that are spread evenly."""
        return self.total - (self.first or 0) - (self.last or 0)

    @property
    def num_even(self) -> int:
        """Stages over which they are."""
        return self.num_places - (self.first is not None) - (self.last is not None)

    @property
    def adds_up(self) -> bool:
        """Whether the given ends leave the other stages what is not negative, and nothing where there are none."""
        return self.rest >= 0 if self.num_even else self.rest == 0

    def before(self, place: int) -> int:
        """Layers before a stage: f + i floor(n / q) + min(i, n mod q), stage i of the q that share n evenly.

        Source: MLPerf Storage, DLIO checkpointing; without remainder also Megatron-LM, core/transformer,
        get_transformer_layer_offset.

        >>> [Spread(31, 4, first=7, last=6).before(stage) for stage in range(5)]
        [0, 7, 16, 25, 31]
        """
        number = place - (self.first is not None)
        if number < 0:
            return 0
        if number > self.num_even:
            return self.total
        each, left = divmod(self.rest, self.num_even) if self.num_even else (0, 0)
        return (self.first or 0) + number * each + min(number, left)

    def is_multiple_of(self, number: int) -> bool:
        """Whether each stage has a multiple of a number, and those that share evenly the same."""
        ends = (self.first or 0) % number == 0 == (self.last or 0) % number
        return ends and self.rest % (max(1, self.num_even) * number) == 0

    def edges(self) -> Iterator[int]:
        """Stages that have not as many as the one before, beside the ends."""
        if self.num_even > 0:
            yield (self.first is not None) + self.rest % self.num_even


@dataclass(frozen=True, slots=True)
class LayerSplit:
    """The chunks of a pipeline, numbered in the model's order.

    `dealt` are layers and what counts as one. It covers one of `num_rounds` rounds over the stages, which are alike.
    """

    num_layers: int
    num_stages: int
    num_chunks: int
    dealt: Listed | Spread
    counted: Counted
    is_folded: bool = False

    @classmethod
    def of(cls, parallelism: Parallelism, num_layers: int, *, is_folded: bool = False) -> Self:
        """Of so many layers; 0 where only a parameter count is known."""
        p, counted = parallelism, Counted()
        dealt: Listed | Spread
        if p.layers_per_stage is not None:
            dealt = Listed.of(p.layers_per_stage)
        else:
            counted = counted_as_layers(p, num_layers) if num_layers else counted
            dealt = Spread(num_layers + sum(counted), p.pipeline, p.first_stage_layers, p.last_stage_layers)
        return cls(num_layers, p.pipeline, p.num_model_chunks, dealt, counted, is_folded)

    @property
    def num_rounds(self) -> int:
        """Rounds over the stages: v, or 1 where the layers of each chunk are given."""
        return self.num_chunks // self.dealt.num_places

    @property
    def is_even(self) -> bool:
        """Whether the rounds come out alike, as an interleaved schedule needs it."""
        return self.num_rounds == 1 or self.dealt.is_multiple_of(self.num_rounds)

    def chunks_on(self, stage: int) -> tuple[range, ...]:
        """The layers of each chunk of a stage.

        Source: Megatron-LM, core/transformer, get_num_layers_to_build and get_transformer_layer_offset.

        >>> degrees = Parallelism(pipeline=2, virtual_pipeline=2, embedding_counts_as_layer=True)
        >>> split = LayerSplit.of(degrees, 7)
        >>> split.chunks_on(0), split.chunks_on(1)
        ((range(0, 1), range(3, 5)), (range(1, 3), range(5, 7)))
        >>> LayerSplit.of(Parallelism(pipeline=2, virtual_pipeline=2), 8, is_folded=True).chunks_on(0)
        (range(0, 2), range(6, 8))
        """
        firsts = range(0, self.num_chunks, self.num_stages)
        return tuple(self.layers_in(first + self._within(first, stage)) for first in firsts)

    @property
    def last_stage(self) -> int:
        """The stage with the last chunk, and so with the head."""
        return self._within(self.num_chunks - 1, self.num_stages - 1)

    def _within(self, chunk: int, place: int) -> int:
        """The stage at a place in the round of a chunk; counted from the other end in a round that goes back."""
        return self.num_stages - 1 - place if self._goes_back(chunk) else place

    def _goes_back(self, chunk: int) -> bool:
        return self.is_folded and chunk // self.num_stages % 2 == 1

    def layers_in(self, chunk: int) -> range:
        """The layers of a chunk; embedding and loss, where they count, leave one less to the first and the last."""
        return range(self._start(chunk), self._start(chunk + 1))

    def chunk_of(self, layer: int) -> int:
        """The chunk that holds a layer."""
        return bisect_right(range(self.num_chunks), layer, key=self._start) - 1

    def unlike_stages(self, chunks: set[int]) -> set[int]:
        """The stages that are not like the one before, where some chunks are not like the one before.

        In a round that goes back the chunk before stands on the stage behind.
        """
        places = ((chunk, chunk % self.num_stages) for chunk in chunks)
        return {self.num_stages - place if self._goes_back(chunk) else place for chunk, place in places}

    def unlike_chunks(self) -> set[int]:
        """Chunks for which not as many layers are dealt as for the one before, beside the ends."""
        rounds = range(0, self.num_chunks, self.dealt.num_places)
        return {first + place for first in rounds for place in self.dealt.edges()}

    def _start(self, chunk: int) -> int:
        rounds, place = divmod(chunk, self.dealt.num_places)
        start = (rounds * self.dealt.total + self.dealt.before(place)) // self.num_rounds
        if not any(self.counted):
            return start
        return min(max(start - self.counted.embedding, 0), self.num_layers)
