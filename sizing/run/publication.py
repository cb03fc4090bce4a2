"""The `publication` block of the report: weights of an RL policy on their way to inference."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from pydantic import Field

from sizing.run.demands.demands import Demands
from sizing.run.figures import Figures
from sizing.state.reinforcement import Content, Publication
from sizing.storage.limits import Demand, Direction, transfer
from sizing.storage.profile import StorageProfile
from sizing.storage.transfer import Numbers


class Published(Figures):
    """The `publication` block of the report: what `training.reinforcement.publication` sends."""

    content: Content = Field(description="What is sent: all weights, or the values that have changed.")
    weights_bytes: int = Field(description="Bytes of all weights of the policy in the dtype of inference.")
    replica_bytes: int = Field(description="Bytes that one inference engine receives in each publication.")
    sent_bytes: int = Field(description="Bytes that all inference engines receive in each publication.")
    write_seconds: float | None = Field(
        description="Seconds in which trainers write to the storage; 0 over the network. Null without a write rate."
    )
    receive_seconds: float | None = Field(
        description="Seconds in which the engines receive, all at once. Null where their rate is not known."
    )
    seconds: float | None = Field(description="Seconds of one publication. Null where a rate is not known.")
    step_fraction: float | None = Field(
        description="Fraction of the interval between publications, in which engines wait unless they go on with older "
        "weights; above 1 the interval is not kept. Null where a rate is not known."
    )
    mean_bytes_per_second: float = Field(
        description="Mean rate of all engines together over time, in bytes per second: sent_bytes over the interval."
    )


def published(
    publication: Publication | None, profile: StorageProfile | None, *, demands: Demands, weights_bytes: int
) -> Published | None:
    """What one publication of the policy's weights takes; None where none is asked for.

    A delta is the given fraction of the weights. Over the network every engine receives all of it once, at the rate of
    its nodes, as a pipelined broadcast reaches; over storage all writers write it once and each engine reads it.
    Source: Chan et al. 2007, lower bound of the broadcast's bandwidth term; Hugging Face, Delta Weight Sync in TRL
    (2026), for the way through a bucket. The trainers' own exchange before it is not counted.
    """
    if publication is None:
        return None
    fraction = publication.delta_fraction if publication.content == "delta" else 1.0
    num_bytes = round(weights_bytes * fraction)
    writing = _seconds(profile, publication_steps(publication, demands, num_bytes)["write"], "write")
    receiving = _receive_seconds(publication, profile, demands, num_bytes)
    seconds = None if writing is None or receiving is None else writing + receiving
    sent = num_bytes * publication.num_replicas
    return Published.of(
        content=publication.content,
        weights_bytes=weights_bytes,
        replica_bytes=num_bytes,
        sent_bytes=sent,
        write_seconds=writing,
        receive_seconds=receiving,
        seconds=seconds,
        step_fraction=None if seconds is None else seconds / publication.interval_seconds,
        mean_bytes_per_second=sent / publication.interval_seconds,
    )


def publication_warnings(block: Published | None) -> Iterator[str]:
    """That publications are not done in time, or that their time is not known."""
    if block is not None and block.seconds is None:
        yield (
            "No rate for training.reinforcement.publication: its time is not computed. Give "
            "replica_bytes_per_second, or over storage its write and read rates"
        )
    elif block is not None and (block.step_fraction or 0.0) > 1.0:
        yield (
            f"A publication takes {block.step_fraction:.3g} x the interval between publications. Raise the rate to the "
            "inference engines, or send deltas"
        )


def publication_steps(publication: Publication, demands: Demands, num_bytes: int) -> dict[Direction, Sequence[Demand]]:
    """What a publication of so many bytes to each engine asks of the storage: nothing over the network."""
    if publication.over == "network":
        return {"write": [], "read": []}
    writers = demands.unreduced.write
    writing = Demand(num_bytes, writers.num_streams, writers.num_nodes, writers.num_streams)
    if publication.replica_bytes_per_second is not None:
        return {"write": [writing], "read": []}
    nodes = publication.num_replicas * publication.nodes_per_replica
    streams = nodes * demands.node.gpus_per_node
    return {"write": [writing], "read": [Demand(num_bytes * publication.num_replicas, streams, float(nodes), streams)]}


def _receive_seconds(
    publication: Publication, profile: StorageProfile | None, demands: Demands, num_bytes: int
) -> Numbers | None:
    """At the rate that is given, else at that of the storage or of the network."""
    rate, network = publication.replica_bytes_per_second, demands.network_bytes_per_second
    if rate is None and publication.over == "storage":
        return _seconds(profile, publication_steps(publication, demands, num_bytes)["read"], "read")
    if rate is None and network is not None:
        rate = network * publication.nodes_per_replica
    return None if rate is None else np.divide(num_bytes, rate)


def _seconds(profile: StorageProfile | None, steps: Sequence[Demand], direction: Direction) -> Numbers | None:
    if not steps:
        return 0.0
    moved = transfer(profile, steps, direction=direction) if profile else None
    return None if moved is None else moved.seconds
