"""What is saved per parameter follows framework, precision and optimizer, and can be overridden."""

from typing import Any

import pytest

from sizing.published import published
from sizing.state import Training, resident_parts, saved_parts
from sizing.training.gpu_memory import GRADIENT_BYTES_PER_PARAMETER


def bytes_per_parameter(**training: Any) -> float:
    return sum(part.bytes_per_parameter for part in saved_parts(Training.model_validate(training)))


def published_total(recipe: str) -> int:
    rows = published("optimizer_state_bytes")["recipes_total_bytes_per_parameter"]
    total: int = next(row["total"] for row in rows if row["recipe"].startswith(recipe))
    return total


def test_mixed_precision_adam_saves_what_megatron_runs_published() -> None:
    published_bytes = published_total("bf16/fp16 weights + fp32 master + adam (Megatron")
    assert bytes_per_parameter() == published_bytes == 14
    assert bytes_per_parameter(precision="fp16-mixed") == published_bytes


def test_fp32_adam_keeps_no_master_copy() -> None:
    assert bytes_per_parameter(precision="fp32") == published_total("fp32 adam")


def test_one_moment_instead_of_two_saves_four_bytes() -> None:
    assert bytes_per_parameter(optimizer="sgd-momentum") == published_total("bf16 + master + lion")


@pytest.mark.parametrize(
    ("saved_state", "recipe"),
    [
        ({"weights": None}, "fp32 master + adam, low-precision weights not saved"),
        ({"master": None}, "fp16 weights + fp32 m, v, no master (OPT-175B)"),
        ({"master": None, "moments": "bf16"}, "pure bf16 adam"),
    ],
)
def test_an_override_takes_a_part_out_or_changes_its_dtype(saved_state: dict[str, Any], recipe: str) -> None:
    assert bytes_per_parameter(saved_state=saved_state) == published_total(recipe)


def test_an_average_of_the_weights_adds_its_dtype() -> None:
    assert bytes_per_parameter(saved_state={"ema": "fp32"}) == 18


def test_a_part_that_an_override_does_not_name_keeps_its_habit() -> None:
    parts = saved_parts(Training.model_validate({"saved_state": {"weights": "fp8"}}))
    assert [(part.name, part.dtype) for part in parts] == [
        ("weights", "fp8"),
        ("master", "fp32"),
        ("moments", "fp32"),
    ]


@pytest.mark.parametrize("precision", ["bf16-mixed", "fp16-mixed", "fp32"])
def test_memory_counts_gradients_as_the_megatron_documentation_does(precision: Any) -> None:
    rows = published("zero_model_state_memory")["megatron_bytes_per_parameter"]
    dtype = {"bf16-mixed": "bf16", "fp16-mixed": "fp16", "fp32": "fp32"}[precision]
    plain = next(row["plain"] for row in rows if row["parameters"] == dtype)
    kept = sum(part.bytes_per_parameter for part in resident_parts(Training(precision=precision)))
    assert kept + GRADIENT_BYTES_PER_PARAMETER[precision] == plain
