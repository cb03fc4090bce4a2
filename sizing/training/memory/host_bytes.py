"""How much of the state and the activations passes the link between a GPU and its host in a step."""

from __future__ import annotations

from collections.abc import Sequence

from sizing.layout import Parallelism
from sizing.layout.cells import Cell
from sizing.state import Training
from sizing.training.memory.state_memory import StateRule
from sizing.training.placement import OFFLOAD_RULES, host_gradient_bytes, on_gpu
from sizing.training.time.host_traffic import HostTraffic

FORWARD_AND_BACKWARD = 2
"""Passes over the weights for one microbatch. Source: Rajbhandari et al. 2021, arXiv 2104.07857, section 4.1; computing
again adds one."""


def host_traffic(
    training: Training,
    parallelism: Parallelism,
    *,
    cells: Sequence[Cell],
    rule: StateRule,
    num_microbatches: int,
    computes_again: bool,
    activations: float = 0.0,
) -> HostTraffic | None:
    """Of the fullest GPU; None where nothing is offloaded.

    Args: `rule` of the state without offload; `activations` bytes of a step that are offloaded.
    Weights off the GPU come in for each pass of each microbatch. An optimizer off the GPU takes the gradients, and
    gives the weights back where those stay; one that updates on the GPU all the same comes in and goes out whole.
    Source: Ren et al. 2021, arXiv 2101.06840, section 4.1; Rajbhandari et al. 2021, arXiv 2104.07857, section 4.1;
    OFFLOAD_RULES.
    """
    offload = training.offload
    if offload is None:
        return None
    framework, share = OFFLOAD_RULES[training.framework], on_gpu(training, parallelism)
    moved, has_weights = 1.0 - share.optimizer, offload.weights != "none"

    def fullest(*, weights: float = 0.0, optimizer: float = 0.0) -> float:
        asked = StateRule(weights=weights, gradients=0.0, optimizer=optimizer, sharding=rule.sharding)
        return max(asked.rank_bytes(cell.dense, cell.expert) for cell in cells)

    state = fullest(optimizer=rule.optimizer * moved)
    gradients = fullest(optimizer=rule.gradients * moved)
    on_the_way = gradients if share.gradients < 1 else 0.0
    loaded = fullest(weights=rule.weights) * num_microbatches if has_weights else 0.0
    returned = 0.0 if has_weights else fullest(optimizer=rule.weights * moved)
    if framework.updates_on_gpu:
        on_the_way, gradients, returned = 0.0, state, state
    written_back = fullest(weights=rule.weights) if has_weights and (not moved or framework.updates_on_gpu) else 0.0
    host_gradients = host_gradient_bytes(training.framework, computed_bytes=rule.gradients)
    kept = state + fullest(optimizer=host_gradients * moved)
    return HostTraffic(
        loaded=loaded,
        later_loads=FORWARD_AND_BACKWARD - 1 + computes_again,
        gradients=on_the_way,
        activations=activations,
        update_out=gradients - on_the_way + written_back,
        update_in=returned,
        updated_parameters=0.0 if framework.updates_on_gpu else fullest(optimizer=moved),
        drive_loaded=loaded if offload.weights == "nvme" else 0.0,
        drive_update=2.0 * kept if offload.optimizer == "nvme" else 0.0,
    )


def state_bytes_off_gpu(
    training: Training, parallelism: Parallelism, *, place: str, cells: Sequence[Cell], rule: StateRule
) -> float:
    """Bytes of state of the fullest rank that lie in a place off the GPU, gradients of an optimizer there among them.

    Args: `rule` of the state without offload.
    Source: OFFLOAD_RULES; gradients that the optimizer takes are divided as it is.

    >>> from sizing.report import answer
    >>> training = {"framework": "deepspeed", "offload": {"optimizer": "host"}}
    >>> degrees, cluster = {"data": 8, "zero_stage": 2}, {"node": "dgx-h100"}
    >>> asked = {"model": {"preset": "llama-3.1-8b"}, "training": training, "parallelism": degrees, "cluster": cluster}
    >>> answer(asked).offload.host_bytes / 8_030_261_248
    16.0
    """
    offload, share = training.offload, on_gpu(training, parallelism)
    if offload is None:
        return 0.0
    weights = rule.weights * (1 - share.weights) if offload.weights == place else 0.0
    optimizer = 0.0
    if offload.optimizer == place:
        gradients = host_gradient_bytes(training.framework, computed_bytes=rule.gradients)
        optimizer = (rule.optimizer + gradients) * (1 - share.optimizer)
    moved = StateRule(weights=weights, gradients=0.0, optimizer=optimizer, sharding=rule.sharding)
    return max(moved.rank_bytes(cell.dense, cell.expert) for cell in cells)
