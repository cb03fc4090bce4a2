"""Options of the verbs of `ckpt-bench`: one class per verb, whose fields are its flags.

A field has the name of its flag, the help text, what the value must be, and its default. The command line, the checks
and the refusals all come from it. Nothing here loads torch, so that bad input is answered at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal, Self, TypeVar, get_args

from pydantic import AfterValidator, BeforeValidator, Field, ValidationError

from io_bench.engines import ENGINES, STREAMING_ENGINES
from io_bench.results.destination import Destination
from io_bench.target.address import is_url
from io_bench.target.direct_io import ALIGNMENT_BYTES
from io_bench.workloads.background_kinds import BACKGROUND_KINDS
from io_bench.workloads.restores import RESHARDING_ENGINES, RESTORE_ALONE, RESTORES
from io_bench.workloads.retention import DELETIONS
from sizing.errors import InvalidInput, broken_rule, explain
from sizing.storage.workload_shape import Deletion
from sizing.strict_model import StrictModel
from sizing.units import (
    ByteCount,
    BytesPerSecond,
    PositiveSeconds,
    binary_bytes_text,
    parse_bytes,
    parse_seconds,
)

MIN_BYTES_PER_RANK: int = parse_bytes("1 MiB")
"""Min payload of a rank: less measures the opening of files."""
MAX_BYTES_PER_RANK: int = parse_bytes("16 TiB")
"""Max payload of a rank: the largest file of ext4, and beyond every shard."""
MIN_BLOCK_BYTES: int = parse_bytes("64 KiB")
"""Min size of a request: the largest unit that O_DIRECT asks for."""
MAX_BLOCK_BYTES: int = parse_bytes("1 GiB")
"""Max size of a request: each thread holds two in memory."""
MIN_BATCH_BYTES: int = parse_bytes("4 KiB")
"""Min size of a batch: the smallest unit that O_DIRECT reads here, a record of text."""
MAX_THREADS = 256
"""Max I/O threads of a rank: beyond the queue of a drive; each has two blocks in memory."""
MAX_RANKS = 10_000_000
"""Max ranks, a hundred times the largest published training: a number above is a typing error."""
MAX_WRITERS_PER_NODE = 1024
"""Max ranks of a node: more processes than it has CPUs."""
MAX_STRIPES = 2000
"""Max storage targets of a file of Lustre: Lustre manual, table of limits."""
STRIPE_UNIT_BYTES: int = parse_bytes("64 KiB")
"""Unit of which stripes of Lustre are multiples: lfs-setstripe(1)."""
MAX_STRIPE_BYTES: int = parse_bytes("4 GiB") - STRIPE_UNIT_BYTES
"""Max stripe of Lustre: less than 4 GiB, lfs-setstripe(1)."""
MAX_TENSORS = 100_000
"""Max tensors of a rank: above the parameters of the largest models. Some engines write a file for each."""
MAX_RETAINED = 100
"""Max checkpoints that stay beside each other: more is a typing error, or a disk that fills."""
DEFAULT_REPLICAS = 2
"""Replicas by default: the least that share anything."""
MAX_NODES = 100_000
"""Max nodes: above the largest clusters by far, a typing error."""
DEFAULT_ENGINE = "direct"
ASYNCHRONOUS_ENGINES = ("async-dcp",)
"""Engines whose saves stall training for less than they take."""
MAX_DEFAULT_WRITERS = 16
"""Max writers of a node by default: twice its GPUs. A scan by powers of two has five steps up to there."""
DEFAULT_BYTES_PER_RANK = "256MiB"
DEFAULT_REPETITIONS = 5
"""Repetitions of each configuration by default: the median leaves out two on either side."""
DEFAULT_MAX_SECONDS: float = parse_seconds("5min")
"""Max time by default: what people wait for without having asked for more."""
DEFAULT_TIMEOUT = "10min"
DEFAULT_TIMEOUT_SECONDS: float = parse_seconds(DEFAULT_TIMEOUT)
"""A guess: longer than any step of one repetition. Too short breaks off runs on slow storage, too long only names a
rank that hangs later."""
_MAX_VALUES = 32
"""Max values of one flag; the grid multiplies them."""

MlperfModel = Literal["8b", "70b", "405b", "1t"]
"""The checkpoint workloads of MLPerf Storage, by the size of their model."""

_Value = TypeVar("_Value")


def _check_known(table: Mapping[str, object], what: str) -> Callable[[str | None], str | None]:
    def check(name: str | None) -> str | None:
        if name is not None and name not in table:
            raise broken_rule(f"must be a known {what}", f"choose {' or '.join(table)}")
        return name

    return check


def _check_between(low: int, high: int, example: str) -> Callable[[int], int]:
    def check(num_bytes: int) -> int:
        if not low <= num_bytes <= high:
            rule = f"must be from {binary_bytes_text(low)} to {binary_bytes_text(high)}"
            raise broken_rule(rule, f"give a size with a unit: {example}")
        return num_bytes

    return check


def _check_multiple(unit_bytes: int, purpose: str, example: str) -> Callable[[int], int]:
    def check(num_bytes: int) -> int:
        if num_bytes % unit_bytes:
            rule = f"must be a multiple of {binary_bytes_text(unit_bytes)} for {purpose}"
            raise broken_rule(rule, f"give a size with a unit: {example}")
        return num_bytes

    return check


def _check_not_zero(count: int) -> int:
    if count == 0:
        raise broken_rule("must not be 0: that is the layout that is there", "omit it, or give -1 for all targets")
    return count


def _split_values(text: Any) -> Any:
    """Split the values of a flag that takes several, separated by commas."""
    if not isinstance(text, str):
        return text
    values = [part.strip() for part in text.split(",")]
    if len(set(values)) != len(values) or len(values) > _MAX_VALUES:
        raise broken_rule(f"must be at most {_MAX_VALUES} different values", "separate them with commas: 1,2,4")
    return tuple(values)


_EngineName = Annotated[str, AfterValidator(_check_known(ENGINES, "engine"))]
_PayloadBytes = Annotated[
    int, BeforeValidator(parse_bytes), AfterValidator(_check_between(MIN_BYTES_PER_RANK, MAX_BYTES_PER_RANK, "256MiB"))
]
_BlockBytes = Annotated[
    int,
    BeforeValidator(parse_bytes),
    AfterValidator(_check_between(MIN_BLOCK_BYTES, MAX_BLOCK_BYTES, "8MiB")),
    AfterValidator(_check_multiple(ALIGNMENT_BYTES, "O_DIRECT", "8MiB")),
]
_BatchBytes = Annotated[
    int, BeforeValidator(parse_bytes), AfterValidator(_check_between(MIN_BATCH_BYTES, MAX_BLOCK_BYTES, "4MiB"))
]
_Threads = Annotated[int, Field(ge=1, le=MAX_THREADS)]
_Repetitions = Annotated[int, Field(ge=1, le=10_000)]
_Fraction = Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)]
_LocalRanks = Annotated[int, Field(ge=1, le=MAX_WRITERS_PER_NODE)]
_AllRanks = Annotated[int, Field(ge=1, le=MAX_WRITERS_PER_NODE * MAX_NODES)]
_StripeCount = Annotated[int, Field(ge=-1, le=MAX_STRIPES), AfterValidator(_check_not_zero)]
_StripeBytes = Annotated[
    int,
    BeforeValidator(parse_bytes),
    AfterValidator(_check_between(STRIPE_UNIT_BYTES, MAX_STRIPE_BYTES, "4MiB")),
    AfterValidator(_check_multiple(STRIPE_UNIT_BYTES, "Lustre", "4MiB")),
]
_Several = Annotated[tuple[_Value, ...], BeforeValidator(_split_values)]


def flag(
    name: str, text: str, *, metavar: str | None = None, default: str | None = None, is_further: bool = False
) -> Any:
    """A field that is read from the flag `name`, with the help `text`.

    Args: `metavar` stands for the value in the help; a switch has none. `default` is what the help shows and the
    command line gives, where the flag is left out and its field has a default other than None. Help leaves a flag that
    `is_further` out until all is asked for.
    """
    shown: dict[str, Any] = {"metavar": metavar, "default": default, "is_further": is_further}
    return Field(alias=name, description=text, json_schema_extra=shown)


_TARGET = "Directory, s3://, gs:// or az://bucket/prefix, or s3+https://HOST/bucket/prefix"
_BLOCK_SIZE = "Size of one request, for engines where it can be set."
_THREADS = "I/O threads per rank, for engines where it can be set."
_STRIPE_COUNT = "On Lustre: storage targets of a file, -1 for all (lfs setstripe). Default: as the target has it."
_STRIPE_SIZE = "On Lustre: bytes on one target before the next (lfs setstripe). Default: as the target has it."


class TargetOptions(StrictModel):
    """Options of a verb that writes to a target."""

    target: Annotated[str, flag("--target", f"{_TARGET}. A run removes its own files.", metavar="DIR_OR_URL")]

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


class PayloadOptions(TargetOptions):
    """Options of a verb whose ranks write a number of bytes, or the tensors of a scenario."""

    bytes_per_rank: Any = None
    scenario: Annotated[
        str | None,
        flag(
            "--scenario",
            "Scenario of ckpt-size. Each rank writes the tensors of a rank of the scenario.",
            metavar="FILE",
        ),
    ] = None
    scale: Annotated[
        _Fraction | None,
        flag("--scale", "Fraction of each tensor of --scenario, max 1. Default: 1.", metavar="X"),
    ] = None

    def check_payload(self, flags: Mapping[str, object]) -> None:
        """Raise InvalidInput where it is not clear what each rank writes."""
        if self.scale is not None and self.scenario is None:
            remedy = "add --scenario, or use --bytes-per-rank without --scale"
            raise InvalidInput.of("--scale", "needs --scenario", value=self.scale, remedy=remedy)
        if self.scenario is not None and self.bytes_per_rank is not None:
            rule = "must not be combined with --scenario: both set the payload"
            raise InvalidInput.of("--bytes-per-rank", rule, value=flags["--bytes-per-rank"], remedy="keep one")


class CheckOptions(PayloadOptions):
    """Options of `check`: targets, and the checkpoint that they are to hold."""

    target: Annotated[
        str,
        flag(
            "--target",
            f"{_TARGET}; several, separated by commas, as for run. Nothing stays there.",
            metavar="DIR_OR_URL",
        ),
    ]
    bytes_per_rank: Annotated[
        _PayloadBytes | None,
        flag("--bytes-per-rank", "Payload of each rank. Default: 256MiB.", metavar="SIZE"),
    ] = None
    num_ranks: Annotated[
        int | None,
        Field(ge=1, le=MAX_RANKS),
        flag("--ranks", "Ranks that write. Default: the ranks that were launched, or 1.", metavar="N"),
    ] = None
    config_files: Annotated[
        tuple[str, ...],
        BeforeValidator(lambda names: tuple(names or ())),
        flag("--from", "Config files of the training that will save here, as for ckpt-size --from.", metavar="FILE..."),
    ] = ()
    num_gpus: Annotated[
        int | None,
        Field(ge=1, le=MAX_RANKS),
        flag("--gpus", "GPUs of the training, where no config file says it.", metavar="N"),
    ] = None


class Options(TargetOptions):
    """Options of every verb that measures on all ranks together."""

    output: Annotated[
        str | None, flag("--output", "Result document. Default: ckpt-bench-RUN_ID.json.", metavar="FILE")
    ] = None
    seed: Annotated[
        int | None,
        Field(ge=0, lt=2**63),
        flag("--seed", "Seed of the payload. Default: random.", metavar="N"),
    ] = None
    timeout_seconds: Annotated[
        PositiveSeconds,
        Field(ge=5),
        flag(
            "--timeout",
            "Max time until all ranks end after one has died or hangs.",
            metavar="TIME",
            default=DEFAULT_TIMEOUT,
        ),
    ] = DEFAULT_TIMEOUT_SECONDS

    def check_spread(self) -> None:
        """Raise InvalidInput where this cannot be measured in several targets."""
        rule, remedy = "must be one directory or URL here", "give one, without commas"
        raise InvalidInput.of("--target", rule, value=self.target, remedy=remedy)


class CampaignOptions(PayloadOptions, Options):
    """Options that `run` and `scan` share: where to measure, how long, and where the result goes."""

    target: Annotated[
        str,
        flag(
            "--target",
            f"{_TARGET}; several, separated by commas, for the ranks of a node in turn. A run removes its own files.",
            metavar="DIR_OR_URL",
        ),
    ]
    repetitions: Any = None
    until_steady: Annotated[
        bool,
        flag(
            "--until-steady",
            "Repeat until the bandwidth is kept: over 3 repetitions after its last change, as when a cache is full.",
        ),
    ] = False
    max_seconds: Annotated[
        PositiveSeconds | None,
        flag(
            "--max-seconds",
            "Max time of the run: repeat until then, and start no repetition that would end later.",
            metavar="TIME",
        ),
    ] = None
    max_bytes: Annotated[
        ByteCount | None, Field(ge=1), flag("--max-bytes", "Max bytes written and read in total.", metavar="SIZE")
    ] = None
    max_bytes_per_second: Annotated[
        BytesPerSecond | None,
        flag(
            "--max-bandwidth",
            "Max mean bandwidth of the run: the ranks pause between repetitions.",
            metavar="RATE",
        ),
    ] = None
    csv: Annotated[
        str | None, flag("--csv", "Also write the measurements as CSV.", metavar="FILE", is_further=True)
    ] = None
    bind_numa: Annotated[
        bool,
        flag(
            "--bind-numa", "Keep each rank to the CPUs near its GPU. Refused where they are not known.", is_further=True
        ),
    ] = False
    publish: Annotated[
        Destination | None,
        BeforeValidator(lambda link: None if link is None else Destination.of(link, "--publish")),
        flag("--publish", "Send the result to this storage system of the service.", metavar="LINK"),
    ] = None

    @property
    def is_repeated_until_settled(self) -> bool:
        """Whether repetitions go on until the rates are known well, or a cap is reached."""
        return False


class RunOptions(CampaignOptions):
    """Options of `run`: one configuration."""

    engine: Annotated[
        _EngineName, flag("--engine", f"Engine: {', '.join(ENGINES)}.", metavar="NAME", default=DEFAULT_ENGINE)
    ] = DEFAULT_ENGINE
    bytes_per_rank: Annotated[
        _PayloadBytes | None,
        flag(
            "--bytes-per-rank",
            "Payload of each rank. Default: 256MiB or more, so that a write takes 5 s.",
            metavar="SIZE",
        ),
    ] = None
    block_bytes: Annotated[_BlockBytes | None, flag("--block-size", _BLOCK_SIZE, metavar="SIZE")] = None
    threads_per_rank: Annotated[_Threads | None, flag("--threads", _THREADS, metavar="N")] = None
    stream: Annotated[
        bool,
        flag(
            "--stream", "Generate the payload during the write; automatic where memory cannot hold it.", is_further=True
        ),
    ] = False
    repetitions: Annotated[
        _Repetitions | None,
        flag(
            "--repetitions",
            "Repetitions after the warm-up. "
            "Default: min 5, until the bandwidth is accurate to 5 % or 5 minutes are over.",
            metavar="N",
        ),
    ] = None
    num_ranks: Annotated[
        _LocalRanks | None,
        flag("--ranks", "Ranks to start on this machine. Default: the ranks that were launched, or 1.", metavar="N"),
    ] = None
    keep: Annotated[bool, flag("--keep", "Keep the last checkpoint and print its path.")] = False
    stripe_count: Annotated[
        _StripeCount | None, flag("--stripe-count", _STRIPE_COUNT, metavar="N", is_further=True)
    ] = None
    stripe_bytes: Annotated[
        _StripeBytes | None, flag("--stripe-size", _STRIPE_SIZE, metavar="SIZE", is_further=True)
    ] = None
    tensors_per_rank: Annotated[
        int | None,
        Field(ge=1, le=MAX_TENSORS),
        flag(
            "--tensors-per-rank",
            "Equal tensors in the payload of a rank. Default: those of a model's layers.",
            metavar="N",
            is_further=True,
        ),
    ] = None
    restore: Annotated[
        str | None,
        AfterValidator(_check_known(RESTORES, "restore strategy")),
        flag(
            "--restore",
            f"How replicas restore what one of them wrote: {', '.join(RESTORES)}. Default: no replicas.",
            metavar="NAME",
        ),
    ] = None
    replicas: Annotated[
        int | None,
        Field(ge=2, le=MAX_WRITERS_PER_NODE * MAX_NODES),
        flag(
            "--replicas",
            "Replicas among the ranks, of which the first writes. Default with --restore: 2.",
            metavar="N",
            is_further=True,
        ),
    ] = None
    saved_by: Annotated[
        _AllRanks | None,
        flag(
            "--saved-by",
            "Ranks that save, to be restored by another number (dcp). Default: all.",
            metavar="N",
            is_further=True,
        ),
    ] = None
    restored_by: Annotated[
        _AllRanks | None,
        flag(
            "--restored-by",
            "Ranks that restore what another number of them saved (dcp). Default: all.",
            metavar="N",
            is_further=True,
        ),
    ] = None
    retain: Annotated[
        int | None,
        Field(ge=1, le=MAX_RETAINED),
        flag("--retain", "Checkpoints that stay while the next is written. Default: 0.", metavar="N", is_further=True),
    ] = None
    deletion_asked: Annotated[
        Deletion | None,
        flag(
            "--deletion",
            f"When the oldest is removed: {', '.join(DELETIONS)}. Default with --retain: in-save.",
            metavar="NAME",
            is_further=True,
        ),
    ] = None
    beside: Annotated[
        str | None,
        AfterValidator(_check_known(BACKGROUND_KINDS, "background load")),
        flag(
            "--beside",
            "Run beside the saves, and say what each loses: "
            + "; ".join(f"{name} ({entry.summary})" for name, entry in BACKGROUND_KINDS.items())
            + ".",
            metavar="NAME",
        ),
    ] = None
    batch_bytes: Annotated[
        _BatchBytes | None,
        flag("--batch-size", "Bytes of one batch of --beside batches. Default: 4MiB.", metavar="SIZE", is_further=True),
    ] = None

    @property
    def num_replicas(self) -> int:
        """Replicas among the ranks; two by default where the way to restore is one for replicas."""
        return 1 if self.restore is None else self.replicas or DEFAULT_REPLICAS

    @property
    def deletion(self) -> Deletion | None:
        """When the oldest checkpoint is removed: within the save by default, where checkpoints are retained."""
        return None if self.retain is None else self.deletion_asked or "in-save"

    @classmethod
    def of(cls, flags: Mapping[str, object]) -> Self:
        """The options that the flags spell. Raises InvalidInput also where they do not fit each other or the engine."""
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
        """Whether repetitions go on: unless a number was given, or also a time to stop."""
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
    kind = BACKGROUND_KINDS[options.beside] if options.beside else None
    if kind is None:
        return
    if kind.needs_asynchronous and options.engine not in ASYNCHRONOUS_ENGINES:
        engines = " or ".join(ASYNCHRONOUS_ENGINES)
        rule = f"needs an asynchronous engine ({engines}): training stands still while others save"
        raise InvalidInput.of("--beside", rule, value=kind.name, remedy=f"give --engine {ASYNCHRONOUS_ENGINES[0]}")
    if kind.needs_directory and is_url(options.target):
        rule = "reads from a directory"
        raise InvalidInput.of("--beside", rule, value=kind.name, remedy="give a directory as --target")


class ScanOptions(CampaignOptions):
    """Options of `scan`: every combination of the values of its flags."""

    engines: Annotated[
        _Several[_EngineName],
        flag(
            "--engine",
            "Engines; with direct among them, the table has the software tax of the others.",
            metavar="NAME,...",
            default=DEFAULT_ENGINE,
        ),
    ] = (DEFAULT_ENGINE,)
    writers_per_node: Annotated[
        _Several[_LocalRanks] | None,
        flag(
            "--writers",
            "Ranks per node that write at once. Default: 1,2,4,8,16, up to the ranks per node.",
            metavar="N,...",
        ),
    ] = None
    num_nodes: Annotated[
        _Several[Annotated[int, Field(ge=1, le=MAX_NODES)]] | None,
        flag("--nodes", "Nodes that write at once. Default: 1,2,4,... up to all.", metavar="N,..."),
    ] = None
    bytes_per_rank: Annotated[
        _Several[_PayloadBytes] | None,
        flag("--bytes-per-rank", "Payload of each rank. Default: 256MiB.", metavar="SIZE,..."),
    ] = None
    block_bytes: Annotated[_Several[_BlockBytes] | None, flag("--block-size", _BLOCK_SIZE, metavar="SIZE,...")] = None
    threads_per_rank: Annotated[_Several[_Threads] | None, flag("--threads", _THREADS, metavar="N,...")] = None
    stripe_count: Annotated[
        _Several[_StripeCount] | None, flag("--stripe-count", _STRIPE_COUNT, metavar="N,...", is_further=True)
    ] = None
    stripe_bytes: Annotated[
        _Several[_StripeBytes] | None, flag("--stripe-size", _STRIPE_SIZE, metavar="SIZE,...", is_further=True)
    ] = None
    repetitions: Annotated[
        _Repetitions | None,
        flag(
            "--repetitions",
            "Repetitions of each configuration after the warm-up.",
            metavar="N",
            default=str(DEFAULT_REPETITIONS),
        ),
    ] = DEFAULT_REPETITIONS
    charts: Annotated[
        tuple[str, ...],
        BeforeValidator(lambda names: tuple(names or ())),
        flag("--chart", "Chart of the scan: .html, .png or .svg. May be repeated.", metavar="FILE"),
    ] = ()
    resume: Annotated[bool, flag("--resume", "Continue the unfinished scan of this --output.")] = False

    def check_spread(self) -> None:
        """Raise InvalidInput where ranks use each other's files."""
        _check_alone(self.engines, self.target)


class MlperfOptions(Options):
    """Options of `mlperf`: a workload of MLPerf Storage."""

    model: Annotated[MlperfModel, flag("--model", f"Workload: {', '.join(get_args(MlperfModel))}.", metavar="NAME")]
    num_ranks: Annotated[
        _LocalRanks | None,
        flag("--ranks", "Processes to start on this machine. Default: those launched, or 8.", metavar="N"),
    ] = None
    num_checkpoints: Annotated[
        int,
        Field(ge=1, le=1000),
        flag(
            "--checkpoints",
            "Checkpoints to write, then to read; all are there at once.",
            metavar="N",
            default="10",
        ),
    ] = 10
    scale: Annotated[
        _Fraction | None,
        flag("--scale", "Fraction of each tensor, max 1: to try out. Default: 1.", metavar="X"),
    ] = None
    output: Annotated[
        str | None, flag("--output", "Folder of results. Default: ckpt-bench-mlperf-RUN_ID.", metavar="DIR")
    ] = None
    keep: Annotated[bool, flag("--keep", "Keep the checkpoints and print their path.")] = False
