"""What is saved per parameter follows framework, precision and optimizer, and can be overridden."""

from typing import Any, get_args

import pytest
from pydantic import ValidationError

from sizing.errors import InvalidInput
from sizing.frameworks import saved_parts
from sizing.layout.size import group_bytes
from sizing.model import num_parameters
from sizing.model.inventory import inventory_of
from sizing.published import published
from sizing.report import SizingReport, answer
from sizing.scenario import scenario_from
from sizing.state import Training
from sizing.state.optimizers import Optimizer
from sizing.validation.optimizer_states import MEASURED_OPTIMIZERS, MEASURED_SHAPE, moment_bytes_per_parameter

LARGE = (4096, 4096)


def bytes_per_parameter(*, has_weights_beside_master: bool = True, **training: Any) -> float:
    """Of a large matrix in a layer."""
    parts = saved_parts(Training.model_validate(training), has_weights_beside_master=has_weights_beside_master)
    return sum(part.tensor_bytes(LARGE, role="hidden-matrix") for part in parts) / 4096**2


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


@pytest.mark.parametrize(
    ("training", "has_weights_beside_master", "framework"),
    [
        ({"framework": "fsdp2"}, True, "FSDP2, fp32 parameters, bf16 compute, torch DCP"),
        ({"framework": "fsdp2", "precision": "bf16"}, True, "FSDP2, pure bf16 parameters, torch DCP"),
        ({"framework": "deepspeed"}, True, "DeepSpeed ZeRO-1 bf16"),
        ({"framework": "deepspeed"}, False, "DeepSpeed ZeRO-3 bf16"),
    ],
)
def test_a_framework_saves_what_it_was_measured_to_save(
    training: dict[str, Any], has_weights_beside_master: bool, framework: str
) -> None:
    rows = [row for row in published("framework_checkpoints")["rows"] if row["framework"] == framework]
    for row in rows:
        found = bytes_per_parameter(has_weights_beside_master=has_weights_beside_master, **training)
        assert found == pytest.approx(row["bytes_per_parameter"], rel=0.005)
    assert rows


@pytest.mark.parametrize("optimizer", get_args(Optimizer))
def test_an_optimizer_keeps_what_was_measured_on_the_same_tensors(optimizer: Optimizer) -> None:
    """The measured shape: Llama, h 512, 4 layers, ffn 1408, V 32000, untied; 45,617,664 parameters, 39 tensors."""
    assert num_parameters(inventory_of(MEASURED_SHAPE)) == 45_617_664
    rows = {row["optimizer"]: row["bytes_per_parameter"] for row in published("optimizer_state_bytes")["rows"]}
    measured = rows[MEASURED_OPTIMIZERS[optimizer]]
    assert moment_bytes_per_parameter(optimizer) == pytest.approx(measured, rel=0.005, abs=0.002)


def test_moments_follow_bf16_parameters() -> None:
    row = next(r for r in published("optimizer_state_bytes")["rows"] if r["optimizer"].startswith("adamw, bf16"))
    parts = saved_parts(Training(framework="fsdp2", precision="bf16"))
    moments = next(part for part in parts if part.name == "moments")
    found = moments.tensor_bytes(LARGE, role="hidden-matrix") / 4096**2
    assert found == pytest.approx(row["bytes_per_parameter"], rel=0.005)


def test_muon_keeps_one_moment_of_matrices_and_adam_two_of_the_rest() -> None:
    parts = {part.name: part for part in saved_parts(Training(optimizer="muon"))}
    assert parts["moments"].tensor_bytes((10, 10), role="hidden-matrix") == 400
    assert parts["moments"].tensor_bytes((10, 10), role="other") == 800


@pytest.mark.parametrize(
    ("saved_state", "total"),
    [({"weights": "fp8", "moments": "bf16"}, 9), ({"moments": "bf16"}, 10), ({}, 14)],
)
def test_deepseek_v3_can_be_said_with_fp8_weights_and_bf16_moments(saved_state: dict[str, Any], total: int) -> None:
    assert bytes_per_parameter(saved_state=saved_state) == total


def test_eight_bit_adam_with_mixed_precision_saves_the_published_recipe() -> None:
    assert bytes_per_parameter(optimizer="adam-8bit") == pytest.approx(
        published_total("bf16 + master + 8-bit adam"), rel=0.001
    )


def test_eight_bit_adam_keeps_the_embedding_in_32_bits_and_the_head_in_8() -> None:
    """As transformers' Trainer has bitsandbytes do, which registers every nn.Embedding."""
    groups = {group.role: group for group in inventory_of(MEASURED_SHAPE) if group.name in ("embedding", "output_head")}
    (part,) = [part for part in saved_parts(Training(optimizer="adam-8bit")) if part.name == "moments"]
    values = 32_000 * 512
    assert group_bytes(groups["embedding"], part) == 2 * 4 * values
    assert group_bytes(groups["other"], part) == 2 * (values + 4 * values // 256)


def test_a_precision_that_a_framework_does_not_have_is_refused() -> None:
    known = "bf16-mixed, fp16-mixed, fp8-mixed, mxfp8-mixed, nvfp4-mixed, fp32"
    with pytest.raises(InvalidInput, match=f"must be one of {known} with framework megatron"):
        saved_parts(Training(precision="bf16"))


@pytest.mark.parametrize("optimizer", ["adam-8bit", "adafactor"])
def test_moments_with_a_format_of_their_own_take_no_dtype(optimizer: str) -> None:
    with pytest.raises(ValidationError, match="format of its own"):
        Training.model_validate({"optimizer": optimizer, "saved_state": {"moments": "bf16"}})


@pytest.mark.parametrize(
    ("name", "moments"),
    [
        ("adamw_torch_fused", 8),
        ("paged_adamw_32bit", 8),
        ("distributed_fused_adam", 8),
        ("paged_adamw_8bit", 2 + 2 * 4 / 256),
        ("adamw_bnb_8bit", 2 + 2 * 4 / 256),
        ("ademamix", 12),
        ("paged_ademamix_8bit", 3 + 3 * 4 / 256),
    ],
)
def test_an_optimizer_is_known_by_the_names_of_configs(name: str, moments: float) -> None:
    """Bytes per value: two moments of Adam and three of AdEMAMix, in fp32 or in 8 bits with a scale per 256."""
    (part,) = (each for each in saved_parts(Training.model_validate({"optimizer": name})) if each.name == "moments")
    assert part.tensor_bytes((1024, 1024), role="hidden-matrix") == moments * 1024**2


def test_a_near_optimizer_is_proposed_with_the_bytes_that_it_keeps() -> None:
    with pytest.raises(InvalidInput, match=r"the nearest, adagrad, keeps 4 bytes of each value; choose what keeps"):
        scenario_from({"model": {"preset": "gpt2"}, "training": {"optimizer": "adagrad-da"}})


@pytest.mark.parametrize(
    "name", ["rowwise-adagrad", "rowwise_adagrad", "RowWiseAdagrad", "EXACT_ROWWISE_ADAGRAD", "exact_row_wise_adagrad"]
)
def test_row_wise_adagrad_keeps_a_value_of_each_row_of_a_table(name: str) -> None:
    """A DLRM of 104.5 GB of fp32 tables, cut by rows over 16 ranks: 204 million rows of 128 values, 4 bytes for each.

    Plain Adagrad would keep as much as the tables weigh.
    """
    table = {"name": "embedding_bags.t_{0..9}.weight", "shape": [20_000_000, 128], "dtype": "float32"}
    rest = {"name": "embedding_bags.t_10.weight", "shape": [4_062_500, 128], "dtype": "float32"}
    report = answer(
        {
            "model": {"tensors": [table, rest]},
            "training": {"framework": "fsdp2", "precision": "fp32", "optimizer": name},
            "parallelism": {"data": 16},
        }
    )
    parts = report.checkpoint.parts
    assert parts["weights"].total_bytes == 104_480_000_000
    assert parts["moments"].total_bytes == 4 * 204_062_500
    assert report.layout.largest_over_mean == pytest.approx(1, rel=1e-4)


@pytest.mark.parametrize(
    ("saved_state", "told"),
    [
        ({"moments": "bf16"}, ["training.saved_state.moments"]),
        ({"master": "bf16", "moments": "bf16"}, ["training.saved_state.master", "training.saved_state.moments"]),
        ({"ema": "fp32"}, ["training.saved_state.ema"]),
        ({"moments": None}, []),
        ({"moments": "fp32"}, []),
        ({"weights": "fp8-block"}, []),
        ({"weights_alone": True}, []),
    ],
)
def test_saved_dtypes_that_gpu_memory_is_counted_without_are_told(saved_state: dict[str, Any], told: list[str]) -> None:
    def answered(state: dict[str, Any]) -> SizingReport:
        training = {"framework": "megatron", "distributed_optimizer": True, "saved_state": state}
        cluster = {"node": "dgx-h100"}
        model, degrees = {"preset": "llama-3-8b"}, {"data": 8}
        return answer({"model": model, "training": training, "parallelism": degrees, "cluster": cluster})

    report = answered(saved_state)
    warnings = [each for each in report.warnings if "GPU memory is counted" in each]
    assert len(warnings) == len(told)
    assert all(field in warning for field, warning in zip(told, warnings, strict=True))
    assert report.training.gpu_state_bytes == answered({}).training.gpu_state_bytes
