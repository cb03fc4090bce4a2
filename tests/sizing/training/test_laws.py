"""Laws of what stays in a GPU's memory, whatever the layout; buffers and gathered weights apart."""

import itertools
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from sizing.report import answer
from sizing.training import GpuMemory
from tests.examples import examples

SHAPE = {"family": "llama", "hidden_size": 512, "num_layers": 8, "num_attention_heads": 8, "ffn_hidden_size": 1376}
SEQUENCE, HIDDEN_BYTES = 1024, 2 * 512


def memory(training: dict[str, Any], **degrees: Any) -> GpuMemory:
    shape = SHAPE | {"vocab_size": 4096}
    step = {"sequence_length": SEQUENCE, "micro_batch_size": 1, "global_batch_size": 16}
    model = {"architecture": shape}
    return answer({"model": model, "training": step | training, "parallelism": degrees}).training


@examples(6)
@given(
    pipeline=st.sampled_from([1, 2, 4]),
    tensor=st.sampled_from([1, 2, 4]),
    micro_batch_size=st.sampled_from([1, 2]),
    attention=st.sampled_from(["flash", "eager"]),
)
def test_to_compute_one_layer_more_again_keeps_no_more_than_its_input(
    pipeline: int, tensor: int, micro_batch_size: int, attention: str
) -> None:
    """From nothing to whole chunks, layer by layer; each in flight keeps the input of what is computed again."""
    training = {"micro_batch_size": micro_batch_size, "attention": attention}
    degrees = {"pipeline": pipeline, "tensor": tensor}
    layers = 8 // pipeline
    counts: list[dict[str, Any]] = [{"recomputation": "full", "recomputed_layers": k} for k in range(1, layers)]
    steps: list[dict[str, Any]] = [{"recomputation": "none"}, *counts, {"recomputation": "full"}]
    found = [memory(training | each, **degrees) for each in steps]
    for less, more in itertools.pairwise(found):
        in_flight = more.in_flight_microbatches or 0
        unit = in_flight * micro_batch_size * SEQUENCE * HIDDEN_BYTES / tensor
        assert (more.activation_bytes or 0) <= (less.activation_bytes or 0) + unit + 1
    assert (found[-1].activation_bytes or 0) < (found[0].activation_bytes or 0)
    selective = memory(training | {"recomputation": "selective"}, **degrees)
    assert (selective.activation_bytes or 0) <= (found[0].activation_bytes or 0)


@examples(6)
@given(
    data=st.sampled_from([1, 2, 4, 8, 16]),
    precision=st.sampled_from(["bf16-mixed", "fp16-mixed", "fp32"]),
    optimizer=st.sampled_from(["adam", "sgd", "adafactor"]),
)
def test_a_higher_stage_of_zero_never_keeps_more_but_for_its_copy_of_fp32_weights(
    data: int, precision: str, optimizer: str
) -> None:
    """ZeRO 1 and 2 keep a share of the fp32 weights beside them: 4 bytes over the ranks."""
    training = {"framework": "deepspeed", "precision": precision, "optimizer": optimizer}
    states = [memory(training, data=data, zero_stage=stage).gpu_state_bytes for stage in range(4)]
    num_parameters = answer({"model": {"architecture": SHAPE | {"vocab_size": 4096}}}).model.num_parameters
    copied = 4 * num_parameters / data if precision == "fp32" else 0
    assert states[1] <= states[0] + copied + 1
    assert states[3] <= states[2] <= states[1]
    assert (states[3] < states[0]) == (data > 1)
