"""What passes a GPU's link to its host in a step, what the host then does, and how much of it computing hides."""

from __future__ import annotations

from dataclasses import dataclass

from sizing.cluster import ResolvedNode
from sizing.cluster.node import PCIE_BYTES_PER_SECOND
from sizing.ranges import plausible_range
from sizing.state.offload import Offload

HOST_PARAMETERS_PER_SECOND = 3.9e9
"""That the CPUs of one node update: 10 billion in 2.57 s on the two processors of a DGX-2.

Source: Ren et al. 2021, arXiv 2101.06840, table 4, DeepSpeed's CPU-Adam; torch's Adam took 14.8 s there. What ranks
reach together depends on the threads that each has.
"""


@dataclass(frozen=True, slots=True)
class HostTraffic:
    """Bytes of one GPU in a step, and parameters that its host updates.

    `loaded`: weights for all forward passes, and as many again for each pass of `later_loads`. `gradients`: out beside
    the backward passes. `activations`: out beside the forward passes, and in beside the backward passes. `update_out`,
    `update_in`: when all passes have ended. `drive_loaded`, `drive_update`: what of it drives read and write.
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

    @property
    def state_bytes(self) -> float:
        """Of state alone, both ways."""
        return self.loaded * (1 + self.later_loads) + self.gradients + self.update_out + self.update_in


@dataclass(frozen=True, slots=True)
class HostRates:
    """What one GPU has of its link and of its node.

    `link`, `drives`: bytes per second, one way; `parameters` that its share of the CPUs updates per second.
    """

    link: float
    drives: float | None
    parameters: float


def host_rates(offload: Offload, node: ResolvedNode, *, num_gpus: int) -> HostRates | None:
    """As given, else the link as copies of saves are taken; None where nobody knows its rate.

    Source: `ranges.toml`, storage.profile.device_to_host_bytes_per_second; HOST_PARAMETERS_PER_SECOND.
    """
    sharing = min(node.spec.gpus_per_node, num_gpus)
    line_rate = PCIE_BYTES_PER_SECOND.get(node.spec.pcie_generation or 0)
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
    """What of it computing does not hide: max(0, c_f - f) + max(0, c_b - b) + u.

    Args: f and b seconds of all forward and backward passes of the GPU.
    c_f, c_b: what the link then carries, the longer of both ways, or the drives if they are slower. u, when the passes
    have ended: gradients out, the CPUs' update, weights back; of an update in parts that follow one another on the
    link, the drives and the CPUs, the longest. The update begins with the last gradient, without DeepSpeed's
    delayed update.
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
    waited += max(0.0, max(again, traffic.gradients / rates.link) - backward_seconds)
    out, back = traffic.update_out / rates.link, traffic.update_in / rates.link
    update = traffic.updated_parameters / rates.parameters
    drives = _drive_seconds(traffic.drive_update, rates)
    return waited + out + (max(update, back, drives) if overlaps_update else update + back + drives)


def _drive_seconds(num_bytes: float, rates: HostRates) -> float:
    return num_bytes / rates.drives if rates.drives else 0.0
