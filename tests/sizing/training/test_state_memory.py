"""What a GPU keeps of each parameter, as the documentation of Megatron-LM says, and on which GPU it is most."""

import re
from typing import Any

import pytest

from sizing.layout import Parallelism
from sizing.layout.shards import Content
from sizing.published import published
from sizing.report import answer
from sizing.scenario import scenario_from
from sizing.state import Training
from sizing.training.state_memory import StateRule

OF_MEGATRON = published("zero_model_state_memory")["megatron_bytes_per_parameter"]
PARAMETER, NOTHING = Content(1, 1, {}, {}), Content(0, 0, {}, {})


@pytest.mark.parametrize("num_ranks", [1, 4, 64])
@pytest.mark.parametrize("row", OF_MEGATRON, ids=lambda row: row["parameters"])
def test_a_parameter_takes_what_the_documentation_of_megatron_says(row: dict[str, Any], num_ranks: int) -> None:
    precision: Any = "fp32" if row["parameters"] == "fp32" else f"{row['parameters']}-mixed"
    training, parallelism = Training(precision=precision), Parallelism(data=num_ranks)
    whole, shared = (float(number) for number in re.findall(r"\b\d+", row["distributed"]))
    plain = StateRule.of(training, parallelism, "megatron")
    distributed = StateRule.of(training, parallelism, "torch-dist")
    assert plain.rank_bytes(PARAMETER, NOTHING) == row["plain"]
    assert distributed.rank_bytes(PARAMETER, NOTHING) == whole + shared / num_ranks


def test_the_state_is_that_of_one_gpu() -> None:
    """Of DeepSeek-V3's stages the first holds most beside the experts, others hold most experts: no GPU holds both."""
    blocks = {
        "training": {"sequence_length": 1, "micro_batch_size": 1, "recomputation": "full"},
        "parallelism": {"pipeline": 16, "data": 128, "expert": 64},
        "checkpoint": {"format": "torch-dist"},
    }
    memory = answer(scenario_from({"model": {"preset": "deepseek-v3"}} | blocks)).training
    assert memory.total_bytes is not None
    assert memory.gpu_state_bytes <= memory.total_bytes < 1.01 * memory.gpu_state_bytes
