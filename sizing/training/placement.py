"""Which parts of the training state each framework can keep off the GPU, and what then stays on it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from sizing.errors import InvalidInput
from sizing.layout import Parallelism
from sizing.layout.sharding import (
    ZERO_STAGE_OF_GRADIENTS,
    ZERO_STAGE_OF_OPTIMIZER,
    ZERO_STAGE_OF_WEIGHTS,
    has_distributed_optimizer,
    zero_stage_of,
)
from sizing.state import Training
from sizing.state.offload import Offload, Place
from sizing.state.saved_state import PartName
from sizing.state.training import Framework

FP32_BYTES = 4
"""Of a gradient that an optimizer on the host takes. Source: OFFLOAD_RULES."""

HostGradients = Literal["none", "as computed", "fp32"]


@dataclass(frozen=True, slots=True)
class OffloadRule:
    """What a framework can keep off the GPU.

    `optimizer`, `weights`: the places that it knows beside the GPU. `takes_fraction`: whether a part of the optimizer
    can stay. `is_joint`: optimizer, gradients and weights go together. `gradients_leave`: reduced gradients do not stay
    on the GPU. `host_gradients`: what the optimizer keeps of them where it is. `updates_on_gpu`: the state comes in for
    the update. `overlaps_update`: the CPUs update part by part, while the link carries other parts.
    `moves_activations`: of what is not computed again too, so that the layout search may ask for it. `flag`: how the
    framework is told of the state.
    """

    optimizer: tuple[Place, ...]
    weights: tuple[Place, ...]
    flag: str
    source: str
    takes_fraction: bool = False
    is_joint: bool = False
    gradients_leave: bool = False
    host_gradients: HostGradients = "none"
    updates_on_gpu: bool = False
    overlaps_update: bool = False
    moves_activations: bool = False


_FSDP = OffloadRule(
    optimizer=("host",),
    weights=("host",),
    is_joint=True,
    gradients_leave=True,
    host_gradients="as computed",
    moves_activations=True,
    flag="CPUOffloadPolicy",
    source="PyTorch, torch/distributed/fsdp, CPUOffloadPolicy: parameters, gradients and optimizer lie on the host; "
    "torch.autograd.graph.save_on_cpu for activations",
)

OFFLOAD_RULES: dict[Framework, OffloadRule] = {
    "deepspeed": OffloadRule(
        optimizer=("host", "nvme"),
        weights=("host", "nvme"),
        takes_fraction=True,
        gradients_leave=True,
        host_gradients="fp32",
        overlaps_update=True,
        flag="offload_optimizer and offload_param",
        source="Ren et al. 2021, arXiv 2101.06840; Rajbhandari et al. 2021, arXiv 2104.07857; DeepSpeed 0.19, "
        "runtime/zero/config.py, offload_config.py, estimate_zero3_model_states_mem_needs, which counts fp32 gradients",
    ),
    "megatron": OffloadRule(
        optimizer=("host",),
        weights=(),
        takes_fraction=True,
        host_gradients="fp32",
        moves_activations=True,
        flag="--optimizer-cpu-offload",
        source="Megatron-LM, core/optimizer/cpu_offloading/hybrid_optimizer.py, whose copies of gradients on the host "
        "have the dtype of its fp32 parameters; --fine-grained-activation-offloading",
    ),
    "fsdp2": _FSDP,
    "torchtitan": replace(_FSDP, moves_activations=False),
    "maxtext": OffloadRule(
        optimizer=("host",),
        weights=("host",),
        updates_on_gpu=True,
        moves_activations=True,
        flag="optimizer_memory_host_offload and parameter_memory_host_offload",
        source="MaxText, configs/base.yml, train.py, which puts the optimizer state on the device before the "
        "update; remat_policy for activations",
    ),
}
"""What each framework offloads, as its source says."""


@dataclass(frozen=True, slots=True)
class OnGpu:
    """The share of each part of the state that stays on the GPU; 1 of all of them without offload."""

    weights: float = 1.0
    gradients: float = 1.0
    optimizer: float = 1.0


def on_gpu(training: Training, parallelism: Parallelism) -> OnGpu:
    """What stays on the GPU.

    Raises InvalidInput where the framework cannot keep a part in the place asked for.
    """
    offload = training.offload
    if offload is None:
        return OnGpu()
    check_offload(offload, training, parallelism)
    optimizer = 1.0 if offload.optimizer == "none" else 1.0 - offload.optimizer_fraction
    return OnGpu(
        weights=1.0 if offload.weights == "none" else 0.0,
        gradients=optimizer if _gradients_leave(training, parallelism) else 1.0,
        optimizer=optimizer,
    )


def saved_off_gpu(training: Training) -> dict[PartName, float]:
    """The share of each saved part that lies in host memory or on drives of the node already when a save begins."""
    offload = training.offload
    if offload is None:
        return {}
    optimizer = 0.0 if offload.optimizer == "none" else offload.optimizer_fraction
    weights = 0.0 if offload.weights == "none" else 1.0
    return {"master": optimizer, "moments": optimizer, "weights": weights}


def host_gradient_bytes(framework: Framework, *, computed_bytes: float) -> float:
    """Bytes per parameter of the gradients that an optimizer off the GPU keeps where it is.

    Args: `computed_bytes` per parameter of those that the backward pass computes.
    Source: OFFLOAD_RULES.

    >>> [host_gradient_bytes(framework, computed_bytes=2.0) for framework in ("deepspeed", "fsdp2", "maxtext")]
    [4.0, 2.0, 0.0]
    """
    kept: dict[HostGradients, float] = {"none": 0.0, "as computed": computed_bytes, "fp32": float(FP32_BYTES)}
    return kept[OFFLOAD_RULES[framework].host_gradients]


def _gradients_leave(training: Training, parallelism: Parallelism) -> bool:
    """Whether reduced gradients leave the GPU: those that are sharded, and that no stage adds up whole."""
    if not OFFLOAD_RULES[training.framework].gradients_leave:
        return False
    if training.framework == "deepspeed":
        return zero_stage_of(parallelism) >= ZERO_STAGE_OF_GRADIENTS
    return parallelism.pipeline == 1


def check_offload(offload: Offload, training: Training, parallelism: Parallelism) -> None:
    """Raises InvalidInput where the framework cannot keep a part in the place asked for."""
    rule = OFFLOAD_RULES[training.framework]
    _check_place("optimizer", offload.optimizer, rule.optimizer, training.framework)
    _check_place("weights", offload.weights, rule.weights, training.framework)
    if offload.optimizer_fraction < 1 and not rule.takes_fraction:
        frameworks = ", ".join(name for name, each in OFFLOAD_RULES.items() if each.takes_fraction)
        raise InvalidInput.of(
            "training.offload.optimizer_fraction",
            f"must be 1 with framework {training.framework}, which offloads all of it; {frameworks} take less",
            value=offload.optimizer_fraction,
            remedy="remove it",
        )
    if rule.is_joint and (offload.optimizer == "none") != (offload.weights == "none"):
        raise InvalidInput.of(
            "training.offload",
            f"must have optimizer and weights in one place with framework {training.framework}, whose {rule.flag} "
            "moves both",
            value=f"optimizer {offload.optimizer}, weights {offload.weights}",
            remedy="give host for both, or none",
        )
    if training.framework == "deepspeed":
        _check_zero_stage(offload, zero_stage_of(parallelism))
    if training.framework == "megatron" and offload.optimizer != "none" and not has_distributed_optimizer(training):
        raise InvalidInput.of(
            "training.offload.optimizer",
            "needs training.distributed_optimizer with framework megatron, as --optimizer-cpu-offload goes with "
            "--use-precision-aware-optimizer",
            value=offload.optimizer,
            remedy="set training.distributed_optimizer to true",
        )


def _check_place(part: str, asked: Place, known: tuple[Place, ...], framework: Framework) -> None:
    if asked != "none" and asked not in known:
        raise InvalidInput.of(
            f"training.offload.{part}",
            f"must be one of {', '.join(('none', *known))} with framework {framework}",
            value=asked,
            remedy="change it or training.framework",
        )


def _check_zero_stage(offload: Offload, stage: int) -> None:
    """Source: DeepSpeed 0.19, runtime/zero/config.py: stage 3 alone knows parameters, NVMe and a ratio off the GPU."""
    needs_three = offload.weights != "none" or offload.optimizer == "nvme" or offload.optimizer_fraction < 1
    least = ZERO_STAGE_OF_WEIGHTS if needs_three else ZERO_STAGE_OF_OPTIMIZER
    if (needs_three or offload.optimizer != "none") and stage < least:
        what = "of weights, to NVMe or of a fraction" if needs_three else "of the optimizer"
        raise InvalidInput.of(
            "parallelism.zero_stage",
            f"must be {least} or more with training.offload {what} in DeepSpeed",
            value=stage,
            remedy=f"give zero_stage {least}",
        )
