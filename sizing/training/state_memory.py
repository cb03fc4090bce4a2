"""Training state of a rank: its bytes on the GPU and off it, and the traffic between GPU and host."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from sizing.errors import InvalidInput
from sizing.frameworks import FRAMEWORKS, resident_parts, resident_statistics
from sizing.frameworks.framework import HostGradients
from sizing.frameworks.saved_parts import copy_dtype
from sizing.layout import Parallelism
from sizing.layout.holders import Content, HolderClass
from sizing.layout.sharding import (
    ZERO_STAGE_OF_GRADIENTS,
    ZERO_STAGE_OF_OPTIMIZER,
    ZERO_STAGE_OF_WEIGHTS,
    Sharding,
    has_distributed_optimizer,
    zero_stage_of,
)
from sizing.state import StatePart, Training
from sizing.state.offload import Offload, Place
from sizing.state.saved_state import PartName
from sizing.state.scaled_dtypes import QUANTIZED_BYTES
from sizing.state.training import FrameworkName
from sizing.training.execution import value_bytes
from sizing.training.links import HostTraffic, num_reductions

FP32_BYTES = 4
"""Bytes of a gradient that an optimizer on the host takes. Source: `offload` of each framework."""


@dataclass(frozen=True, slots=True)
class OnGpu:
    """Share of each part of the state that stays on the GPU; 1 for every part without offload."""

    weights: float = 1.0
    gradients: float = 1.0
    optimizer: float = 1.0


def on_gpu(training: Training, parallelism: Parallelism) -> OnGpu:
    """Return the share of each part of the state that stays on the GPU, as `training.offload` says.

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
    """Return the share of each saved part that already lies in host memory or on NVMe drives when a save begins."""
    offload = training.offload
    if offload is None:
        return {}
    optimizer = 0.0 if offload.optimizer == "none" else offload.optimizer_fraction
    weights = 0.0 if offload.weights == "none" else 1.0
    return {"master": optimizer, "moments": optimizer, "weights": weights}


def host_gradient_bytes(framework: FrameworkName, *, computed_bytes: float) -> float:
    """Return the bytes per parameter of the gradients that an optimizer off the GPU keeps beside it.

    Args: `computed_bytes` per parameter of those that the backward pass computes.
    Source: `offload` of each framework.

    >>> [host_gradient_bytes(name, computed_bytes=2.0) for name in ("deepspeed", "fsdp2", "maxtext")]
    [4.0, 2.0, 0.0]
    """
    kept: dict[HostGradients, float] = {"none": 0.0, "as computed": computed_bytes, "fp32": float(FP32_BYTES)}
    return kept[FRAMEWORKS[framework].offload.host_gradients]


def _gradients_leave(training: Training, parallelism: Parallelism) -> bool:
    """Tell whether reduced gradients leave the GPU: only sharded ones that no pipeline stage accumulates whole."""
    framework = FRAMEWORKS[training.framework]
    if not framework.offload.gradients_leave:
        return False
    if framework.shards == "zero":
        return zero_stage_of(parallelism) >= ZERO_STAGE_OF_GRADIENTS
    return parallelism.pipeline == 1


def check_offload(offload: Offload, training: Training, parallelism: Parallelism) -> None:
    """Raise InvalidInput where the framework cannot keep a part in the place asked for."""
    rule = FRAMEWORKS[training.framework].offload
    _check_place("optimizer", offload.optimizer, rule.optimizer, training.framework)
    _check_place("weights", offload.weights, rule.weights, training.framework)
    if offload.optimizer_fraction < 1 and not rule.takes_fraction:
        frameworks = ", ".join(sorted(name for name, each in FRAMEWORKS.items() if each.offload.takes_fraction))
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
    if FRAMEWORKS[training.framework].shards == "zero":
        _check_zero_stage(offload, zero_stage_of(parallelism))
    needs = rule.needs_distributed_optimizer
    if needs is not None and offload.optimizer != "none" and not has_distributed_optimizer(training):
        raise InvalidInput.of(
            "training.offload.optimizer",
            f"needs training.distributed_optimizer with framework {training.framework}, as {rule.flag} goes with "
            f"{needs}",
            value=offload.optimizer,
            remedy="set training.distributed_optimizer to true",
        )


def _check_place(part: str, place: Place, places: tuple[Place, ...], framework: FrameworkName) -> None:
    """Raise InvalidInput where the framework does not keep a part in this place."""
    if place != "none" and place not in places:
        raise InvalidInput.of(
            f"training.offload.{part}",
            f"must be one of {', '.join(('none', *places))} with framework {framework}",
            value=place,
            remedy="change it or training.framework",
        )


def _check_zero_stage(offload: Offload, stage: int) -> None:
    """Raise InvalidInput where the ZeRO stage is too low for the offload.

    Source: DeepSpeed 0.19, runtime/zero/config.py: stage 3 alone knows parameters, NVMe and a ratio off the GPU.
    """
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


@dataclass(frozen=True, slots=True)
class FrozenBytes:
    """Bytes per parameter of frozen weights: of matrices of layers, of others, and of the matrices' scales.

    Every rank has all scales: bitsandbytes keeps them beside the parameter, and FSDP and ZeRO 3 divide parameters alone
    (bitsandbytes 0.50, nn/modules.py, fix_4bit_weight_quant_state_from_module).
    """

    matrix: float
    other: float
    scales: float = 0.0

    @classmethod
    def of(cls, weights: StatePart) -> FrozenBytes:
        """Return the bytes of frozen weights that a rank keeps as a part of the state says."""
        kept = weights.of_frozen
        matrix, other = (
            kept.tensor_bytes(_LARGE, role=role) / math.prod(_LARGE) for role in ("hidden-matrix", "embedding")
        )
        values = QUANTIZED_BYTES.get(kept.dtype, matrix)
        return cls(values, other, matrix - values)

    def times(self, fraction: float) -> FrozenBytes:
        """Return the bytes of a share of these weights."""
        return FrozenBytes(self.matrix * fraction, self.other * fraction, self.scales * fraction)


HALF_WIDTH = 0.5
"""Bytes of weights, gradients and moments in bf16 over those in fp32."""
_LARGE = (4096, 4096)
"""Shape so large that rows and columns do not count."""


@dataclass(frozen=True, slots=True)
class StateRule:
    """Bytes per parameter of each part of the state, and the number of ranks that divide it.

    `weights`: of trained ones, and of `frozen` ones where these have none of their own. `gathered`: bytes per parameter
    of the weights that a stage keeps whole beside their shard. `copied_fraction`: what copies that are trained whole
    beside adapters take of each part, over what other trained weights take. `statistics`: share that is kept of the
    optimizer's statistics whose bytes contents count, where `optimizer` cannot.
    """

    weights: float
    gradients: float
    optimizer: float
    sharding: Sharding
    gathered: float = 0.0
    frozen: FrozenBytes | None = None
    copied_fraction: float = 1.0
    statistics: float = 0.0

    @classmethod
    def of(cls, training: Training, sharding: Sharding) -> StateRule:
        """Return the rule of a framework for this training and sharding."""
        statistics = resident_statistics(training, is_sharded=sharding.weights.dense > 1)
        parts = resident_parts(training, copies_fp32_weights=sharding.copies_fp32_weights)
        per_parameter = {
            part.name: part.tensor_bytes(_LARGE, role="hidden-matrix") / math.prod(_LARGE)
            for part in parts
            if part.name != "moments" or not statistics
        }
        weights = per_parameter["weights"]
        gradients = FRAMEWORKS[training.framework].keeps[training.precision]
        of_copies = copy_dtype(training, is_sharded=sharding.weights.dense > 1)
        return cls(
            weights=weights,
            gradients=gradients.gradient_bytes,
            optimizer=sum(per_parameter.values()) - weights + gradients.optimizer_gradient_bytes,
            sharding=sharding,
            gathered=value_bytes(training) if sharding.gathers == "stages" else 0.0,
            frozen=next((FrozenBytes.of(part) for part in parts if part.frozen_dtype is not None), None),
            copied_fraction=HALF_WIDTH if of_copies else 1.0,
            statistics=1.0 if statistics else 0.0,
        )

    def kept(self, share: OnGpu) -> StateRule:
        """Return the rule of what stays on the GPU with offload. Weights that a stage gathers stay."""
        return replace(
            self,
            weights=self.weights * share.weights,
            gradients=self.gradients * share.gradients,
            optimizer=self.optimizer * share.optimizer,
            statistics=self.statistics * share.optimizer,
            frozen=self.frozen and self.frozen.times(share.weights),
        )

    def rank_bytes(self, dense: Content, expert: Content) -> float:
        """Return the state bytes of a rank that holds these dense and expert tensors."""
        shared = self.sharding
        return self._bytes(
            dense, weights=shared.weights.dense, gradients=shared.gradients.dense, optimizer=shared.optimizer.dense
        ) + self._bytes(
            expert, weights=shared.weights.expert, gradients=shared.gradients.expert, optimizer=shared.optimizer.expert
        )

    def version_bytes(self, dense: Content, expert: Content) -> float:
        """Return the bytes of one more version of the trained weights on such a rank."""
        divided = dense.trained_parameters / self.sharding.weights.dense
        return self.weights * (divided + expert.trained_parameters / self.sharding.weights.expert)

    def _bytes(self, content: Content, *, weights: int, gradients: int, optimizer: int) -> float:
        """Return the bytes of the fullest rank of a content, each part divided over its number of ranks."""
        frozen = self.frozen or FrozenBytes(self.weights, self.weights)

        def trained_over(num_ranks: int) -> float:
            held, equal_shares = _held(content, num_ranks)
            return (held.trained_parameters - (1 - self.copied_fraction) * held.copied_parameters) / equal_shares

        statistics_bytes = 0.0
        if self.statistics:
            held, equal_shares = _held(content, optimizer)
            statistics_bytes = self.statistics * held.statistics_bytes / equal_shares
        held, equal_shares = _held(content, weights)
        num_matrix = held.frozen_matrix_parameters
        num_other = held.parameters - held.trained_parameters - num_matrix
        return (
            trained_over(optimizer) * self.optimizer
            + statistics_bytes
            + trained_over(gradients) * self.gradients
            + trained_over(weights) * self.weights
            + (num_matrix * frozen.matrix + num_other * frozen.other) / equal_shares
            + content.frozen_matrix_parameters * frozen.scales
            + content.parameters * self.gathered
        )


def _held(content: Content, num_ranks: int) -> tuple[Content, int]:
    """Return what the fullest of the ranks holds that divide a content, and the number of its equal shares."""
    return (content, num_ranks) if content.fullest is None or num_ranks == 1 else (content.fullest, 1)


def host_traffic(
    training: Training,
    parallelism: Parallelism,
    *,
    holders: Sequence[HolderClass],
    rule: StateRule,
    num_microbatches: int,
    activations: float = 0.0,
) -> HostTraffic | None:
    """Return the traffic between the fullest GPU and its host in a step; None where nothing is offloaded.

    Args: `rule` of the state without offload; `activations` bytes of a step that are offloaded.
    Weights off the GPU come in forward and backward for each microbatch, or once where a pipeline stage keeps them
    gathered; a layer that is computed again has its gradients computed from the same weights. An optimizer off the GPU
    takes the gradients, and gives the weights back where those stay; one that updates on the GPU all the same comes in
    and goes out whole. Gradients that leave beside the backward passes do so as often as they are reduced, and are
    added up as HostAccumulation says.
    Source: Ren et al. 2021, arXiv 2101.06840, section 4.1; Rajbhandari et al. 2021, arXiv 2104.07857, section 4.1;
    `offload` of each framework; of layers that are computed again PyTorch 2.13, _fsdp_state.py, _post_forward, and
    DeepSpeed 0.19.8, stage3_max_reuse_distance, 1e9 parameters.
    """
    offload = training.offload
    if offload is None:
        return None
    framework, share = FRAMEWORKS[training.framework].offload, on_gpu(training, parallelism)
    share_off_gpu, has_weights = 1.0 - share.optimizer, offload.weights != "none"

    def max_rank_bytes(*, weights: float = 0.0, optimizer: float = 0.0, statistics: float = 0.0) -> float:
        frozen = rule.frozen if weights else None
        per_parameter = StateRule(weights, 0.0, optimizer, rule.sharding, frozen=frozen, statistics=statistics)
        return max(per_parameter.rank_bytes(holder.dense, holder.expert) for holder in holders)

    state = max_rank_bytes(optimizer=rule.optimizer * share_off_gpu, statistics=rule.statistics * share_off_gpu)
    gathers_once = rule.sharding.gathers == "stages"
    weights_in = max_rank_bytes(weights=rule.weights) if has_weights else 0.0
    weights_in *= 1 if gathers_once else num_microbatches
    host_gradients = host_gradient_bytes(training.framework, computed_bytes=rule.gradients)
    of_microbatch = max_rank_bytes(optimizer=rule.gradients * share_off_gpu)
    gradients_out = gradients_back = gradients_waited = 0.0
    update_out = of_microbatch
    update_in = 0.0 if has_weights else max_rank_bytes(optimizer=rule.weights * share_off_gpu)
    if framework.updates_on_gpu:
        update_out = update_in = state
    elif share.gradients < 1:
        num_copies = num_reductions(training, rule.sharding, num_microbatches=num_microbatches)
        update_out = 0.0
        if framework.adds_gradients == "on the host":
            gradients_out, gradients_waited = of_microbatch, (num_copies - 1) * of_microbatch
        else:
            has_buffer = rule.sharding.gathers == "modules"
            num_sums = num_copies if has_buffer or num_copies > 1 else 0
            gradients_out = num_sums * of_microbatch + max_rank_bytes(optimizer=host_gradients * share_off_gpu)
            gradients_back = (num_copies if has_buffer else num_copies - 1) * of_microbatch
    weights_out = 0.0
    if has_weights and (not share_off_gpu or framework.updates_on_gpu):
        weights_out = max_rank_bytes(weights=rule.weights)
    bytes_on_drives = state + max_rank_bytes(optimizer=host_gradients * share_off_gpu)
    return HostTraffic(
        loaded=weights_in,
        later_loads=0 if gathers_once else 1,
        gradients=gradients_out,
        activations=activations,
        update_out=update_out + weights_out,
        update_in=update_in,
        updated_parameters=0.0 if framework.updates_on_gpu else max_rank_bytes(optimizer=share_off_gpu),
        drive_loaded=weights_in if offload.weights == "nvme" else 0.0,
        drive_update=2.0 * bytes_on_drives if offload.optimizer == "nvme" else 0.0,
        gradients_back=gradients_back,
        gradients_waited=gradients_waited,
    )


def state_bytes_off_gpu(
    training: Training, parallelism: Parallelism, *, place: str, holders: Sequence[HolderClass], rule: StateRule
) -> float:
    """Return the bytes of state that the fullest rank has in a place off the GPU, with gradients kept there.

    Args: `rule` of the state without offload.
    Source: `offload` of each framework; gradients that the optimizer takes are divided as it is.

    >>> from sizing.report import answer
    >>> training = {"framework": "deepspeed", "offload": {"optimizer": "host"}}
    >>> degrees, cluster = {"data": 8, "zero_stage": 2}, {"node": "dgx-h100"}
    >>> model = {"preset": "llama-3.1-8b"}
    >>> report = answer({"model": model, "training": training, "parallelism": degrees, "cluster": cluster})
    >>> report.offload.host_bytes / 8_030_261_248
    16.0
    """
    offload, share = training.offload, on_gpu(training, parallelism)
    if offload is None:
        return 0.0
    is_off_gpu = (1.0 - share.weights) * (offload.weights == place)
    optimizer = statistics = 0.0
    if offload.optimizer == place:
        gradients = host_gradient_bytes(training.framework, computed_bytes=rule.gradients)
        optimizer = (rule.optimizer + gradients) * (1 - share.optimizer)
        statistics = rule.statistics * (1 - share.optimizer)
    frozen = rule.frozen and rule.frozen.times(is_off_gpu)
    weights = rule.weights * is_off_gpu
    per_parameter = StateRule(weights, 0.0, optimizer, rule.sharding, frozen=frozen, statistics=statistics)
    return max(per_parameter.rank_bytes(holder.dense, holder.expert) for holder in holders)
