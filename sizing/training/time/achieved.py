"""What GPUs achieve of their peak rates, as given or as published, read from `achieved.toml` beside this file."""

from __future__ import annotations

import functools
import tomllib
from dataclasses import dataclass
from importlib import resources
from typing import Any

from sizing.state import Training
from sizing.state.training import Achieved, Precision

LINKS_FRACTION = 0.67
"""Of all-gathers and reduce-scatters between 8 GPUs. Source: SimuMax, configs/system/b200_bf16_ceperm.json."""
NETWORK_FRACTION = 0.8
"""A guess between 0.6 (SimuMax, configs/system/a100_pcie.json) and 1 (the same for B200), the midpoint."""
FP8_OF_BF16 = 0.88
"""Of the fraction in bf16. Source: Bekman, Machine Learning Engineering: at most 0.71 of peak in FP8, 0.80 in BF16."""
BLOCK_SCALED_OVER_BF16: dict[Precision, float] = {"mxfp8-mixed": 1.44, "nvfp4-mixed": 2.03}
"""Speed of the twelve products of a layer, with the scales found and applied: a 5B model on B300. Larger matrices gain
more. Source: NVIDIA, Transformer Engine, documentation, "GEMM Speedups Across Precisions"."""
_FRAMEWORKS_OF_TORCH = ("fsdp2", "torchtitan", "deepspeed")
"""Their attention is torch's scaled_dot_product_attention."""
_KINDS = ("matrices", "experts", "attention", "memory")


@dataclass(frozen=True, slots=True)
class AchievedRates:
    """Fractions of peak by kind of work."""

    matrices: float
    experts: float
    attention: float
    memory: float
    links: float
    network: float
    overlap: float


@functools.cache
def published_fractions() -> dict[str, dict[str, Any]]:
    """Fractions with their sources, by GPU."""
    text = resources.files(__package__).joinpath("achieved.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def achieved_rates(training: Training, gpu: str, *, hides_exchange: bool) -> AchievedRates:
    """The scenario's fractions, else those of the GPU.

    >>> achieved_rates(Training(), "b200", hides_exchange=False).matrices
    0.48
    """
    given = training.achieved or Achieved()
    by_gpu = published_fractions()[gpu]
    if training.framework in _FRAMEWORKS_OF_TORCH and "attention_of_torch" in by_gpu:
        by_gpu = by_gpu | {"attention": by_gpu["attention_of_torch"]}
    kinds = {name: by_gpu[name] if (said := getattr(given, name)) is None else said for name in _KINDS}
    return AchievedRates(
        **kinds,
        links=LINKS_FRACTION if given.links is None else given.links,
        network=NETWORK_FRACTION if given.network is None else given.network,
        overlap=float(hides_exchange) if given.overlap is None else given.overlap,
    )
