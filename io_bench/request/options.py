"""What the user asks for: the flags of `ckpt-bench run` and `ckpt-bench scan`, validated."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Annotated, Any, Self, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from io_bench.engines import ENGINES, STREAMING_ENGINES
from io_bench.publishing.destination import Destination
from io_bench.target.directory.direct_io import ALIGNMENT_BYTES
from sizing.errors import InvalidInput, broken_rule, explain
from sizing.units import (
    ByteCount,
    BytesPerSecond,
    PositiveSeconds,
    binary_bytes_text,
    parse_bytes,
    parse_seconds,
)

MIN_BYTES_PER_RANK: int = parse_bytes("1 MiB")
"""Less measures the opening of files."""
MAX_BYTES_PER_RANK: int = parse_bytes("16 TiB")
"""The largest file of ext4, and beyond every shard."""
MIN_BLOCK_BYTES: int = parse_bytes("64 KiB")
"""The largest unit that O_DIRECT asks for."""
MAX_BLOCK_BYTES: int = parse_bytes("1 GiB")
"""Each thread holds two in memory."""
MAX_THREADS = 256
"""Beyond the queue of a drive; each has two blocks in memory."""
MAX_WRITERS_PER_NODE = 1024
"""More processes than CPUs of a node."""
MAX_NODES = 100_000
"""Above the largest clusters by far: a typing error."""
DEFAULT_ENGINE = "direct"
MAX_DEFAULT_WRITERS = 16
"""Twice the GPUs of a node; a scan by powers of two has five steps up to there."""
DEFAULT_BYTES_PER_RANK = "256MiB"
DEFAULT_REPETITIONS = 5
"""The median leaves out two on either side."""
DEFAULT_MAX_SECONDS: float = parse_seconds("5min")
"""What people wait for without having asked for more."""
DEFAULT_TIMEOUT = "10min"
DEFAULT_TIMEOUT_SECONDS: float = parse_seconds(DEFAULT_TIMEOUT)
"""A guess: longer than any step of one repetition. Too short breaks off runs on slow storage, too long only names a
rank that hangs later."""
_MAX_VALUES = 32
"""Of one flag; the grid multiplies them."""

_Value = TypeVar("_Value")


def _known_engine(name: str) -> str:
    if name not in ENGINES:
        raise broken_rule("must be a known engine", f"choose {' or '.join(ENGINES)}")
    return name


def _between(low: int, high: int, example: str) -> Callable[[int], int]:
    def checked(num_bytes: int) -> int:
        if not low <= num_bytes <= high:
            rule = f"must be from {binary_bytes_text(low)} to {binary_bytes_text(high)}"
            raise broken_rule(rule, f"give a size with a unit: {example}")
        return num_bytes

    return checked


def _whole_pages(num_bytes: int) -> int:
    if num_bytes % ALIGNMENT_BYTES:
        unit = binary_bytes_text(ALIGNMENT_BYTES)
        raise broken_rule(f"must be a multiple of {unit} for O_DIRECT", "give a size with a unit: 8MiB")
    return num_bytes


def _values(text: Any) -> Any:
    """The values of a flag that takes several, separated by commas."""
    if not isinstance(text, str):
        return text
    values = [part.strip() for part in text.split(",")]
    if len(set(values)) != len(values) or len(values) > _MAX_VALUES:
        raise broken_rule(f"must be at most {_MAX_VALUES} different values", "separate them with commas: 1,2,4")
    return tuple(values)


def _destination(link: str | None) -> Destination | None:
    return None if link is None else Destination.of(link, "--publish")


_EngineName = Annotated[str, AfterValidator(_known_engine)]
PayloadBytes = Annotated[
    int, BeforeValidator(parse_bytes), AfterValidator(_between(MIN_BYTES_PER_RANK, MAX_BYTES_PER_RANK, "256MiB"))
]
_BlockBytes = Annotated[
    int,
    BeforeValidator(parse_bytes),
    AfterValidator(_between(MIN_BLOCK_BYTES, MAX_BLOCK_BYTES, "8MiB")),
    AfterValidator(_whole_pages),
]
_Threads = Annotated[int, Field(ge=1, le=MAX_THREADS)]
_Several = Annotated[tuple[_Value, ...], BeforeValidator(_values)]


class TargetOptions(BaseModel):
    """How much is to be written, and where. Fields are read under the names of their flags."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    target: Annotated[str, Field(alias="--target")]
    scenario: Annotated[str | None, Field(alias="--scenario")] = None
    scale: Annotated[float | None, Field(alias="--scale", gt=0, le=1, allow_inf_nan=False)] = None
    bytes_per_rank: Any = None

    @classmethod
    def of(cls, flags: Mapping[str, object]) -> Self:
        """The options that the flags spell. Raises InvalidInput, with one Problem per flag."""
        try:
            options = cls.model_validate(flags)
        except ValidationError as error:
            problems = explain(error, cls).problems
            raise InvalidInput(
                replace(problem, field=problem.field.partition(".")[0]) for problem in problems
            ) from error
        if options.scale is not None and options.scenario is None:
            remedy = "add --scenario, or use --bytes-per-rank without --scale"
            raise InvalidInput.of("--scale", "needs --scenario", value=options.scale, remedy=remedy)
        if options.scenario is not None and options.bytes_per_rank is not None:
            rule = "must not be combined with --scenario: both set the payload"
            raise InvalidInput.of("--bytes-per-rank", rule, value=flags["--bytes-per-rank"], remedy="keep one")
        return options


class Options(TargetOptions):
    """What every campaign is asked."""

    repetitions: Annotated[int | None, Field(alias="--repetitions", ge=1, le=10_000)] = None
    max_seconds: Annotated[PositiveSeconds | None, Field(alias="--max-seconds")] = None
    max_bytes: Annotated[ByteCount | None, Field(alias="--max-bytes", ge=1)] = None
    max_bytes_per_second: Annotated[BytesPerSecond | None, Field(alias="--max-bandwidth")] = None
    output: Annotated[str | None, Field(alias="--output")] = None
    csv: Annotated[str | None, Field(alias="--csv")] = None
    seed: Annotated[int | None, Field(alias="--seed", ge=0, lt=2**63)] = None
    timeout_seconds: Annotated[PositiveSeconds, Field(alias="--timeout", ge=5)] = DEFAULT_TIMEOUT_SECONDS
    publish: Annotated[Destination | None, Field(alias="--publish"), BeforeValidator(_destination)] = None

    @property
    def is_repeated_until_settled(self) -> bool:
        """Whether repetitions go on until the rates are known well, or a cap is reached."""
        return False


class RunOptions(Options):
    """One configuration."""

    engine: Annotated[_EngineName, Field(alias="--engine")] = DEFAULT_ENGINE
    bytes_per_rank: Annotated[PayloadBytes | None, Field(alias="--bytes-per-rank")] = None
    block_bytes: Annotated[_BlockBytes | None, Field(alias="--block-size")] = None
    threads_per_rank: Annotated[_Threads | None, Field(alias="--threads")] = None
    num_ranks: Annotated[int | None, Field(alias="--ranks", ge=1, le=MAX_WRITERS_PER_NODE)] = None
    stream: Annotated[bool, Field(alias="--stream")] = False
    keep: Annotated[bool, Field(alias="--keep")] = False

    @classmethod
    def of(cls, flags: Mapping[str, object]) -> Self:
        """As for every campaign; an engine that must stream can."""
        options = super().of(flags)
        if options.stream and options.engine not in STREAMING_ENGINES:
            remedy = f"give --engine {' or '.join(sorted(STREAMING_ENGINES))}, or omit --stream"
            raise InvalidInput.of("--stream", "needs an engine that can stream", value=options.engine, remedy=remedy)
        return options

    @property
    def is_repeated_until_settled(self) -> bool:
        """Unless so many were asked for; also then, where a time to stop is given."""
        return self.repetitions is None or self.max_seconds is not None


class ScanOptions(Options):
    """Every combination of values of these."""

    engines: Annotated[_Several[_EngineName], Field(alias="--engine")] = (DEFAULT_ENGINE,)
    num_nodes: Annotated[_Several[Annotated[int, Field(ge=1, le=MAX_NODES)]] | None, Field(alias="--nodes")] = None
    writers_per_node: Annotated[
        _Several[Annotated[int, Field(ge=1, le=MAX_WRITERS_PER_NODE)]] | None, Field(alias="--writers")
    ] = None
    bytes_per_rank: Annotated[_Several[PayloadBytes] | None, Field(alias="--bytes-per-rank")] = None
    block_bytes: Annotated[_Several[_BlockBytes] | None, Field(alias="--block-size")] = None
    threads_per_rank: Annotated[_Several[_Threads] | None, Field(alias="--threads")] = None
    charts: Annotated[tuple[str, ...], Field(alias="--chart"), BeforeValidator(lambda names: tuple(names or ()))] = ()
    resume: Annotated[bool, Field(alias="--resume")] = False
