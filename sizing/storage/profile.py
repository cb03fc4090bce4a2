"""How fast a storage system is, as far as it is known: the rates of the transfer model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Self

from pydantic import Field, create_model, model_validator

from sizing.errors import broken_rule
from sizing.storage.rates import DIRECTIONS, FIGURES, TERMS, Direction, Rates, document_name
from sizing.storage.transfer import Numbers
from sizing.strict_model import InputModel

_NumNodes = Annotated[int, Field(ge=1, le=1_000_000)]
_NumRanks = Annotated[int, Field(ge=1, le=1_000_000)]


class MeasuredOn(InputModel):
    """The benchmark run that rates come from, and how much of a cluster it saw."""

    run_id: Annotated[str, Field(max_length=64)] = Field(
        description="Id of the benchmark run, as in its result document."
    )
    engine: Annotated[str, Field(max_length=64)] = Field(
        description="Engine that wrote the checkpoints, such as direct or torch-save."
    )
    num_nodes: _NumNodes = Field(description="Nodes that wrote at once in the run, the most of its configurations.")
    num_ranks: _NumRanks = Field(description="Ranks that wrote at once in the run, on that many nodes.")
    smaller: tuple[tuple[_NumNodes, _NumRanks], ...] = Field(
        (),
        max_length=100,
        description="Nodes and ranks of its other configurations of writes, whose rates limit a node or a writer: "
        "[[1, 8]]. Default: none.",
    )
    limited_by_client: tuple[Direction, ...] = Field(
        (),
        max_length=2,
        description="Directions, write or read, of which the rate is that of the run's client: the storage gives at "
        "least so much. Default: none.",
    )
    warnings: tuple[Annotated[str, Field(max_length=2000)], ...] = Field(
        (), max_length=100, description="What the run warned of."
    )


if TYPE_CHECKING:

    class _Document(InputModel):
        """The program asks for `write` and `read`, and for no field of documents."""

else:
    _Document = create_model(
        "_Document",
        __base__=InputModel,
        **{
            figure.document_name(direction): (
                figure.kind | None,
                Field(None, description=figure.document_description(direction)),
            )
            for figure in FIGURES.values()
            for direction in figure.directions
        },
    )


class StorageProfile(_Document):
    """Max rates of a storage system, and the times of a save or a restore that nothing overlaps."""

    # Documents have the figures of both directions side by side, by names that follow from `Rates`.

    measured: MeasuredOn | None = Field(
        None, description="Benchmark run that the rates come from. Default: they were not measured here."
    )

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if not any("bytes_per_second" in name for name in self.model_fields_set):
            raise broken_rule("must have at least one rate", "give write_bytes_per_second: 273 GB/s")
        return self

    @model_validator(mode="after")
    def _caches_have_a_rate(self) -> Self:
        """Refuse a cache that takes bytes in no time: a save that fits it would have an infinite rate."""
        for direction in DIRECTIONS:
            rates = self.rates(direction)
            has_cache = rates.cache_bytes is not None or rates.beyond_cache_bytes_per_second is not None
            if has_cache and not rates.limits_bytes:
                cache, rate = (
                    document_name(name, direction) for name in ("cache_bytes", "file_system_bytes_per_second")
                )
                rule = f"must say how fast the cache takes bytes, where it has {cache} or a rate beyond it"
                raise broken_rule(rule, f"give {rate}: 273 GB/s")
        return self

    @classmethod
    def of(cls, *, write: Rates = Rates(), read: Rates = Rates()) -> StorageProfile:  # noqa: B008 - it is immutable
        """A profile of figures that may be arrays, and are not validated."""
        return cls.model_construct(**dict[str, Any](write.document("write") | read.document("read")))

    def figures(self) -> dict[str, Numbers]:
        """Every rate and time that is known, by its field in documents."""
        return self.write.document("write") | self.read.document("read")

    @property
    def write(self) -> Rates:
        """Rates that limit saves."""
        return Rates.of_document(vars(self), "write")

    @property
    def read(self) -> Rates:
        """Rates that limit restores."""
        return Rates.of_document(vars(self), "read")

    def rates(self, direction: Direction) -> Rates:
        """Rates that limit saves, or restores, as the direction says."""
        return Rates.of_document(vars(self), direction)

    def with_rates(self, direction: Direction, **figures: Any) -> StorageProfile:
        """The profile with other figures of a direction, by their names in `Rates`, not validated.

        >>> profile = StorageProfile.of(write=Rates(node_bytes_per_second=8e9))
        >>> profile.with_rates("read", fixed_seconds=2.0).read.fixed_seconds
        2.0
        """
        return self.model_copy(update={document_name(name, direction): value for name, value in figures.items()})

    def direct(self) -> StorageProfile:
        """The profile for writers and readers that bypass the page cache."""
        buffered = dict.fromkeys(name for name, term in TERMS.items() if term.is_buffered)
        return self.with_rates("write", **buffered).with_rates("read", **buffered)
