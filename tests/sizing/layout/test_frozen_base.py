"""Frozen weights under adapters: what they weigh in 16, 8 and 4 bits, in a checkpoint and on a GPU."""

from typing import Any

import pytest

from sizing.errors import InvalidInput
from sizing.layout import Parallelism
from sizing.model.inventory import TensorGroup
from sizing.report import SizingReport, answer
from sizing.state.scaled_dtypes import QuantizedDtype, scaled_bytes
from sizing.training.in_flight import InFlight, in_flight_of_fsdp

STATE_DICT_BYTES: dict[tuple[QuantizedDtype, tuple[int, int]], tuple[int, int]] = {
    ("nf4", (4096, 4096)): (9_437_184, 9_437_329),
    ("fp4", (14336, 4096)): (33_030_144, 33_030_290),
    ("nf4-double", (4096, 4096)): (8_654_848, 8_656_105),
    ("nf4-double", (14336, 4096)): (30_291_968, 30_293_227),
    ("nf4", (100, 30)): (1_688, 1_830),
    ("fp4-double", (100, 30)): (1_551, 2_806),
    ("int8", (1024, 4096)): (4_198_400, 4_198_401),
}
"""Bytes of values and scales, and of all that the state dict of a Linear4bit or Linear8bitLt holds, as bitsandbytes
0.50.2 makes them on a CPU. The rest is tables of levels."""
MAX_TABLE_BYTES = 1400

MATRICES = 80 * (2 * 8192 * 8192 + 2 * 1024 * 8192 + 3 * 29568 * 8192)
"""Values in the layers' matrices of Qwen2.5-72B, of which embeddings and head have VOCABULARY, the rest OTHERS."""
VOCABULARY = 2 * 152064 * 8192
OTHERS = 72_706_203_648 - MATRICES - VOCABULARY
ADAPTERS = 80 * 16 * (8192 + 8192 + 8192 + 1024)
DOUBLE_SCALES = MATRICES / 64 + 4 * MATRICES / 64 / 256


def report_of(adapters: dict[str, Any], *, framework: str = "fsdp2", **blocks: Any) -> SizingReport:
    training = {"framework": framework, "adapters": {"rank": 16, "save_base": True} | adapters}
    scenario = {"model": {"preset": "qwen2.5-72b"}, "parallelism": {"data": 8}, "training": training}
    return answer(scenario | {"checkpoint": {"format": "full"}} | blocks)


@pytest.mark.parametrize(("dtype", "shape"), list(STATE_DICT_BYTES))
def test_a_quantised_matrix_has_the_bytes_of_its_state_dict_in_bitsandbytes(
    dtype: QuantizedDtype, shape: tuple[int, int]
) -> None:
    values_and_scales, all_bytes = STATE_DICT_BYTES[dtype, shape]
    assert scaled_bytes(dtype, shape, role="hidden-matrix") == values_and_scales
    assert 0 <= all_bytes - values_and_scales <= MAX_TABLE_BYTES


def test_a_base_in_4_bits_saved_by_fsdp_weighs_what_was_published() -> None:
    """Qwen2.5-72B, LoRA of rank 16, FSDP on 8 GPUs: pytorch_model_fsdp.bin of 36,981,387,757 bytes.

    Embeddings and head are there as rank 0's eighth alone: saved by torch 2.13 without them it has 36.36 GB, with them
    whole 41.34 GB, and so 36.981 GB. Source: MakazhanAlpamys/Soup, benchmarks/gate-h100-validation.md, step 28.
    """
    checkpoint = report_of({"base_dtype": "nf4"}).checkpoint
    weights = checkpoint.parts["weights"].logical_bytes
    assert weights - 7 / 8 * 2 * VOCABULARY == pytest.approx(36_981_387_757, rel=1e-4)
    assert checkpoint.parts["moments"].logical_bytes == pytest.approx(262_476_043, rel=2e-3)
    assert checkpoint.parts["weights"].dtype == "fp32, of frozen tensors nf4-double"


@pytest.mark.parametrize(
    ("adapters", "matrix_bytes", "other_bytes"),
    [
        ({}, 2, 2),
        ({"base_dtype": "fp32"}, 4, 4),
        ({"base_dtype": "4bit"}, 0.5 + DOUBLE_SCALES / MATRICES, 2),
        ({"base_dtype": "fp4", "double_quant": False}, 0.5 + 4 / 64, 2),
        ({"base_dtype": "fp8-block"}, 1 + 4 / 128**2, 2),
    ],
)
def test_the_frozen_weights_are_saved_in_their_own_dtype(
    adapters: dict[str, Any], matrix_bytes: float, other_bytes: float
) -> None:
    expected = MATRICES * matrix_bytes + (VOCABULARY + OTHERS) * other_bytes
    weights = report_of(adapters).checkpoint.parts["weights"].logical_bytes - 4 * ADAPTERS
    assert weights == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(("base_dtype", "num_bytes"), [(None, 4), ("bf16", 2)])
def test_a_dtype_of_all_saved_weights_goes_before_the_default_of_the_base(
    base_dtype: str | None, num_bytes: int
) -> None:
    adapters = {"rank": 16, "save_base": True, "base_dtype": base_dtype}
    training = {"framework": "fsdp2", "adapters": adapters, "saved_state": {"weights": "fp32"}}
    checkpoint = report_of({}, training=training).checkpoint
    assert checkpoint.parts["weights"].logical_bytes == 4 * ADAPTERS + num_bytes * 72_706_203_648


@pytest.mark.parametrize(("name", "num_bytes"), [("torchtitan", 4), ("maxtext", 4), ("verl", 4), ("trl", 4)])
def test_trainers_whose_weights_are_all_of_one_dtype_keep_the_base_in_it(name: str, num_bytes: int) -> None:
    checkpoint = report_of({"tensors": "q_proj,v_proj"}, framework=name, checkpoint={}).checkpoint
    assert checkpoint.parts["weights"].logical_bytes == 4 * ADAPTERS + num_bytes * 72_706_203_648


@pytest.mark.parametrize(
    ("adapters", "matrix_bytes"),
    [({"base_dtype": "4bit"}, 0.5 + 4 / 64), ({"base_dtype": "4bit", "double_quant": True}, None), ({}, 4)],
)
def test_trl_quantises_scales_once_unless_told(adapters: dict[str, Any], matrix_bytes: float | None) -> None:
    """TRL's use_bnb_nested_quant is off; weights that it does not quantise are loaded in fp32 by default."""
    weights = report_of(adapters, framework="trl", checkpoint={}).checkpoint.parts["weights"].logical_bytes
    other_bytes, of_adapters = (4, 4) if not adapters else (2, 2)
    of_matrices = MATRICES * matrix_bytes if matrix_bytes else MATRICES / 2 + DOUBLE_SCALES
    assert weights == pytest.approx(
        of_matrices + other_bytes * (VOCABULARY + OTHERS) + of_adapters * ADAPTERS, rel=1e-9
    )


@pytest.mark.parametrize(
    ("training", "base_bytes"),
    [
        ({}, 4),
        ({"precision": "bf16"}, 2),
        ({"adapters": {"rank": 16, "tensors": "q_proj", "save_base": False}}, 0),
        ({"framework": "fsdp2"}, 0),
    ],
)
def test_verl_saves_the_frozen_weights_beside_adapters(training: dict[str, Any], base_bytes: int) -> None:
    """FSDPCheckpointManager of verl saves the state dict of the whole wrapped model."""
    of_verl = {"framework": "verl", "adapters": {"rank": 16, "tensors": "q_proj"}}
    report = answer({"model": {"preset": "llama-3.1-8b"}, "training": of_verl | training})
    adapters = 32 * 16 * (4096 + 4096)
    assert report.checkpoint.logical_bytes == (base_bytes or 4) * 3 * adapters + base_bytes * 8_030_261_248
    said = [each.reason for each in report.assumptions if each.field == "training.adapters.save_base"]
    shipped = ["default of verl, FSDPCheckpointManager, which saves the whole wrapped model"]
    assert said == (shipped if base_bytes else [] if "adapters" in training else ["default"])


def test_a_gpu_has_its_share_of_the_values_and_all_scales_of_a_base_in_4_bits() -> None:
    report = report_of({"base_dtype": "nf4", "save_base": False})
    shared = MATRICES / 2 + 2 * (VOCABULARY + OTHERS) + ADAPTERS * (4 + 4 + 8)
    assert report.training is not None
    assert report.training.gpu_state_bytes == pytest.approx(shared / 8 + DOUBLE_SCALES, rel=1e-9)


STEP = {"sequence_length": 512, "micro_batch_size": 1, "recomputation": "full"}


def working_bytes(adapters: dict[str, Any], *, framework: str = "fsdp2", **degrees: int) -> int:
    training = {"framework": framework, "adapters": {"rank": 16} | adapters, **STEP}
    memory = report_of({}, training=training, checkpoint={}, parallelism={"data": 8} | degrees).training
    assert memory is not None
    assert memory.working_bytes is not None
    return memory.working_bytes


@pytest.mark.parametrize(("base_dtype", "matrix_bytes"), [("nf4", 0.5), ("int8", 1)])
def test_fsdp_gathers_two_layers_as_they_are_kept_and_a_product_needs_one_matrix_in_16_bits(
    base_dtype: str, matrix_bytes: float
) -> None:
    less = 2 * (2 - matrix_bytes) * MATRICES / 80 - 2 * 29568 * 8192
    assert working_bytes({"base_dtype": "bf16"}) - working_bytes({"base_dtype": base_dtype}) == less


@pytest.mark.parametrize(
    ("frozen_matrix_bytes", "loss", "layer"),
    [
        (None, 2 * (10 + 12 + 3), 2 * (10 + 2 * 15) + (2 + 4) * 3),
        (0.5, 2 * (10 + 3) + 6, 2 * 10 + 2 * 12 + (2 + 4) * 3),
    ],
)
def test_frozen_weights_have_no_gradients_in_flight(
    frozen_matrix_bytes: float | None, loss: float, layer: float
) -> None:
    """A head of 10 values, and in each layer a frozen matrix of 12 with an adapter of 3; bf16, reduced in fp32."""
    base = TensorGroup("w", (4, 3), 4, layers=range(2), is_trained=False)
    adapter = TensorGroup("w.adapter_in", (1, 3), 1, layers=range(2))
    head = TensorGroup("head", (5, 2), 5, "last-stage", is_trained=False)
    beside = in_flight_of_fsdp(
        (base, adapter, head),
        Parallelism(),
        value_bytes=2,
        reduced_bytes=4,
        frozen_matrix_bytes=frozen_matrix_bytes,
    )
    assert beside == InFlight(loss=loss, layer=layer, end=2 * 10)


@pytest.mark.parametrize(("framework", "degrees"), [("ddp", {}), ("deepspeed", {"zero_stage": 2})])
def test_buckets_hold_the_gradients_of_adapters_alone(framework: str, degrees: dict[str, int]) -> None:
    assert working_bytes({}, framework=framework, **degrees) < 8e8


@pytest.mark.parametrize(("format_name", "adapter_bytes"), [("torch-dist", 14), ("megatron", 14), ("fsdp-dtensor", 12)])
def test_files_of_megatron_have_the_same_bytes_together(format_name: str, adapter_bytes: int) -> None:
    """Megatron-FSDP alone saves no bf16 weights beside the master copy."""
    adapters = {"rank": 16, "save_base": True, "base_dtype": "nf4"}
    training = {"distributed_optimizer": format_name != "megatron", "adapters": adapters}
    checkpoint = {"format": format_name}
    report = report_of({}, parallelism={"data": 4, "tensor": 2}, checkpoint=checkpoint, training=training)
    expected = MATRICES / 2 + DOUBLE_SCALES + 2 * (VOCABULARY + OTHERS) + adapter_bytes * ADAPTERS
    assert report.checkpoint.logical_bytes == pytest.approx(expected, rel=1e-6)
    classes = report.layout.rank_classes
    assert sum(each.num_ranks * each.bytes_per_rank for each in classes) == report.checkpoint.total_bytes


def test_scales_can_be_quantised_again_in_4_bits_alone() -> None:
    with pytest.raises(InvalidInput, match="has double_quant with base_dtype int8: give base_dtype nf4 or fp4"):
        report_of({"base_dtype": "int8", "double_quant": True})


@pytest.mark.parametrize(("base_dtype", "assumed"), [(None, "bf16"), ("nf4", None)])
def test_what_nobody_said_of_the_base_is_among_the_assumptions(base_dtype: str | None, assumed: str | None) -> None:
    assumptions = {each.field: each.value for each in report_of({"base_dtype": base_dtype}).assumptions}
    assert assumptions.get("training.adapters.base_dtype") == assumed
    assert ("training.adapters.double_quant" in assumptions) is (base_dtype == "nf4")


EXPERTS = 48 * 128 * 3 * 2048 * 768
"""Values of the routed experts of Qwen3-30B-A3B, 28.99e9 of its 30.53e9."""


def of_experts(adapters: dict[str, Any], **training: Any) -> SizingReport:
    training = {"framework": "transformers", "adapters": {"rank": 16, "save_base": True} | adapters} | training
    model, cluster = {"preset": "qwen3-30b-a3b"}, {"node": "dgx-h100"}
    return answer({"model": model, "training": training, "parallelism": {"data": 8}, "cluster": cluster})


@pytest.mark.parametrize("base_dtype", ["nf4", "int8"])
def test_bitsandbytes_leaves_experts_and_routers_of_transformers_in_16_bits(base_dtype: str) -> None:
    """As transformers 5.23 keeps them in parameters of three dimensions, and it replaces linear modules alone."""
    whole, quantised = of_experts({}), of_experts({"base_dtype": base_dtype})
    attention = 48 * (2 * 32 * 128 * 2048 + 2 * 4 * 128 * 2048)
    saved = whole.checkpoint.parts["weights"].logical_bytes - quantised.checkpoint.parts["weights"].logical_bytes
    assert saved == pytest.approx(attention * {"nf4": 2 - 0.5 - 1 / 64, "int8": 1}[base_dtype], rel=1e-2)
    assert whole.training.gpu_state_bytes - quantised.training.gpu_state_bytes == pytest.approx(saved, rel=1e-2)
    assert quantised.training.gpu_state_bytes == pytest.approx(2 * EXPERTS + 1.85e9, rel=0.01)


@pytest.mark.parametrize(
    ("adapters", "trainer"),
    [({"quantize_experts": True}, {}), ({}, {"framework": "unsloth"})],
    ids=["given", "unsloth"],
)
def test_experts_are_quantised_where_somebody_does(adapters: dict[str, Any], trainer: dict[str, Any]) -> None:
    left = of_experts({"base_dtype": "nf4"}).training.gpu_state_bytes
    quantised = of_experts({"base_dtype": "nf4"} | adapters, **trainer).training.gpu_state_bytes
    assert left - quantised == pytest.approx(EXPERTS * (2 - 0.5 - 1 / 64 - 1 / 64 / 64), rel=1e-3)


def test_whether_experts_are_quantised_is_told_where_nobody_said_it() -> None:
    def told(adapters: dict[str, Any]) -> list[Any]:
        found = of_experts(adapters).assumptions
        return [each.value for each in found if each.field == "training.adapters.quantize_experts"]

    assert told({"base_dtype": "nf4"}) == [False]
    assert told({}) == told({"base_dtype": "nf4", "quantize_experts": False}) == []
    dense = report_of({"base_dtype": "nf4"}).assumptions
    assert not any(each.field == "training.adapters.quantize_experts" for each in dense)


def test_experts_are_quantised_with_their_base_alone() -> None:
    with pytest.raises(
        InvalidInput, match="has quantize_experts with base_dtype bf16: give base_dtype nf4, fp4 or int8"
    ):
        of_experts({"base_dtype": "bf16", "quantize_experts": True})
