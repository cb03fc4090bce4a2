"""How fast a storage system is, as far as it is known: the rates of the transfer model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Self

from pydantic import Field, create_model, model_validator

from sizing.errors import InvalidInput, broken_rule
from sizing.storage.rates import DIRECTIONS, FIGURES, Direction, Rates, document_name
from sizing.storage.transfer import Numbers
from sizing.strict_model import InputModel
from sizing.units import rate_text

if TYPE_CHECKING:
    from sizing.storage.measurement import BenchmarkResult, Measurement, Operation


class MeasuredOn(InputModel):
    """The benchmark run that rates come from, and how much of a cluster it saw."""

    run_id: Annotated[str, Field(max_length=64)] = Field(
        description="Id of the benchmark run, as in its result document."
    )
    engine: Annotated[str, Field(max_length=64)] = Field(
        description="Engine that wrote the checkpoints, such as direct or torch-save."
    )
    num_nodes: Annotated[int, Field(ge=1, le=1_000_000)] = Field(description="Nodes that wrote at once in the run.")
    num_ranks: Annotated[int, Field(ge=1, le=1_000_000)] = Field(description="Ranks that wrote at once in the run.")
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
            for direction in DIRECTIONS
            if figure.only in (None, direction)
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
        past_the_cache = {"node_buffered_bytes_per_second": None, "writer_buffered_bytes_per_second": None}
        return self.with_rates("write", **past_the_cache).with_rates("read", **past_the_cache)


def profile_of(result: BenchmarkResult) -> StorageProfile:
    """The best rates of a run, taken as those of the whole file system.

    One run cannot tell whether writer, node or file system was the limit, so its best rate is a lower
    bound of what the file system gives to more nodes. Unverified measurements, reads that may have come from the page
    cache, and workloads of a shape of their own do not count: a hot file that many read, or a save that waits for
    a deletion, has a rate that a plain one does not have.

    Raises InvalidInput where no write is left.
    """
    write = _best(result.measurements, "write")
    read = _best(result.measurements, "restore")
    if write is None:
        raise InvalidInput.of(
            "measurements",
            "must hold a verified write with nothing beside it",
            value=", ".join(sorted({m.operation for m in result.measurements})),
            remedy="run ckpt-bench run again and look at its warnings",
        )
    write_rates = Rates(file_system_bytes_per_second=write.headline_bytes_per_second)
    read_rates = Rates(file_system_bytes_per_second=read.headline_bytes_per_second if read else None)
    warnings = list(result.warnings_by_kind)
    if any(m.operation == "restore" and not m.is_of_storage for m in result.measurements):
        warnings.append("the restore may have read from the page cache, so it gives no read rate")
    if write.headline_bytes_per_second < write.bytes_per_second:
        warnings.append(
            f"the write bandwidth is the {rate_text(write.headline_bytes_per_second)} that went on after the rate "
            f"fell, not the median of the repetitions, {rate_text(write.bytes_per_second)}"
        )
    measured = MeasuredOn(
        run_id=result.run_id,
        engine=write.engine,
        num_nodes=write.num_nodes,
        num_ranks=write.num_ranks,
        limited_by_client=tuple(
            direction
            for direction, found in (("write", write), ("read", read))
            if found and found.limited_by == "client"
        ),
        warnings=tuple(warnings),
    )
    return StorageProfile.model_validate(
        {**write_rates.document("write"), **read_rates.document("read"), "measured": measured}
    )


def _best(measurements: Sequence[Measurement], operation: Operation) -> Measurement | None:
    of_operation = [m for m in measurements if m.operation == operation and m.shape is None]
    usable = [m for m in of_operation if m.verified and m.is_of_storage]
    return max(usable, key=lambda m: m.headline_bytes_per_second, default=None)
