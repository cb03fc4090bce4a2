"""How long a checkpoint takes to write."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import BaseModel, ConfigDict, Field

from sizing.cluster import ResolvedNode
from sizing.layout import Checkpoint, LaidOut, Layout
from sizing.run.demands import write_demand
from sizing.storage.limits import Limit, Resource, transfer
from sizing.storage.storage import ResolvedStorage
from sizing.units import rate_text, seconds_text

NOTABLE_IMBALANCE = 1.05
NOTABLE_MISS = 0.1


class Write(BaseModel):
    """The `write` block of the report. Per-writer and per-node rates are means.

    `last_rank_seconds` is the time until the largest writer is done, where a writer or a node limits and
    not the file system: its bytes over the mean stretch their terms.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    seconds: float
    stall_seconds: float = Field(description="for which training stands still")
    drain_seconds: float = Field(description="that go on in the background")
    last_rank_seconds: float
    last_rank_bottleneck: Resource
    bytes_per_second: float
    per_writer_bytes_per_second: float
    per_node_bytes_per_second: float
    bottleneck: Resource
    limits: list[Limit]
    observed_bytes_per_second: float | None
    predicted_over_observed: float | None = Field(description="of the rates; 1 where the model is right")


def write_of(storage: ResolvedStorage | None, *, laid_out: LaidOut, checkpoint: Checkpoint) -> Write | None:
    """The time to write a checkpoint, or None where no write rate is known."""
    moved = transfer(storage.profile, [write_demand(laid_out)], direction="write") if storage else None
    if moved is None:
        return None
    size, layout = laid_out.size, laid_out.layout
    seconds = float(moved.seconds)
    rate, observed = size.written_bytes / seconds, checkpoint.observed_write_bytes_per_second
    last = _last_rank(moved.limits, layout.largest_over_mean)
    return Write(
        seconds=seconds,
        stall_seconds=seconds,
        drain_seconds=0.0,
        last_rank_seconds=float(moved.serial_seconds) + max(last.values()),
        last_rank_bottleneck=max(last, key=lambda resource: last[resource]),
        bytes_per_second=rate,
        per_writer_bytes_per_second=rate / layout.num_writers,
        per_node_bytes_per_second=rate / layout.num_writing_nodes,
        bottleneck=moved.bottleneck,
        limits=list(moved.limits),
        observed_bytes_per_second=observed,
        predicted_over_observed=rate / observed if observed else None,
    )


def write_warnings(write: Write | None, *, layout: Layout, node: ResolvedNode) -> Iterator[str]:
    """What a reader must know beside the time to write."""
    if write is None:
        yield "no write rate of the storage is known: sizes and requirements only"
        return
    if write.last_rank_seconds > NOTABLE_IMBALANCE * write.seconds:
        yield (
            f"the largest rank writes {layout.largest_over_mean:.2f} x the mean: by the {write.last_rank_bottleneck} "
            f"limit the last one may end after {seconds_text(write.last_rank_seconds)}, "
            f"not {seconds_text(write.seconds)}"
        )
    ratio = write.predicted_over_observed
    if ratio is not None and abs(ratio - 1) > NOTABLE_MISS:
        yield (
            f"the limits allow {rate_text(write.bytes_per_second)}, but "
            f"{rate_text(write.observed_bytes_per_second or 0)} was observed ({ratio:.2f} x): "
            f"the {write.bottleneck} limit alone does not explain it; another limit is missing"
        )
    line_rate = node.spec.storage_network_bytes_per_second
    if line_rate is not None and write.per_node_bytes_per_second > line_rate:
        yield (
            f"each writing node would send {rate_text(write.per_node_bytes_per_second)}, more than the "
            f"{rate_text(line_rate)} of its storage network: give storage.profile.node_write_bytes_per_second"
        )


def _last_rank(limits: tuple[Limit, ...], largest_over_mean: float) -> dict[Resource, float]:
    """The time of each shared resource, those of writers and nodes stretched by the largest over the mean."""
    stretch = {"writer": largest_over_mean, "node": largest_over_mean}
    shared = [limit for limit in limits if limit.slack_fraction is not None]
    return {limit.resource: limit.seconds * stretch.get(limit.resource, 1.0) for limit in shared}
