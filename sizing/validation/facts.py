"""Predicted against published: every fact in `published/` that the calculation reproduces."""

from __future__ import annotations

from sizing.validation.checkpoint_sizes import framework_checkpoints, mlperf
from sizing.validation.comparison import Comparison
from sizing.validation.gpu_memory_facts import gpu_memory_facts
from sizing.validation.intervals import intervals
from sizing.validation.parameter_counts import megatron_table, parameter_counts
from sizing.validation.reference_runs import gpt3_writers, reference_limits, reference_run
from sizing.validation.storage_times import storage_times


def comparisons() -> list[Comparison]:
    """All comparisons, by source."""
    return [
        *parameter_counts(),
        *megatron_table(),
        *reference_run(),
        *reference_limits(),
        *gpt3_writers(),
        *gpu_memory_facts(),
        *mlperf(),
        *storage_times(),
        *framework_checkpoints(),
        *intervals(),
    ]
