"""Weights in 8 or 4 bits count the scales of their blocks, and leave what is no matrix of a layer in 16."""

from typing import Any

import pytest
from pydantic import ValidationError

from sizing.errors import InvalidInput
from sizing.report import answer
from sizing.state import Training

LLAMA: dict[str, Any] = {"preset": "llama-3-8b"}
MATRICES = 32 * (4096 * (4096 + 1024 + 1024 + 4096) + 3 * 4096 * 14336)
"""Parameters of Llama-3-8B's layers but for their norms."""
OTHERS = 8_030_261_248 - MATRICES
WEIGHTS_ALONE = {"master": None, "moments": None}


def weights_bytes(dtype: str, **degrees: int) -> int:
    training = {"saved_state": {"weights": dtype} | WEIGHTS_ALONE}
    return answer({"model": LLAMA, "training": training, "parallelism": degrees}).checkpoint.total_bytes


@pytest.mark.parametrize(
    ("dtype", "bits"),
    [("fp8-block", 8 + 32 / 128**2), ("mxfp8", 8 + 8 / 32), ("mxfp4", 4 + 8 / 32), ("nvfp4", 4 + 8 / 16)],
)
def test_a_block_format_takes_its_bits_and_scales_of_matrices(dtype: str, bits: float) -> None:
    tensor_scales = 32 * 7 * 4 if dtype == "nvfp4" else 0
    assert weights_bytes(dtype) == MATRICES * bits / 8 + tensor_scales + 2 * OTHERS


def test_tensor_ranks_keep_the_scales_of_their_blocks() -> None:
    """Sides of Llama's matrices are whole blocks on 8 ranks."""
    assert weights_bytes("mxfp8", tensor=8, data=1) == weights_bytes("mxfp8")


@pytest.mark.parametrize("part", ["master", "moments", "ema"])
def test_only_weights_have_scales(part: str) -> None:
    with pytest.raises(ValidationError, match=part):
        Training.model_validate({"saved_state": {part: "mxfp8"}})


@pytest.mark.parametrize("precision", ["fp8-mixed", "mxfp8-mixed", "nvfp4-mixed"])
@pytest.mark.parametrize(("framework", "bytes_per_parameter"), [("megatron", 14), ("fsdp2", 12), ("torchtitan", 12)])
def test_training_in_few_bits_saves_the_weights_that_it_rounds(
    framework: str, bytes_per_parameter: int, precision: str
) -> None:
    training = {"framework": framework, "precision": precision}
    assert answer({"model": LLAMA, "training": training}).checkpoint.bytes_per_parameter == bytes_per_parameter


def test_a_framework_without_fp8_says_what_it_has() -> None:
    with pytest.raises(InvalidInput, match="must be one of bf16-mixed, fp16-mixed, fp32 with framework deepspeed"):
        answer({"model": LLAMA, "training": {"framework": "deepspeed", "precision": "fp8-mixed"}})
