"""How fast ranks of a group exchange: over the GPUs' links where these join them, else over their nodes' adapters."""

from __future__ import annotations

from dataclasses import dataclass

COLLECTIVE_SECONDS = 30e-6
"""Before a collective moves its first byte. Source: SimuMax, configs/system/b200_bf16_ceperm.json: 23 + 8 us."""


@dataclass(frozen=True, slots=True)
class Links:
    """What a GPU reaches over its links, and a node over its adapters, one way, as achieved.

    Links join the GPUs of a domain: a node, or several nodes of a rack. Between domains nothing takes time where the
    adapters are not known.
    """

    gpus_per_node: int
    gpus_per_domain: int
    link_bytes_per_second: float
    node_bytes_per_second: float

    def collective_seconds(self, num_bytes: float, *, num_ranks: int, stride: int, num_calls: float = 1.0) -> float:
        """All-gather or reduce-scatter of so many bytes in all: L + (n - 1)/n B / min(l, N k/g).

        n ranks of which k are in each domain, g GPUs a node; l of a link, N of a node's adapters, of which a ring
        through all domains takes those of its k GPUs; within one domain l alone. L is COLLECTIVE_SECONDS. All of it
        for each of `num_calls`.
        Source: NVIDIA, nccl-tests, doc/PERFORMANCE.md, bus bandwidth of AllGather and ReduceScatter.

        >>> Links(8, 8, 400e9, 400e9).collective_seconds(16e9, num_ranks=16, stride=1)
        0.03753
        """
        if num_ranks <= 1:
            return 0.0
        moved = num_bytes * (num_ranks - 1) / num_ranks
        return num_calls * (COLLECTIVE_SECONDS + moved / self._bytes_per_second(num_ranks, stride))

    def exchange_seconds(self, num_bytes: float, *, num_ranks: int, stride: int, num_calls: float = 1.0) -> float:
        """All-to-all of so many bytes from each rank: L + the longer of B (k - 1)/n / l and B (n - k)/n / (N/g).

        Symbols as in collective_seconds. Source: definition; each GPU sends over its own share of the adapters.

        >>> Links(8, 8, 400e9, 400e9).exchange_seconds(8e9, num_ranks=16, stride=1)
        0.08003
        """
        if num_ranks <= 1:
            return 0.0
        near = self._ranks_in_domain(num_ranks, stride)
        inside = num_bytes * (near - 1) / num_ranks / self.link_bytes_per_second
        outside = num_bytes * (num_ranks - near) / num_ranks / self._gpu_bytes_per_second
        return num_calls * (COLLECTIVE_SECONDS + max(inside, outside))

    def send_seconds(self, num_bytes: float, *, stride: int) -> float:
        """To the rank that is `stride` away: B / l inside the domain, else B g/N. Source: definition.

        >>> Links(8, 8, 400e9, 400e9).send_seconds(1e9, stride=8)
        0.02
        """
        rate = self.link_bytes_per_second if stride < self.gpus_per_domain else self._gpu_bytes_per_second
        return num_bytes / rate

    @property
    def _gpu_bytes_per_second(self) -> float:
        return self.node_bytes_per_second / self.gpus_per_node

    def _ranks_in_domain(self, num_ranks: int, stride: int) -> int:
        return max(1, min(num_ranks, self.gpus_per_domain // stride))

    def _bytes_per_second(self, num_ranks: int, stride: int) -> float:
        near = self._ranks_in_domain(num_ranks, stride)
        if near == num_ranks:
            return self.link_bytes_per_second
        return min(self.link_bytes_per_second, self._gpu_bytes_per_second * near)
