"""Placement of layers in a pipeline: the model is cut into chunks in its own order, which are spread over the stages.

With v virtual stages on each of p stages there are p v chunks. Chunk c is on stage c mod p. In a folded pipeline every
second round runs backwards: with two rounds a V, so that the first stage has the first and the last chunk.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import NamedTuple, Self

from sizing.frameworks.framework import Framework
from sizing.layout.parallelism import Parallelism
from sizing.provenance import Assumption


class CountedEnds(NamedTuple):
    """Whether embedding and loss count as layers when layers are spread over the stages."""

    embedding: bool = False
    loss: bool = False


def counted_as_layers(parallelism: Parallelism, num_layers: int) -> CountedEnds:
    """Return whether embedding and loss count as layers.

    The default is no, unless only with both the chunks of virtual stages are equal.
    """
    stated = parallelism.embedding_counts_as_layer, parallelism.loss_counts_as_layer
    is_open = None in stated and False not in stated and not parallelism.states_layers
    if is_open and parallelism.virtual_pipeline > 1 and num_layers:
        num_chunks, num_units = parallelism.num_model_chunks, num_layers + len(CountedEnds._fields)
        if num_layers % num_chunks and num_units % num_chunks == 0:
            return CountedEnds(embedding=True, loss=True)
    return CountedEnds(*map(bool, stated))


def split_warnings(parallelism: Parallelism, num_layers: int, framework: Framework) -> Iterator[str]:
    """Warn of layers that are spread over stages unevenly, where the framework starts no such pipeline by itself."""
    units = LayerSplit.of(parallelism, num_layers).units
    if framework.uneven_stages_by and isinstance(units, SpreadLayers) and not units.is_multiple_of(1):
        yield (
            f"{framework.title} spreads layers evenly alone, and {units.rest:,} do not divide by {units.num_even:,} "
            "stages: the first of these are counted with one more. Give parallelism.layers_per_stage "
            f"({framework.uneven_stages_by}), or what the ends hold: first_stage_layers and last_stage_layers, or "
            "embedding_counts_as_layer and loss_counts_as_layer"
        )


def split_assumptions(parallelism: Parallelism, num_layers: int) -> Iterator[Assumption]:
    """Report that embedding and loss count as layers, if that is assumed."""
    stated = parallelism.embedding_counts_as_layer, parallelism.loss_counts_as_layer
    if None in stated and all(counted_as_layers(parallelism, num_layers)):
        num_units = num_layers + len(CountedEnds._fields)
        reason = (
            f"{num_layers} layers do not cut into {parallelism.num_model_chunks} equal chunks, "
            f"{num_units} with embedding and loss do"
        )
        for name, value in zip(CountedEnds._fields, stated, strict=True):
            if value is None:
                yield Assumption(field=f"parallelism.{name}_counts_as_layer", value=True, reason=reason)


@dataclass(frozen=True, slots=True)
class ListedLayers:
    """Given layers of each stage or chunk; `starts` are the numbers of layers before each."""

    starts: tuple[int, ...]

    @classmethod
    def of(cls, layers: tuple[int, ...]) -> Self:
        """Make a split of the number of layers on each stage or chunk."""
        return cls(tuple(accumulate(layers, initial=0)))

    @property
    def total(self) -> int:
        """Number of layers of all stages or chunks."""
        return self.starts[-1]

    @property
    def num_places(self) -> int:
        """Number of stages or chunks."""
        return len(self.starts) - 1

    def before(self, place: int) -> int:
        """Count the layers on the stages or chunks before one."""
        return self.starts[place]

    def is_multiple_of(self, number: int) -> bool:
        """Return whether each place has a multiple of a number of layers."""
        return all(start % number == 0 for start in self.starts)

    def edges(self) -> Iterator[int]:
        """List the places with another number of layers than the place before."""
        layers = [past - start for start, past in pairwise(self.starts)]
        yield from (place for place, (left, right) in enumerate(pairwise(layers), 1) if left != right)


@dataclass(frozen=True, slots=True)
class SpreadLayers:
    """`total` layers over the stages: `first` and `last` as given, the others evenly.

    The first of the other stages take one layer each of the remainder.
    """

    total: int
    num_places: int
    first: int | None = None
    last: int | None = None

    @property
    def rest(self) -> int:
        """Layers on the stages whose number is not given, which share them evenly."""
        return self.total - (self.first or 0) - (self.last or 0)

    @property
    def num_even(self) -> int:
        """Stages whose number of layers is not given."""
        return self.num_places - (self.first is not None) - (self.last is not None)

    @property
    def adds_up(self) -> bool:
        """Whether the given ends leave the other stages at least 0 layers, exactly 0 if there are no other stages."""
        return self.rest >= 0 if self.num_even else self.rest == 0

    def before(self, place: int) -> int:
        """Count the layers before a stage: f + i floor(n / q) + min(i, n mod q), stage i of the q that share n evenly.

        Source: MLPerf Storage, DLIO checkpointing; without remainder also Megatron-LM, core/transformer,
        get_transformer_layer_offset.

        >>> [SpreadLayers(31, 4, first=7, last=6).before(stage) for stage in range(5)]
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
        """Return whether each stage has a multiple of a number, and the stages that share evenly have equally many."""
        ends = (self.first or 0) % number == 0 == (self.last or 0) % number
        return ends and self.rest % (max(1, self.num_even) * number) == 0

    def edges(self) -> Iterator[int]:
        """List the stages with another number of layers than the stage before, except the ends."""
        if self.num_even > 0:
            yield (self.first is not None) + self.rest % self.num_even


@dataclass(frozen=True, slots=True)
class LayerSplit:
    """Chunks of a pipeline, numbered in the model's order.

    `units` spreads layers, and what counts as one. It covers one of `num_rounds` equal rounds over the stages.
    """

    num_layers: int
    num_stages: int
    num_chunks: int
    units: ListedLayers | SpreadLayers
    counted: CountedEnds
    is_folded: bool = False

    @classmethod
    def of(cls, parallelism: Parallelism, num_layers: int, *, is_folded: bool = False) -> Self:
        """Split a number of layers, 0 if only a parameter count is known."""
        p, counted = parallelism, CountedEnds()
        units: ListedLayers | SpreadLayers
        if p.layers_per_stage is not None:
            units = ListedLayers.of(p.layers_per_stage)
        else:
            counted = counted_as_layers(p, num_layers) if num_layers else counted
            units = SpreadLayers(num_layers + sum(counted), p.pipeline, p.first_stage_layers, p.last_stage_layers)
        return cls(num_layers, p.pipeline, p.num_model_chunks, units, counted, is_folded)

    @property
    def num_rounds(self) -> int:
        """Number of rounds over the stages: v, or 1 if the layers of each chunk are given."""
        return self.num_chunks // self.units.num_places

    @property
    def is_even(self) -> bool:
        """Whether all rounds are equal, as an interleaved schedule requires."""
        return self.num_rounds == 1 or self.units.is_multiple_of(self.num_rounds)

    def chunks_on(self, stage: int) -> tuple[range, ...]:
        """List the layers of each chunk of a stage.

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
        """Stage with the last chunk, and so with the head."""
        return self._within(self.num_chunks - 1, self.num_stages - 1)

    def _within(self, chunk: int, place: int) -> int:
        """Return the stage at a place in the round of a chunk, counted from the other end in a backward round."""
        return self.num_stages - 1 - place if self._goes_back(chunk) else place

    def _goes_back(self, chunk: int) -> bool:
        return self.is_folded and chunk // self.num_stages % 2 == 1

    def layers_in(self, chunk: int) -> range:
        """Return the layers of a chunk. Embedding and loss, if they count, take the place of a layer at either end."""
        return range(self._start(chunk), self._start(chunk + 1))

    def chunk_of(self, layer: int) -> int:
        """Return the chunk that holds a layer."""
        return bisect_right(range(self.num_chunks), layer, key=self._start) - 1

    def unlike_stages(self, chunks: set[int]) -> set[int]:
        """Return the stages that differ from the stage before, given the chunks that differ from the chunk before.

        In a backward round, the chunk before is on the next stage.
        """
        places = ((chunk, chunk % self.num_stages) for chunk in chunks)
        return {self.num_stages - place if self._goes_back(chunk) else place for chunk, place in places}

    def unlike_chunks(self) -> set[int]:
        """Return the chunks with another number of layers than the chunk before, except at the ends."""
        rounds = range(0, self.num_chunks, self.units.num_places)
        return {first + place for first in rounds for place in self.units.edges()}

    def _start(self, chunk: int) -> int:
        rounds, place = divmod(chunk, self.units.num_places)
        start = (rounds * self.units.total + self.units.before(place)) // self.num_rounds
        if not any(self.counted):
            return start
        return min(max(start - self.counted.embedding, 0), self.num_layers)
