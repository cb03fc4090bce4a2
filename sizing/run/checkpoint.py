"""The `checkpoint` block of a Scenario: which files are written where to, how often, and how they are read back."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from sizing.errors import InvalidInput, broken_rule
from sizing.layout import CheckpointFiles, Parallelism
from sizing.layout.formats import Mode
from sizing.run.export import Export
from sizing.run.failures import LOSS_DOMAINS, DrainDomain, LossDomain
from sizing.run.read_plan import RestoreStrategy
from sizing.run.reduction import Reduction
from sizing.spelling import AnySpelling
from sizing.storage.storage import Storage
from sizing.storage.transfer import Numbers
from sizing.strict_model import InputModel
from sizing.units import ByteCount, BytesPerSecond, Fraction, OrText, PositiveSeconds, counted_text, exact_number_text

TierKind = Literal["host-memory", "peer-memory", "local-nvme", "shared-file-system", "object-store"]

LOSS_DOMAIN_OF_KIND: dict[TierKind, LossDomain] = {
    "host-memory": "node",
    "peer-memory": "rack",
    "local-nvme": "node",
    "shared-file-system": "site",
    "object-store": "site",
}
"""What takes a tier's copies with it, where the tier does not say: a peer stands in another node of the same rack."""

ARCHIVE: TierKind = "object-store"
"""The kind that stands behind the main storage; all others stand in front of it."""

MEMORY_KINDS: tuple[TierKind, ...] = ("host-memory", "peer-memory")
NODE_KINDS: tuple[TierKind, ...] = (*MEMORY_KINDS, "local-nvme")
"""Kinds that lie in the nodes that train."""

MAIN: Literal["storage"] = "storage"
"""The kind of the main storage among the tiers."""


ROUNDING = 1e-9
"""Relative, of a ratio of intervals: closer to a whole number, it is one."""


class Tier(InputModel):
    """Where checkpoints also go, how often, and which failures that survives.

    A tier in front of the main storage is written more often than it and read after the failures that it survives; an
    object store behind it keeps copies.
    """

    kind: TierKind = Field(
        description="Where the copies lie: in host or peer memory, on local NVMe, on a shared file system, or in an "
        "object store behind all."
    )
    interval_seconds: PositiveSeconds = Field(
        description="Seconds from the start of one save to this tier to the start of the next. "
        "In front of the main storage each interval is a whole multiple of the one before."
    )
    mode: Mode | None = Field(
        None,
        description="How training waits for a save to this tier. "
        "Default: as checkpoint.mode; always async to an object store.",
    )
    replicas: Annotated[int, Field(ge=1, le=64)] | None = Field(
        None, description="Copies of each checkpoint, the first one included. Default: 2 in peer-memory, otherwise 1."
    )
    keep: Annotated[int, Field(ge=1, le=1_000_000)] = Field(
        1, description="Whole checkpoints that stay in the tier, besides the one in flight."
    )
    capacity_bytes: ByteCount | None = Field(
        None,
        description="Capacity in bytes: of one node for tiers in the nodes, otherwise of the whole tier. "
        "Default: NVMe of the node, or the host memory that a job can use, shared with other tiers there; "
        "otherwise the fit is not judged.",
    )
    loss_domain: LossDomain | None = Field(
        None,
        description="Smallest failure that takes the copies with it. "
        "Default: node for host-memory and local-nvme, rack for peer-memory, otherwise site.",
    )
    recovered_fraction: OrText[Annotated[Fraction, Field(ge=0, le=1, allow_inf_nan=False)]] | None = Field(
        None,
        description="Fraction of all failures that the copies survive. "
        "Default: from reliability.components and loss_domain.",
    )
    storage: Storage | None = Field(
        None,
        description="Rates of the tier. "
        "Default: of the GPU's link for host-memory, of the compute network for peer-memory; others need them.",
    )
    cost_per_terabyte: Annotated[float, Field(ge=0, le=1e12, allow_inf_nan=False)] | None = Field(
        None, description="Price of one terabyte (10^12 bytes) stored, in any currency. Default: no cost is computed."
    )

    @model_validator(mode="after")
    def _makes_sense(self) -> Self:
        if self.storage is None and self.kind not in MEMORY_KINDS:
            raise broken_rule(
                f"needs storage: the rates of a {self.kind}", "give the tier a storage with profile or preset"
            )
        if self.kind == "peer-memory" and self.num_copies < 2:
            raise broken_rule("must have replicas of 2 or more with kind peer-memory", "use host-memory for one copy")
        if self.kind == ARCHIVE and self.mode == "sync":
            raise broken_rule("must not be sync behind the main storage", "remove mode: saves to it are async")
        if self.kind == "host-memory" and self.num_copies > 1:
            raise broken_rule("must have replicas 1 with kind host-memory", "use peer-memory for more")
        return self

    @property
    def num_copies(self) -> int:
        """Number of copies of a checkpoint that the tier keeps."""
        return self.replicas or (2 if self.kind == "peer-memory" else 1)

    @property
    def domain(self) -> LossDomain:
        """Loss domain of the tier: the smallest failure that takes its copies with it."""
        return self.loss_domain or LOSS_DOMAIN_OF_KIND[self.kind]


def held_bytes(tier: Tier, checkpoint_bytes: Numbers) -> Numbers:
    """Max bytes that a tier holds: b r (k + 1), of checkpoints of b bytes r copies of k kept ones and one in flight.

    Source: a checkpoint must not replace an older one before it is complete.

    >>> held_bytes(Tier(kind="peer-memory", interval_seconds=60, keep=2), 10.0)
    60.0
    """
    return checkpoint_bytes * tier.num_copies * (tier.keep + 1)


def device_bytes(tier: Tier, beside: Sequence[Tier], *, node_bytes: Numbers) -> Numbers:
    """Bytes of all tiers that share the capacity of one in the nodes, itself included, on a node.

    It is that of the node's host memory or NVMe; a tier with a capacity of its own shares it with none. `node_bytes`
    are those of a checkpoint on the node. Source: definition.

    >>> host, peers = (Tier(kind=kind, interval_seconds=60) for kind in ("host-memory", "peer-memory"))
    >>> device_bytes(host, [host, peers], node_bytes=10.0)
    60.0
    """
    if tier.capacity_bytes is not None:
        return held_bytes(tier, node_bytes)
    kinds: Sequence[TierKind] = MEMORY_KINDS if tier.kind in MEMORY_KINDS else ("local-nvme",)
    sharing = [other for other in beside if other.kind in kinds and other.capacity_bytes is None]
    return sum(held_bytes(other, node_bytes) for other in sharing)


@dataclass(frozen=True, slots=True)
class MainStorage:
    """The main storage among the tiers: it outlives whatever ends a run, and what it keeps is in its retention."""

    kind = MAIN
    domain: LossDomain = "site"
    num_copies = 1
    recovered_fraction = 1.0
    capacity_bytes = None
    cost_per_terabyte = None


def check_tiers(tiers: tuple[Tier, ...], *, interval_seconds: float) -> None:
    """Refuse tiers out of order, as a validator does.

    Raises PydanticCustomError.
    """
    front = [tier for tier in tiers if tier.kind != ARCHIVE]
    behind = [tier for tier in tiers if tier.kind == ARCHIVE]
    if tiers != (*front, *behind):
        raise broken_rule("has a tier after an object-store", "put object stores last")
    _check_front_intervals(front, interval_seconds)
    if behind and behind[0].interval_seconds < interval_seconds:
        raise broken_rule(
            f"has an object-store with an interval of {exact_number_text(behind[0].interval_seconds)} s, below the "
            f"{exact_number_text(interval_seconds)} s of the main storage",
            "give it the same interval_seconds or a longer one",
        )
    _check_survival(front)


def _check_front_intervals(front: Sequence[Tier], interval_seconds: float) -> None:
    """Refuse intervals that do not grow, each by a whole factor, from tier to tier up to the main storage."""
    intervals = [tier.interval_seconds for tier in front]
    if intervals != sorted(set(intervals)):
        raise broken_rule("must have tiers in the order of their intervals", "put the shortest interval first")
    if front and intervals[-1] >= interval_seconds:
        raise broken_rule(
            f"has a {front[-1].kind} tier with an interval of {exact_number_text(intervals[-1])} s, not below the "
            f"{exact_number_text(interval_seconds)} s of the main storage",
            "raise checkpoint.interval_seconds or lower the tier's interval_seconds",
        )
    for before, after in pairwise((*intervals, interval_seconds)):
        if is_whole(after / before):  # a slower save is one of the faster ones, from whose copy it drains
            continue
        below = math.floor(after / before) * before
        near = [f"{exact_number_text(seconds)} s" for seconds in (below, below + before) if seconds > before]
        interval, step = exact_number_text(after), exact_number_text(before)
        raise broken_rule(
            f"has an interval of {interval} s behind a tier with one of {step} s, of which it is no whole multiple",
            f"give it {' or '.join(near)}",
        )


def check_nodes_of_copies(tiers: Sequence[Tier], *, num_nodes: int) -> None:
    """Refuse tiers in peer memory with more copies than the layout has nodes, each of which holds one.

    Raises InvalidInput.
    """
    for index, tier in enumerate(tiers):
        if tier.kind == "peer-memory" and tier.num_copies > num_nodes:
            fewer = "use kind host-memory" if num_nodes == 1 else f"give {counted_text(num_nodes, 'replica')}"
            raise InvalidInput.of(
                f"checkpoint.tiers.{index}.replicas",
                f"must be at most the nodes of the layout, {num_nodes}, as each copy in peer-memory takes one",
                value=tier.num_copies,
                remedy=f"{fewer}, or more GPUs",
            )


def is_whole(ratio: float) -> bool:
    """Whether a ratio of intervals is a whole number, but for rounding.

    >>> is_whole(0.3 / 0.1), is_whole(1.5)
    (True, False)
    """
    return abs(ratio - round(ratio)) <= ROUNDING * ratio


def _check_survival(front: Sequence[Tier]) -> None:
    """Refuse a tier in front that survives fewer failures than the one before, as far as they say."""
    fractions = [tier.recovered_fraction for tier in front if tier.recovered_fraction is not None]
    domains = [LOSS_DOMAINS.index(tier.domain) for tier in front]
    if fractions != sorted(fractions) or (not fractions and domains != sorted(domains)):
        raise broken_rule(
            "has a tier with a longer interval that survives fewer failures than the tier before it",
            "remove it, or correct recovered_fraction or loss_domain",
        )


_INTERVAL_SOURCE = "4 h, quoted by VAST Data 2024"


class Checkpoint(CheckpointFiles):
    """What is written, when and where to, and how it is read back."""

    interval_seconds: PositiveSeconds = Field(
        14_400.0,
        json_schema_extra={"source": _INTERVAL_SOURCE},
        description=f"Seconds from the start of one checkpoint to the start of the next. Default: {_INTERVAL_SOURCE}.",
    )
    interval_steps: Annotated[int, Field(ge=1, le=1_000_000_000)] | None = Field(
        None,
        description="Optimizer steps from one checkpoint to the next, as training configs say it. It counts where "
        "interval_seconds is open: as many times training.step_seconds, or the computed time of a step. "
        "Default: interval_seconds says it.",
    )
    staging_bytes: ByteCount | None = Field(
        None,
        description="Max bytes of its share that one writing rank keeps in host memory while an asynchronous save "
        "drains. The rest of the share waits for room, and training with it. Default: the whole share fits.",
    )
    cached_plans: bool | None = Field(
        None,
        description="Whether saves reuse the plans of the save before, as with --ckpt-assume-constant-structure of "
        "Megatron-LM and enable_plan_caching of PyTorch. Without effect in formats that make no plans. "
        "Default: not known, so the middle of the times with and without counts.",
    )
    drain_survives: tuple[DrainDomain, ...] | None = Field(
        None,
        max_length=4,
        description="Loss domains of failures that the drain of an asynchronous save outlives, such as process where "
        "another process writes; smaller ones are included. "
        "Default: none, so a failure during the drain loses that checkpoint.",
    )
    observed_write_bytes_per_second: BytesPerSecond | None = Field(
        None,
        description="Measured write rate to compare the computed one with, in bytes per second. "
        "Default: no comparison.",
    )
    restore: AnySpelling[RestoreStrategy] = Field(
        "every-replica",
        description="How state that replicas share is read back. "
        "By every replica, or once and passed on over the compute network.",
    )
    restore_parallelism: Parallelism | None = Field(
        None,
        description="Degrees of the layout that restores, when it is another one (resharding). "
        "Default: the layout that saved.",
    )
    reduction: Reduction | None = Field(
        None,
        description="What saves to the main storage hold less than everything: compression, deltas, some experts. "
        "Default: all of the state, as it is.",
    )
    export: Export | None = Field(
        None,
        description="Weights in Hugging Face format that are written beside the checkpoint. Default: none are.",
    )
    tiers: tuple[Tier, ...] = Field(
        (),
        max_length=8,
        description="Tiers beside the main storage: burst buffers in front, in the order of their intervals, then "
        "object stores behind. Default: none.",
    )

    @model_validator(mode="after")
    def _tiers_in_order(self) -> Self:
        check_tiers(self.tiers, interval_seconds=self.interval_seconds)
        return self

    @property
    def is_compressed_by_format(self) -> bool:
        """Whether nobody compresses before the format does."""
        return self.reduction is None or self.reduction.compression is None

    @property
    def places(self) -> tuple[Tier | MainStorage, ...]:
        """Where checkpoints go: the tiers in front, the main storage, and the tiers behind it."""
        return (*self.front_tiers, MainStorage(), *self.archives)

    @property
    def front_tiers(self) -> tuple[Tier, ...]:
        """Tiers that are saved to more often than the main storage, the most frequent first."""
        return tuple(tier for tier in self.tiers if tier.kind != ARCHIVE)

    @property
    def copies_to_host(self) -> bool:
        """Whether any save first copies from GPUs to host memory: an asynchronous one, or one into memory of hosts."""
        is_async = any(mode == "async" for mode in (self.mode, *(tier.mode for tier in self.front_tiers)))
        return is_async or any(tier.kind in MEMORY_KINDS for tier in self.front_tiers)

    @property
    def archives(self) -> tuple[Tier, ...]:
        """Tiers that keep copies behind the main storage."""
        return tuple(tier for tier in self.tiers if tier.kind == ARCHIVE)
