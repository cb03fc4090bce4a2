"""Time of exchanges: over the links of GPUs, the adapters of their nodes, and the link from a GPU to its host."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median_low
from typing import NamedTuple

from sizing.cluster import NodeSpec, ResolvedNode
from sizing.cluster.node import gpu_named, node_catalog
from sizing.frameworks import FRAMEWORKS, base_dtype
from sizing.layout import Parallelism
from sizing.layout.gradient_errors import GradientErrors
from sizing.layout.holders import HolderClass
from sizing.layout.parallelism import Ranks
from sizing.layout.sharding import Sharding
from sizing.ranges import plausible_range
from sizing.state import Training
from sizing.state.offload import Offload
from sizing.state.scaled_dtypes import QUANTIZED_BYTES
from sizing.training.execution import Execution, value_bytes
from sizing.training.gpu_rates import AchievedRates
from sizing.units import bit_rate_text, counted_text

COLLECTIVE_SECONDS = 30e-6
"""Latency before a collective's first byte. Source: SimuMax, configs/system/b200_bf16_ceperm.json: 23 + 8 us."""


class NetworkGuess(NamedTuple):
    """Line rate of a node's adapters to other nodes where none is given or published, in bytes per second."""

    value: float
    low: float
    high: float
    reason: str


def guessed_network(spec: NodeSpec, num_gpus: int) -> NetworkGuess | None:
    """Return the rate that a node's adapters are guessed to have: g x median, from g x min to g x max.

    g GPUs a node; bytes per second for each GPU of the catalog's nodes with the same GPU, or of all its nodes where
    none with this GPU has a published rate. None where the rate is known, or links join all `num_gpus`.
    Source: sizing/cluster/nodes.toml.

    >>> [rate * 8 / 1e9 for rate in guessed_network(node_catalog()["hgx-h100"].spec, 16)[:3]]
    [3200.0, 800.0, 3200.0]
    """
    if spec.compute_network_bytes_per_second is not None or num_gpus <= spec.num_linked_gpus:
        return None
    published = [
        (each.spec.gpu, each.spec.compute_network_bytes_per_second / each.spec.gpus_per_node)
        for each in node_catalog().values()
        if each.spec.compute_network_bytes_per_second is not None
    ]
    alike = [rate for gpu, rate in published if gpu == gpu_named(spec.gpu or "").name]
    rates = alike or [rate for _, rate in published]
    of_nodes = f"{counted_text(len(alike), 'published node')} with this GPU" if alike else "all published nodes"
    ends = " to ".join(bit_rate_text(end) for end in sorted({min(rates), max(rates)}))
    reason = f"a guess, the median of {of_nodes}, which have {ends} for each GPU"
    g = spec.gpus_per_node
    return NetworkGuess(g * median_low(rates), g * min(rates), g * max(rates), reason)


def network_warnings(node: ResolvedNode, num_gpus: int) -> Iterator[str]:
    """Warn of a step time whose exchanges pass a network of which the rate is guessed."""
    guess = guessed_network(node.spec, num_gpus) if node.spec.gpu else None
    if guess is not None:
        yield (
            f"The network between nodes of {node.name} is not published: the step time takes "
            f"{bit_rate_text(guess.value)} for a node, {guess.reason}. Give the node as cluster.node_spec with "
            "compute_network_bytes_per_second"
        )


@dataclass(frozen=True, slots=True)
class Links:
    """Rates that a GPU achieves over its links, and a node over its adapters, one way.

    Links join the GPUs of a domain: a node, or several nodes of a rack. A rate of adapters that is not known is
    guessed.
    """

    gpus_per_node: int
    gpus_per_domain: int
    link_bytes_per_second: float
    node_bytes_per_second: float

    def collective_seconds(self, num_bytes: float, *, num_ranks: int, stride: int, num_calls: float = 1.0) -> float:
        """Return the time of an all-gather or reduce-scatter of B bytes in total: L + (n - 1)/n B / min(l, N k/g).

        n ranks of which k are in each domain, g GPUs a node; l of a link, N of a node's adapters, of which a ring
        through all domains takes those of its k GPUs; within one domain l alone. L is COLLECTIVE_SECONDS. All of it
        for each of `num_calls`.
        Source: NVIDIA, nccl-tests, doc/PERFORMANCE.md, bus bandwidth of AllGather and ReduceScatter.

        >>> Links(8, 8, 400e9, 400e9).collective_seconds(16e9, num_ranks=16, stride=1)
        0.03753
        """
        if num_ranks <= 1:
            return 0.0
        near, rate = self._ranks_in_domain(num_ranks, stride), self.link_bytes_per_second
        if near < num_ranks:
            rate = min(rate, self._gpu_bytes_per_second * near)
        moved = num_bytes * (num_ranks - 1) / num_ranks
        return num_calls * (COLLECTIVE_SECONDS + moved / rate)

    def exchange_seconds(self, num_bytes: float, *, num_ranks: int, stride: int, once_of: int | None = None) -> float:
        """Return the time of an all-to-all of B bytes from each rank: L + max(B (k - 1)/n / l, B (n - k)/n / (N/g)).

        Symbols as in collective_seconds. With `once_of` copies of a token, E, it goes once to each of D = n/k domains:
        B/E (D - 1)(1 - (1 - 1/D)^E) between them, experts at random, and from there to B (n - 1)/n over the links.
        Source: definition; each GPU sends over its own share of the adapters. DeepSeek-AI 2024, arXiv 2412.19437,
        section 3.2.2.

        >>> Links(8, 8, 400e9, 400e9).exchange_seconds(8e9, num_ranks=16, stride=1)
        0.08003
        >>> Links(8, 8, 400e9, 400e9).exchange_seconds(8e9, num_ranks=16, stride=1, once_of=2)
        0.06003
        """
        if num_ranks <= 1:
            return 0.0
        near = self._ranks_in_domain(num_ranks, stride)
        inside, outside = num_bytes * (near - 1) / num_ranks, num_bytes * (num_ranks - near) / num_ranks
        if once_of is not None:
            domains = num_ranks / near
            inside = num_bytes * (num_ranks - 1) / num_ranks
            outside = num_bytes / once_of * (domains - 1) * (1 - (1 - 1 / domains) ** once_of)
        return COLLECTIVE_SECONDS + max(inside / self.link_bytes_per_second, outside / self._gpu_bytes_per_second)

    def send_seconds(self, num_bytes: float, *, stride: int) -> float:
        """Return the time to send to the rank that is `stride` away: B / l inside the domain, else B g/N.

        Source: definition.

        >>> Links(8, 8, 400e9, 400e9).send_seconds(1e9, stride=8)
        0.02
        """
        rate = self.link_bytes_per_second if stride < self.gpus_per_domain else self._gpu_bytes_per_second
        return num_bytes / rate

    @classmethod
    def of(cls, node: ResolvedNode, rates: AchievedRates, *, num_gpus: int) -> Links:
        """Return the rates that exchanges achieve over the links of the node's GPUs and over its adapters."""
        guess = guessed_network(node.spec, num_gpus)
        network = guess.value if guess else node.spec.compute_network_bytes_per_second
        return cls(
            gpus_per_node=node.spec.gpus_per_node,
            gpus_per_domain=node.spec.num_linked_gpus,
            link_bytes_per_second=gpu_named(node.spec.gpu or "").link_bytes_per_second * rates.links,
            node_bytes_per_second=float("inf") if network is None else network * rates.network,
        )

    @property
    def _gpu_bytes_per_second(self) -> float:
        return self.node_bytes_per_second / self.gpus_per_node

    def _ranks_in_domain(self, num_ranks: int, stride: int) -> int:
        return max(1, min(num_ranks, self.gpus_per_domain // stride))


@dataclass(frozen=True, slots=True)
class ReplicaExchange:
    """Seconds of a step in which replicas reduce gradients, so many times, and in which they gather weights."""

    reduce: float
    gather: float
    num_reductions: int = 1

    def __add__(self, other: ReplicaExchange) -> ReplicaExchange:
        """Return the exchange of two stages, one after the other."""
        return ReplicaExchange(self.reduce + other.reduce, self.gather + other.gather, self.num_reductions)

    @property
    def seconds(self) -> float:
        """Seconds of both."""
        return self.reduce + self.gather


def num_reductions(training: Training, sharding: Sharding, *, num_microbatches: int) -> int:
    """Count how often in a step ranks reduce gradients: in each microbatch where they keep shards alone, else once.

    Source: `accumulates_unreduced` of each framework; Rajbhandari et al. 2020, arXiv 1910.02054, section 5.2.

    >>> from sizing.layout.sharding import shard_by_fsdp
    >>> fsdp = shard_by_fsdp(Parallelism(data=8))
    >>> frameworks = ("fsdp2", "accelerate")
    >>> [num_reductions(Training(framework=name), fsdp, num_microbatches=4) for name in frameworks]
    [4, 1]
    """
    is_whole = max(sharding.gradients) == 1 or FRAMEWORKS[training.framework].accumulates_unreduced
    return 1 if is_whole else num_microbatches


def exchange_of_replicas(
    training: Training,
    parallelism: Parallelism,
    *,
    holders: Sequence[HolderClass],
    sharding: Sharding,
    links: Links,
    execution: Execution,
    reduced: int,
) -> ReplicaExchange:
    """Return the time to exchange gradients and weights in a step, before computing hides any of it.

    r T gradients are reduce-scattered in a group of g ranks that share the state, then r T/g all-reduced, twice the
    bytes, with the other groups: num_reductions times. In a group w T weights are gathered once, or w P twice in each
    microbatch where layers are gathered. g is 1 where nothing is sharded. P parameters of which T are trained; a frozen
    base of adapters in 4 or 8 bits is gathered as it is kept. Of compressed gradients what their method exchanges; the
    time to compress them is not counted. A device of a schedule that runs both ways exchanges both of its stages.
    Source: Rajbhandari et al. 2020, arXiv 1910.02054, section 7; Zhao et al. 2023, arXiv 2304.11277, section 3.2.2;
    links: Links.collective_seconds.
    Eight GPUs reduce 4 bytes and gather 2 of a parameter over links of 301.5 GB/s, after 30 us each for dense and
    expert tensors, of weights and of gradients:

    >>> from sizing.report import answer
    >>> batch = {"sequence_length": 2048, "micro_batch_size": 1, "global_batch_size": 8}
    >>> training = batch | {"distributed_optimizer": True}
    >>> scenario = {"model": {"preset": "llama-3.1-8b"}, "training": training, "parallelism": {"data": 8}}
    >>> step = answer(scenario | {"cluster": {"node": "dgx-h100"}}).training.step
    >>> round(step.exchange_seconds - 120e-6 - 6 * 8_030_261_248 * 7 / 8 / (0.67 * 450e9), 6)
    0.0
    """
    w, gathers_all = value_bytes(training), sharding.gathers in ("layers", "modules")
    of_base = QUANTIZED_BYTES.get(base_dtype(training) or "", w) / w
    num_microbatches = execution.num_microbatches or 1
    reductions = num_reductions(training, sharding, num_microbatches=num_microbatches)
    reduced_bytes, gathered_bytes = reductions * reduced, w * (2 * num_microbatches if gathers_all else 1)
    compressed = GradientErrors.of(training, parallelism)
    strides = Ranks(parallelism.tensor, parallelism.expert * parallelism.expert_tensor_degree)
    group = sharding.optimizer
    groups = Ranks(*(n // g for n, g in zip(parallelism.replicas, group, strict=True)))
    strides_of_groups = Ranks(*(stride * g for stride, g in zip(strides, group, strict=True)))

    def collect(num_bytes: Sequence[float], num_ranks: Ranks, strides: Ranks) -> float:
        if not any(num_bytes):
            return 0.0
        each = zip(num_bytes, num_ranks, strides, strict=True)
        return sum(links.collective_seconds(size, num_ranks=n, stride=stride) for size, n, stride in each)

    def exchange(holder: HolderClass) -> ReplicaExchange:
        if compressed is not None:
            return ReplicaExchange(collect(compressed.exchanged_bytes(holder), parallelism.replicas, strides), 0.0)
        contents = holder.dense, holder.expert
        trained = [each.trained_parameters for each in contents]
        whole = [each.parameters - (1.0 - of_base) * each.frozen_matrix_parameters for each in contents]
        of_groups = [2.0 * reduced_bytes * each / g for each, g in zip(trained, group, strict=True)]
        return ReplicaExchange(
            collect([reduced_bytes * each for each in trained], group, strides)
            + collect(of_groups, groups, strides_of_groups),
            collect([gathered_bytes * each for each in (whole if gathers_all else trained)], group, strides),
            reductions,
        )

    longest: dict[int, ReplicaExchange] = {}
    for holder in holders:
        of_holder = exchange(holder)
        for stage in holder.span.stages:
            longest[stage] = max(of_holder, longest.get(stage, of_holder), key=lambda each: each.seconds)
    if not execution.rules.is_two_way:
        return max(longest.values(), key=lambda each: each.seconds)
    pairs = (longest[stage] + longest[execution.num_stages - 1 - stage] for stage in longest)
    return max(pairs, key=lambda each: each.seconds)


HOST_PARAMETERS_PER_SECOND = 3.9e9
"""Parameters that a node's CPUs update per second: 10 billion in 2.57 s on the two processors of a DGX-2.

Source: Ren et al. 2021, arXiv 2101.06840, table 4, DeepSpeed's CPU-Adam; torch's Adam took 14.8 s there. What ranks
reach together depends on the threads that each has.
"""


@dataclass(frozen=True, slots=True)
class HostTraffic:
    """Bytes that pass the link between one GPU and its host in a step, and parameters that the host updates.

    `loaded`: weights for all forward passes, and as many again for each pass of `later_loads`. `gradients`: out beside
    the backward passes. `gradients_back`: sums of earlier microbatches, in before they go out again.
    `gradients_waited`: out while the backward passes wait. `activations`: out beside the forward passes, and in beside
    the backward passes. `update_out`, `update_in`: when all passes have ended. `drive_loaded`, `drive_update`: what of
    it drives read and write.
    """

    loaded: float
    later_loads: int
    gradients: float
    activations: float
    update_out: float
    update_in: float
    updated_parameters: float
    drive_loaded: float
    drive_update: float
    gradients_back: float = 0.0
    gradients_waited: float = 0.0

    @property
    def state_bytes(self) -> float:
        """Bytes of state alone, in both directions."""
        gradients = self.gradients + self.gradients_back + self.gradients_waited
        return self.loaded * (1 + self.later_loads) + gradients + self.update_out + self.update_in


@dataclass(frozen=True, slots=True)
class HostRates:
    """Rates that one GPU has of its link to the host, and of its node's drives and CPUs.

    `link`, `drives`: bytes per second, one way; `parameters` that its share of the CPUs updates per second.
    """

    link: float
    drives: float | None
    parameters: float


def host_rates(offload: Offload, node: ResolvedNode, *, num_gpus: int) -> HostRates | None:
    """Return the rates of offload: as given, else the link's usual rate; None where a needed rate is unknown.

    Source: `ranges.toml`, storage.profile.device_to_host_bytes_per_second; HOST_PARAMETERS_PER_SECOND.
    """
    sharing = min(node.spec.gpus_per_node, num_gpus)
    line_rate = node.spec.host_link_bytes_per_second
    link = offload.link_bytes_per_second
    if link is None and line_rate is not None:
        link = line_rate * plausible_range("storage.profile.device_to_host_bytes_per_second").midpoint
    drives, updates = offload.nvme_bytes_per_second, offload.optimizer_parameters_per_second
    if link is None or ("nvme" in (offload.optimizer, offload.weights) and drives is None):
        return None
    return HostRates(
        link=link,
        drives=None if drives is None else drives / sharing,
        parameters=(updates or HOST_PARAMETERS_PER_SECOND) / sharing,
    )


def waited_seconds(
    traffic: HostTraffic, rates: HostRates, *, forward_seconds: float, backward_seconds: float, overlaps_update: bool
) -> float:
    """Return the time of host traffic that computation does not hide: max(0, c_f - f) + max(0, c_b - b) + a + u.

    Args: f and b seconds of all forward and backward passes of the GPU.
    c_f, c_b: what the link then carries, the longer of both ways, or the drives if they are slower; sums of gradients
    come in before they go out. a: gradients for which the backward passes wait. u, when the passes have ended:
    gradients out, the CPUs' update, weights back; of an update in parts that follow one another on the link, the drives
    and the CPUs, the longest. The update begins with the last gradient, without DeepSpeed's delayed update.
    Source: Rhu et al. 2016, arXiv 1602.08124, section 3.3; Ren et al. 2021, arXiv 2101.06840, sections 4.1 and 5.1;
    Rajbhandari et al. 2021, arXiv 2104.07857, sections 5.2 and 6.2.

    >>> zero_2 = HostTraffic(0.0, 1, 2e9, 0.0, 0.0, 2e9, 1e9, 0.0, 0.0)
    >>> rates = HostRates(link=20e9, drives=None, parameters=1e9)
    >>> waited_seconds(zero_2, rates, forward_seconds=0.3, backward_seconds=0.6, overlaps_update=True)
    1.0
    """
    loaded = max(traffic.loaded / rates.link, _drive_seconds(traffic.drive_loaded, rates))
    stored = traffic.activations / rates.link
    again = traffic.later_loads * loaded + stored
    waited = max(0.0, max(loaded, stored) - forward_seconds)
    gradients, sums = traffic.gradients / rates.link, traffic.gradients_back / rates.link
    waited += max(0.0, max(again, gradients) + sums - backward_seconds) + traffic.gradients_waited / rates.link
    out, back = traffic.update_out / rates.link, traffic.update_in / rates.link
    update = traffic.updated_parameters / rates.parameters
    drives = _drive_seconds(traffic.drive_update, rates)
    return waited + out + (max(update, back, drives) if overlaps_update else update + back + drives)


def _drive_seconds(num_bytes: float, rates: HostRates) -> float:
    return num_bytes / rates.drives if rates.drives else 0.0
