"""Predicted against published: every figure in `published/` that the calculation reproduces."""

from __future__ import annotations

from sizing.validation.checkpoint_sizes import framework_checkpoints, mlperf, mt_nlg, published_checkpoints
from sizing.validation.comparison import Comparison
from sizing.validation.gpu_memory_facts import gpu_memory_facts
from sizing.validation.incidents import incidents
from sizing.validation.intervals import intervals
from sizing.validation.measured_memory import measured_memory
from sizing.validation.optimizer_states import optimizer_states
from sizing.validation.parameter_counts import megatron_table, parameter_counts
from sizing.validation.published_throughputs import published_throughputs
from sizing.validation.reference_runs import gpt3_writers, reference_limits, reference_run
from sizing.validation.run_goodput import run_goodput
from sizing.validation.shipped_defaults import shipped_defaults
from sizing.validation.step_times import step_times
from sizing.validation.storage_times import storage_times


def comparisons() -> list[Comparison]:
    """All comparisons, by source."""
    return [
        *parameter_counts(),
        *megatron_table(),
        *reference_run(),
        *reference_limits(),
        *gpt3_writers(),
        *published_checkpoints(),
        *framework_checkpoints(),
        *optimizer_states(),
        *gpu_memory_facts(),
        *measured_memory(),
        *step_times(),
        *published_throughputs(),
        *shipped_defaults(),
        *mlperf(),
        *mt_nlg(),
        *storage_times(),
        *incidents(),
        *run_goodput(),
        *intervals(),
    ]
