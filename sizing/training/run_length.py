"""The `run_length` block of the report: steps, time and checkpoints of the whole run."""

from __future__ import annotations

import math

from pydantic import Field

from sizing.state import Training
from sizing.strict_model import StrictModel


class RunLength(StrictModel):
    """The `run_length` block of the report."""

    batch_tokens: int = Field(description="Tokens of one optimizer step: global_batch_size x sequence_length.")
    num_steps: int = Field(description="How often the optimizer updates the weights from start to end, rounded up.")
    num_tokens: int = Field(description="Tokens in the batches of all num_steps together.")
    min_steps: int | None = Field(
        description="Fewest steps that any batch size needs. Null without training.critical_batch_tokens."
    )
    training_seconds: float | None = Field(
        description="Seconds of useful work: the steps alone. Null without training.step_seconds."
    )
    wall_seconds: float | None = Field(
        description="Seconds from start to end, with what saves and, where they are known, failures cost. "
        "Null without training.step_seconds, or where no time is useful."
    )
    num_checkpoints: int | None = Field(
        description="Checkpoints that the run saves to the main storage. Null without wall_seconds."
    )
    interval_steps: float | None = Field(
        description="Interval between checkpoints as a number of steps. Null without training.step_seconds."
    )


def steps_of_run(num_tokens: float, *, batch_tokens: float, critical_batch_tokens: float | None) -> float:
    """Return the optimizer steps that reach the loss: S = S_min (1 + B_crit / B), S_min = E_min / B_crit; else E / B.

    Args: E_min = `num_tokens` that small batches need, B tokens of a batch, B_crit the critical batch; all one E
    without it.
    Source: McCandlish et al. 2018, arXiv 1812.06162, equations 2.11 and 2.12: (S/S_min - 1)(E/E_min - 1) = 1.

    >>> steps_of_run(1e12, batch_tokens=4e6, critical_batch_tokens=4e6)  # twice the fewest steps, twice the tokens
    500000.0
    >>> steps_of_run(1e12, batch_tokens=4e6, critical_batch_tokens=None)
    250000.0
    """
    if critical_batch_tokens is None:
        return num_tokens / batch_tokens
    return num_tokens / critical_batch_tokens * (1 + critical_batch_tokens / batch_tokens)


def learning_rate_factor(before_tokens: float, after_tokens: float, *, critical_batch_tokens: float | None) -> float:
    """Return by how much the best learning rate grows from one batch to another: (1 + B_crit/B)/(1 + B_crit/B').

    Args: B and B' tokens of the batches, B_crit the critical one. Without it B'/B, the linear rule, to which this comes
    for batches far below the critical one.
    Source: McCandlish et al. 2018, arXiv 1812.06162, section 2.2; Goyal et al. 2017, arXiv 1706.02677, section 2.1.

    >>> learning_rate_factor(2e6, 4e6, critical_batch_tokens=None)
    2.0
    >>> learning_rate_factor(4e6, 8e6, critical_batch_tokens=4e6)
    1.3333333333333333
    """
    if critical_batch_tokens is None:
        return after_tokens / before_tokens
    return (1 + critical_batch_tokens / before_tokens) / (1 + critical_batch_tokens / after_tokens)


def run_length(training: Training, *, interval_seconds: float, useful_fraction: float | None) -> RunLength | None:
    """Return the `run_length` block of the report; None without the run's tokens. Unknown losses count as none."""
    tokens, batch, length = training.num_tokens, training.global_batch_size, training.sequence_length
    if tokens is None or batch is None or length is None:
        return None
    critical = training.critical_batch_tokens
    steps = math.ceil(steps_of_run(tokens, batch_tokens=batch * length, critical_batch_tokens=critical))
    seconds = None if training.step_seconds is None else steps * training.step_seconds
    useful = 1.0 if useful_fraction is None else useful_fraction
    wall = seconds / useful if seconds is not None and useful > 0 else None
    return RunLength(
        batch_tokens=batch * length,
        num_steps=steps,
        num_tokens=steps * batch * length,
        min_steps=None if critical is None else math.ceil(tokens / critical),
        training_seconds=seconds,
        wall_seconds=wall,
        num_checkpoints=None if wall is None else int(wall // interval_seconds),
        interval_steps=None if training.step_seconds is None else interval_seconds / training.step_seconds,
    )
