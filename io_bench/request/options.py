"""What the user asks for: the flags of `ckpt-bench run` and `ckpt-bench scan`, validated."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from io_bench.engines import ENGINES, STREAMING_ENGINES
from io_bench.publishing.destination import Destination
from io_bench.shapes.companies import COMPANIES
from io_bench.shapes.resharding import RESHARDING_ENGINES
from io_bench.shapes.restores import RESTORE_ALONE, RESTORES
from io_bench.target.address import is_url
from io_bench.target.directory.direct_io import ALIGNMENT_BYTES
from sizing.errors import InvalidInput, broken_rule, explain
from sizing.storage.workload_shape import Deletion
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
MIN_BATCH_BYTES: int = parse_bytes("4 KiB")
"""The smallest unit that O_DIRECT reads here: a record of text."""
MAX_THREADS = 256
"""Beyond the queue of a drive; each has two blocks in memory."""
MAX_WRITERS_PER_NODE = 1024
"""More processes than CPUs of a node."""
MAX_STRIPES = 2000
"""Of a file of Lustre: Lustre manual, table of limits."""
STRIPE_UNIT_BYTES: int = parse_bytes("64 KiB")
"""Of which stripes are multiples: lfs-setstripe(1)."""
MAX_STRIPE_BYTES: int = parse_bytes("4 GiB") - STRIPE_UNIT_BYTES
"""A stripe is less than 4 GiB: lfs-setstripe(1)."""
MAX_TENSORS = 100_000
"""Of one rank: above the parameters of the largest models. Each has a file with some engines."""
MAX_RETAINED = 100
"""Checkpoints beside each other: more is a typing error, or a disk that fills."""
DEFAULT_REPLICAS = 2
"""The least that share anything."""
MAX_NODES = 100_000
"""Above the largest clusters by far: a typing error."""
DEFAULT_ENGINE = "direct"
ASYNCHRONOUS_ENGINES = ("async-dcp",)
"""Those whose saves stall training for less than they take."""
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

MlperfModel = Literal["8b", "70b", "405b", "1t"]
"""The checkpoint workloads of MLPerf Storage, by the size of their model."""

_Value = TypeVar("_Value")


def _known_engine(name: str) -> str:
    if name not in ENGINES:
        raise broken_rule("must be a known engine", f"choose {' or '.join(ENGINES)}")
    return name


def _known(table: Mapping[str, object], what: str) -> Callable[[str | None], str | None]:
    def checked(name: str | None) -> str | None:
        if name is not None and name not in table:
            raise broken_rule(f"must be a known {what}", f"choose {' or '.join(table)}")
        return name

    return checked


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


def _whole_stripe_units(num_bytes: int) -> int:
    if num_bytes % STRIPE_UNIT_BYTES:
        unit = binary_bytes_text(STRIPE_UNIT_BYTES)
        raise broken_rule(f"must be a multiple of {unit} for Lustre", "give a size with a unit: 4MiB")
    return num_bytes


def _some_targets(count: int) -> int:
    if count == 0:
        raise broken_rule("must not be 0: that is the layout that is there", "omit it, or give -1 for all targets")
    return count


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
_BatchBytes = Annotated[
    int, BeforeValidator(parse_bytes), AfterValidator(_between(MIN_BATCH_BYTES, MAX_BLOCK_BYTES, "4MiB"))
]
_Threads = Annotated[int, Field(ge=1, le=MAX_THREADS)]
_Several = Annotated[tuple[_Value, ...], BeforeValidator(_values)]


_StripeCount = Annotated[int, Field(ge=-1, le=MAX_STRIPES), AfterValidator(_some_targets)]
_StripeBytes = Annotated[
    int,
    BeforeValidator(parse_bytes),
    AfterValidator(_between(STRIPE_UNIT_BYTES, MAX_STRIPE_BYTES, "4MiB")),
    AfterValidator(_whole_stripe_units),
]


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
        options.check_payload(flags)
        return options

    def check_payload(self, flags: Mapping[str, object]) -> None:
        """Raise InvalidInput where it is not clear what each rank writes."""
        if self.scale is not None and self.scenario is None:
            remedy = "add --scenario, or use --bytes-per-rank without --scale"
            raise InvalidInput.of("--scale", "needs --scenario", value=self.scale, remedy=remedy)
        if self.scenario is not None and self.bytes_per_rank is not None:
            rule = "must not be combined with --scenario: both set the payload"
            raise InvalidInput.of("--bytes-per-rank", rule, value=flags["--bytes-per-rank"], remedy="keep one")


class Options(TargetOptions):
    """What every campaign is asked."""

    repetitions: Annotated[int | None, Field(alias="--repetitions", ge=1, le=10_000)] = None
    until_steady: Annotated[bool, Field(alias="--until-steady")] = False
    max_seconds: Annotated[PositiveSeconds | None, Field(alias="--max-seconds")] = None
    max_bytes: Annotated[ByteCount | None, Field(alias="--max-bytes", ge=1)] = None
    max_bytes_per_second: Annotated[BytesPerSecond | None, Field(alias="--max-bandwidth")] = None
    output: Annotated[str | None, Field(alias="--output")] = None
    csv: Annotated[str | None, Field(alias="--csv")] = None
    seed: Annotated[int | None, Field(alias="--seed", ge=0, lt=2**63)] = None
    timeout_seconds: Annotated[PositiveSeconds, Field(alias="--timeout", ge=5)] = DEFAULT_TIMEOUT_SECONDS
    bind_numa: Annotated[bool, Field(alias="--bind-numa")] = False
    publish: Annotated[Destination | None, Field(alias="--publish"), BeforeValidator(_destination)] = None

    @property
    def is_repeated_until_settled(self) -> bool:
        """Whether repetitions go on until the rates are known well, or a cap is reached."""
        return False

    def check_spread(self) -> None:
        """Raise InvalidInput where this cannot be measured in several targets."""
        rule, remedy = "must be one directory or URL here", "give one, without commas"
        raise InvalidInput.of("--target", rule, value=self.target, remedy=remedy)


class RunOptions(Options):
    """One configuration."""

    engine: Annotated[_EngineName, Field(alias="--engine")] = DEFAULT_ENGINE
    bytes_per_rank: Annotated[PayloadBytes | None, Field(alias="--bytes-per-rank")] = None
    block_bytes: Annotated[_BlockBytes | None, Field(alias="--block-size")] = None
    threads_per_rank: Annotated[_Threads | None, Field(alias="--threads")] = None
    num_ranks: Annotated[int | None, Field(alias="--ranks", ge=1, le=MAX_WRITERS_PER_NODE)] = None
    stream: Annotated[bool, Field(alias="--stream")] = False
    keep: Annotated[bool, Field(alias="--keep")] = False
    stripe_count: Annotated[_StripeCount | None, Field(alias="--stripe-count")] = None
    stripe_bytes: Annotated[_StripeBytes | None, Field(alias="--stripe-size")] = None
    tensors_per_rank: Annotated[int | None, Field(alias="--tensors-per-rank", ge=1, le=MAX_TENSORS)] = None
    restore: Annotated[str | None, Field(alias="--restore"), AfterValidator(_known(RESTORES, "restore strategy"))] = (
        None
    )
    replicas: Annotated[int | None, Field(alias="--replicas", ge=2, le=MAX_WRITERS_PER_NODE * MAX_NODES)] = None
    saved_by: Annotated[int | None, Field(alias="--saved-by", ge=1, le=MAX_WRITERS_PER_NODE * MAX_NODES)] = None
    restored_by: Annotated[int | None, Field(alias="--restored-by", ge=1, le=MAX_WRITERS_PER_NODE * MAX_NODES)] = None
    retain: Annotated[int | None, Field(alias="--retain", ge=1, le=MAX_RETAINED)] = None
    deletion_asked: Annotated[Deletion | None, Field(alias="--deletion")] = None
    beside: Annotated[str | None, Field(alias="--beside"), AfterValidator(_known(COMPANIES, "company"))] = None
    batch_bytes: Annotated[_BatchBytes | None, Field(alias="--batch-size")] = None

    @property
    def num_replicas(self) -> int:
        """Among the ranks; of two by default where the way to restore is one for replicas."""
        return 1 if self.restore is None else self.replicas or DEFAULT_REPLICAS

    @property
    def deletion(self) -> Deletion | None:
        """Within the save by default, where checkpoints are retained."""
        return None if self.retain is None else self.deletion_asked or "in-save"

    @classmethod
    def of(cls, flags: Mapping[str, object]) -> Self:
        """As for every campaign; an engine that must stream can, and the shape of the workload is one."""
        options = super().of(flags)
        check_shape(options)
        if options.stream and options.engine not in STREAMING_ENGINES:
            remedy = f"give --engine {' or '.join(sorted(STREAMING_ENGINES))}, or omit --stream"
            raise InvalidInput.of("--stream", "needs an engine that can stream", value=options.engine, remedy=remedy)
        return options

    def check_spread(self) -> None:
        """Raise InvalidInput where ranks use each other's files."""
        _check_alone([self.engine], self.target)
        if self.restore is not None:
            rule, remedy = "must not be combined with several targets: replicas read the files of others", "keep one"
            raise InvalidInput.of("--restore", rule, value=self.restore, remedy=remedy)

    @property
    def is_repeated_until_settled(self) -> bool:
        """Unless so many were asked for; also then, where a time to stop is given."""
        return self.repetitions is None or self.max_seconds is not None


def check_shape(options: RunOptions) -> None:
    """Raise InvalidInput where the flags of a shape do not go together, or not with the engine."""
    for flag, value, other, needed in (
        ("--replicas", options.replicas, "--restore", options.restore),
        ("--deletion", options.deletion_asked, "--retain", options.retain),
        (
            "--batch-size",
            options.batch_bytes,
            "--beside batches",
            options.beside if options.beside == "batches" else None,
        ),
    ):
        if value is not None and needed is None:
            raise InvalidInput.of(flag, f"needs {other}", value=value, remedy=f"add {other}, or omit {flag}")
    if options.tensors_per_rank is not None and options.scenario is not None:
        rule = "must not be combined with --scenario: both set the tensors"
        raise InvalidInput.of("--tensors-per-rank", rule, value=options.tensors_per_rank, remedy="keep one")
    _check_restore(options)
    _check_resharding(options)
    _check_beside(options)


def _check_restore(options: RunOptions) -> None:
    strategy = RESTORES[options.restore] if options.restore else None
    if strategy is None:
        return
    if options.engine not in strategy.engines:
        names = " or ".join(sorted(strategy.engines))
        rule = f"works with --engine {names}"
        raise InvalidInput.of("--restore", rule, value=strategy.name, remedy=f"give --engine {names.split(' or ')[0]}")
    if options.stream and not strategy.can_stream:
        rule = f"must not be combined with --restore {strategy.name}: what is passed on must be in memory"
        raise InvalidInput.of("--stream", rule, value=True, remedy="omit it, or give --restore every-replica")


def _check_resharding(options: RunOptions) -> None:
    for flag, value in (("--saved-by", options.saved_by), ("--restored-by", options.restored_by)):
        if value is None:
            continue
        if options.engine not in RESHARDING_ENGINES:
            engines = " or ".join(RESHARDING_ENGINES)
            rule, remedy = f"works with --engine {engines}", f"give --engine {RESHARDING_ENGINES[0]}"
            raise InvalidInput.of(flag, rule, value=value, remedy=remedy)
        if options.restore is not None:
            rule = "must not be combined with --restore: both say who restores"
            raise InvalidInput.of(flag, rule, value=value, remedy="keep one")


def _check_alone(engines: Sequence[str], target: str) -> None:
    """Raise InvalidInput for engines whose ranks write one checkpoint together."""
    for engine in engines:
        if engine not in RESTORE_ALONE:
            rule = f"must be one directory or URL for --engine {engine}, whose ranks write one checkpoint together"
            raise InvalidInput.of("--target", rule, value=target, remedy="give one, or --engine direct")


def _check_beside(options: RunOptions) -> None:
    company = COMPANIES[options.beside] if options.beside else None
    if company is None:
        return
    if company.needs_asynchronous and options.engine not in ASYNCHRONOUS_ENGINES:
        engines = " or ".join(ASYNCHRONOUS_ENGINES)
        rule = f"needs an asynchronous engine ({engines}): training stands still while others save"
        raise InvalidInput.of("--beside", rule, value=company.name, remedy=f"give --engine {ASYNCHRONOUS_ENGINES[0]}")
    if company.needs_directory and is_url(options.target):
        rule = "reads from a directory"
        raise InvalidInput.of("--beside", rule, value=company.name, remedy="give a directory as --target")


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
    stripe_count: Annotated[_Several[_StripeCount] | None, Field(alias="--stripe-count")] = None
    stripe_bytes: Annotated[_Several[_StripeBytes] | None, Field(alias="--stripe-size")] = None
    charts: Annotated[tuple[str, ...], Field(alias="--chart"), BeforeValidator(lambda names: tuple(names or ()))] = ()
    resume: Annotated[bool, Field(alias="--resume")] = False

    def check_spread(self) -> None:
        """Raise InvalidInput where ranks use each other's files."""
        _check_alone(self.engines, self.target)


class MlperfOptions(Options):
    """A workload of MLPerf Storage."""

    model: Annotated[MlperfModel, Field(alias="--model")]
    num_ranks: Annotated[int | None, Field(alias="--ranks", ge=1, le=MAX_WRITERS_PER_NODE)] = None
    num_checkpoints: Annotated[int, Field(alias="--checkpoints", ge=1, le=1000)] = 10
    keep: Annotated[bool, Field(alias="--keep")] = False

    def check_payload(self, flags: Mapping[str, object]) -> None:
        """The workload says it all."""
