"""How long data-parallel ranks exchange gradients and weights in a step."""

from __future__ import annotations

from collections.abc import Sequence

from sizing.layout import Parallelism
from sizing.layout.cells import Cell
from sizing.layout.gradient_errors import GradientErrors
from sizing.layout.sharding import Sharding
from sizing.state import Training
from sizing.training.execution import Execution, value_bytes
from sizing.training.time.links import Links


def exchange_seconds(
    training: Training,
    parallelism: Parallelism,
    *,
    cells: Sequence[Cell],
    sharding: Sharding,
    links: Links,
    execution: Execution,
    reduced: int,
) -> float:
    """Exchange of gradients and weights in a step, before computation hides any of it.

    r P gradients are reduce-scattered and w P weights gathered: once where weights are whole, gradients alone twice
    where nothing is sharded (an all-reduce); where layers are gathered, w P twice and r P once in each microbatch. Of
    compressed gradients what their method exchanges; the time to compress them is not counted. A device of a schedule
    that runs both ways exchanges both of its stages.
    Source: Rajbhandari et al. 2020, arXiv 1910.02054, section 7; links: Links.collective_seconds.
    Eight GPUs reduce 4 bytes and gather 2 of a parameter over links of 301.5 GB/s, after 30 us each for dense and
    expert tensors:

    >>> from sizing.report import answer
    >>> batch = {"sequence_length": 2048, "micro_batch_size": 1, "global_batch_size": 8}
    >>> training = batch | {"distributed_optimizer": True}
    >>> asked = {"model": {"preset": "llama-3.1-8b"}, "training": training, "parallelism": {"data": 8}}
    >>> step = answer(asked | {"cluster": {"node": "dgx-h100"}}).training.step
    >>> round(step.exchange_seconds - 60e-6 - 6 * 8_030_261_248 * 7 / 8 / (0.67 * 450e9), 6)
    0.0
    """
    per_parameter = _bytes_per_parameter(training, sharding, execution, reduced)
    compressed = GradientErrors.of(training, parallelism)
    dense, expert = parallelism.replicas
    stride_of_experts = parallelism.expert * parallelism.expert_tensor_degree

    def seconds(cell: Cell) -> float:
        moved = [per_parameter * part.parameters for part in (cell.dense, cell.expert)]
        of_dense, of_experts = moved if compressed is None else compressed.exchanged_bytes(cell)
        found = links.collective_seconds(of_dense, num_ranks=dense, stride=parallelism.tensor)
        return found + links.collective_seconds(of_experts, num_ranks=expert, stride=stride_of_experts)

    longest: dict[int, float] = {}
    for cell in cells:
        found = seconds(cell)
        longest |= {stage: max(found, longest.get(stage, 0.0)) for stage in cell.span.stages}
    if not execution.rules.is_two_way:
        return max(longest.values())
    return max(longest[stage] + longest[execution.num_stages - 1 - stage] for stage in longest)


def _bytes_per_parameter(training: Training, sharding: Sharding, execution: Execution, reduced: int) -> float:
    w = value_bytes(training)
    if sharding.gathers in ("layers", "modules"):
        return (2.0 * w + reduced) * (execution.num_microbatches or 1)
    if sharding.optimizer.dense > 1 or sharding.gathers == "stages":
        return float(w + reduced)
    return 2.0 * reduced
