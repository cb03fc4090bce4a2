"""The `publication` block of the report: weights of an RL policy on their way to inference."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import get_args

from pydantic import Field

from sizing.cluster.node import gpu_named
from sizing.layout.size import weights_bytes
from sizing.layout.trained_model import trained_adapters
from sizing.model.inventory import Inventory
from sizing.provenance import Assumption
from sizing.ranges import PlausibleRange, plausible_range
from sizing.run.figures import Figures
from sizing.run.workload import CheckpointWorkload, StoredPublications
from sizing.state.reinforcement import LOAD, NETWORK_FRACTION, Content, Publication
from sizing.state.scaled_dtypes import ScaledDtype
from sizing.state.training import Training
from sizing.storage.limits import Demand, Direction, steps_seconds
from sizing.storage.profile import StorageProfile
from sizing.storage.transfer import as_number
from sizing.training.gpu_rates import LINKS_FRACTION
from sizing.units import seconds_text

_COPY = plausible_range("storage.profile.device_to_host_bytes_per_second")
_MIN_GATHER_FRACTION, _GATHER_FRACTION = 0.6, LINKS_FRACTION
"""Fractions of the line rate of links or network, up to all of it. Source: SimuMax, as of LINKS_FRACTION."""


class Published(Figures):
    """The `publication` block of the report: what `training.reinforcement.publication` sends."""

    content: Content = Field(description="What is sent: all weights, the values that have changed, or adapters.")
    weights_bytes: int = Field(description="Bytes of all weights of the policy in the dtype of inference.")
    num_tensors: int = Field(description="Tensors that are sent, scales included, which an engine loads one by one.")
    replica_bytes: int = Field(description="Bytes that one inference engine receives in each publication.")
    sent_bytes: int = Field(description="Bytes that all inference engines receive in each publication.")
    gather_seconds: float | None = Field(
        description="Seconds in which trainers make whole tensors of their shards; 0 where each has them whole, or a "
        "measured rate covers it."
    )
    copy_seconds: float | None = Field(
        description="Seconds in which trainers copy their shares to host memory and from there; 0 without "
        "through_host. Null where the GPU's link is not known."
    )
    write_seconds: float | None = Field(
        description="Seconds in which trainers write to the storage; 0 over the network. Null without a write rate."
    )
    receive_seconds: float | None = Field(
        description="Seconds in which the engines receive, all at once. Null where their rate is not known."
    )
    load_seconds: float | None = Field(
        description="Seconds in which engines take what they received into their own layout, tensor by tensor, while "
        "they receive more; 0 where a measured rate covers it."
    )
    seconds: float | None = Field(description="Seconds of one publication. Null where a rate is not known.")
    seconds_low: float | None = Field(
        description="Seconds where all that is assumed is at its fast end, and every stage overlaps the others."
    )
    seconds_high: float | None = Field(
        description="Seconds where all that is assumed is at its slow end, and the stages follow one another."
    )
    step_fraction: float | None = Field(
        description="Fraction of the interval between publications, in which engines wait unless they go on with older "
        "weights; above 1 the interval is not kept. Null where a rate is not known."
    )
    mean_bytes_per_second: float = Field(
        description="Mean rate of all engines together over time, in bytes per second: sent_bytes over the interval."
    )


@dataclass(frozen=True, slots=True)
class SentWeights:
    """What trainers send of all weights of the policy, in so many tensors, 0 where nobody knows.

    `is_sharded`: no GPU of the trainers has them all.
    """

    weights_bytes: int
    num_bytes: int
    num_tensors: int
    is_sharded: bool

    @classmethod
    def of(cls, publication: Publication, training: Training, inventory: Inventory, *, is_sharded: bool) -> SentWeights:
        """Count what is sent in the dtype of inference; a dtype with scales has a tensor of them for each matrix."""
        tensors = sent_tensors(publication, training, inventory)
        known = [group for group in tensors if group.placement != "spread"]
        has_scales = publication.sent_dtype in get_args(ScaledDtype)
        num_scales = sum(group.num_tensors for group in known if group.is_hidden_matrix) if has_scales else 0
        num_tensors = sum(group.num_tensors for group in known) + num_scales
        whole = weights_bytes(inventory, publication.dtype)
        return cls(whole, sent_bytes(publication, tensors), num_tensors, is_sharded)


@dataclass(frozen=True, slots=True)
class _Stages:
    """Seconds of what a publication does, in this order; engines load one bucket while they receive the next."""

    gather: float
    copy: float | None
    write: float | None
    receive: float | None
    load: float

    @property
    def seconds(self) -> float | None:
        """Gather, copy and write, then the longer of receiving and loading."""
        if self.copy is None or self.write is None or self.receive is None:
            return None
        return self.gather + self.copy + self.write + max(self.receive, self.load)

    @property
    def overlapping_seconds(self) -> float:
        """The longest of all stages, as far as they are known: the rest hides behind it."""
        return max(self.gather, self.copy or 0.0, self.write or 0.0, self.receive or 0.0, self.load)

    @property
    def sequential_seconds(self) -> float:
        """All stages as far as they are known, one after the other."""
        return self.gather + (self.copy or 0.0) + (self.write or 0.0) + (self.receive or 0.0) + self.load


@dataclass(frozen=True, slots=True)
class _StageRates:
    """What is known or assumed of the stages, at one end of its range or between the ends."""

    gather: float
    copy: float
    network: float
    load_seconds: float

    @classmethod
    def of(cls, publication: Publication, *, fast: bool | None = None) -> _StageRates:
        """Take each rate as stated, else as assumed, or at the fast or the slow end of its range."""
        given, load = publication.network_fraction, publication.load_seconds_per_tensor
        gathered = _GATHER_FRACTION if fast is None else 1.0 if fast else _MIN_GATHER_FRACTION
        return cls(
            gather=gathered,
            copy=_at(_COPY, is_high=fast),
            network=_at(NETWORK_FRACTION, is_high=fast) if given is None else given,
            load_seconds=_at(LOAD, is_high=None if fast is None else not fast) if load is None else load,
        )


def _at(figure: PlausibleRange, *, is_high: bool | None) -> float:
    """The high or the low end of a range; its midpoint where `is_high` is None."""
    if is_high is None:
        return figure.midpoint
    return (figure.high or figure.midpoint) if is_high else figure.low


def publication_of(
    publication: Publication, profile: StorageProfile | None, *, workload: CheckpointWorkload, weights: SentWeights
) -> Published:
    """What one publication of the policy's weights takes.

    With W bytes in n tensors, G trainers, the rate r of the link or network that joins them, the rate c of a copy
    between GPU and host, the line rate N of a node of an engine of m nodes: trainers gather in W / (g r); through host
    memory they copy in 2 W / (G c); each node receives W, or W / m peer to peer, in W / (f N); an engine loads in n t.
    Buckets let receiving and loading overlap: gather + copy + max(receive, load). A delta is the given fraction of the
    weights, with as many tensors; of adapters alone W and n are theirs. Over storage all writers write once and each
    engine reads.
    Assumes that a pipelined broadcast reaches all nodes at the rate of one, and leaves out the metadata that trainers
    and engines agree on first.
    Source: Chan et al. 2007, lower bound of the broadcast's bandwidth term; MoonshotAI, checkpoint-engine, README.md,
    for the stages and their overlap; NVIDIA-NeMo/RL#1379, where overlap made 13 s into 5.5; g, c, f and t: as in
    `ranges.toml`.
    """
    assumed, fast, slow = (
        _stages(_StageRates.of(publication, fast=end), publication, profile, workload, weights)
        for end in (None, True, False)
    )
    seconds, is_measured = assumed.seconds, publication.replica_bytes_per_second is not None
    return Published.of(
        content=publication.content,
        weights_bytes=weights.weights_bytes,
        num_tensors=weights.num_tensors,
        replica_bytes=weights.num_bytes,
        sent_bytes=weights.num_bytes * publication.num_replicas,
        gather_seconds=assumed.gather,
        copy_seconds=assumed.copy,
        write_seconds=assumed.write,
        receive_seconds=assumed.receive,
        load_seconds=assumed.load,
        seconds=seconds,
        seconds_low=seconds if is_measured or seconds is None else fast.overlapping_seconds,
        seconds_high=seconds if is_measured or seconds is None else slow.sequential_seconds,
        step_fraction=None if seconds is None else seconds / publication.interval_seconds,
        mean_bytes_per_second=weights.num_bytes * publication.num_replicas / publication.interval_seconds,
    )


def _stages(
    rates: _StageRates,
    publication: Publication,
    profile: StorageProfile | None,
    workload: CheckpointWorkload,
    weights: SentWeights,
) -> _Stages:
    """Seconds of each stage at those rates; a measured rate of an engine covers all stages but the writing."""
    steps, node = publication_steps(publication, workload, weights.num_bytes), workload.node
    write = as_number(steps_seconds(profile, steps["write"], direction="write"))
    if publication.replica_bytes_per_second is not None:
        return _Stages(0.0, 0.0, write, weights.num_bytes / publication.replica_bytes_per_second, 0.0)
    gather, network = 0.0, node.compute_network_bytes_per_second
    joining = network  # what joins the trainers: the links of one domain, else the network
    if node.gpu is not None and workload.num_gpus <= node.num_linked_gpus:
        joining = gpu_named(node.gpu).link_bytes_per_second
    if weights.is_sharded and joining:
        gather = weights.num_bytes / (rates.gather * joining)
    copy: float | None = 0.0
    if publication.through_host:
        copy_rate = as_number(profile.write.device_to_host_bytes_per_second) if profile else None
        if copy_rate is None and node.host_link_bytes_per_second is not None:
            copy_rate = node.host_link_bytes_per_second * rates.copy
        copy = None if copy_rate is None else 2 * weights.num_bytes / workload.num_gpus / copy_rate
    receive: float | None = None
    if publication.over == "storage":
        receive = as_number(steps_seconds(profile, steps["read"], direction="read"))
    elif network is not None:
        parts = publication.nodes_per_replica if publication.transfer == "peer-to-peer" else 1
        receive = weights.num_bytes / parts / (rates.network * network)
    return _Stages(gather, copy, write, receive, load=weights.num_tensors * rates.load_seconds)


def publication_assumptions(publication: Publication | None, block: Published | None) -> Iterator[Assumption]:
    """What is assumed of a publication, as nobody stated it."""
    if publication is None or block is None or publication.replica_bytes_per_second is not None:
        return
    path = "training.reinforcement.publication"
    if publication.over == "network" and publication.network_fraction is None:
        value, reason = NETWORK_FRACTION.midpoint, NETWORK_FRACTION.reason
        yield Assumption(field=f"{path}.network_fraction", value=value, reason=reason)
    if publication.load_seconds_per_tensor is None:
        unknown = (
            "" if block.num_tensors else "; the tensors of a bare count are not known, so loading is not counted; "
        )
        yield Assumption(field=f"{path}.load_seconds_per_tensor", value=LOAD.midpoint, reason=unknown + LOAD.reason)


def publication_warnings(block: Published | None, *, has_adapters: bool) -> Iterator[str]:
    """Warn of publications that are not done in time, or whose time is not known, and of adapters that are merged."""
    if block is not None and has_adapters and block.content == "full":
        yield (
            "A publication sends all weights, with the adapters merged into them. Where engines hold the frozen "
            "weights and receive the adapters alone (verl with layered_summon, ms-swift with vllm_enable_lora), give "
            "training.reinforcement.publication.content adapters"
        )
    if block is not None and block.seconds is None:
        yield (
            "No rate for training.reinforcement.publication: its time is not computed. Give "
            "replica_bytes_per_second, or over storage its write and read rates"
        )
    elif block is not None and (block.step_fraction or 0.0) > 1.0:
        assumed = ""
        low, high = block.seconds_low, block.seconds_high
        if low is not None and high is not None and low != high:
            assumed = f", {seconds_text(low)} to {seconds_text(high)} with what is assumed"
        yield (
            f"A publication takes {block.step_fraction:.3g} x the interval between publications{assumed}. "
            "Raise the rate to the inference engines, or send deltas"
        )


def stored_publications(
    publication: Publication, workload: CheckpointWorkload, training: Training, inventory: Inventory
) -> StoredPublications | None:
    """What publications write to the storage and read from it; None over the network.

    Trainers write B once and each engine reads B, at whatever rate.
    """
    if publication.over == "network":
        return None
    sent = sent_bytes(publication, sent_tensors(publication, training, inventory))
    writing, reading = _stored_steps(publication, workload, sent)
    return StoredPublications(
        interval_seconds=publication.interval_seconds,
        written_bytes=writing.total_bytes,
        written_files=writing.num_files,
        read_bytes=reading.total_bytes,
        read_files=reading.num_files,
    )


def sent_tensors(publication: Publication, training: Training, inventory: Inventory) -> Inventory:
    """Select the tensors of a policy that go to inference: its adapters alone, or the model that they are merged into.

    Source: TRL 1.9, generation/vllm_generation.py, sync_weights, which merges them; verl b178a3cd56f5,
    workers/fsdp_workers.py, rollout_mode, which sends frozen weights and adapters each time unless layered_summon is
    on, and then adapters alone; ms-swift, vllm_enable_lora.
    """
    return trained_adapters(inventory, training) if publication.content == "adapters" else inventory


def sent_bytes(publication: Publication, tensors: Inventory) -> int:
    """Bytes of one publication of tensors in the dtype of inference: all of them, or the fraction that a delta has.

    Source: definition.

    >>> from sizing.model.inventory import TensorGroup
    >>> norm = TensorGroup("norm", (500,), 1, layers=range(1))
    >>> sent_bytes(Publication(interval_seconds=30, content="delta", delta_fraction=0.02), (norm,))
    20
    """
    num_bytes = weights_bytes(tensors, publication.sent_dtype)
    return round(num_bytes * (publication.delta_fraction if publication.content == "delta" else 1.0))


def _stored_steps(publication: Publication, workload: CheckpointWorkload, num_bytes: int) -> tuple[Demand, Demand]:
    """The writing of all trainers, and the reading of all engines."""
    writers = workload.unreduced.write
    nodes = publication.num_replicas * publication.nodes_per_replica
    streams = nodes * workload.node.gpus_per_node
    writing = Demand(num_bytes, writers.num_streams, writers.num_nodes, writers.num_streams)
    return writing, Demand(num_bytes * publication.num_replicas, streams, float(nodes), streams)


def publication_steps(
    publication: Publication, workload: CheckpointWorkload, num_bytes: int
) -> dict[Direction, Sequence[Demand]]:
    """What a publication of so many bytes to each engine asks of the storage: nothing over the network."""
    if publication.over == "network":
        return {"write": [], "read": []}
    writing, reading = _stored_steps(publication, workload, num_bytes)
    return {"write": [writing], "read": [] if publication.replica_bytes_per_second is not None else [reading]}
