"""Rates that GPUs achieve by kind of work: peak rates x fractions, given or published in `achieved.toml`."""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import resources
from typing import Any, NamedTuple

from sizing.cluster.node import gpu_catalog, gpu_named
from sizing.errors import InvalidInput
from sizing.frameworks import FRAMEWORKS
from sizing.provenance import Assumption
from sizing.state import Training
from sizing.state.training import Achieved, Precision
from sizing.training.step_errors import MIN_RUNS, step_errors

LINKS_FRACTION = 0.67
"""Fraction that all-gathers between 8 GPUs achieve. Source: SimuMax, configs/system/b200_bf16_ceperm.json."""
NETWORK_FRACTION = 0.8
"""A guess between 0.6 (SimuMax, configs/system/a100_pcie.json) and 1 (the same for B200), the midpoint."""
BLOCK_SCALED_RANGES: dict[Precision, tuple[float, float]] = {"mxfp8-mixed": (1.44, 2.0), "nvfp4-mixed": (2.03, 4.0)}
"""Speed of matrix products over bf16, with the scales found and applied: guesses, of which the midpoint is taken.

From what the twelve products of a layer gain in a 5B model on B300, "larger matrices gain more" (NVIDIA, Transformer
Engine, documentation, "GEMM Speedups Across Precisions"), to the ratio of the peak rates.
"""
_KINDS = ("matrices", "experts", "attention", "memory")


@dataclass(frozen=True, slots=True)
class AchievedRates:
    """Fractions of a GPU's peak that each kind of work achieves."""

    matrices: float
    experts: float
    attention: float
    memory: float
    links: float
    network: float


@functools.cache
def published_fractions() -> dict[str, dict[str, Any]]:
    """Return the fractions of its peak that each GPU achieves, with their sources, by its name."""
    text = resources.files(__package__).joinpath("achieved.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def achieved_rates(training: Training, gpu: str) -> AchievedRates:
    """Return the fractions of peak that the scenario gives, else those published for the GPU.

    >>> achieved_rates(Training(), "b200").matrices
    0.48
    """
    given = training.achieved or Achieved()
    by_gpu = published_fractions()[gpu]
    if FRAMEWORKS[training.framework].attention_of_torch and "attention_of_torch" in by_gpu:
        by_gpu = by_gpu | {"attention": by_gpu["attention_of_torch"]}
    kinds = {name: by_gpu[name] if getattr(given, name) is None else getattr(given, name) for name in _KINDS}
    return AchievedRates(
        **kinds,
        links=LINKS_FRACTION if given.links is None else given.links,
        network=NETWORK_FRACTION if given.network is None else given.network,
    )


class FractionGuess(NamedTuple):
    """Fraction of its peak that matrix products of a GPU achieve where no run measured it: a guess and its range."""

    value: float
    low: float
    high: float
    source: str


def guessed_fraction(training: Training, gpu: str) -> FractionGuess | None:
    """Return what products of a GPU are guessed to achieve; None where it is given or several runs were measured.

    >>> guessed_fraction(Training(), "tpu-v5p")[:3]
    (0.61, 0.319, 0.901)
    >>> guessed_fraction(Training(), "h100")
    """
    row = published_fractions()[gpu]
    is_given = training.achieved is not None and training.achieved.matrices is not None
    if is_given or not row.get("guess") or step_errors().num_runs_on(gpu) >= MIN_RUNS:
        return None
    return FractionGuess(row["matrices"], row["low"], row["high"], row["source"])


def rate_assumptions(training: Training, gpu: str) -> Iterator[Assumption]:
    """Yield the fraction of peak that is guessed for a GPU on which no run was measured."""
    guess = guessed_fraction(training, gpu)
    if guess is not None:
        reason = f"a guess, from {guess.low} to {guess.high}: {guess.source}"
        yield Assumption(field="training.achieved.matrices", value=guess.value, reason=reason)


COMMUNICATION_SHARE = 20 / 132
"""Share of a GPU's multiprocessors that send while others compute, so that computing takes longer.

Source: DeepSeek-AI 2024, arXiv 2412.19437, section 3.2.2: 20 of the 132 of an H800; Transformer Engine's userbuffers
take 16 (NVIDIA-NeMo/Megatron-Bridge, docs/performance-guide.md).
"""


@dataclass(frozen=True, slots=True)
class GpuRates:
    """Rates that a GPU achieves, by kind of work; `communication_share`: of it that sends while the rest computes."""

    layer_flops: float
    expert_flops: float
    head_flops: float
    attention_flops: float
    memory_bytes_per_second: float
    peak_flops: float
    communication_share: float


def gpu_rates(training: Training, name: str, rates: AchievedRates) -> GpuRates:
    """Return the rates of a GPU in a training. 8 and 4 bits speed up layers alone; fp32 computes in TF32, half of bf16.

    Raises InvalidInput for a format of blocks that the GPU does not compute in.
    """
    gpu = gpu_named(name)
    peak = gpu.bf16_flops_per_second
    of_layers, share = peak, 1.0
    if training.precision == "fp8-mixed" and gpu.fp8_flops_per_second is not None:
        of_layers, share = gpu.fp8_flops_per_second, published_fractions()[name]["fp8_of_bf16"]
    elif training.precision in BLOCK_SCALED_RANGES:
        if training.precision not in gpu.block_precisions:
            able = ", ".join(
                name for name, each in gpu_catalog().items() if training.precision in each.block_precisions
            )
            raise InvalidInput.of(
                "training.precision",
                f"must be one in which {gpu.name} computes; matrix products with a scale for each block need {able}",
                value=training.precision,
                remedy="take fp8-mixed or bf16-mixed, or other nodes",
            )
        share = sum(BLOCK_SCALED_RANGES[training.precision]) / 2
    elif training.precision == "fp32":
        of_layers = peak = peak / 2
    return GpuRates(
        layer_flops=of_layers * share * rates.matrices,
        expert_flops=of_layers * share * rates.experts,
        head_flops=peak * rates.matrices,
        attention_flops=peak * rates.attention,
        memory_bytes_per_second=gpu.memory_bytes_per_second * rates.memory,
        peak_flops=gpu.bf16_flops_per_second,
        communication_share=0.0 if gpu.sends_by_own_engines else COMMUNICATION_SHARE,
    )
